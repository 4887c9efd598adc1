//! What people get wrong, and what they read then.

use crate::program::Folder;

/// Runs a script; gives the exit code and what it says.
fn run(script: &str, args: &[&str]) -> (i32, String) {
    let output = Folder::with(script).run(args);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn wrong_sql_is_shown_where_it_is_wrong() {
    let (code, text) = run("SELECT 1;\nSELECT a,, b\n", &[]);
    assert_eq!(code, 1);
    assert!(text.contains("pipeline.sql: line 2, column 10: expected an expression"), "{text}");
    assert!(text.contains("2 | SELECT a,, b\n"), "{text}");
}

#[test]
fn nothing_runs_before_the_whole_script_is_read() {
    let folder = Folder::with("CREATE STREAMING TABLE t AS SELECT * FROM STREAM rate(); CRATE x;");
    assert_eq!(folder.run(&[]).status.code(), Some(1));
    assert!(!folder.path().join(".fluvial").exists());
}

#[test]
fn wrong_usage_ends_with_two() {
    for (args, expected) in [
        (&["--trigger", "soon"][..], "none of default, once, available-now"),
        (&["--set", "state.partition=4"], "state.partitions"),
        (&["--set", "state.partitions=many"], "state.partitions"),
    ] {
        let (code, text) = run("SELECT 1", args);
        assert_eq!(code, 2, "{text}");
        assert!(text.contains(expected), "{text}");
    }
    let nowhere = Folder::new();
    let output = nowhere.run(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("there is no file pipeline.sql"));
    for place in [".", "not/there"] {
        let output = nowhere.fluvial(&["checkpoint", "show", place]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
    }
    assert!(!nowhere.path().join("not").exists());
}

#[test]
fn names_that_are_almost_right_are_told() {
    let folder = Folder::with(
        "CREATE STREAMING TABLE t USING noop AS SELECT * FROM STREAM \
         read_files('.', format => 'json', schema => 'a int', maxFilePerTrigger => 1)",
    );
    let output = folder.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("pipeline.sql: line 1, column 54: unknown option"), "{text}");
    assert!(text.contains("maxFilesPerTrigger"), "{text}");
}

#[test]
fn a_source_that_is_not_there_is_named() {
    let script = "CREATE STREAMING TABLE t USING noop AS SELECT * FROM STREAM \
                  read_files('landing', format => 'json', schema => 'a int')";
    let (code, text) = run(script, &[]);
    assert_eq!(code, 1);
    assert!(text.contains("landing"), "{text}");
}

#[test]
fn a_place_is_told_once_and_columns_as_they_were_written() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("in")).unwrap();
    let script = |column: &str| {
        format!(
            "CREATE STREAMING TABLE t USING noop AS SELECT {column} FROM STREAM \
             read_files('in', format => 'json', schema => 'page string, n int', mode => 'x')"
        )
    };
    let said = |script: String| {
        std::fs::write(folder.path().join("pipeline.sql"), script).unwrap();
        String::from_utf8(folder.run(&[]).stderr).unwrap()
    };
    let text = said(script("page"));
    assert_eq!(text.matches("line 1, column").count(), 1, "{text}");
    let text = said(script("paeg").replace(", mode => 'x'", ""));
    assert!(text.contains("no column `paeg`: did you mean `page`? there are page, n"), "{text}");
}

#[test]
fn damage_is_told_with_the_object_and_its_folder() {
    let folder = Folder::with_example("clickstream");
    assert_eq!(folder.run(&[]).status.code(), Some(0));
    let checkpoint = folder.path().join(".fluvial/checkpoints/page_views_5m");
    let newest = (0..).map(|n| checkpoint.join(format!("commits/{n}"))).take_while(|p| p.exists());
    let newest = newest.last().unwrap();
    let mut bytes = std::fs::read(&newest).unwrap();
    bytes[3] ^= 1;
    std::fs::write(&newest, bytes).unwrap();
    let output = folder.run(&[]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    for word in ["CHECKPOINT_ENTRY_CORRUPT", "page_views_5m: commits/", "restore it"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[cfg(not(feature = "kafka"))]
#[test]
fn a_program_without_kafka_says_so() {
    let script = "CREATE STREAMING TABLE t USING noop AS SELECT * FROM STREAM \
                  read_kafka(`kafka.bootstrap.servers` => 'b:9092', subscribe => 't')";
    let (code, text) = run(script, &[]);
    assert_eq!(code, 1);
    assert!(text.contains("build it with the feature kafka"), "{text}");
}

#[test]
#[cfg(target_os = "linux")]
fn rows_that_cannot_be_printed_are_no_success() {
    let folder = Folder::with("SELECT 1 AS a;");
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = folder.fluvial(&["run", "pipeline.sql"]);
    let output = command.stdout(full).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("No space left on device"), "{text}");
}

/// An output that takes nothing is an error, not a panic.
#[cfg(target_os = "linux")]
#[test]
fn an_output_that_is_full_is_an_error() {
    let folder = Folder::with(
        "CREATE STREAMING TABLE t USING json AS SELECT * FROM STREAM \
                               read_files('in', format => 'text')",
    );
    std::fs::create_dir(folder.path().join("in")).unwrap();
    std::fs::write(folder.path().join("in/a"), "x\n").unwrap();
    assert!(folder.run(&[]).status.success());
    let place = ".fluvial/checkpoints/t";
    for command in [["checkpoint", "show"], ["state", "verify"], ["state", "list"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut program = folder.fluvial(&[command[0], command[1], place]);
        let output = program.stdout(full).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{command:?}: {text}");
        assert!(text.contains("cannot print") && !text.contains("panicked"), "{text}");
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut program = folder.fluvial(&[command[0], command[1], "nowhere"]);
        let code = program.stderr(full).output().unwrap().status.code();
        assert!(matches!(code, Some(1 | 2)), "{command:?}: {code:?}");
    }
}

/// What libraries still do for another query ends with the program.
#[test]
fn a_query_that_fails_beside_another_leaves_no_panic() {
    let select = "FROM STREAM read_files('in', format => 'json', schema => 'a INT', \
                  maxFilesPerTrigger => 1)";
    let script = format!(
        "CREATE STREAMING TABLE good USING delta TBLPROPERTIES ('delta.checkpointInterval' = '2') \
         AS SELECT a {select};\nCREATE STREAMING TABLE bad USING delta AS SELECT 1 / (a - 9) AS b {select};"
    );
    for _ in 0..4 {
        let folder = Folder::with(&script);
        std::fs::create_dir(folder.path().join("in")).unwrap();
        for a in 0..20 {
            let file = folder.path().join(format!("in/{a:02}.json"));
            std::fs::write(file, format!("{{\"a\":{a}}}\n")).unwrap();
        }
        let output = folder.run(&[]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("DIVIDE_BY_ZERO") && !text.contains("panicked"), "{text}");
    }
}

//! Runs the program in a folder of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use tempfile::TempDir;

/// A folder to run in.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// With a script in it.
    pub(crate) fn with(script: &str) -> Self {
        let folder = Self::new();
        fs::write(folder.path().join("pipeline.sql"), script).unwrap();
        folder
    }

    /// With a copy of an example, without what runs of it have left behind.
    pub(crate) fn with_example(name: &str) -> Self {
        let folder = Self::new();
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        copy(&examples.join(name), folder.path());
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs the script to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.fluvial(&[&["run", "pipeline.sql"], args].concat()).output().unwrap()
    }

    /// The program with arguments.
    pub(crate) fn fluvial(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fluvial"));
        command.args(args).current_dir(self.path());
        command
    }

    /// Starts the script.
    pub(crate) fn start(&self, args: &[&str]) -> Started {
        let mut child = self
            .fluvial(&[&["run", "pipeline.sql"], args].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Started { child, out }
    }
}

/// A program that runs.
pub(crate) struct Started {
    pub(crate) child: Child,
    out: BufReader<ChildStdout>,
}

impl Started {
    /// Waits for the first batch.
    pub(crate) fn with_a_batch(mut self) -> Self {
        let mut first = String::new();
        self.out.read_line(&mut first).unwrap();
        if !first.starts_with('{') {
            let (_, out, errors) = self.end();
            panic!("no batch, but {first:?}{out}\n{errors}");
        }
        self
    }

    /// Waits for the end; gives the exit code and what was printed.
    pub(crate) fn end(mut self) -> (i32, String, String) {
        let mut out = String::new();
        std::io::Read::read_to_string(&mut self.out, &mut out).unwrap();
        let output = self.child.wait_with_output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap_or(-1), out, errors)
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry: PathBuf = entry.unwrap().path();
        let name = entry.file_name().unwrap();
        if entry.is_file() {
            fs::copy(&entry, to.join(name)).unwrap();
        } else if name != "out" && name != ".fluvial" && name != "warehouse" {
            copy(&entry, &to.join(name));
        }
    }
}

/// What a program printed, if it ended well.
pub(crate) fn printed(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The lines of a table in what was printed, without rules and heading.
pub(crate) fn table_rows(printed: &str) -> Vec<Vec<String>> {
    let lines = printed.lines().filter(|line| line.starts_with('|')).skip(1);
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    lines.map(cells).collect()
}

//! The chores of this repository: test, ci, tidy, sim, mutants, kills, soak, s3, kafka, demo, peers and oracle.
//!
//! It depends on nothing of ours, so that it builds in a moment; what needs the library is a
//! crate that it runs.

mod ci;
mod conditions;
mod graph;
mod kafka;
mod mutants;
mod peers;
mod s3;
mod soak;
mod tidy;
mod traps;

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask <command>

  test             all tests, as the README says
  ci               everything that must hold before a change lands
  tidy             the rules that the compiler cannot check
  small-crates     what people use alone has no heavy dependencies
  sim [--minutes N] [--seed S] [--schedules N] [--query NAME] [--schedule TEXT] [--release]
                   simulates crashes, faults and rivals of queries of every kind, and random ones;
                   with --schedules so many of each kind of operator on each state backend
  own-pipeline     a crate outside of the workspace that tests its own processor and sink
  mutants [PACKAGE]
                   breaks the product a little, one change at a time: tests have to notice
  kills [N] [auto-loader | --backend lsm]
                   kills the program N times (a hundred) in the middle of the clickstream job, and
                   the medallion example as often; of an Auto Loader whose schema grows; or of the
                   clickstream job with its state in sorted runs and hardly any memory
  soak [--kills N] [--seed S] [--jobs A,B]
                   kills, stops and doubles the program in three jobs, on disk and S3, and lets other
                   readers compare (500)
  s3               checkpoints and tables on S3, if a server can be had (moto, from PyPI)
  kafka up|down    a broker of Apache Kafka on this machine (a JDK, and Maven for its jars)
  kafka test [..]  the tests of the Kafka crate, on such a broker if it can be had
  bench [NAME]     the benchmarks, all or those of one file: see docs/src/performance.md
  demo             the clickstream job, end to end
  peers delta [--spark]
                   the deltalake package of Python, and Spark if asked for (a JDK, and Maven), read
                   and write the same tables as we do
  peers files [SEED] [all]
                   random files of every format, written by others and read by us, and the
                   reverse; all: also Avro and ORC, which are features of the program
  oracle DIR [--state-partitions N] [--backend NAME] [--category A,B] [--only TEXT]
                   compares Fluvial with recorded cases, a line for each
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    let done = match command.as_str() {
        "test" => test(&rest),
        "ci" => ci::run(),
        "tidy" => tidy::check(),
        "small-crates" => ci::small_crates(),
        "sim" => simulate(&refs(&rest)),
        "own-pipeline" => own_pipeline(),
        "kills" => kills(&rest),
        "mutants" => mutants::run(&rest),
        "soak" => soak::run(&rest),
        "s3" => s3::run(),
        "kafka" => kafka::run(&rest),
        "bench" => bench(&rest),
        "demo" => cargo(&[
            "run",
            "--package",
            "fluvial-cli",
            "--",
            "run",
            "examples/clickstream/pipeline.sql",
        ]),
        "peers" => peers::run(&rest),
        "oracle" => oracle(&rest),
        "" | "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => {
            eprint!("unknown command {other:?}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The crates that need nothing but Rust: the one for Kafka builds a library in C.
pub(crate) const WORKSPACE: [&str; 3] = ["--workspace", "--exclude", "fluvial-kafka"];

fn test(rest: &[String]) -> Result<()> {
    cargo(&[["test"].as_slice(), WORKSPACE.as_slice(), refs(rest).as_slice()].concat())
}

/// Whole queries in worlds that break them.
fn simulate(rest: &[&str]) -> Result<()> {
    let mut run = vec!["run", "--quiet", "--package", "fluvial-testing", "--bin", "simulate"];
    if rest.contains(&"--release") {
        run.push("--release");
    }
    run.push("--");
    run.extend(rest.iter().filter(|word| **word != "--release"));
    cargo(&run)
}

/// A crate outside of the workspace that tests parts of its own, as users do. It shares what is
/// built.
fn own_pipeline() -> Result<()> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let target = std::path::absolute(target)?.display().to_string();
    let manifest = "examples/own_pipeline_test/Cargo.toml";
    cargo_with(&[("CARGO_TARGET_DIR", &target)], &["test", "--manifest-path", manifest])
}

/// The tests that kill, with more kills than `test` has.
fn kills(rest: &[String]) -> Result<()> {
    let (variable, names, rest) = match rest {
        [rest @ .., option, backend] if option == "--backend" && backend == "lsm" => {
            ("FLUVIAL_KILLS_LSM", ["kills::a_job_with_its_state_in_runs"].as_slice(), rest)
        }
        [rest @ .., job] if job == "auto-loader" => {
            ("FLUVIAL_KILLS", ["kills::auto_loader"].as_slice(), rest)
        }
        rest => ("FLUVIAL_KILLS", ["kills::a_job_that", "medallion::"].as_slice(), rest),
    };
    let kills = match rest {
        [] => "100",
        [number] if number.parse::<usize>().is_ok() => number.as_str(),
        other => {
            bail!("kills takes a number, and auto-loader or --backend lsm, not {}", other.join(" "))
        }
    };
    let packages = ["test", "--package", "fluvial-cli", "--package", "fluvial", "--test", "it"];
    cargo_with(&[(variable, kills)], &[&packages[..], &["--", "--nocapture"], names].concat())
}

fn bench(rest: &[String]) -> Result<()> {
    let mut run = vec!["bench", "--package", "fluvial-benches"];
    for name in rest {
        run.extend(["--bench", name]);
    }
    cargo(&run)
}

fn oracle(rest: &[String]) -> Result<()> {
    let run = ["run", "--quiet", "--package", "fluvial-oracle", "--"];
    cargo(&[run.as_slice(), refs(rest).as_slice()].concat())
}

fn refs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// Runs cargo in the root of the repository.
fn cargo(arguments: &[&str]) -> Result<()> {
    cargo_with(&[], arguments)
}

/// The same, with variables in its environment.
fn cargo_with(variables: &[(&str, &str)], arguments: &[&str]) -> Result<()> {
    let status = cargo_command()
        .args(arguments)
        .envs(variables.iter().copied())
        .status()
        .with_context(|| format!("cargo {}", arguments.join(" ")))?;
    if !status.success() {
        bail!("cargo {} failed", arguments.join(" "));
    }
    Ok(())
}

/// What cargo prints.
fn cargo_output(arguments: &[&str]) -> Result<String> {
    let output = cargo_command().args(arguments).output()?;
    if !output.status.success() {
        bail!("cargo {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Cargo in the root of the repository, as if it were called from a shell.
fn cargo_command() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root());
    // What `cargo run` has told us about ourselves. Build scripts of dependencies look at it, and
    // half of them would be built again each time that another cargo comes along.
    for (name, _) in std::env::vars_os() {
        let ours = name.to_str().is_some_and(|name| {
            ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
        });
        if ours {
            command.env_remove(name);
        }
    }
    command
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

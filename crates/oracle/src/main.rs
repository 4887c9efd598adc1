//! Runs a folder of cases and prints a line for each.

use anyhow::{Context, Result};
use clap::Parser;
use fluvial_oracle::{Case, Options, Scope, Verdict, error_of, scope_of, verdict_of};
use std::path::PathBuf;
use std::process::ExitCode;

/// Compares Fluvial with what Spark did, case by case.
#[derive(Parser)]
struct Arguments {
    /// A folder of cases.
    folder: PathBuf,
    /// State partitions, instead of the cases' own; several are those of one start after the other.
    #[arg(long, value_delimiter = ',')]
    state_partitions: Vec<u32>,
    /// The state backend.
    #[arg(long)]
    backend: Option<String>,
    /// Only cases of these categories.
    #[arg(long, value_delimiter = ',')]
    category: Vec<String>,
    /// Only cases whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Beside the conditions of Spark's errors, what is said here.
    #[arg(long)]
    errors: bool,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let options = Options {
        state_partitions: arguments.state_partitions.clone(),
        backend: arguments.backend.clone(),
    };
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&arguments.folder)
        .with_context(|| arguments.folder.display().to_string())?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    paths.retain(|p| p.extension().is_some_and(|e| e == "json"));
    paths.retain(|p| p.file_name().is_some_and(|n| n != "errors.json"));
    paths.sort();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for path in paths {
        let case = Case::load(&path)?;
        let other = !arguments.category.is_empty() && !arguments.category.contains(&case.category);
        if other || arguments.only.as_ref().is_some_and(|only| !case.name.contains(only.as_str())) {
            continue;
        }
        if let Scope::Later(missing) = scope_of(&case) {
            skipped += 1;
            println!("skip {} ({}): needs {missing}", case.name, case.category);
            continue;
        }
        if arguments.errors
            && let Some(error) = &case.expected.error
        {
            let ours = error_of(&case, &options).await.unwrap_or_else(|| "no error".into());
            println!("{}: {} | {ours}", case.name, error["conditions_in_text"]);
        }
        match verdict_of(&case, &path, &options).await {
            Verdict::AgreesBut(why) => {
                passed += 1;
                println!("ok   {} ({}), on purpose: {why}", case.name, case.category);
            }
            Verdict::Agrees => {
                passed += 1;
                println!("ok   {} ({})", case.name, case.category);
            }
            Verdict::Differs(found) => {
                failed += 1;
                println!("FAIL {} ({})", case.name, case.category);
                for line in found {
                    println!("     {line}");
                }
            }
        }
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

//! The fluvial program: runs files of streaming SQL, and shows what checkpoints hold.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod args;
mod checkpoint;
mod exit;
mod interrupt;
mod output;
mod progress;
mod run;
mod scope;
mod session;
mod state;

use crate::args::{Args, CheckpointCommand, Command, StateCommand};
use crate::exit::Exit;
use clap::Parser;
use std::process::ExitCode;

/// Threads that plan queries need room: plans are trees, and they are walked recursively.
const STACK_BYTES: usize = 16 << 20;

fn main() -> ExitCode {
    // Help goes to stdout and ends with 0, a mistake goes to stderr and ends with 2.
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK_BYTES)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return exit::report(&anyhow::Error::new(error)).into(),
    };
    // On a thread of the runtime: the main thread's stack may be small.
    let result = runtime.block_on(async { tokio::spawn(command(args)).await });
    // Never dropped: tasks of libraries that something else waits for would end, and what waits
    // would panic. All that has to be whole is whole wherever the process ends.
    std::mem::forget(runtime);
    match result {
        Ok(Ok(exit)) => exit.into(),
        Ok(Err(error)) => exit::report(&error).into(),
        // It panicked, and the panic hook has said so.
        Err(_) => Exit::Failed.into(),
    }
}

async fn command(args: Args) -> anyhow::Result<Exit> {
    match args.command {
        Command::Run(run) => run::run(run).await,
        Command::Checkpoint { command: CheckpointCommand::Show(show) } => {
            checkpoint::show(&show).await
        }
        Command::State { command } => match command {
            StateCommand::List(list) => state::list(&list).await,
            StateCommand::Read(read) => state::read(&read).await,
            StateCommand::Verify(verify) => state::verify(&verify).await,
        },
    }
}

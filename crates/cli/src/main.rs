//! The `kumiki` command: one file a command, dispatched here.
#![forbid(unsafe_code)]

mod bench;
mod commands;

use clap::{Parser, Subcommand};
use commands::{agent, run};
use std::process::ExitCode;

/// One global memory across processes, machines and GPUs.
#[derive(Parser)]
#[command(name = "kumiki", version, propagate_version = true, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(Box<run::Arguments>),
    Bench(bench::Arguments),
    #[command(hide = true)]
    Agent(agent::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(arguments) => run::run(*arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Agent(arguments) => agent::run(&arguments),
    };
    match done {
        Ok(code) => ExitCode::from(code.clamp(0, 255) as u8),
        Err(message) => {
            eprintln!("kumiki: {message}");
            ExitCode::from(2)
        }
    }
}

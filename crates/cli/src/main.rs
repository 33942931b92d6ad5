//! The `kumiki` command: one file a command, dispatched here.
#![forbid(unsafe_code)]

mod bench;
mod chart;
mod commands;

use clap::{Parser, Subcommand};
use commands::{agent, demo, mem, rank, run, selftest};
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
    Demo(demo::Arguments),
    Selftest(selftest::Arguments),
    Mem(mem::Arguments),
    Bench(bench::Arguments),
    #[command(hide = true)]
    Agent(agent::Arguments),
}

fn main() -> ExitCode {
    let done = rank::early().unwrap_or_else(|| dispatch(Arguments::parse().command));
    match done {
        Ok(code) => ExitCode::from(code.clamp(0, 255) as u8),
        Err(message) => {
            eprintln!("kumiki: {message}");
            ExitCode::from(2)
        }
    }
}

fn dispatch(command: Command) -> commands::Outcome {
    match command {
        Command::Run(arguments) => run::run(*arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Selftest(arguments) => selftest::run(&arguments),
        Command::Mem(arguments) => mem::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Agent(arguments) => agent::run(&arguments),
    }
}

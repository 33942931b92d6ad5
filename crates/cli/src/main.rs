//! The `kumiki` command: one file a command, dispatched here.
#![forbid(unsafe_code)]

mod bench;
mod chart;
mod commands;
mod help;

use clap::{FromArgMatches, Parser, Subcommand};
use commands::{agent, completions, demo, doctor, info, man, mem, rank, run, selftest, sim};
use std::process::ExitCode;

/// One global memory across processes and machines.
#[derive(Parser)]
#[command(name = "kumiki", version, propagate_version = true, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Completions(completions::Arguments),
    Doctor(doctor::Arguments),
    Info(info::Arguments),
    Man(man::Arguments),
    Run(Box<run::Arguments>),
    Demo(demo::Arguments),
    Selftest(selftest::Arguments),
    Mem(mem::Arguments),
    Bench(bench::Arguments),
    Sim(sim::Arguments),
    #[command(hide = true)]
    Agent(agent::Arguments),
}

fn main() -> ExitCode {
    let done = rank::early().unwrap_or_else(|| {
        let arguments = Arguments::from_arg_matches(&help::command().get_matches());
        dispatch(arguments.unwrap_or_else(|error| error.exit()).command)
    });
    match done {
        Ok(code) => ExitCode::from(code.clamp(0, 255) as u8),
        Err(message) => {
            eprintln!("kumiki: {message}");
            ExitCode::from(2)
        }
    }
}

fn dispatch(command: Command) -> commands::Outcome {
    if !matches!(command, Command::Agent(_)) {
        commands::warn_of_unknown_variables();
    }
    match command {
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Info(arguments) => info::run(&arguments),
        Command::Man(arguments) => man::run(&arguments),
        Command::Run(arguments) => run::run(*arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Selftest(arguments) => selftest::run(&arguments),
        Command::Mem(arguments) => mem::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Agent(arguments) => agent::run(&arguments),
    }
}

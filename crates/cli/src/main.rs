//! The `kumiki` command: one file a command, dispatched here.
#![forbid(unsafe_code)]
// They panic when nobody reads; `commands::print`, `kumiki_run::report` and `kumiki_run::say` do not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod chart;
mod commands;
mod help;
mod progress;

use clap::{FromArgMatches, Parser, Subcommand};
use commands::{
    acprun, agent, array, cc, completions, demo, doctor, info, macprun, man, mem, rank, relay, run, selftest,
    sim, top, waitio_serv, xmpcc,
};
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
    Array(array::Arguments),
    Top(top::Arguments),
    Acprun(acprun::Arguments),
    Macprun(macprun::Arguments),
    WaitioServ(waitio_serv::Arguments),
    Relay(relay::Arguments),
    Cc(cc::Arguments),
    #[command(name = "c++")]
    Cxx(cc::CxxArguments),
    Xmpcc(xmpcc::Arguments),
    #[command(hide = true)]
    Agent(agent::Arguments),
}

fn main() -> ExitCode {
    let others = || {
        commands::forget_empty_variables();
        foreign()
    };
    let done = rank::early().or_else(others).unwrap_or_else(|| match parse() {
        Ok(arguments) => dispatch(arguments.command),
        Err(error) => told(&error),
    });
    match done {
        Ok(code) => ExitCode::from(code.clamp(0, 255) as u8),
        Err(message) if message == commands::READER_GONE => ExitCode::from(commands::READER_GONE_CODE as u8),
        Err(message) => {
            kumiki_run::report(&message);
            ExitCode::from(2)
        }
    }
}

/// The command line.
fn parse() -> Result<Arguments, clap::Error> {
    let matches = help::command().try_get_matches();
    let arguments = matches.and_then(|matches| Arguments::from_arg_matches(&matches));
    arguments.map_err(|error| help::explained(error, help::command()))
}

/// Prints what the parser has to say: what is wrong, or the help that was asked for.
fn told(error: &clap::Error) -> commands::Outcome {
    match error.print() {
        Err(why) if !error.use_stderr() && why.kind() == std::io::ErrorKind::BrokenPipe => {
            Err(commands::READER_GONE.into())
        }
        Err(why) if !error.use_stderr() => Err(format!("cannot print: {why}")),
        _ => Ok(error.exit_code()),
    }
}

/// Whether this program is called by one of its other names, which have a command line of their own.
pub(crate) fn is_foreign(called: &std::ffi::OsStr) -> bool {
    let name = std::path::Path::new(called).file_name().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
    matches!(name, "acprun" | "macprun" | "waitio-serv" | "xmpcc" | "xmprun")
        || cc::Wrapper::named(name).is_some()
}

/// What has a command line that is not ours to parse: `acprun`, `acpcc` and the like, which are names of this program, and
/// the commands of the same kind.
fn foreign() -> Option<commands::Outcome> {
    let mut words = std::env::args_os();
    let called = words.next().unwrap_or_default();
    let called = std::path::Path::new(&called).file_name()?.to_str()?.to_owned();
    let words: Vec<std::ffi::OsString> = words.collect();
    let asked = |name: &str| {
        words.first().is_some_and(|word| word == name) && words.get(1).is_none_or(|word| word != "--help")
    };
    if let Some(wrapper) = cc::Wrapper::named(&called) {
        return Some(cc::run(wrapper, &words));
    }
    match called.as_str() {
        "acprun" => Some(acprun::run(&words)),
        "macprun" => Some(macprun::run(&words)),
        "waitio-serv" => Some(waitio_serv::run(&words)),
        "xmpcc" if words.first().is_some_and(|word| word == "--help") => {
            let shown = help::command().try_get_matches_from(["kumiki", "xmpcc", "--help"]);
            Some(shown.map_or_else(|error| told(&error), |_| Ok(0)))
        }
        "xmpcc" => Some(xmpcc::run(&words)),
        "xmprun" => Some(xmprun(&words)),
        _ if asked("acprun") => Some(acprun::run(&words[1..])),
        _ if asked("macprun") => Some(macprun::run(&words[1..])),
        _ if asked("waitio-serv") => Some(waitio_serv::run(&words[1..])),
        _ if asked("xmpcc") => Some(xmpcc::run(&words[1..])),
        _ if asked("cc") => Some(cc::run(cc::Wrapper::new(cc::Language::C), &words[1..])),
        _ if asked("c++") => Some(cc::run(cc::Wrapper::new(cc::Language::Cxx), &words[1..])),
        _ => None,
    }
}

/// `xmprun -np 4 ./a.out` is `kumiki run -n 4 ./a.out`. What stands behind the program is the program's.
fn xmprun(words: &[std::ffi::OsString]) -> commands::Outcome {
    let matches = help::command().try_get_matches_from(xmprun_line(words));
    match matches.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => dispatch(arguments.command),
        Err(error) => told(&help::explained(error, help::command())),
    }
}

fn xmprun_line(words: &[std::ffi::OsString]) -> Vec<std::ffi::OsString> {
    let command = help::command();
    let run = command.find_subcommand("run");
    let has_value = |word: &str| {
        let is_it = |arg: &clap::Arg| {
            let long = word.strip_prefix("--").is_some_and(|name| arg.get_long() == Some(name));
            let short = word
                .strip_prefix('-')
                .is_some_and(|name| arg.get_short().map(String::from).as_deref() == Some(name));
            (long || short) && arg.get_action().takes_values()
        };
        run.is_some_and(|run| run.get_arguments().any(is_it))
    };
    let mut line: Vec<std::ffi::OsString> = vec!["kumiki".into(), "run".into()];
    let (mut is_ours, mut is_value) = (true, false);
    for word in words {
        let text = word.to_str().unwrap_or_default();
        match (is_ours && !is_value, text) {
            (true, "-np") => {
                line.push("-n".into());
                is_value = true;
                continue;
            }
            (true, _) if text.starts_with('-') && text != "--" => is_value = has_value(text),
            (true, _) => is_ours = false,
            (false, _) => is_value = false,
        }
        line.push(word.clone());
    }
    line
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
        Command::Array(arguments) => array::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Acprun(arguments) => acprun::run(&arguments.words),
        Command::Macprun(arguments) => macprun::run(&arguments.words),
        Command::WaitioServ(arguments) => waitio_serv::run(&arguments.words),
        Command::Relay(arguments) => relay::run(arguments),
        Command::Cc(arguments) => cc::run(cc::Wrapper::new(cc::Language::C), &arguments.words),
        Command::Cxx(arguments) => cc::run(cc::Wrapper::new(cc::Language::Cxx), &arguments.words),
        Command::Xmpcc(arguments) => xmpcc::run(&arguments.words),
        Command::Agent(arguments) => agent::run(&arguments),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_behind_the_program_is_the_programs() {
        let line = |text: &str| {
            let words: Vec<_> = text.split(' ').map(std::ffi::OsString::from).collect();
            let line = xmprun_line(&words);
            line.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line("-np 4 ./a.out -np 3"), "kumiki run -n 4 ./a.out -np 3");
        assert_eq!(line("-n 4 ./a.out -np"), "kumiki run -n 4 ./a.out -np");
        assert_eq!(
            line("--virtual-nodes 2 -np 4 -- ./a -np"),
            "kumiki run --virtual-nodes 2 -n 4 -- ./a -np"
        );
        assert_eq!(line("--virtual-nodes=2 -np 4 a -np"), "kumiki run --virtual-nodes=2 -n 4 a -np");
    }

    #[test]
    fn other_names_of_this_program_have_their_own_words() {
        for name in ["acprun", "/usr/bin/xmprun", "acpcc", "macpcc"] {
            assert!(is_foreign(name.as_ref()), "{name}");
        }
        assert!(!is_foreign("kumiki".as_ref()) && !is_foreign("/opt/kumiki".as_ref()));
    }
}

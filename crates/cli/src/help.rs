//! The command line as a whole: the help with its commands in groups. Man pages and completions are made from it too.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::CommandFactory;
use kumiki_run::environment;
use std::ffi::OsString;

/// The commands by what a user wants. A command that is in none of the groups is shown under the last heading.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start here", &["demo", "doctor", "selftest"]),
    ("Run programs", &["run", "acprun", "macprun", "waitio-serv", "relay"]),
    ("Compile C and C++", &["cc", "c++", "xmpcc"]),
    ("Look and measure", &["info", "mem", "bench", "sim", "array", "top"]),
    ("Set up", &["completions", "man"]),
];
const OTHERS: &str = "More";

const EXAMPLES: &str = "\
Examples:
  kumiki doctor                        is this machine ready, and if not, what to do
  kumiki run -n 4 ./heat               four ranks that share one global memory
  kumiki run -n 4 --virtual-nodes 2 ./heat
                                       the same, with TCP between two halves of this machine

`kumiki COMMAND --help` has more, with examples. Environment variables: `kumiki info`.";

/// The whole command line.
pub(crate) fn command() -> clap::Command {
    let command = crate::Arguments::command();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}Options:\n{{options}}{{after-help}}",
        grouped(&command)
    );
    command.help_template(template).after_help(EXAMPLES)
}

/// The commands under their headings, one a line.
fn grouped(command: &clap::Command) -> String {
    let shown: Vec<&clap::Command> = command.get_subcommands().filter(|one| !one.is_hide_set()).collect();
    let width = shown.iter().map(|one| one.get_name().len()).max().unwrap_or(0);
    let line = |one: &clap::Command| {
        let about = one.get_about().map(ToString::to_string).unwrap_or_default();
        format!("  {:<width$}  {about}\n", one.get_name())
    };
    let mut text = String::new();
    let mut add = |heading: &str, lines: String| {
        if !lines.is_empty() {
            text.push_str(&format!("{heading}:\n{lines}\n"));
        }
    };
    for (heading, names) in GROUPS {
        let members = names.iter().filter_map(|name| shown.iter().find(|one| one.get_name() == *name));
        add(heading, members.map(|one| line(one)).collect());
    }
    let known = |one: &&&clap::Command| GROUPS.iter().any(|(_, names)| names.contains(&one.get_name()));
    add(OTHERS, shown.iter().filter(|one| !known(one)).map(|one| line(one)).collect());
    text
}

/// Makes an error of the parser say what it does not by itself: which command may have been meant, and that a value came from
/// an environment variable.
pub(crate) fn explained(mut error: clap::Error, mut command: clap::Command) -> clap::Error {
    command.build();
    let command = asked(&command, &words_of_this_process());
    if error.kind() == ErrorKind::InvalidSubcommand && error.get(ContextKind::SuggestedSubcommand).is_none() {
        let given = text_of(&error, ContextKind::InvalidSubcommand);
        if let Some(near) = given.and_then(|given| nearest(&given, names(command))) {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![near]));
        }
    }
    if let Some(variable) = variable_behind(&error, command) {
        error.insert(ContextKind::InvalidArg, ContextValue::String(variable.into()));
    }
    error
}

fn words_of_this_process() -> Vec<OsString> {
    std::env::args_os().skip(1).collect()
}

fn text_of(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    }
}

/// The command that the words ask for, as far as they name one.
fn asked<'a>(command: &'a clap::Command, words: &[OsString]) -> &'a clap::Command {
    let mut asked = command;
    for word in words {
        match asked.get_subcommands().find(|one| word == one.get_name()) {
            Some(below) => asked = below,
            None => return asked,
        }
    }
    asked
}

fn names(command: &clap::Command) -> impl Iterator<Item = &str> {
    command.get_subcommands().filter(|one| !one.is_hide_set()).map(clap::Command::get_name)
}

/// The name that is one or two slips of the finger away, if one is.
fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let slips = |name: &str| strsim::osa_distance(given, name);
    let near = known.filter(|name| slips(name) <= 2.min(name.len() - 1)).min_by_key(|name| slips(name));
    near.map(String::from)
}

/// The variable that a value came from which was not good for its option: the parser names only the option.
fn variable_behind(error: &clap::Error, command: &clap::Command) -> Option<&'static str> {
    let option = text_of(error, ContextKind::InvalidArg)?;
    let value = text_of(error, ContextKind::InvalidValue)?;
    let argument = command.get_arguments().find(|one| one.to_string() == option)?;
    let name = argument.get_env()?.to_str()?;
    let is_it = std::env::var_os(name).is_some_and(|set| set.to_string_lossy() == value);
    environment::VARIABLES.iter().map(|variable| variable.name).find(|known| is_it && *known == name)
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_letters_in_the_wrong_order_are_one_slip() {
        let command = super::command();
        let near = |given: &str| super::nearest(given, super::names(&command));
        assert_eq!(near("rnu").as_deref(), Some("run"));
        assert_eq!(near("selftset").as_deref(), Some("selftest"));
        assert_eq!((near("x"), near("zzzz")), (None, None));
    }

    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}

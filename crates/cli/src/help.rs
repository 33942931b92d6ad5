//! The command line as a whole: the help with its commands in groups. Man pages and completions are made from it too.

use clap::CommandFactory;

/// The commands by what a user wants. A command that is in none of the groups is shown under the last heading.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start here", &["demo", "doctor", "selftest"]),
    ("Run programs", &["run", "acprun", "macprun"]),
    ("Compile C and C++", &["cc", "c++"]),
    ("Look and measure", &["info", "mem", "bench", "sim", "top"]),
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

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}

//! `kumiki completions`: what a shell needs to complete commands and options.

use super::Outcome;

const EXAMPLES: &str = "\
Examples:
  source <(kumiki completions bash)
  kumiki completions zsh > ~/.zfunc/_kumiki
  kumiki completions fish > ~/.config/fish/completions/kumiki.fish";

/// Print what a shell needs to complete commands and options.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The shell.
    shell: clap_complete::Shell,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::help::command(), "kumiki", &mut text);
    super::print(&String::from_utf8_lossy(&text))
}

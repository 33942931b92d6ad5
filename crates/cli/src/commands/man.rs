//! `kumiki man`: the manual pages, made from the command line itself.

use super::Outcome;
use kumiki_run::system;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  kumiki man | man -l -                                    read kumiki(1) now
  kumiki man --dir ~/.local/share/man/man1                 write a page for every command";

/// Print the manual page, or write one for every command.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Write a page for every command into this directory.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let command = crate::help::command();
    match &arguments.dir {
        Some(dir) => {
            let mut command = command.disable_help_subcommand(true);
            command.build();
            let written = std::fs::create_dir_all(dir).and_then(|()| write_pages(&command, dir));
            written.map_err(|error| format!("cannot write manual pages into {}: {error}", dir.display()))?;
            Ok(0)
        }
        None => {
            let mut text = Vec::new();
            clap_mangen::Man::new(command).render(&mut text).map_err(|error| error.to_string())?;
            super::print(&String::from_utf8_lossy(&text))
        }
    }
}

/// Writes the page of a command, and those of the commands below it.
fn write_pages(command: &clap::Command, dir: &Path) -> std::io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, dir)?;
    }
    let page = clap_mangen::Man::new(command.clone());
    system::replace(&dir.join(page.get_filename()), |out| page.render(out))
}

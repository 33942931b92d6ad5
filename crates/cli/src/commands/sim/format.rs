//! `kumiki sim fmt`: MGEN programs in their one form.

use crate::commands::{save, Outcome};
use kumiki_sim::{mgen, source::Source};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  kumiki sim fmt halo.mgen             rewrite the file
  kumiki sim fmt --check *.mgen        say which files would change; exit code 1 if there are any";

/// Write MGEN programs in their one form.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Change nothing; say which files would change.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let mut changed = 0;
    for path in &arguments.files {
        let source = Source::read(path)?;
        let formatted = mgen::format(&source)?;
        if *formatted == *source.text {
            continue;
        }
        changed += 1;
        if arguments.check {
            let path = path.display();
            kumiki_run::report(&format!("{path} is not formatted; run `kumiki sim fmt {path}`"));
        } else {
            save(path, &formatted)?;
        }
    }
    Ok((arguments.check && changed > 0) as i32)
}

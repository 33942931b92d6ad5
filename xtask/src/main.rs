//! The chores of the repository, as `cargo xtask`: `tidy` checks the rules of the tree, `docs` writes the documents
//! that are made from the code. `./x test` runs both kinds of check; nothing that users install depends on this crate.
#![forbid(unsafe_code)]

mod environment;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The chores of the Kumiki repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check the rules of the tree: one line a violation, exit 1 if there is any.
    Tidy,
    /// Write the documents that are made from the code (docs/environment.md).
    Docs,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().chore {
        Chore::Tidy => tidy::run(&root()),
        Chore::Docs => environment::write(&root()).map(|()| true),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository: the folder above this crate.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository").to_path_buf()
}

/// Runs a command in `root` and gives what it printed; the error says what it said.
fn output_of(root: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let shown = || format!("`{program} {}`", arguments.join(" "));
    let output = std::process::Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| format!("{} did not start: {error}", shown()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} failed ({}): {}", shown(), output.status, said.trim()));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{} printed something that is not UTF-8", shown()))
}

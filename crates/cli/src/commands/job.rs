//! Commands that are jobs: they start this very program again, as the ranks, by the same launcher as `kumiki run`.

use super::{run, Outcome};
use std::ffi::OsString;

/// A job of ours.
#[derive(Debug, Default)]
pub(crate) struct Job {
    pub(crate) ranks: u32,
    pub(crate) virtual_nodes: Option<u32>,
    /// `NAME=VALUE` for the ranks.
    pub(crate) environment: Vec<String>,
    /// The program and its arguments; this very program if there is none in front of its arguments.
    pub(crate) program: Option<OsString>,
    pub(crate) arguments: Vec<OsString>,
}

impl Job {
    /// Runs the job to its end. Every option of `kumiki run` can be set by its environment variable.
    pub(crate) fn run(self) -> Outcome {
        let program = match self.program {
            Some(program) => program,
            None => std::env::current_exe()
                .map_err(|error| format!("cannot tell where this program is: {error}"))?
                .into_os_string(),
        };
        let mut words: Vec<OsString> = vec!["--ranks".into(), self.ranks.to_string().into()];
        if let Some(nodes) = self.virtual_nodes {
            words.extend(["--virtual-nodes".into(), nodes.to_string().into()]);
        }
        for entry in self.environment {
            words.extend(["--env".into(), entry.into()]);
        }
        words.push("--".into());
        words.push(program);
        words.extend(self.arguments);
        run::run_words(words)
    }
}

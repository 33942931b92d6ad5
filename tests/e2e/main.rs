//! Suites that start real jobs with the `kumiki` command.

mod cli;
mod rank;

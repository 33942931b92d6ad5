//! Suites that start real jobs with the `kumiki` command.

mod bench;
mod rank;

//! Suites that start real jobs with the `kumiki` command.

mod rank;
mod tools;

//! Suites that start real jobs with the `kumiki` command.

mod bench;
mod cli;
mod examples;
mod job;
mod join;
mod launch;
#[path = "../loopback.rs"]
mod loopback;
mod pages;
mod rank;
mod routes;
mod sim;
mod ssh;
mod strangers;
mod tools;
mod top;

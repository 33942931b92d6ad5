//! C and C++ programs against the installed library: the wrappers compile them, `acprun` starts them.
//!
//! | file | what |
//! |---|---|
//! | `stage.rs` | an installation of what was built, compiling and running |
//! | `headers.rs` | the headers in every language standard, and what the library exports |
//! | `suites.rs` | the programs, on 1 to 4 ranks, in shared memory and over TCP |
//! | `examples.rs` | the examples in C, with their expected output |
//! | `launcher.rs` | `acprun` and its options |
//! | `parts.rs` | `macprun`: several launchers, one world |
//! | `waitio.rs` | programs of WaitIO in several languages, under several MPI libraries |
//! | `refused.rs` | blocks of WaitIO that cannot join, and what both sides say of it |
//! | `joined.rs` | whole programs over WaitIO: a solver under one MPI and under two, and the example of a simulation and its analysis |
//! | `memory_checkers.rs` | AddressSanitizer and valgrind |
//! | `programs/` | the programs, each in the common part of C and C++ |
//! | `waitio/` | those of WaitIO |
//! | `xmp.rs` | the run time of XcalableMP |
//! | `xmp/` | its programs, as the translator writes them |
//! | `heat3d/` | the solver, and the names that turn it from MPI to WaitIO |

mod examples;
mod headers;
mod joined;
mod launcher;
#[path = "../loopback.rs"]
mod loopback;
mod memory_checkers;
mod parts;
mod refused;
mod stage;
mod suites;
mod waitio;
mod xmp;

use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;

/// A test, and what it is called.
type Test = (String, Box<dyn FnOnce(&stage::Stage) + Send>);

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(waitio::RUST_RING) {
        return match waitio::ring_in_rust() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let arguments = Arguments::from_args();
    let stage = std::sync::Arc::new(stage::Stage::new());
    let tests = headers::tests()
        .into_iter()
        .chain(suites::tests())
        .chain(examples::tests())
        .chain(launcher::tests())
        .chain(parts::tests())
        .chain(waitio::tests())
        .chain(refused::tests())
        .chain(joined::tests())
        .chain(xmp::tests())
        .chain(memory_checkers::tests());
    let trials = tests.map(|(name, body): Test| {
        let stage = stage.clone();
        Trial::test(name, move || {
            body(&stage);
            Ok(())
        })
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    stage.clear();
    conclusion.exit_code()
}

/// A test from its name and what it does.
fn test(name: impl Into<String>, body: impl FnOnce(&stage::Stage) + Send + 'static) -> Test {
    (name.into(), Box::new(body))
}

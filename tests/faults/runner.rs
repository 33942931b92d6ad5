//! The list of tests, and what they share.

use crate::space;
use libtest_mimic::{Arguments, Trial};
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Instant;

/// The machine may be busy with other things: every time that is promised is multiplied by this before a test insists
/// on it. On an idle machine the times themselves hold; the tests print what they measured.
pub(crate) const LOAD_FACTOR: u32 = 20;

/// One test.
#[derive(Clone, Copy)]
pub(crate) struct Test {
    pub(crate) name: &'static str,
    pub(crate) body: fn(),
}

/// The tests of a module, named as they are in the source.
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        pub(crate) const TESTS: &[crate::runner::Test] = &[$(crate::runner::Test {
            name: concat!(module_path!(), "::", stringify!($name)).split_at("faults::".len()).1,
            body: $name,
        }),*];
    };
}
pub(crate) use tests;

tests![the_harness_notices_a_failure];

/// Runs the tests that the command line chooses, one after another: a litter check must not see other jobs.
pub(crate) fn run(tests: &[Test]) -> ExitCode {
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    if !arguments.list {
        if let Err(why) = space::enter() {
            println!("no namespaces of our own ({why}): litter checks only look for what is named after us");
        }
    }
    let trial = |&Test { name, body }: &Test| {
        Trial::test(name, move || {
            let began = Instant::now();
            body();
            note(&format!("it took {:.1} s", began.elapsed().as_secs_f64()));
            Ok(())
        })
    };
    libtest_mimic::run(&arguments, tests.iter().map(trial).collect()).exit_code()
}

/// Says that something could not be tested here, and why.
pub(crate) fn skip(what: &str, why: &str) {
    println!("  skipped: {what}: {why}");
}

/// Says what was measured.
pub(crate) fn note(text: &str) {
    println!("  {text}");
}

/// Runs jobs side by side: a machine with two processors does not mind, and most jobs of this suite wait.
pub(crate) fn side_by_side<T: Send>(width: usize, items: Vec<T>, work: impl Fn(T) + Sync) {
    let queue = std::sync::Mutex::new(items.into_iter());
    let next = || queue.lock().map_or(None, |mut queue| queue.next());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..width)
            .map(|_| {
                scope.spawn(|| {
                    while let Some(item) = next() {
                        work(item);
                    }
                })
            })
            .collect();
        let failed = threads.into_iter().filter_map(|thread| thread.join().err()).next();
        if let Some(panic) = failed {
            std::panic::resume_unwind(panic);
        }
    });
}

/// The canary of the harness itself.
fn the_harness_notices_a_failure() {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = catch_unwind(|| side_by_side(2, vec![1, 2, 3], |number| assert!(number < 3, "three")));
    std::panic::set_hook(quiet);
    assert!(outcome.is_err());
}

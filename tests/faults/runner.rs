//! A small test harness: the test program needs a `main` of its own, because ranks end in every possible way.

use crate::space;
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
            name: concat!(module_path!(), "::", stringify!($name)),
            body: $name,
        }),*];
    };
}
pub(crate) use tests;

tests![the_harness_notices_a_failure];

/// What the command line asks for; options of the usual harness that make no sense here are passed over.
struct Choice {
    list: bool,
    exact: bool,
    wanted: Vec<String>,
    skipped: Vec<String>,
}

impl Choice {
    fn from_arguments() -> Choice {
        let mut choice = Choice { list: false, exact: false, wanted: Vec::new(), skipped: Vec::new() };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--list" => choice.list = true,
                "--exact" => choice.exact = true,
                "--skip" => choice.skipped.extend(arguments.next()),
                "--test-threads" | "--format" | "--color" | "--logfile" | "-Z" => drop(arguments.next()),
                option if option.starts_with('-') => {}
                name => choice.wanted.push(name.to_string()),
            }
        }
        choice
    }

    fn takes(&self, name: &str) -> bool {
        let matches = |text: &String| if self.exact { name == text } else { name.contains(text.as_str()) };
        (self.wanted.is_empty() || self.wanted.iter().any(matches)) && !self.skipped.iter().any(matches)
    }
}

/// Runs the tests that the command line chooses.
pub(crate) fn run(tests: &[Test]) -> ExitCode {
    let choice = Choice::from_arguments();
    let chosen: Vec<&Test> = tests.iter().filter(|test| choice.takes(test.name)).collect();
    if choice.list {
        chosen.iter().for_each(|test| println!("{}: test", test.name));
        return ExitCode::SUCCESS;
    }
    if let Err(why) = space::enter() {
        println!("no namespaces of our own ({why}): litter checks only look for what is named after us");
    }
    println!("\nrunning {} tests", chosen.len());
    let mut failed = Vec::new();
    let began = Instant::now();
    for test in &chosen {
        let began = Instant::now();
        let outcome = catch_unwind(test.body);
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("test {} ... {word} ({:.1} s)", test.name, began.elapsed().as_secs_f64());
        if outcome.is_err() {
            failed.push(test.name);
        }
    }
    let passed = chosen.len() - failed.len();
    let seconds = began.elapsed().as_secs_f64();
    println!("\ntest result: {passed} passed; {} failed; finished in {seconds:.1} s\n", failed.len());
    failed.iter().for_each(|name| println!("    {name}"));
    if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(101)
    }
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

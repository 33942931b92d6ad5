//! Lines on standard error: a failure is said once, and those like it are counted.
//!
//! A program that does not look at what its calls return may fail millions of times. Two lines are alike when they differ in
//! numbers only. Of those that are alike the 1st, 10th, 100th and so on are told, and at the end of the process how many there were.

use std::ffi::c_int;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};

/// So many kinds of lines are told apart; what comes after them is one more kind.
const KINDS: usize = 64;
/// Letters of a line that are kept to be repeated.
const KEPT: usize = 200;

static COUNTED: Mutex<Counted> = Mutex::new(Counted { kinds: Vec::new() });

extern "C" {
    /// Of the C library: has a function called when the process ends in order.
    fn atexit(function: extern "C" fn()) -> c_int;
}

/// One line, unless enough like it were told. Nothing is done about a standard error that is closed.
pub(crate) fn complain(line: &str) {
    match counted(|counted| counted.note(line)) {
        Some(line) => print(&line),
        None => tell_at_exit(),
    }
}

/// Tells how often lines came that were counted only.
pub(crate) fn tell_rest() {
    counted(Counted::rest).iter().for_each(|line| print(line));
}

fn counted<T>(with: impl FnOnce(&mut Counted) -> T) -> T {
    with(&mut COUNTED.lock().unwrap_or_else(PoisonError::into_inner))
}

fn print(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

fn tell_at_exit() {
    /// The process that counts.
    static PROCESS: OnceLock<u32> = OnceLock::new();
    extern "C" fn at_exit() {
        // What was counted before a fork is for the parent to tell.
        if PROCESS.get() == Some(&std::process::id()) {
            let _ = std::panic::catch_unwind(tell_rest);
        }
    }
    PROCESS.get_or_init(|| {
        // SAFETY: the function stays where it is as long as the process: the library is never unloaded.
        let _ = unsafe { atexit(at_exit) };
        std::process::id()
    });
}

/// What was said, and how often.
#[derive(Debug, Default)]
struct Counted {
    kinds: Vec<Kind>,
}

/// Lines that are alike.
#[derive(Debug)]
struct Kind {
    words: u64,
    /// The first of them, or its beginning.
    first: String,
    count: u64,
    /// How many there were when a line was printed.
    told: u64,
}

impl Counted {
    /// Counts a line; gives what shall be printed.
    fn note(&mut self, line: &str) -> Option<String> {
        let words = words_of(line);
        let known = self.kinds.iter().position(|kind| kind.words == words);
        let at = known.unwrap_or_else(|| {
            if self.kinds.len() <= KINDS {
                let first = line.chars().take(KEPT).collect();
                self.kinds.push(Kind { words, first, count: 0, told: 0 });
            }
            self.kinds.len() - 1
        });
        let kind = &mut self.kinds[at];
        kind.count += 1;
        if kind.count == 1 {
            kind.told = 1;
            return Some(line.to_owned());
        }
        let is_due = kind.count.is_multiple_of(10) && 10u64.pow(kind.count.ilog10()) == kind.count;
        is_due.then(|| {
            kind.told = kind.count;
            format!("{line} (the {}th like it; the next to be told is the {}0th)", kind.count, kind.count)
        })
    }

    /// A line for every kind of which there were more than the last line said.
    fn rest(&mut self) -> Vec<String> {
        let untold = self.kinds.iter_mut().filter(|kind| kind.count > kind.told);
        let tell = |kind: &mut Kind| {
            kind.told = kind.count;
            format!("{} ({} like it in all)", kind.first, kind.count)
        };
        untold.map(tell).collect()
    }
}

/// What a line says, whatever its numbers.
fn words_of(line: &str) -> u64 {
    let has_digit = |word: &&str| word.bytes().any(|byte| byte.is_ascii_digit());
    let mut hasher = DefaultHasher::new();
    line.split(' ').filter(|word| !has_digit(word)).for_each(|word| word.hash(&mut hasher));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_over_a_failing_call_fills_the_disk() {
        let mut counted = Counted::default();
        let lines: Vec<String> = (0..12_345u64)
            .filter_map(|at| counted.note(&format!("acp: acp_copy: past the end at {at:#x}, 8 bytes")))
            .collect();
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert_eq!(lines[0], "acp: acp_copy: past the end at 0x0, 8 bytes");
        assert!(
            lines[2].ends_with("8 bytes (the 100th like it; the next to be told is the 1000th)"),
            "{lines:?}"
        );
        let rest = counted.rest();
        assert_eq!(rest, ["acp: acp_copy: past the end at 0x0, 8 bytes (12345 like it in all)"]);
        assert!(counted.rest().is_empty(), "once");
    }

    #[test]
    fn other_words_are_another_line() {
        let mut counted = Counted::default();
        assert!(counted.note("acp: acp_copy: the null address").is_some());
        assert!(counted.note("acp: acp_add8: the null address").is_some());
        assert!(counted.note("acp: acp_copy: the null address").is_none());
    }

    #[test]
    fn no_variety_of_lines_takes_memory_without_end() {
        let mut counted = Counted::default();
        let letters =
            |at: u32| (0..20).map(|bit| if at >> bit & 1 == 1 { 'b' } else { 'a' }).collect::<String>();
        let told = (0..100_000).filter(|&at| counted.note(&letters(at)).is_some()).count();
        assert!(counted.kinds.len() == KINDS + 1 && told < KINDS + 10, "{told}");
    }
}

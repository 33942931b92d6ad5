//! Modules that are values: they are told the time and fed with bytes, so that the same code runs over sockets, in the
//! simulator and under a fuzzer. They may not look at a clock, wait, or start a thread.

use proc_macro2::TokenTree;

use super::source::{is_mark, is_word, line_of};
use super::tree::Tree;
use super::Violation;

/// Folders of such modules.
const VALUES: [&str; 6] = [
    "crates/mem/src/engine/",
    "crates/net/src/wire/",
    "crates/net/src/agent/hub/",
    "crates/net/src/route/words.rs",
    "crates/net/src/route/files/pulse.rs",
    "crates/net/src/route/files/track.rs",
];

/// Paths that lead to a clock, a wait or a thread, by two words in a row.
const PATHS: [(&str, &str); 7] = [
    ("os", "time"),
    ("os", "futex"),
    ("std", "thread"),
    ("thread", "sleep"),
    ("time", "Instant"),
    ("time", "SystemTime"),
    ("sync", "Mutex"),
];

/// Words that name one of them wherever they stand.
const WORDS: [&str; 5] = ["Instant", "Mutex", "Condvar", "now_ms", "now_ns"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, source) in tree.sources() {
        let Some(folder) = VALUES.iter().find(|folder| path.starts_with(**folder)) else { continue };
        // A time that is passed in may have any name.
        source.each_level(&mut |level| {
            for (line, what) in (0..level.len()).filter_map(|at| waits(level, at)) {
                found.push(Violation::new(
                    path,
                    line,
                    format!("{what} in {folder}, which is a value"),
                    "let whoever drives it pass the time in, and wait",
                ));
            }
        });
    }
    found
}

/// What at a place of the code leads to a clock, a wait or a thread.
fn waits(level: &[TokenTree], at: usize) -> Option<(usize, String)> {
    let token = level.get(at);
    let line = line_of(token?);
    let follows = |word: &str| {
        is_mark(level.get(at + 1), ':') && is_mark(level.get(at + 2), ':') && is_word(level.get(at + 3), word)
    };
    if let Some((first, second)) =
        PATHS.iter().find(|(first, second)| is_word(token, first) && follows(second))
    {
        return Some((line, format!("{first}::{second}")));
    }
    let called = |word: &&&str| is_word(token, word) && !is_named_value(level, at);
    WORDS.iter().find(called).map(|word| (line, (*word).to_string()))
}

/// Whether a word is the name of a value that is passed around, such as a parameter, and not a function or a type.
fn is_named_value(level: &[TokenTree], at: usize) -> bool {
    let is_path = is_mark(level.get(at.wrapping_sub(1)), ':') && is_mark(level.get(at.wrapping_sub(2)), ':');
    let is_call = matches!(level.get(at + 1), Some(TokenTree::Group(group))
        if group.delimiter() == proc_macro2::Delimiter::Parenthesis && group.stream().is_empty());
    let is_lower = matches!(level.get(at), Some(TokenTree::Ident(name))
        if name.to_string().starts_with(char::is_lowercase));
    is_lower && !is_path && !is_call
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_found(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn a_time_that_is_passed_in_is_no_clock() {
        let text = "fn tick(now_ms: u64) -> u64 { now_ms + 900 }\nthread_local! { static X: u8 = 1; }\n";
        assert_eq!(lines_found("crates/mem/src/engine/mod.rs", text), [0_usize; 0]);
        assert_eq!(lines_found("crates/mem/src/drive/mod.rs", "use std::sync::Mutex;\n"), [0_usize; 0]);
    }

    #[test]
    fn a_clock_a_wait_or_a_thread_in_a_value_is_found() {
        for wrong in [
            "use kumiki_net::os::time;",
            "use kumiki_net::os::futex;",
            "use std::sync::Mutex;",
            "use std::time::Instant;",
            "fn f() { std::thread::spawn(g); }",
            "fn f() { thread::sleep(g); }",
            "fn f() -> u64 { time::now_ms() }",
            "use kumiki_net::os::{process, time};\nfn f() -> u64 { time::now_ns() }",
        ] {
            for folder in VALUES {
                let found = lines_found(&format!("{folder}mod.rs"), &format!("{wrong}\n"));
                assert!(!found.is_empty(), "{wrong}");
            }
        }
    }
}

//! How long a file and a function may be, in lines of code: comments and tests cost nothing.
//!
//! The limits are about where the ninetieth and the ninety-ninth percentile of well-kept Rust lie. What must be
//! longer is named, with its own limit and the reason, in `xtask/exceptions.txt`.

use super::source::Source;
use super::tree::Tree;
use super::Violation;

const FILE_CODE_LINES_MAX: usize = 800;
const FUNCTION_CODE_LINES_MAX: usize = 100;

const EXCEPTIONS: &str = "xtask/exceptions.txt";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let (mut exceptions, mut found) = parse(tree.text(EXCEPTIONS).unwrap_or_default());
    for (path, source) in tree.sources() {
        for item in items(path, source) {
            let exception = exceptions.iter_mut().find(|exception| exception.item == item.name);
            let limit = match exception {
                Some(exception) if item.code_lines > item.limit => {
                    exception.needed = true;
                    exception.limit
                }
                _ => item.limit,
            };
            if item.code_lines > limit {
                found.push(Violation::new(
                    path,
                    item.line,
                    format!("{} has {} lines of code, {limit} are allowed", item.name, item.code_lines),
                    format!("split it, or say in {EXCEPTIONS} why not"),
                ));
            }
        }
    }
    for unneeded in exceptions.iter().filter(|exception| !exception.needed) {
        found.push(Violation::new(
            EXCEPTIONS,
            unneeded.line,
            format!("the exception for {} is not needed", unneeded.item),
            "delete it",
        ));
    }
    found
}

/// Something whose length is limited.
struct Item {
    /// As in the exceptions: `path`, or `path::function`.
    name: String,
    line: usize,
    code_lines: usize,
    limit: usize,
}

fn items(path: &str, source: &Source) -> Vec<Item> {
    let mut items = Vec::new();
    if !is_test(path) {
        let code_lines = source.code_lines();
        items.push(Item { name: path.to_owned(), line: 1, code_lines, limit: FILE_CODE_LINES_MAX });
    }
    items.extend(source.functions().into_iter().map(|function| Item {
        name: format!("{path}::{}", function.name),
        line: function.line,
        code_lines: function.code_lines,
        limit: FUNCTION_CODE_LINES_MAX,
    }));
    items
}

/// Whether the whole file is tests.
fn is_test(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

struct Exception {
    item: String,
    limit: usize,
    line: usize,
    needed: bool,
}

/// Reads lines of `item limit reason`; `#` starts a comment.
fn parse(text: &str) -> (Vec<Exception>, Vec<Violation>) {
    let mut exceptions: Vec<Exception> = Vec::new();
    let mut found = Vec::new();
    for (index, content) in text.lines().enumerate() {
        let line = index + 1;
        let mut words = content.split_whitespace();
        let Some(item) = words.next().filter(|word| !word.starts_with('#')) else { continue };
        let limit = words.next().and_then(|word| word.parse().ok());
        let (Some(limit), Some(_)) = (limit, words.next()) else {
            let what = "is not `path limit reason` or `path::function limit reason`";
            found.push(Violation::new(EXCEPTIONS, line, what, "write it so"));
            continue;
        };
        if exceptions.iter().any(|exception| exception.item == item) {
            found.push(Violation::new(EXCEPTIONS, line, format!("{item} is there twice"), "delete one"));
            continue;
        }
        exceptions.push(Exception { item: item.to_owned(), limit, line, needed: false });
    }
    (exceptions, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long_function(code_lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    g();\n".repeat(code_lines - 2))
    }

    fn found(path: &str, text: &str, exceptions: &str) -> Vec<String> {
        let tree = Tree::of(&[(path, text), (EXCEPTIONS, exceptions)]);
        check(&tree).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn up_to_the_limits_all_is_well() {
        assert_eq!(found("a.rs", &long_function(100), ""), [""; 0]);
        assert_eq!(found("a.rs", &"const A: u8 = 1;\n".repeat(800), ""), [""; 0]);
    }

    #[test]
    fn a_long_file_is_found() {
        let text = "const A: u8 = 1;\n".repeat(801);
        let found_here = found("a.rs", &text, "");
        assert_eq!(found_here.len(), 1);
        assert!(found_here[0].starts_with("a.rs:1: a.rs has 801 lines of code, 800 are allowed"));
        assert_eq!(found("tests/a.rs", &text, ""), [""; 0]);
    }

    #[test]
    fn a_long_function_is_found_in_tests_too() {
        for path in ["a.rs", "tests/a.rs"] {
            assert!(found(path, &long_function(101), "")[0].contains("::f has 101 lines of code"));
        }
    }

    #[test]
    fn an_exception_has_a_limit_of_its_own() {
        let exceptions = "# Why.\na.rs::f 110 one table\n";
        assert_eq!(found("a.rs", &long_function(110), exceptions), [""; 0]);
        assert!(found("a.rs", &long_function(111), exceptions)[0].contains("110 are allowed"));
    }

    #[test]
    fn an_exception_that_is_not_needed_is_found() {
        for text in [long_function(100), "const A: u8 = 1;\n".to_owned()] {
            assert!(found("a.rs", &text, "a.rs::f 110 one table\n")[0].contains("not needed"));
        }
    }

    #[test]
    fn an_exception_without_a_reason_or_twice_is_found() {
        for line in ["a.rs::f", "a.rs::f 110", "a.rs::f many because"] {
            assert!(parse(line).1[0].what.contains("reason"));
        }
        assert!(parse("a.rs 900 one\na.rs 900 two\n").1[0].what.contains("twice"));
    }
}

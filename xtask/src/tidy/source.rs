//! A Rust file as tokens: what the rules ask of it, without the compiler.
//!
//! Tokens know strings and comments from code, and reach into macros, where a syntax tree stops. The lexer is
//! that of `proc_macro2`, which turns doc comments into `#[doc]` attributes.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::str::FromStr;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// The tokens of one file.
pub(super) struct Source {
    text: String,
    tokens: Vec<TokenTree>,
}

/// A function and how many lines of code it has, its signature included.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) code_lines: usize,
}

impl Source {
    pub(super) fn parse(text: &str) -> Result<Self, (usize, String)> {
        let tokens = TokenStream::from_str(text)
            .map_err(|error| (error.span().start().line.max(1), error.to_string()))?;
        Ok(Self { text: text.to_owned(), tokens: tokens.into_iter().collect() })
    }

    /// The file as it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The number of lines that hold code: not blank, not comment, not under `#[cfg(test)]`.
    pub(super) fn code_lines(&self) -> usize {
        let mut lines = BTreeSet::new();
        collect_lines(&self.tokens, Tests::Skip, &mut lines);
        lines.len()
    }

    /// Every function that has a body, those of tests included.
    pub(super) fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        self.each_level(&mut |level| {
            for at in 0..level.len() {
                functions.extend(function_at(level, at));
            }
        });
        functions.sort_by_key(|function| function.line);
        functions
    }

    /// Calls `look` with the tokens of the file, and with those between each pair of brackets.
    pub(super) fn each_level(&self, look: &mut impl FnMut(&[TokenTree])) {
        each_level(&self.tokens, look);
    }
}

/// Whether `token` is the identifier or keyword `name`.
pub(super) fn is_word(token: Option<&TokenTree>, name: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(word)) if word == name)
}

/// Whether `token` is the punctuation `mark`.
pub(super) fn is_mark(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

/// The group that `token` is, if its brackets are `delimiter`.
pub(super) fn as_group(token: Option<&TokenTree>, delimiter: Delimiter) -> Option<&Group> {
    match token {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}

/// The line that a token starts on, from 1.
pub(super) fn line_of(token: &TokenTree) -> usize {
    token.span().start().line
}

/// The attribute that starts at `at`: what is between its brackets, whether it is an inner one, and where it ends.
pub(super) fn attribute_at(level: &[TokenTree], at: usize) -> Option<Attribute> {
    if !is_mark(level.get(at), '#') {
        return None;
    }
    let inner = is_mark(level.get(at + 1), '!');
    let bracket = at + 1 + usize::from(inner);
    let content = as_group(level.get(bracket), Delimiter::Bracket)?.stream().into_iter().collect();
    Some(Attribute { content, inner, end: bracket + 1 })
}

/// `#[content]` or, when `inner`, `#![content]`.
pub(super) struct Attribute {
    pub(super) content: Vec<TokenTree>,
    pub(super) inner: bool,
    /// The index of the token after it.
    pub(super) end: usize,
}

impl Attribute {
    /// Whether it says that what follows is only there in tests.
    fn is_cfg_test(&self) -> bool {
        let condition = as_group(self.content.get(1), Delimiter::Parenthesis);
        is_word(self.content.first(), "cfg") && condition.is_some_and(|group| needs_test(group.stream()))
    }

    fn is_doc(&self) -> bool {
        is_word(self.content.first(), "doc")
    }
}

/// Whether the condition can only hold in tests: `test`, or `all(...)` with `test` among its parts.
fn needs_test(condition: TokenStream) -> bool {
    let condition: Vec<TokenTree> = condition.into_iter().collect();
    let parts: Vec<&[TokenTree]> = condition.split(|token| is_mark(Some(token), ',')).collect();
    parts.iter().any(|part| match part {
        [only] => is_word(Some(only), "test"),
        [all, group] if is_word(Some(all), "all") => {
            as_group(Some(group), Delimiter::Parenthesis).is_some_and(|group| needs_test(group.stream()))
        }
        _ => false,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tests {
    Count,
    Skip,
}

/// Adds the lines on which there is a token of `level`.
fn collect_lines(level: &[TokenTree], tests: Tests, lines: &mut BTreeSet<usize>) {
    let mut at = 0;
    while at < level.len() {
        if let Some(attribute) = attribute_at(level, at) {
            if tests == Tests::Skip && attribute.is_cfg_test() {
                if attribute.inner {
                    return;
                }
                at = end_of_item(level, attribute.end);
                continue;
            }
            if attribute.is_doc() {
                at = attribute.end;
                continue;
            }
        }
        match &level[at] {
            TokenTree::Group(group) => {
                lines.insert(group.span_open().start().line);
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                collect_lines(&inside, tests, lines);
                lines.insert(group.span_close().end().line);
            }
            leaf => lines.extend(lines_of(leaf)),
        }
        at += 1;
    }
}

fn lines_of(token: &TokenTree) -> RangeInclusive<usize> {
    token.span().start().line..=token.span().end().line
}

/// The index after the item that starts at `at`: after its `;` or its body.
fn end_of_item(level: &[TokenTree], at: usize) -> usize {
    let ends =
        |token: &TokenTree| is_mark(Some(token), ';') || as_group(Some(token), Delimiter::Brace).is_some();
    level[at..].iter().position(ends).map_or(level.len(), |distance| at + distance + 1)
}

fn function_at(level: &[TokenTree], at: usize) -> Option<Function> {
    let TokenTree::Ident(name) = level.get(at + 1)? else { return None };
    if !is_word(level.get(at), "fn") {
        return None;
    }
    let end = end_of_item(level, at);
    as_group(level.get(end - 1), Delimiter::Brace)?;
    let mut lines = BTreeSet::new();
    collect_lines(&level[at..end], Tests::Count, &mut lines);
    Some(Function { name: name.to_string(), line: line_of(&level[at]), code_lines: lines.len() })
}

fn each_level(level: &[TokenTree], look: &mut impl FnMut(&[TokenTree])) {
    look(level);
    for token in level {
        if let TokenTree::Group(group) = token {
            let inside: Vec<TokenTree> = group.stream().into_iter().collect();
            each_level(&inside, look);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_lines(text: &str) -> usize {
        Source::parse(text).unwrap().code_lines()
    }

    #[test]
    fn comments_and_blank_lines_are_not_code() {
        assert_eq!(code_lines("//! Doc.\n\n/* long\nlong */\n/// Doc.\nfn f() { // why\n    // why\n}\n"), 2);
    }

    #[test]
    fn a_long_string_counts_all_its_lines() {
        assert_eq!(code_lines("const A: &str = \"\na\nb\";\n"), 3);
    }

    #[test]
    fn tests_are_not_counted() {
        assert_eq!(
            code_lines("fn f() {}\n#[cfg(test)]\n#[path = \"x\"]\nmod tests {\n    fn g() {}\n}\n"),
            1
        );
        assert_eq!(code_lines("#[cfg(all(test, loom))]\nmod models {\n}\nfn f() {}\n"), 1);
        assert_eq!(code_lines("#![cfg(test)]\nfn f() {}\n"), 0);
        assert_eq!(code_lines("#[cfg(test)]\nmod tests;\nfn f() {}\n"), 1);
    }

    #[test]
    fn what_is_there_without_tests_is_counted() {
        assert_eq!(code_lines("#[cfg(not(test))]\nfn f() {}\n"), 2);
        assert_eq!(code_lines("#[cfg(any(unix, loom))]\nfn f() {}\n"), 2);
    }

    #[test]
    fn functions_are_found_with_their_length() {
        let text = "impl A {\n    fn f(x: fn(u8)) -> u8\n    where\n        A: B,\n    {\n\n        // Why.\n        1\n    }\n}\n\
                    trait T {\n    fn g();\n}\nmacro_rules! m { () => { fn h() {} } }\n";
        let found = Source::parse(text).unwrap().functions();
        let f = Function { name: "f".to_owned(), line: 2, code_lines: 6 };
        let h = Function { name: "h".to_owned(), line: 14, code_lines: 1 };
        assert_eq!(found, [f, h]);
    }
}

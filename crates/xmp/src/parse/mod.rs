//! The parser: tokens in, tree out. It knows sections and coarrays, and the extensions of GNU C that headers and programs use; it never
//! goes deeper than a bound, and what it does not understand is an error with its place.
//!
//! | file | what |
//! |---|---|
//! | `expression.rs` | expressions |
//! | `statement.rs` | statements, and which directive has one behind it |
//! | `declaration.rs` | declarations, types, parameters |
//! | `directives.rs` | what stands behind `#pragma xmp` |
//! | `unit.rs` | the file: functions, declarations, text of system headers |

mod declaration;
mod directives;
mod expression;
mod statement;
mod unit;

use crate::source::{Kind, Problem, Result, Source, Span, Token};
use std::collections::HashSet;

pub(crate) use directives::directive;
pub(crate) use unit::items;

/// How deep expressions and statements may be nested.
const DEPTH_MAX: usize = 200;

pub(crate) struct Parser<'s, 'a> {
    pub(crate) source: &'s Source<'a>,
    tokens: &'s [Token],
    at: usize,
    depth: usize,
    pub(crate) types: HashSet<&'a str>,
    /// Where the text ends, for errors there.
    end: usize,
}

impl<'s, 'a> Parser<'s, 'a> {
    pub(crate) fn new(source: &'s Source<'a>, tokens: &'s [Token], end: usize) -> Parser<'s, 'a> {
        Parser { source, tokens, at: 0, depth: 0, types: HashSet::new(), end }
    }

    pub(crate) fn peek(&self) -> Option<Token> {
        self.tokens.get(self.at).copied()
    }

    /// The text of a token from here, "" behind the end.
    pub(crate) fn text(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).map_or("", |token| self.source.slice(token.span))
    }

    fn kind(&self, ahead: usize) -> Option<Kind> {
        self.tokens.get(self.at + ahead).map(|token| token.kind)
    }

    pub(crate) fn is(&self, text: &str) -> bool {
        self.text(0) == text && !matches!(self.kind(0), Some(Kind::Text))
    }

    pub(crate) fn is_word(&self, ahead: usize) -> bool {
        self.kind(ahead) == Some(Kind::Word)
    }

    pub(crate) fn at_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// Where the next token begins.
    pub(crate) fn offset(&self) -> usize {
        self.peek().map_or(self.end, |token| token.span.start)
    }

    /// Where the last token ended.
    pub(crate) fn behind(&self) -> usize {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(self.end, |token| token.span.end)
    }

    pub(crate) fn next(&mut self) -> Option<Token> {
        let token = self.peek();
        self.at += usize::from(token.is_some());
        token
    }

    pub(crate) fn take(&mut self, text: &str) -> bool {
        let found = self.is(text);
        self.at += usize::from(found);
        found
    }

    pub(crate) fn expect(&mut self, text: &str) -> Result<Span> {
        match self.peek() {
            Some(token) if self.is(text) => {
                self.at += 1;
                Ok(token.span)
            }
            _ => Err(self.unexpected(&format!("`{text}`"))),
        }
    }

    pub(crate) fn unexpected(&self, wanted: &str) -> Problem {
        let found = match self.kind(0) {
            None => "the end".into(),
            Some(Kind::Directive(_)) => "a directive".into(),
            Some(_) => format!("`{}`", self.text(0)),
        };
        Problem::new(self.offset(), format!("{wanted} is expected here, not {found}"))
    }

    pub(crate) fn word(&mut self, what: &str) -> Result<Span> {
        match self.peek() {
            Some(token) if token.kind == Kind::Word => {
                self.at += 1;
                Ok(token.span)
            }
            _ => Err(self.unexpected(what)),
        }
    }

    /// Goes one level deeper, and back.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_MAX {
            return Err(Problem::new(
                self.offset(),
                format!("this is nested more than {DEPTH_MAX} deep: take it apart"),
            ));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Behind what closes the bracket that is next.
    pub(crate) fn skip_brackets(&mut self) -> Result<Span> {
        let start = self.offset();
        let mut open = 0_usize;
        while let Some(token) = self.next() {
            match self.source.slice(token.span) {
                "(" | "[" | "{" => open += 1,
                ")" | "]" | "}" => open = open.saturating_sub(1),
                _ => {}
            }
            if open == 0 {
                return Ok(Span::new(start, token.span.end));
            }
        }
        Err(Problem::new(start, "this is never closed"))
    }
}

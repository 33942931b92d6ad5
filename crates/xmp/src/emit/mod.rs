//! From the tree to C: every construct of XcalableMP becomes calls of the run time, everything else stays as it is written.
//!
//! | file | what |
//! |---|---|
//! | `unit.rs` | the file: items, the initialiser, `main` |
//! | `names.rs` | what a scope declares: variables, nodes, templates, alignments |
//! | `declarations.rs` | the C text of declarations |
//! | `references.rs` | `p(..)`, `t[..]` of directives |
//! | `expressions.rs` | expressions, subscripts of distributed arrays |
//! | `statements.rs` | statements, pointers that are kept for a whole loop |
//! | `loops.rs` `nests.rs` `firsts.rs` | the loop directive: which `for` it means; its text |
//! | `directives.rs` | the other directives |
//! | `sides.rs` `sections.rs` | gmove, array assignments |
//! | `coarrays.rs` | coarrays |
//! | `pragmas.rs` | clauses of OpenMP |
//! | `vectors.rs` | loops that may be done in any order |
//! | `certain.rs` | arrays that each iteration needs |

mod certain;
mod coarrays;
mod declarations;
mod directives;
mod expressions;
mod firsts;
mod loops;
mod names;
mod nests;
mod pragmas;
mod references;
mod sections;
mod sides;
mod statements;
mod unit;
mod vectors;

use crate::ast::Expr;
use crate::directive::Directive;
use crate::names::{Array, Scopes};
use crate::source::{Problem, Result, Source, Span};
use std::collections::HashMap;
use std::rc::Rc;

pub(crate) use unit::translate;

/// How many problems are told.
const PROBLEMS_MAX: usize = 20;

pub(crate) struct Translator<'s, 'a> {
    source: &'s Source<'a>,
    directives: Vec<Result<Rc<Directive>>>,
    problems: Vec<Problem>,
    scopes: Scopes,
    /// What the initialiser of the unit does.
    initialiser: String,
    /// The descriptors of the unit's arrays.
    descriptors: Vec<String>,
    /// What must stand at file scope before the function that is being translated.
    before_function: String,
    /// Makes names that nobody else has.
    counter: usize,
    hoist: Option<Hoist>,
    /// Heads of `for` statements that a loop directive has replaced, by where they begin.
    rewrites: HashMap<usize, loops::Rewrite>,
    /// What is noted before a `break` that leaves a loop which looks for a location, by where it stands.
    noted_breaks: HashMap<usize, String>,
    /// Heads of `for` statements that a pragma of others takes together with the one around.
    joined: std::collections::HashSet<usize>,
    /// Pragmas of others with what cannot stand in them taken out, by where they begin.
    pragmas: HashMap<usize, String>,
    /// Variables of the loop directives around.
    loop_variables: Vec<String>,
    /// Loops around over dimensions that are dealt out one by one.
    turns: Vec<loops::Turn>,
    /// Whether the loops that are being translated have a pragma of others with them.
    has_foreign: bool,
    /// Inside an array assignment: what stands for the k-th section.
    section: Option<Vec<String>>,
    /// Array types that the user named: words before the name, what is derived.
    array_types: HashMap<String, (String, Vec<crate::names::Shape>)>,
    omni_local: bool,
    /// The first image is 1.
    images_from_1: bool,
    /// Expressions for which a variable stands.
    replaced: Vec<(Span, String)>,
    /// Names of the function whose address is taken.
    addressed: std::collections::HashSet<String>,
    /// Those of them that `&` stands before.
    pointed: std::collections::HashSet<String>,
    /// Variables of the reduction clauses around, which have a copy of their own inside.
    reduced_names: Vec<String>,
    /// The function whose body this is.
    function: String,
    /// Directives that were looked at.
    seen: std::collections::HashSet<usize>,
}

/// Pointers to distributed arrays that are computed once for a statement.
struct Hoist {
    depth: usize,
    arrays: Vec<Rc<Array>>,
    /// Something is called that could give an array new memory.
    may_move: bool,
    /// A coarray is mentioned.
    has_coarray: bool,
    /// Something in the statement may reach an array by another name.
    aliased: bool,
}

impl<'a> Translator<'_, 'a> {
    fn slice(&self, span: Span) -> &'a str {
        self.source.slice(span)
    }

    /// The text of an expression of a directive or of a size, on one line.
    fn flat(&self, span: Span) -> String {
        flat(self.slice(span))
    }

    fn fresh(&mut self) -> usize {
        self.counter += 1;
        self.counter
    }

    fn problem(&mut self, problem: Problem) {
        // What is wrong is found when a directive is read, and again when it is translated: in other words, perhaps.
        let known = self.problems.iter().any(|other| other.at == problem.at);
        if self.problems.len() < PROBLEMS_MAX && !known {
            self.problems.push(problem);
        }
    }

    /// The text of a piece with parts of it replaced; the parts are in order.
    fn splice(&self, span: Span, parts: &[(Span, String)]) -> String {
        let mut out = String::with_capacity(span.end - span.start + 64);
        let mut at = span.start;
        for (part, text) in parts {
            if part.start < at || part.end > span.end {
                continue;
            }
            out.push_str(&self.verbatim(Span::new(at, part.start)));
            out.push_str(text);
            at = part.end;
        }
        out.push_str(&self.verbatim(Span::new(at, span.end)));
        out
    }

    /// Text in the place of a piece that may go over several lines: what follows is on its line again.
    fn in_place(&self, span: Span, text: String) -> String {
        match self.slice(span).contains('\n') {
            true => text + &self.source.marker(span.end),
            false => text,
        }
    }

    /// Where in the user's file, as the run time is told.
    fn at(&self, at: usize) -> String {
        self.source.place_literal(at)
    }

    /// A translated expression, on one line.
    fn value(&mut self, expr: &Expr) -> Result<String> {
        Ok(flat(&self.expr(expr)?))
    }
}

/// Without line feeds and line markers.
pub(crate) fn flat(text: &str) -> String {
    if !text.contains('\n') {
        return text.trim().to_owned();
    }
    let text = without_comments(text);
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#')).map(str::trim);
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Comments become white space: `--save` keeps them, and on one line they would hide what follows.
pub(crate) fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut quote = None;
    while let Some(c) = chars.next() {
        match (c, quote, chars.peek()) {
            ('\\', Some(_), _) => {
                out.push(c);
                out.extend(chars.next());
                continue;
            }
            (_, Some(end), _) if c == end => quote = None,
            ('"' | '\'', None, _) => quote = Some(c),
            ('/', None, Some('/')) => {
                while chars.next_if(|c| *c != '\n').is_some() {}
                continue;
            }
            ('/', None, Some('*')) => {
                chars.next();
                let mut before = ' ';
                for c in chars.by_ref() {
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
                out.push(' ');
                continue;
            }
            _ => {}
        }
        out.push(c);
    }
    out
}

/// As an operand.
pub(crate) fn grouped(text: &str) -> String {
    let simple = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match simple && !text.is_empty() {
        true => text.to_owned(),
        false => format!("({text})"),
    }
}

/// Which way a step goes, where that can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Up,
    Down,
    /// Only the running program knows.
    Either,
}

/// The direction of a step, as it is written: `2`, `-1`, `(-1)`.
pub(crate) fn direction(step: &str) -> Direction {
    match number(step) {
        Some(value) if value < 0 => Direction::Down,
        Some(_) => Direction::Up,
        None => Direction::Either,
    }
}

/// A number with its sign and parentheses around it; none that C reads as octal.
pub(crate) fn number(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Some(inner) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        return number(inner);
    }
    match text.strip_prefix('-') {
        Some(rest) => number(rest).filter(|value| *value >= 0).map(|value| -value),
        None if text.len() > 1 && text.starts_with('0') => None,
        None => text.parse().ok(),
    }
}

/// As a `long` of C.
pub(crate) fn long(text: &str) -> String {
    match text.bytes().all(|byte| byte.is_ascii_digit()) && text.len() < 10 && !text.is_empty() {
        true => text.to_owned(),
        false => format!("(long){}", grouped(text)),
    }
}

/// `(const long[]){..}`
pub(crate) fn longs(values: &[String]) -> String {
    let values: Vec<String> = values.iter().map(|value| long(value)).collect();
    format!("(const long[]){{{}}}", values.join(", "))
}

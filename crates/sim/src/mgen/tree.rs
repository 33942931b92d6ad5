//! The syntax tree of an MGEN program. It keeps comments, blank lines and parentheses, so that the formatter can
//! write it back.

use crate::source::Span;

/// A whole program, or the body of a loop, a branch or a procedure.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Block {
    /// What stands in it, in order.
    pub lines: Vec<Line>,
}

/// A statement or a comment of its own line.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// Whether a blank line stands before it.
    pub blank_before: bool,
    /// The statement; none if the line has only a comment.
    pub statement: Option<Statement>,
    /// The comment at the end of the line, with its `#`.
    pub comment: Option<String>,
}

/// A statement and its place.
#[derive(Clone, PartialEq, Debug)]
pub struct Statement {
    /// Where it is.
    pub at: Span,
    /// What it is.
    pub kind: StatementKind,
}

/// A name and its place.
#[derive(Clone, PartialEq, Debug)]
pub struct Name {
    /// Where it is.
    pub at: Span,
    /// The name.
    pub text: String,
}

/// What a statement is.
#[derive(Clone, PartialEq, Debug)]
pub enum StatementKind {
    /// `param NAME = EXPRESSION`: a value that the command line may set.
    Param(Name, Expression),
    /// `let NAME = …`: a new variable.
    Let(Name, Right),
    /// `NAME = …`.
    Assign(Name, Right),
    /// `proc NAME(A, B) { … }`.
    Procedure(Name, Vec<Name>, Block),
    /// `func NAME(A, B) = EXPRESSION`.
    Function(Name, Vec<Name>, Expression),
    /// `NAME(…)`.
    Call(Name, Vec<Expression>),
    /// `for NAME in FROM..TO [step BY] { … }`.
    For {
        /// The variable.
        name: Name,
        /// Its first value.
        from: Expression,
        /// The value that it does not reach.
        to: Expression,
        /// What is added each time.
        step: Option<Expression>,
        /// What is repeated.
        body: Block,
    },
    /// `while CONDITION { … }`.
    While(Expression, Block),
    /// `repeat COUNT { … }`.
    Repeat(Expression, Block),
    /// `if CONDITION { … } else if … else { … }`.
    If(Vec<(Expression, Block)>, Option<Block>),
    /// `break`.
    Break,
    /// `next`: the next turn of the loop.
    Next,
    /// `return` from a procedure, or end of the rank's program.
    Return,
    /// `assert CONDITION [, "text"]`.
    Assert(Expression, Option<String>),
    /// Communication or computing.
    Operation(Operation),
}

/// What stands right of `=`.
#[derive(Clone, PartialEq, Debug)]
pub enum Right {
    /// A value.
    Expression(Expression),
    /// An operation that gives a handle.
    Operation(Operation),
}

/// An operation: a verb, mostly an amount, and clauses such as `to 3`.
#[derive(Clone, PartialEq, Debug)]
pub struct Operation {
    /// Where the verb is.
    pub at: Span,
    /// The verb, from the table in `verbs.rs`.
    pub verb: &'static super::verbs::Verb,
    /// Bytes, time, handle or flag, as the verb wants.
    pub amount: Option<Expression>,
    /// The clauses in the order written.
    pub clauses: Vec<Clause>,
}

/// A clause of an operation.
#[derive(Clone, PartialEq, Debug)]
pub struct Clause {
    /// Where its key is.
    pub at: Span,
    /// The key, such as `to`.
    pub key: &'static str,
    /// What follows it.
    pub value: ClauseValue,
}

/// What follows the key of a clause.
#[derive(Clone, PartialEq, Debug)]
pub enum ClauseValue {
    /// A value.
    Expression(Expression),
    /// A fixed word, such as `any`, `all` or the name of an algorithm.
    Word(String),
}

/// An expression and its place.
#[derive(Clone, PartialEq, Debug)]
pub struct Expression {
    /// Where it is.
    pub at: Span,
    /// What it is.
    pub kind: ExpressionKind,
}

/// What an expression is.
#[derive(Clone, PartialEq, Debug)]
pub enum ExpressionKind {
    /// A number as written, such as `64K` or `1_000`.
    Number(String),
    /// A value with a unit of time.
    Timed(Box<Expression>, Unit),
    /// A variable, a parameter, `rank` or `ranks`.
    Name(String),
    /// `NAME(…)`.
    Call(Name, Vec<Expression>),
    /// `-x` or `not x`.
    Unary(&'static str, Box<Expression>),
    /// `a + b`.
    Binary(&'static str, Box<Expression>, Box<Expression>),
    /// `( … )`.
    Parentheses(Box<Expression>),
}

/// A unit of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// 10⁻¹² s.
    Picoseconds,
    /// 10⁻⁹ s.
    Nanoseconds,
    /// 10⁻⁶ s.
    Microseconds,
    /// 10⁻³ s.
    Milliseconds,
    /// Seconds.
    Seconds,
}

impl Unit {
    /// The unit of this name.
    pub fn parse(text: &str) -> Option<Unit> {
        Some(match text {
            "ps" => Unit::Picoseconds,
            "ns" => Unit::Nanoseconds,
            "us" => Unit::Microseconds,
            "ms" => Unit::Milliseconds,
            "s" => Unit::Seconds,
            _ => return None,
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Picoseconds => "ps",
            Unit::Nanoseconds => "ns",
            Unit::Microseconds => "us",
            Unit::Milliseconds => "ms",
            Unit::Seconds => "s",
        }
    }

    /// How many picoseconds it has.
    pub fn picoseconds(self) -> i64 {
        match self {
            Unit::Picoseconds => 1,
            Unit::Nanoseconds => 1_000,
            Unit::Microseconds => 1_000_000,
            Unit::Milliseconds => 1_000_000_000,
            Unit::Seconds => 1_000_000_000_000,
        }
    }
}

//! What a program is compiled to: a list of instructions that all ranks share, with names resolved to places.

use super::tree::Unit;
use crate::source::Span;

/// A value of the language.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    /// A whole number; conditions are 0 and 1.
    Number(i64),
    /// A time in picoseconds.
    Time(i64),
    /// An operation that was begun.
    Handle(u64),
}

impl Value {
    /// What it is called in messages.
    pub(super) fn what(self) -> &'static str {
        match self {
            Value::Number(_) => "a number",
            Value::Time(_) => "a time",
            Value::Handle(_) => "a handle",
        }
    }
}

/// Where a variable is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Of the main program, seen by all procedures.
    Global(u16),
    /// Of the procedure that runs.
    Local(u16),
}

/// An expression that can be evaluated, and its place in the source.
#[derive(Clone, Debug)]
pub(super) struct Expr {
    pub(super) at: Span,
    pub(super) kind: ExprKind,
}

#[derive(Clone, Debug)]
pub(super) enum ExprKind {
    Constant(Value),
    Rank,
    Ranks,
    Variable(Place),
    /// An argument of the function that is evaluated.
    Argument(u16),
    Negative(Box<Expr>),
    Not(Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    Builtin(Builtin, Vec<Expr>),
    /// A function of the program.
    Function(u16, Vec<Expr>),
    /// A number that becomes a time.
    Timed(Box<Expr>, Unit),
}

/// An operator between two values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Binary {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    BitOr,
    BitXor,
    BitAnd,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Binary {
    /// The operator that is written so.
    pub(super) fn parse(text: &str) -> Binary {
        match text {
            "or" => Binary::Or,
            "and" => Binary::And,
            "==" => Binary::Equal,
            "!=" => Binary::NotEqual,
            "<" => Binary::Less,
            "<=" => Binary::LessEqual,
            ">" => Binary::Greater,
            ">=" => Binary::GreaterEqual,
            "|" => Binary::BitOr,
            "^" => Binary::BitXor,
            "&" => Binary::BitAnd,
            "<<" => Binary::ShiftLeft,
            ">>" => Binary::ShiftRight,
            "+" => Binary::Add,
            "-" => Binary::Subtract,
            "*" => Binary::Multiply,
            "/" => Binary::Divide,
            _ => Binary::Remainder,
        }
    }
}

/// A function of the language.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Builtin {
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// Without its sign.
    Abs,
    /// ⌊log₂ x⌋.
    Log2,
    /// ⌈log₂ x⌉.
    Log2Up,
    /// 2ˣ.
    Pow2,
    /// Rounded up.
    DivUp,
    /// Greatest common divisor.
    Gcd,
    /// ⌊√x⌋.
    Sqrt,
    /// Bits that are set.
    Bits,
    /// The same large number for the same argument, on every rank.
    Hash,
    /// A random number below x, of this rank.
    Random,
    /// The time since the beginning.
    Now,
    /// How often a flag was raised and not waited for.
    Flag,
    /// Whether an operation is complete.
    Done,
}

/// Every function: name, number of arguments (`None`: one or more), meaning.
pub const BUILTINS: &[(&str, Builtin, Option<usize>, &str)] = &[
    ("min", Builtin::Min, None, "the smallest of its arguments"),
    ("max", Builtin::Max, None, "the largest of its arguments"),
    ("abs", Builtin::Abs, Some(1), "without its sign"),
    ("log2", Builtin::Log2, Some(1), "the logarithm to base 2, rounded down"),
    ("log2_up", Builtin::Log2Up, Some(1), "the logarithm to base 2, rounded up"),
    ("pow2", Builtin::Pow2, Some(1), "2 to the power of it"),
    ("div_up", Builtin::DivUp, Some(2), "the quotient, rounded up"),
    ("gcd", Builtin::Gcd, Some(2), "the greatest common divisor"),
    ("sqrt", Builtin::Sqrt, Some(1), "the square root, rounded down"),
    ("bits", Builtin::Bits, Some(1), "how many bits are set"),
    ("hash", Builtin::Hash, Some(1), "a large number that looks random, the same on every rank"),
    ("random", Builtin::Random, Some(1), "a random number from 0 to one less, of this rank and the seed"),
    ("now", Builtin::Now, Some(0), "the simulated time since the beginning"),
    ("flag", Builtin::Flag, Some(1), "how often this flag of this rank was raised and not yet waited for"),
    ("done", Builtin::Done, Some(1), "1 if this handle's operation is complete, else 0"),
];

/// What must be complete before an operation starts.
#[derive(Clone, Debug)]
pub(super) enum OrderBy {
    None,
    All,
    Continue,
    After(Expr),
}

/// The operations that are left when collectives are expanded.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Send { blocking: bool, bytes: Expr, to: Expr, tag: Option<Expr>, gap: Option<Expr>, order: OrderBy },
    Receive { blocking: bool, bytes: Expr, from: Option<Expr>, tag: Option<Expr> },
    Put { bytes: Expr, to: Expr, flag: Option<Expr>, gap: Option<Expr>, order: OrderBy },
    Get { bytes: Expr, from: Expr, gap: Option<Expr>, order: OrderBy },
    Copy { bytes: Expr, from: Expr, to: Expr, flag: Option<Expr>, gap: Option<Expr>, order: OrderBy },
    Atomic { on: Expr, order: OrderBy },
    Wait(Expr),
    WaitAll,
    WaitFlag { flag: Expr, count: Option<Expr> },
    Compute(Expr),
    Barrier,
    Step,
}

/// An instruction.
#[derive(Clone, Debug)]
pub(super) enum Instruction {
    /// Evaluates, and puts the value in its place.
    Set(Place, Expr),
    /// Goes on there.
    Jump(usize),
    /// Goes on there if the condition does not hold.
    Unless(Expr, usize),
    /// Does an operation, and puts its handle in its place.
    Act(Box<Act>, Span, Option<Place>),
    /// Runs a procedure.
    Call { procedure: u16, arguments: Vec<Expr>, at: Span },
    /// Back to the caller, or the end.
    Return,
    /// Ends with a message if the condition does not hold.
    Assert(Expr, Option<String>),
}

/// A procedure.
#[derive(Clone, Debug)]
pub(super) struct Procedure {
    /// Its first instruction.
    pub(super) entry: usize,
    /// Places for parameters and variables.
    pub(super) locals: u16,
    /// Whether it is of the library of collectives, for messages.
    pub(super) of_library: bool,
}

/// A program, shared by all its ranks.
#[derive(Clone, Debug, Default)]
pub(super) struct Code {
    pub(super) instructions: Vec<Instruction>,
    pub(super) entry: usize,
    pub(super) procedures: Vec<Procedure>,
    pub(super) functions: Vec<Expr>,
    pub(super) globals: u16,
    /// Instructions before this are of the library.
    pub(super) library_end: usize,
}

//! The tree that the parser makes: as much of C as the translator must see, with the place of everything in the text.

use crate::source::Span;

pub(crate) struct Expr {
    pub(crate) span: Span,
    pub(crate) kind: ExprKind,
}

pub(crate) enum ExprKind {
    Name,
    Number,
    /// Strings, and what is not looked into: types as arguments.
    Opaque,
    Paren(Box<Expr>),
    Index(Box<Expr>, Box<Sub>),
    /// `x[..]:[image][image]`
    Image(Box<Expr>, Vec<Expr>),
    Call(Box<Expr>, Vec<Expr>),
    /// The member's name is the span.
    Member(Box<Expr>, Span),
    /// Also `sizeof`; the sign is the span.
    Unary(Span, Box<Expr>),
    /// `x++`
    Postfix(Box<Expr>, Span),
    Binary(Span, Box<Expr>, Box<Expr>),
    Assign(Span, Box<Expr>, Box<Expr>),
    /// `a ?: b` has no second.
    Cond(Box<Expr>, Option<Box<Expr>>, Box<Expr>),
    Cast(Box<Expr>),
    SizeofType,
    /// `(type){..}`, braces of initialisers, and what is chosen from in `_Generic`.
    Braces(Vec<Expr>),
    Statement(Box<Stmt>),
    Comma(Box<Expr>, Box<Expr>),
}

/// What stands between brackets.
pub(crate) enum Sub {
    At(Expr),
    /// `base:length:step`
    Section(Span, Option<Expr>, Option<Expr>, Option<Expr>),
}

pub(crate) struct Stmt {
    pub(crate) span: Span,
    pub(crate) kind: StmtKind,
}

pub(crate) enum StmtKind {
    Compound(Vec<Stmt>),
    Expr(Option<Expr>),
    Decl(Declaration),
    If(Expr, Box<Stmt>, Option<Box<Stmt>>),
    For(Box<For>),
    While(Expr, Box<Stmt>),
    Do(Box<Stmt>, Expr),
    Switch(Expr, Box<Stmt>),
    Return(Option<Expr>),
    Jump(Jump),
    /// A label of any kind, and what it stands before.
    Label(Box<Stmt>),
    /// A directive that needs no statement, by its index.
    Directive(usize),
    /// One with the statement behind it.
    Directed(usize, Box<Stmt>),
    /// `asm`
    Opaque,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Jump {
    Break,
    Continue,
    Goto,
}

pub(crate) struct For {
    /// What is between the parentheses.
    pub(crate) head: Span,
    pub(crate) first: ForFirst,
    pub(crate) cond: Option<Expr>,
    pub(crate) step: Option<Expr>,
    pub(crate) body: Stmt,
}

pub(crate) enum ForFirst {
    None,
    Expr(Expr),
    Decl(Declaration),
}

pub(crate) struct Declaration {
    pub(crate) span: Span,
    pub(crate) spec: Spec,
    pub(crate) declarators: Vec<Declarator>,
}

/// `static const double`
#[derive(Clone, Default)]
pub(crate) struct Spec {
    pub(crate) span: Span,
    pub(crate) storage: Storage,
    /// The words of the type, without the storage class.
    pub(crate) words: Vec<Span>,
    /// `struct name { .. }` with braces, and the name if it has one.
    pub(crate) body: Option<(Span, Option<Span>)>,
    /// What stands in `typeof`.
    pub(crate) typeof_of: Option<std::rc::Rc<Expr>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Storage {
    #[default]
    Plain,
    Static,
    Extern,
    Typedef,
}

pub(crate) struct Declarator {
    pub(crate) span: Span,
    pub(crate) name: Span,
    /// From the name outwards.
    pub(crate) derived: Vec<Derived>,
    /// `:[*]`: one a codimension; None is the star.
    pub(crate) codims: Option<(Span, Vec<Option<Expr>>)>,
    pub(crate) init: Option<Expr>,
}

pub(crate) enum Derived {
    Array(Option<Expr>),
    Pointer,
    Function(Vec<Param>),
}

/// A parameter; the last of `(a, b)` of old C has no type.
pub(crate) struct Param {
    pub(crate) spec: Spec,
    pub(crate) declarator: Option<Declarator>,
}

pub(crate) struct Function {
    pub(crate) spec: Spec,
    pub(crate) declarator: Declarator,
    /// Declarations of parameters in the way of old C, and directives, before the brace.
    pub(crate) before: Vec<Stmt>,
    /// From brace to brace.
    pub(crate) body: Span,
    /// What was understood, or why not.
    pub(crate) parsed: Result<Stmt, crate::source::Problem>,
}

pub(crate) enum Item {
    Decl(Declaration),
    Function(Box<Function>),
    Directive(usize),
    /// Copied: what does not parse, with the reason, where the user wrote it.
    Unknown(Span, crate::source::Problem),
}

//! What a directive says, as it is written: the two notations are still apart here.

use crate::ast::Expr;
use crate::source::Span;

/// `p(..)` counts from 1 and has the fastest dimension first; `p[..]` counts from 0 and has it last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Notation {
    Round,
    Square,
}

/// `p`, `t(i, *)`, `t[0:n][:]`
pub(crate) struct Reference {
    pub(crate) span: Span,
    pub(crate) name: Span,
    pub(crate) subs: Option<Subs>,
}

pub(crate) struct Subs {
    pub(crate) notation: Notation,
    pub(crate) list: Vec<Subscript>,
}

pub(crate) struct Subscript {
    pub(crate) span: Span,
    pub(crate) kind: SubscriptKind,
}

pub(crate) enum SubscriptKind {
    Star,
    At(Expr),
    /// `:` and its parts, as they are written.
    Range(Option<Expr>, Option<Expr>, Option<Expr>),
}

impl Subs {
    /// The list with the fastest dimension first.
    pub(crate) fn fastest_first(&self) -> Vec<&Subscript> {
        let mut list: Vec<&Subscript> = self.list.iter().collect();
        if self.notation == Notation::Square {
            list.reverse();
        }
        list
    }
}

pub(crate) enum NodesFrom {
    Entire,
    Executing,
    Subset(Reference),
}

pub(crate) enum Format {
    None,
    Block(Option<Expr>),
    Cyclic(Option<Expr>),
    /// `gblock(*)` has none.
    Gblock(Option<Expr>),
}

pub(crate) struct Formats {
    pub(crate) span: Span,
    pub(crate) notation: Notation,
    pub(crate) list: Vec<Format>,
}

impl Formats {
    pub(crate) fn fastest_first(&self) -> Vec<&Format> {
        let mut list: Vec<&Format> = self.list.iter().collect();
        if self.notation == Notation::Square {
            list.reverse();
        }
        list
    }
}

/// One dimension of a halo.
pub(crate) struct Width {
    pub(crate) periodic: bool,
    pub(crate) unbound: bool,
    /// None: `*`, all of it.
    pub(crate) sides: Option<(Expr, Option<Expr>)>,
}

/// A name with what stands in its brackets.
pub(crate) struct Named<T> {
    pub(crate) name: Span,
    pub(crate) value: T,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    Sum,
    Product,
    BitAnd,
    BitOr,
    BitXor,
    And,
    Or,
    Max,
    Min,
    FirstMax,
    FirstMin,
    LastMax,
    LastMin,
}

impl Operation {
    pub(crate) fn constant(self) -> &'static str {
        match self {
            Operation::Sum => "KXMP_SUM",
            Operation::Product => "KXMP_PROD",
            Operation::BitAnd => "KXMP_BAND",
            Operation::BitOr => "KXMP_BOR",
            Operation::BitXor => "KXMP_BXOR",
            Operation::And => "KXMP_LAND",
            Operation::Or => "KXMP_LOR",
            Operation::Max => "KXMP_MAX",
            Operation::Min => "KXMP_MIN",
            Operation::FirstMax => "KXMP_FIRSTMAX",
            Operation::FirstMin => "KXMP_FIRSTMIN",
            Operation::LastMax => "KXMP_LASTMAX",
            Operation::LastMin => "KXMP_LASTMIN",
        }
    }
}

pub(crate) struct Reduction {
    pub(crate) operation: Operation,
    /// Variables with their locations.
    pub(crate) variables: Vec<(Expr, Vec<Expr>)>,
}

pub(crate) struct Halo {
    pub(crate) arrays: Vec<Span>,
    pub(crate) widths: Option<Vec<Width>>,
    pub(crate) orthogonal: bool,
    pub(crate) id: Option<Expr>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HaloKind {
    Reflect,
    ReduceShadow,
    Init,
    Do,
}

pub(crate) enum Widen {
    Expand(Vec<Width>),
    Margin(Vec<Width>),
    Peel(Expr, Vec<Width>),
}

pub(crate) struct Loop {
    pub(crate) variables: Option<Vec<Span>>,
    pub(crate) on: Reference,
    pub(crate) widen: Option<Widen>,
    pub(crate) reductions: Vec<Reduction>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Collective,
    In,
    Out,
}

pub(crate) enum Directive {
    Nodes(Vec<Named<(Subs, NodesFrom)>>),
    Template(Vec<Named<Subs>>),
    Distribute(Vec<(Span, std::rc::Rc<Formats>)>, Span),
    Align(Vec<(Span, std::rc::Rc<Subs>)>, std::rc::Rc<Reference>),
    Shadow(Vec<(Span, std::rc::Rc<Vec<Width>>)>),
    /// The nodes and the names.
    Coarray(Option<Span>, Vec<Span>),
    StaticDesc,
    TemplateFix {
        template: Reference,
        formats: Option<Formats>,
    },
    Task {
        on: Reference,
        nocomm: bool,
    },
    Tasks,
    Loop(Box<Loop>),
    Array(Reference),
    Halo(HaloKind, Halo),
    Barrier(Option<Reference>),
    Reduction {
        reduction: Reduction,
        on: Option<Reference>,
        id: Option<Expr>,
    },
    Bcast {
        variables: Vec<Expr>,
        from: Option<Reference>,
        on: Option<Reference>,
        id: Option<Expr>,
    },
    Gmove {
        mode: Mode,
        id: Option<Expr>,
    },
    WaitAsync {
        ids: Vec<Expr>,
        on: Option<Reference>,
    },
    Post {
        to: Reference,
        tag: Expr,
    },
    Wait {
        from: Option<Reference>,
        tag: Option<Expr>,
    },
    Lock {
        unlock: bool,
        object: Expr,
        acquired: Option<Expr>,
        status: Option<Expr>,
    },
    /// `sync_all` and `sync_memory` of old programs: the function of `xmp.h`.
    Sync(&'static str),
    /// `#pragma kumiki omni_local_subscripts`
    OmniLocalSubscripts,
    /// `#pragma kumiki images_from_1`
    ImagesFrom1,
}

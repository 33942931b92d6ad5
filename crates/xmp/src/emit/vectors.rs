//! Loops whose iterations do not depend on each other. C compilers do not see that arrays of which they have only pointers lie apart;
//! where each iteration of an innermost loop writes elements of its own and reads no others of those arrays, they are told.

use super::expressions::{bare, children};
use super::statements::{any, expressions_of, inside};
use super::Translator;
use crate::ast::{Expr, ExprKind, For, Stmt, StmtKind, Sub};
use crate::directive::Directive;
use crate::names::{Owner, Shape};
use std::collections::HashSet;

/// Stands in the text until it is known whether an array may be reached by two names.
pub(super) const MARK: &str = "\u{1}";
const PRAGMA: &str = "_Pragma(\"GCC ivdep\") ";

/// Functions that only compute.
const PURE: [&str; 26] = [
    "sqrt", "fabs", "sin", "cos", "tan", "exp", "log", "pow", "fmax", "fmin", "floor", "ceil", "abs",
    "sqrtf", "fabsf", "sinf", "cosf", "expf", "logf", "powf", "fmaxf", "fminf", "atan", "atan2", "tanh",
    "hypot",
];

/// Puts the pragma where the marks are, or takes them out.
pub(super) fn settle(text: &str, apart: bool) -> String {
    text.replace(MARK, if apart { PRAGMA } else { "" })
}

impl Translator<'_, '_> {
    /// Names whose address is taken in a function: such variables lie in memory.
    pub(super) fn find_addressed(&mut self, body: &Stmt) {
        let mut found = HashSet::new();
        self.addressed_in(body, &mut found);
        self.addressed = found;
        let mut found = HashSet::new();
        any(body, &mut |one| {
            expressions_of(one).into_iter().for_each(|expr| self.addresses(expr, &mut found));
            false
        });
        self.pointed = found;
    }

    /// Whether something is read or written through a pointer, as far as C shows.
    pub(super) fn follows_pointer(&self, stmt: &Stmt) -> bool {
        any(stmt, &mut |one| {
            matches!(one.kind, StmtKind::Opaque)
                || expressions_of(one).into_iter().any(|expr| self.follows(expr))
        })
    }

    fn follows(&self, expr: &Expr) -> bool {
        let here = match &expr.kind {
            ExprKind::Statement(_) => true,
            ExprKind::Member(inner, name) => {
                self.slice(crate::source::Span::new(inner.span.end, name.start)).contains("->")
            }
            ExprKind::Unary(sign, _) if self.slice(*sign) == "*" => !self.stays_inside(expr),
            ExprKind::Index(..) => !self.stays_inside(expr),
            _ => false,
        };
        here || children(expr).into_iter().any(|child| self.follows(child))
    }

    /// An element, or a row, of an array that C knows as one, or that is distributed.
    pub(super) fn stays_inside(&self, expr: &Expr) -> bool {
        if let Some(chain) = self.chain(expr) {
            return chain.steps.len() <= chain.array.dims();
        }
        let (base, subs) = super::sides::split(expr);
        match &bare(base).kind {
            ExprKind::Name => self
                .scopes
                .var(self.slice(bare(base).span))
                .is_some_and(|var| !var.is_pointer() && subs.len() <= var.dims()),
            _ => false,
        }
    }

    fn addressed_in(&self, stmt: &Stmt, found: &mut HashSet<String>) {
        for expr in expressions_of(stmt) {
            self.addresses(expr, found);
        }
        match &stmt.kind {
            StmtKind::Directive(index) => self.words_of(*index, found),
            StmtKind::Directed(index, inner) => {
                let is_gmove = matches!(self.directives.get(*index), Some(Ok(one)) if matches!(**one, Directive::Gmove { .. }));
                if is_gmove {
                    expressions_of(inner).into_iter().for_each(|expr| self.all_names(expr, found));
                }
            }
            _ => {}
        }
        for one in inside(stmt) {
            self.addressed_in(one, found);
        }
    }

    fn words_of(&self, index: usize, found: &mut HashSet<String>) {
        let tokens = self.source.directives.get(index).map(|raw| raw.tokens.as_slice()).unwrap_or_default();
        found.extend(tokens.iter().map(|token| self.slice(token.span).to_owned()));
    }

    fn addresses(&self, expr: &Expr, found: &mut HashSet<String>) {
        match &expr.kind {
            ExprKind::Unary(sign, inner) if self.slice(*sign) == "&" => self.all_names(inner, found),
            ExprKind::Statement(inner) => self.addressed_in(inner, found),
            _ => {}
        }
        for child in children(expr) {
            self.addresses(child, found);
        }
    }

    fn all_names(&self, expr: &Expr, found: &mut HashSet<String>) {
        if matches!(expr.kind, ExprKind::Name) {
            found.insert(self.slice(expr.span).to_owned());
        }
        for child in children(expr) {
            self.all_names(child, found);
        }
    }

    /// Whether the iterations of this loop can be done in any order, as far as C shows.
    pub(super) fn is_independent(&self, one: &For, variable: &str) -> bool {
        if any(&one.body, &mut |stmt| !is_plain(stmt)) || has_pragma(self.slice(one.body.span)) {
            return false;
        }
        let mut seen = Seen::default();
        self.look(&one.body, variable, &mut seen)
            && seen.offsets.iter().all(|name| {
                name == variable || !(seen.declared.contains(name) || self.changes(&one.body, name))
            })
            && seen
                .reads
                .iter()
                .all(|(name, text)| seen.writes.iter().all(|(written, how)| written != name || how == text))
    }

    fn look(&self, stmt: &Stmt, variable: &str, seen: &mut Seen) -> bool {
        if let StmtKind::Decl(declaration) = &stmt.kind {
            seen.declared.extend(declaration.declarators.iter().map(|one| self.slice(one.name).to_owned()));
            if declaration.declarators.iter().any(|one| !one.derived.is_empty()) {
                return false;
            }
        }
        expressions_of(stmt).into_iter().all(|expr| self.look_at(expr, variable, seen))
            && inside(stmt).into_iter().all(|one| self.look(one, variable, seen))
    }

    fn look_at(&self, expr: &Expr, variable: &str, seen: &mut Seen) -> bool {
        match &expr.kind {
            ExprKind::Assign(sign, left, right) => {
                let updates = self.slice(*sign) != "=";
                self.written(left, updates, variable, seen) && self.look_at(right, variable, seen)
            }
            ExprKind::Unary(sign, inner) | ExprKind::Postfix(inner, sign) => match self.slice(*sign) {
                "++" | "--" => self.written(inner, true, variable, seen),
                "&" | "*" | "&&" => false,
                _ => self.look_at(inner, variable, seen),
            },
            ExprKind::Index(..) => {
                let Some(name) = self.array_root(expr) else { return false };
                seen.reads.push((name, super::flat(self.slice(expr.span))));
                self.subscripts(expr, variable, seen)
            }
            ExprKind::Call(function, arguments) => {
                PURE.contains(&self.slice(function.span))
                    && arguments.iter().all(|one| self.look_at(one, variable, seen))
            }
            ExprKind::Name
            | ExprKind::Number
            | ExprKind::Paren(_)
            | ExprKind::Binary(..)
            | ExprKind::Cond(..)
            | ExprKind::Cast(_) => {
                children(expr).into_iter().all(|child| self.look_at(child, variable, seen))
            }
            ExprKind::Comma(a, b) => self.look_at(a, variable, seen) && self.look_at(b, variable, seen),
            ExprKind::Opaque | ExprKind::SizeofType => true,
            _ => false,
        }
    }

    /// The array of a subscripted name: a distributed one, or one of C that is no pointer.
    fn array_root(&self, expr: &Expr) -> Option<String> {
        let (base, _) = super::sides::split(expr);
        let base = bare(base);
        if !matches!(base.kind, ExprKind::Name) {
            return None;
        }
        let name = self.slice(base.span);
        let var = self.scopes.var(name)?;
        let is_array = matches!(var.shape.first(), Some(Shape::Array(_)));
        ((var.distributed().is_some() || is_array) && self.stays_inside(expr)).then(|| name.to_owned())
    }

    fn subscripts(&self, expr: &Expr, variable: &str, seen: &mut Seen) -> bool {
        let (_, subs) = super::sides::split(expr);
        subs.into_iter().all(|sub| match sub {
            Sub::At(at) => self.look_at(at, variable, seen),
            Sub::Section(..) => false,
        })
    }

    fn written(&self, target: &Expr, updates: bool, variable: &str, seen: &mut Seen) -> bool {
        let target = bare(target);
        match &target.kind {
            ExprKind::Name => {
                let name = self.slice(target.span);
                if seen.declared.iter().any(|known| known == name)
                    || self.reduced_names.iter().any(|known| known == name)
                {
                    return true;
                }
                let in_register = self
                    .scopes
                    .var(name)
                    .is_some_and(|var| var.owner == Owner::Block && var.shape.is_empty());
                !updates && in_register && !self.addressed.contains(name) && name != variable
            }
            ExprKind::Index(..) => {
                let Some(name) = self.array_root(target) else { return false };
                let (_, subs) = super::sides::split(target);
                // Each iteration must have an element of its own.
                let own = subs.iter().find_map(|sub| match sub {
                    Sub::At(at) => self.offset_from(at, variable).map(|_| at),
                    Sub::Section(..) => None,
                });
                let Some(own) = own else { return false };
                let mut names = HashSet::new();
                self.all_names(own, &mut names);
                seen.offsets.extend(names);
                let text = super::flat(self.slice(target.span));
                seen.reads.push((name.clone(), text.clone()));
                seen.writes.push((name, text));
                self.subscripts(target, variable, seen)
            }
            _ => false,
        }
    }
}

/// What a loop's body does to arrays.
#[derive(Default)]
struct Seen {
    reads: Vec<(String, String)>,
    writes: Vec<(String, String)>,
    declared: Vec<String>,
    /// Names in the subscripts that make the elements of an iteration its own.
    offsets: Vec<String>,
}

fn is_plain(stmt: &Stmt) -> bool {
    matches!(stmt.kind, StmtKind::Compound(_) | StmtKind::Expr(_) | StmtKind::Decl(_) | StmtKind::If(..))
}

fn has_pragma(text: &str) -> bool {
    text.contains("#pragma")
}

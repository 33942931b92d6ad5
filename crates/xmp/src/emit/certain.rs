//! Arrays that each iteration of a loop needs. A pointer among them that `xmp_malloc` has given nothing is told before the first.

use super::expressions::{bare, children};
use super::nests::{Level, Way};
use super::statements::{any, expressions_of, inside};
use super::Translator;
use crate::ast::{Expr, ExprKind, For, Stmt, StmtKind};
use crate::names::{Array, Owner};
use std::rc::Rc;

impl Translator<'_, '_> {
    /// What asks, once for each box of a nest, whether the pointers that its iterations need have memory.
    pub(super) fn memory_tests(&self, at: usize, levels: &[Level<'_>], inner: &Stmt) -> String {
        // Whatever is called may give memory, and a nest may have no iteration in loops that are not its own.
        if self.calls_unknown(inner) || !levels.iter().any(|level| level.way == Way::Nest) {
            return String::new();
        }
        let mut found: Vec<Rc<Array>> = Vec::new();
        self.needed(inner, levels, &mut found);
        let test = |array: &Rc<Array>| {
            let name = array.descriptor();
            format!(
                "if (__builtin_expect(!{name}.base, 0)) kxmp_no_memory({}, (kxmp_array *)&{name}); ",
                self.at(at)
            )
        };
        found.iter().map(test).collect()
    }

    /// Pointers that a statement needs whenever it is executed. False if what follows may not be executed.
    fn needed(&self, stmt: &Stmt, levels: &[Level<'_>], found: &mut Vec<Rc<Array>>) -> bool {
        let leaves = |one: &Stmt| {
            matches!(
                one.kind,
                StmtKind::Return(_) | StmtKind::Jump(_) | StmtKind::Label(_) | StmtKind::Opaque
            )
        };
        let is_nest =
            |one: &For| levels.iter().any(|level| level.way == Way::Nest && std::ptr::eq(level.one, one));
        match &stmt.kind {
            StmtKind::For(one) if is_nest(one) => self.needed(&one.body, levels, found),
            StmtKind::Compound(items) => items.iter().all(|item| self.needed(item, levels, found)),
            StmtKind::Expr(_) | StmtKind::Decl(_) => {
                for expr in expressions_of(stmt) {
                    self.needed_in(expr, found);
                }
                true
            }
            _ => inside(stmt).iter().all(|one| !any(one, &mut |one| leaves(one))) && !leaves(stmt),
        }
    }

    fn needed_in(&self, expr: &Expr, found: &mut Vec<Rc<Array>>) {
        if let ExprKind::Index(..) = &expr.kind {
            let chain = self.chain(expr).filter(|chain| chain.steps.len() == chain.array.dims());
            let array = chain.map(|chain| chain.array).filter(|array| is_filled_later(array));
            found.extend(array.filter(|array| !found.iter().any(|known| Rc::ptr_eq(known, array))));
        }
        let is_conditional = match &expr.kind {
            ExprKind::Cond(..) | ExprKind::Statement(_) => true,
            ExprKind::Binary(sign, ..) => matches!(self.slice(*sign), "&&" | "||"),
            ExprKind::Unary(sign, inner) => {
                let is_address = self.slice(*sign) == "&" && matches!(bare(inner).kind, ExprKind::Index(..));
                is_address || matches!(self.slice(*sign), "sizeof" | "_Alignof" | "__alignof__")
            }
            ExprKind::Call(function, _) => self.slice(function.span).starts_with("__builtin"),
            _ => false,
        };
        if !is_conditional {
            children(expr).into_iter().for_each(|child| self.needed_in(child, found));
        }
    }
}

/// A pointer of this unit that `xmp_malloc` fills.
fn is_filled_later(array: &Array) -> bool {
    array.is_pointer && array.storage != Owner::Parameter
}

//! Which `for` statements a loop directive is about, and what their heads say.

use super::expressions::bare;
use super::firsts::First;
use super::statements::{expressions_of, inside};
use super::{grouped, long, Translator};
use crate::ast::{Expr, ExprKind, For, ForFirst, Stmt, StmtKind};
use crate::directive::{Loop, Notation, Subs, SubscriptKind};
use crate::names::Set;
use crate::source::{Problem, Result, Span};

/// `for (v = lo; v <= hi; v += step)`, also downwards.
pub(super) struct Head {
    pub(super) lo: String,
    pub(super) hi: String,
    pub(super) step: String,
    pub(super) descending: bool,
    /// The type, if the variable is declared here.
    pub(super) declared: Option<String>,
    /// Statements for what else the first part does.
    pub(super) before: String,
    /// Why only a loop that stays as it is written can have this head.
    pub(super) refused: Option<Problem>,
}

impl Head {
    /// A step in the direction of the loop.
    pub(super) fn sign(&self) -> i32 {
        if self.descending {
            -1
        } else {
            1
        }
    }
}

/// How a level comes by its bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// Together with the others of the nest.
    Nest,
    /// One range, computed before the nest.
    Range,
    /// A nest of its own, where its `for` stands.
    Own,
    /// As it is written: the dimension is not distributed.
    Kept,
}

/// A `for` whose variable stands in the reference.
pub(super) struct Level<'e> {
    pub(super) one: &'e For,
    pub(super) name: String,
    /// None: not distributed.
    pub(super) axis: Option<usize>,
    pub(super) offset: String,
    pub(super) head: Head,
    pub(super) way: Way,
    /// A further `for` with a variable that an earlier one has: both are cut, each by itself.
    pub(super) again: bool,
    /// No nest goes before: this level tests the axes that no variable stands in. These are the others.
    pub(super) alone: Option<Vec<usize>>,
}

impl Level<'_> {
    /// `{axis, offset, lo, hi, step}`
    pub(super) fn text(&self) -> String {
        let axis = self.axis.map_or(-1, |axis| axis as i64);
        format!("{{{axis}, {}, {}, {}, {}}}", self.offset, self.head.lo, self.head.hi, self.head.step)
    }

    pub(super) fn type_text(&self) -> String {
        self.head.declared.clone().unwrap_or_else(|| format!("__typeof__({})", self.name))
    }
}

impl Translator<'_, '_> {
    pub(super) fn levels<'e>(
        &mut self,
        one: &Loop,
        directive: Span,
        inner: &'e Stmt,
    ) -> Result<Vec<Level<'e>>> {
        let StmtKind::For(top) = &inner.kind else {
            return Err(Problem::new(directive.start, "a loop directive needs a `for` statement behind it"));
        };
        let mut found: Vec<(&'e For, String)> = Vec::new();
        self.collect(inner, false, &mut found);
        if let Some(names) = &one.variables {
            for name in names {
                let text = self.slice(*name);
                if !found.iter().any(|(_, known)| known == text) {
                    return Err(Problem::new(
                        name.start,
                        format!("there is no `for` with the variable `{text}` behind this directive"),
                    ));
                }
            }
        }
        let set = self.set_of(&one.on)?;
        let Some(subs) = &one.on.subs else {
            return Err(Problem::new(
                one.on.span.start,
                format!(
                    "say which element each iteration belongs to: `loop on {}[i]`",
                    self.slice(one.on.name)
                ),
            ));
        };
        let chosen = self.chosen(one, subs, &set, &found)?;
        let mut levels = Vec::new();
        for (which, axis, offset) in chosen {
            let (one, name) = &found[which];
            let head = self.head(one, name)?;
            levels.push(Level {
                one,
                name: name.clone(),
                axis: Some(axis),
                offset,
                head,
                way: Way::Nest,
                again: false,
                alone: None,
            });
        }
        let first = levels.len();
        for (other, name) in &found {
            let Some(at) = levels[..first].iter().position(|level| level.name == *name) else { continue };
            if std::ptr::eq(levels[at].one, *other) {
                continue;
            }
            let head = self.head(other, name)?;
            let (axis, offset) = (levels[at].axis, levels[at].offset.clone());
            levels.push(Level {
                one: other,
                name: name.clone(),
                axis,
                offset,
                head,
                way: Way::Nest,
                again: true,
                alone: None,
            });
        }
        if levels.is_empty() {
            let name = self.variable_of(top).unwrap_or_default();
            let head = self.head(top, &name)?;
            levels.push(Level {
                one: top,
                name,
                axis: None,
                offset: "0".into(),
                head,
                way: Way::Nest,
                again: false,
                alone: None,
            });
        }
        self.choose_ways(one, inner, &mut levels, &set)?;
        for level in levels.iter_mut().filter(|level| level.way != Way::Kept) {
            level.head.refused.take().map_or(Ok(()), Err)?;
        }
        Ok(levels)
    }

    /// Which `for` stands in which subscript, and what is added to its variable there; outermost first.
    fn chosen(
        &mut self,
        one: &Loop,
        subs: &Subs,
        set: &Set,
        found: &[(&For, String)],
    ) -> Result<Vec<(usize, usize, String)>> {
        let allowed = |name: &str| {
            one.variables.as_ref().is_none_or(|list| list.iter().any(|span| self.slice(*span) == name))
        };
        let mut chosen: Vec<(usize, usize, String)> = Vec::new();
        for (axis, sub) in subs.fastest_first().into_iter().enumerate() {
            let SubscriptKind::At(e) = &sub.kind else { continue };
            let used = found.iter().position(|(_, name)| allowed(name) && self.mentions(e, name));
            let Some(which) = used else {
                self.refuse_unknown(e)?;
                continue;
            };
            let Some(mut offset) = self.offset_from(e, &found[which].1) else {
                let name = &found[which].1;
                return Err(Problem::new(
                    sub.span.start,
                    format!("only `{name}`, `{name} + n` and `{name} - n` can stand here"),
                ));
            };
            if subs.notation == Notation::Round && matches!(set, Set::Nodes(_)) {
                offset = format!("{offset} - 1");
            }
            if chosen.iter().any(|(known, ..)| *known == which) {
                let name = &found[which].1;
                return Err(Problem::new(
                    sub.span.start,
                    format!("`{name}` stands in two subscripts: an iteration belongs to one element of each axis by a variable of its own; write two `for` and test inside"),
                ));
            }
            chosen.push((which, axis, offset));
        }
        chosen.sort_by_key(|(which, ..)| *which);
        Ok(chosen)
    }

    /// A name in a subscript that is neither a variable nor that of a `for`.
    fn refuse_unknown(&self, at: &Expr) -> Result<()> {
        let is_known =
            !matches!(at.kind, ExprKind::Name) || self.check_declared(at.span, Span::default()).is_ok();
        let name = self.slice(at.span);
        match is_known {
            true => Ok(()),
            false => Err(Problem::new(
                at.span.start,
                format!("`{name}` is not declared, and there is no `for` with the variable `{name}` behind this directive"),
            )),
        }
    }

    /// All `for` statements that could be meant, outermost first.
    /// Several with one variable stand side by side; one inside another, or one with a directive of its own, is another matter.
    fn collect<'e>(&self, stmt: &'e Stmt, directed: bool, found: &mut Vec<(&'e For, String)>) {
        if let StmtKind::For(one) = &stmt.kind {
            if let Some(name) = self.variable_of(one) {
                let around = |outer: &For| {
                    outer.body.span.start <= stmt.span.start && stmt.span.end <= outer.body.span.end
                };
                let blocks = |(outer, known): &(&For, String)| *known == name && (directed || around(outer));
                if !found.iter().any(blocks) {
                    found.push((one, name));
                }
            }
        }
        let directed = matches!(stmt.kind, StmtKind::Directed(..));
        for inner in inside(stmt) {
            self.collect(inner, directed, found);
        }
    }

    fn choose_ways(&mut self, one: &Loop, inner: &Stmt, levels: &mut [Level<'_>], set: &Set) -> Result<()> {
        // Loops that have nothing but each other in them.
        let mut chain: Vec<(*const For, Vec<String>)> = Vec::new();
        let mut at = inner;
        loop {
            match &at.kind {
                StmtKind::For(one) => {
                    // What the outermost sets besides is set before anything else.
                    let names = match chain.is_empty() {
                        true => self.variable_of(one).into_iter().collect(),
                        false => self.set_in_head(one),
                    };
                    chain.push((std::ptr::from_ref(&**one), names));
                    at = &one.body;
                }
                StmtKind::Compound(items) if items.len() == 1 => at = &items[0],
                _ => break,
            }
        }
        // Something must ask whether this node takes part at all.
        let is_spread = |level: &Level<'_>| match set {
            Set::Template(template) => {
                level.axis.and_then(|axis| template.layout(axis)) != Some(crate::names::Layout::None)
            }
            Set::Nodes(_) => true,
        };
        // A reduction with a location notes every iteration.
        let may_keep = levels.iter().any(is_spread) && !one.reductions.iter().any(super::loops::is_located);
        for level in levels.iter_mut() {
            let position = chain.iter().position(|(one, _)| std::ptr::eq(*one, level.one));
            let depends = |chain: &[(*const For, Vec<String>)]| {
                chain.iter().flat_map(|(_, names)| names).any(|name| self.head_mentions(level.one, name))
            };
            let sets_others = |position: usize| position > 0 && !level.head.before.is_empty();
            let layout = match set {
                Set::Template(template) => level.axis.and_then(|axis| template.layout(axis)),
                Set::Nodes(_) => None,
            };
            if layout == Some(crate::names::Layout::None) && one.widen.is_none() && may_keep {
                level.way = Way::Kept;
                continue;
            }
            level.way = match position {
                Some(position) if !depends(&chain[..position]) && !sets_others(position) => Way::Nest,
                _ => {
                    let single = match set {
                        Set::Nodes(_) => true,
                        Set::Template(template) => {
                            level.axis.and_then(|axis| template.layout(axis))
                                != Some(crate::names::Layout::BlockCyclic)
                        }
                    };
                    let visible = level.head.declared.is_some() || self.scopes.var(&level.name).is_some();
                    match single && visible && one.widen.is_none() && self.is_fixed(level.one, inner) {
                        true => Way::Range,
                        false => Way::Own,
                    }
                }
            };
        }
        if levels.iter().all(|level| level.way != Way::Nest) {
            let axes: Vec<usize> = levels.iter().filter_map(|level| level.axis).collect();
            let known_before = self.is_known_before(one, inner, &axes);
            for level in levels.iter_mut() {
                level.alone = Some(axes.clone());
                if level.way == Way::Range && !known_before {
                    level.way = Way::Own;
                }
            }
        }
        Ok(())
    }

    /// Whether the subscripts in other axes have their values before the statement begins.
    fn is_known_before(&self, one: &Loop, inner: &Stmt, axes: &[usize]) -> bool {
        let Some(subs) = &one.on.subs else { return true };
        subs.fastest_first().into_iter().enumerate().all(|(axis, sub)| {
            let SubscriptKind::At(e) = &sub.kind else { return true };
            let mut names = Vec::new();
            axes.contains(&axis)
                || (self.names_of(e, &mut names) && names.iter().all(|name| !self.changes(inner, name)))
        })
    }

    fn head_mentions(&self, one: &For, name: &str) -> bool {
        self.head_bounds(one).iter().any(|expr| self.mentions(expr, name))
    }

    /// The expressions of a head that say where it begins and ends.
    fn head_bounds<'e>(&self, one: &'e For) -> Vec<&'e Expr> {
        let mut list: Vec<&Expr> = [&one.cond, &one.step].into_iter().flatten().collect();
        match &one.first {
            ForFirst::Expr(first) => match &bare(first).kind {
                ExprKind::Assign(_, _, right) => list.push(right),
                _ => list.push(first),
            },
            ForFirst::Decl(declaration) => {
                list.extend(declaration.declarators.iter().filter_map(|one| one.init.as_ref()))
            }
            ForFirst::None => {}
        }
        list
    }

    /// Whether nothing in the statement changes what the bounds are made of.
    fn is_fixed(&self, one: &For, inner: &Stmt) -> bool {
        let own = self.variable_of(one).unwrap_or_default();
        let mut names = Vec::new();
        for expr in self.head_bounds(one) {
            if !self.names_of(expr, &mut names) {
                return false;
            }
        }
        names.retain(|name| *name != own);
        names.iter().all(|name| !self.changes(inner, name))
    }

    /// The names in an expression; false if there is more than names, numbers and arithmetic.
    fn names_of(&self, expr: &Expr, names: &mut Vec<String>) -> bool {
        match &expr.kind {
            ExprKind::Name => {
                names.push(self.slice(expr.span).to_owned());
                true
            }
            ExprKind::Call(..)
            | ExprKind::Index(..)
            | ExprKind::Image(..)
            | ExprKind::Statement(_)
            | ExprKind::Member(..) => false,
            _ => super::expressions::children(expr).iter().all(|child| self.names_of(child, names)),
        }
    }

    pub(super) fn changes(&self, stmt: &Stmt, name: &str) -> bool {
        let declares = match &stmt.kind {
            StmtKind::Decl(declaration) => {
                declaration.declarators.iter().any(|one| self.slice(one.name) == name)
            }
            StmtKind::For(one) => match &one.first {
                ForFirst::Decl(declaration) => {
                    declaration.declarators.iter().any(|one| self.slice(one.name) == name)
                }
                _ => false,
            },
            _ => false,
        };
        declares
            || expressions_of(stmt).iter().any(|expr| self.assigns(expr, name))
            || inside(stmt).into_iter().any(|one| self.changes(one, name))
    }

    pub(super) fn assigns(&self, expr: &Expr, name: &str) -> bool {
        let is = |target: &Expr| {
            matches!(bare(target).kind, ExprKind::Name) && self.slice(bare(target).span) == name
        };
        let here = match &expr.kind {
            ExprKind::Assign(_, left, _) => is(left),
            ExprKind::Unary(sign, inner) | ExprKind::Postfix(inner, sign) => {
                matches!(self.slice(*sign), "++" | "--" | "&") && is(inner)
            }
            _ => false,
        };
        here || super::expressions::children(expr).iter().any(|child| self.assigns(child, name))
    }

    /// What the head of a `for` says.
    pub(super) fn head(&mut self, one: &For, name: &str) -> Result<Head> {
        let at = one.head.start;
        let First { value, declared, others: before } = self.first(one, name)?;
        let lo = long(&self.value(value)?);
        let (step, refused) = self.own_step(one, name);
        let (step, mut descending) = self.step(one, step, name)?;
        let Some(cond) = &one.cond else {
            return Err(Problem::new(
                at,
                format!("the `for` of a loop directive needs an end: `{name} < last`"),
            ));
        };
        // A step that only the running program knows goes where the comparison says.
        if super::number(&step).is_none() {
            match self.comparison(cond, name) {
                Some(("<" | "<=", _)) => descending = false,
                Some((">" | ">=", _)) => descending = true,
                _ => {}
            }
        }
        let hi = self.last(cond, name, &step, descending)?;
        Ok(Head { lo, hi, step, descending, declared, before, refused })
    }

    /// The step, with its sign, and whether the loop goes down.
    fn step(&mut self, one: &For, step: Option<&Expr>, name: &str) -> Result<(String, bool)> {
        let wrong = |at: usize| {
            Problem::new(at, format!("the step of a loop directive's `for` is one of `{name}++`, `{name}--`, `{name} += n`, `{name} -= n`"))
        };
        let Some(step) = step else { return Err(wrong(one.head.start)) };
        let step = bare(step);
        let is = |expr: &Expr| self.slice(bare(expr).span) == name;
        let (amount, down) = match &step.kind {
            ExprKind::Unary(sign, inner) | ExprKind::Postfix(inner, sign) if is(inner) => {
                match self.slice(*sign) {
                    "++" => return Ok(("1".into(), false)),
                    "--" => return Ok(("-1".into(), true)),
                    _ => return Err(wrong(step.span.start)),
                }
            }
            ExprKind::Assign(sign, left, right) if is(left) => match (self.slice(*sign), &bare(right).kind) {
                ("+=", _) => (right, false),
                ("-=", _) => (right, true),
                ("=", ExprKind::Binary(sign, a, b)) => match self.slice(*sign) {
                    "+" if is(a) => (b, false),
                    "+" if is(b) => (a, false),
                    "-" if is(a) => (b, true),
                    _ => return Err(wrong(step.span.start)),
                },
                _ => return Err(wrong(step.span.start)),
            },
            _ => return Err(wrong(step.span.start)),
        };
        let text = self.value(amount)?;
        // `i += -1` goes down, too.
        if let Some(value) = super::number(&text).filter(|value| *value < 0) {
            return Ok(if down { ((-value).to_string(), false) } else { (value.to_string(), true) });
        }
        Ok(if down { (format!("-{}", long(&text)), true) } else { (long(&text), false) })
    }

    /// The comparison at the end of a loop, as if the variable stood on its left, and what stands on the right.
    pub(super) fn comparison<'e>(&self, cond: &'e Expr, name: &str) -> Option<(&'static str, &'e Expr)> {
        let ExprKind::Binary(sign, left, right) = &bare(cond).kind else { return None };
        let is = |expr: &Expr| self.slice(bare(expr).span) == name;
        let signs = ["<", "<=", ">", ">=", "!="];
        let turned = [">", ">=", "<", "<=", "!="];
        let which = signs.iter().position(|known| *known == self.slice(*sign))?;
        match (is(left), is(right)) {
            (true, _) => Some((signs[which], right)),
            (false, true) => Some((turned[which], left)),
            _ => None,
        }
    }

    /// The last value that the variable may have.
    fn last(&mut self, cond: &Expr, name: &str, step: &str, descending: bool) -> Result<String> {
        let wrong = Problem::new(
            cond.span.start,
            format!("the end of a loop directive's `for` is one comparison: `{name} < last`"),
        );
        let Some((sign, end)) = self.comparison(cond, name) else { return Err(wrong) };
        let never = Problem::new(cond.span.start, "this loop goes away from its end");
        let value = self.value(end)?;
        let end = match value.parse::<i64>() {
            Ok(_) => value,
            Err(_) => format!("(long){}", grouped(&value)),
        };
        Ok(match (sign, descending) {
            ("<", false) => format!("{end} - 1"),
            ("<=", false) | (">=", true) => end,
            (">", true) => format!("{end} + 1"),
            ("!=", _) => format!("{end} - ({step})"),
            ("<" | "<=", true) | (">" | ">=", false) => return Err(never),
            _ => return Err(wrong),
        })
    }
}

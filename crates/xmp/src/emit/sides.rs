//! gmove: both sides are described to the run time. The same descriptions serve coarrays.

use super::expressions::{bare, Step};
use super::{grouped, long, Translator};
use crate::ast::{Expr, ExprKind, Stmt, StmtKind, Sub};
use crate::directive::Mode;
use crate::names::{Array, Shape, Var};
use crate::source::{Problem, Result, Span};
use std::rc::Rc;

/// A side as C text, and what must stand before it.
pub(super) struct Side {
    pub(super) text: String,
    pub(super) before: String,
    /// How many ranges it has.
    pub(super) ranks: usize,
    pub(super) is_distributed: bool,
}

/// An element of a distributed array.
struct Element<'e> {
    expr: &'e Expr,
    array: Rc<Array>,
}

fn mode_text(mode: Mode) -> &'static str {
    match mode {
        Mode::Collective => "KXMP_COLLECTIVE",
        Mode::In => "KXMP_IN",
        Mode::Out => "KXMP_OUT",
    }
}

impl Translator<'_, '_> {
    pub(super) fn gmove(&mut self, at: usize, mode: Mode, id: Option<&Expr>, stmt: &Stmt) -> Result<String> {
        let wrong = || Problem::new(at, "gmove needs one assignment behind it: `a[0:n] = b[0:n];`");
        let StmtKind::Expr(Some(expr)) = &stmt.kind else { return Err(wrong()) };
        let ExprKind::Assign(sign, left, right) = &bare(expr).kind else { return Err(wrong()) };
        if self.slice(*sign) != "=" {
            return Err(Problem::new(
                sign.start,
                "gmove moves data and does not compute: only `=` can stand here",
            ));
        }
        if let ExprKind::Cast(inner) = &bare(right).kind {
            if self.mentions_distributed(inner) || super::statements::has_section(inner) {
                return Err(Problem::new(
                    right.span.start,
                    "a gmove has no casts: numbers become those of the left side, as an assignment of C converts them",
                ));
            }
        }
        self.check_names(left, stmt.span)?;
        self.check_names(right, stmt.span)?;
        let members = (self.under_member(left)?, self.under_member(right)?);
        if members.0.is_some() || members.1.is_some() {
            return self.gmove_member(at, mode, id, left, right, members);
        }
        let id = self.id(id)?;
        self.gmove_sides(at, mode, &id, left, right)
    }

    fn check_names(&self, expr: &Expr, without: Span) -> Result<()> {
        match expr.kind {
            ExprKind::Name => self.check_declared(expr.span, without),
            _ => super::expressions::children(expr)
                .iter()
                .try_for_each(|child| self.check_names(child, without)),
        }
    }

    fn gmove_sides(&mut self, at: usize, mode: Mode, id: &str, left: &Expr, right: &Expr) -> Result<String> {
        let to = self.side(left)?;
        if to.ranks == 0 && to.text.is_empty() {
            return Err(Problem::new(
                left.span.start,
                "the left side of a gmove is a variable, an element or a section",
            ));
        }
        if self.computes(right) {
            return Err(Problem::new(right.span.start, "gmove moves data and does not compute: the right side is a variable, an element, a section or a constant"));
        }
        let kind = self.element_type(left);
        let from = self.side_or_value(right, kind)?;
        if to.ranks != from.ranks && from.ranks != 0 {
            return Err(Problem::new(
                right.span.start,
                format!(
                    "the left side has {} dimensions with a range, the right side {}: these must be as many",
                    to.ranks, from.ranks
                ),
            ));
        }
        if to.ranks == 0 && !to.is_distributed && !from.is_distributed {
            return Err(Problem::new(at, "neither side of this gmove is a distributed array"));
        }
        // What cannot be assigned is told by the compiler; values were assigned before.
        let checked = match from.ranks != 0 || from.is_distributed {
            true => {
                let (to, from) = (self.element_type(left)?, self.element_type(right)?);
                format!("if (0) {to} = {from}; ")
            }
            false => String::new(),
        };
        Ok(format!(
            "{{ {}{}{checked}kxmp_gmove({}, {}, &{}, &{}, {id}); }}",
            to.before,
            from.before,
            self.at(at),
            mode_text(mode),
            to.text,
            from.text
        ))
    }

    /// The element of a distributed array of which a side is a member.
    fn under_member<'e>(&self, side: &'e Expr) -> Result<Option<Element<'e>>> {
        let (mut at, mut member) = (bare(side), None::<(usize, bool)>);
        loop {
            if let Some((inside, is_arrow)) = member {
                if let Some(chain) = self.chain(at) {
                    let name = &chain.array.name;
                    let is_one = chain.steps.len() == chain.array.dims()
                        && !chain.steps.iter().any(|step| matches!(step, Step::Sub(Sub::Section(..))));
                    return match is_one && !is_arrow {
                        true => Ok(Some(Element { expr: at, array: chain.array.clone() })),
                        false => Err(Problem::new(
                            inside,
                            format!("gmove moves members of one element only, `{name}[i].member`: move whole elements of `{name}`, and take the member of those"),
                        )),
                    };
                }
            }
            at = match &at.kind {
                ExprKind::Member(inner, name) => {
                    let sign = self.slice(Span::new(inner.span.end, name.start));
                    member = Some((name.start, sign.contains("->")));
                    bare(inner)
                }
                ExprKind::Index(inner, _) => bare(inner),
                ExprKind::Unary(sign, inner) if self.slice(*sign) == "*" => bare(inner),
                _ => return Ok(None),
            };
        }
    }

    /// A member has no place in the descriptor of its array: the whole element is moved to every node, and back.
    fn gmove_member(
        &mut self,
        at: usize,
        mode: Mode,
        id: Option<&Expr>,
        left: &Expr,
        right: &Expr,
        (to, from): (Option<Element<'_>>, Option<Element<'_>>),
    ) -> Result<String> {
        if id.is_some() {
            return Err(Problem::new(at, "a gmove of members of structures cannot be asynchronous"));
        }
        if to.is_some() && mode == Mode::In {
            return Err(Problem::new(left.span.start, "the left side of `gmove in` is memory of the executing nodes: a member of a distributed structure needs a gmove without `in`"));
        }
        let place = self.at(at);
        let (mut before, mut after) = (String::new(), String::new());
        let outer = self.replaced.len();
        for (element, is_written) in [(to, true), (from, false)] {
            let Some(element) = element else { continue };
            let name = format!("kx_v{}", self.fresh());
            let other = self.side(element.expr)?.text;
            let own =
                format!("(kxmp_side){{0, &{name}, sizeof({name}), KXMP_TYPE_OF({name}), 0, 0, {{{{0}}}}}}");
            // What is put elsewhere is not known to be among the executing nodes.
            let get = if mode == Mode::Collective { mode } else { Mode::In };
            before.push_str(&format!(
                "{} {name}; kxmp_gmove({place}, {}, &{own}, &{other}, KXMP_SYNC); ",
                element.array.element,
                mode_text(get)
            ));
            if is_written {
                after = format!(" kxmp_gmove({place}, {}, &{other}, &{own}, KXMP_SYNC);", mode_text(mode));
            }
            self.replaced.push((element.expr.span, name));
        }
        let is_local = !self.is_distributed(left) && !self.is_distributed(right);
        let has_section = super::statements::has_section(left) || super::statements::has_section(right);
        let moved = match is_local && !has_section {
            true => self.value(left).and_then(|to| self.value(right).map(|from| format!("{to} = {from};"))),
            false => self.gmove_sides(at, mode, "KXMP_SYNC", left, right),
        };
        self.replaced.truncate(outer);
        Ok(format!("{{ {before}{}{after} }}", moved?))
    }

    fn is_distributed(&self, side: &Expr) -> bool {
        self.chain(bare(side)).is_some()
    }

    /// Whether something is computed with distributed data.
    fn computes(&self, expr: &Expr) -> bool {
        let expr = bare(expr);
        match &expr.kind {
            ExprKind::Binary(..) | ExprKind::Call(..) | ExprKind::Cond(..) => {
                self.mentions_distributed(expr) || super::statements::has_section(expr)
            }
            _ => false,
        }
    }

    pub(super) fn mentions_distributed(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Name => {
                self.scopes.var(self.slice(expr.span)).is_some_and(|var| var.distributed().is_some())
            }
            _ => super::expressions::children(expr).iter().any(|child| self.mentions_distributed(child)),
        }
    }

    /// A side; a value that is no variable gets one, of the type of the expression `kind`.
    pub(super) fn side_or_value(&mut self, expr: &Expr, kind: Result<String>) -> Result<Side> {
        let inner = bare(expr);
        let is_place = match &inner.kind {
            ExprKind::Name => self.scopes.var(self.slice(inner.span)).is_some(),
            ExprKind::Index(..) | ExprKind::Member(..) => true,
            ExprKind::Unary(sign, _) => self.slice(*sign) == "*",
            _ => false,
        };
        if is_place {
            let side = self.side(inner)?;
            if side.ranks != 0 || side.is_distributed {
                return Ok(side);
            }
        }
        self.value_side(expr, &kind?)
    }

    /// A scalar is converted as C does it: into a variable of the type of the left side.
    pub(super) fn value_side(&mut self, expr: &Expr, kind: &str) -> Result<Side> {
        let name = format!("kx_v{}", self.fresh());
        let value = self.value(expr)?;
        Ok(Side {
            text: format!("(kxmp_side){{0, &{name}, sizeof({name}), KXMP_TYPE_OF({name}), 0, 0, {{{{0}}}}}}"),
            before: format!("__typeof__({kind}) {name} = {value}; "),
            ranks: 0,
            is_distributed: false,
        })
    }

    /// An expression of the type of an element of a side.
    pub(super) fn element_type(&mut self, expr: &Expr) -> Result<String> {
        let expr = bare(expr);
        if let Some(chain) = self.chain(expr) {
            return Ok(format!("*({} *)0", chain.array.element));
        }
        if let ExprKind::Image(inner, _) = &expr.kind {
            return self.element_type(inner);
        }
        let (base, subs) = split(expr);
        let text = self.value(base)?;
        let dims = match &bare(base).kind {
            ExprKind::Name => self.scopes.var(self.slice(bare(base).span)).map_or(0, |var| var.dims()),
            _ => 0,
        };
        match dims.max(subs.len()) {
            0 => Ok(text),
            dims => Ok(format!("{}{}", grouped(&text), "[0]".repeat(dims))),
        }
    }

    pub(super) fn side(&mut self, expr: &Expr) -> Result<Side> {
        let expr = bare(expr);
        if let Some(chain) = self.chain(expr) {
            let subs: Vec<&Step<'_>> = chain.steps.iter().collect();
            return self.distributed_side(expr, &chain.array, &subs);
        }
        let (base, subs) = split(expr);
        let var = match &bare(base).kind {
            ExprKind::Name => self.scopes.var(self.slice(bare(base).span)),
            _ => None,
        };
        let has_section = subs.iter().any(|sub| matches!(sub, Sub::Section(..)));
        let dims = var.as_ref().map_or(subs.len(), |var| var.dims().max(subs.len()));
        if !has_section && (subs.len() >= dims || dims == 0) {
            let text = self.value(expr)?;
            return Ok(Side {
                text: format!(
                    "(kxmp_side){{0, (void *)&{0}, sizeof({text}), KXMP_TYPE_OF({text}), 0, 0, {{{{0}}}}}}",
                    grouped(&text)
                ),
                before: String::new(),
                ranks: 0,
                is_distributed: false,
            });
        }
        // Behind a pointer in an array or a structure the rows lie anywhere: the last of them is what is subscripted.
        let leads_on =
            var.as_ref().is_none_or(|var| var.shape.iter().skip(1).any(|one| *one == Shape::Pointer));
        let leading = subs.iter().take_while(|sub| matches!(sub, Sub::At(_))).count();
        if leads_on && leading > 0 {
            let row = back(expr, subs.len() - leading);
            return self.local_side(row, &subs[leading..], None, subs.len() - leading);
        }
        self.local_side(base, &subs, var.as_ref(), dims)
    }

    fn distributed_side(&mut self, expr: &Expr, array: &Rc<Array>, steps: &[&Step<'_>]) -> Result<Side> {
        if steps.len() > array.dims() {
            return Err(Problem::new(
                expr.span.start,
                format!(
                    "`{}` has {} dimensions, {} subscripts are given",
                    array.name,
                    array.dims(),
                    steps.len()
                ),
            ));
        }
        let (mut parts, mut ranks) = (Vec::new(), 0);
        for dim in 0..array.dims() {
            parts.push(match steps.get(dim) {
                Some(Step::Sub(sub)) => self.part(sub, &mut ranks)?,
                Some(Step::Plus(terms)) => format!("KXMP_INDEX({})", long(&self.sum(terms)?)),
                Some(Step::Zero) => "KXMP_INDEX(0)".into(),
                None => {
                    ranks += 1;
                    "KXMP_SECTION(KXMP_REST, KXMP_REST, 1)".into()
                }
            });
        }
        Ok(Side {
            text: format!(
                "(kxmp_side){{&{}, 0, 0, 0, {}, 0, {{{}}}}}",
                array.descriptor(),
                array.dims(),
                parts.join(", ")
            ),
            before: String::new(),
            ranks,
            is_distributed: true,
        })
    }

    /// An array in the memory of every node.
    fn local_side(&mut self, base: &Expr, subs: &[&Sub], var: Option<&Rc<Var>>, dims: usize) -> Result<Side> {
        let text = self.value(base)?;
        let (mut parts, mut ranks, mut extents) = (Vec::new(), 0, Vec::new());
        let is_pointer = var.is_some_and(|var| var.is_pointer());
        let mut object = grouped(&text);
        for dim in 0..dims {
            parts.push(match subs.get(dim) {
                Some(sub) => self.part(sub, &mut ranks)?,
                None => {
                    ranks += 1;
                    "KXMP_SECTION(KXMP_REST, KXMP_REST, 1)".into()
                }
            });
            let said = var.and_then(|var| match var.shape.get(dim) {
                Some(Shape::Array(Some(size))) => Some(size.clone()),
                _ => None,
            });
            extents.push(match (said, dim == 0 && is_pointer) {
                (Some(size), _) => long(&size),
                (None, true) => self.reach(subs.first().copied(), base)?,
                (None, false) if var.is_none() && dim == 0 => match self.reach(subs.first().copied(), base) {
                    // C knows whether it is an array.
                    Ok(reach) => format!(
                        "(__builtin_types_compatible_p(__typeof__({object}), __typeof__(&{object}[0])) ? {reach} : (long)(sizeof({object}) / sizeof({object}[0])))"
                    ),
                    Err(_) => format!("(long)(sizeof({object}) / sizeof({object}[0]))"),
                },
                (None, false) => format!("(long)(sizeof({object}) / sizeof({object}[0]))"),
            });
            object.push_str("[0]");
        }
        Ok(Side {
            text: format!(
                "(kxmp_side){{0, (void *){}, sizeof({object}), KXMP_TYPE_OF({object}), {dims}, (const long[]){{{}}}, {{{}}}}}",
                grouped(&text),
                extents.join(", "),
                parts.join(", ")
            ),
            before: String::new(),
            ranks,
            is_distributed: false,
        })
    }

    /// How far a section of a pointer goes.
    fn reach(&mut self, sub: Option<&Sub>, base: &Expr) -> Result<String> {
        let open =
            || Problem::new(base.span.start, "this is a pointer: say how long the section is, `p[0:n]`");
        match sub {
            Some(Sub::At(at)) => Ok(format!("{} + 1", long(&self.value(at)?))),
            Some(Sub::Section(_, first, Some(length), step)) => {
                let first = first
                    .as_ref()
                    .map_or_else(|| Ok("0".into()), |first| self.value(first).map(|text| long(&text)))?;
                let length = long(&self.value(length)?);
                match step {
                    None => Ok(format!("{first} + {length}")),
                    Some(step) => {
                        let step = long(&self.value(step)?);
                        Ok(format!("{first} + ({step} < 0 ? 1 : ({length} - 1) * {step} + 1)"))
                    }
                }
            }
            _ => Err(open()),
        }
    }

    /// One subscript as the run time takes it.
    pub(super) fn part(&mut self, sub: &Sub, ranks: &mut usize) -> Result<String> {
        match sub {
            Sub::At(at) => Ok(format!("KXMP_INDEX({})", long(&self.value(at)?))),
            Sub::Section(_, first, length, step) => {
                *ranks += 1;
                let mut one = |part: &Option<Expr>, missing: &str| match part {
                    Some(part) => self.value(part).map(|text| long(&text)),
                    None => Ok(missing.to_owned()),
                };
                Ok(format!(
                    "KXMP_SECTION({}, {}, {})",
                    one(first, "KXMP_REST")?,
                    one(length, "KXMP_REST")?,
                    one(step, "1")?
                ))
            }
        }
    }
}

/// Without the last subscripts.
fn back(expr: &Expr, count: usize) -> &Expr {
    match (&bare(expr).kind, count) {
        (ExprKind::Index(inner, _), 1..) => back(inner, count - 1),
        _ => bare(expr),
    }
}

/// What is subscripted, and the subscripts from the left.
pub(super) fn split(expr: &Expr) -> (&Expr, Vec<&Sub>) {
    let mut subs = Vec::new();
    let mut base = bare(expr);
    while let ExprKind::Index(inner, sub) = &base.kind {
        subs.insert(0, &**sub);
        base = inner;
    }
    (base, subs)
}

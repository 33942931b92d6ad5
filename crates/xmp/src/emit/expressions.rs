//! Expressions: subscripts of distributed arrays, their names, calls that mean something here. Everything else is copied.

use super::{direction, grouped, Direction, Translator};
use crate::ast::{Expr, ExprKind, Sub};
use crate::names::{Array, Owner, Set, Var};
use crate::source::{Problem, Result, Span};
use std::rc::Rc;

/// The expressions in an expression, in order.
pub(super) fn children(expr: &Expr) -> Vec<&Expr> {
    match &expr.kind {
        ExprKind::Name
        | ExprKind::Number
        | ExprKind::Opaque
        | ExprKind::SizeofType
        | ExprKind::Statement(_) => Vec::new(),
        ExprKind::Paren(e)
        | ExprKind::Member(e, _)
        | ExprKind::Unary(_, e)
        | ExprKind::Postfix(e, _)
        | ExprKind::Cast(e) => vec![e],
        ExprKind::Index(e, sub) => {
            let mut list = vec![&**e];
            match &**sub {
                Sub::At(at) => list.push(at),
                Sub::Section(_, a, b, c) => list.extend([a, b, c].into_iter().flatten()),
            }
            list
        }
        ExprKind::Image(e, images) => std::iter::once(&**e).chain(images).collect(),
        ExprKind::Call(e, arguments) => std::iter::once(&**e).chain(arguments).collect(),
        ExprKind::Binary(_, a, b) | ExprKind::Assign(_, a, b) | ExprKind::Comma(a, b) => vec![a, b],
        ExprKind::Cond(a, b, c) => {
            std::iter::once(a).chain(b).chain(std::iter::once(c)).map(|e| &**e).collect()
        }
        ExprKind::Braces(list) => list.iter().collect(),
    }
}

/// Without parentheses around it.
pub(super) fn bare(expr: &Expr) -> &Expr {
    match &expr.kind {
        ExprKind::Paren(inner) => bare(inner),
        _ => expr,
    }
}

/// One subscript, however it is written.
pub(super) enum Step<'e> {
    Sub(&'e Sub),
    /// `*(a - 1 + i)`: what is added, or taken off.
    Plus(Vec<(bool, &'e Expr)>),
    /// `*a[i]`
    Zero,
}

/// `a[i][j]` of a distributed array.
pub(super) struct Chain<'e> {
    pub(super) array: Rc<Array>,
    pub(super) var: Rc<Var>,
    pub(super) steps: Vec<Step<'e>>,
}

/// Functions of which we know that they reach no array of the program.
pub(super) const HARMLESS: [&str; 44] = [
    "sqrt",
    "fabs",
    "sin",
    "cos",
    "tan",
    "exp",
    "log",
    "pow",
    "fmax",
    "fmin",
    "floor",
    "ceil",
    "abs",
    "labs",
    "atan",
    "atan2",
    "asin",
    "acos",
    "sinh",
    "cosh",
    "tanh",
    "log10",
    "log2",
    "exp2",
    "cbrt",
    "hypot",
    "fmod",
    "sqrtf",
    "fabsf",
    "sinf",
    "cosf",
    "expf",
    "logf",
    "powf",
    "fmaxf",
    "fminf",
    "printf",
    "exit",
    "rand",
    "srand",
    "xmp_node_num",
    "xmpc_node_num",
    "round",
    "trunc",
];

/// Functions that take an array as a whole, by its descriptor.
const BY_DESCRIPTOR: [&str; 9] = [
    "xmp_scatter",
    "xmp_gather",
    "xmp_pack",
    "xmp_unpack",
    "xmp_transpose",
    "xmp_matmul",
    "xmp_sort_up",
    "xmp_sort_down",
    "xmp_free",
];

impl Translator<'_, '_> {
    pub(super) fn expr(&mut self, expr: &Expr) -> Result<String> {
        if let Some((_, name)) = self.replaced.iter().find(|(span, _)| *span == expr.span) {
            return Ok(name.clone());
        }
        match &expr.kind {
            ExprKind::Number | ExprKind::Opaque | ExprKind::SizeofType => {
                Ok(self.slice(expr.span).to_owned())
            }
            ExprKind::Name => {
                if self.source.is_in_directive(expr.span.start) {
                    self.check_declared(expr.span, Span::default())?;
                }
                Ok(self.name(expr.span))
            }
            ExprKind::Image(..) => self.fetched(expr),
            ExprKind::Call(function, arguments) => self.call(expr, function, arguments),
            ExprKind::Statement(inner) => {
                let text = self.stmt(inner)?;
                Ok(self.splice(expr.span, &[(inner.span, text)]))
            }
            ExprKind::Assign(sign, left, right) if self.is_remote(left) => {
                self.put_expression(expr, *sign, left, right)
            }
            ExprKind::Assign(_, left, right) => {
                self.refuse_pointer_copy(left, right)?;
                if self.is_untyped(left) {
                    let text = self.expr(right)?;
                    return Ok(self.splice(expr.span, &[(right.span, text)]));
                }
                self.copied(expr)
            }
            ExprKind::Unary(sign, inner) | ExprKind::Postfix(inner, sign)
                if self.is_step(*sign) && self.is_remote(inner) =>
            {
                self.step_remote(expr, inner, *sign)
            }
            ExprKind::Unary(sign, inner) if self.slice(*sign) == "sizeof" => self.size_of(expr, inner),
            ExprKind::Unary(sign, inner) if self.slice(*sign) == "&" && self.is_remote(inner) => Err(
                Problem::new(expr.span.start, "the address of a coarray on another image cannot be taken"),
            ),
            ExprKind::Binary(sign, ..) if matches!(self.slice(*sign), "+" | "-") => {
                match self.moved_pointer(expr)? {
                    Some(text) => Ok(text),
                    None => self.copied(expr),
                }
            }
            ExprKind::Index(..) | ExprKind::Unary(..) => match self.chain(expr) {
                Some(chain) if !chain.steps.is_empty() => self.element(expr, &chain),
                _ => self.indexed(expr),
            },
            _ => self.copied(expr),
        }
    }

    /// An aligned pointer is more than an address: only memory that was made for it can be put there.
    fn refuse_pointer_copy(&self, left: &Expr, right: &Expr) -> Result<()> {
        let left = bare(left);
        if !matches!(left.kind, ExprKind::Name) {
            return Ok(());
        }
        let name = self.slice(left.span);
        let Some(array) = self.scopes.var(name).and_then(|var| var.distributed()) else { return Ok(()) };
        let mut value = bare(right);
        while let ExprKind::Cast(inner) = &value.kind {
            value = bare(inner);
        }
        let fits = match &value.kind {
            ExprKind::Call(function, _) => self.slice(function.span) == "xmp_malloc",
            ExprKind::Name => self.slice(value.span) == "NULL",
            ExprKind::Number => self.slice(value.span) == "0",
            _ => false,
        };
        if fits || !array.is_pointer {
            return Ok(());
        }
        Err(Problem::new(
            left.span.start,
            format!("`{name}` is aligned: only what xmp_malloc gives, or 0, can be assigned to it; move the elements in a loop or by gmove"),
        ))
    }

    /// A pointer whose type C cannot have where it is declared.
    fn is_untyped(&self, expr: &Expr) -> bool {
        let expr = bare(expr);
        let var = self.scopes.var(self.slice(expr.span)).filter(|_| matches!(expr.kind, ExprKind::Name));
        var.and_then(|var| var.distributed()).is_some_and(|array| array.is_untyped())
    }

    fn is_step(&self, sign: Span) -> bool {
        matches!(self.slice(sign), "++" | "--")
    }

    /// The expression with what is in it translated.
    fn copied(&mut self, expr: &Expr) -> Result<String> {
        let mut parts = Vec::new();
        for child in children(expr) {
            parts.push((child.span, self.expr(child)?));
        }
        Ok(self.splice(expr.span, &parts))
    }

    /// Subscripts of what is not distributed, which may be sections in an array assignment.
    fn indexed(&mut self, expr: &Expr) -> Result<String> {
        self.note_pointer(expr);
        let ExprKind::Index(base, sub) = &expr.kind else { return self.copied(expr) };
        match &**sub {
            Sub::At(_) => self.copied(expr),
            Sub::Section(span, first, _, step) => {
                let base_text = self.expr(base)?;
                let at = self.section_index(base, *span, first.as_ref(), step.as_ref())?;
                Ok(format!("{base_text}[{at}]"))
            }
        }
    }

    /// What stands for a section inside the loops of an array assignment: sections are counted from the left.
    pub(super) fn section_index(
        &mut self,
        base: &Expr,
        span: Span,
        first: Option<&Expr>,
        step: Option<&Expr>,
    ) -> Result<String> {
        let Some(names) = self.section.clone() else {
            return Err(Problem::new(
                span.start,
                "a section can only stand in an array assignment, a gmove, a coarray assignment or a directive",
            ));
        };
        let which = sections_in_chain(base);
        let Some(name) = names.get(which) else {
            return Err(Problem::new(
                span.start,
                format!("the left side has {} sections, this has more", names.len()),
            ));
        };
        let step = step.map(|step| self.value(step)).transpose()?;
        let first = match first {
            Some(first) => Some(self.value(first)?),
            None => self.missing_first(base, step.as_deref())?,
        };
        Ok(moved(name, first.as_deref(), step.as_deref()))
    }

    /// Where a section begins that does not say it: downwards at the end.
    fn missing_first(&mut self, base: &Expr, step: Option<&str>) -> Result<Option<String>> {
        let Some(step) = step.filter(|step| direction(step) != Direction::Up) else { return Ok(None) };
        let last = format!("{} - 1", self.whole_length(base)?);
        Ok(Some(match direction(step) {
            Direction::Either => format!("{} < 0 ? {last} : 0", grouped(step)),
            _ => last,
        }))
    }

    /// A name by itself.
    fn name(&mut self, span: Span) -> String {
        let text = self.slice(span);
        let Some(var) = self.scopes.var(text) else { return text.to_owned() };
        if let Some(array) = var.distributed() {
            self.note_alias();
            return match (array.is_pointer, array.is_untyped()) {
                (true, false) => text.to_owned(),
                (true, true) => format!("(({} (*){}){text})", array.element, array.row()),
                _ => pointer(&array, "base"),
            };
        }
        match var.coarray() {
            Some(coarray) => {
                if let Some(hoist) = &mut self.hoist {
                    hoist.has_coarray = true;
                }
                coarray.local()
            }
            None => text.to_owned(),
        }
    }

    fn size_of(&mut self, expr: &Expr, inner: &Expr) -> Result<String> {
        if let ExprKind::Name = bare(inner).kind {
            let array = self.scopes.var(self.slice(bare(inner).span)).and_then(|var| var.distributed());
            if let Some(array) = array.filter(|array| !array.is_pointer) {
                let brackets: String = array
                    .sizes
                    .iter()
                    .map(|size| format!("[{}]", size.clone().unwrap_or_default()))
                    .collect();
                return Ok(format!("sizeof({}{brackets})", array.element));
            }
        }
        // A row is as long as it is declared, not as the part of it that this node has.
        if let Some(chain) = self.chain(inner).filter(|chain| !chain.steps.is_empty()) {
            let rest: Option<Vec<String>> =
                chain.array.sizes.iter().skip(chain.steps.len()).cloned().collect();
            if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
                let brackets: String = rest.iter().map(|size| format!("[{size}]")).collect();
                return Ok(format!("sizeof({}{brackets})", chain.array.element));
            }
        }
        self.copied(expr)
    }

    /// `a[i][j]`, `*(a + i)`, if it is of a distributed array.
    pub(super) fn chain<'e>(&self, expr: &'e Expr) -> Option<Chain<'e>> {
        match &expr.kind {
            ExprKind::Name => {
                let var = self.scopes.var(self.slice(expr.span))?;
                Some(Chain { array: var.distributed()?, var, steps: Vec::new() })
            }
            ExprKind::Paren(inner) => self.chain(inner),
            ExprKind::Index(base, sub) => {
                if let Some(mut chain) = self.chain(base) {
                    chain.steps.push(Step::Sub(sub));
                    return Some(chain);
                }
                // `i[a]`
                let Sub::At(at) = &**sub else { return None };
                let (mut chain, _) = self.displaced(at).filter(|(_, terms)| terms.is_empty())?;
                chain.steps.push(Step::Plus(vec![(true, &**base)]));
                Some(chain)
            }
            ExprKind::Unary(sign, inner) if self.slice(*sign) == "*" => {
                let inner = bare(inner);
                if matches!(inner.kind, ExprKind::Binary(..)) {
                    let (mut chain, terms) = self.displaced(inner)?;
                    chain.steps.push(Step::Plus(terms));
                    return Some(chain);
                }
                let mut chain = self.chain(inner)?;
                if chain.steps.is_empty() || chain.steps.len() >= chain.array.dims() {
                    return None;
                }
                chain.steps.push(Step::Zero);
                Some(chain)
            }
            _ => None,
        }
    }

    /// A pointer into a distributed array, moved: subscripts stay global.
    fn moved_pointer(&mut self, expr: &Expr) -> Result<Option<String>> {
        let Some((mut chain, terms)) = self.displaced(expr) else { return Ok(None) };
        self.note_alias();
        chain.steps.push(Step::Plus(terms));
        Ok(Some(format!("(&{})", self.element(expr, &chain)?)))
    }

    /// An array or a row of it, and what is added to it.
    fn displaced<'e>(&self, expr: &'e Expr) -> Option<(Chain<'e>, Vec<(bool, &'e Expr)>)> {
        let expr = bare(expr);
        let ExprKind::Binary(sign, left, right) = &expr.kind else {
            let chain = self.chain(expr)?;
            return (chain.steps.len() < chain.array.dims()).then(|| (chain, Vec::new()));
        };
        let (found, moved, plus) = match self.slice(*sign) {
            "+" => match self.displaced(left) {
                Some(found) => (found, right, true),
                None => (self.displaced(right)?, left, true),
            },
            "-" => (self.displaced(left)?, right, false),
            _ => return None,
        };
        if self.may_be_pointer(moved) {
            return None;
        }
        let (chain, mut terms) = found;
        terms.push((plus, moved));
        Some((chain, terms))
    }

    /// The difference of two pointers is a number.
    fn may_be_pointer(&self, expr: &Expr) -> bool {
        let expr = bare(expr);
        match &expr.kind {
            ExprKind::Name => self.scopes.var(self.slice(expr.span)).is_some_and(|var| !var.shape.is_empty()),
            ExprKind::Unary(sign, _) => self.slice(*sign) == "&",
            ExprKind::Binary(sign, left, right) => {
                matches!(self.slice(*sign), "+" | "-")
                    && self.may_be_pointer(left) != self.may_be_pointer(right)
            }
            ExprKind::Index(..) => {
                self.chain(expr).is_some_and(|chain| chain.steps.len() < chain.array.dims())
            }
            _ => false,
        }
    }

    /// What is added, as one number.
    pub(super) fn sum(&mut self, terms: &[(bool, &Expr)]) -> Result<String> {
        let mut out = String::new();
        for (at, (plus, term)) in terms.iter().enumerate() {
            let text = self.value(term)?;
            match (at, plus) {
                (0, true) => out = text,
                (_, true) => out = format!("{} + {}", grouped(&out), grouped(&text)),
                (0, false) => out = format!("-{}", grouped(&text)),
                (_, false) => out = format!("{} - {}", grouped(&out), grouped(&text)),
            }
        }
        Ok(out)
    }

    /// An element, or a row, of a distributed array.
    fn element(&mut self, expr: &Expr, chain: &Chain<'_>) -> Result<String> {
        let array = chain.array.clone();
        let mut text = self.origin(&array, &chain.var);
        let is_hoisted = text.starts_with("kxp_");
        if chain.steps.len() < array.dims() {
            self.note_alias();
        }
        let mut sections = 0;
        for (dim, step) in chain.steps.iter().enumerate() {
            let (index, is_local) = match step {
                Step::Zero => ("0".to_owned(), false),
                Step::Plus(terms) => (self.sum(terms)?, terms.iter().all(|(_, at)| self.stays_local(at))),
                Step::Sub(Sub::At(at)) => (self.value(at)?, self.stays_local(at)),
                Step::Sub(Sub::Section(span, first, _, width)) => {
                    let names = self.section.clone().ok_or_else(|| {
                        Problem::new(
                            span.start,
                            format!("a section of the distributed array `{}` needs a directive before the statement: `array on` for element-wise work, `gmove` to move data", array.name),
                        )
                    })?;
                    let Some(name) = names.get(sections) else {
                        return Err(Problem::new(
                            expr.span.start,
                            "this has more sections than the left side",
                        ));
                    };
                    sections += 1;
                    let width = width.as_ref().map(|width| self.value(width)).transpose()?;
                    let first = match first {
                        Some(first) => Some(self.value(first)?),
                        None => match nth_base(expr, chain.steps.len() - dim) {
                            Some(base) => self.missing_first(base, width.as_deref())?,
                            None => None,
                        },
                    };
                    (moved(name, first.as_deref(), width.as_deref()), false)
                }
            };
            let is_local = is_local && matches!(array.align.get(dim), Some(Some(_)));
            let index = match (dim < array.dims(), array.is_cyclic(dim), is_local) {
                (true, true, false) => {
                    let counted = match step {
                        Step::Sub(Sub::At(at)) if is_hoisted => self.in_turn(&array, dim, at),
                        _ => None,
                    };
                    counted.unwrap_or_else(|| cyclic(&array, dim, &index, is_hoisted))
                }
                (true, false, true) => {
                    format!("{} - {}.map->dim[{dim}].shift", grouped(&index), array.descriptor())
                }
                _ => index,
            };
            text.push_str(&format!("[{index}]"));
        }
        Ok(text)
    }

    /// With the subscripts of Omni, those inside a loop that do not mention its variables are local already.
    fn stays_local(&self, at: &Expr) -> bool {
        self.omni_local
            && !self.loop_variables.is_empty()
            && !self.loop_variables.iter().any(|name| self.mentions(at, name))
    }

    /// The pointer that takes global subscripts.
    fn origin(&mut self, array: &Rc<Array>, var: &Var) -> String {
        match &mut self.hoist {
            Some(hoist)
                if var.depth <= hoist.depth && !(hoist.may_move && array.is_pointer && is_global(array)) =>
            {
                if !hoist.arrays.iter().any(|known| Rc::ptr_eq(known, array)) {
                    hoist.arrays.push(array.clone());
                }
                format!("kxp_{}", array.name)
            }
            _ => pointer(array, "origin"),
        }
    }

    fn note_alias(&mut self) {
        if let Some(hoist) = &mut self.hoist {
            hoist.aliased = true;
        }
    }

    /// A pointer of the user's may lead into an array.
    fn note_pointer(&mut self, expr: &Expr) {
        let is_place = match &expr.kind {
            ExprKind::Index(..) => true,
            ExprKind::Unary(sign, _) => self.slice(*sign) == "*",
            _ => false,
        };
        if is_place && !self.stays_inside(expr) {
            self.note_alias();
        }
    }

    fn call(&mut self, expr: &Expr, function: &Expr, arguments: &[Expr]) -> Result<String> {
        let name = match function.kind {
            ExprKind::Name => self.slice(function.span),
            _ => "",
        };
        match name {
            "xmp_desc_of" => self.descriptor_of(expr, arguments),
            "xmp_malloc" if arguments.len() >= 2 => {
                let array = self.value(&arguments[0])?;
                let mut sizes = Vec::new();
                for size in &arguments[1..] {
                    sizes.push(self.value(size)?);
                }
                let text = format!(
                    "kxmp_malloc({}, (kxmp_array *){}, {}, {})",
                    self.at(expr.span.start),
                    grouped(&array),
                    sizes.len(),
                    super::longs(&sizes)
                );
                Ok(self.in_place(expr.span, text))
            }
            "xmp_atomic_define" | "xmp_atomic_ref" => self.atomic(expr, name, arguments),
            _ if BY_DESCRIPTOR.contains(&name) => self.by_descriptor(expr, arguments),
            _ => {
                if !HARMLESS.contains(&name) {
                    self.note_alias();
                }
                self.called(expr, function, arguments)
            }
        }
    }

    /// A call of a function of the user's: its parameters have the declared rows, which a shadow makes longer.
    fn called(&mut self, expr: &Expr, function: &Expr, arguments: &[Expr]) -> Result<String> {
        let mut parts = vec![(function.span, self.expr(function)?)];
        for argument in arguments {
            let name = bare(argument);
            let var = self.scopes.var(self.slice(name.span)).filter(|_| matches!(name.kind, ExprKind::Name));
            let array = var.and_then(|var| var.distributed());
            let text = match array.filter(|array| !array.is_pointer && array.dims() > 1) {
                Some(array) => {
                    self.note_alias();
                    format!("((void *){}.base)", array.descriptor())
                }
                None => self.expr(argument)?,
            };
            parts.push((argument.span, text));
        }
        Ok(self.splice(expr.span, &parts))
    }

    fn descriptor_of(&mut self, expr: &Expr, arguments: &[Expr]) -> Result<String> {
        let [argument] = arguments else {
            return Err(Problem::new(expr.span.start, "xmp_desc_of takes one name"));
        };
        let span = bare(argument).span;
        let name = self.slice(span);
        if let Some(array) = self.scopes.var(name).and_then(|var| var.distributed()) {
            return Ok(format!("((void *)&{})", array.descriptor()));
        }
        match self.scopes.set(name) {
            Some(set @ (Set::Nodes(_) | Set::Template(_))) => Ok(format!("((void *){})", set.variable())),
            None => Err(Problem::new(
                span.start,
                format!("xmp_desc_of: `{name}` is neither nodes nor a template nor a distributed array"),
            )),
        }
    }

    /// Arrays as a whole stand for their descriptors.
    fn by_descriptor(&mut self, expr: &Expr, arguments: &[Expr]) -> Result<String> {
        let mut parts = Vec::new();
        for argument in arguments {
            let whole = |chain: &Chain<'_>| {
                chain.steps.iter().all(|step| matches!(step, Step::Sub(Sub::Section(_, None, None, None))))
            };
            let text = match self.chain(argument).filter(whole) {
                Some(chain) => format!("((void *)&{})", chain.array.descriptor()),
                None => self.expr(argument)?,
            };
            parts.push((argument.span, text));
        }
        let ExprKind::Call(function, _) = &expr.kind else { return Ok(self.splice(expr.span, &parts)) };
        match (self.slice(function.span), &parts[..]) {
            // Any number of arrays of indices.
            (name @ ("xmp_gather" | "xmp_scatter"), [to, from, rest @ ..]) if !rest.is_empty() => {
                let list: Vec<&str> = rest.iter().map(|(_, text)| text.as_str()).collect();
                let text = format!(
                    "{name}_list({}, {}, (const xmp_desc_t[]){{{}}}, {})",
                    to.1,
                    from.1,
                    list.join(", "),
                    list.len()
                );
                Ok(self.in_place(expr.span, super::flat(&text)))
            }
            ("xmp_gather" | "xmp_scatter", _) => Err(Problem::new(
                expr.span.start,
                "the result, the array and an array of indices for each dimension are needed",
            )),
            _ => Ok(self.splice(expr.span, &parts)),
        }
    }
}

/// The local index of a cyclic dimension. The macro reads its argument several times.
fn cyclic(array: &Array, dim: usize, index: &str, is_hoisted: bool) -> String {
    let of = match is_hoisted {
        true => format!("kxd{dim}_{}", array.name),
        false => format!("{}.map->dim[{dim}]", array.descriptor()),
    };
    let is_plain = index.bytes().all(|b| b.is_ascii_alphanumeric() || b"_+-* []".contains(&b));
    match is_plain && !index.contains("++") && !index.contains("--") {
        true => format!("KXMP_CYCLIC_INDEX({of}, {})", grouped(index)),
        false => format!("({{ const long kx_g = {index}; KXMP_CYCLIC_INDEX({of}, kx_g); }})"),
    }
}

/// What the last `back` subscripts are of.
fn nth_base(expr: &Expr, back: usize) -> Option<&Expr> {
    match (&expr.kind, back) {
        (_, 0) => Some(expr),
        (ExprKind::Paren(inner), _) => nth_base(inner, back),
        (ExprKind::Index(base, _), _) => nth_base(base, back - 1),
        _ => None,
    }
}

/// `first + name * step`
fn moved(name: &str, first: Option<&str>, step: Option<&str>) -> String {
    let scaled = match step {
        None | Some("1") => name.to_owned(),
        Some(step) => format!("{name} * {}", grouped(step)),
    };
    match first {
        None | Some("0") => scaled,
        Some(first) => format!("{} + {scaled}", grouped(first)),
    }
}

/// Whether other functions know the array, too.
fn is_global(array: &Array) -> bool {
    matches!(array.storage, Owner::File | Owner::FileStatic | Owner::Extern)
}

/// How many sections an expression has in its own subscripts.
pub(super) fn sections_in_chain(expr: &Expr) -> usize {
    match &expr.kind {
        ExprKind::Index(base, sub) => {
            sections_in_chain(base) + usize::from(matches!(**sub, Sub::Section(..)))
        }
        ExprKind::Member(base, _) | ExprKind::Paren(base) | ExprKind::Image(base, _) => {
            sections_in_chain(base)
        }
        _ => 0,
    }
}

/// A typed pointer to the local part.
pub(super) fn pointer(array: &Array, member: &str) -> String {
    let brackets: String = (1..array.dims()).map(|dim| format!("[{}]", array.extent(dim))).collect();
    let descriptor = array.descriptor();
    match brackets.is_empty() {
        true => format!("(({} *){descriptor}.{member})", array.element),
        false => format!("(({} (*){brackets}){descriptor}.{member})", array.element),
    }
}

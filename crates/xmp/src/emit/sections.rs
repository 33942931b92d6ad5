//! Array assignments: loops over the elements. With the array directive each node does those of its part of the template.

use super::expressions::{bare, children};
use super::{direction, grouped, long, Direction, Translator};
use crate::ast::{Expr, ExprKind, Stmt, StmtKind, Sub};
use crate::directive::{Notation, Reference, SubscriptKind};
use crate::names::Set;
use crate::source::{Problem, Result, Span};

impl Translator<'_, '_> {
    /// `a[0:5] = b[5:5] + 1;`, also with coarrays.
    pub(super) fn array_assignment(
        &mut self,
        at: usize,
        sign: Span,
        left: &Expr,
        right: &Expr,
    ) -> Result<String> {
        for side in [left, right] {
            if let Some((at, name)) = self.spread_section(side) {
                return Err(Problem::new(
                    at,
                    format!("`{name}` is distributed: an assignment with a section of it needs a directive before it, `array on` for element-wise work, `gmove` to move data"),
                ));
            }
        }
        if self.is_remote(left) || self.is_remote(bare(right)) {
            if let Some(text) = self.coarray_assignment(at, sign, left, right)? {
                return Ok(text);
            }
        }
        let lengths = self.lengths(left)?;
        if lengths.is_empty() {
            return Err(Problem::new(left.span.start, "the right side is a section, the left side is not"));
        }
        self.check_ranks(right, lengths.len(), &lengths)?;
        let id = self.fresh();
        let names: Vec<String> = (0..lengths.len()).map(|at| format!("kx_i{id}_{at}")).collect();
        let (to, from) = self.elementwise(left, right, names.clone())?;
        let mut out = format!("{{ long {}; ", names.join(", "));
        let mut heads = String::new();
        for (at, (name, length)) in names.iter().zip(&lengths).enumerate() {
            out.push_str(&format!("const long kx_m{id}_{at} = {length}; "));
            heads.push_str(&format!("for ({name} = 0; {name} < kx_m{id}_{at}; {name}++) "));
        }
        let sign = self.slice(sign);
        if self.may_overlap(left, right) {
            let total: Vec<String> = (0..lengths.len()).map(|at| format!("kx_m{id}_{at}")).collect();
            let index = names
                .iter()
                .enumerate()
                .skip(1)
                .fold(names[0].clone(), |sum, (at, name)| format!("({sum}) * kx_m{id}_{at} + {name}"));
            let kind = self.element_type(left)?;
            out.push_str(&format!(
                "__typeof__({kind}) *kx_t{id} = __builtin_malloc(({}) * sizeof *kx_t{id} + 1); \
                 {heads}kx_t{id}[{index}] = {from}; {heads}{to} {sign} kx_t{id}[{index}]; __builtin_free(kx_t{id}); }}",
                total.join(" * ")
            ));
        } else {
            out.push_str(&format!("{heads}{to} {sign} {from}; }}"));
        }
        Ok(out)
    }

    /// A section in a dimension that is spread over the nodes: where, and of what.
    fn spread_section(&self, expr: &Expr) -> Option<(usize, String)> {
        if let Some(chain) = self.chain(expr) {
            let is_spread = chain.steps.iter().enumerate().any(|(dim, step)| {
                matches!(step, super::expressions::Step::Sub(Sub::Section(..)))
                    && chain.array.align.get(dim).is_none_or(Option::is_some)
            });
            if is_spread {
                return Some((expr.span.start, chain.array.name.clone()));
            }
        }
        children(expr).into_iter().find_map(|child| self.spread_section(child))
    }

    /// Both sides with these names in the place of sections.
    fn elementwise(&mut self, left: &Expr, right: &Expr, names: Vec<String>) -> Result<(String, String)> {
        let before = self.section.replace(names);
        let texts = self.value(left).and_then(|to| self.value(right).map(|from| (to, from)));
        self.section = before;
        texts
    }

    /// How long each section of the left side is.
    pub(super) fn section_lengths(&mut self, expr: &Expr) -> Result<Vec<String>> {
        self.lengths(expr)
    }

    fn lengths(&mut self, expr: &Expr) -> Result<Vec<String>> {
        let mut lengths = Vec::new();
        let mut at = bare(expr);
        let mut found: Vec<(&Expr, &Sub)> = Vec::new();
        loop {
            match &at.kind {
                ExprKind::Index(base, sub) => {
                    found.insert(0, (base, &**sub));
                    at = base;
                }
                ExprKind::Member(base, _) | ExprKind::Paren(base) | ExprKind::Image(base, _) => at = base,
                _ => break,
            }
        }
        for (base, sub) in found {
            if let Sub::Section(_, first, length, step) = sub {
                lengths.push(self.length(base, first.as_ref(), length.as_ref(), step.as_ref())?);
            }
        }
        Ok(lengths)
    }

    fn length(
        &mut self,
        base: &Expr,
        first: Option<&Expr>,
        length: Option<&Expr>,
        step: Option<&Expr>,
    ) -> Result<String> {
        if let Some(length) = length {
            return Ok(long(&self.value(length)?));
        }
        let all = self.whole_length(base)?;
        self.rest(all, first, step)
    }

    /// How many elements the dimension has that is subscripted next.
    pub(super) fn whole_length(&mut self, base: &Expr) -> Result<String> {
        if let Some(chain) = self.chain(base) {
            // Of a dimension that is not spread.
            if let Some(Some(size)) = chain.array.sizes.get(chain.steps.len()) {
                return Ok(long(size));
            }
        }
        if let ExprKind::Name = bare(base).kind {
            let name = self.slice(bare(base).span);
            if let Some(var) = self.scopes.var(name) {
                if var.is_pointer() {
                    let said = match var.shape.first() {
                        Some(crate::names::Shape::Array(Some(size))) => Some(size.clone()),
                        _ => None,
                    };
                    let Some(size) = said else {
                        return Err(Problem::new(
                            base.span.start,
                            format!("`{name}` is a pointer: say how long the section is, `{name}[0:n]`"),
                        ));
                    };
                    return Ok(long(&size));
                }
            }
        }
        // The object, not its value: a section stands for its first element.
        let zero = vec!["0".to_owned(); 7];
        let before = self.section.replace(zero);
        let object = self.value(base);
        self.section = before;
        let object = grouped(&object?);
        Ok(format!("(long)(sizeof({object}) / sizeof({object}[0]))"))
    }

    fn rest(&mut self, all: String, first: Option<&Expr>, step: Option<&Expr>) -> Result<String> {
        let step = step.map(|step| self.value(step)).transpose()?;
        let first = first.map(|first| self.value(first)).transpose()?;
        let left = first.as_ref().map_or(all.clone(), |first| format!("{all} - {}", grouped(first)));
        let Some(step) = step else { return Ok(left) };
        let from = first.map_or_else(|| format!("{all} - 1"), |first| long(&first));
        let step = long(&step);
        let down = format!("({from}) / -({step}) + 1");
        let up = format!("({left} + {0} - 1) / {0}", grouped(&step));
        Ok(match direction(&step) {
            Direction::Up => up,
            Direction::Down => down,
            Direction::Either => format!("({step} < 0 ? {down} : {up})"),
        })
    }

    /// Every operand is a scalar or has as many sections as the left side.
    fn check_ranks(&mut self, expr: &Expr, ranks: usize, lengths: &[String]) -> Result<()> {
        let inner = bare(expr);
        if matches!(inner.kind, ExprKind::Index(..) | ExprKind::Image(..)) {
            let found = super::expressions::sections_in_chain(inner);
            if found != 0 && found != ranks {
                return Err(Problem::new(
                    inner.span.start,
                    format!("this has {found} sections, the left side has {ranks}: these must be as many"),
                ));
            }
            if found != 0 && !self.is_remote(inner) && self.chain(inner).is_none() {
                let own = self.lengths(inner)?;
                for (mine, theirs) in own.iter().zip(lengths) {
                    if let (Ok(mine), Ok(theirs)) = (mine.parse::<i64>(), theirs.parse::<i64>()) {
                        if mine != theirs {
                            return Err(Problem::new(
                                inner.span.start,
                                format!("this section has {mine} elements, that of the left side {theirs}"),
                            ));
                        }
                    }
                }
            }
            return Ok(());
        }
        for child in children(inner) {
            self.check_ranks(child, ranks, lengths)?;
        }
        Ok(())
    }

    /// Whether the right side must be read before the left is written.
    fn may_overlap(&self, left: &Expr, right: &Expr) -> bool {
        let root = |expr: &Expr| {
            let mut at = bare(expr);
            while let ExprKind::Index(base, _)
            | ExprKind::Member(base, _)
            | ExprKind::Paren(base)
            | ExprKind::Image(base, _) = &at.kind
            {
                at = base;
            }
            self.slice(at.span)
        };
        let to = root(left);
        let is_pointer = |name: &str| self.scopes.var(name).is_none_or(|var| var.is_pointer());
        let mut stack = vec![right];
        while let Some(expr) = stack.pop() {
            let expr = bare(expr);
            if matches!(expr.kind, ExprKind::Index(..)) {
                let from = root(expr);
                let same_text = super::flat(self.slice(expr.span)) == super::flat(self.slice(left.span));
                if !same_text && (from == to || is_pointer(from) || is_pointer(to)) {
                    return true;
                }
                continue;
            }
            stack.extend(children(expr));
        }
        false
    }

    /// `array on t[0:n]` and its assignment.
    pub(super) fn array_directive(&mut self, at: usize, on: &Reference, stmt: &Stmt) -> Result<String> {
        let wrong = || {
            Problem::new(
                at,
                "the array directive needs one array assignment behind it: `a[0:n] = b[0:n] + 1;`",
            )
        };
        let StmtKind::Expr(Some(expr)) = &stmt.kind else { return Err(wrong()) };
        let ExprKind::Assign(sign, left, right) = &bare(expr).kind else { return Err(wrong()) };
        let set = self.set_of(on)?;
        let mut ranges = self.template_ranges(on, &set)?;
        let ranks = super::expressions::sections_in_chain(bare(left));
        if ranks == 0 {
            return Err(wrong());
        }
        if ranges.len() != ranks {
            return Err(Problem::new(
                on.span.start,
                format!(
                    "the reference has {} ranges, the assignment has {ranks}: these must be as many",
                    ranges.len()
                ),
            ));
        }
        self.check_ranks(right, ranks, &[])?;
        // A pointer does not say how long it is.
        let lengths = self.lengths(bare(left)).unwrap_or_default();
        for ((_, lo, hi, step), length) in ranges.iter_mut().zip(&lengths) {
            *hi = ended(on.span.start, lo, hi, step, length)?;
        }
        let id = self.fresh();
        let names: Vec<String> = (0..ranks).map(|at| format!("kx_j{id}_{at}")).collect();
        let (to, from) = self.elementwise(left, right, names.clone())?;
        let axes: Vec<usize> = ranges.iter().map(|range| range.0).collect();
        let reference = match &on.subs {
            Some(_) => self.reference_with(on, &|axis| axes.contains(&axis).then_some("KXMP_ALL"))?,
            None => {
                let all = vec!["KXMP_ALL"; set.dims()].join(", ");
                format!("(kxmp_ref){{{}, {}, {{{all}}}}}", set.variable(), set.dims())
            }
        };
        let levels: Vec<String> =
            ranges.iter().map(|(axis, lo, hi, step)| format!("{{{axis}, 0, {lo}, {hi}, {step}}}")).collect();
        let mut heads = format!("kxmp_nest_begin(&kx_n{id}, {}, {reference}, {ranks}, (const kxmp_level[]){{{}}}, 0); while (kxmp_nest_next(&kx_n{id})) ", self.at(at), levels.join(", "));
        let mut body = String::new();
        for (level, (_, lo, _, step)) in ranges.iter().enumerate() {
            let (at, last) = (format!("kx_u{id}_{level}"), format!("kx_n{id}.loop[{level}].last"));
            let goes_on = match direction(step) {
                Direction::Up => format!("{at} <= {last}"),
                Direction::Down => format!("{at} >= {last}"),
                Direction::Either => format!("({step} < 0 ? {at} >= {last} : {at} <= {last})"),
            };
            heads.push_str(&format!(
                "for ({at} = kx_n{id}.loop[{level}].first; {goes_on}; {at} += kx_n{id}.loop[{level}].step) "
            ));
            body.push_str(&match step.as_str() {
                "1" => format!("const long {} = kx_u{id}_{level} - ({lo}); ", names[level]),
                _ => format!("const long {} = (kx_u{id}_{level} - ({lo})) / ({step}); ", names[level]),
            });
        }
        let variables: Vec<String> = (0..ranks).map(|level| format!("kx_u{id}_{level}")).collect();
        let sign = self.slice(*sign);
        let declared = format!("{{ kxmp_nest kx_n{id}; long {}; ", variables.join(", "));
        if !self.may_overlap(left, right) {
            return Ok(format!("{declared}{heads}{{ {body}{to} {sign} {from}; }} }}"));
        }
        // What is read must not have been written: first everything is read, then everything is written.
        let kind = self.element_type(left)?;
        let total: Vec<String> =
            ranges.iter().map(|(_, lo, hi, step)| format!("(({hi} - ({lo})) / ({step}) + 1)")).collect();
        Ok(format!(
            "{declared}long kx_c{id} = 0; __typeof__({kind}) *kx_t{id} = __builtin_malloc({} * sizeof *kx_t{id} + 1); \
             {heads}{{ {body}kx_t{id}[kx_c{id}++] = {from}; }} kx_c{id} = 0; {heads}{{ {body}{to} {sign} kx_t{id}[kx_c{id}++]; }} __builtin_free(kx_t{id}); }}",
            total.join(" * ")
        ))
    }

    /// Axis, first, last and step of each range, slowest first: the order of an array's dimensions.
    fn template_ranges(&mut self, on: &Reference, set: &Set) -> Result<Vec<(usize, String, String, String)>> {
        let template = match set {
            Set::Template(template) => template.clone(),
            Set::Nodes(_) => return Err(Problem::new(on.span.start, "the array directive needs a template")),
        };
        let Some(subs) = &on.subs else {
            // All of it.
            let bound =
                |axis: usize, which: &str| format!("kxmp_template_{which}(kxt_{}, {axis})", template.name);
            let all = |axis: usize| (axis, bound(axis, "lower"), bound(axis, "upper"), "1".to_owned());
            return Ok((0..template.dims).rev().map(all).collect());
        };
        let mut ranges = Vec::new();
        for (axis, sub) in subs.fastest_first().into_iter().enumerate().rev() {
            let SubscriptKind::Range(first, second, third) = &sub.kind else { continue };
            let lower = template.lower.borrow().get(axis).cloned().flatten();
            let step = match third {
                Some(third) => self.value(third)?,
                None => "1".into(),
            };
            let step = super::number(&step).map_or_else(|| long(&step), |value| value.to_string());
            let lower = lower.map_or_else(
                || format!("kxmp_template_lower(kxt_{}, {axis})", template.name),
                |lower| long(&lower),
            );
            let upper = format!("kxmp_template_upper(kxt_{}, {axis})", template.name);
            let end = |up: &str, down: &str| match direction(&step) {
                Direction::Up => up.to_owned(),
                Direction::Down => down.to_owned(),
                Direction::Either => format!("({step} < 0 ? {down} : {up})"),
            };
            let lo = match first {
                Some(first) => long(&self.value(first)?),
                None => end(&lower, &upper),
            };
            let hi = match (second, subs.notation) {
                (Some(second), Notation::Round) => long(&self.value(second)?),
                (Some(second), Notation::Square) => {
                    let count = long(&self.value(second)?);
                    match (super::number(&lo), super::number(&count), super::number(&step)) {
                        (Some(lo), Some(count), Some(step)) => last_of(lo, count, step).to_string(),
                        _ => format!("{lo} + ({count} - 1) * ({step})"),
                    }
                }
                (None, _) => end(&upper, &lower),
            };
            ranges.push((axis, lo, hi, step));
        }
        Ok(ranges)
    }
}

/// The last index of the template that an element of a section goes with: the section may be the shorter one, but not the longer.
fn ended(at: usize, lo: &str, hi: &str, step: &str, length: &str) -> Result<String> {
    let last = format!("{lo} + ({length} - 1) * ({step})");
    if last == hi {
        return Ok(last);
    }
    let numbers = (super::number(lo), super::number(hi), super::number(step), super::number(length));
    if let (Some(lo), Some(hi), Some(step @ (1.. | ..=-1)), Some(length)) = numbers {
        let count = hi.saturating_sub(lo).wrapping_div(step).saturating_add(1);
        if count < length {
            return Err(Problem::new(
                at,
                format!("this range of the template has {count} elements, the section {length}: give both the same lengths"),
            ));
        }
        return Ok(last_of(lo, length, step).to_string());
    }
    Ok(match direction(step) {
        Direction::Up => format!("({hi} < {last} ? {hi} : {last})"),
        Direction::Down => format!("({hi} > {last} ? {hi} : {last})"),
        Direction::Either => hi.to_owned(),
    })
}

fn last_of(first: i64, count: i64, step: i64) -> i64 {
    first.saturating_add(count.saturating_sub(1).saturating_mul(step))
}

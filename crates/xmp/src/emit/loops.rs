//! The loop directive. The variable keeps the global index; its bounds are clipped to what this node owns.

use super::expressions::Step;
use super::nests::{Level, Way};
use super::{long, Translator};
use crate::ast::{Expr, Stmt, Sub};
use crate::directive::{Loop, Notation, Operation, Reduction, Widen, Width};
use crate::names::{Array, Layout, Set, Template};
use crate::source::{Problem, Result, Span};
use std::rc::Rc;

/// What the text of a `for` becomes.
pub(super) struct Rewrite {
    /// Between the parentheses.
    pub(super) head: String,
    pub(super) before: String,
    pub(super) after: String,
    /// Of a dimension that is dealt out one by one.
    pub(super) turn: Option<Turn>,
}

/// A loop over what a node has of a dimension that is dealt out one by one: its iterations are counted, so that local indices need no division in each.
#[derive(Clone)]
pub(super) struct Turn {
    name: String,
    template: Rc<Template>,
    axis: usize,
    /// The C names of the first index, and of the number of the iteration.
    first: String,
    count: String,
    descending: bool,
}

/// The C names of a nest.
struct Names {
    nest: String,
    levels: String,
    reference: String,
}

impl Names {
    fn new(id: usize) -> Names {
        Names { nest: format!("kx_n{id}"), levels: format!("kx_l{id}"), reference: format!("kx_r{id}") }
    }
}

impl Translator<'_, '_> {
    /// `kept`: pragmas of others before the directive, which must stand before the `for`.
    pub(super) fn loop_text(
        &mut self,
        one: &Loop,
        directive: Span,
        kept: Span,
        inner: &Stmt,
    ) -> Result<String> {
        let levels = self.levels(one, directive, inner)?;
        let several = levels.iter().filter(|level| !level.again).count();
        let is_innermost = |level: &Level<'_>| levels[several - 1].name == level.name;
        for level in &levels {
            let allowed = self.allowed_jumps(one, &levels, is_innermost(level));
            self.refuse_jumps(&level.one.body, "loop", &allowed)?;
        }
        let id = self.fresh();
        let names = Names::new(id);
        let widen = self.widen(one, &levels)?;
        let nest: Vec<usize> = (0..levels.len()).filter(|at| levels[*at].way == Way::Nest).collect();
        if nest.len() != levels.len() && matches!(one.widen, Some(Widen::Margin(_) | Widen::Peel(..))) {
            return Err(Problem::new(directive.start, "`margin` and `peel_and_wait` need loops with nothing between them, whose bounds do not depend on each other"));
        }
        let mut before = String::from("{ ");
        // Of the outermost: what is set beside its variable is set once, on all nodes.
        before.extend(nest.iter().map(|at| levels[*at].head.before.as_str()));
        let mut heads = Vec::new();
        before.push_str(&self.nest_declared(one, &names, &nest, &levels)?);
        let (begin, end, counted) =
            self.reductions(one, directive.start, id, &names, &nest, &levels[..several])?;
        before.push_str(&begin);
        let outer = self.reduced_names.len();
        let (copied, back) = self.copies(one, id, inner);
        before.push_str(&copied);
        for (at, level) in levels.iter().enumerate() {
            if level.way == Way::Range {
                before.push_str(&self.range_before(one, directive.start, id, at, level)?);
            }
        }
        let mut after = String::new();
        before.push_str(&self.nest_begun(
            one,
            directive.start,
            id,
            &names,
            &nest,
            &levels,
            &widen,
            &mut after,
        )?);
        let whole = Span::new(kept.start.min(directive.start), inner.span.end);
        self.has_foreign =
            self.source.foreign.iter().any(|pragma| pragma.start < whole.end && pragma.end > whole.start);
        for (at, level) in levels.iter().enumerate() {
            if level.way == Way::Kept {
                continue;
            }
            let counted = if is_innermost(level) { &*counted } else { "" };
            // `break` leaves out the step, in which is noted what an iteration has found.
            if let Some(noted) = counted.strip_suffix(", ") {
                let breaks = super::statements::breaks_of(&level.one.body);
                self.noted_breaks.extend(breaks.into_iter().map(|at| (at, noted.to_owned())));
            }
            let rewrite = self.rewritten(one, directive.start, id, at, level, counted)?;
            heads.push(level.one.head.start);
            self.rewrites.insert(level.one.head.start, rewrite);
        }
        self.loop_variables.extend(levels.iter().map(|level| level.name.clone()));
        before.push_str(&self.memory_tests(directive.start, &levels, inner));
        let text = self.stmt(inner);
        self.reduced_names.truncate(outer);
        self.loop_variables.truncate(self.loop_variables.len() - levels.len());
        for head in heads {
            self.rewrites.remove(&head);
        }
        let text = text?;
        if kept.start < kept.end {
            before.push_str(&self.source.marker(kept.start));
            before.push_str(&self.verbatim(kept));
        }
        let between = self.verbatim(Span::new(directive.end, inner.span.start));
        let resync = self.in_place(directive, String::new());
        Ok(format!("{before}{resync}{between}{text}{after} {back}{end}}}"))
    }

    /// How the body may leave a loop: what this node does then is what C does, and others must not wait for it.
    fn allowed_jumps(&self, one: &Loop, levels: &[Level<'_>], is_innermost: bool) -> Vec<&'static str> {
        let mut allowed = vec!["continue"];
        if one.reductions.is_empty() {
            allowed.extend(["return", "goto"]);
        }
        let layout = |level: &Level<'_>| match self.scopes.set(self.slice(one.on.name)) {
            Some(Set::Template(template)) => level.axis.and_then(|axis| template.layout(axis)),
            _ => None,
        };
        let has_one_box = levels.iter().all(|level| layout(level) != Some(Layout::BlockCyclic));
        // What an iteration has found is noted in the innermost loop alone.
        let is_noted = is_innermost || !one.reductions.iter().any(is_located);
        if has_one_box && is_noted && !matches!(one.widen, Some(Widen::Margin(_) | Widen::Peel(..))) {
            allowed.push("break");
        }
        allowed
    }

    /// Inside the loops a variable of a reduction is another one of the same name, whose address nobody has: it can stay in a register.
    /// Not where the loops may reach it by a pointer, or in a function that they call.
    fn copies(&mut self, one: &Loop, id: usize, inner: &Stmt) -> (String, String) {
        let (mut first, mut own, mut last, mut back) =
            (String::new(), String::new(), String::new(), String::new());
        let is_closed = !self.calls_unknown(inner) && !self.follows_pointer(inner);
        let mut number = 0;
        for (variable, _) in one.reductions.iter().flat_map(|reduction| &reduction.variables) {
            let name = self.slice(variable.span).to_owned();
            let var = self.scopes.var(&name).filter(|var| var.is_plain() && var.shape.is_empty());
            let Some(var) = var else { continue };
            let is_block = matches!(var.owner, crate::names::Owner::Block | crate::names::Owner::Parameter);
            let is_alone = is_block && !self.pointed.contains(&name);
            if !(is_alone || is_closed) || self.reduced_names.contains(&name) {
                continue;
            }
            let copy = format!("kx_c{id}_{number}");
            number += 1;
            first.push_str(&format!("__typeof__({name}) {copy} = {name}; "));
            own.push_str(&format!("__typeof__({copy}) {name} = {copy}; "));
            last.push_str(&format!("{copy} = {name}; "));
            back.push_str(&format!("{name} = {copy}; "));
            self.reduced_names.push(name);
        }
        match number {
            0 => (String::new(), String::new()),
            _ => (format!("{first}{{ {own}"), format!("{last}}} {back}")),
        }
    }

    /// The reference with nothing in the axes of other variables, and everything in those of `own`.
    fn nest_reference(
        &mut self,
        one: &Loop,
        levels: &[Level<'_>],
        own: &[usize],
        others: &'static str,
    ) -> Result<String> {
        let axes: Vec<Option<&'static str>> = (0..7)
            .map(|axis| {
                let at = levels.iter().position(|level| level.axis == Some(axis))?;
                Some(if own.contains(&at) { "KXMP_ALL" } else { others })
            })
            .collect();
        self.reference_with(&one.on, &|axis| axes.get(axis).copied().flatten())
    }

    fn nest_declared(
        &mut self,
        one: &Loop,
        names: &Names,
        nest: &[usize],
        levels: &[Level<'_>],
    ) -> Result<String> {
        if nest.is_empty() {
            return Ok(String::new());
        }
        let reference = self.nest_reference(one, levels, nest, "KXMP_ANY")?;
        let list: Vec<String> = nest.iter().map(|at| levels[*at].text()).collect();
        Ok(format!(
            "kxmp_nest {}; const kxmp_ref {} = {reference}; const kxmp_level {}[] = {{{}}}; ",
            names.nest,
            names.reference,
            names.levels,
            list.join(", ")
        ))
    }

    #[allow(clippy::too_many_arguments)]
    fn nest_begun(
        &mut self,
        one: &Loop,
        at: usize,
        id: usize,
        names: &Names,
        nest: &[usize],
        levels: &[Level<'_>],
        widen: &str,
        after: &mut String,
    ) -> Result<String> {
        if nest.is_empty() {
            return Ok(String::new());
        }
        let mut out = String::new();
        let mut widen = widen.to_owned();
        if let Some(Widen::Peel(wait, _)) = &one.widen {
            let wait = long(&self.value(wait)?);
            let place = self.at(at);
            out.push_str(&format!(
                "int kx_pass{id}; for (kx_pass{id} = 0; kx_pass{id} < 2; kx_pass{id}++) {{ \
                 if (kx_pass{id} == 1) kxmp_wait_async({place}, 1, (const long[]){{{wait}}}, (kxmp_ref){{0, 0, {{{{0}}}}}}); "
            ));
            widen = format!("kx_pass{id} ? &kx_margin{id} : &kx_inner{id}");
            after.push_str(" }");
        }
        out.push_str(&format!(
            "kxmp_nest_begin(&{}, {}, {}, {}, {}, {widen}); while (kxmp_nest_next(&{})) {{ ",
            names.nest,
            self.at(at),
            names.reference,
            nest.len(),
            names.levels,
            names.nest
        ));
        for (position, at) in nest.iter().enumerate() {
            out.push_str(&self.bounds(one, id, *at, &levels[*at], &names.nest, position));
        }
        after.insert_str(0, " }");
        Ok(out)
    }

    /// First, last and step of a level, as constants of a box.
    fn bounds(
        &self,
        one: &Loop,
        id: usize,
        at: usize,
        level: &Level<'_>,
        nest: &str,
        position: usize,
    ) -> String {
        let kind = level.type_text();
        let step = match self.keeps_step(one, level) {
            true => String::new(),
            false => format!(", kx_s{id}_{at} = {nest}.loop[{position}].step"),
        };
        format!(
            "const {kind} kx_b{id}_{at} = {nest}.loop[{position}].first, kx_e{id}_{at} = {nest}.loop[{position}].last{step}; "
        )
    }

    /// Whether the step is the one that the user wrote.
    fn keeps_step(&self, one: &Loop, level: &Level<'_>) -> bool {
        let layout = match self.scopes.set(self.slice(one.on.name)) {
            Some(Set::Template(template)) => level.axis.and_then(|axis| template.layout(axis)),
            _ => None,
        };
        !matches!(layout, Some(Layout::Cyclic | Layout::BlockCyclic))
            && level.head.step.parse::<i64>().is_ok()
    }

    /// How a level is counted, if nothing but its head changes the variable, and no pragma of others wants the head to be simple.
    fn turn(&self, one: &Loop, id: usize, at: usize, level: &Level<'_>) -> Option<Turn> {
        let Some(Set::Template(template)) = self.scopes.set(self.slice(one.on.name)) else { return None };
        let axis = level.axis.filter(|axis| template.layout(*axis) == Some(Layout::Cyclic))?;
        let is_by_one = matches!(level.head.step.as_str(), "1" | "-1");
        if self.has_foreign || !is_by_one || self.changes(&level.one.body, &level.name) {
            return None;
        }
        Some(Turn {
            name: level.name.clone(),
            template,
            axis,
            first: format!("kx_b{id}_{at}"),
            count: format!("kx_t{id}_{at}"),
            descending: level.head.descending,
        })
    }

    /// The local index of a subscript of a dimension that is dealt out one by one, inside a loop over it: `at` is the subscript.
    pub(super) fn in_turn(&self, array: &Array, dim: usize, at: &Expr) -> Option<String> {
        let (axis, _) = array.align.get(dim)?.as_ref()?;
        self.turns.iter().rev().find_map(|turn| {
            let offset = super::number(&self.offset_from(at, &turn.name)?)?;
            let is_its = turn.axis == *axis && Rc::ptr_eq(&turn.template, &array.template);
            let sign = if turn.descending { '-' } else { '+' };
            let (name, first, count) = (&array.name, &turn.first, &turn.count);
            is_its
                .then(|| format!("KXMP_TURN(kxd{dim}_{name}, (long){first} + {offset}) {sign} (long){count}"))
        })
    }

    /// A level that has one range, found before the nest.
    fn range_before(
        &mut self,
        one: &Loop,
        place: usize,
        id: usize,
        at: usize,
        level: &Level<'_>,
    ) -> Result<String> {
        let own = Names::new(self.fresh());
        let reference = self.nest_reference_of(one, level)?;
        let kind = level.type_text();
        let (first, last) = if level.head.descending { (0, 1) } else { (1, 0) };
        let step = match self.keeps_step(one, level) {
            true => (String::new(), String::new()),
            false => (format!(", kx_s{id}_{at} = 1"), format!(" kx_s{id}_{at} = {}.loop[0].step;", own.nest)),
        };
        Ok(format!(
            "{kind} kx_b{id}_{at} = {first}, kx_e{id}_{at} = {last}{}; kxmp_nest {n}; \
             kxmp_nest_begin(&{n}, {}, {reference}, 1, (const kxmp_level[]){{{}}}, 0); \
             if (kxmp_nest_next(&{n})) {{ kx_b{id}_{at} = {n}.loop[0].first; kx_e{id}_{at} = {n}.loop[0].last;{} }} ",
            step.0,
            self.at(place),
            level.text(),
            step.1,
            n = own.nest
        ))
    }

    fn nest_reference_of(&mut self, one: &Loop, level: &Level<'_>) -> Result<String> {
        let axis = level.axis;
        let variables: Vec<bool> = match &level.alone {
            Some(axes) => (0..7).map(|at| axes.contains(&at)).collect(),
            None => self.variable_axes(one),
        };
        self.reference_with(&one.on, &|at| match (Some(at) == axis, variables.get(at)) {
            (true, _) => Some("KXMP_ALL"),
            (false, Some(true)) => Some("KXMP_ANY"),
            _ => None,
        })
    }

    /// Which axes have an expression that is not a constant of the nest: the first nest has seen to those.
    fn variable_axes(&self, one: &Loop) -> Vec<bool> {
        let Some(subs) = &one.on.subs else { return Vec::new() };
        subs.fastest_first()
            .iter()
            .map(|sub| matches!(sub.kind, crate::directive::SubscriptKind::At(_)))
            .collect()
    }

    fn rewritten(
        &mut self,
        one: &Loop,
        place: usize,
        id: usize,
        at: usize,
        level: &Level<'_>,
        counted: &str,
    ) -> Result<Rewrite> {
        let kept = self.keeps_step(one, level);
        let name = &level.name;
        let step = match (kept, level.head.step.as_str()) {
            (true, "1") => format!("{name}++"),
            (true, "-1") => format!("{name}--"),
            (true, step) => format!("{name} += {step}"),
            (false, _) => format!("{name} += kx_s{id}_{at}"),
        };
        let sign = if level.head.descending { ">=" } else { "<=" };
        let declared = level.head.declared.as_ref().map(|kind| format!("{kind} ")).unwrap_or_default();
        let turn = self.turn(one, id, at, level);
        let (zero, next) = match &turn {
            Some(turn) => (format!(", {} = 0", turn.count), format!(", {}++", turn.count)),
            None => Default::default(),
        };
        let head = format!(
            "{declared}{name} = kx_b{id}_{at}{zero}; {name} {sign} kx_e{id}_{at}; {counted}{step}{next}"
        );
        let (mut before, mut after) = (String::new(), String::new());
        if let Some(turn) = turn.as_ref().filter(|_| level.head.declared.is_none()) {
            (before, after) = (format!("{{ long {}; ", turn.count), " }".into());
        }
        if level.way == Way::Own {
            let own = Names::new(self.fresh());
            let reference = self.nest_reference_of(one, level)?;
            let widen = self.widen(one, std::slice::from_ref(level))?;
            before = format!(
                "{before}{{ kxmp_nest {n}; kxmp_nest_begin(&{n}, {}, {reference}, 1, (const kxmp_level[]){{{}}}, {widen}); while (kxmp_nest_next(&{n})) {{ {}",
                self.at(place),
                level.text(),
                self.bounds(one, id, at, level, &own.nest, 0),
                n = own.nest
            );
            after = format!(" }} }}{after}");
        }
        if level.way != Way::Nest && !level.head.before.is_empty() {
            (before, after) = (format!("{{ {}{before}", level.head.before), format!("{after} }}"));
        }
        Ok(Rewrite { head, before, after, turn })
    }

    /// The widening as an argument; of `peel_and_wait` what declares the two is in `kx_inner` and `kx_margin`.
    fn widen(&mut self, one: &Loop, levels: &[Level<'_>]) -> Result<String> {
        let (mode, widths) = match &one.widen {
            None => return Ok("0".into()),
            Some(Widen::Expand(widths)) => ("KXMP_EXPAND", widths),
            Some(Widen::Margin(widths)) => ("KXMP_MARGIN", widths),
            Some(Widen::Peel(_, widths)) => ("KXMP_MARGIN", widths),
        };
        Ok(format!("&{}", self.widen_literal(one, levels, mode, widths, false)?))
    }

    pub(super) fn widen_literal(
        &mut self,
        one: &Loop,
        levels: &[Level<'_>],
        mode: &str,
        widths: &[Width],
        negative: bool,
    ) -> Result<String> {
        let Some(subs) = &one.on.subs else { return Ok("0".into()) };
        let dims = subs.list.len();
        let mut axes: Vec<usize> = match subs.notation {
            Notation::Round => (0..dims).collect(),
            Notation::Square => (0..dims).rev().collect(),
        };
        if widths.len() != dims {
            // As many as there are variables is understood, too.
            axes.retain(|axis| levels.iter().any(|level| level.axis == Some(*axis)));
            if axes.len() != widths.len() {
                return Err(Problem::new(
                    one.on.span.start,
                    format!("{} widths are given, but the reference has {dims} dimensions", widths.len()),
                ));
            }
        }
        let mut values = vec![("0".to_owned(), "0".to_owned(), 0); dims];
        for (axis, width) in axes.into_iter().zip(widths) {
            let Some((low, high)) = &width.sides else {
                return Err(Problem::new(one.on.span.start, "a width here is a number"));
            };
            let lo = long(&self.value(low)?);
            let hi = match high {
                Some(high) => long(&self.value(high)?),
                None => lo.clone(),
            };
            let signed =
                |value: String| if negative { format!("-{}", super::grouped(&value)) } else { value };
            values[axis] = (signed(lo), signed(hi), i32::from(width.unbound));
        }
        let list = |pick: &dyn Fn(&(String, String, i32)) -> String| {
            values.iter().map(pick).collect::<Vec<_>>().join(", ")
        };
        Ok(format!(
            "(const kxmp_widen){{{mode}, {{{}}}, {{{}}}, {{{}}}}}",
            list(&|v| v.2.to_string()),
            list(&|v| v.0.clone()),
            list(&|v| v.1.clone())
        ))
    }

    /// What stands before and behind the loops for the reduction clauses, and what each iteration does.
    fn reductions(
        &mut self,
        one: &Loop,
        at: usize,
        id: usize,
        names: &Names,
        nest: &[usize],
        levels: &[Level<'_>],
    ) -> Result<(String, String, String)> {
        let (mut begin, mut end, mut counted) = (String::new(), String::new(), String::new());
        if let Some(Widen::Peel(_, widths)) = &one.widen {
            let inner = self.widen_literal(one, levels, "KXMP_EXPAND", widths, true)?;
            let margin = self.widen_literal(one, levels, "KXMP_MARGIN", widths, true)?;
            begin.push_str(&format!("const kxmp_widen kx_inner{id} = {inner}, kx_margin{id} = {margin}; "));
        }
        if one.reductions.is_empty() {
            return Ok((begin, end, counted));
        }
        let reference =
            self.nest_reference(one, levels, &(0..levels.len()).collect::<Vec<_>>(), "KXMP_ALL")?;
        // Loops that have bounds of their own inside still say which nodes take part, and in which order.
        let list = match nest.len() == levels.len() {
            true => names.levels.clone(),
            false => {
                let all: Vec<String> = levels.iter().map(taking_part).collect();
                begin.push_str(&format!("const kxmp_level kx_w{id}[] = {{{}}}; ", all.join(", ")));
                format!("kx_w{id}")
            }
        };
        let count = levels.len();
        let place = self.at(at);
        begin.push_str(&format!("const kxmp_ref kx_q{id} = {reference}; "));
        let mut number = 0;
        for reduction in &one.reductions {
            for (variable, places) in &reduction.variables {
                let axes = self.spread_axes(one, variable)?;
                let value = self.reduced(variable)?;
                let mut over = format!("kx_q{id}, {count}, {list}");
                if !axes.is_empty() {
                    // Nodes that have the same elements: the others are nobody else's.
                    let is_over = |level: &&Level<'_>| level.axis.is_none_or(|axis| !axes.contains(&axis));
                    let rest: Vec<String> = levels.iter().filter(is_over).map(taking_part).collect();
                    if rest.is_empty() {
                        continue;
                    }
                    let own: Vec<usize> = (0..levels.len()).filter(|at| is_over(&&levels[*at])).collect();
                    let reference = self.nest_reference(one, levels, &own, "KXMP_ANY")?;
                    begin.push_str(&format!(
                        "const kxmp_ref kx_q{id}_{number} = {reference}; const kxmp_level kx_w{id}_{number}[] = {{{}}}; ",
                        rest.join(", ")
                    ));
                    over = format!("kx_q{id}_{number}, {}, kx_w{id}_{number}", rest.len());
                }
                let call = format!("{place}, {over}, {}, {value}", reduction.operation.constant());
                begin.push_str(&format!("kxmp_loop_reduction_begin({call}); "));
                let located = match is_located(reduction) {
                    true => self.located(id, number, variable, places, levels, &mut begin, &mut counted)?,
                    false => "0, 0, 0, 0".to_owned(),
                };
                if !is_located(reduction) && !places.is_empty() {
                    return Err(Problem::new(
                        variable.span.start,
                        "locations belong to firstmax, firstmin, lastmax and lastmin",
                    ));
                }
                end.push_str(&format!("kxmp_loop_reduction_end({call}, {located}); "));
                number += 1;
            }
        }
        Ok((begin, end, counted))
    }

    /// The axes of the loop's template over which a variable of a reduction is spread itself: along them every node has other elements of it.
    fn spread_axes(&self, one: &Loop, variable: &Expr) -> Result<Vec<usize>> {
        let Some(chain) = self.chain(variable) else { return Ok(Vec::new()) };
        let array = &chain.array;
        let mut axes = Vec::new();
        for (dim, align) in array.align.iter().enumerate() {
            let Some((axis, _)) = align else { continue };
            if array.template.layout(*axis) == Some(Layout::None) {
                continue;
            }
            if chain.steps.get(dim).is_some_and(|step| !matches!(step, Step::Sub(Sub::Section(..)))) {
                return Err(Problem::new(
                    variable.span.start,
                    format!(
                        "one node has this element of `{}`: a reduction needs a variable that all nodes have",
                        array.name
                    ),
                ));
            }
            axes.push(*axis);
        }
        let is_its = match self.scopes.set(self.slice(one.on.name)) {
            Some(Set::Template(template)) => Rc::ptr_eq(&template, &array.template),
            _ => false,
        };
        if !is_its && !axes.is_empty() {
            return Err(Problem::new(
                variable.span.start,
                format!("`{}` is spread over another template than that of the loop: nodes would combine different elements of it", array.name),
            ));
        }
        Ok(axes)
    }

    /// Each iteration notes whether it was the one that changed the value or a location.
    #[allow(clippy::too_many_arguments)]
    fn located(
        &mut self,
        id: usize,
        number: usize,
        variable: &Expr,
        places: &[Expr],
        levels: &[Level<'_>],
        begin: &mut String,
        counted: &mut String,
    ) -> Result<String> {
        let name = |what: &str| format!("kx_{what}{id}_{number}");
        let value = self.value(variable)?;
        let (old, set, iteration) = (name("old"), name("set"), name("at"));
        begin.push_str(&format!(
            "__typeof__({value}) {old} = {value}; int {set} = 0; long {iteration}[{}] = {{0}}; ",
            levels.len()
        ));
        let mut tests = vec![format!("{value} != {old}")];
        let mut stores = vec![format!("{old} = {value}"), format!("{set} = 1")];
        let mut list = Vec::new();
        for (at, place) in places.iter().enumerate() {
            let place = self.value(place)?;
            let before = format!("{}_{at}", name("was"));
            begin.push_str(&format!("__typeof__({place}) {before} = {place}; "));
            tests.push(format!("{place} != {before}"));
            stores.push(format!("{before} = {place}"));
            list.push(format!("{{&{place}, sizeof({place})}}"));
        }
        for (at, level) in levels.iter().enumerate() {
            stores.push(format!("{iteration}[{at}] = {}", level.name));
        }
        counted.push_str(&format!("(void)(({}) ? ({}, 0) : 0), ", tests.join(" || "), stores.join(", ")));
        let list = match list.is_empty() {
            true => "0".to_owned(),
            false => format!("(const kxmp_place[]){{{}}}", list.join(", ")),
        };
        Ok(format!("{}, {list}, {set}, {iteration}", places.len()))
    }
}

/// A level of a nest, for the nodes that take part and their order; bounds of its own do not matter there.
fn taking_part(level: &Level<'_>) -> String {
    match level.way {
        Way::Own | Way::Kept => {
            format!("{{{}, 0, 0, 0, {}}}", level.axis.map_or(-1, |axis| axis as i64), level.head.sign())
        }
        _ => level.text(),
    }
}

pub(super) fn is_located(reduction: &Reduction) -> bool {
    matches!(
        reduction.operation,
        Operation::FirstMax | Operation::FirstMin | Operation::LastMax | Operation::LastMin
    )
}

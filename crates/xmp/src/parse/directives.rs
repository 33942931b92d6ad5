//! Directives.

use super::Parser;
use crate::ast::Expr;
use crate::directive::*;
use crate::near::near;
use crate::source::{Problem, Raw, Result, Source, Span};
use std::collections::HashSet;
use std::rc::Rc;

/// Reads a directive.
pub(crate) fn directive<'a>(source: &Source<'a>, raw: &Raw, types: &HashSet<&'a str>) -> Result<Directive> {
    // To some a directive is a statement.
    let tokens = match &raw.tokens[..] {
        [tokens @ .., last] if source.slice(last.span) == ";" => tokens,
        tokens => tokens,
    };
    let mut parser = Parser::new(source, tokens, raw.span.end);
    parser.types.clone_from(types);
    let parsed = match raw.ours {
        true => parser.ours()?,
        false => parser.directive_kind()?,
    };
    if !parser.at_end() {
        return Err(parser.unexpected("the end of the directive"));
    }
    Ok(parsed)
}

/// The words that clauses begin with.
const CLAUSES: [&str; 18] = [
    "on",
    "from",
    "async",
    "width",
    "orthogonal",
    "reduction",
    "expand",
    "margin",
    "peel_and_wait",
    "in",
    "out",
    "collective",
    "acquired_lock",
    "stat",
    "nocomm",
    "nowait",
    "acc",
    "host",
];

impl<'a> Parser<'_, 'a> {
    fn ours(&mut self) -> Result<Directive> {
        match self.text(0) {
            "omni_local_subscripts" => {
                self.next();
                Ok(Directive::OmniLocalSubscripts)
            }
            "images_from_1" => {
                self.next();
                Ok(Directive::ImagesFrom1)
            }
            _ => Err(self
                .unexpected("`omni_local_subscripts` or `images_from_1`, a directive of this translator,")),
        }
    }

    fn directive_kind(&mut self) -> Result<Directive> {
        let at = self.offset();
        let name = self.word("the name of a directive")?;
        match self.source.slice(name) {
            "nodes" => self.nodes(),
            "template" => self.template(),
            "distribute" => self.distribute(),
            "align" => self.align(),
            "shadow" => self.shadow(),
            "coarray" => self.coarray(),
            "static_desc" => {
                self.colons()?;
                self.names()?;
                Ok(Directive::StaticDesc)
            }
            "template_fix" => self.template_fix(),
            "task" => self.task(),
            "tasks" => {
                // They do not wait for each other as it is.
                self.take("nowait");
                Ok(Directive::Tasks)
            }
            "loop" => self.loop_directive(),
            "array" => {
                self.expect("on")?;
                Ok(Directive::Array(self.reference()?))
            }
            "reflect" => self.halo(HaloKind::Reflect),
            "reduce_shadow" => self.halo(HaloKind::ReduceShadow),
            "reflect_init" => self.halo(HaloKind::Init),
            "reflect_do" => self.halo(HaloKind::Do),
            "barrier" => {
                self.clause();
                let on = self.on()?;
                self.clause();
                self.place()?;
                Ok(Directive::Barrier(on))
            }
            "reduction" => self.reduction_directive(),
            "bcast" => self.bcast(),
            "gmove" => self.gmove(),
            "wait_async" => {
                let ids = self.expressions()?;
                self.clause();
                let on = self.on()?;
                self.clause();
                self.place()?;
                Ok(Directive::WaitAsync { ids, on })
            }
            "post" => {
                self.expect("(")?;
                let to = self.reference()?;
                self.expect(",")?;
                let tag = self.assignment()?;
                self.expect(")")?;
                Ok(Directive::Post { to, tag })
            }
            "wait" => self.wait(),
            "lock" | "unlock" => self.lock(self.source.slice(name) == "unlock"),
            "sync_all" => Ok(Directive::Sync("xmp_sync_all")),
            "sync_memory" => Ok(Directive::Sync("xmp_sync_memory")),
            "tasklet" | "tasklets" | "taskletwait" => Err(Problem::new(
                at,
                "tasklets, a draft of XcalableMP 2.0, are not supported: use `tasks` and `task`",
            )),
            other => Err(Problem::new(
                at,
                format!("there is no directive `{other}` in XcalableMP 1.4{}", nearest(other)),
            )),
        }
    }

    /// `::`
    fn colons(&mut self) -> Result<()> {
        self.expect(":")?;
        self.expect(":")?;
        Ok(())
    }

    fn is_colons(&self) -> bool {
        self.is(":") && self.text(1) == ":"
    }

    fn names(&mut self) -> Result<Vec<Span>> {
        let mut names = vec![self.word("a name")?];
        while self.take(",") {
            names.push(self.word("a name")?);
        }
        Ok(names)
    }

    /// `acc` and `host`: where a directive acts.
    fn place(&mut self) -> Result<()> {
        loop {
            if self.is("acc") {
                let at = self.offset();
                return Err(Problem::new(
                    at,
                    "`acc`: XcalableACC comes with the work on GPUs and is not supported yet; without this word the directive acts on the host",
                ));
            }
            if !self.take("host") {
                return Ok(());
            }
        }
    }

    /// The word that begins the next clause; commas between clauses say nothing.
    fn clause(&mut self) -> &'a str {
        if self.is(",") && CLAUSES.contains(&self.text(1)) {
            self.next();
        }
        self.text(0)
    }

    fn on(&mut self) -> Result<Option<Reference>> {
        match self.take("on") {
            true => self.one_reference().map(Some),
            false => Ok(None),
        }
    }

    /// What stands behind `on`.
    fn one_reference(&mut self) -> Result<Reference> {
        let reference = self.reference()?;
        if self.is(",") && !CLAUSES.contains(&self.text(1)) {
            return Err(Problem::new(self.offset(), "one set of nodes, or one template, can stand behind `on`: name nodes that have them all, or write a directive for each"));
        }
        Ok(reference)
    }

    fn id(&mut self) -> Result<Option<Expr>> {
        if !self.take("async") {
            return Ok(None);
        }
        self.expect("(")?;
        let id = self.assignment()?;
        self.expect(")")?;
        Ok(Some(id))
    }

    fn reference(&mut self) -> Result<Reference> {
        if self.is("*") {
            return Err(Problem::new(
                self.offset(),
                "the name of nodes or of a template is expected here, not `*`",
            ));
        }
        let name = self.word("the name of nodes or of a template")?;
        let subs = self.subs()?;
        Ok(Reference { span: Span::new(name.start, self.behind()), name, subs })
    }

    /// `(..)` or `[..][..]`, if there is one.
    fn subs(&mut self) -> Result<Option<Subs>> {
        let mut list = Vec::new();
        if self.take("(") {
            loop {
                list.push(self.one_subscript()?);
                if !self.take(",") {
                    break;
                }
            }
            self.expect(")")?;
            if self.is("(") || self.is("[") {
                return Err(Problem::new(self.offset(), "in parentheses all dimensions stand in one pair, `t(i,j)`; in brackets each has its own, `t[j][i]`, and they come in the opposite order"));
            }
            return Ok(Some(Subs { notation: Notation::Round, list }));
        }
        if !self.is("[") {
            return Ok(None);
        }
        while self.take("[") {
            list.push(self.one_subscript()?);
            if self.is(",") {
                return Err(Problem::new(self.offset(), "in brackets each dimension has its own pair, `t[j][i]`; in parentheses all stand in one, `t(i,j)`, and come in the opposite order"));
            }
            self.expect("]")?;
        }
        if self.is("(") {
            return Err(Problem::new(
                self.offset(),
                "the dimensions are either all in brackets, `t[j][i]`, or all in parentheses, `t(i,j)`",
            ));
        }
        Ok(Some(Subs { notation: Notation::Square, list }))
    }

    fn one_subscript(&mut self) -> Result<Subscript> {
        let start = self.offset();
        let closes = |parser: &Self, ahead: usize| matches!(parser.text(ahead), "," | ")" | "]");
        if self.is("*") && closes(self, 1) {
            self.next();
            return Ok(Subscript { span: Span::new(start, self.behind()), kind: SubscriptKind::Star });
        }
        let part = |parser: &mut Self| match parser.is(":") || closes(parser, 0) {
            true => Ok(None),
            false => parser.conditional().map(Some),
        };
        let first = part(self)?;
        let kind = if self.take(":") {
            let second = part(self)?;
            let third = match self.take(":") {
                true => part(self)?,
                false => None,
            };
            SubscriptKind::Range(first, second, third)
        } else {
            match first {
                Some(at) => SubscriptKind::At(at),
                None => return Err(self.unexpected("a subscript")),
            }
        };
        Ok(Subscript { span: Span::new(start, self.behind()), kind })
    }

    fn some_subs(&mut self, what: &str) -> Result<Subs> {
        let problem = self.unexpected(what);
        self.subs()?.ok_or(problem)
    }

    fn nodes(&mut self) -> Result<Directive> {
        let mut list = Vec::new();
        if !self.is_word(0) {
            // nodes(4) :: p, q
            let at = self.at;
            self.some_subs("the sizes of the nodes")?;
            self.colons()?;
            let names = self.names()?;
            let end = self.at;
            for name in names {
                self.at = at;
                let sizes = self.some_subs("the sizes of the nodes")?;
                list.push(Named { name, value: (sizes, NodesFrom::Entire) });
            }
            self.at = end;
            return Ok(Directive::Nodes(list));
        }
        loop {
            let name = self.word("the name of the nodes")?;
            let sizes = self.some_subs("the size of the nodes in brackets, as in `nodes p[4]`,")?;
            let from = if !self.take("=") {
                NodesFrom::Entire
            } else if self.take("*") {
                // `**`, of old programs: all nodes there are.
                match self.take("*") {
                    true => NodesFrom::Entire,
                    false => NodesFrom::Executing,
                }
            } else {
                NodesFrom::Subset(self.reference()?)
            };
            list.push(Named { name, value: (sizes, from) });
            if !self.take(",") {
                return Ok(Directive::Nodes(list));
            }
        }
    }

    fn template(&mut self) -> Result<Directive> {
        let mut list = Vec::new();
        if !self.is_word(0) {
            let at = self.at;
            self.some_subs("the bounds of the template")?;
            self.colons()?;
            let names = self.names()?;
            let end = self.at;
            for name in names {
                self.at = at;
                let value = self.some_subs("the bounds of the template")?;
                list.push(Named { name, value });
            }
            self.at = end;
            return Ok(Directive::Template(list));
        }
        loop {
            let name = self.word("the name of the template")?;
            let value = self.some_subs("the size of the template in brackets, as in `template t[100]`,")?;
            list.push(Named { name, value });
            if !self.take(",") {
                return Ok(Directive::Template(list));
            }
        }
    }

    fn formats(&mut self) -> Result<Formats> {
        let start = self.offset();
        let mut list = Vec::new();
        let notation = if self.take("(") {
            loop {
                list.push(self.format()?);
                if !self.take(",") {
                    break;
                }
            }
            self.expect(")")?;
            Notation::Round
        } else {
            if !self.is("[") {
                return Err(self.unexpected("a format in brackets, as in `[block]`,"));
            }
            while self.take("[") {
                list.push(self.format()?);
                self.expect("]")?;
            }
            Notation::Square
        };
        Ok(Formats { span: Span::new(start, self.behind()), notation, list })
    }

    fn format(&mut self) -> Result<Format> {
        let at = self.offset();
        if self.take("*") {
            return Ok(Format::None);
        }
        let name = self.word("`block`, `cyclic`, `gblock` or `*`")?;
        let mut argument = None;
        let mut star = false;
        if self.take("(") {
            star = self.is("*") && self.text(1) == ")" && self.take("*");
            if !star {
                argument = Some(self.assignment()?);
            }
            self.expect(")")?;
        }
        match self.source.slice(name) {
            "block" if !star => Ok(Format::Block(argument)),
            "cyclic" if !star => Ok(Format::Cyclic(argument)),
            "gblock" if star || argument.is_some() => Ok(Format::Gblock(argument)),
            "gblock" => Err(Problem::new(at, "`gblock` needs the sizes of the blocks, an array, or `*`: `gblock(m)`")),
            other => Err(Problem::new(at, format!("`{other}` is no format: there are `block`, `block(n)`, `cyclic`, `cyclic(n)`, `gblock(map)` and `*`"))),
        }
    }

    fn distribute(&mut self) -> Result<Directive> {
        let mut list = Vec::new();
        if self.is_word(0) {
            loop {
                let name = self.word("the name of the template")?;
                list.push((name, Rc::new(self.formats()?)));
                if !self.take(",") {
                    break;
                }
            }
            self.expect("onto")?;
            let onto = self.word("the name of the nodes")?;
            return Ok(Directive::Distribute(list, onto));
        }
        let formats = Rc::new(self.formats()?);
        self.expect("onto")?;
        let onto = self.word("the name of the nodes")?;
        self.colons()?;
        list.extend(self.names()?.into_iter().map(|name| (name, formats.clone())));
        Ok(Directive::Distribute(list, onto))
    }

    fn align(&mut self) -> Result<Directive> {
        let mut list = Vec::new();
        if self.is_word(0) {
            loop {
                let name = self.word("the name of the array")?;
                list.push((
                    name,
                    Rc::new(self.some_subs("the dimensions of the array, as in `align a[i] with t[i]`,")?),
                ));
                if !self.take(",") {
                    break;
                }
            }
            self.expect("with")?;
            return Ok(Directive::Align(list, Rc::new(self.aligned_reference()?)));
        }
        let subs = Rc::new(self.some_subs("the dimensions of the arrays")?);
        self.expect("with")?;
        let with = Rc::new(self.aligned_reference()?);
        self.colons()?;
        list.extend(self.names()?.into_iter().map(|name| (name, subs.clone())));
        Ok(Directive::Align(list, with))
    }

    fn aligned_reference(&mut self) -> Result<Reference> {
        let reference = self.reference()?;
        if reference.subs.is_none() {
            return Err(self.unexpected(
                "which dimension of the template goes with which of the array, as in `with t[i]`,",
            ));
        }
        Ok(reference)
    }

    fn shadow(&mut self) -> Result<Directive> {
        let mut list = Vec::new();
        if self.is_word(0) {
            loop {
                let name = self.word("the name of the array")?;
                list.push((name, Rc::new(self.shadow_widths()?)));
                if !self.take(",") {
                    return Ok(Directive::Shadow(list));
                }
            }
        }
        let widths = Rc::new(self.shadow_widths()?);
        self.colons()?;
        list.extend(self.names()?.into_iter().map(|name| (name, widths.clone())));
        Ok(Directive::Shadow(list))
    }

    fn shadow_widths(&mut self) -> Result<Vec<Width>> {
        let mut widths = Vec::new();
        if !self.is("[") {
            return Err(self.unexpected("the widths in brackets, as in `shadow a[1][0:2]`,"));
        }
        while self.take("[") {
            widths.push(self.width()?);
            self.expect("]")?;
        }
        Ok(widths)
    }

    fn width(&mut self) -> Result<Width> {
        let mut width = Width { periodic: false, unbound: false, sides: None };
        if self.take("/") {
            let at = self.offset();
            let word = self.word("`periodic` or `unbound`")?;
            match self.source.slice(word) {
                "periodic" => width.periodic = true,
                "unbound" => width.unbound = true,
                other => {
                    return Err(Problem::new(
                        at,
                        format!("`/{other}/`: there are `/periodic/` and `/unbound/`"),
                    ))
                }
            }
            self.expect("/")?;
        }
        if self.is("*") && matches!(self.text(1), "]" | ")" | ",") {
            self.next();
            return Ok(width);
        }
        let low = self.conditional()?;
        let high = match self.take(":") {
            true => Some(self.conditional()?),
            false => None,
        };
        width.sides = Some((low, high));
        Ok(width)
    }

    fn coarray(&mut self) -> Result<Directive> {
        if self.take("on") {
            let on = self.reference()?;
            self.colons()?;
            return Ok(Directive::Coarray(Some(on.name), self.names()?));
        }
        if self.is_colons() {
            self.colons()?;
            return Ok(Directive::Coarray(None, self.names()?));
        }
        let names = self.names()?;
        if self.take(":") {
            while self.take("[") {
                if !self.take("*") {
                    self.conditional()?;
                }
                self.expect("]")?;
            }
        }
        Ok(Directive::Coarray(None, names))
    }

    fn template_fix(&mut self) -> Result<Directive> {
        let formats = match self.is("[") || self.is("(") {
            true => Some(self.formats()?),
            false => None,
        };
        let template = self.reference()?;
        Ok(Directive::TemplateFix { template, formats })
    }

    fn task(&mut self) -> Result<Directive> {
        self.expect("on")?;
        let on = self.one_reference()?;
        let nocomm = self.clause() == "nocomm" && self.take("nocomm");
        Ok(Directive::Task { on, nocomm })
    }

    fn loop_directive(&mut self) -> Result<Directive> {
        let mut variables = None;
        if self.take("(") {
            variables = Some(self.names()?);
            self.expect(")")?;
        } else if self.is("[") {
            let mut names = Vec::new();
            while self.take("[") {
                names.push(self.word("a loop variable")?);
                self.expect("]")?;
            }
            variables = Some(names);
        }
        let (mut on, mut widen, mut reductions) = (None, None, Vec::new());
        loop {
            let at = self.offset();
            match self.text(0) {
                "on" if on.is_none() => {
                    self.next();
                    on = Some(self.reference()?);
                }
                "reduction" => {
                    self.next();
                    reductions.push(self.reduction()?);
                }
                "expand" | "margin" | "peel_and_wait" if widen.is_some() => {
                    return Err(Problem::new(
                        at,
                        "only one of `expand`, `margin` and `peel_and_wait` may stand in a loop directive",
                    ));
                }
                "expand" => {
                    self.next();
                    widen = Some(Widen::Expand(self.widths()?));
                }
                "margin" => {
                    self.next();
                    widen = Some(Widen::Margin(self.widths()?));
                }
                "peel_and_wait" => {
                    self.next();
                    self.expect("(")?;
                    let id = self.assignment()?;
                    self.expect(",")?;
                    let widths = self.width_list()?;
                    widen = Some(Widen::Peel(id, widths));
                }
                "," if on.is_some() || !reductions.is_empty() || widen.is_some() => drop(self.next()),
                "acc" | "host" => self.place()?,
                "" => {
                    let Some(on) = on else { return Err(self.unexpected("`on`")) };
                    return Ok(Directive::Loop(Box::new(Loop { variables, on, widen, reductions })));
                }
                _ if on.is_none() => return Err(self.unexpected("`on`")),
                _ => return Err(self.unexpected("`reduction`, `expand`, `margin` or `peel_and_wait`")),
            }
        }
    }

    /// `(1, 0:2)`
    fn widths(&mut self) -> Result<Vec<Width>> {
        self.expect("(")?;
        self.width_list()
    }

    fn width_list(&mut self) -> Result<Vec<Width>> {
        let mut widths = Vec::new();
        loop {
            widths.push(self.width()?);
            if !self.take(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(widths)
    }

    fn operation(&mut self) -> Result<Operation> {
        let at = self.offset();
        let text = self.text(0).to_ascii_lowercase();
        self.next();
        Ok(match text.as_str() {
            "+" | "-" => Operation::Sum,
            "*" => Operation::Product,
            "&" => Operation::BitAnd,
            "|" => Operation::BitOr,
            "^" => Operation::BitXor,
            "&&" => Operation::And,
            "||" => Operation::Or,
            "max" => Operation::Max,
            "min" => Operation::Min,
            "firstmax" => Operation::FirstMax,
            "firstmin" => Operation::FirstMin,
            "lastmax" => Operation::LastMax,
            "lastmin" => Operation::LastMin,
            other => {
                return Err(Problem::new(
                    at,
                    format!("`{other}` is no operation of a reduction: there are + * & | ^ && || max min, and in a loop firstmax firstmin lastmax lastmin"),
                ))
            }
        })
    }

    /// `(op : v /loc, loc/, v)`
    fn reduction(&mut self) -> Result<Reduction> {
        self.expect("(")?;
        let operation = self.operation()?;
        self.expect(":")?;
        let mut variables = Vec::new();
        loop {
            let variable = self.variable()?;
            let mut places = Vec::new();
            if self.take("/") {
                loop {
                    places.push(self.variable()?);
                    if !self.take(",") {
                        break;
                    }
                }
                self.expect("/")?;
            }
            variables.push((variable, places));
            if !self.take(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(Reduction { operation, variables })
    }

    /// Something that can be named: no sign binds here, since `/` means something else.
    fn variable(&mut self) -> Result<Expr> {
        if self.is("*") || self.is("(") {
            return self.unary();
        }
        if !self.is_word(0) {
            return Err(self.unexpected("a variable"));
        }
        self.postfix()
    }

    fn halo(&mut self, kind: HaloKind) -> Result<Directive> {
        self.expect("(")?;
        let arrays = self.names()?;
        self.expect(")")?;
        let mut halo = Halo { arrays, widths: None, orthogonal: false, id: None };
        loop {
            match self.clause() {
                "width" => {
                    self.next();
                    halo.widths = Some(self.widths()?);
                }
                "orthogonal" => {
                    self.next();
                    halo.orthogonal = true;
                }
                "async" => halo.id = self.id()?,
                "acc" | "host" => self.place()?,
                "" => return Ok(Directive::Halo(kind, halo)),
                _ => return Err(self.unexpected("`width`, `orthogonal` or `async`")),
            }
        }
    }

    fn reduction_directive(&mut self) -> Result<Directive> {
        let at = self.offset();
        let reduction = self.reduction()?;
        if reduction.operation as u8 >= Operation::FirstMax as u8
            || reduction.variables.iter().any(|(_, places)| !places.is_empty())
        {
            return Err(Problem::new(at, "firstmax, firstmin, lastmax, lastmin and locations belong to the reduction clause of a loop, not to the directive"));
        }
        let (mut on, mut id) = (None, None);
        loop {
            match self.clause() {
                "on" => on = self.on()?,
                "async" => id = self.id()?,
                "acc" | "host" => self.place()?,
                _ => return Ok(Directive::Reduction { reduction, on, id }),
            }
        }
    }

    fn bcast(&mut self) -> Result<Directive> {
        let variables = self.expressions()?;
        let (mut from, mut on, mut id) = (None, None, None);
        loop {
            match self.clause() {
                "from" => {
                    self.next();
                    from = Some(self.reference()?);
                }
                "on" => on = self.on()?,
                "async" => id = self.id()?,
                "acc" | "host" => self.place()?,
                _ => return Ok(Directive::Bcast { variables, from, on, id }),
            }
        }
    }

    fn expressions(&mut self) -> Result<Vec<Expr>> {
        self.expect("(")?;
        let mut list = Vec::new();
        loop {
            list.push(self.assignment()?);
            if !self.take(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(list)
    }

    fn gmove(&mut self) -> Result<Directive> {
        let (mut mode, mut id) = (Mode::Collective, None);
        loop {
            match self.clause() {
                "in" => mode = Mode::In,
                "out" => mode = Mode::Out,
                "collective" => {}
                "async" => {
                    id = self.id()?;
                    continue;
                }
                "acc" | "host" => {
                    self.place()?;
                    continue;
                }
                _ => return Ok(Directive::Gmove { mode, id }),
            }
            self.next();
        }
    }

    fn wait(&mut self) -> Result<Directive> {
        let (mut from, mut tag) = (None, None);
        if self.take("(") {
            from = Some(self.reference()?);
            if self.take(",") {
                tag = Some(self.assignment()?);
            }
            self.expect(")")?;
        }
        Ok(Directive::Wait { from, tag })
    }

    fn lock(&mut self, unlock: bool) -> Result<Directive> {
        self.expect("(")?;
        let object = self.postfix()?;
        self.expect(")")?;
        let (mut acquired, mut status) = (None, None);
        loop {
            let slot = match self.clause() {
                "acquired_lock" if !unlock => &mut acquired,
                "stat" => &mut status,
                _ => return Ok(Directive::Lock { unlock, object, acquired, status }),
            };
            self.at += 1;
            self.expect("(")?;
            *slot = Some(self.assignment()?);
            self.expect(")")?;
        }
    }
}

/// Names one that is written nearly so.
fn nearest(wrong: &str) -> String {
    const NAMES: [&str; 25] = [
        "nodes",
        "template",
        "distribute",
        "align",
        "shadow",
        "coarray",
        "static_desc",
        "template_fix",
        "task",
        "tasks",
        "loop",
        "array",
        "reflect",
        "reduce_shadow",
        "reflect_init",
        "reflect_do",
        "barrier",
        "reduction",
        "bcast",
        "gmove",
        "wait_async",
        "post",
        "wait",
        "lock",
        "unlock",
    ];
    let common = |name: &str| name.bytes().zip(wrong.bytes()).take_while(|(a, b)| a == b).count();
    let best = NAMES.iter().copied().max_by_key(|name| common(name)).filter(|name| common(name) >= 3);
    let other = (wrong == "broadcast").then_some("bcast");
    other
        .or(near(wrong, NAMES.iter().copied()))
        .or(best)
        .map(|name| format!("; `{name}` is one"))
        .unwrap_or_default()
}

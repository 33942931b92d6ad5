//! What a scope declares: read before its text is written, since a directive may stand far behind the declaration it is about.

use super::{flat, Translator};
use crate::ast::{Declaration, Declarator, Derived, Expr, ExprKind, Spec, Stmt, StmtKind, Storage};
use crate::directive::*;
use crate::names::{Array, Coarray, Layout, Nodes, Owner, Scope, Set, Shadow, Shape, Template, Var};
use crate::near::near;
use crate::source::{Problem, Result, Span};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

impl Translator<'_, '_> {
    /// Opens a scope and reads what these statements declare.
    pub(super) fn open(&mut self, items: &[Stmt]) {
        self.scopes.list.push(Scope::default());
        self.declare_all(items);
    }

    pub(super) fn close(&mut self) {
        self.scopes.list.pop();
    }

    pub(super) fn declare_all(&mut self, items: &[Stmt]) {
        for item in items {
            if let StmtKind::Decl(declaration) = &item.kind {
                self.declare(declaration, Owner::Block);
            }
        }
        let directives = |item: &Stmt| match item.kind {
            StmtKind::Directive(index) => Some(index),
            _ => None,
        };
        self.declare_directives(&items.iter().filter_map(directives).collect::<Vec<_>>());
    }

    /// Directives of one scope. A shadow may stand before the alignment of its array.
    pub(super) fn declare_directives(&mut self, list: &[usize]) {
        let directives = &self.directives;
        let is_shadow = |index: &usize| {
            let directive = directives.get(*index).and_then(|directive| directive.as_deref().ok());
            matches!(directive, Some(Directive::Shadow(_)))
        };
        let (shadows, others): (Vec<usize>, Vec<usize>) = list.iter().copied().partition(is_shadow);
        for index in others.into_iter().chain(shadows) {
            self.declare_directive(index);
        }
    }

    pub(super) fn declare(&mut self, declaration: &Declaration, owner: Owner) {
        for declarator in &declaration.declarators {
            if let Err(problem) = self.declare_one(&declaration.spec, declarator, owner) {
                self.problem(problem);
            }
        }
    }

    pub(super) fn declare_one(&mut self, spec: &Spec, declarator: &Declarator, owner: Owner) -> Result<()> {
        let name = self.slice(declarator.name).to_owned();
        let words = self.spec_text(spec);
        let mut shape: Vec<Shape> = declarator.derived.iter().map(|derived| self.shape(derived)).collect();
        if spec.storage == Storage::Typedef {
            if shape.iter().any(|shape| matches!(shape, Shape::Array(_))) {
                self.array_types.insert(name, (words, shape));
            }
            return Ok(());
        }
        let mut words = words;
        if let Some((inner, more)) = self.array_types.get(&words) {
            shape.extend(more.iter().cloned());
            words = inner.clone();
        }
        let owner = match (owner, spec.storage) {
            (Owner::File, Storage::Extern) | (Owner::Block, Storage::Extern) => Owner::Extern,
            (Owner::File, Storage::Static) => Owner::FileStatic,
            (Owner::Block, Storage::Static) => Owner::BlockStatic,
            (owner, _) => owner,
        };
        let depth = self.scopes.depth();
        // `extern` in a header and the definition behind it are one variable.
        let known = self.scopes.list.last().and_then(|scope| scope.vars.get(&name)).cloned();
        let owner = match known.as_ref().map(|var| var.owner) {
            Some(before @ (Owner::File | Owner::FileStatic)) if owner == Owner::Extern => before,
            _ => owner,
        };
        // `extern` in a block is the variable outside, with the mapping that it has there.
        let outside = self.scopes.list.first().and_then(|scope| scope.vars.get(&name)).cloned();
        let is_outside = owner == Owner::Extern && depth > 1;
        if let Some(var) = outside.filter(|var| is_outside && var.distributed().is_some()) {
            if let Some(scope) = self.scopes.list.last_mut() {
                scope.vars.insert(name, var);
            }
            return Ok(());
        }
        let (array, coarray) = known.map_or((None, None), |var| (var.distributed(), var.coarray()));
        let var = Var {
            name,
            spec: words,
            shape,
            owner,
            depth,
            array: RefCell::new(array),
            coarray: RefCell::new(coarray),
        };
        if let Some((span, codims)) = &declarator.codims {
            let codims = codims.iter().map(|size| size.as_ref().map(|size| self.flat(size.span))).collect();
            self.make_coarray(&var, span.start, codims)?;
        }
        self.scopes.add_var(var);
        Ok(())
    }

    /// Whether a block has declared a variable of file scope once more: then so are its directives.
    fn is_repeated(&self, name: &str) -> bool {
        let here = self.scopes.list.last().and_then(|scope| scope.vars.get(name));
        here.is_some_and(|var| var.depth < self.scopes.depth() && var.distributed().is_some())
    }

    /// The type before the name.
    pub(super) fn spec_text(&self, spec: &Spec) -> String {
        if let Some((body, None)) = spec.body {
            return format!("kx_type_{}", body.start);
        }
        let words: Vec<&str> = spec.words.iter().map(|span| self.slice(*span)).collect();
        if words.is_empty() {
            return "int".into();
        }
        flat(&words.join(" "))
    }

    fn shape(&self, derived: &Derived) -> Shape {
        match derived {
            Derived::Array(size) => Shape::Array(size.as_ref().map(|size| self.flat(size.span))),
            Derived::Pointer => Shape::Pointer,
            Derived::Function(_) => Shape::Function,
        }
    }

    pub(super) fn declare_directive(&mut self, index: usize) {
        let Some(directive) = self.directive(index) else { return };
        let done = match &*directive {
            Directive::Nodes(list) => self.declare_nodes(list),
            Directive::Template(list) => self.declare_templates(list),
            Directive::Distribute(list, onto) => self.declare_distribution(list, *onto),
            Directive::Align(list, with) => self.declare_alignment(index, list, with),
            Directive::Shadow(list) => self.declare_shadow(index, list),
            Directive::Coarray(on, list) => self.declare_coarrays(*on, list),
            Directive::TemplateFix { template, formats } => self.declare_fix(template, formats.as_ref()),
            _ => Ok(()),
        };
        if let Err(problem) = done {
            self.problem(problem);
        }
    }

    /// A directive that could be read; what is wrong with one that could not is told once.
    pub(super) fn directive(&mut self, index: usize) -> Option<Rc<Directive>> {
        self.seen.insert(index);
        match self.directives.get(index)?.clone() {
            Ok(directive) => Some(directive),
            Err(problem) => {
                self.problem(problem);
                None
            }
        }
    }

    fn declare_nodes(&mut self, list: &[Named<(Subs, NodesFrom)>]) -> Result<()> {
        for named in list {
            let name = self.slice(named.name).to_owned();
            let (sizes, from) = &named.value;
            if sizes.list.len() > 7 {
                return Err(Problem::new(named.name.start, format!("`{name}` has more than 7 dimensions")));
            }
            if let NodesFrom::Subset(reference) = from {
                self.set_of(reference)?;
            }
            self.scopes.add_set(&name.clone(), Set::Nodes(Rc::new(Nodes { name, dims: sizes.list.len() })));
        }
        Ok(())
    }

    fn declare_templates(&mut self, list: &[Named<Subs>]) -> Result<()> {
        for named in list {
            let name = self.slice(named.name).to_owned();
            if named.value.list.len() > 7 {
                return Err(Problem::new(named.name.start, format!("`{name}` has more than 7 dimensions")));
            }
            let bounds = self.template_bounds(&named.value)?;
            let lower = bounds.map(|bounds| bounds.into_iter().map(|(lo, _)| Some(lo)).collect());
            let dims = named.value.list.len();
            let template = Template {
                name: name.clone(),
                dims,
                lower: RefCell::new(lower.unwrap_or_else(|| vec![None; dims])),
                layouts: RefCell::new(None),
            };
            self.scopes.add_set(&name, Set::Template(Rc::new(template)));
        }
        Ok(())
    }

    fn template_of(&self, name: Span) -> Result<Rc<Template>> {
        let text = self.slice(name);
        match self.scopes.set(text) {
            Some(Set::Template(template)) => Ok(template),
            Some(Set::Nodes(_)) => Err(Problem::new(
                name.start,
                format!("`{text}` is a set of nodes; a template is needed here"),
            )),
            None => Err(self.undefined(name, "template")),
        }
    }

    pub(super) fn undefined(&self, name: Span, what: &str) -> Problem {
        let text = self.slice(name);
        let known = self.scopes.known_sets();
        let advice = match known.is_empty() {
            true => format!(
                "declare it with `#pragma xmp {}`; each source file has its own",
                if what == "template" { "template" } else { "nodes" }
            ),
            false => match near(text, known.iter().map(String::as_str)) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!(
                    "declared are {}; each source file has its own",
                    known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
                ),
            },
        };
        Problem::new(name.start, format!("{what} `{text}` is not declared: {advice}"))
    }

    /// Refuses a name that is no variable and stands nowhere else: the compiler would name it amid text that nobody has written.
    pub(super) fn check_declared(&self, name: Span, without: Span) -> Result<()> {
        let text = self.slice(name);
        let rest = self.source.text.get(name.end..).unwrap_or("");
        let is_known = self.scopes.var(text).is_some() || self.scopes.set(text).is_some();
        let is_builtin = text.starts_with("__") || rest.trim_start().starts_with('(');
        if is_known || is_builtin || self.source.has_word(text, without) {
            return Ok(());
        }
        let advice = self.scopes.near_var(text);
        Err(Problem::new(name.start, format!("`{text}` is not declared{advice}")))
    }

    fn declare_distribution(&mut self, list: &[(Span, Rc<Formats>)], onto: Span) -> Result<()> {
        let nodes = match self.scopes.set(self.slice(onto)) {
            Some(Set::Nodes(nodes)) => nodes,
            Some(Set::Template(_)) => {
                return Err(Problem::new(
                    onto.start,
                    format!("`{}` is a template; a template is distributed onto nodes", self.slice(onto)),
                ))
            }
            None => return Err(self.undefined(onto, "nodes")),
        };
        for (name, formats) in list {
            let template = self.template_of(*name)?;
            if formats.list.len() != template.dims {
                return Err(Problem::new(
                    formats.span.start,
                    format!(
                        "template `{}` has {} dimensions, but {} formats are given",
                        template.name,
                        template.dims,
                        formats.list.len()
                    ),
                ));
            }
            let split = formats.list.iter().filter(|format| !matches!(format, Format::None)).count();
            if split != nodes.dims {
                return Err(Problem::new(
                    formats.span.start,
                    format!("{split} dimensions of `{}` are distributed, but nodes `{}` have {}: these must be as many", template.name, nodes.name, nodes.dims),
                ));
            }
            *template.layouts.borrow_mut() = Some(layouts(formats));
        }
        Ok(())
    }

    fn declare_fix(&mut self, reference: &Reference, formats: Option<&Formats>) -> Result<()> {
        let template = self.template_of(reference.name)?;
        let wrong = |at: usize, count: usize| {
            Problem::new(
                at,
                format!(
                    "template `{}` has {} dimensions, but {count} are given here",
                    template.name, template.dims
                ),
            )
        };
        if let Some(formats) = formats {
            if formats.list.len() != template.dims {
                return Err(wrong(formats.span.start, formats.list.len()));
            }
            if template.layouts.borrow().is_none() {
                *template.layouts.borrow_mut() = Some(layouts(formats));
            }
        }
        if let Some(subs) = &reference.subs {
            if subs.list.len() != template.dims {
                return Err(wrong(reference.span.start, subs.list.len()));
            }
            if let Some(bounds) = self.template_bounds(subs)? {
                *template.lower.borrow_mut() = bounds.into_iter().map(|(lo, _)| Some(lo)).collect();
            }
        }
        Ok(())
    }

    fn declare_alignment(&mut self, index: usize, list: &[(Span, Rc<Subs>)], with: &Reference) -> Result<()> {
        let template = self.template_of(with.name)?;
        if template.layouts.borrow().is_none() {
            return Err(Problem::new(
                with.name.start,
                format!("template `{}` is not distributed: put `#pragma xmp distribute {0}[block] onto p` before this", template.name),
            ));
        }
        let Some(subs) = &with.subs else { return Ok(()) };
        if subs.list.len() != template.dims {
            return Err(Problem::new(
                with.span.start,
                format!(
                    "template `{}` has {} dimensions, but {} subscripts are given",
                    template.name,
                    template.dims,
                    subs.list.len()
                ),
            ));
        }
        for (name, dims) in list {
            self.align_one(index, *name, dims, subs, &template)?;
        }
        Ok(())
    }

    fn align_one(
        &mut self,
        index: usize,
        name: Span,
        dims: &Subs,
        subs: &Subs,
        template: &Rc<Template>,
    ) -> Result<()> {
        let text = self.slice(name).to_owned();
        let Some(var) = self.scopes.var(&text) else {
            return Err(Problem::new(
                name.start,
                format!(
                    "array `{text}` is not declared before this directive{}",
                    self.scopes.near_var(&text)
                ),
            ));
        };
        if self.is_repeated(&text) {
            return Ok(());
        }
        if var.distributed().is_some()
            && var.depth == self.scopes.depth()
            && !matches!(var.owner, Owner::Extern | Owner::File)
        {
            return Err(Problem::new(
                name.start,
                format!("`{text}` is aligned twice: one align directive is allowed"),
            ));
        }
        let mut sizes = Vec::new();
        for (at, shape) in var.shape.iter().enumerate() {
            match shape {
                Shape::Pointer if at == 0 => sizes.push(None),
                Shape::Array(size) => sizes.push(
                    size.clone().filter(|_| !(at == 0 && var.owner == Owner::Parameter && size.is_none())),
                ),
                _ => break,
            }
        }
        if sizes.is_empty() {
            return Err(Problem::new(
                name.start,
                format!(
                    "`{text}` is no array: only arrays, and pointers that xmp_malloc fills, can be aligned"
                ),
            ));
        }
        if sizes.len() != dims.list.len() {
            return Err(Problem::new(
                name.start,
                format!(
                    "`{text}` has {} dimensions, but {} are named here{}",
                    sizes.len(),
                    dims.list.len(),
                    if var.is_pointer() {
                        ": a dynamic array of more than one is declared as `double (*a)[M]`"
                    } else {
                        ""
                    }
                ),
            ));
        }
        let Some(element) = var.element(sizes.len()) else {
            return Err(Problem::new(
                name.start,
                format!("the elements of `{text}` have a type that cannot be distributed"),
            ));
        };
        let align = self.alignment(dims, subs)?;
        let is_fixed = sizes.iter().flatten().all(|size| self.is_constant(size))
            && align.iter().flatten().all(|(_, offset)| self.is_constant(offset));
        let array = Array {
            is_fixed,
            name: text,
            element,
            shadow: RefCell::new(vec![Shadow::None; sizes.len()]),
            has_shadow: Cell::new(false),
            sizes,
            template: template.clone(),
            align,
            storage: var.owner,
            is_pointer: var.is_pointer(),
            made_at: Cell::new(index),
        };
        *var.array.borrow_mut() = Some(Rc::new(array));
        Ok(())
    }

    /// Whether an expression has one value in the whole unit: numbers, constants, and variables of file scope that are `const`.
    fn is_constant(&self, text: &str) -> bool {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words = text.split(|c: char| !is_word(c)).filter(|word| !word.is_empty());
        !text.contains(['[', '{', '"', '='])
            && !text.contains("++")
            && !text.contains("--")
            && words.filter(|word| !word.starts_with(|c: char| c.is_ascii_digit())).all(|word| {
                match self.scopes.var(word) {
                    Some(var) => {
                        var.depth == 1
                            && var.shape.is_empty()
                            && var.spec.split(' ').any(|part| part == "const")
                    }
                    // A constant of an enumeration, or a type; no call.
                    None => !text.replace(' ', "").contains(&format!("{word}(")) || word == "sizeof",
                }
            })
    }

    /// Which axis each dimension of the array goes with.
    fn alignment(&self, dims: &Subs, subs: &Subs) -> Result<Vec<Option<(usize, String)>>> {
        let axes = subs.fastest_first();
        let mut used = vec![false; axes.len()];
        let colons: Vec<usize> =
            (0..axes.len()).filter(|axis| matches!(axes[*axis].kind, SubscriptKind::Range(..))).collect();
        // The last colon of the array goes with the fastest of the template.
        let mut next_colon =
            dims.list.iter().filter(|dim| matches!(dim.kind, SubscriptKind::Range(..))).count();
        if next_colon > colons.len() {
            return Err(Problem::new(
                dims.list[0].span.start,
                "there are more `:` on the side of the array than on that of the template",
            ));
        }
        let mut align = Vec::new();
        for dim in &dims.list {
            align.push(match &dim.kind {
                SubscriptKind::Star => None,
                SubscriptKind::Range(..) => {
                    next_colon -= 1;
                    used[colons[next_colon]] = true;
                    Some((colons[next_colon], "0".to_owned()))
                }
                SubscriptKind::At(dummy) => {
                    let text = self.slice(dummy.span);
                    if !matches!(dummy.kind, ExprKind::Name) {
                        return Err(Problem::new(dim.span.start, "a dimension of an array in `align` is a name, `*` or `:`; offsets stand on the side of the template: `a[i] with t[i+1]`"));
                    }
                    let found = axes.iter().enumerate().find_map(|(axis, sub)| match &sub.kind {
                        SubscriptKind::At(e) if self.mentions(e, text) => Some((axis, e)),
                        _ => None,
                    });
                    // As if it were `*`; of that there is a warning.
                    let Some((axis, e)) = found else {
                        align.push(None);
                        continue;
                    };
                    let Some(offset) = self.offset_from(e, text) else {
                        return Err(Problem::new(axes[axis].span.start, format!("only `{text}`, `{text} + n` and `{text} - n` can stand here")));
                    };
                    used[axis] = true;
                    Some((axis, offset))
                }
            });
        }
        for (axis, used) in used.iter().enumerate() {
            if let (false, SubscriptKind::At(e)) = (used, &axes[axis].kind) {
                let text = self.slice(e.span);
                return Err(Problem::new(axes[axis].span.start, format!("`{text}` does not stand on the side of the array: `*` replicates over this dimension")));
            }
        }
        Ok(align)
    }

    /// Whether a name stands in an expression.
    pub(super) fn mentions(&self, expr: &Expr, name: &str) -> bool {
        match &expr.kind {
            ExprKind::Name => self.slice(expr.span) == name,
            _ => super::expressions::children(expr).iter().any(|child| self.mentions(child, name)),
        }
    }

    /// What is added to a name: `i + 2` has the offset 2.
    pub(super) fn offset_from(&self, expr: &Expr, name: &str) -> Option<String> {
        match &expr.kind {
            ExprKind::Name if self.slice(expr.span) == name => Some("0".into()),
            ExprKind::Paren(inner) => self.offset_from(inner, name),
            ExprKind::Binary(sign, left, right) => {
                let sign = self.slice(*sign);
                let (with, other) = match (self.mentions(left, name), self.mentions(right, name)) {
                    (true, false) if sign == "+" || sign == "-" => (left, right),
                    (false, true) if sign == "+" => (right, left),
                    _ => return None,
                };
                let inner = self.offset_from(with, name)?;
                let other = self.flat(other.span);
                // Without a sign it would not go below zero.
                let other = match super::number(&other) {
                    Some(_) => super::grouped(&other),
                    None => super::long(&other),
                };
                Some(match (inner.as_str(), sign) {
                    ("0", "+") => other,
                    ("0", _) => format!("-{other}"),
                    (inner, sign) => format!("{inner} {sign} {other}"),
                })
            }
            _ => None,
        }
    }

    fn declare_shadow(&mut self, index: usize, list: &[(Span, Rc<Vec<Width>>)]) -> Result<()> {
        for (name, widths) in list {
            let text = self.slice(*name);
            let array = self.scopes.var(text).and_then(|var| var.distributed());
            let Some(array) = array else {
                let message = match self.scopes.var(text) {
                    Some(_) => format!("`{text}` is not aligned: a shadow belongs to a distributed array, behind its align directive"),
                    None => format!("array `{text}` is not declared before this directive{}", self.scopes.near_var(text)),
                };
                return Err(Problem::new(name.start, message));
            };
            if widths.len() != array.dims() {
                return Err(Problem::new(
                    name.start,
                    format!(
                        "`{text}` has {} dimensions, but {} widths are given",
                        array.dims(),
                        widths.len()
                    ),
                ));
            }
            if self.is_repeated(text) {
                continue;
            }
            let shadow = widths.iter().map(|width| self.shadow_of(width)).collect();
            *array.shadow.borrow_mut() = shadow;
            array.has_shadow.set(true);
            array.made_at.set(index.max(array.made_at.get()));
        }
        Ok(())
    }

    fn shadow_of(&self, width: &Width) -> Shadow {
        let Some((low, high)) = &width.sides else { return Shadow::Full };
        let low = self.flat(low.span);
        let high = high.as_ref().map_or_else(|| low.clone(), |high| self.flat(high.span));
        match low == "0" && high == "0" {
            true => Shadow::None,
            false => Shadow::Widths(low, high),
        }
    }

    fn declare_coarrays(&mut self, on: Option<Span>, list: &[Span]) -> Result<()> {
        if let Some(on) = on {
            if !matches!(self.scopes.set(self.slice(on)), Some(Set::Nodes(_))) {
                return Err(self.undefined(on, "nodes"));
            }
        }
        for name in list {
            let text = self.slice(*name);
            let Some(var) = self.scopes.var(text) else {
                return Err(Problem::new(
                    name.start,
                    format!("`{text}` is not declared before this directive{}", self.scopes.near_var(text)),
                ));
            };
            if var.coarray().is_none() {
                self.make_coarray(&var, name.start, vec![None])?;
            }
            if let (Some(on), Some(coarray)) = (on, var.coarray()) {
                *coarray.on.borrow_mut() = Some(format!("kxn_{}", self.slice(on)));
            }
        }
        Ok(())
    }

    fn make_coarray(&mut self, var: &Var, at: usize, codims: Vec<Option<String>>) -> Result<()> {
        let name = &var.name;
        if matches!(var.owner, Owner::Block | Owner::Parameter) {
            return Err(Problem::new(
                at,
                format!("coarray `{name}` must be declared outside of functions, or `static`"),
            ));
        }
        if codims.last().is_some_and(Option::is_some) || codims.iter().rev().skip(1).any(Option::is_none) {
            return Err(Problem::new(at, format!("the last codimension of `{name}`, and only that, is `*`")));
        }
        let dims = var.dims();
        let Some(element) = var.element(dims) else {
            return Err(Problem::new(at, format!("`{name}` has a type that cannot be a coarray")));
        };
        let mut sizes = Vec::new();
        for shape in &var.shape[..dims] {
            let Shape::Array(Some(size)) = shape else {
                return Err(Problem::new(at, format!("coarray `{name}` needs its size in the brackets")));
            };
            sizes.push(size.clone());
        }
        let id = self.fresh();
        let prefix = match var.owner {
            Owner::BlockStatic => format!("{}_{id}_", self.function),
            _ => String::new(),
        };
        let is_constant =
            |size: &String| size.bytes().all(|b| b.is_ascii_digit() || b"+-*/()<> xXuUlL".contains(&b));
        let coarray = Coarray {
            name: name.clone(),
            prefix,
            element,
            constant: sizes.iter().all(is_constant),
            sizes,
            codims,
            on: RefCell::new(None),
            storage: var.owner,
        };
        *var.coarray.borrow_mut() = Some(Rc::new(coarray));
        Ok(())
    }
}

fn layouts(formats: &Formats) -> Vec<Layout> {
    let layout = |format: &&Format| match format {
        Format::None => Layout::None,
        Format::Block(_) => Layout::Block,
        Format::Cyclic(None) => Layout::Cyclic,
        Format::Cyclic(Some(_)) => Layout::BlockCyclic,
        Format::Gblock(_) => Layout::Gblock,
    };
    formats.fastest_first().iter().map(layout).collect()
}

//! The C text of declarations, and the calls that make what they declare.

use super::{long, longs, Translator};
use crate::ast::{Declaration, Declarator, Expr};
use crate::directive::*;
use crate::names::{Array, Coarray, Owner, Shadow, Var};
use crate::source::{Problem, Result, Span};
use std::rc::Rc;

const UNUSED: &str = "__attribute__((unused))";
const ENDED: &str = "__attribute__((unused, cleanup(kxmp_template_leave)))";
const DROPPED: &str = "__attribute__((unused, cleanup(kxmp_array_drop)))";
/// Of pointers, whose memory outlives them.
const LEFT: &str = "__attribute__((unused, cleanup(kxmp_pointer_drop)))";

impl Translator<'_, '_> {
    /// A declaration, with what is distributed taken out of it.
    pub(super) fn declaration(&mut self, declaration: &Declaration) -> Result<String> {
        let vars: Vec<Option<Rc<Var>>> =
            declaration.declarators.iter().map(|one| self.scopes.var(self.slice(one.name))).collect();
        let is_plain = vars.iter().all(|var| var.as_ref().is_none_or(|var| var.is_plain()));
        if is_plain || declaration.spec.storage == crate::ast::Storage::Typedef {
            return self.plain_declaration(declaration);
        }
        let mut out = String::new();
        let mut defined = false;
        for (declarator, var) in declaration.declarators.iter().zip(vars) {
            let Some(var) = var else { continue };
            if !defined {
                out.push_str(&self.structure(declaration, &var));
                defined = true;
            }
            if let Some(array) = var.distributed() {
                if let Some(init) = declarator.init.as_ref().filter(|_| !array.is_pointer) {
                    return Err(Problem::new(
                        init.span.start,
                        format!("`{}` is distributed: it begins with zeros and cannot have an initialiser; set it in a loop", array.name),
                    ));
                }
                out.push_str(&self.distributed(declaration, &array));
                if !array.is_pointer {
                    continue;
                }
            }
            if let Some(coarray) = var.coarray() {
                let text = self.coarray(&coarray, declarator)?;
                match coarray.storage {
                    Owner::BlockStatic => self.before_function.push_str(&text),
                    _ => out.push_str(&text),
                }
                continue;
            }
            out.push_str(&self.one_declared(declaration, declarator, &var)?);
        }
        if out.is_empty() {
            out.push(';');
        }
        Ok(self.in_place(declaration.span, out.trim_end().to_owned()))
    }

    fn plain_declaration(&mut self, declaration: &Declaration) -> Result<String> {
        let mut parts = Vec::new();
        // Directives take addresses; a register that is named stays one.
        let words = self.slice(declaration.spec.span);
        if let Some(at) = words.find("register ").filter(|_| !self.slice(declaration.span).contains("asm")) {
            let start = declaration.spec.span.start + at;
            // By itself the word stands for `int`, too.
            let instead = if declaration.spec.words.is_empty() { "int" } else { "" };
            parts.push((Span::new(start, start + "register".len()), instead.to_owned()));
        }
        if let Some(inner) = &declaration.spec.typeof_of {
            parts.push((inner.span, self.expr(inner)?));
        }
        for declarator in &declaration.declarators {
            for derived in &declarator.derived {
                if let crate::ast::Derived::Array(Some(size)) = derived {
                    parts.push((size.span, self.expr(size)?));
                }
            }
            if let Some(init) = &declarator.init {
                parts.push((init.span, self.expr(init)?));
            }
        }
        parts.sort_by_key(|(span, _)| span.start);
        Ok(self.splice(declaration.span, &parts))
    }

    /// The structure that a declaration defines beside the variables.
    fn structure(&self, declaration: &Declaration, var: &Var) -> String {
        let Some((body, tag)) = declaration.spec.body else { return String::new() };
        let text = self.slice(body);
        match tag {
            Some(_) => format!("{text}; "),
            None => format!("typedef {text} {}; ", var.spec),
        }
    }

    /// A variable that stays, by itself.
    fn one_declared(
        &mut self,
        declaration: &Declaration,
        declarator: &Declarator,
        var: &Var,
    ) -> Result<String> {
        if var.distributed().is_some_and(|array| array.is_untyped()) {
            let class = match declaration.spec.storage {
                crate::ast::Storage::Static => "static ",
                crate::ast::Storage::Extern => "extern ",
                _ => "",
            };
            let first = match &declarator.init {
                Some(init) => format!(" = {}", self.value(init)?),
                None => String::new(),
            };
            return Ok(format!("{class}void *{}{first}; ", var.name));
        }
        let spec = declaration.spec.span;
        let words = match declaration.spec.body {
            Some((body, _)) => {
                let before = self.slice(Span::new(spec.start, body.start));
                let after = self.slice(Span::new(body.end, spec.end));
                super::flat(&format!("{before} {} {after}", var.spec))
            }
            None => self.flat(spec),
        };
        let mut parts = Vec::new();
        if let Some(init) = &declarator.init {
            parts.push((init.span, self.expr(init)?));
        }
        let text = self.splice(declarator.span, &parts);
        Ok(format!("{words} {}; ", super::flat(&text)))
    }

    fn distributed(&self, declaration: &Declaration, array: &Array) -> String {
        let name = array.descriptor();
        match array.storage {
            Owner::File | Owner::FileStatic | Owner::Extern
                if declaration.spec.storage == crate::ast::Storage::Extern =>
            {
                format!("extern kxmp_array {name}; ")
            }
            // A header may have it in several units: what C calls a tentative definition.
            Owner::File | Owner::Extern => format!("kxmp_array {name} __attribute__((common)); "),
            Owner::FileStatic => format!("static kxmp_array {name} {UNUSED}; "),
            Owner::BlockStatic => format!("static kxmp_array {name} {UNUSED}; "),
            Owner::Block if array.is_pointer => format!("kxmp_array {name} {LEFT} = {{0}}; "),
            Owner::Block => format!("kxmp_array {name} {DROPPED} = {{0}}; "),
            Owner::Parameter => String::new(),
        }
    }

    /// The call that makes an array, where the last directive about it stands.
    pub(super) fn make_array(&mut self, array: &Array, at: usize) -> Result<String> {
        let name = array.descriptor();
        let kind = match (array.storage, array.is_pointer) {
            (Owner::Parameter, _) => "KXMP_BOUND",
            (_, true) => "KXMP_LATER",
            _ => "KXMP_OWN",
        };
        let sizes: Vec<String> =
            array.sizes.iter().map(|size| size.clone().unwrap_or_else(|| "KXMP_STAR".into())).collect();
        let sizes = match kind == "KXMP_LATER" {
            true => "0".into(),
            false => longs(&sizes),
        };
        let align: Vec<String> = array
            .align
            .iter()
            .map(|align| {
                align
                    .as_ref()
                    .map_or_else(|| "{-1, 0}".into(), |(axis, offset)| format!("{{{axis}, {offset}}}"))
            })
            .collect();
        let memory = if kind == "KXMP_BOUND" { format!("(void *){}", array.name) } else { "0".into() };
        let element = &array.element;
        let call = format!(
            "kxmp_array_make(&{name}, {}, \"{}\", KXMP_TYPE_OF(*({element} *)0), sizeof({element}), {}, {sizes}, kxt_{}, \
             (const kxmp_align[]){{{}}}, {}, {kind}, {memory});",
            self.at(at),
            array.name,
            array.dims(),
            array.template.name,
            align.join(", "),
            self.shadow_text(array),
        );
        if matches!(array.storage, Owner::File | Owner::FileStatic) && self.scopes.depth() == 1 {
            self.descriptors.push(name.clone());
        }
        Ok(match array.storage {
            Owner::Parameter => format!("kxmp_array {name} {DROPPED} = {{0}}; {call}"),
            Owner::BlockStatic => format!("if (!{name}.map) {call}"),
            Owner::Extern => String::new(),
            _ => call,
        })
    }

    fn shadow_text(&self, array: &Array) -> String {
        let shadow = array.shadow.borrow();
        if shadow.iter().all(|one| *one == Shadow::None) {
            return "0".into();
        }
        let one = |shadow: &Shadow| match shadow {
            Shadow::None => "{0, 0, 0}".to_owned(),
            Shadow::Widths(lo, hi) => format!("{{{lo}, {hi}, 0}}"),
            Shadow::Full => "{-1, -1, 0}".to_owned(),
        };
        format!("(const kxmp_width[]){{{}}}", shadow.iter().map(one).collect::<Vec<_>>().join(", "))
    }

    fn coarray(&mut self, coarray: &Coarray, declarator: &Declarator) -> Result<String> {
        let (memory, handle) = (coarray.memory(), coarray.handle());
        let is_extern = coarray.storage == Owner::Extern;
        let (class, common) = match coarray.storage {
            Owner::Extern => ("extern ", ""),
            Owner::FileStatic | Owner::BlockStatic => ("static ", ""),
            _ => ("", " __attribute__((common))"),
        };
        let declared = match coarray.constant {
            true => format!("{class}{} (*{memory}){}{common};", coarray.element, coarray.brackets()),
            false => format!("{class}void *{memory}{common};"),
        };
        if !is_extern {
            self.make_coarray_call(coarray, declarator)?;
        }
        Ok(format!("{declared} {class}kxmp_coarray *{handle}{common}; "))
    }

    fn make_coarray_call(&mut self, coarray: &Coarray, declarator: &Declarator) -> Result<()> {
        let (memory, handle) = (coarray.memory(), coarray.handle());
        let element = &coarray.element;
        let extent = if coarray.sizes.is_empty() { "0".into() } else { longs(&coarray.sizes) };
        let codims: Vec<String> =
            coarray.codims.iter().map(|size| size.clone().unwrap_or_else(|| "KXMP_STAR".into())).collect();
        let on = coarray.on.borrow().clone().unwrap_or_else(|| "0".into());
        let call = format!(
            "kxmp_coarray_make(&{handle}, (void **)&{memory}, {}, \"{}\", KXMP_TYPE_OF(*({element} *)0), sizeof({element}), {}, {extent}, {}, {}, {on});",
            self.at(declarator.name.start),
            coarray.name,
            coarray.sizes.len(),
            codims.len(),
            longs(&codims),
        );
        self.initialise(&call);
        if let Some(init) = &declarator.init {
            let value = self.coarray_value(coarray, init)?;
            self.initialise(&value);
        }
        Ok(())
    }

    /// What a coarray begins with.
    fn coarray_value(&mut self, coarray: &Coarray, init: &Expr) -> Result<String> {
        let value = self.value(init)?;
        let (element, brackets) = (&coarray.element, coarray.brackets());
        Ok(format!(
            "{{ {element} kx_first{brackets} = {value}; __builtin_memcpy({}, &kx_first, sizeof kx_first); }}",
            coarray.memory()
        ))
    }

    /// Adds a line to the initialiser of the unit.
    pub(super) fn initialise(&mut self, text: &str) {
        self.initialiser.push_str("  ");
        self.initialiser.push_str(text);
        self.initialiser.push('\n');
    }

    /// Declarative directives: what they declare, and the calls.
    pub(super) fn declarative(&mut self, index: usize, at: usize) -> Result<Option<(String, String)>> {
        let Some(directive) = self.directive(index) else { return Ok(Some((String::new(), String::new()))) };
        let (mut declared, mut calls) = (String::new(), String::new());
        match &*directive {
            Directive::Nodes(list) => {
                for named in list {
                    let name = self.slice(named.name).to_owned();
                    self.declare_pointer(&mut declared, "kxmp_nodes", "kxn_", &name);
                    calls.push_str(&self.nodes_call(&name, named, at)?);
                }
            }
            Directive::Template(list) => {
                for named in list {
                    let name = self.slice(named.name).to_owned();
                    self.declare_pointer(&mut declared, "kxmp_template", "kxt_", &name);
                    calls.push_str(&self.template_call(&name, named, at)?);
                }
            }
            Directive::Distribute(list, onto) => {
                for (name, formats) in list {
                    let formats_text = self.formats(formats)?;
                    calls.push_str(&format!(
                        "kxt_{0} = kxmp_distribute({1}, kxt_{0}, {2}, {formats_text}, kxn_{3}); ",
                        self.slice(*name),
                        self.at(at),
                        formats.list.len(),
                        self.slice(*onto)
                    ));
                }
            }
            Directive::Align(list, with) => {
                for (name, dims) in list {
                    declared.push_str(&self.warning_of_dummies(*name, dims, with));
                    calls.push_str(&self.made_here(index, *name, at)?);
                }
            }
            Directive::Shadow(list) => {
                for (name, _) in list {
                    calls.push_str(&self.made_here(index, *name, at)?);
                }
            }
            Directive::Coarray(..)
            | Directive::StaticDesc
            | Directive::OmniLocalSubscripts
            | Directive::ImagesFrom1 => {}
            _ => return Ok(None),
        }
        Ok(Some((declared, calls)))
    }

    /// A dummy that stands on the side of the array alone means nothing, and is perhaps not meant so: the compiler says it.
    fn warning_of_dummies(&self, name: Span, dims: &Subs, with: &Reference) -> String {
        let list = with.subs.iter().flat_map(|subs| &subs.list);
        let with: Vec<&Expr> = list
            .filter_map(|sub| match &sub.kind {
                SubscriptKind::At(e) => Some(e),
                _ => None,
            })
            .collect();
        let mut out = String::new();
        for dim in &dims.list {
            let SubscriptKind::At(dummy) = &dim.kind else { continue };
            let text = self.slice(dummy.span);
            if !with.iter().any(|e| self.mentions(e, text)) {
                let name = self.slice(name);
                out.push_str(&format!("_Pragma(\"GCC warning \\\"{name}: {text} does not stand on the side of the template, so this dimension is not distributed: write * for it\\\"\") "));
            }
        }
        out
    }

    fn declare_pointer(&self, declared: &mut String, kind: &str, prefix: &str, name: &str) {
        let depth = self.scopes.depth();
        // A template that is fixed in a function is that of one call of it.
        let (end, first) = if kind == "kxmp_template" { (ENDED, " = 0") } else { (UNUSED, "") };
        match depth {
            1 => declared.push_str(&format!("static {kind} *{prefix}{name} {UNUSED}; ")),
            _ => declared.push_str(&format!(
                "static {kind} *kxs_{prefix}{name}; {kind} *{prefix}{name} {end}{first}; "
            )),
        }
    }

    /// The variable in which a directive keeps what it made.
    fn slot(&self, prefix: &str, name: &str) -> String {
        match self.scopes.depth() {
            1 => format!("&{prefix}{name}"),
            _ => format!("&kxs_{prefix}{name}"),
        }
    }

    fn made_here(&mut self, index: usize, name: Span, at: usize) -> Result<String> {
        let Some(var) = self.scopes.var(self.slice(name)) else { return Ok(String::new()) };
        match var.distributed() {
            Some(array) if array.made_at.get() == index => Ok(self.make_array(&array, at)? + " "),
            _ => Ok(String::new()),
        }
    }

    fn nodes_call(&mut self, name: &str, named: &Named<(Subs, NodesFrom)>, at: usize) -> Result<String> {
        let (subs, from) = &named.value;
        let mut sizes = Vec::new();
        for sub in subs.fastest_first() {
            sizes.push(match &sub.kind {
                SubscriptKind::Star => "KXMP_STAR".to_owned(),
                SubscriptKind::At(size) => self.value(size)?,
                SubscriptKind::Range(..) => {
                    return Err(crate::source::Problem::new(
                        sub.span.start,
                        "a size of nodes is a number or `*`, not a range",
                    ))
                }
            });
        }
        let (kind, of) = match from {
            NodesFrom::Entire => ("KXMP_ENTIRE", super::references::EXECUTING.to_owned()),
            NodesFrom::Executing => ("KXMP_EXECUTING", super::references::EXECUTING.to_owned()),
            NodesFrom::Subset(reference) => ("KXMP_SUBSET", self.reference(reference)?),
        };
        Ok(format!(
            "kxn_{name} = kxmp_nodes_make({}, {}, \"{name}\", {}, {}, {kind}, {of}); ",
            self.slot("kxn_", name),
            self.at(at),
            sizes.len(),
            longs(&sizes)
        ))
    }

    fn template_call(&mut self, name: &str, named: &Named<Subs>, at: usize) -> Result<String> {
        let (lo, hi) = match self.template_bounds(&named.value)? {
            Some(bounds) => self.bounds_text(&bounds),
            None => ("0".into(), "0".into()),
        };
        Ok(format!(
            "kxt_{name} = kxmp_template_make({}, {}, \"{name}\", {}, {lo}, {hi}); ",
            self.slot("kxt_", name),
            self.at(at),
            named.value.list.len()
        ))
    }

    pub(super) fn bounds_text(&self, bounds: &[(String, String)]) -> (String, String) {
        let list = |values: Vec<String>| format!("(const long[]){{{}}}", values.join(", "));
        (
            list(bounds.iter().map(|(lo, _)| long(lo)).collect()),
            list(bounds.iter().map(|(_, hi)| hi.clone()).collect()),
        )
    }
}

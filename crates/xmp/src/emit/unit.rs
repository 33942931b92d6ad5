//! A whole file.

use super::Translator;
use crate::ast::{Function, Item, Stmt, StmtKind};
use crate::directive::Directive;
use crate::names::{Owner, Scope, Scopes};
use crate::parse;
use crate::source::{Kind, Problem, Source, Span};
use crate::Options;
use std::collections::HashMap;
use std::rc::Rc;

/// The translated text, or what is wrong.
pub(crate) fn translate(source: &Source<'_>, options: &Options) -> Result<String, Vec<Problem>> {
    let (items, types) = parse::items(source);
    let directives =
        source.directives.iter().map(|raw| parse::directive(source, raw, &types).map(Rc::new)).collect();
    let mut translator = Translator {
        source,
        directives,
        problems: Vec::new(),
        scopes: Scopes { list: vec![Scope::default()] },
        initialiser: String::new(),
        descriptors: Vec::new(),
        before_function: String::new(),
        counter: 0,
        hoist: None,
        rewrites: HashMap::new(),
        noted_breaks: HashMap::new(),
        joined: Default::default(),
        pragmas: HashMap::new(),
        loop_variables: Vec::new(),
        turns: Vec::new(),
        has_foreign: false,
        section: None,
        array_types: HashMap::new(),
        omni_local: options.omni_local_subscripts,
        images_from_1: options.images_from_1,
        replaced: Vec::new(),
        addressed: Default::default(),
        pointed: Default::default(),
        reduced_names: Vec::new(),
        function: String::new(),
        seen: Default::default(),
    };
    let parts = translator.file(&items);
    translator.refuse_unseen();
    if !translator.problems.is_empty() {
        translator.problems.sort_by_key(|problem| problem.at);
        return Err(translator.problems);
    }
    let text = translator.splice(Span::new(0, source.text.len()), &parts);
    // What is said about macros of the run time names the user's file, not one that is gone.
    let head = match source.place(source.text.len()) {
        ("", _) => String::new(),
        (file, _) => format!("# 1 \"{}\"\n", file.replace('\\', "\\\\").replace('"', "\\\"")),
    };
    Ok(format!("{head}#include <kumiki_xmp.h>\n{text}\n{}", translator.registration()))
}

impl Translator<'_, '_> {
    /// Directives where none is looked for: in structures, initialisers and the like. The compiler of C would not know what to do with them.
    fn refuse_unseen(&mut self) {
        if !self.problems.is_empty() {
            return;
        }
        for (index, raw) in self.source.directives.iter().enumerate() {
            if !self.seen.contains(&index) {
                self.problem(Problem::new(raw.span.start, "a directive cannot stand here: only in a function, outside of functions, and in structures `align` and `shadow` of their members"));
            }
        }
    }

    fn file(&mut self, items: &[Item]) -> Vec<(Span, String)> {
        for item in items {
            if let Item::Decl(declaration) = item {
                self.declare(declaration, Owner::File);
            }
        }
        let mut directives = Vec::new();
        for item in items {
            if let Item::Directive(index) = item {
                match self.directives.get(*index).and_then(|directive| directive.as_deref().ok()) {
                    Some(Directive::OmniLocalSubscripts) => self.omni_local = true,
                    Some(Directive::ImagesFrom1) => self.images_from_1 = true,
                    _ => {}
                }
                directives.push(*index);
            }
        }
        self.declare_directives(&directives);
        let mut parts = Vec::new();
        for item in items {
            match item {
                Item::Decl(declaration) => match self.declaration(declaration) {
                    Ok(text) => parts.push((declaration.span, text)),
                    Err(problem) => self.problem(problem),
                },
                Item::Directive(index) => {
                    let span = self.source.directives[*index].span;
                    match self.file_directive(*index, span.start) {
                        Ok(text) => parts.push((span, self.in_place(span, text))),
                        Err(problem) => self.problem(problem),
                    }
                }
                Item::Function(function) => self.function(function, &mut parts),
                Item::Unknown(span, problem) => {
                    if self.mentions_xmp(*span) {
                        self.problem(problem.clone());
                    }
                }
            }
        }
        parts
    }

    fn file_directive(&mut self, index: usize, at: usize) -> crate::source::Result<String> {
        if let Some((declared, calls)) = self.declarative(index, at)? {
            let calls = calls.trim_end().to_owned();
            if !calls.is_empty() {
                self.initialise(&calls);
            }
            return Ok(declared.trim_end().to_owned());
        }
        match self.directive(index).as_deref() {
            Some(Directive::TemplateFix { .. }) => {
                let call = self.standalone(index, at)?;
                self.initialise(&call);
                Ok(String::new())
            }
            Some(_) => {
                Err(Problem::new(at, "this directive does something: it can only stand in a function"))
            }
            None => Ok(String::new()),
        }
    }

    fn function(&mut self, function: &Function, parts: &mut Vec<(Span, String)>) {
        let name = self.slice(function.declarator.name).to_owned();
        let start = match name.as_str() {
            "main" => self.start(function),
            _ => String::new(),
        };
        let open = Span::new(function.body.start, function.body.start + 1);
        let body = match &function.parsed {
            Ok(body) => body,
            Err(problem) => {
                if self.mentions_xmp(Span::new(function.spec.span.start, function.body.end)) {
                    self.problem(problem.clone());
                }
                if !start.is_empty() {
                    parts.push((open, format!("{{{start}")));
                }
                return;
            }
        };
        if let ("main", [word]) = (name.as_str(), &function.spec.words[..]) {
            // Where a declaration says so before, it stays.
            let before = self.slice(Span::new(0, function.spec.span.start));
            let is_declared =
                before.match_indices("main").any(|(at, _)| before[at + 4..].trim_start().starts_with('('));
            if self.slice(*word) == "void" && !is_declared {
                // The exit code of the node is 0, not whatever was computed last.
                parts.push((*word, "int".to_owned()));
                let close = Span::new(function.body.end - 1, function.body.end);
                parts.push((close, "return 0; }".to_owned()));
            }
        }
        self.function = name;
        self.before_function.clear();
        self.find_addressed(body);
        self.scopes.list.push(Scope::default());
        self.parameters(function);
        let first = self.before_body(function, parts);
        let StmtKind::Compound(items) = &body.kind else { return self.close() };
        // What stands outermost in the body and the parameters are one scope for directives.
        self.declare_all(items);
        self.settle_pragmas(function.body);
        let inner = self.item_parts(items);
        self.close();
        let at = Span::new(function.spec.span.start, function.spec.span.start);
        if !self.before_function.is_empty() {
            let text = std::mem::take(&mut self.before_function);
            parts.push((at, text));
        }
        parts.push((open, format!("{{{start}{first}")));
        parts.extend(inner);
        parts.sort_by_key(|(span, _)| span.start);
    }

    /// What joins the job, at the start of `main`.
    fn start(&self, function: &Function) -> String {
        let names: Vec<&str> = match function.declarator.derived.first() {
            Some(crate::ast::Derived::Function(params)) => params
                .iter()
                .filter_map(|param| param.declarator.as_ref())
                .map(|one| self.slice(one.name))
                .collect(),
            _ => Vec::new(),
        };
        let argument = |at: usize| match names.get(at) {
            Some(name) if !name.is_empty() => format!("(void *)&{name}"),
            _ => "0".to_owned(),
        };
        format!(" kxmp_start({}, {});", argument(0), argument(1))
    }

    fn parameters(&mut self, function: &Function) {
        let Some(crate::ast::Derived::Function(params)) = function.declarator.derived.first() else { return };
        for param in params {
            if let Some(declarator) = param.declarator.as_ref().filter(|one| one.name.start < one.name.end) {
                if let Err(problem) = self.declare_one(&param.spec, declarator, Owner::Parameter) {
                    self.problem(problem);
                }
            }
        }
        for stmt in &function.before {
            if let StmtKind::Decl(declaration) = &stmt.kind {
                self.declare(declaration, Owner::Parameter);
            }
        }
    }

    /// Directives before the brace: what they do is done behind it.
    fn before_body(&mut self, function: &Function, parts: &mut Vec<(Span, String)>) -> String {
        let mut out = String::new();
        let directives = |stmt: &Stmt| match stmt.kind {
            StmtKind::Directive(index) => Some((index, stmt.span)),
            _ => None,
        };
        let list: Vec<(usize, Span)> = function.before.iter().filter_map(directives).collect();
        for (index, _) in &list {
            self.declare_directive(*index);
        }
        for (index, span) in list {
            match self.standalone(index, span.start) {
                Ok(text) => out.push_str(&format!(" {text}")),
                Err(problem) => self.problem(problem),
            }
            parts.push((span, String::new()));
        }
        out
    }

    /// Whether text that is not understood has something to do with XcalableMP.
    fn mentions_xmp(&self, span: Span) -> bool {
        let tokens = &self.source.tokens;
        let first = tokens.partition_point(|token| token.span.start < span.start);
        let inside: Vec<_> = tokens[first..].iter().take_while(|token| token.span.end <= span.end).collect();
        let is_coarray =
            inside.windows(2).any(|pair| self.slice(pair[0].span) == ":" && self.slice(pair[1].span) == "[");
        is_coarray
            || inside.iter().any(|token| match token.kind {
                Kind::Directive(_) => true,
                Kind::Word => {
                    let word = self.slice(token.span);
                    word == "xmp_desc_of"
                        || word == "xmp_malloc"
                        || self.scopes.var(word).is_some_and(|var| !var.is_plain())
                }
                _ => false,
            })
    }

    /// What hands the initialiser to the run time before `main`.
    fn registration(&self) -> String {
        if self.initialiser.is_empty() {
            return String::new();
        }
        let awaited: String =
            self.descriptors.iter().map(|name| format!(" kxmp_array_await(&{name});")).collect();
        format!(
            "static void kx_initialise(void)\n{{\n{}}}\n__attribute__((constructor)) static void kx_register(void) {{{awaited} kxmp_unit(kx_initialise); }}\n",
            self.initialiser
        )
    }
}

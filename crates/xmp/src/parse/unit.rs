//! A file: what the user wrote is parsed item by item; of the text of system headers only the names of types are read.

use super::Parser;
use crate::ast::{Derived, Function, Item, Stmt, StmtKind};
use crate::source::{Kind, Problem, Result, Source, Span};
use std::collections::HashSet;

/// All items of the user's files, in order.
pub(crate) fn items<'a>(source: &Source<'a>) -> (Vec<Item>, HashSet<&'a str>) {
    let mut parser = Parser::new(source, &source.tokens, source.text.len());
    let mut items = Vec::new();
    while !parser.at_end() {
        let begin = parser.at;
        if parser.take(";") {
            continue;
        }
        if !source.is_users(parser.offset()) {
            parser.system_item();
        } else if let Err(problem) = parser.item(&mut items) {
            parser.at = begin;
            parser.depth = 0;
            let span = parser.skip_item();
            items.push(Item::Unknown(span, problem));
        }
        if parser.at == begin {
            parser.at += 1;
        }
    }
    (items, parser.types)
}

impl Parser<'_, '_> {
    fn item(&mut self, items: &mut Vec<Item>) -> Result<()> {
        if let Some(Kind::Directive(index)) = self.kind(0) {
            self.next();
            items.push(Item::Directive(index));
            return Ok(());
        }
        let start = self.offset();
        if ["asm", "__asm__", "_Static_assert"].contains(&self.text(0)) {
            let span = self.skip_item();
            let _ = span;
            return Ok(());
        }
        let spec = self.specifiers()?;
        let mut declarators = Vec::new();
        while !self.is(";") {
            let declarator = self.init_declarator(&spec)?;
            let is_function = matches!(declarator.derived.first(), Some(Derived::Function(_)));
            if declarators.is_empty() && is_function && !self.is(";") && !self.is(",") {
                items.push(self.function(spec, declarator)?);
                return Ok(());
            }
            declarators.push(declarator);
            if !self.take(",") {
                break;
            }
        }
        let end = self.expect(";")?;
        items.push(Item::Decl(crate::ast::Declaration {
            span: Span::new(start, end.end),
            spec,
            declarators,
        }));
        Ok(())
    }

    fn function(&mut self, spec: crate::ast::Spec, declarator: crate::ast::Declarator) -> Result<Item> {
        let mut before = Vec::new();
        while !self.is("{") {
            let at = self.offset();
            let kind = match self.kind(0) {
                Some(Kind::Directive(index)) => {
                    self.next();
                    StmtKind::Directive(index)
                }
                _ => StmtKind::Decl(self.declaration()?),
            };
            before.push(Stmt { span: Span::new(at, self.behind()), kind });
        }
        let begin = self.at;
        let types = self.types.clone();
        let parsed = self.statement();
        if parsed.is_err() {
            self.types = types;
            self.depth = 0;
        }
        self.at = begin;
        let body = self.skip_brackets()?;
        // A body that does not end where its braces do was not understood.
        let parsed = parsed.and_then(|parsed| match parsed.span == body {
            true => Ok(parsed),
            false => Err(Problem::new(parsed.span.end, "the braces of this function do not match")),
        });
        Ok(Item::Function(Box::new(Function { spec, declarator, before, body, parsed })))
    }

    /// To the end of a declaration or function that is not understood.
    fn skip_item(&mut self) -> Span {
        let start = self.offset();
        while !self.at_end() {
            match self.text(0) {
                ";" => {
                    self.next();
                    break;
                }
                "{" => {
                    let initialiser = self.at > 0
                        && self.tokens.get(self.at - 1).is_some_and(|t| self.source.slice(t.span) == "=");
                    let tag = self.skip_brackets().is_err() || initialiser;
                    if !tag
                        && (self.at_end()
                            || !matches!(self.text(0), ";" | "," | "*" | "=") && !self.is_word(0))
                    {
                        break;
                    }
                    // `} name;` of a structure; a function's brace is followed by something that begins an item.
                    if self.is_word(0) && !matches!(self.text(1), ";" | "," | "[" | "=" | ":") {
                        break;
                    }
                }
                "(" | "[" if self.skip_brackets().is_ok() => {}
                _ => drop(self.next()),
            }
            if matches!(self.kind(0), Some(Kind::Directive(_))) {
                break;
            }
        }
        Span::new(start, self.behind())
    }

    /// One item of a system header: only the names of types are kept.
    fn system_item(&mut self) {
        let is_typedef = self.is("typedef") || (self.is("__extension__") && self.text(1) == "typedef");
        let (mut depth, mut parameters) = (0_usize, false);
        while let Some(token) = self.next() {
            match self.source.slice(token.span) {
                "(" if depth == 0 => {
                    // `typedef void (*name)(int);`
                    if is_typedef && self.is("*") && self.is_word(1) && matches!(self.text(2), ")" | "[") {
                        self.types.insert(self.text(1));
                    }
                    parameters = true;
                    depth = 1;
                }
                "{" | "(" | "[" => depth += 1,
                "}" => {
                    depth = depth.saturating_sub(1);
                    let goes_on = matches!(self.text(0), ";" | "," | "*" | "=") || self.is_word(0);
                    if depth == 0 && !is_typedef && (parameters || !goes_on) {
                        return;
                    }
                }
                ")" | "]" => depth = depth.saturating_sub(1),
                ";" if depth == 0 => return,
                "__attribute__" => {}
                word if depth == 0 && is_typedef && token.kind == Kind::Word => {
                    if matches!(self.text(0), ";" | "," | "[" | "(" | "__attribute__") {
                        self.types.insert(word);
                    }
                }
                _ => {}
            }
        }
    }
}

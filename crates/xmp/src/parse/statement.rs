//! Statements. A directive is white space to C; here it is a statement, and some have another statement behind them.

use super::Parser;
use crate::ast::{For, ForFirst, Jump, Stmt, StmtKind};
use crate::source::{Kind, Problem, Result, Span};

/// Directives that say something about the statement behind them.
const WITH_STATEMENT: [&str; 5] = ["loop", "task", "tasks", "gmove", "array"];

impl Parser<'_, '_> {
    pub(crate) fn statement(&mut self) -> Result<Stmt> {
        self.deeper(|parser| {
            let start = parser.offset();
            let kind = parser.statement_kind()?;
            Ok(Stmt { span: Span::new(start, parser.behind()), kind })
        })
    }

    fn statement_kind(&mut self) -> Result<StmtKind> {
        if let Some(Kind::Directive(index)) = self.kind(0) {
            return self.directive(index);
        }
        if self.is_word(0)
            && self.text(1) == ":"
            && !self.is("default")
            && !self.is("case")
            && self.text(2) != "["
        {
            self.next();
            self.next();
            return self.labelled();
        }
        match self.text(0) {
            "{" => self.compound(),
            ";" => {
                self.next();
                Ok(StmtKind::Expr(None))
            }
            "if" => self.conditional_statement(),
            "for" => self.for_statement(),
            "while" => {
                self.next();
                let cond = self.in_parentheses()?;
                Ok(StmtKind::While(cond, Box::new(self.body()?)))
            }
            "do" => {
                self.next();
                let body = self.statement()?;
                self.expect("while")?;
                let cond = self.in_parentheses()?;
                self.expect(";")?;
                Ok(StmtKind::Do(Box::new(body), cond))
            }
            "switch" => {
                self.next();
                let value = self.in_parentheses()?;
                Ok(StmtKind::Switch(value, Box::new(self.statement()?)))
            }
            "case" => {
                self.next();
                self.conditional()?;
                if self.take("...") {
                    self.conditional()?;
                }
                self.expect(":")?;
                self.labelled()
            }
            "default" => {
                self.next();
                self.expect(":")?;
                self.labelled()
            }
            "return" => {
                self.next();
                let value = match self.is(";") {
                    true => None,
                    false => Some(self.expression()?),
                };
                self.expect(";")?;
                Ok(StmtKind::Return(value))
            }
            "break" | "continue" | "goto" => self.jump(),
            "asm" | "__asm__" | "__asm" | "_Static_assert" | "static_assert" => self.assembler(),
            _ if self.starts_declaration() => Ok(StmtKind::Decl(self.declaration()?)),
            _ => {
                let expression = self.expression()?;
                self.expect(";")?;
                Ok(StmtKind::Expr(Some(expression)))
            }
        }
    }

    /// What hangs on `if`, `for` or `while`. To C a directive is nothing, and the statement behind it would be meant.
    fn body(&mut self) -> Result<Stmt> {
        let body = self.statement()?;
        let follows = !self.at_end() && !self.is("}") && !self.is("else");
        match body.kind {
            StmtKind::Directive(index) if follows && !self.needs_statement(index) => Err(Problem::new(
                body.span.start,
                "does this directive hang on the line before, or the statement behind it? Put braces around",
            )),
            _ => Ok(body),
        }
    }

    fn needs_statement(&self, index: usize) -> bool {
        let raw = &self.source.directives[index];
        let word = raw.tokens.first().map_or("", |token| self.source.slice(token.span));
        !raw.ours && WITH_STATEMENT.contains(&word)
    }

    fn directive(&mut self, index: usize) -> Result<StmtKind> {
        self.next();
        if !self.needs_statement(index) {
            return Ok(StmtKind::Directive(index));
        }
        if self.is("}") || self.at_end() {
            // Told when the directive is looked at, in its own words.
            return Ok(StmtKind::Directive(index));
        }
        Ok(StmtKind::Directed(index, Box::new(self.statement()?)))
    }

    /// The statement behind a label; before a closing brace there may be none.
    fn labelled(&mut self) -> Result<StmtKind> {
        if self.is("}") {
            let at = self.offset();
            let nothing = Stmt { span: Span::new(at, at), kind: StmtKind::Opaque };
            return Ok(StmtKind::Label(Box::new(nothing)));
        }
        Ok(StmtKind::Label(Box::new(self.statement()?)))
    }

    fn compound(&mut self) -> Result<StmtKind> {
        self.expect("{")?;
        let mut items = Vec::new();
        while !self.is("}") {
            if self.at_end() {
                return Err(self.unexpected("`}`"));
            }
            if self.is("__label__") {
                while !self.take(";") && self.next().is_some() {}
                continue;
            }
            items.push(self.statement()?);
        }
        self.expect("}")?;
        Ok(StmtKind::Compound(items))
    }

    fn in_parentheses(&mut self) -> Result<crate::ast::Expr> {
        self.expect("(")?;
        let inner = self.expression()?;
        self.expect(")")?;
        Ok(inner)
    }

    fn conditional_statement(&mut self) -> Result<StmtKind> {
        self.next();
        let cond = self.in_parentheses()?;
        let then = self.body()?;
        let otherwise = match self.take("else") {
            true => Some(Box::new(self.body()?)),
            false => None,
        };
        Ok(StmtKind::If(cond, Box::new(then), otherwise))
    }

    fn for_statement(&mut self) -> Result<StmtKind> {
        self.next();
        let open = self.expect("(")?;
        let first = if self.take(";") {
            ForFirst::None
        } else if self.starts_declaration() {
            ForFirst::Decl(self.declaration()?)
        } else {
            let first = self.expression()?;
            self.expect(";")?;
            ForFirst::Expr(first)
        };
        let cond = match self.is(";") {
            true => None,
            false => Some(self.expression()?),
        };
        self.expect(";")?;
        let step = match self.is(")") {
            true => None,
            false => Some(self.expression()?),
        };
        let close = self.expect(")")?;
        let body = self.body()?;
        Ok(StmtKind::For(Box::new(For { head: Span::new(open.end, close.start), first, cond, step, body })))
    }

    fn jump(&mut self) -> Result<StmtKind> {
        let jump = match self.text(0) {
            "break" => Jump::Break,
            "continue" => Jump::Continue,
            _ => Jump::Goto,
        };
        self.next();
        if jump == Jump::Goto {
            self.expression()?;
        }
        self.expect(";")?;
        Ok(StmtKind::Jump(jump))
    }

    fn assembler(&mut self) -> Result<StmtKind> {
        while !self.is(";") {
            match self.text(0) {
                "(" => drop(self.skip_brackets()?),
                _ if self.next().is_none() => return Err(self.unexpected("`;`")),
                _ => {}
            }
        }
        self.expect(";")?;
        Ok(StmtKind::Opaque)
    }
}

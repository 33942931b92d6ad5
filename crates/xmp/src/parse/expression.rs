//! Expressions.

use super::Parser;
use crate::ast::{Expr, ExprKind, Sub};
use crate::source::{Kind, Result, Span};

const ASSIGNMENTS: [&str; 11] = ["=", "+=", "-=", "*=", "/=", "%=", "&=", "^=", "|=", "<<=", ">>="];

/// How strongly a sign binds.
fn binding(sign: &str) -> Option<u8> {
    Some(match sign {
        "||" => 1,
        "&&" => 2,
        "|" => 3,
        "^" => 4,
        "&" => 5,
        "==" | "!=" => 6,
        "<" | ">" | "<=" | ">=" => 7,
        "<<" | ">>" => 8,
        "+" | "-" => 9,
        "*" | "/" | "%" => 10,
        _ => return None,
    })
}

fn joined(left: Expr, right: Expr, kind: impl FnOnce(Box<Expr>, Box<Expr>) -> ExprKind) -> Expr {
    Expr { span: left.span.to(right.span), kind: kind(Box::new(left), Box::new(right)) }
}

impl Parser<'_, '_> {
    /// With commas.
    pub(crate) fn expression(&mut self) -> Result<Expr> {
        let mut left = self.assignment()?;
        while self.take(",") {
            let right = self.assignment()?;
            left = joined(left, right, ExprKind::Comma);
        }
        Ok(left)
    }

    pub(crate) fn assignment(&mut self) -> Result<Expr> {
        self.deeper(|parser| {
            let left = parser.conditional()?;
            let sign = parser.text(0);
            if !ASSIGNMENTS.contains(&sign) || parser.kind(0) != Some(Kind::Sign) {
                return Ok(left);
            }
            let at = parser.next().map(|token| token.span).unwrap_or_default();
            let right = parser.assignment()?;
            Ok(joined(left, right, |left, right| ExprKind::Assign(at, left, right)))
        })
    }

    pub(crate) fn conditional(&mut self) -> Result<Expr> {
        let cond = self.binary(1)?;
        if !self.take("?") {
            return Ok(cond);
        }
        let then = match self.is(":") {
            true => None,
            false => Some(Box::new(self.expression()?)),
        };
        self.expect(":")?;
        let otherwise = self.deeper(Self::conditional)?;
        let span = cond.span.to(otherwise.span);
        Ok(Expr { span, kind: ExprKind::Cond(Box::new(cond), then, Box::new(otherwise)) })
    }

    fn binary(&mut self, least: u8) -> Result<Expr> {
        let mut left = self.unary()?;
        while let Some(strength) = binding(self.text(0)).filter(|strength| *strength >= least) {
            if self.kind(0) != Some(Kind::Sign) {
                break;
            }
            let sign = self.next().map(|token| token.span).unwrap_or_default();
            let right = self.deeper(|parser| parser.binary(strength + 1))?;
            left = joined(left, right, |left, right| ExprKind::Binary(sign, left, right));
        }
        Ok(left)
    }

    pub(super) fn unary(&mut self) -> Result<Expr> {
        self.deeper(|parser| {
            let start = parser.offset();
            match parser.text(0) {
                "+" | "-" | "!" | "~" | "*" | "&" | "++" | "--" | "&&" | "__extension__" | "__real__"
                | "__imag__" | "__real" | "__imag" => parser.prefixed(start),
                "sizeof" | "_Alignof" | "__alignof__" | "__alignof" | "alignof" => parser.sizeof(start),
                "(" if parser.starts_type(1) || parser.looks_like_cast() => parser.cast(start),
                _ => parser.postfix(),
            }
        })
    }

    /// `(name *)` and `(name) x`, of a type that was not seen.
    fn looks_like_cast(&self) -> bool {
        if !self.is_word(1) || is_keyword(self.text(1)) {
            return false;
        }
        let stars = (2..6).take_while(|ahead| self.text(*ahead) == "*").count();
        if self.text(2 + stars) != ")" {
            return false;
        }
        stars > 0 || matches!(self.kind(3), Some(Kind::Word | Kind::Number | Kind::Text))
    }

    fn prefixed(&mut self, start: usize) -> Result<Expr> {
        let sign = self.next().map(|token| token.span).unwrap_or_default();
        let inner = self.unary()?;
        let span = Span::new(start, inner.span.end);
        Ok(Expr { span, kind: ExprKind::Unary(sign, Box::new(inner)) })
    }

    fn sizeof(&mut self, start: usize) -> Result<Expr> {
        if self.text(1) == "(" && self.starts_type(2) {
            self.next();
            self.skip_brackets()?;
            // `sizeof (type){..}` is as rare as it is odd.
            return Ok(Expr { span: Span::new(start, self.behind()), kind: ExprKind::SizeofType });
        }
        self.prefixed(start)
    }

    fn cast(&mut self, start: usize) -> Result<Expr> {
        self.skip_brackets()?;
        if self.is("{") {
            let braces = self.initialiser()?;
            let literal = Expr { span: Span::new(start, braces.span.end), kind: braces.kind };
            return self.postfixed(literal);
        }
        let inner = self.unary()?;
        Ok(Expr { span: Span::new(start, inner.span.end), kind: ExprKind::Cast(Box::new(inner)) })
    }

    pub(super) fn postfix(&mut self) -> Result<Expr> {
        let first = self.primary()?;
        self.postfixed(first)
    }

    fn postfixed(&mut self, mut left: Expr) -> Result<Expr> {
        loop {
            let start = left.span.start;
            let kind = match self.text(0) {
                _ if self.kind(0) != Some(Kind::Sign) => return Ok(left),
                "[" => {
                    let sub = self.subscript()?;
                    ExprKind::Index(Box::new(left), Box::new(sub))
                }
                "(" => {
                    let arguments = self.arguments()?;
                    ExprKind::Call(Box::new(left), arguments)
                }
                "." | "->" => {
                    self.next();
                    let name = self.word("the name of a member")?;
                    ExprKind::Member(Box::new(left), name)
                }
                "++" | "--" => {
                    let sign = self.next().map(|token| token.span).unwrap_or_default();
                    ExprKind::Postfix(Box::new(left), sign)
                }
                ":" if self.text(1) == "[" => {
                    self.next();
                    let mut images = Vec::new();
                    while self.take("[") {
                        images.push(self.assignment()?);
                        self.expect("]")?;
                    }
                    ExprKind::Image(Box::new(left), images)
                }
                _ => return Ok(left),
            };
            left = Expr { span: Span::new(start, self.behind()), kind };
        }
    }

    fn subscript(&mut self) -> Result<Sub> {
        let open = self.expect("[")?;
        let first = match self.is(":") {
            true => None,
            false => Some(self.expression()?),
        };
        if !self.is(":") {
            let close = self.is("]");
            self.expect("]")?;
            return match first {
                Some(at) if close => Ok(Sub::At(at)),
                _ => Err(self.unexpected("a subscript")),
            };
        }
        self.expect(":")?;
        let part = |parser: &mut Self| match parser.is(":") || parser.is("]") {
            true => Ok(None),
            false => parser.conditional().map(Some),
        };
        let length = part(self)?;
        let step = match self.take(":") {
            true => part(self)?,
            false => None,
        };
        let close = self.expect("]")?;
        Ok(Sub::Section(open.to(close), first, length, step))
    }

    fn arguments(&mut self) -> Result<Vec<Expr>> {
        self.expect("(")?;
        let mut arguments = Vec::new();
        while !self.is(")") {
            let argument = match self.starts_type(0) {
                true => self.type_argument()?,
                false => self.assignment()?,
            };
            arguments.push(argument);
            if !self.take(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(arguments)
    }

    /// A type where an argument stands, as in `va_arg`.
    fn type_argument(&mut self) -> Result<Expr> {
        let start = self.offset();
        while !self.is(",") && !self.is(")") && !self.at_end() {
            match self.text(0) {
                "(" | "[" | "{" => drop(self.skip_brackets()?),
                _ => drop(self.next()),
            }
        }
        Ok(Expr { span: Span::new(start, self.behind()), kind: ExprKind::Opaque })
    }

    /// `_Generic(x, type: y, default: z)`: types stay as they are, and what stands beside them is looked into.
    fn generic(&mut self) -> Result<ExprKind> {
        self.next();
        self.expect("(")?;
        let mut values = vec![self.assignment()?];
        while self.take(",") {
            while !self.is(":") && !self.is(")") && !self.at_end() {
                match self.text(0) {
                    "(" | "[" | "{" => drop(self.skip_brackets()?),
                    _ => drop(self.next()),
                }
            }
            self.expect(":")?;
            values.push(self.assignment()?);
        }
        self.expect(")")?;
        Ok(ExprKind::Braces(values))
    }

    fn primary(&mut self) -> Result<Expr> {
        let start = self.offset();
        let Some(token) = self.peek() else { return Err(self.unexpected("an expression")) };
        let kind = match token.kind {
            Kind::Number => {
                self.next();
                ExprKind::Number
            }
            Kind::Text => {
                while self.kind(0) == Some(Kind::Text)
                    || (self.is_word(0) && self.kind(1) == Some(Kind::Text) && self.is_format_macro())
                {
                    self.next();
                }
                ExprKind::Opaque
            }
            Kind::Word if self.is("_Generic") => self.generic()?,
            Kind::Word if !is_keyword(self.text(0)) => {
                self.next();
                ExprKind::Name
            }
            Kind::Sign if self.is("(") => return self.parenthesised(start),
            Kind::Sign if self.is("{") => return self.initialiser(),
            _ => return Err(self.unexpected("an expression")),
        };
        Ok(Expr { span: Span::new(start, self.behind()), kind })
    }

    /// `PRId64` and the like that no header defined.
    fn is_format_macro(&self) -> bool {
        self.text(0).starts_with("PRI")
    }

    fn parenthesised(&mut self, start: usize) -> Result<Expr> {
        self.expect("(")?;
        let kind = match self.is("{") {
            true => ExprKind::Statement(Box::new(self.statement()?)),
            false => ExprKind::Paren(Box::new(self.expression()?)),
        };
        self.expect(")")?;
        Ok(Expr { span: Span::new(start, self.behind()), kind })
    }

    /// What stands behind `=` in a declaration: an expression, or braces.
    pub(super) fn initialiser(&mut self) -> Result<Expr> {
        if !self.is("{") {
            return self.assignment();
        }
        self.deeper(|parser| {
            let open = parser.expect("{")?;
            let mut values = Vec::new();
            while !parser.is("}") {
                parser.designators(&mut values)?;
                values.push(parser.initialiser()?);
                if !parser.take(",") {
                    break;
                }
            }
            let close = parser.expect("}")?;
            Ok(Expr { span: open.to(close), kind: ExprKind::Braces(values) })
        })
    }

    /// `.name =`, `[3] =`, `name:`
    fn designators(&mut self, values: &mut Vec<Expr>) -> Result<()> {
        let any = self.is(".") || self.is("[");
        loop {
            if self.take(".") {
                self.word("the name of a member")?;
            } else if self.take("[") {
                values.push(self.conditional()?);
                if self.take("...") {
                    values.push(self.conditional()?);
                }
                self.expect("]")?;
            } else {
                break;
            }
        }
        if any {
            self.expect("=")?;
        } else if self.is_word(0) && self.text(1) == ":" && self.text(2) != "[" {
            self.next();
            self.next();
        }
        Ok(())
    }
}

fn is_keyword(word: &str) -> bool {
    const KEYWORDS: [&str; 20] = [
        "if", "else", "for", "while", "do", "switch", "case", "default", "return", "goto", "break",
        "continue", "struct", "union", "enum", "typedef", "static", "extern", "int", "double",
    ];
    KEYWORDS.contains(&word)
}

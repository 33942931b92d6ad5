//! Expressions: precedence climbing over the table of operators.

use super::lexer::Kind;
use super::parser::{Parsed, Parser};
use super::tree::*;

/// Operators that stand between two values, by precedence from the loosest.
pub(super) const LEVELS: &[&[&str]] = &[
    &["or"],
    &["and"],
    &["==", "!=", "<=", ">=", "<", ">"],
    &["|"],
    &["^"],
    &["&"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

/// The level of comparisons, which do not chain.
const COMPARISONS: usize = 2;

impl Parser<'_> {
    /// An expression.
    pub(super) fn expression(&mut self) -> Parsed<Expression> {
        self.deeper(|parser| parser.level(0))
    }

    fn level(&mut self, level: usize) -> Parsed<Expression> {
        if level == LEVELS.len() {
            return self.unary();
        }
        let mut left = self.level(level + 1)?;
        let mut count = 0;
        while let Some(operator) = self.operator(LEVELS[level]) {
            if level == COMPARISONS && count > 0 {
                return self.wrong("`and` or `or`: comparisons do not chain");
            }
            count += 1;
            self.take();
            let right = self.level(level + 1)?;
            let at = left.at.to(right.at);
            left = Expression { at, kind: ExpressionKind::Binary(operator, Box::new(left), Box::new(right)) };
        }
        Ok(left)
    }

    fn operator(&self, candidates: &[&'static str]) -> Option<&'static str> {
        let found = candidates.iter().find(|candidate| self.is_mark(candidate) || self.is_word(candidate));
        found.copied()
    }

    fn unary(&mut self) -> Parsed<Expression> {
        let Some(operator) = self.operator(&["-", "not"]) else { return self.postfix() };
        let at = self.take().at;
        let inner = self.deeper(Self::unary)?;
        Ok(Expression { at: at.to(inner.at), kind: ExpressionKind::Unary(operator, Box::new(inner)) })
    }

    /// A primary, perhaps with a unit of time.
    fn postfix(&mut self) -> Parsed<Expression> {
        let inner = self.primary()?;
        let next = self.peek();
        let unit = (next.kind == Kind::Word).then(|| Unit::parse(self.text(next))).flatten();
        match unit {
            Some(unit) => {
                self.take();
                Ok(Expression {
                    at: inner.at.to(next.at),
                    kind: ExpressionKind::Timed(Box::new(inner), unit),
                })
            }
            None => self.whole_number(inner),
        }
    }

    /// Only times have fractions.
    fn whole_number(&self, number: Expression) -> Parsed<Expression> {
        match &number.kind {
            ExpressionKind::Number(text) if text.contains('.') => {
                let mistake = self.source.mistake(number.at, format!("`{text}` is not a whole number"));
                Err(mistake.with_hint("only times have fractions, as in `1.5 us`"))
            }
            _ => Ok(number),
        }
    }

    fn primary(&mut self) -> Parsed<Expression> {
        let token = self.peek();
        match token.kind {
            Kind::Number => {
                self.take();
                let text = self.text(token).to_string();
                if !text.contains('.') && number_value(&text).is_none() {
                    return Err(self.source.mistake(token.at, "this number is too large"));
                }
                Ok(Expression { at: token.at, kind: ExpressionKind::Number(text) })
            }
            Kind::Word => self.name_or_call(),
            Kind::Mark("(") => self.parentheses(),
            _ => self.wrong("a value"),
        }
    }

    fn parentheses(&mut self) -> Parsed<Expression> {
        let open = self.take().at;
        let inner = self.expression()?;
        let close = self.expect_mark(")", "that closes the parenthesis")?.at;
        Ok(Expression { at: open.to(close), kind: ExpressionKind::Parentheses(Box::new(inner)) })
    }

    fn name_or_call(&mut self) -> Parsed<Expression> {
        let token = self.peek();
        let text = self.text(token).to_string();
        let is_value = matches!(&*text, "rank" | "ranks");
        if super::verbs::find(&text).is_some() || (super::parser::KEYWORDS.contains(&&*text) && !is_value) {
            return self.wrong("a value");
        }
        self.take();
        if !self.is_mark("(") {
            return Ok(Expression { at: token.at, kind: ExpressionKind::Name(text) });
        }
        let (arguments, end) = self.arguments()?;
        let name = Name { at: token.at, text };
        Ok(Expression { at: token.at.to(end), kind: ExpressionKind::Call(name, arguments) })
    }

    /// `(a, b)`, and where it ends.
    pub(super) fn arguments(&mut self) -> Parsed<(Vec<Expression>, crate::source::Span)> {
        self.expect_mark("(", "and the arguments")?;
        let mut arguments = Vec::new();
        loop {
            if self.is_mark(")") {
                return Ok((arguments, self.take().at));
            }
            if !arguments.is_empty() {
                self.expect_mark(",", "or `)`")?;
            }
            arguments.push(self.expression()?);
        }
    }
}

/// The value of a number without a fraction.
pub(super) fn number_value(text: &str) -> Option<i64> {
    let (digits, scale) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(digits) => (digits, 1i64 << (10 * ("KMG".find(&text[digits.len()..])? + 1))),
        None => (text, 1),
    };
    digits.replace('_', "").parse::<i64>().ok()?.checked_mul(scale)
}

/// A number with a unit, in picoseconds.
pub(super) fn time_value(text: &str, unit: Unit) -> Option<i64> {
    let scale = unit.picoseconds();
    let Some((whole, fraction)) = text.split_once('.') else {
        return number_value(text)?.checked_mul(scale);
    };
    let (fraction, suffix) = (fraction.trim_end_matches(['K', 'M', 'G']), text.ends_with(['K', 'M', 'G']));
    if suffix {
        return None;
    }
    let mut value = whole.replace('_', "").parse::<i64>().ok()?.checked_mul(scale)?;
    let mut part = scale;
    for digit in fraction.bytes().filter(u8::is_ascii_digit) {
        part /= 10;
        value = value.checked_add(part * (digit - b'0') as i64)?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_suffixes_and_times_fractions() {
        assert_eq!(number_value("64K"), Some(65536));
        assert_eq!(number_value("1_000"), Some(1000));
        assert_eq!(number_value("99999999999G"), None);
        assert_eq!(time_value("1.5", Unit::Microseconds), Some(1_500_000));
        assert_eq!(time_value("10", Unit::Nanoseconds), Some(10_000));
        assert_eq!(time_value("0.0001", Unit::Nanoseconds), Some(0));
    }
}

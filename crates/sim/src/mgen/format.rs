//! Writes a program in its one form: four spaces a level, one statement a line, one space around operators.
//!
//! Comments, single blank lines and parentheses are kept. Formatting what is formatted changes nothing.

use super::tree::*;
use crate::source::{Mistake, Source};
use std::fmt::Write;

/// The text of a program in its one form.
///
/// ```
/// use kumiki_sim::{mgen, source::Source};
/// let source = Source::new("ring.mgen", "if rank==0{send 8 to 1;}");
/// assert_eq!(mgen::format(&source).unwrap(), "if rank == 0 {\n    send 8 to 1\n}\n");
/// ```
pub fn format(source: &Source) -> Result<String, Mistake> {
    let program = super::parse(source)?;
    let mut text = String::new();
    block(&mut text, &program, 0);
    Ok(text)
}

fn block(text: &mut String, block: &Block, level: usize) {
    for line in &block.lines {
        if line.blank_before {
            text.push('\n');
        }
        indent(text, level);
        if let Some(made) = &line.statement {
            statement(text, made, level);
        }
        if let Some(comment) = &line.comment {
            if line.statement.is_some() {
                text.push_str("  ");
            }
            text.push_str(comment);
        }
        text.push('\n');
    }
}

fn indent(text: &mut String, level: usize) {
    (0..level).for_each(|_| text.push_str("    "));
}

fn braces(text: &mut String, body: &Block, level: usize) {
    if body.lines.is_empty() {
        text.push_str(" {}");
        return;
    }
    text.push_str(" {\n");
    block(text, body, level + 1);
    indent(text, level);
    text.push('}');
}

fn statement(text: &mut String, statement: &Statement, level: usize) {
    // Writing to a string does not fail.
    let _ = write_statement(text, &statement.kind, level);
}

fn write_statement(text: &mut String, kind: &StatementKind, level: usize) -> std::fmt::Result {
    match kind {
        StatementKind::Param(name, value) => write!(text, "param {} = {}", name.text, show(value))?,
        StatementKind::Let(name, value) => write!(text, "let {} = {}", name.text, right(value))?,
        StatementKind::Assign(name, value) => write!(text, "{} = {}", name.text, right(value))?,
        StatementKind::Procedure(name, parameters, body) => {
            write!(text, "proc {}({})", name.text, names(parameters))?;
            braces(text, body, level);
        }
        StatementKind::Function(name, parameters, value) => {
            write!(text, "func {}({}) = {}", name.text, names(parameters), show(value))?;
        }
        StatementKind::Call(name, arguments) => write!(text, "{}({})", name.text, list(arguments))?,
        StatementKind::For { name, from, to, step, body } => {
            write!(text, "for {} in {}..{}", name.text, show(from), show(to))?;
            if let Some(step) = step {
                write!(text, " step {}", show(step))?;
            }
            braces(text, body, level);
        }
        StatementKind::While(condition, body) => {
            write!(text, "while {}", show(condition))?;
            braces(text, body, level);
        }
        StatementKind::Repeat(count, body) => {
            write!(text, "repeat {}", show(count))?;
            braces(text, body, level);
        }
        StatementKind::If(arms, otherwise) => {
            for (i, (condition, body)) in arms.iter().enumerate() {
                let word = if i == 0 { "if" } else { " else if" };
                write!(text, "{word} {}", show(condition))?;
                braces(text, body, level);
            }
            if let Some(body) = otherwise {
                text.push_str(" else");
                braces(text, body, level);
            }
        }
        StatementKind::Break => text.push_str("break"),
        StatementKind::Next => text.push_str("next"),
        StatementKind::Return => text.push_str("return"),
        StatementKind::Assert(condition, None) => write!(text, "assert {}", show(condition))?,
        StatementKind::Assert(condition, Some(said)) => {
            write!(text, "assert {}, \"{said}\"", show(condition))?
        }
        StatementKind::Operation(made) => text.push_str(&operation(made)),
    }
    Ok(())
}

fn right(value: &Right) -> String {
    match value {
        Right::Expression(value) => show(value),
        Right::Operation(made) => operation(made),
    }
}

fn operation(operation: &Operation) -> String {
    let mut text = operation.verb.name.to_string();
    match &operation.amount {
        Some(amount) => text.push_str(&format!(" {}", show(amount))),
        None if operation.verb.amount == super::verbs::Amount::Handle => text.push_str(" all"),
        None => {}
    }
    for clause in &operation.clauses {
        let value = match &clause.value {
            ClauseValue::Expression(value) => show(value),
            ClauseValue::Word(word) => word.clone(),
        };
        text.push_str(&format!(" {} {value}", clause.key));
    }
    text
}

fn names(names: &[Name]) -> String {
    names.iter().map(|name| &*name.text).collect::<Vec<_>>().join(", ")
}

fn list(values: &[Expression]) -> String {
    values.iter().map(show).collect::<Vec<_>>().join(", ")
}

/// An expression as it is written.
pub(super) fn show(expression: &Expression) -> String {
    match &expression.kind {
        ExpressionKind::Number(text) | ExpressionKind::Name(text) => text.clone(),
        ExpressionKind::Timed(value, unit) => format!("{} {}", show(value), unit.name()),
        ExpressionKind::Call(name, arguments) => format!("{}({})", name.text, list(arguments)),
        ExpressionKind::Unary("not", value) => format!("not {}", show(value)),
        ExpressionKind::Unary(operator, value) => format!("{operator}{}", show(value)),
        ExpressionKind::Binary(operator, left, right) => format!("{} {operator} {}", show(left), show(right)),
        ExpressionKind::Parentheses(value) => format!("({})", show(value)),
    }
}

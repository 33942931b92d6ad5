//! MGEN's text as tokens. Comments are tokens too, so that the formatter can keep them.

use crate::source::{Mistake, Source, Span};

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Digits, perhaps with a fraction or one of the suffixes K, M, G.
    Number,
    /// A name, a keyword or a unit.
    Word,
    /// Text in double quotes.
    Text,
    /// `#` to the end of the line.
    Comment,
    /// The end of a line, or `;`.
    End,
    /// An operator or a bracket.
    Mark(&'static str),
    /// The end of the file.
    File,
}

/// A token and its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) at: Span,
}

/// Longest first: `<=` is not `<` and `=`.
const MARKS: &[&str] = &[
    "..", "==", "!=", "<=", ">=", "<<", ">>", "(", ")", "{", "}", ",", "+", "-", "*", "/", "%", "^", "&",
    "|", "<", ">", "=",
];

/// The tokens of a source; the last is [`Kind::File`].
pub(super) fn tokens(source: &Source) -> Result<Vec<Token>, Mistake> {
    let text = &*source.text;
    let mut found = Vec::new();
    let mut at = 0;
    // Line ends do not count inside parentheses; a brace shows that one was forgotten.
    let mut open = 0usize;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (kind, length) = match first {
            ' ' | '\t' | '\r' => {
                at += 1;
                continue;
            }
            '\n' if open > 0 => {
                at += 1;
                continue;
            }
            '\n' | ';' => (Kind::End, 1),
            '#' => (Kind::Comment, rest.find('\n').unwrap_or(rest.len())),
            '"' => (Kind::Text, quoted(source, at)?),
            '0'..='9' => (Kind::Number, number(source, at)?),
            'a'..='z' | 'A'..='Z' | '_' => (Kind::Word, word(rest)),
            _ => match MARKS.iter().find(|mark| rest.starts_with(**mark)) {
                Some(mark) => (Kind::Mark(mark), mark.len()),
                None => return Err(strange(source, at, first)),
            },
        };
        match kind {
            Kind::Mark("(") => open += 1,
            Kind::Mark(")") => open = open.saturating_sub(1),
            Kind::Mark("{" | "}") => open = 0,
            _ => {}
        }
        found.push(Token { kind, at: Span::new(at, at + length) });
        at += length;
    }
    found.push(Token { kind: Kind::File, at: Span::new(at, at) });
    Ok(found)
}

fn strange(source: &Source, at: usize, letter: char) -> Mistake {
    let mistake =
        source.mistake(Span::new(at, at + letter.len_utf8()), format!("`{letter}` means nothing here"));
    match letter {
        '!' => mistake.with_hint("write `not`"),
        '[' | ']' => mistake.with_hint("there are no arrays"),
        '~' => mistake.with_hint("write `-1 - x`"),
        '\'' => mistake.with_hint("texts stand in double quotes"),
        _ => mistake,
    }
}

fn word(rest: &str) -> usize {
    rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(rest.len())
}

fn quoted(source: &Source, at: usize) -> Result<usize, Mistake> {
    let rest = &source.text[at + 1..];
    let line = rest.find('\n').unwrap_or(rest.len());
    match rest[..line].find('"') {
        Some(end) => Ok(end + 2),
        None => {
            Err(source.mistake(Span::new(at, at + 1 + line), "this text has no closing `\"` on its line"))
        }
    }
}

/// Digits and `_`, a fraction, or a size suffix. `10us` is a number and a unit, so letters that are no suffix end it.
fn number(source: &Source, at: usize) -> Result<usize, Mistake> {
    let rest = &source.text.as_bytes()[at..];
    let digits = |from: usize| rest[from..].iter().take_while(|c| c.is_ascii_digit() || **c == b'_').count();
    let mut length = digits(0);
    // `0..4` is a range and no fraction.
    if rest.get(length) == Some(&b'.') && rest.get(length + 1).is_some_and(u8::is_ascii_digit) {
        length += 1 + digits(length + 1);
    }
    let letters = rest[length..].iter().take_while(|c| c.is_ascii_alphanumeric()).count();
    let suffix = &source.text[at + length..at + length + letters];
    match suffix {
        "K" | "M" | "G" => Ok(length + 1),
        "" => Ok(length),
        unit if super::tree::Unit::parse(unit).is_some() => Ok(length),
        _ => {
            let at = Span::new(at, at + length + letters);
            let wrong = format!("`{}` is not a number", source.slice(at));
            Err(source.mistake(at, wrong).with_hint("sizes end in K, M or G, times in ps, ns, us, ms or s"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(Kind, String)> {
        let source = Source::new("t", text);
        tokens(&source).unwrap().iter().map(|t| (t.kind, source.slice(t.at).to_string())).collect()
    }

    #[test]
    fn numbers_ranges_and_units_are_told_apart() {
        let found: Vec<String> = kinds("0..4 1.5us 64K a<=b").into_iter().map(|(_, text)| text).collect();
        assert_eq!(found, ["0", "..", "4", "1.5", "us", "64K", "a", "<=", "b", ""]);
    }

    #[test]
    fn comments_and_line_ends_are_tokens() {
        let kinds: Vec<Kind> = kinds("a # b\n;").into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(kinds, [Kind::Word, Kind::Comment, Kind::End, Kind::End, Kind::File]);
    }

    #[test]
    fn what_is_no_token_is_shown() {
        for (text, place) in [("a ~ b", 3), ("12Q", 1), ("\"abc", 1), ("1x", 1)] {
            assert_eq!(tokens(&Source::new("t", text)).unwrap_err().column, place, "{text}");
        }
    }
}

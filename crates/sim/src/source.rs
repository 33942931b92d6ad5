//! Input text and what is wrong with it: every reader of the simulator reports a mistake with its place.
//!
//! A [`Mistake`] names file, line and column, shows the line with a caret under the fault, and where a name is
//! unknown says which known one is nearest.

use kumiki_net::os::file::read_text;
use std::fmt;
use std::sync::Arc;

/// The most that is read from a pipe or a device.
const STREAM_BYTES: u64 = 64 << 20;

/// A piece of a source, in bytes from its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte behind the last.
    pub end: u32,
}

impl Span {
    /// The bytes `start..end`.
    pub fn new(start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end.max(start) as u32 }
    }

    /// From the beginning of this to the end of the other.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end.max(self.start) }
    }
}

/// A text and the name of the file that it came from.
#[derive(Clone, Debug)]
pub struct Source {
    /// What the user calls it.
    pub name: Arc<str>,
    /// The whole text.
    pub text: Arc<str>,
}

impl Source {
    /// A text under a name.
    pub fn new(name: &str, text: &str) -> Source {
        Source { name: name.into(), text: text.into() }
    }

    /// The text of a file.
    pub fn read(path: &std::path::Path) -> Result<Source, String> {
        let name = path.display().to_string();
        // What is no file may never end.
        let most_bytes = if path.is_file() { u32::MAX as u64 } else { STREAM_BYTES };
        let text = read_text(path, most_bytes).map_err(|error| format!("cannot read {name}: {error}"))?;
        Ok(Source::new(&name, &text))
    }

    /// The text of a span.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.start as usize..span.end as usize).unwrap_or("")
    }

    /// Line and column of a byte, both from 1.
    pub fn place(&self, byte: u32) -> (usize, usize) {
        let (line_start, line) = self.line_of(byte);
        let column =
            self.text[line_start..].chars().count() - self.tail(line_start, byte).chars().count() + 1;
        (line, column)
    }

    /// What is wrong at a span.
    pub fn mistake(&self, at: Span, message: impl Into<String>) -> Mistake {
        let (line_start, line) = self.line_of(at.start);
        let (_, column) = self.place(at.start);
        let text: String = self.text[line_start..].lines().next().unwrap_or("").replace('\t', " ");
        let marked = self.slice(at).lines().next().unwrap_or("").chars().count();
        let width = marked.clamp(1, (text.chars().count() + 1).saturating_sub(column).max(1));
        Mistake {
            file: self.name.to_string(),
            line,
            column,
            message: message.into(),
            text,
            width,
            hint: None,
        }
    }

    /// The rest of the text from `byte` on, never before `line_start`.
    fn tail(&self, line_start: usize, byte: u32) -> &str {
        let mut byte = (byte as usize).clamp(line_start, self.text.len());
        while !self.text.is_char_boundary(byte) {
            byte -= 1;
        }
        &self.text[byte..]
    }

    /// Where the line of a byte begins, and its number.
    fn line_of(&self, byte: u32) -> (usize, usize) {
        let mut byte = (byte as usize).min(self.text.len());
        while !self.text.is_char_boundary(byte) {
            byte -= 1;
        }
        let before = &self.text[..byte];
        (before.rfind('\n').map_or(0, |end| end + 1), before.matches('\n').count() + 1)
    }
}

/// What is wrong with an input, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mistake {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// What is wrong, and what was expected.
    pub message: String,
    /// What may have been meant.
    pub hint: Option<String>,
    text: String,
    width: usize,
}

impl Mistake {
    /// The same with advice.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Mistake {
        self.hint = Some(hint.into());
        self
    }

    /// The same with the nearest of the names that exist, if one is near enough to be meant.
    pub fn with_nearest<'a>(self, name: &str, known: impl IntoIterator<Item = &'a str>) -> Mistake {
        match nearest(name, known) {
            Some(near) => self.with_hint(format!("maybe you meant `{near}`")),
            None => self,
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        writeln!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        writeln!(f, "  {number} | {}", self.text)?;
        let caret = "^".repeat(self.width);
        write!(f, "  {margin} | {}{caret}", " ".repeat(self.column - 1))?;
        match &self.hint {
            Some(hint) => write!(f, " {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Mistake {}

impl From<Mistake> for String {
    fn from(mistake: Mistake) -> String {
        mistake.to_string()
    }
}

/// The nearest of the known names, unless none resembles the given one.
///
/// ```
/// assert_eq!(kumiki_sim::source::nearest("tours", ["torus", "mesh"]), Some("torus"));
/// assert_eq!(kumiki_sim::source::nearest("zebra", ["torus", "mesh"]), None);
/// ```
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = name.to_lowercase();
    let (distance, near) = known
        .into_iter()
        .map(|one| (strsim::levenshtein(&given, &one.to_lowercase()), one))
        .min_by_key(|(distance, _)| *distance)?;
    (distance <= (given.chars().count().max(2)).div_ceil(2)).then_some(near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_shows_line_and_caret() {
        let source = Source::new("a.mgen", "let a = 1\nsend 8 too 1\n");
        let mistake = source.mistake(Span::new(17, 20), "expected `to`").with_nearest("too", ["to", "tag"]);
        let text = "a.mgen:2:8: expected `to`\n  2 | send 8 too 1\n    |        ^^^ maybe you meant `to`";
        assert_eq!(mistake.to_string(), text);
    }

    #[test]
    fn places_count_characters_and_do_not_fail_at_the_end() {
        let source = Source::new("x", "é\tb\n");
        assert_eq!(source.place(3), (1, 3));
        assert_eq!(source.place(99), (2, 1));
        assert!(source.mistake(Span::new(99, 120), "end").to_string().contains("x:2:1: end"));
        assert_eq!(source.place(1), (1, 1), "the middle of a character is its beginning");
    }
}

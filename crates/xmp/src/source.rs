//! Preprocessed text: its tokens, the directives in it, and where each byte comes from in the user's files.

use crate::mark::{BEGIN_KUMIKI, BEGIN_XMP, END};
use std::collections::HashMap;

/// A piece of the text, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Span {
        Span { start, end }
    }

    pub(crate) fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end.max(self.start) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Word,
    Number,
    Text,
    Sign,
    /// One of `Source::directives`.
    Directive(usize),
    /// The ends of a directive that came through `_Pragma`; only inside the lexer.
    Open,
    Close,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) span: Span,
}

/// `#pragma xmp ..` or `#pragma kumiki ..`, its words.
pub(crate) struct Raw {
    pub(crate) span: Span,
    pub(crate) tokens: Vec<Token>,
    pub(crate) ours: bool,
}

/// A line of the text: where it begins, which line of which file it is.
struct Line {
    start: usize,
    file: usize,
    number: usize,
}

pub(crate) struct Source<'a> {
    pub(crate) text: &'a str,
    pub(crate) tokens: Vec<Token>,
    pub(crate) directives: Vec<Raw>,
    /// `#pragma` lines of others.
    pub(crate) foreign: Vec<Span>,
    lines: Vec<Line>,
    files: Vec<String>,
    /// The texts of the user's files by the names that line markers have.
    originals: &'a HashMap<String, String>,
}

/// What is wrong, and where in the preprocessed text.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) at: usize,
    pub(crate) message: String,
}

impl Problem {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Problem {
        Problem { at, message: message.into() }
    }
}

pub(crate) type Result<T> = std::result::Result<T, Problem>;

/// What is wrong with a program, and where: its `Display` shows the line with a mark below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, as the preprocessor names it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// What is wrong and what to do.
    pub message: String,
    source: Option<String>,
}

impl std::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}: error: {}", self.file, self.line, self.column, self.message)?;
        if let Some(source) = &self.source {
            let blank: String =
                source.chars().take(self.column - 1).map(|c| if c == '\t' { c } else { ' ' }).collect();
            write!(f, "\n{:5} | {source}\n      | {blank}^", self.line)?;
        }
        Ok(())
    }
}

impl<'a> Source<'a> {
    pub(crate) fn new(text: &'a str, originals: &'a HashMap<String, String>) -> Source<'a> {
        let mut lexer = Lexer {
            text,
            at: 0,
            tokens: Vec::new(),
            foreign: Vec::new(),
            lines: Vec::new(),
            files: vec![String::new()],
        };
        lexer.run();
        let Lexer { tokens, foreign, lines, files, .. } = lexer;
        let mut source =
            Source { text, tokens: Vec::new(), directives: Vec::new(), foreign, lines, files, originals };
        source.gather(tokens);
        source
    }

    /// Puts the words of a directive together.
    fn gather(&mut self, tokens: Vec<Token>) {
        let mut open: Option<Raw> = None;
        for token in tokens {
            let word = &self.text[token.span.start..token.span.end];
            let begins = word == BEGIN_XMP || word == BEGIN_KUMIKI || token.kind == Kind::Open;
            let ends = word == END || token.kind == Kind::Close;
            match &mut open {
                Some(raw) if ends || begins => {
                    raw.span.end = token.span.end;
                    if let Some(raw) = open.take() {
                        self.close(raw);
                    }
                }
                Some(raw) => raw.tokens.push(token),
                None if begins => {
                    open = Some(Raw { span: token.span, tokens: Vec::new(), ours: word == BEGIN_KUMIKI });
                }
                None if ends => {}
                None => self.tokens.push(token),
            }
        }
        if let Some(raw) = open {
            self.close(raw);
        }
    }

    fn close(&mut self, raw: Raw) {
        self.tokens.push(Token { kind: Kind::Directive(self.directives.len()), span: raw.span });
        self.directives.push(raw);
    }

    pub(crate) fn slice(&self, span: Span) -> &'a str {
        self.text.get(span.start..span.end).unwrap_or("")
    }

    fn line_of(&self, at: usize) -> Option<&Line> {
        let index = self.lines.partition_point(|line| line.start <= at);
        index.checked_sub(1).and_then(|index| self.lines.get(index))
    }

    /// The file and line of a byte.
    pub(crate) fn place(&self, at: usize) -> (&str, usize) {
        self.line_of(at).map_or(("", 1), |line| (self.files[line.file].as_str(), line.number))
    }

    /// As the run time names it: `heat.c:12`, a literal of C.
    pub(crate) fn place_literal(&self, at: usize) -> String {
        let (file, line) = self.place(at);
        let file = file.replace('\\', "\\\\").replace('"', "\\\"");
        format!("\"{file}:{line}\"")
    }

    /// A line marker that makes what follows the line of this byte.
    pub(crate) fn marker(&self, at: usize) -> String {
        let (file, line) = self.place(at);
        format!("\n# {line} \"{}\"\n", file.replace('\\', "\\\\").replace('"', "\\\""))
    }

    /// Whether a byte comes from a file of the user's.
    pub(crate) fn is_users(&self, at: usize) -> bool {
        self.originals.contains_key(self.place(at).0)
    }

    /// Whether a byte is in a directive.
    pub(crate) fn is_in_directive(&self, at: usize) -> bool {
        let next = self.directives.partition_point(|raw| raw.span.start <= at);
        next.checked_sub(1).is_some_and(|index| at < self.directives[index].span.end)
    }

    /// Whether a word stands anywhere in the text of C, this piece of it left out.
    pub(crate) fn has_word(&self, word: &str, without: Span) -> bool {
        let is_outside = |span: Span| span.end <= without.start || span.start >= without.end;
        self.tokens
            .iter()
            .any(|token| token.kind == Kind::Word && is_outside(token.span) && self.slice(token.span) == word)
    }

    pub(crate) fn diagnostic(&self, problem: &Problem) -> Diagnostic {
        let at = problem.at.min(self.text.len());
        let (file, line) = self.place(at);
        let original = self.originals.get(file).and_then(|text| text.lines().nth(line.saturating_sub(1)));
        let begin = self.line_of(at).map_or(0, |line| line.start).min(at);
        let column = self.text.get(begin..at).map_or(0, |before| before.chars().count());
        let word: String = self
            .text
            .get(at..)
            .unwrap_or("")
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
            .collect();
        let marker = self.text.get(begin..at).and_then(|before| before.find(BEGIN_XMP));
        let column = if marker.is_some() {
            // Two spaces are one behind the preprocessor.
            column.saturating_sub(BEGIN_XMP.len() - "#pragma xmp".len())
        } else {
            column
        };
        let column = original.map_or(column, |source| column_in(source, column, &word));
        Diagnostic {
            file: file.to_owned(),
            line,
            column: column + 1,
            message: problem.message.clone(),
            source: original.map(|line| line.trim_end().to_owned()),
        }
    }
}

/// Where a word that the preprocessor has at `column` is in the line as it was written.
fn column_in(source: &str, column: usize, word: &str) -> usize {
    let first = source.chars().take_while(|c| c.is_whitespace()).count();
    let here: String = source.chars().skip(column).collect();
    if word.is_empty() || here.starts_with(word) {
        let length = source.trim_end().chars().count();
        return if column < length { column } else { first };
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let whole = |(at, _): &(usize, &str)| {
        !source[..*at].ends_with(is_word) && !source[*at + word.len()..].starts_with(is_word)
    };
    // Macros that were expanded before it have moved it: the nearest one is meant.
    let columns = source.match_indices(word).filter(whole).map(|(at, _)| source[..at].chars().count());
    columns.min_by_key(|found| found.abs_diff(column)).unwrap_or(first)
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<Token>,
    foreign: Vec<Span>,
    lines: Vec<Line>,
    files: Vec<String>,
}

impl Lexer<'_> {
    fn run(&mut self) {
        let bytes = self.text.as_bytes();
        let (mut file, mut number, mut fresh) = (0, 1, true);
        while self.at < bytes.len() {
            if fresh {
                self.lines.push(Line { start: self.at, file, number });
                fresh = false;
                if let Some(next) = self.hash_line(&mut file) {
                    number = next;
                    fresh = true;
                    continue;
                }
            }
            match bytes[self.at] {
                b'\n' => {
                    self.at += 1;
                    number += 1;
                    fresh = true;
                }
                byte if byte.is_ascii_whitespace() || byte == b'\\' => self.at += 1,
                b'/' if bytes.get(self.at + 1) == Some(&b'*') => {
                    let end = self.text[self.at + 2..].find("*/").map_or(bytes.len(), |n| self.at + n + 4);
                    let lines = self.text[self.at..end].match_indices('\n');
                    for (offset, _) in lines {
                        number += 1;
                        self.lines.push(Line { start: self.at + offset + 1, file, number });
                    }
                    self.at = end;
                }
                b'/' if bytes.get(self.at + 1) == Some(&b'/') => {
                    self.at = self.text[self.at..].find('\n').map_or(bytes.len(), |n| self.at + n);
                }
                _ => self.token(),
            }
        }
    }

    /// A line marker, which tells the line after it, or a pragma of others.
    fn hash_line(&mut self, file: &mut usize) -> Option<usize> {
        let end = self.text[self.at..].find('\n').map_or(self.text.len(), |n| self.at + n + 1);
        let line = self.text[self.at..end].trim_start();
        let rest = line.strip_prefix('#')?.trim_start();
        let number = self.lines.last().map_or(0, |line| line.number);
        let span = Span::new(self.at, end);
        if let Some(words) = rest.strip_prefix("pragma") {
            let words = words.trim_start();
            if let Some(words) = words.strip_prefix("xmp").filter(|rest| !rest.starts_with(is_word_char)) {
                self.pragma(end, words);
            } else {
                self.foreign.push(span);
            }
            self.at = end;
            return Some(number + 1);
        }
        self.at = end;
        let rest = rest.strip_prefix("line").unwrap_or(rest).trim_start();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let Ok(number) = digits.parse::<usize>() else { return Some(number + 1) };
        if let Some(name) = rest.find('"').and_then(|at| rest.get(at + 1..)) {
            let name = name.rfind('"').map_or(name, |end| &name[..end]);
            let name = name.replace("\\\"", "\"").replace("\\\\", "\\");
            *file = self.files.iter().position(|known| *known == name).unwrap_or_else(|| {
                self.files.push(name);
                self.files.len() - 1
            });
        }
        Some(number)
    }

    /// A directive that came through `_Pragma`.
    fn pragma(&mut self, end: usize, words: &str) {
        let start = self.at;
        self.tokens.push(Token { kind: Kind::Open, span: Span::new(start, start) });
        self.at = end - words.len();
        while self.at < end {
            match self.text.as_bytes()[self.at] {
                byte if byte.is_ascii_whitespace() => self.at += 1,
                _ => self.token(),
            }
        }
        // The line feed stays: a line marker may follow.
        let end = if self.text[..end].ends_with('\n') { end - 1 } else { end };
        self.tokens.push(Token { kind: Kind::Close, span: Span::new(end, end) });
    }

    fn token(&mut self) {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let rest = &bytes[start..];
        let (kind, length) = match rest[0] {
            b'"' | b'\'' => (Kind::Text, literal(rest)),
            b'0'..=b'9' => (Kind::Number, number(rest)),
            b'.' if rest.get(1).is_some_and(u8::is_ascii_digit) => (Kind::Number, number(rest)),
            byte if is_word_byte(byte) => {
                let length = rest.iter().take_while(|byte| is_word_byte(**byte)).count();
                match rest.get(length) {
                    Some(b'"' | b'\'') if matches!(&rest[..length], b"L" | b"u" | b"U" | b"u8") => {
                        (Kind::Text, length + literal(&rest[length..]))
                    }
                    _ => (Kind::Word, length),
                }
            }
            _ => (Kind::Sign, sign(rest)),
        };
        self.at = start + length;
        while !self.text.is_char_boundary(self.at) {
            self.at += 1;
        }
        self.tokens.push(Token { kind, span: Span::new(start, self.at) });
    }
}

fn is_word_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

fn literal(rest: &[u8]) -> usize {
    let mut end = 1;
    while end < rest.len() {
        match rest[end] {
            b'\\' => end += 2,
            b'\n' => return end,
            byte if byte == rest[0] => return end + 1,
            _ => end += 1,
        }
    }
    rest.len()
}

fn number(rest: &[u8]) -> usize {
    let mut end = 1;
    while end < rest.len() {
        let exponent = matches!(rest[end - 1], b'e' | b'E' | b'p' | b'P') && matches!(rest[end], b'+' | b'-');
        if !exponent && !is_word_byte(rest[end]) && rest[end] != b'.' {
            break;
        }
        // 0xE+1 is a sum.
        if exponent
            && rest[0] == b'0'
            && matches!(rest.get(1), Some(b'x' | b'X'))
            && matches!(rest[end - 1], b'e' | b'E')
        {
            break;
        }
        end += 1;
    }
    end
}

fn sign(rest: &[u8]) -> usize {
    const LONG: [&[u8]; 23] = [
        b"<<=", b">>=", b"...", b"->", b"++", b"--", b"<<", b">>", b"<=", b">=", b"==", b"!=", b"&&", b"||",
        b"*=", b"/=", b"%=", b"+=", b"-=", b"&=", b"^=", b"|=", b"##",
    ];
    LONG.iter().find(|sign| rest.starts_with(sign)).map_or(1, |sign| sign.len())
}

//! Line-oriented inputs (GOAL schedules, graphs, routing tables) as words with places.

use crate::source::{Mistake, Source, Span};

/// A word of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: Span,
}

/// The words of a line, taken one after the other.
pub(crate) struct Words<'a> {
    source: &'a Source,
    words: Vec<Word<'a>>,
    next: usize,
    end: Span,
}

/// Words are separated by blanks, and each of `marks` is a word of its own. `start` is where the line begins.
pub(crate) fn words<'a>(source: &'a Source, start: usize, line: &'a str, marks: &str) -> Words<'a> {
    let mut words = Vec::new();
    let mut begin = None;
    let mut close = |begin: &mut Option<usize>, end: usize| {
        if let Some(from) = begin.take() {
            words.push(Word { text: &line[from..end], at: Span::new(start + from, start + end) });
        }
    };
    for (at, letter) in line.char_indices() {
        if letter.is_whitespace() {
            close(&mut begin, at);
        } else if marks.contains(letter) {
            close(&mut begin, at);
            begin = Some(at);
            close(&mut begin, at + letter.len_utf8());
        } else if begin.is_none() {
            begin = Some(at);
        }
    }
    close(&mut begin, line.len());
    let end = Span::new(start + line.trim_end().len(), start + line.trim_end().len());
    Words { source, words, next: 0, end }
}

/// The lines of a source with where they begin, without what follows a `#`.
pub(crate) fn lines(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    lines_with_comments(source).map(|(start, line)| (start, line.split('#').next().unwrap_or("")))
}

/// The lines of a source with where they begin.
pub(crate) fn lines_with_comments(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    source.text.split_inclusive('\n').map(move |line| {
        let at = start;
        start += line.len();
        (at, line.trim_end_matches(['\n', '\r']))
    })
}

impl<'a> Words<'a> {
    pub(crate) fn peek(&self) -> Option<Word<'a>> {
        self.words.get(self.next).copied()
    }

    pub(crate) fn take(&mut self) -> Option<Word<'a>> {
        let word = self.peek();
        self.next += word.is_some() as usize;
        word
    }

    /// Takes this word if it is next.
    pub(crate) fn takes(&mut self, text: &str) -> bool {
        let is = self.peek().is_some_and(|word| word.text == text);
        self.next += is as usize;
        is
    }

    /// Takes these two words if they are next.
    pub(crate) fn takes_both(&mut self, first: &str, second: &str) -> bool {
        let texts = |at: usize| self.words.get(at).map(|word| word.text);
        let are = texts(self.next) == Some(first) && texts(self.next + 1) == Some(second);
        self.next += 2 * are as usize;
        are
    }

    /// Where the next word is, or the end of the line.
    pub(crate) fn place(&self) -> Span {
        self.peek().map_or(self.end, |word| word.at)
    }

    pub(crate) fn wrong<T>(&self, expected: &str) -> Result<T, Mistake> {
        let found = self.peek().map_or("the end of the line".to_string(), |word| format!("`{}`", word.text));
        Err(self.source.mistake(self.place(), format!("expected {expected}, found {found}")))
    }

    pub(crate) fn expect(&mut self, text: &str) -> Result<(), Mistake> {
        match self.takes(text) {
            true => Ok(()),
            false => self.wrong(&format!("`{text}`")),
        }
    }

    /// A number, and where it is.
    pub(crate) fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<(T, Span), Mistake> {
        let at = self.place();
        match self.peek().and_then(|word| word.text.parse().ok()) {
            Some(number) => {
                self.next += 1;
                Ok((number, at))
            }
            None => self.wrong(what),
        }
    }

    pub(crate) fn end(&self) -> Result<(), Mistake> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.wrong("the end of the line"),
        }
    }
}

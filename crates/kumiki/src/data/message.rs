//! Requests and replies as bytes: little-endian words, and byte strings behind their length.

use crate::{Error, Result};

/// Something to be sent, written field by field.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// A request: the first byte says what is asked for.
    pub(crate) fn new(code: u8) -> Writer {
        let mut bytes = Vec::with_capacity(64);
        bytes.push(code);
        Writer(bytes)
    }

    /// One more word.
    pub(crate) fn word(mut self, word: u64) -> Writer {
        self.0.extend_from_slice(&word.to_le_bytes());
        self
    }

    /// One more byte.
    pub(crate) fn byte(mut self, byte: u8) -> Writer {
        self.0.push(byte);
        self
    }

    /// One more byte string.
    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Writer {
        self.0.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.0.extend_from_slice(bytes);
        self
    }

    /// Bytes written so far.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// All of it.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Something that came, read field by field. Whatever came, reading ends in a value or an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// The next bytes, as many as the reader knows there are.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let short = || Error::Misuse("a message of the data library is too short".into());
        let (head, rest) = self.0.split_at_checked(count).ok_or_else(short)?;
        self.0 = rest;
        Ok(head)
    }

    /// The next byte.
    pub(crate) fn byte(&mut self) -> Result<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// The next word.
    pub(crate) fn word(&mut self) -> Result<u64> {
        let mut word = [0; 8];
        word.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(word))
    }

    /// The next byte string.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let count = self.word()?;
        self.take(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The error for a code that no version of ours sends.
pub(crate) fn unknown(code: u8) -> Error {
    Error::Misuse(format!("the data library knows no request {code}; is the other rank of the same version?"))
}

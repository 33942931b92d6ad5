//! Numbers, text and lists to bytes and back: what ranks, agents and the hub say to each other, and the requests and replies of
//! services. Little-endian; every read is checked.

use crate::{Error, Result};
use std::net::{IpAddr, SocketAddr};

/// Bytes being written.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Starts with one byte, the kind of the message.
    pub fn new(kind: u8) -> Writer {
        // Most messages fit.
        let mut bytes = Vec::with_capacity(64);
        bytes.push(kind);
        Writer(bytes)
    }

    /// The same in a buffer that there is, with room for so many bytes.
    pub fn in_buffer(kind: u8, mut buffer: Vec<u8>, bytes: usize) -> Writer {
        buffer.clear();
        buffer.reserve_exact(bytes);
        buffer.push(kind);
        Writer(buffer)
    }

    /// Bytes written so far.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// What was written.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }

    /// One byte.
    pub fn byte(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    /// A truth value, as one byte.
    pub fn flag(self, value: bool) -> Self {
        self.byte(value as u8)
    }

    /// Four bytes.
    pub fn word(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Eight bytes.
    pub fn long(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A length of eight bytes and that many bytes.
    pub fn bytes(self, value: &[u8]) -> Self {
        self.long(value.len() as u64).fixed(value)
    }

    /// Bytes whose number both sides know.
    pub fn fixed(mut self, value: &[u8]) -> Self {
        self.0.extend_from_slice(value);
        self
    }

    /// Text.
    pub fn text(self, value: &str) -> Self {
        self.bytes(value.as_bytes())
    }

    /// A length of four bytes and that many items.
    pub fn list<T>(self, items: &[T], each: impl Fn(Self, &T) -> Self) -> Self {
        let start = self.word(items.len() as u32);
        items.iter().fold(start, each)
    }

    /// An internet address and port.
    pub fn address(self, value: &SocketAddr) -> Self {
        let next = match value.ip() {
            IpAddr::V4(v4) => self.byte(4).fixed(&v4.octets()),
            IpAddr::V6(v6) => self.byte(6).fixed(&v6.octets()),
        };
        next.word(value.port() as u32)
    }
}

/// Bytes being read. Every method fails, and never panics, when the bytes are not what they should be.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads from these bytes.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// Fails unless everything has been read.
    pub fn end(self) -> Result<()> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(bad("it is longer than its kind allows"))
        }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next bytes, whose number the caller knows.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count).ok_or_else(|| bad("it is cut short"))?;
        self.0 = tail;
        Ok(head)
    }

    /// The same, as an array.
    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or_else(|| bad("it is cut short"))?;
        self.0 = tail;
        Ok(*head)
    }

    /// One byte.
    pub fn byte(&mut self) -> Result<u8> {
        self.fixed::<1>().map(|[byte]| byte)
    }

    /// A truth value.
    pub fn flag(&mut self) -> Result<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(bad("a flag is neither 0 nor 1")),
        }
    }

    /// Four bytes.
    pub fn word(&mut self) -> Result<u32> {
        self.fixed().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub fn long(&mut self) -> Result<u64> {
        self.fixed().map(u64::from_le_bytes)
    }

    /// A length and that many bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.long()?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// Text.
    pub fn text(&mut self) -> Result<String> {
        let text = std::str::from_utf8(self.bytes()?).map_err(|_| bad("a text in it is not UTF-8"))?;
        Ok(text.to_owned())
    }

    /// A length and that many items. The room reserved is bounded by the bytes that are there.
    pub fn list<T>(&mut self, mut each: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let length = self.word()? as usize;
        if length > self.0.len() {
            return Err(bad("a list in it is longer than the message"));
        }
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(each(self)?);
        }
        Ok(items)
    }

    /// An internet address and port.
    pub fn address(&mut self) -> Result<SocketAddr> {
        let ip: IpAddr = match self.byte()? {
            4 => self.fixed::<4>()?.into(),
            6 => self.fixed::<16>()?.into(),
            _ => return Err(bad("an address is neither IPv4 nor IPv6")),
        };
        let port = u16::try_from(self.word()?).map_err(|_| bad("a port is above 65535"))?;
        Ok(SocketAddr::new(ip, port))
    }
}

/// The error of a message that cannot be.
pub fn bad(what: &str) -> Error {
    Error::Refused(format!("a message that no Kumiki process sends: {what}"))
}

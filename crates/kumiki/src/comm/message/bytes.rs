//! The bytes of a short message: those of a very short one need no memory of their own.

use super::record::Record;
use super::ring::Reading;
use crate::Result;

/// Bytes that need none: with their count and the kind they are four words, for there may be many messages that nobody has asked for yet.
const FEW: usize = 30;
const _: () = assert!(size_of::<Bytes>() == 32);

/// The bytes of a message.
#[derive(Debug)]
pub(super) enum Bytes {
    Few([u8; FEW], u8),
    Many(Vec<u8>),
}

impl Bytes {
    /// So many zeros; in a buffer of `spare`, if there is one and it takes one.
    pub(super) fn zeros(count: usize, spare: &mut Vec<Vec<u8>>) -> Bytes {
        if count <= FEW {
            return Bytes::Few([0; FEW], count as u8);
        }
        let mut bytes = spare.pop().unwrap_or_default();
        bytes.resize(count, 0);
        Bytes::Many(bytes)
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Few(bytes, count) => &bytes[..usize::from(*count)],
            Bytes::Many(bytes) => bytes,
        }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Bytes::Few(bytes, count) => &mut bytes[..usize::from(*count)],
            Bytes::Many(bytes) => bytes,
        }
    }

    /// Its buffer, if it has one, for another message.
    pub(super) fn into_buffer(self) -> Option<Vec<u8>> {
        match self {
            Bytes::Few(..) => None,
            Bytes::Many(bytes) => Some(bytes),
        }
    }
}

/// A short message that is to be read.
#[derive(Debug)]
pub(super) enum Short<'a> {
    /// It was taken out of its ring.
    Taken(&'a [u8]),
    /// It stands there.
    InRing(&'a Reading<'a>, &'a Record),
}

impl Short<'_> {
    /// Copies it to memory of its length.
    pub(super) fn copy_to(&self, into: &mut [u8]) -> Result<()> {
        match self {
            Short::Taken(bytes) => into.copy_from_slice(bytes),
            Short::InRing(reading, record) => reading.body(record, into)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_bytes_take_no_buffer_and_many_take_one_that_is_there() {
        let mut spare = vec![Vec::with_capacity(100)];
        let mut few = Bytes::zeros(FEW, &mut spare);
        few.as_mut_slice()[FEW - 1] = 7;
        assert_eq!((few.as_slice().len(), few.as_slice()[FEW - 1], spare.len()), (FEW, 7, 1));
        assert_eq!(few.into_buffer(), None);
        let mut many = Bytes::zeros(FEW + 1, &mut spare);
        many.as_mut_slice()[FEW] = 7;
        assert_eq!((many.as_slice().len(), many.as_slice()[FEW], spare.len()), (FEW + 1, 7, 0));
        assert!(many.into_buffer().is_some_and(|buffer| buffer.capacity() == 100));
    }
}

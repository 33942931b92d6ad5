//! What vectors and deques share: bytes in one block of one rank, described by a header on the same rank.
//!
//! | file | what |
//! |---|---|
//! | `bytes.rs` | the algorithms, over the memory of the node |
//! | `tail.rs` | adding to the end of a vector, without looking at all of it each time |
//!
//! A [`Ring`] is such a sequence seen through [`Local`]: whoever is on the owner's node works on it directly, and the
//! owner does it for everybody else, one call for each operation. A vector is a ring that always begins at its first byte.
//!
//! Header of a vector: body, size, capacity, state. Header of a deque: body, offset, size, capacity, block, block
//! length, state. What stands before the state (for a deque: before the block) is read by programs. The body of a deque
//! lies somewhere in its block, so that it can grow at either end to exactly what is needed without being moved each time.
//!
//! A SIGKILL in the middle of a change leaves the state `CHANGING`: from then on every operation fails with an error,
//! until the sequence is assigned, cleared or destroyed. A change that is one store (adding to the end while there is
//! room, taking from the end of a vector) needs no such care. At worst one block stays taken.

mod bytes;
mod tail;
#[cfg(test)]
mod tests;

pub(crate) use bytes::Ring;
pub(crate) use tail::Tail;

use super::message::{unknown, Reader, Writer};
use super::{DEQUE, VECTOR};
use crate::{GlobalAddress, Result};
use bytes::{create, swap};
use kumiki_mem::Local;

/// The index that means the end, whatever the size is.
pub(crate) const END: u64 = u64::MAX;
/// The longest sequence: lengths are added without overflow.
const LONGEST: u64 = 1 << 56;

/// What stands in the state of a header that is whole.
const WHOLE: u64 = u64::from_le_bytes(*b"sequence");
/// While more than one word of it changes.
const CHANGING: u64 = u64::from_le_bytes(*b"changing");

/// Which of the two it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Vector,
    Deque,
}

impl Kind {
    pub(crate) fn service(self) -> u8 {
        match self {
            Kind::Vector => VECTOR,
            Kind::Deque => DEQUE,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Vector => "vector",
            Kind::Deque => "deque",
        }
    }

    /// Where the words of a header are: size, capacity, state.
    const fn places(self) -> (u64, u64, u64) {
        match self {
            Kind::Vector => (8, 16, 24),
            Kind::Deque => (16, 24, 48),
        }
    }

    const fn header_bytes(self) -> u64 {
        self.places().2 + 8
    }

    /// What a capacity is rounded up to.
    fn round(self, bytes: u64) -> u64 {
        match self {
            Kind::Vector => bytes.next_multiple_of(8),
            Kind::Deque => bytes,
        }
    }
}

const OFFSET_AT: u64 = 8;
const BLOCK_AT: u64 = 32;
const ROOM_AT: u64 = 40;

/// What the header says: where the bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shape {
    pub(crate) body: GlobalAddress,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) capacity: u64,
}

impl Shape {
    /// Where the byte of an index lies in the body.
    #[inline]
    fn position(self, index: u64) -> u64 {
        let at = self.offset + index;
        if at >= self.capacity && self.capacity != 0 {
            at - self.capacity
        } else {
            at
        }
    }

    /// Where the bytes of a range lie in the body: one piece, or two when they wrap.
    pub(crate) fn pieces(self, index: u64, bytes: u64) -> [(u64, u64); 2] {
        let at = self.position(index);
        let first = bytes.min(self.capacity - at.min(self.capacity));
        [(at, first), (0, bytes - first)]
    }
}

/// Something to be done to a sequence, by whoever can touch it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op<'a> {
    /// Makes one, with this size (vector) or capacity (deque).
    Create(u64),
    Destroy,
    /// Only gives the shape.
    Look,
    /// Puts data before an index; with no data it makes room for so many bytes.
    Insert {
        at: u64,
        bytes: u64,
        data: Option<&'a [u8]>,
    },
    /// Takes bytes out. At the end: the last so many. If asked it gives them back, and then does nothing where there are
    /// too few.
    Erase {
        at: u64,
        bytes: u64,
        give: bool,
    },
    /// Replaces everything.
    Assign(&'a [u8]),
    /// Replaces everything by a block of the same rank, of this size.
    Adopt {
        block: GlobalAddress,
        size: u64,
    },
    Reserve(u64),
    Clear,
    Read {
        at: u64,
        bytes: u64,
    },
    Write {
        at: u64,
        data: &'a [u8],
    },
    /// Exchanges what two of them hold, on the same rank.
    Swap(GlobalAddress),
}

/// What came of it: the place (of the sequence itself, when it was made), and the shape after it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) at: u64,
    pub(crate) shape: Shape,
}

impl<'a> Op<'a> {
    /// As a request.
    pub(crate) fn encode(self, address: GlobalAddress) -> Vec<u8> {
        let request = |code: u8| Writer::new(code).long(address.bits());
        match self {
            Op::Create(bytes) => request(0).long(bytes),
            Op::Destroy => request(1),
            Op::Look => request(2),
            Op::Insert { at, bytes, data: None } => request(3).long(at).long(bytes),
            Op::Insert { at, data: Some(data), .. } => request(4).long(at).bytes(data),
            Op::Erase { at, bytes, give } => request(5).long(at).long(bytes).long(give as u64),
            Op::Assign(data) => request(6).bytes(data),
            Op::Adopt { block, size } => request(7).long(block.bits()).long(size),
            Op::Reserve(bytes) => request(8).long(bytes),
            Op::Clear => request(9),
            Op::Read { at, bytes } => request(10).long(at).long(bytes),
            Op::Write { at, data } => request(11).long(at).bytes(data),
            Op::Swap(other) => request(12).long(other.bits()),
        }
        .finish()
    }

    fn decode(request: &'a [u8]) -> Result<(GlobalAddress, Op<'a>)> {
        let mut request = Reader::new(request);
        let code = request.byte()?;
        let address = GlobalAddress::from_bits(request.long()?);
        let op = match code {
            0 => Op::Create(request.long()?),
            1 => Op::Destroy,
            2 => Op::Look,
            3 => Op::Insert { at: request.long()?, bytes: request.long()?, data: None },
            4 => {
                let (at, data) = (request.long()?, request.bytes()?);
                Op::Insert { at, bytes: data.len() as u64, data: Some(data) }
            }
            5 => Op::Erase { at: request.long()?, bytes: request.long()?, give: request.long()? != 0 },
            6 => Op::Assign(request.bytes()?),
            7 => Op::Adopt { block: GlobalAddress::from_bits(request.long()?), size: request.long()? },
            8 => Op::Reserve(request.long()?),
            9 => Op::Clear,
            10 => Op::Read { at: request.long()?, bytes: request.long()? },
            11 => Op::Write { at: request.long()?, data: request.bytes()? },
            12 => Op::Swap(GlobalAddress::from_bits(request.long()?)),
            code => return Err(unknown(code)),
        };
        Ok((address, op))
    }
}

impl Done {
    /// The words of a reply; what was read comes behind them.
    const BYTES: usize = 40;

    pub(crate) fn decode(mut reply: Vec<u8>) -> Result<(Done, Vec<u8>)> {
        let mut words = Reader::new(&reply);
        let at = words.long()?;
        let body = GlobalAddress::from_bits(words.long()?);
        let shape = Shape { body, offset: words.long()?, size: words.long()?, capacity: words.long()? };
        reply.drain(..Self::BYTES);
        Ok((Done { at, shape }, reply))
    }
}

/// Does what another rank asks of a vector.
pub(crate) fn serve_vector(local: Local<'_>, _: u32, request: &[u8], reply: &mut Vec<u8>) -> Result<()> {
    serve(local, Kind::Vector, request, reply)
}

/// Does what another rank asks of a deque.
pub(crate) fn serve_deque(local: Local<'_>, _: u32, request: &[u8], reply: &mut Vec<u8>) -> Result<()> {
    serve(local, Kind::Deque, request, reply)
}

fn serve(local: Local<'_>, kind: Kind, request: &[u8], reply: &mut Vec<u8>) -> Result<()> {
    let (address, op) = Op::decode(request)?;
    let address = if matches!(op, Op::Create(_)) { local.pool_address(local.rank(), 0) } else { address };
    reply.resize(Done::BYTES, 0);
    let Done { at, shape } = apply(local, kind, address, op, reply)?;
    let words = [at, shape.body.bits(), shape.offset, shape.size, shape.capacity];
    for (place, word) in reply.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    Ok(())
}

/// Does it here: the sequence is on this node. To make one, the address is any of its rank. What is read is appended to
/// `out`.
pub(crate) fn apply(
    local: Local<'_>,
    kind: Kind,
    address: GlobalAddress,
    op: Op<'_>,
    out: &mut Vec<u8>,
) -> Result<Done> {
    let open = || Ring::open(local, kind, address);
    let (ring, at) = match op {
        Op::Create(bytes) => return create(local, kind, local.rank_of(address), bytes),
        Op::Destroy => return Ring::open_any(local, kind, address)?.destroy(),
        Op::Look => (open()?, 0),
        Op::Insert { at, bytes, data } => {
            let mut ring = open()?;
            let at = if at == END { ring.shape.size } else { at };
            ring.insert(at, bytes, data)?;
            (ring, at)
        }
        Op::Erase { at, bytes, give } => {
            let mut ring = open()?;
            let at = if at == END { ring.shape.size.saturating_sub(bytes) } else { at };
            if !give {
                ring.erase(at, bytes)?;
            } else if ring.check(at, bytes).is_ok() {
                ring.read_into(at, bytes, out)?;
                ring.erase(at, bytes)?;
            }
            (ring, at)
        }
        Op::Assign(data) => (Ring::open_any(local, kind, address)?.assign(data)?, 0),
        Op::Adopt { block, size } => (Ring::open_any(local, kind, address)?.adopt(block, size)?, 0),
        Op::Clear => (Ring::open_any(local, kind, address)?.clear()?, 0),
        Op::Reserve(bytes) => {
            let mut ring = open()?;
            ring.reserve(bytes)?;
            (ring, 0)
        }
        Op::Read { at, bytes } => {
            let ring = open()?;
            ring.read_into(at, bytes, out)?;
            (ring, at)
        }
        Op::Write { at, data } => {
            let ring = open()?;
            ring.write(at, data)?;
            (ring, at)
        }
        Op::Swap(other) => (swap(open()?, Ring::open(local, kind, other)?)?, 0),
    };
    Ok(Done { at, shape: ring.shape })
}

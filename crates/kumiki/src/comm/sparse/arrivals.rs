//! What came, in the order of who sent it.

use super::area::{Mail, Piece};
use crate::{Pod, Purpose, Rank, Result, World};
use kumiki_mem::Booking;

/// Records of a round that there is room for without asking.
const RECORDS: usize = 128;
/// Bytes of a record here: as it lies in the area, and as it is given to the program.
const RECORD_BYTES: usize = size_of::<Piece>() + size_of::<Share>();

/// Elements of one rank.
#[derive(Clone, Copy, Debug)]
struct Share {
    source: Rank,
    first: usize,
    count: usize,
}

/// What has come to this rank.
pub(super) struct Inbox<T> {
    elements: Vec<T>,
    shares: Vec<Share>,
    /// The records of a round, while they are read.
    pieces: Vec<Piece>,
    /// Elements that are booked with the exchange.
    room: usize,
    /// For more than that.
    booked: Vec<Booking>,
    booked_bytes: u64,
}

impl<T: Pod> Inbox<T> {
    /// Bytes of one for so many elements.
    pub(super) fn bytes(room: usize) -> u64 {
        (room * size_of::<T>() + RECORDS * RECORD_BYTES) as u64
    }

    pub(super) fn new(room: usize) -> Inbox<T> {
        let (elements, shares, pieces, booked) = Default::default();
        Inbox { elements, shares, pieces, room, booked, booked_bytes: Self::bytes(room) }
    }

    pub(super) fn clear(&mut self) {
        self.elements.clear();
        self.shares.clear();
        self.pieces.clear();
        if !self.booked.is_empty() {
            self.elements.shrink_to(self.room);
            self.shares.shrink_to(RECORDS);
            self.pieces.shrink_to(RECORDS);
            self.booked.clear();
            self.booked_bytes = Self::bytes(self.room);
        }
    }

    /// Books memory for so many elements and records.
    fn book(&mut self, world: &World, elements: usize, records: usize) -> Result<()> {
        let bytes = (elements * size_of::<T>() + records * RECORD_BYTES) as u64;
        if bytes > self.booked_bytes {
            let more = bytes - self.booked_bytes;
            self.booked.push(world.book(Purpose::Comm, more)?);
            self.booked_bytes = bytes;
        }
        Ok(())
    }

    /// Takes what came in a round, behind what is there.
    pub(super) fn take(&mut self, world: &World, mail: Mail<'_>) -> Result<()> {
        let (mut at, mut count) = (0, 0);
        self.pieces.clear();
        while let Some((piece, next)) = mail.next(at)? {
            if self.pieces.len() == self.pieces.capacity() {
                let records = (2 * self.pieces.len()).max(RECORDS) + self.shares.len();
                self.book(world, self.elements.len() + count, records)?;
            }
            self.pieces.push(piece);
            (at, count) = (next, count + piece.count as usize);
        }
        self.book(world, self.elements.len() + count, self.shares.len() + self.pieces.len())?;
        self.elements.reserve_exact(count);
        self.pieces.sort_unstable();
        let first_of_round = self.shares.len();
        for index in 0..self.pieces.len() {
            self.take_piece(mail, self.pieces[index], first_of_round)?;
        }
        Ok(())
    }

    fn take_piece(&mut self, mail: Mail<'_>, piece: Piece, first_of_round: usize) -> Result<()> {
        let (first, count) = (self.elements.len(), piece.count as usize);
        self.elements.resize(first + count, T::zeroed());
        mail.read(piece, bytemuck::cast_slice_mut(&mut self.elements[first..]))?;
        match self.shares[first_of_round..].last_mut() {
            Some(share) if share.source == piece.source => share.count += count,
            _ => self.shares.push(Share { source: piece.source, first, count }),
        }
        Ok(())
    }

    /// Brings what came in several rounds into the order of those who sent it.
    pub(super) fn sort(&mut self, world: &World) -> Result<()> {
        if self.shares.is_sorted_by(|one, two| one.source < two.source) {
            return Ok(());
        }
        let _booked = world.book(Purpose::Comm, size_of_val(&self.elements[..]) as u64)?;
        let mut elements = Vec::with_capacity(self.elements.len());
        self.shares.sort_unstable_by_key(|share| (share.source, share.first));
        let mut kept: Vec<Share> = Vec::with_capacity(self.shares.len());
        for share in &self.shares {
            let first = elements.len();
            elements.extend_from_slice(&self.elements[share.first..share.first + share.count]);
            match kept.last_mut() {
                Some(last) if last.source == share.source => last.count += share.count,
                _ => kept.push(Share { first, ..*share }),
            }
        }
        (self.elements, self.shares) = (elements, kept);
        Ok(())
    }

    pub(super) fn arrivals(&self) -> Arrivals<'_, T> {
        Arrivals { elements: &self.elements, shares: &self.shares }
    }
}

/// What came to a rank in a sparse exchange, in the order of those who sent it: from [`SparseExchange::finish`](super::SparseExchange::finish).
#[derive(Clone, Copy)]
pub struct Arrivals<'a, T> {
    elements: &'a [T],
    shares: &'a [Share],
}

impl<T> std::fmt::Debug for Arrivals<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Arrivals({} elements from {} ranks)", self.elements.len(), self.shares.len())
    }
}

impl<'a, T> Arrivals<'a, T> {
    /// All elements: those of the first rank that sent something, then those of the next.
    pub fn elements(&self) -> &'a [T] {
        self.elements
    }

    /// How many elements came.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether nothing came.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// What a rank has sent.
    pub fn from(&self, source: Rank) -> &'a [T] {
        let found = self.shares.binary_search_by_key(&source, |share| share.source);
        found.map_or(&[], |index| self.of(self.shares[index]))
    }

    /// Each rank that has sent something, and what it has sent.
    pub fn iter(&self) -> ArrivalsIter<'a, T> {
        ArrivalsIter { elements: self.elements, shares: self.shares.iter() }
    }

    fn of(&self, share: Share) -> &'a [T] {
        &self.elements[share.first..share.first + share.count]
    }
}

/// Goes through [`Arrivals`].
#[derive(Clone, Debug)]
pub struct ArrivalsIter<'a, T> {
    elements: &'a [T],
    shares: std::slice::Iter<'a, Share>,
}

impl<'a, T> Iterator for ArrivalsIter<'a, T> {
    type Item = (Rank, &'a [T]);

    fn next(&mut self) -> Option<Self::Item> {
        let share = self.shares.next()?;
        Some((share.source, &self.elements[share.first..share.first + share.count]))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.shares.size_hint()
    }
}

impl<T> ExactSizeIterator for ArrivalsIter<'_, T> {}

impl<'a, T> IntoIterator for Arrivals<'a, T> {
    type Item = (Rank, &'a [T]);
    type IntoIter = ArrivalsIter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T> IntoIterator for &Arrivals<'a, T> {
    type Item = (Rank, &'a [T]);
    type IntoIter = ArrivalsIter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

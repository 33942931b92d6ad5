//! What came, in the order of who sent it.

use super::area::{Mail, Piece};
use crate::{Pod, Purpose, Rank, Result, World};
use kumiki_mem::Booking;

/// Records of a round that there is room for without asking, and one for each rank.
const RECORDS: usize = 128;
/// Bytes of a record here: as it lies in the area, and as it is given to the program.
const RECORD_BYTES: usize = size_of::<Piece>() + size_of::<Share>();

/// Records that there is room for without asking where there are so many ranks.
fn records(ranks: u32) -> usize {
    RECORDS.max(ranks as usize)
}

/// Elements of one rank.
#[derive(Clone, Copy, Debug)]
struct Share {
    source: Rank,
    first: usize,
    count: usize,
}

/// What has come to this rank.
pub(super) struct Inbox<T> {
    /// What came, and behind it what came before: nothing is zeroed twice.
    elements: Vec<T>,
    count: usize,
    shares: Vec<Share>,
    /// The records of a round, while they are read.
    pieces: Vec<Piece>,
    /// Elements and records that are booked with the exchange.
    room: usize,
    records: usize,
    /// For more than that.
    booked: Vec<Booking>,
    booked_bytes: u64,
}

impl<T: Pod> Inbox<T> {
    /// Bytes of one for so many elements, of so many ranks.
    pub(super) fn bytes(room: usize, ranks: u32) -> u64 {
        (room * size_of::<T>() + records(ranks) * RECORD_BYTES) as u64
    }

    pub(super) fn new(room: usize, ranks: u32) -> Inbox<T> {
        let (elements, shares, pieces, booked) = Default::default();
        let (records, booked_bytes) = (records(ranks), Self::bytes(room, ranks));
        Inbox { elements, count: 0, shares, pieces, room, records, booked, booked_bytes }
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
        self.shares.clear();
        self.pieces.clear();
        if !self.booked.is_empty() {
            self.elements.truncate(self.room);
            self.elements.shrink_to(self.room);
            self.shares.shrink_to(self.records);
            self.pieces.shrink_to(self.records);
            self.booked.clear();
            self.booked_bytes = (self.room * size_of::<T>() + self.records * RECORD_BYTES) as u64;
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
                let records = (2 * self.pieces.len()).max(self.records) + self.shares.len();
                self.book(world, self.count + count, records)?;
            }
            self.pieces.push(piece);
            (at, count) = (next, count + piece.count as usize);
        }
        let all = self.count + count;
        self.book(world, all, self.shares.len() + self.pieces.len())?;
        if all > self.elements.len() {
            self.elements.reserve_exact(all - self.elements.len());
            self.elements.resize(all, T::zeroed());
        }
        self.pieces.sort_unstable();
        let first_of_round = self.shares.len();
        for index in 0..self.pieces.len() {
            self.take_piece(mail, self.pieces[index], first_of_round)?;
        }
        Ok(())
    }

    fn take_piece(&mut self, mail: Mail<'_>, piece: Piece, first_of_round: usize) -> Result<()> {
        let (first, count) = (self.count, piece.count as usize);
        mail.read(piece, bytemuck::cast_slice_mut(&mut self.elements[first..first + count]))?;
        self.count += count;
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
        let _booked = world.book(Purpose::Comm, (self.count * size_of::<T>()) as u64)?;
        let mut elements = Vec::with_capacity(self.count);
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
        Arrivals { elements: &self.elements[..self.count], shares: &self.shares }
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

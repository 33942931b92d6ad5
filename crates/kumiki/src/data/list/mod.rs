//! Lists: each element on the rank that the program says.
//!
//! | file | what |
//! |---|---|
//! | `chain.rs` | the nodes on this node, and what the owner does for others |
//! | `batch.rs` | work on many ranks at the same time |
//! | `order.rs` | moving elements |
//! | `payloads.rs` | the iterator |

mod batch;
pub(super) mod chain;
mod order;
mod payloads;

pub use payloads::Payloads;

use super::agreement::{share, Handed, Wish};
use super::LIST;
use crate::{Error, GlobalAddress, GlobalPtr, Pod, Rank, Result, World};
use batch::{Batch, MAKE_BYTES};
use chain::{Change, Header, Node, Task, Walk};
use chain::{COUNT, MOVING, NEXT, PAYLOAD, PREVIOUS, STATE, WHOLE};
use chain::{LEFT_COUNT, LEFT_FREE, LEFT_NEXT, LEFT_PREVIOUS};

/// A place in a list: an element, or the end. It stays valid until its element is erased, also when the element moves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Position(GlobalAddress);

impl Position {
    /// The position of the element at an address; of the end, when it is the address of the list.
    pub const fn from_address(address: GlobalAddress) -> Position {
        Position(address)
    }

    /// The address of the element; of the list, for the end.
    pub const fn address(self) -> GlobalAddress {
        self.0
    }
}

/// Where the payload of an element is, and how long it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Element {
    /// The address of the payload.
    pub address: GlobalAddress,
    /// Its length.
    pub bytes: usize,
}

/// A handle to a list of byte strings. The header lives on one rank, and every element on the rank that it was given.
///
/// Programs may read the header (address of the first element, of the last, count) and the elements (address of the
/// next, of the previous, size, payload from byte 24 on). The next of the last element and the previous of the first are
/// the list itself, which is also the address of the end.
///
/// Adding or erasing an element is one round trip to its rank, and one more for each neighbour on another node.
/// Operations on many elements follow the links on each node in one go, decide here, and change links on all ranks
/// at the same time. A list is used by several ranks in turn, not at once; a rank that dies while it moves many elements
/// leaves a list on which everything but [`clear`](Self::clear) and [`destroy`](Self::destroy) fails.
/// When memory runs out nothing has changed.
///
/// ```
/// # fn main() -> kumiki::Result<()> {
/// use kumiki::{data::List, World};
///
/// let world = World::init()?;
/// let mut list = List::create(&world, 0)?;
/// for (index, word) in ["wood", "without", "nails"].iter().enumerate() {
///     list.push_back(word.as_bytes(), index as u32 % world.ranks())?;
/// }
/// list.sort_by(|one, two| one.cmp(two))?;
/// assert_eq!(list.to_vec()?, [&b"nails"[..], b"without", b"wood"]);
/// let second = list.next(list.begin()?)?;
/// list.erase(second)?;
/// assert_eq!(list.len()?, 2);
/// list.destroy()?;
/// # world.finalize()
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct List<'w> {
    world: &'w World,
    address: GlobalAddress,
}

impl std::fmt::Debug for List<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "List({:#x} on rank {})", self.address, self.rank())
    }
}

impl<'w> Handed<'w> for List<'w> {
    fn words(&self) -> [u64; 3] {
        [self.address.bits(), 0, 0]
    }

    fn open(world: &'w World, words: [u64; 3]) -> Result<Self> {
        Ok(List::from_address(world, GlobalAddress::from_bits(words[0])))
    }

    fn discard(self) -> Result<()> {
        self.destroy()
    }
}

impl<'w> List<'w> {
    /// Makes an empty list on a rank.
    pub fn create(world: &'w World, rank: u32) -> Result<Self> {
        let local = world.local();
        world.note(local.check_alive(rank))?;
        let address = match local.is_near(rank) {
            true => world.note(chain::create(local, rank))?,
            false => chain::decode_addresses(&world.call(rank, LIST, Task::Create.encode())?)?
                .pop()
                .unwrap_or(GlobalAddress::NULL),
        };
        Ok(List { world, address })
    }

    /// Makes an empty list on a rank, for all ranks: each gets a handle to the same. Collective: all ranks call it with the same
    /// rank; if they do not, every rank gets an error.
    pub fn shared(world: &'w World, rank: Rank) -> Result<Self> {
        share(world, Wish::new("a list", rank), || Self::create(world, rank))
    }

    /// The list whose header is at an address that [`address`](Self::address) gave, on whichever rank.
    pub fn from_address(world: &'w World, address: GlobalAddress) -> Self {
        List { world, address }
    }

    /// The address of the header: what other ranks need to use it.
    pub fn address(&self) -> GlobalAddress {
        self.address
    }

    /// The rank that the header lives on.
    pub fn rank(&self) -> u32 {
        self.world.local().rank_of(self.address)
    }

    fn header_of_any(&self) -> Result<Header> {
        let local = self.world.local();
        match local.is_near(self.rank()) {
            true => self.world.note(chain::look(local, self.address)),
            false => {
                Header::decode(&self.world.call(self.rank(), LIST, Task::Look(self.address).encode())?)
            }
        }
    }

    fn header(&self) -> Result<Header> {
        self.world.note(self.header_of_any()?.check(self.address))
    }

    /// How many elements it holds.
    pub fn len(&self) -> Result<usize> {
        self.header().map(|header| header.count as usize)
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> Result<bool> {
        self.header().map(|header| header.count == 0)
    }

    /// The first element, or the end.
    pub fn begin(&self) -> Result<Position> {
        self.header().map(|header| Position(header.first))
    }

    /// The last element, or the end.
    pub fn last(&self) -> Result<Position> {
        self.header().map(|header| Position(header.last))
    }

    /// Behind the last element.
    pub fn end(&self) -> Position {
        Position(self.address)
    }

    fn links(&self, node: GlobalAddress) -> Result<[GlobalAddress; 2]> {
        let links: [u64; 2] = self.world.get(GlobalPtr::from_address(node))?;
        Ok(links.map(GlobalAddress::from_bits))
    }

    /// The next element; of the end, the first one.
    pub fn next(&self, position: Position) -> Result<Position> {
        self.links(position.0).map(|[next, _]| Position(next))
    }

    /// The previous element; of the end, the last one.
    pub fn previous(&self, position: Position) -> Result<Position> {
        self.links(position.0).map(|[_, previous]| Position(previous))
    }

    /// The position so many elements further on, or back; no further than the end.
    pub fn advance(&self, position: Position, by: isize) -> Result<Position> {
        let (backwards, mut left) = (by < 0, by.unsigned_abs() as u64);
        let mut node = position.0;
        if node == self.address && left > 0 {
            let header = self.header()?;
            (node, left) = (if backwards { header.last } else { header.first }, left - 1);
        }
        let list = self.address;
        while left > 0 && node != list {
            let mut nodes = Vec::new();
            let walk = Walk { list, from: node, until: list, most: left, backwards, payload: false };
            node = self.step(walk, &mut nodes)?;
            left -= nodes.len() as u64;
        }
        Ok(Position(node))
    }

    /// How many elements it is from one position to another behind it.
    pub fn distance(&self, first: Position, last: Position) -> Result<usize> {
        self.walk(first, last, false).map(|nodes| nodes.len())
    }

    /// Where the payload of an element is.
    pub fn element(&self, position: Position) -> Result<Element> {
        if position == self.end() {
            return self.world.note(Err(Error::Misuse("the end of a list is no element".into())));
        }
        let bytes = self.world.get(GlobalPtr::<u64>::from_address(position.0.add(PAYLOAD - 8)))?;
        Ok(Element { address: position.0.add(PAYLOAD), bytes: bytes as usize })
    }

    /// The payload of an element.
    pub fn read(&self, position: Position) -> Result<Vec<u8>> {
        if position == self.end() {
            return self.world.note(Err(Error::Misuse("the end of a list is no element".into())));
        }
        let walk = Walk {
            list: self.address,
            from: position.0,
            until: self.address,
            most: 1,
            backwards: false,
            payload: true,
        };
        let mut nodes = Vec::new();
        self.step(walk, &mut nodes)?;
        let none = || Error::Misuse("there is no element there".into());
        let node = self.world.note(nodes.pop().ok_or_else(none))?;
        self.payload(node)
    }

    /// The payload of an element that holds a value.
    pub fn value<T: Pod>(&self, position: Position) -> Result<T> {
        let payload = self.read(position)?;
        let value = bytemuck::try_pod_read_unaligned(&payload).map_err(|_| {
            Error::Misuse(format!(
                "an element of {} bytes is no value of {}",
                payload.len(),
                std::mem::size_of::<T>()
            ))
        });
        self.world.note(value)
    }

    fn payload(&self, node: Node) -> Result<Vec<u8>> {
        match node.payload {
            Some(payload) => Ok(payload),
            None => {
                self.world.get_vec(GlobalPtr::from_address(node.address.add(PAYLOAD)), node.bytes as usize)
            }
        }
    }

    /// Puts an element before a position, on a rank.
    pub fn insert(&mut self, position: Position, data: &[u8], rank: u32) -> Result<Position> {
        let (world, local, list, next) = (self.world, self.world.local(), self.address, position.0);
        if next.is_null() || list.is_null() {
            return world.note(Err(Error::Misuse("the null address is no list and no element".into())));
        }
        world.note(local.check_alive(rank))?;
        if data.len() > MAKE_BYTES && !local.is_near(rank) {
            return self.insert_many(position, &[(data, rank)]);
        }
        // The rank of the new element finds the previous one by itself if it shares a node with the next one.
        let together = world.node_of(rank) == world.node_of(local.rank_of(next));
        let previous = if together { GlobalAddress::NULL } else { self.links(next)?[1] };
        let change = match local.is_near(rank) {
            true => world.note(chain::insert(local, rank, list, next, previous, data))?,
            false => Change::decode(&world.call(
                rank,
                LIST,
                Task::Insert { list, next, previous, data }.encode(),
            )?)?,
        };
        let mut batch = Batch::new(world);
        if change.left & LEFT_PREVIOUS != 0 {
            batch.set(change.previous, NEXT, change.element)?;
            batch = self.in_order(batch, change.previous, next)?;
        }
        if change.left & LEFT_NEXT != 0 {
            batch.set(next, PREVIOUS, change.element)?;
        }
        if change.left & LEFT_COUNT != 0 {
            batch.count(list, 1)?;
        }
        batch.finish()?;
        Ok(Position(change.element))
    }

    /// What is to be written to one node before anything is to another: the same batch if one rank writes both, in this order.
    fn in_order(&self, batch: Batch<'w>, one: GlobalAddress, other: GlobalAddress) -> Result<Batch<'w>> {
        let local = self.world.local();
        if local.rank_of(one) == local.rank_of(other) {
            return Ok(batch);
        }
        batch.finish()?;
        Ok(Batch::new(self.world))
    }

    /// Puts an element whose payload lies anywhere in global memory before a position.
    pub fn insert_from(&mut self, position: Position, source: Element, rank: u32) -> Result<Position> {
        let data = self.world.get_vec(GlobalPtr::from_address(source.address), source.bytes)?;
        self.insert(position, &data, rank)
    }

    /// Adds an element at the end, on a rank.
    pub fn push_back(&mut self, data: &[u8], rank: u32) -> Result<Position> {
        self.insert(self.end(), data, rank)
    }

    /// Adds an element at the front, on a rank.
    pub fn push_front(&mut self, data: &[u8], rank: u32) -> Result<Position> {
        let first = self.begin()?;
        self.insert(first, data, rank)
    }

    /// Adds a value at the end, on a rank.
    pub fn push_value<T: Pod>(&mut self, value: &T, rank: u32) -> Result<Position> {
        self.push_back(bytemuck::bytes_of(value), rank)
    }

    /// Puts many elements before a position, each on its rank: all ranks make theirs at the same time. Gives the
    /// position of the first.
    pub fn insert_many(&mut self, position: Position, items: &[(&[u8], u32)]) -> Result<Position> {
        self.header()?;
        let [_, previous] = self.links(position.0)?;
        let elements = self.make(items)?;
        self.link(previous, position.0, &elements)
    }

    /// Links new elements between two nodes.
    fn link(
        &self,
        previous: GlobalAddress,
        next: GlobalAddress,
        elements: &[GlobalAddress],
    ) -> Result<Position> {
        let (Some(&first), Some(&last)) = (elements.first(), elements.last()) else {
            return Ok(Position(next));
        };
        let behind = elements.iter().skip(1).chain([&next]);
        let before = [&previous].into_iter().chain(elements);
        self.change(None, |batch| {
            for ((&element, &behind), &before) in elements.iter().zip(behind).zip(before) {
                batch.set(element, NEXT, behind)?;
                batch.set(element, PREVIOUS, before)?;
            }
            batch.set(previous, NEXT, first)?;
            batch.set(next, PREVIOUS, last)?;
            batch.count(self.address, elements.len() as u64)
        })?;
        Ok(Position(first))
    }

    /// Takes an element out and frees it; gives the next one.
    pub fn erase(&mut self, position: Position) -> Result<Position> {
        let (world, local, list, element) = (self.world, self.world.local(), self.address, position.0);
        let rank = local.rank_of(element);
        let change = match element == list || element.is_null() || local.is_near(rank) {
            true => world.note(chain::erase(local, list, element))?,
            false => Change::decode(&world.call(rank, LIST, Task::Erase { list, element }.encode())?)?,
        };
        let Change { previous, next, left, .. } = change;
        let mut batch = Batch::new(world);
        if left & LEFT_NEXT != 0 {
            batch.set(next, PREVIOUS, previous)?;
            batch = self.in_order(batch, next, previous)?;
        }
        if left & LEFT_PREVIOUS != 0 {
            batch.set(previous, NEXT, next)?;
        }
        if left & LEFT_COUNT != 0 {
            batch.count(list, u64::MAX)?;
        }
        batch.finish()?;
        if left & LEFT_FREE != 0 {
            world.free(element)?;
        }
        Ok(Position(next))
    }

    /// Takes the elements from one position to another out; gives the latter.
    pub fn erase_range(&mut self, first: Position, last: Position) -> Result<Position> {
        let nodes = self.walk(first, last, false)?;
        if nodes.is_empty() {
            return Ok(last);
        }
        let [_, previous] = self.links(first.0)?;
        self.change(None, |batch| {
            batch.set(previous, NEXT, last.0)?;
            batch.set(last.0, PREVIOUS, previous)?;
            batch.count(self.address, (nodes.len() as u64).wrapping_neg())
        })?;
        self.free(nodes.iter().map(|node| node.address).collect())?;
        Ok(last)
    }

    /// Takes the last element; nothing if there is none.
    pub fn pop_back(&mut self) -> Result<Option<Vec<u8>>> {
        let last = self.last()?;
        self.take(last)
    }

    /// Takes the first element; nothing if there is none.
    pub fn pop_front(&mut self) -> Result<Option<Vec<u8>>> {
        let first = self.begin()?;
        self.take(first)
    }

    fn take(&mut self, position: Position) -> Result<Option<Vec<u8>>> {
        if position == self.end() {
            return Ok(None);
        }
        let payload = self.read(position)?;
        self.erase(position)?;
        Ok(Some(payload))
    }

    /// Takes everything out. A list that a dead rank left half changed is whole again, though its elements stay
    /// allocated.
    pub fn clear(&mut self) -> Result<()> {
        let header = self.header_of_any()?;
        let nodes = match header.state == WHOLE {
            true => self.walk(Position(header.first), self.end(), false)?,
            false => Vec::new(),
        };
        // In this order, and in one request: half changed until all of it is done.
        let mut batch = Batch::new(self.world);
        batch.put(self.address.add(STATE), MOVING)?;
        batch.set(self.address, NEXT, self.address)?;
        batch.set(self.address, PREVIOUS, self.address)?;
        batch.put(self.address.add(COUNT), 0)?;
        batch.put(self.address.add(STATE), WHOLE)?;
        batch.finish()?;
        self.free(nodes.iter().map(|node| node.address).collect())
    }

    /// Frees all elements and the list. Dropping a handle does not: other ranks may go on using it.
    pub fn destroy(mut self) -> Result<()> {
        self.clear()?;
        let mut batch = Batch::new(self.world);
        batch.put(self.address.add(STATE), 0)?;
        batch.finish()?;
        self.world.free(self.address)
    }

    /// Puts copies of the elements of a range before a position, on the ranks of the originals. The range may be of
    /// another list, or of this one.
    pub fn insert_range(
        &mut self,
        position: Position,
        other: &List<'_>,
        first: Position,
        last: Position,
    ) -> Result<Position> {
        let copies = other.copies(first, last)?;
        let items: Vec<(&[u8], u32)> = copies.iter().map(|(data, rank)| (&data[..], *rank)).collect();
        self.insert_many(position, &items)
    }

    /// Payloads and ranks of a range.
    fn copies(&self, first: Position, last: Position) -> Result<Vec<(Vec<u8>, u32)>> {
        let nodes = self.walk(first, last, true)?;
        nodes
            .into_iter()
            .map(|node| {
                let rank = self.world.local().rank_of(node.address);
                self.payload(node).map(|payload| (payload, rank))
            })
            .collect()
    }

    /// Becomes a copy of a range of another list, or of its own, on the ranks of the originals.
    pub fn assign_range(&mut self, other: &List<'_>, first: Position, last: Position) -> Result<()> {
        let copies = other.copies(first, last)?;
        let items: Vec<(&[u8], u32)> = copies.iter().map(|(data, rank)| (&data[..], *rank)).collect();
        let elements = self.make(&items)?;
        if let Err(error) = self.clear() {
            let _ = self.free(elements);
            return Err(error);
        }
        self.link(self.address, self.address, &elements).map(drop)
    }

    /// Becomes a copy of another list.
    pub fn assign(&mut self, other: &List<'_>) -> Result<()> {
        if other.address == self.address {
            return Ok(());
        }
        self.assign_range(other, other.begin()?, other.end())
    }

    /// All payloads.
    pub fn to_vec(&self) -> Result<Vec<Vec<u8>>> {
        let nodes = self.walk(self.begin()?, self.end(), true)?;
        nodes.into_iter().map(|node| self.payload(node)).collect()
    }

    /// All payloads, one after the other, fetched in large pieces.
    pub fn iter(&self) -> Payloads<'w> {
        Payloads::new(*self)
    }

    /// The nodes from one position to another behind it.
    fn walk(&self, first: Position, last: Position, payload: bool) -> Result<Vec<Node>> {
        let (list, until) = (self.address, last.0);
        // One more than the count: a rank that died may have left it one short.
        let most = self.header()?.count.saturating_add(1);
        let (mut node, mut nodes) = (first.0, Vec::new());
        while node != until {
            let left = most - (nodes.len() as u64).min(most);
            if node == list || left == 0 {
                let wrong = Error::Misuse("the end of a range of a list is not behind its start".into());
                return self.world.note(Err(wrong));
            }
            node = self
                .step(Walk { list, from: node, until, most: left, backwards: false, payload }, &mut nodes)?;
        }
        Ok(nodes)
    }

    /// Walks as far as one rank can see.
    fn step(&self, walk: Walk, nodes: &mut Vec<Node>) -> Result<GlobalAddress> {
        let local = self.world.local();
        let rank = local.rank_of(walk.from);
        if walk.from.is_null() {
            return self.world.note(Err(Error::Misuse("the null address is no element".into())));
        }
        match local.is_near(rank) {
            true => self.world.note(chain::walk(local, walk, nodes)),
            false => chain::decode_walk(&self.world.call(rank, LIST, Task::Walk(walk).encode())?, nodes),
        }
    }
}

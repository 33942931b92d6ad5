//! The nodes of lists, on this node: what a rank does itself where it can, and the owner does for others.
//!
//! A list is a circle of nodes: its header, and its elements wherever they live. Every node begins with the address of the
//! next and of the previous one; those of the header are the first and the last element, and an empty list is its header
//! alone. Header: next, previous, count, state. Element: next, previous, size, payload.
//!
//! A SIGKILL in the middle of adding or erasing one element leaves every other element reachable forwards, and what is
//! added later too: whoever is reached backwards is always reached forwards. So an element is linked forwards first and
//! backwards then, unlinked the other way round, and freed last. At worst it is missing backwards, the count is wrong by
//! one, or its memory stays taken. Whoever moves many elements marks the header first; if it dies, every operation fails with an
//! error until the list is cleared or destroyed.

use crate::data::heap::{self, Heap};
use crate::data::message::{unknown, Reader, Writer};
use crate::{Error, GlobalAddress, Result};
use kumiki_mem::{Local, Span};

/// Words of every node.
pub(crate) const NEXT: u64 = 0;
pub(crate) const PREVIOUS: u64 = 8;
/// Of a header.
pub(crate) const COUNT: u64 = 16;
pub(crate) const STATE: u64 = 24;
pub(crate) const HEADER_BYTES: u64 = 32;
/// Of an element.
const SIZE: u64 = 16;
pub(crate) const PAYLOAD: u64 = 24;

/// What stands in the state of a header that is whole.
pub(crate) const WHOLE: u64 = u64::from_le_bytes(*b"the list");
/// While many elements move.
pub(crate) const MOVING: u64 = u64::from_le_bytes(*b"changing");

/// Payloads up to this length are read with their elements.
pub(crate) const SHORT_BYTES: u64 = 64 << 10;
/// When a walk has read this much it replies.
const WALK_BYTES: usize = 256 << 10;
const WALK_NODES: u64 = 8192;

const CREATE: u8 = 0;
const LOOK: u8 = 1;
const INSERT: u8 = 2;
const ERASE: u8 = 3;
const WALK: u8 = 4;
const WRITE: u8 = 5;
const MAKE: u8 = 6;
const FREE: u8 = 7;

/// What is left to do after a change, because it is on another node.
pub(crate) const LEFT_PREVIOUS: u64 = 1;
pub(crate) const LEFT_NEXT: u64 = 2;
pub(crate) const LEFT_COUNT: u64 = 4;
/// The element that was taken out is still allocated.
pub(crate) const LEFT_FREE: u64 = 8;

/// What the header says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) first: GlobalAddress,
    pub(crate) last: GlobalAddress,
    pub(crate) count: u64,
    pub(crate) state: u64,
}

/// A change around one element: it, its neighbours, and what is left to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) element: GlobalAddress,
    pub(crate) previous: GlobalAddress,
    pub(crate) next: GlobalAddress,
    pub(crate) left: u64,
}

/// An element as a walk finds it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) address: GlobalAddress,
    pub(crate) bytes: u64,
    /// If it was asked for, and is not long.
    pub(crate) payload: Option<Vec<u8>>,
}

/// Where a walk goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    pub(crate) list: GlobalAddress,
    pub(crate) from: GlobalAddress,
    /// The node before which it ends; it also ends at the header.
    pub(crate) until: GlobalAddress,
    pub(crate) most: u64,
    pub(crate) backwards: bool,
    pub(crate) payload: bool,
}

/// One word to be written, or added to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) at: GlobalAddress,
    pub(crate) value: u64,
    pub(crate) add: bool,
}

/// Something to be done by whoever can touch the nodes.
#[derive(Clone, Debug)]
pub(crate) enum Task<'a> {
    Create,
    Look(GlobalAddress),
    /// A new element before a node; the previous one is given where the owner of the element cannot see it.
    Insert {
        list: GlobalAddress,
        next: GlobalAddress,
        previous: GlobalAddress,
        data: &'a [u8],
    },
    Erase {
        list: GlobalAddress,
        element: GlobalAddress,
    },
    Walk(Walk),
    Write(Vec<Write>),
    /// Elements that are not linked yet.
    Make(Vec<&'a [u8]>),
    Free(Vec<GlobalAddress>),
}

impl<'a> Task<'a> {
    pub(crate) fn encode(self) -> Vec<u8> {
        match self {
            Task::Create => Writer::new(CREATE),
            Task::Look(list) => Writer::new(LOOK).long(list.bits()),
            Task::Insert { list, next, previous, data } => {
                Writer::new(INSERT).long(list.bits()).long(next.bits()).long(previous.bits()).bytes(data)
            }
            Task::Erase { list, element } => Writer::new(ERASE).long(list.bits()).long(element.bits()),
            Task::Walk(Walk { list, from, until, most, backwards, payload }) => Writer::new(WALK)
                .long(list.bits())
                .long(from.bits())
                .long(until.bits())
                .long(most)
                .long(backwards as u64)
                .long(payload as u64),
            Task::Write(writes) => writes.iter().fold(Writer::new(WRITE), |writer, write| {
                writer.long(write.at.bits()).long(write.value).long(write.add as u64)
            }),
            Task::Make(items) => items.iter().fold(Writer::new(MAKE), |writer, item| writer.bytes(item)),
            Task::Free(blocks) => {
                blocks.iter().fold(Writer::new(FREE), |writer, block| writer.long(block.bits()))
            }
        }
        .finish()
    }

    fn decode(request: &'a [u8]) -> Result<Task<'a>> {
        let mut request = Reader::new(request);
        let code = request.byte()?;
        Ok(match code {
            CREATE => Task::Create,
            LOOK => Task::Look(address(&mut request)?),
            INSERT => Task::Insert {
                list: address(&mut request)?,
                next: address(&mut request)?,
                previous: address(&mut request)?,
                data: request.bytes()?,
            },
            ERASE => Task::Erase { list: address(&mut request)?, element: address(&mut request)? },
            WALK => Task::Walk(Walk {
                list: address(&mut request)?,
                from: address(&mut request)?,
                until: address(&mut request)?,
                most: request.long()?,
                backwards: request.long()? != 0,
                payload: request.long()? != 0,
            }),
            WRITE => Task::Write(rest(request, |request| {
                Ok(Write { at: address(request)?, value: request.long()?, add: request.long()? != 0 })
            })?),
            MAKE => Task::Make(rest(request, |request| Ok(request.bytes()?))?),
            FREE => Task::Free(rest(request, address)?),
            code => return Err(unknown(code)),
        })
    }
}

fn address(reader: &mut Reader<'_>) -> Result<GlobalAddress> {
    Ok(GlobalAddress::from_bits(reader.long()?))
}

/// All that is left of a message.
fn rest<'a, T>(mut reader: Reader<'a>, mut one: impl FnMut(&mut Reader<'a>) -> Result<T>) -> Result<Vec<T>> {
    let mut all = Vec::new();
    while !reader.is_empty() {
        all.push(one(&mut reader)?);
    }
    Ok(all)
}

/// Does what another rank asks of lists and elements here.
pub(crate) fn serve(local: Local<'_>, _: u32, request: &[u8], reply: &mut Vec<u8>) -> Result<()> {
    match Task::decode(request)? {
        Task::Create => words(reply, &[create(local, local.rank())?.bits()]),
        Task::Look(list) => {
            let Header { first, last, count, state } = look(local, list)?;
            words(reply, &[first.bits(), last.bits(), count, state]);
        }
        Task::Insert { list, next, previous, data } => {
            insert(local, local.rank(), list, next, previous, data)?.encode(reply);
        }
        Task::Erase { list, element } => erase(local, list, element)?.encode(reply),
        Task::Walk(walk) => {
            let mut nodes = Vec::new();
            words(reply, &[self::walk(local, walk, &mut nodes)?.bits()]);
            for Node { address, bytes, payload } in nodes {
                words(reply, &[address.bits(), bytes, payload.is_some() as u64]);
                if let Some(payload) = payload {
                    words(reply, &[payload.len() as u64]);
                    reply.extend_from_slice(&payload);
                }
            }
        }
        Task::Write(writes) => write(local, &writes)?,
        Task::Make(items) => {
            let elements = make(local, local.rank(), &items)?;
            elements.iter().for_each(|element| words(reply, &[element.bits()]));
        }
        Task::Free(blocks) => free(local, local.rank(), &blocks)?,
    }
    Ok(())
}

fn words(reply: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| reply.extend_from_slice(&word.to_le_bytes()));
}

impl Header {
    pub(crate) fn decode(reply: &[u8]) -> Result<Header> {
        let mut reply = Reader::new(reply);
        let (first, last) = (address(&mut reply)?, address(&mut reply)?);
        Ok(Header { first, last, count: reply.long()?, state: reply.long()? })
    }
}

impl Change {
    fn encode(self, reply: &mut Vec<u8>) {
        words(reply, &[self.element.bits(), self.previous.bits(), self.next.bits(), self.left]);
    }

    pub(crate) fn decode(reply: &[u8]) -> Result<Change> {
        let mut reply = Reader::new(reply);
        let (element, previous, next) = (address(&mut reply)?, address(&mut reply)?, address(&mut reply)?);
        Ok(Change { element, previous, next, left: reply.long()? })
    }
}

/// The nodes of a reply to a walk, and where it stopped.
pub(crate) fn decode_walk(reply: &[u8], nodes: &mut Vec<Node>) -> Result<GlobalAddress> {
    let mut reply = Reader::new(reply);
    let stopped = address(&mut reply)?;
    while !reply.is_empty() {
        let (address, bytes, has_payload) = (address(&mut reply)?, reply.long()?, reply.long()? != 0);
        let payload = if has_payload { Some(reply.bytes()?.to_vec()) } else { None };
        nodes.push(Node { address, bytes, payload });
    }
    Ok(stopped)
}

/// The addresses of a reply.
pub(crate) fn decode_addresses(reply: &[u8]) -> Result<Vec<GlobalAddress>> {
    rest(Reader::new(reply), address)
}

/// Makes an empty list.
pub(crate) fn create(local: Local<'_>, rank: u32) -> Result<GlobalAddress> {
    let list = Heap::open(local, rank)?.allocate(HEADER_BYTES)?;
    let header = local.span(list, HEADER_BYTES)?;
    header.store(NEXT, list.bits())?;
    header.store(PREVIOUS, list.bits())?;
    header.store(COUNT, 0)?;
    header.store(STATE, WHOLE)?;
    Ok(list)
}

/// What the header of a list on this node says; it may be half changed.
pub(crate) fn look(local: Local<'_>, list: GlobalAddress) -> Result<Header> {
    let no_list = || Error::Misuse(format!("there is no list at {list:#x}"));
    if list.is_null() {
        return Err(no_list());
    }
    let header = heap::header(local, list, HEADER_BYTES, no_list)?;
    let state = header.load(STATE)?;
    if state != WHOLE && state != MOVING {
        return Err(no_list());
    }
    let word = |at: u64| header.load(at).map(GlobalAddress::from_bits);
    Ok(Header { first: word(NEXT)?, last: word(PREVIOUS)?, count: header.load(COUNT)?, state })
}

impl Header {
    /// Fails if somebody died while it moved elements.
    pub(crate) fn check(self, list: GlobalAddress) -> Result<Header> {
        if self.state == WHOLE {
            return Ok(self);
        }
        Err(Error::Refused(format!(
            "the list at {list:#x} is half changed: a rank died in the middle, or two ranks use it at once; clear or \
             destroy it"
        )))
    }
}

/// The links of a node, if it is on this node.
fn links<'a>(local: Local<'a>, node: GlobalAddress) -> Result<Option<Span<'a>>> {
    match local.is_near(local.rank_of(node)) {
        true => local.span(node, 16).map(Some),
        false => Ok(None),
    }
}

/// The header, if it is on this node; whole.
fn near_header<'a>(local: Local<'a>, list: GlobalAddress) -> Result<Option<Span<'a>>> {
    if !local.is_near(local.rank_of(list)) {
        return Ok(None);
    }
    look(local, list)?.check(list)?;
    local.span(list, HEADER_BYTES).map(Some)
}

/// Refuses a position whose element has been erased, before anything is written where its neighbours were.
fn check_element(heap: &Heap<'_>, element: GlobalAddress) -> Result<()> {
    match heap.holds(element)? {
        true => Ok(()),
        false => Err(Error::Misuse(format!("there is no element at {element:#x}: it has been erased"))),
    }
}

fn count_by(header: Span<'_>, by: u64) -> Result<()> {
    header.store(COUNT, header.load(COUNT)?.wrapping_add(by))
}

/// Makes an element on a rank of this node and links it as far as its neighbours are on this node too.
pub(crate) fn insert(
    local: Local<'_>,
    rank: u32,
    list: GlobalAddress,
    next: GlobalAddress,
    previous: GlobalAddress,
    data: &[u8],
) -> Result<Change> {
    let header = near_header(local, list)?;
    let behind = links(local, next)?;
    if behind.is_some() && next != list {
        check_element(&Heap::open(local, local.rank_of(next))?, next)?;
    }
    let previous = match behind {
        Some(behind) => GlobalAddress::from_bits(behind.load(PREVIOUS)?),
        None => previous,
    };
    let before = links(local, previous)?;
    let element = Heap::open(local, rank)?.allocate(PAYLOAD + data.len() as u64)?;
    fill(local, element, next, previous, data)?;
    let mut left = 0;
    match before {
        Some(before) => before.store(NEXT, element.bits())?,
        None => left |= LEFT_PREVIOUS,
    }
    // Not backwards before forwards.
    match behind.filter(|_| left == 0) {
        Some(behind) => behind.store(PREVIOUS, element.bits())?,
        None => left |= LEFT_NEXT,
    }
    match header {
        Some(header) => count_by(header, 1)?,
        None => left |= LEFT_COUNT,
    }
    Ok(Change { element, previous, next, left })
}

fn fill(
    local: Local<'_>,
    element: GlobalAddress,
    next: GlobalAddress,
    previous: GlobalAddress,
    data: &[u8],
) -> Result<()> {
    let span = local.span(element, PAYLOAD + data.len() as u64)?;
    span.store(NEXT, next.bits())?;
    span.store(PREVIOUS, previous.bits())?;
    span.store(SIZE, data.len() as u64)?;
    span.write(PAYLOAD, data)
}

/// Takes an element of this node out, as far as its neighbours are on this node; frees it when all of that is done.
pub(crate) fn erase(local: Local<'_>, list: GlobalAddress, element: GlobalAddress) -> Result<Change> {
    if element == list || element.is_null() {
        return Err(Error::Misuse("the end of a list cannot be erased".into()));
    }
    let header = near_header(local, list)?;
    let mut heap = Heap::open(local, local.rank_of(element))?;
    check_element(&heap, element)?;
    let own = local.span(element, PAYLOAD)?;
    let (next, previous) = (own.load(NEXT)?, own.load(PREVIOUS)?);
    let (next, previous) = (GlobalAddress::from_bits(next), GlobalAddress::from_bits(previous));
    let (behind, before) = (links(local, next)?, links(local, previous)?);
    let mut left = 0;
    match behind {
        Some(behind) => behind.store(PREVIOUS, previous.bits())?,
        None => left |= LEFT_NEXT,
    }
    // Not forwards before backwards.
    match before.filter(|_| left == 0) {
        Some(before) => before.store(NEXT, next.bits())?,
        None => left |= LEFT_PREVIOUS,
    }
    match header {
        Some(header) => count_by(header, u64::MAX)?,
        None => left |= LEFT_COUNT,
    }
    if left == 0 {
        heap.free(element)?;
    } else {
        left |= LEFT_FREE;
    }
    Ok(Change { element, previous, next, left })
}

/// Follows the links over the nodes of this node; gives the node at which it stopped.
pub(crate) fn walk(local: Local<'_>, walk: Walk, nodes: &mut Vec<Node>) -> Result<GlobalAddress> {
    let (mut node, mut read, mut seen) = (walk.from, 0, 0);
    let link = if walk.backwards { PREVIOUS } else { NEXT };
    while node != walk.until && node != walk.list && seen < walk.most.min(WALK_NODES) && read < WALK_BYTES {
        if !local.is_near(local.rank_of(node)) {
            break;
        }
        let span = local.span(node, PAYLOAD)?;
        let bytes = span.load(SIZE)?;
        let payload = match walk.payload && bytes <= SHORT_BYTES {
            true => {
                let mut payload = vec![0; bytes as usize];
                local.span(node.add(PAYLOAD), bytes)?.read(0, &mut payload)?;
                read += payload.len();
                Some(payload)
            }
            false => None,
        };
        nodes.push(Node { address: node, bytes, payload });
        (node, seen) = (GlobalAddress::from_bits(span.load(link)?), seen + 1);
    }
    Ok(node)
}

/// Writes words of nodes of this node.
pub(crate) fn write(local: Local<'_>, writes: &[Write]) -> Result<()> {
    for &Write { at, value, add } in writes {
        let word = local.span(at, 8)?;
        let value = if add { word.load(0)?.wrapping_add(value) } else { value };
        word.store(0, value)?;
    }
    Ok(())
}

/// Makes elements that are not linked yet: all, or none.
pub(crate) fn make(local: Local<'_>, rank: u32, items: &[&[u8]]) -> Result<Vec<GlobalAddress>> {
    let mut heap = Heap::open(local, rank)?;
    let mut elements = Vec::with_capacity(items.len());
    for item in items {
        let made = heap.allocate(PAYLOAD + item.len() as u64).and_then(|element| {
            elements.push(element);
            fill(local, element, GlobalAddress::NULL, GlobalAddress::NULL, item)
        });
        if let Err(error) = made {
            elements.iter().for_each(|&element| drop(heap.free(element)));
            return Err(error);
        }
    }
    Ok(elements)
}

/// Frees blocks of one rank of this node.
pub(crate) fn free(local: Local<'_>, rank: u32, blocks: &[GlobalAddress]) -> Result<()> {
    let mut heap = Heap::open(local, rank)?;
    let mut freed = Ok(());
    for &block in blocks {
        freed = heap.free(block).and(freed);
    }
    freed
}

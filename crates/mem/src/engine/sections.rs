//! Copies that are more than a range of bytes: shapes, and puts with a signal. One message, and one answer.
//!
//! The message begins with a *recipe*, which says where the bytes behind it belong, or which bytes are wanted, and which word is to be
//! changed when they are there. Its owner reads and checks all of it before it touches anything. It is kept while the bytes come, or
//! until those that were asked for are sent.
//!
//! A recipe says where to write, and is no header: its digest is in the header, whose tag vouches for it. Nothing is done by one that
//! differs, not even before the checksum of its frame is known.

use crate::engine::frames::{self, answer};
use crate::engine::operations::Action;
use crate::engine::serve;
use crate::engine::Feed;
use crate::node::access::{Access, Reach};
use crate::node::address::{GlobalAddress, Registration};
use crate::node::atomic::{self, AtomicCall};
use crate::node::ledger::{Books, Purpose};
use crate::node::shape::{move_shape, Laid, Shape};
use crate::node::Node;
use crate::{Error, Result};
use kumiki_net::auth;
use kumiki_net::contract::{Message, Outbox, Payload, Source, FLAG_MORE};
use kumiki_net::os::socket::Place;
use kumiki_net::wire::Header;
use kumiki_net::Rank;
use std::collections::HashMap;

/// `Source::kind` for the recipe of an operation and the bytes behind it; the place is its number.
pub(crate) const SOURCE_SECTION: u64 = 5;
/// `Source::kind` for the bytes of a shape that another rank wants; the place is their number here.
const SOURCE_GATHERED: u64 = 6;
/// The most bytes of a recipe: lists that are longer are cut.
pub(crate) const MAX_RECIPE_BYTES: u64 = 64 << 10;
/// So many pieces of a list fit into a recipe.
pub(crate) const MOST_PIECES: usize = (MAX_RECIPE_BYTES as usize / 8 - HEAD_WORDS - 2) / 2;
const HEAD_WORDS: usize = 8;
/// Bytes of the tables for a recipe beside its own, for the ledger. It is kept as it came, and read.
const KEPT_BYTES: u64 = 256;
/// So much is taken for recipes even if the budget is spent: a signal may be what somebody waits for who gives memory back.
const RESERVE_BYTES: u64 = 16 << 10;

/// Recipes of one peer that are coming at a time: frames come one after the other over a connection, and there are few of these.
const MOST_OF_A_PEER: usize = 8;
/// The most bytes of recipes whose bytes one peer wants and has not taken.
const MOST_WANTED_BYTES: u64 = 64 << 20;
/// How often a byte may be asked for at once: windows that overlap, but not one byte for ever.
const MOST_REPEATS: u64 = 4096;

/// Memory of another rank: what a recipe says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Recipe {
    pub(crate) address: GlobalAddress,
    pub(crate) registration: Registration,
    pub(crate) shape: Shape,
    /// Where the whole begins that this is a part of, and how far it reaches: all of it must be there.
    pub(crate) whole_low: i64,
    pub(crate) whole_span: u64,
    /// What is done to a word when the bytes are there.
    pub(crate) signal: Option<AtomicCall>,
}

fn packed(registration: Registration) -> u64 {
    u64::from(registration.generation()) | u64::from(registration.slot()) << 16
}

impl Recipe {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut words = vec![self.address.bits(), packed(self.registration)];
        words.extend(match &self.signal {
            Some(call) => {
                let what = packed(call.registration) | u64::from(call.code) << 32;
                [call.target.bits(), what, call.first, call.second]
            }
            None => [0; 4],
        });
        words.extend([self.whole_low as u64, self.whole_span]);
        words.extend(self.shape.words());
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// What is asked of the owner of the memory: that it takes bytes, or gives them.
    pub(crate) fn action(&self, to: Rank, wants: bool) -> Action {
        let recipe = self.encode();
        let (recipe_bytes, digest) = (recipe.len() as u32, auth::digest(&recipe));
        Action::Shape { to, digest, bytes: self.shape.total(), recipe_bytes, wants }
    }

    /// A recipe that has come to this rank; whatever it is about must be this rank's own.
    fn decode(node: &Node, bytes: &[u8]) -> Result<Recipe> {
        let wrong = || Error::misuse("a recipe that cannot be read");
        let (chunks, rest) = bytes.as_chunks::<8>();
        let words: Vec<u64> = chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect();
        let (head, shape) =
            words.split_first_chunk::<HEAD_WORDS>().filter(|_| rest.is_empty()).ok_or_else(wrong)?;
        let &[address, registration, target, what, first, second, whole_low, whole_span] = head;
        let named = |word: u64| match (word >> 16) as u16 {
            0 => Registration::of_generation(word as u16),
            slot => node.format.registration(node.rank, slot, word as u16),
        };
        let code = (what >> 32) as u8;
        let call = || AtomicCall {
            target: GlobalAddress::from_bits(target),
            registration: named(what),
            code,
            first,
            second,
        };
        Ok(Recipe {
            address: GlobalAddress::from_bits(address),
            registration: named(registration),
            shape: Shape::of_words(shape)?,
            whole_low: whole_low as i64,
            whole_span,
            signal: (code != 0).then(call),
        })
    }

    /// Where the lowest byte of the shape lies in this rank's own memory, with the engine held.
    fn lowest(&self, node: &Node, access: Access) -> Result<Reach> {
        let start = GlobalAddress::from_bits(self.address.bits().wrapping_add_signed(self.shape.low()));
        serve::owned(node, start, self.registration, self.shape.span(), access).map(Reach::Direct)
    }

    /// Refuses what cannot be done, before anything is.
    fn check(&self, node: &Node, access: Access) -> Result<()> {
        let start = GlobalAddress::from_bits(self.address.bits().wrapping_add_signed(self.whole_low));
        serve::owned(node, start, self.registration, self.whole_span, access)?;
        self.lowest(node, access)?;
        if self.shape.total() / MOST_REPEATS > self.shape.span() {
            return Err(Error::misuse("a shape that goes over the same bytes again and again"));
        }
        let Some(call) = &self.signal else { return Ok(()) };
        let bytes = atomic::width(call.code)?;
        let word = serve::owned(node, call.target, call.registration, bytes, Access::Write)?;
        match (word as u64).is_multiple_of(bytes) && access == Access::Write {
            true => Ok(()),
            false => Err(atomic::misaligned(call.target, bytes)),
        }
    }
}

/// Memory of this process on the other side of an operation: a shape of bytes that the caller lends until the operation is over.
#[derive(Clone, Debug)]
pub(crate) struct Near {
    /// The lowest byte of the shape.
    pub(crate) lowest: usize,
    pub(crate) shape: Shape,
    /// The byte of it that the operation begins with, and how many it is about.
    pub(crate) first: u64,
    pub(crate) bytes: u64,
}

impl Near {
    pub(crate) fn laid(&self) -> Laid<'_> {
        Laid { lowest: Reach::Direct(self.lowest as *mut u8), shape: &self.shape }
    }
}

/// An operation of ours.
#[derive(Debug)]
struct Own {
    recipe: Vec<u8>,
    near: Near,
    /// Whether the bytes come to us; else the memory is only read.
    wants: bool,
}

/// A recipe of another rank that is coming, or whose bytes are.
#[derive(Debug)]
struct Arriving {
    /// Its sender, and its number there.
    key: (Rank, u64),
    /// How long it is.
    length: u64,
    bytes: Vec<u8>,
    booked: u64,
    /// What it says, once it has come wholly, or what is wrong with it.
    read: Option<Result<Recipe>>,
    /// Bytes that are at their place.
    landed: u64,
}

/// Bytes that another rank wants.
#[derive(Debug)]
struct Gathered {
    to: Rank,
    recipe: Recipe,
    booked: u64,
}

/// Recipes, of ours and of others.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    own: HashMap<u64, Own>,
    arriving: Vec<Arriving>,
    gathered: HashMap<u64, Gathered>,
    next: u64,
    /// Bytes of all of these, for the ledger.
    bytes: u64,
}

/// A shape of bytes in a buffer: all of it, in order.
fn flat(bytes: usize) -> Result<Shape> {
    Shape::of_rows(bytes as u64, &[])
}

impl Sections {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// An operation of ours begins.
    pub(crate) fn begin(&mut self, id: u64, recipe: Vec<u8>, near: Near, wants: bool) {
        self.bytes += recipe.len() as u64 + KEPT_BYTES;
        self.own.insert(id, Own { recipe, near, wants });
    }

    /// Whether something is kept for others that gives its memory back by itself.
    pub(crate) fn is_serving(&self) -> bool {
        !self.arriving.is_empty() || !self.gathered.is_empty()
    }

    /// It is over: the memory that was lent for it is not touched any more. Whether there was something of it.
    pub(crate) fn end(&mut self, id: u64) -> bool {
        let own = self.own.remove(&id);
        self.bytes -= own.as_ref().map_or(0, |own| own.recipe.len() as u64 + KEPT_BYTES);
        own.is_some()
    }

    /// A peer is gone: nothing of it will be answered.
    pub(crate) fn forget_peer(&mut self, peer: Rank) {
        self.arriving.retain(|arriving| arriving.key.0 != peer);
        self.gathered.retain(|_, gathered| gathered.to != peer);
        let own = self.own.values().map(|own| own.recipe.len() as u64 + KEPT_BYTES);
        let others = self.arriving.iter().map(|arriving| arriving.booked);
        let gathered = self.gathered.values().map(|gathered| gathered.booked);
        self.bytes = own.chain(others).chain(gathered).sum();
    }

    /// Makes room for a recipe of a peer, if there is some.
    fn admit(&mut self, books: &Books, key: (Rank, u64), length: u64) {
        // What is read of it takes no more than it does itself, twice.
        let booked = 3 * length + KEPT_BYTES;
        self.discard(key);
        let of_peer = |arriving: &&Arriving| arriving.key.0 == key.0;
        if self.arriving.iter().filter(of_peer).count() >= MOST_OF_A_PEER {
            // Their last parts were lost with a connection, or never meant to come.
            let oldest = self.arriving.iter().find(of_peer).map(|arriving| arriving.key);
            oldest.and_then(|oldest| self.discard(oldest));
        }
        if books.book(Purpose::Operation, booked).is_err() {
            if self.bytes + booked > RESERVE_BYTES {
                return;
            }
            books.set(Purpose::Operation, books.of(Purpose::Operation) + booked);
        }
        self.bytes += booked;
        let bytes = Vec::with_capacity(length as usize);
        self.arriving.push(Arriving { key, length, bytes, booked, read: None, landed: 0 });
    }

    /// Forgets what a peer began to send under a number.
    fn discard(&mut self, key: (Rank, u64)) -> Option<Arriving> {
        let index = self.arriving.iter().position(|arriving| arriving.key == key)?;
        let arriving = self.arriving.remove(index);
        self.bytes -= arriving.booked;
        Some(arriving)
    }

    /// A part of a recipe, or of the bytes behind it, has come.
    pub(crate) fn part(&mut self, node: &Node, from: Rank, header: &Header, at: u32, bytes: &[u8]) {
        let key = (from, header.op);
        let mut offset = header.d.saturating_add(at as u64);
        let (length, mut bytes) = (header.b, bytes);
        if length > MAX_RECIPE_BYTES {
            return;
        }
        if offset == 0 {
            self.admit(&node.books, key, length);
        }
        let is_it = |arriving: &&mut Arriving| arriving.key == key && arriving.length == length;
        let Some(arriving) = self.arriving.iter_mut().find(is_it) else { return };
        if arriving.read.is_none() {
            let left = length.saturating_sub(offset) as usize;
            if offset != arriving.bytes.len() as u64 {
                return;
            }
            let (recipe, rest) = bytes.split_at(bytes.len().min(left));
            arriving.bytes.extend_from_slice(recipe);
            if (arriving.bytes.len() as u64) < length {
                return;
            }
            let access = if header.kind == frames::SCATTER { Access::Write } else { Access::Read };
            let read = match auth::digest(&arriving.bytes) == header.a {
                true => Recipe::decode(node, &arriving.bytes),
                false => Err(Error::misuse("a recipe that was changed on its way")),
            };
            let read = read.and_then(|recipe| recipe.check(node, access).map(|()| recipe));
            let is_as_long = |recipe: &Recipe| recipe.shape.total() == header.c;
            arriving.read = Some(match read {
                Ok(recipe) if !is_as_long(&recipe) => Err(Error::misuse("a shape of another length")),
                read => read,
            });
            (offset, bytes) = (length, rest);
        }
        let first =
            offset.checked_sub(length).filter(|_| header.kind == frames::SCATTER && !bytes.is_empty());
        if let Some(first) = first {
            arriving.land(node, first, bytes);
        }
    }

    /// Fills a piece of a payload that is about to be sent; `None` if the source is not ours.
    pub(crate) fn fill(
        &mut self,
        node: &Node,
        source: Source,
        offset: u64,
        place: &mut [u8],
    ) -> Option<bool> {
        match source.kind {
            SOURCE_SECTION => {
                let own = self.own.get(&source.place);
                Some(own.is_some_and(|own| own.fill(node, offset, place)))
            }
            SOURCE_GATHERED => {
                let end = offset + place.len() as u64;
                let gathered = self.gathered.get(&source.place);
                let filled = gathered.is_some_and(|gathered| gathered.fill(node, offset, place));
                let is_last = gathered.is_none_or(|gathered| end >= gathered.recipe.shape.total());
                if !filled || is_last {
                    let sent = self.gathered.remove(&source.place);
                    self.bytes -= sent.map_or(0, |gathered| gathered.booked);
                }
                Some(filled)
            }
            _ => None,
        }
    }

    /// Shows the memory where a part of an answer to an operation of ours belongs, if that is one piece: it is received there.
    pub(crate) fn room(&self, header: &Header, at: u32, bytes: usize) -> Option<Place<'_>> {
        let own = self.own.get(&header.op).filter(|own| own.wants && own.near.shape.is_one_piece())?;
        let offset = header.d.checked_add(u64::from(at))?;
        let end = offset.checked_add(bytes as u64)?;
        if end > own.near.bytes || own.near.first.checked_add(end)? > own.near.shape.total() {
            return None;
        }
        let pointer = (own.near.lowest + (own.near.first + offset) as usize) as *mut u8;
        // SAFETY: the range lies within the shape, whose memory is lent while the operation is in the table, which is changed with the engine held.
        Some(unsafe { Place::new(pointer, bytes) })
    }

    /// All bytes that an operation of ours wants are there: whoever waits for one of them is woken.
    pub(crate) fn came(&self, node: &Node, op: u64) {
        if let Some(own) = self.own.get(&op).filter(|own| own.wants) {
            node.wrote(own.near.lowest as *const u8);
        }
    }

    /// Puts a part of an answer where an operation of ours wants it; `None` if it is none of these.
    pub(crate) fn land(&self, node: &Node, header: &Header, at: u32, bytes: &[u8]) -> Option<bool> {
        let own = self.own.get(&header.op)?;
        if !own.wants {
            return Some(false);
        }
        let offset = header.d.saturating_add(at as u64);
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > own.near.bytes) {
            return Some(false);
        }
        let Ok(shape) = flat(bytes.len()) else { return Some(false) };
        let sources = Laid { lowest: Reach::Direct(bytes.as_ptr() as *mut u8), shape: &shape };
        let near = own.near.laid();
        Some(move_shape(node, near, own.near.first + offset, sources, 0, bytes.len() as u64) == Ok(true))
    }
}

impl Own {
    fn fill(&self, node: &Node, offset: u64, place: &mut [u8]) -> bool {
        let recipe = self.recipe.get(offset.min(self.recipe.len() as u64) as usize..).unwrap_or_default();
        let (head, rest) = place.split_at_mut(place.len().min(recipe.len()));
        head.copy_from_slice(&recipe[..head.len()]);
        let first = (offset + head.len() as u64).saturating_sub(self.recipe.len() as u64);
        if first + rest.len() as u64 > self.near.bytes {
            return false;
        }
        let Ok(shape) = flat(rest.len()) else { return false };
        let buffer = Laid { lowest: Reach::Direct(rest.as_mut_ptr()), shape: &shape };
        move_shape(node, buffer, 0, self.near.laid(), self.near.first + first, rest.len() as u64) == Ok(true)
    }
}

impl Arriving {
    /// Puts bytes where the recipe says. What cannot be is an error of the whole.
    fn land(&mut self, node: &Node, first: u64, bytes: &[u8]) {
        let Some(Ok(recipe)) = &self.read else { return };
        let end = first.checked_add(bytes.len() as u64);
        let landed = match end {
            Some(end) if end <= recipe.shape.total() && first == self.landed => {
                recipe.lowest(node, Access::Write).and_then(|lowest| {
                    let shape = flat(bytes.len())?;
                    let sources = Laid { lowest: Reach::Direct(bytes.as_ptr() as *mut u8), shape: &shape };
                    let targets = Laid { lowest, shape: &recipe.shape };
                    move_shape(node, targets, first, sources, 0, bytes.len() as u64)
                })
            }
            _ => Err(Error::misuse("bytes that the shape has no place for")),
        };
        match landed {
            Ok(true) => self.landed += bytes.len() as u64,
            Ok(false) => {
                self.read = Some(Err(Error::Refused("memory of this rank could not be written".into())))
            }
            Err(error) => self.read = Some(Err(error)),
        }
    }
}

impl Gathered {
    fn fill(&self, node: &Node, offset: u64, place: &mut [u8]) -> bool {
        let (Ok(lowest), Ok(shape)) = (self.recipe.lowest(node, Access::Read), flat(place.len())) else {
            return false;
        };
        let buffer = Laid { lowest: Reach::Direct(place.as_mut_ptr()), shape: &shape };
        let sources = Laid { lowest, shape: &self.recipe.shape };
        let bytes = place.len() as u64;
        offset + bytes <= self.recipe.shape.total()
            && move_shape(node, buffer, 0, sources, offset, bytes) == Ok(true)
    }
}

/// The message that brings a recipe of this digest and length.
pub(crate) fn request(digest: u64, bytes: u64, recipe_bytes: u32, wants: bool) -> Message {
    let (kind, b) = (if wants { frames::GATHER } else { frames::SCATTER }, u64::from(recipe_bytes));
    let header = Header { kind, a: digest, b, c: bytes, ..Header::default() };
    let data = if wants { 0 } else { bytes };
    frames::question(header, Payload::Lazy(Source { place: 0, kind: SOURCE_SECTION }, b + data))
}

/// The recipe of a frame that is complete.
fn taken(feed: &mut Feed<'_>, from: Rank, header: &Header) -> Result<Arriving> {
    let taken = feed.engine.sections.discard((from, header.op));
    let left = feed.node.books.left();
    match taken {
        Some(arriving) => Ok(arriving),
        None if header.b > MAX_RECIPE_BYTES => Err(Error::misuse("a recipe that is too long")),
        None => {
            Err(Error::OutOfMemory { asked: header.b, left, what: "the budget of the rank that is asked" })
        }
    }
}

/// The last part of a put by recipe is here: changes the word, and answers.
pub(crate) fn serve_scatter(feed: &mut Feed<'_>, from: Rank, path: u32, header: &Header, out: &mut Outbox) {
    if header.flags & FLAG_MORE != 0 {
        return;
    }
    let done = taken(feed, from, header).and_then(|arriving| {
        let recipe = arriving.read.unwrap_or_else(|| Err(Error::misuse("a recipe that is cut off")))?;
        if arriving.landed != recipe.shape.total() {
            return Err(Error::misuse("fewer bytes than the shape has"));
        }
        let signal = recipe.signal.as_ref();
        signal.map_or(Ok(()), |call| serve::perform_owned(feed.node, call).map(drop))
    });
    feed.settle();
    out.messages.push((from, frames::done(header.op, &done, path)));
}

/// A recipe of what somebody wants is here: answers with the bytes.
pub(crate) fn serve_gather(feed: &mut Feed<'_>, from: Rank, path: u32, header: &Header, out: &mut Outbox) {
    if header.flags & FLAG_MORE != 0 {
        return;
    }
    let recipe = taken(feed, from, header).and_then(|arriving| {
        let booked = arriving.booked;
        let wanted = feed.engine.sections.gathered.values().filter(|gathered| gathered.to == from);
        let wanted: u64 = wanted.map(|gathered| gathered.booked).sum();
        if wanted + booked > MOST_WANTED_BYTES {
            let left = MOST_WANTED_BYTES.saturating_sub(wanted);
            return Err(Error::OutOfMemory {
                asked: booked,
                left,
                what: "what one rank may ask of another at once",
            });
        }
        let read = arriving.read.unwrap_or_else(|| Err(Error::misuse("a recipe that is cut off")));
        read.map(|recipe| (recipe, booked))
    });
    let message = match recipe {
        Ok((recipe, _)) if recipe.shape.total() == 0 => frames::done(header.op, &Ok(()), path),
        Ok((recipe, booked)) => {
            let bytes = recipe.shape.total();
            let sections = &mut feed.engine.sections;
            sections.next += 1;
            sections.bytes += booked;
            sections.gathered.insert(sections.next, Gathered { to: from, recipe, booked });
            let source = Source { place: sections.next, kind: SOURCE_GATHERED };
            let reply = Header { kind: frames::DATA, op: header.op, b: path as u64, ..Header::default() };
            answer(reply, Payload::Lazy(source, bytes), path)
        }
        Err(error) => frames::done(header.op, &Err(error), path),
    };
    feed.settle();
    out.messages.push((from, message));
}

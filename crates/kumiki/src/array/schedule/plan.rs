//! Plans: what a rank sends, gets and keeps in a copy or a reflect, ready to run any number of times.

use super::exchange::{Copies, Exchange, Found};
use super::gather;
use super::lines::{End, Line};
use super::parcels::Parcels;
use super::reach::Layout;
use crate::array::space::{misuse, Mapping, Nodes, Section, Shadow, Span};
use crate::comm::rows;
use crate::{Error, Purpose, Rank, Result, World};
use kumiki_mem::Booking;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How much of the shadow of a dimension a reflect fills.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Width {
    /// So many cells below what a node has…
    pub low: u64,
    /// …and above.
    pub high: u64,
    /// Whether the dimension closes to a ring.
    pub periodic: bool,
}

impl Width {
    /// Nothing.
    pub const NONE: Width = Width { low: 0, high: 0, periodic: false };

    /// All of the shadow of each dimension.
    pub fn all(mapping: &Mapping) -> Vec<Width> {
        let whole = |shadow: Shadow| match shadow.widths() {
            Some((low, high)) => Width { low, high, periodic: false },
            None => Width { low: 1, high: 1, periodic: false },
        };
        mapping.dimensions().iter().map(|dimension| whole(dimension.shadow())).collect()
    }
}

/// What a plan costs a rank when it runs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cost {
    /// Bytes that it sends.
    pub sent: u64,
    /// Bytes that it gets.
    pub received: u64,
    /// Bytes that it copies within its own memory.
    pub kept: u64,
    /// How many ranks it sends to.
    pub receivers: u32,
    /// How many ranks it gets from.
    pub senders: u32,
    /// How many pieces, which are rows at regular distances, all of that has.
    pub pieces: u64,
}

/// What one rank exchanges with another.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) rank: Rank,
    pub(super) pieces: Vec<rows::Section>,
    pub(super) bytes: usize,
}

/// What a rank does in a copy of a section, a reflect, or a redistribution: known before it runs, and the same each time. Elements are bytes here: what runs is
/// given the local parts as they lie in memory.
///
/// ```
/// use kumiki::array::{Align, Format, Mapping, Nodes, Plan, Shadow, Template};
///
/// # fn main() -> kumiki::Result<()> {
/// // What rank 1 of 4 exchanges when 1,000 elements of 8 bytes go from blocks to a distribution in turn.
/// let nodes = Nodes::line(4);
/// let array = |format| {
///     let template = Template::new(&[(0, 999)], &[format], &nodes)?;
///     Mapping::new(&template, &[1000], &[Align::with(0, 0)], &[Shadow::NONE])
/// };
/// let (blocks, turns) = (array(Format::Block(None))?, array(Format::Cyclic(1))?);
/// let plan = Plan::copy_of(1, &nodes, 8, (&turns, &turns.whole()), (&blocks, &blocks.whole()))?;
/// let cost = plan.cost();
/// assert_eq!((cost.receivers, cost.sent, cost.kept), (3, 188 * 8, 62 * 8));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) sends: Vec<Peer>,
    pub(super) takes: Vec<Peer>,
    /// From where to where this rank copies by itself.
    pub(super) own: Vec<(rows::Section, rows::Section)>,
    /// Bytes of the local parts.
    pub(super) from_bytes: usize,
    pub(super) to_bytes: usize,
    pub(super) element: usize,
    /// Whether nothing that it writes in one memory is anything that it reads there: own cells and shadow.
    pub(super) is_apart: bool,
    /// Bytes of the part of each node, if every one gets all of them.
    pub(super) parts: Option<Vec<usize>>,
}

/// What a plan is known by.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Wish {
    Copy { to: usize, left: Section, from: usize, right: Section, order: Vec<usize> },
    Shadow { of: usize, widths: Vec<Width>, corners: bool, back: bool },
}

impl Plan {
    /// A copy of a section of one array (`from`) to a section of another (`to`), or of the same, as rank `me` of those who take part does it. A source that
    /// is a single element goes to all of the target.
    pub fn copy_of(
        me: Rank,
        among: &Nodes,
        element: usize,
        to: (&Mapping, &Section),
        from: (&Mapping, &Section),
    ) -> Result<Plan> {
        Plan::of(&Exchange::copy(to, from, &[], Some(among))?, me, element)
    }

    /// Filling the shadow of an array with what its owners have, with corners or without. Cells beyond the bounds are left alone, unless the
    /// dimension closes to a ring.
    pub fn reflect_of(
        me: Rank,
        element: usize,
        mapping: &Mapping,
        widths: &[Width],
        corners: bool,
    ) -> Result<Plan> {
        check_widths(mapping, widths)?;
        let lines = mapping.dimensions().iter().zip(widths).enumerate();
        let line = |(number, (dimension, width)): (usize, (_, &Width))| {
            let dimension: &crate::array::space::Dimension = dimension;
            let span = Span { base: 0, count: dimension.size() as i64, step: 1, is_index: false };
            let (low, high) = (width.low as i64, width.high as i64);
            Line::Shadow { own: End { number, dimension, span }, low, high, periodic: width.periodic }
        };
        let lines = lines.map(line).collect();
        let copies = Copies::Same { corners };
        let exchange = Exchange { to: mapping, from: mapping, lines, copies, among: None };
        Ok(Plan { is_apart: true, ..Plan::of(&exchange, me, element)? })
    }

    /// The same the other way round: cells of the shadow go to their owners.
    #[must_use]
    fn reversed(self) -> Plan {
        let Plan { sends, takes, own, from_bytes, to_bytes, .. } = self;
        let own = own.into_iter().map(|(from, to)| (to, from)).collect();
        Plan { sends: takes, takes: sends, own, from_bytes: to_bytes, to_bytes: from_bytes, ..self }
    }

    fn of(exchange: &Exchange<'_>, me: Rank, element: usize) -> Result<Plan> {
        let bytes_of = |mapping: &Mapping| {
            let bytes = mapping
                .part(me)
                .len()
                .checked_mul(element as u64)
                .and_then(|bytes| isize::try_from(bytes).ok());
            bytes
                .map(|bytes| bytes as usize)
                .ok_or_else(|| misuse("a part of an array with more bytes than there are"))
        };
        let (from_bytes, to_bytes) = (bytes_of(exchange.from)?, bytes_of(exchange.to)?);
        let (mut takes, mut sends, mut own) = (Gathered::default(), Gathered::default(), Vec::new());
        exchange.takes(me, &mut |found: Found<'_>| {
            let here = section(exchange.target_layout(&found), element);
            match found.peer == me {
                true => own.push((section(exchange.source_layout(&found), element), here)),
                false => takes.add(found.peer, here),
            }
        })?;
        exchange.sends(me, &mut |found: Found<'_>| {
            if found.peer != me {
                sends.add(found.peer, section(exchange.source_layout(&found), element));
            }
        });
        let (sends, takes) = (sends.sorted(me), takes.sorted(me));
        Ok(Plan { sends, takes, own, from_bytes, to_bytes, element, is_apart: false, parts: None })
    }

    /// About how many bytes of memory it takes.
    pub(super) fn size(&self) -> usize {
        let pieces = self.sends.iter().chain(&self.takes).map(|peer| peer.pieces.len()).sum::<usize>();
        let peers = self.sends.len() + self.takes.len();
        let parts = self.parts.as_ref().map_or(0, Vec::len) * size_of::<usize>();
        (pieces + 2 * self.own.len()) * PIECE_BYTES + peers * size_of::<Peer>() + parts
    }

    /// The ranks that this one exchanges something with; some may come twice.
    pub fn peers(&self) -> impl Iterator<Item = Rank> + '_ {
        self.sends.iter().chain(&self.takes).map(|peer| peer.rank)
    }

    /// What it costs this rank when it runs.
    pub fn cost(&self) -> Cost {
        let bytes = |peers: &[Peer]| peers.iter().map(|peer| peer.bytes as u64).sum();
        let pieces = |peers: &[Peer]| peers.iter().map(|peer| peer.pieces.len() as u64).sum::<u64>();
        Cost {
            sent: bytes(&self.sends),
            received: bytes(&self.takes),
            kept: self.own.iter().map(|(from, _)| from.bytes() as u64).sum(),
            receivers: self.sends.len() as u32,
            senders: self.takes.len() as u32,
            pieces: pieces(&self.sends) + pieces(&self.takes) + self.own.len() as u64,
        }
    }

    /// The same out of a memory that has only what it reads of the source, and where that lies in the local part, in elements: piece behind piece. Where
    /// every node gets all ([`gathers`](Self::gathers)) that is the part as it is.
    pub fn packed(&self) -> (Plan, Vec<Layout>) {
        let (mut plan, element) = (self.clone(), self.element.max(1));
        if self.gathers() {
            return (plan, vec![Layout { start: 0, loops: vec![(self.from_bytes / element, 1)] }]);
        }
        let (mut pieces, mut known, mut bytes) = (Vec::new(), HashMap::new(), 0);
        let sent = plan.sends.iter_mut().flat_map(|peer| &mut peer.pieces);
        for section in sent.chain(plan.own.iter_mut().map(|(from, _)| from)) {
            // What goes to several is there once.
            let place = known.entry(section.clone()).or_insert_with(|| {
                let (start, loops) = section.elements(element);
                let (layout, place) = (Layout { start, loops }, section.packed(bytes));
                bytes += layout.len() * element;
                pieces.push(layout);
                place
            });
            section.clone_from(place);
        }
        plan.from_bytes = bytes;
        (plan, pieces)
    }

    /// Bytes of an element.
    pub fn element_bytes(&self) -> usize {
        self.element
    }

    /// The ranks that this one sends to, and how many bytes.
    pub fn receivers(&self) -> impl Iterator<Item = (Rank, usize)> + '_ {
        self.sends.iter().map(|peer| (peer.rank, peer.bytes))
    }

    /// The ranks that this one gets from, and how many bytes.
    pub fn senders(&self) -> impl Iterator<Item = (Rank, usize)> + '_ {
        self.takes.iter().map(|peer| (peer.rank, peer.bytes))
    }

    /// As [`copy_of`](Self::copy_of) for this rank of a world; one that was asked for before is found.
    pub fn copy(
        world: &World,
        among: &Nodes,
        element: usize,
        to: (&Arc<Mapping>, &Section),
        from: (&Arc<Mapping>, &Section),
    ) -> Result<Arc<Plan>> {
        Plan::copy_ordered(world, among, element, to, from, &[])
    }

    /// The same with dimensions in another order: the k-th range of the target goes with range `order[k]` of the source.
    pub fn copy_ordered(
        world: &World,
        among: &Nodes,
        element: usize,
        (to, left): (&Arc<Mapping>, &Section),
        (from, right): (&Arc<Mapping>, &Section),
        order: &[usize],
    ) -> Result<Arc<Plan>> {
        let wish = Wish::Copy {
            to: Arc::as_ptr(to) as usize,
            left: left.clone(),
            from: Arc::as_ptr(from) as usize,
            right: right.clone(),
            order: order.to_vec(),
        };
        let make = || {
            let exchange = Exchange::copy((to, left), (from, right), order, Some(among))?;
            let parts = match order.is_empty() {
                true => gather::parts(among, element, (to, left), (from, right)),
                false => None,
            };
            Ok(Plan { parts, ..Plan::of(&exchange, world.rank(), element)? })
        };
        world.arrays().plans.find(wish, Some(among), element, [Some(to), Some(from)], make)
    }

    /// As [`reflect_of`](Self::reflect_of) for this rank of a world; one that was asked for before is found.
    pub fn reflect(
        world: &World,
        element: usize,
        mapping: &Arc<Mapping>,
        widths: &[Width],
        corners: bool,
    ) -> Result<Arc<Plan>> {
        Plan::shadow(world, element, mapping, widths, corners, false)
    }

    /// The reverse of a reflect: cells of the shadow go to their owners, who [combine](Self::run_combining) them with what they have.
    pub fn reduce_shadow(
        world: &World,
        element: usize,
        mapping: &Arc<Mapping>,
        widths: &[Width],
        corners: bool,
    ) -> Result<Arc<Plan>> {
        Plan::shadow(world, element, mapping, widths, corners, true)
    }

    fn shadow(
        world: &World,
        element: usize,
        mapping: &Arc<Mapping>,
        widths: &[Width],
        corners: bool,
        back: bool,
    ) -> Result<Arc<Plan>> {
        let of = Arc::as_ptr(mapping) as usize;
        let wish = Wish::Shadow { of, widths: widths.to_vec(), corners, back };
        let make = || {
            let plan = Plan::reflect_of(world.rank(), element, mapping, widths, corners)?;
            Ok(if back { plan.reversed() } else { plan })
        };
        world.arrays().plans.find(wish, None, element, [Some(mapping), None], make)
    }

    #[cfg(test)]
    pub(super) fn backwards(self) -> Plan {
        self.reversed()
    }
}

fn section(layout: Layout, element: usize) -> rows::Section {
    let wide = layout.loops.into_iter().map(|(count, stride)| (count, stride * element as isize));
    rows::Section::of_loops(layout.start * element, element, wide.collect())
}

fn check_widths(mapping: &Mapping, widths: &[Width]) -> Result<()> {
    let (own, given) = (mapping.dimensions().len(), widths.len());
    if own != given {
        return Err(misuse(format!("{given} widths for the shadow of an array of {own} dimensions")));
    }
    for (number, (dimension, width)) in mapping.dimensions().iter().zip(widths).enumerate() {
        let Width { low, high, periodic } = *width;
        match dimension.shadow().widths() {
            Some((below, above)) if low > below || high > above => {
                return Err(misuse(format!(
                    "dimension {number}: a width of {low}:{high}, and the shadow has {below}:{above}"
                )));
            }
            None if periodic => {
                return Err(misuse(format!("dimension {number} has a full shadow: it cannot be periodic")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Pieces by rank, in the order in which they come.
#[derive(Default)]
struct Gathered {
    by_rank: HashMap<Rank, Peer>,
}

impl Gathered {
    fn add(&mut self, rank: Rank, piece: rows::Section) {
        let peer = self.by_rank.entry(rank).or_insert_with(|| Peer { rank, pieces: Vec::new(), bytes: 0 });
        peer.bytes += piece.bytes();
        peer.pieces.push(piece);
    }

    /// From the next rank on, so that not all begin with the same.
    fn sorted(self, me: Rank) -> Vec<Peer> {
        let mut peers: Vec<Peer> = self.by_rank.into_values().collect();
        peers.sort_unstable_by_key(|peer| (peer.rank < me, peer.rank));
        peers
    }
}

/// How many plans are kept at most; when there are more, those that are not in use go.
const MOST_KEPT: usize = 256;

/// How many bytes all plans that are kept may take; when they take more, those that are not in use go.
const MOST_KEPT_BYTES: usize = 32 << 20;

/// A piece, with the loops of three dimensions.
const PIECE_BYTES: usize = size_of::<rows::Section>() + 3 * size_of::<(usize, isize)>();

/// How many pieces of private memory are kept at most for the next run, and how many bytes one of them has at most.
const MOST_SCRATCH: usize = 4;
const MOST_SCRATCH_BYTES: usize = 1 << 20;

/// Private memory that is booked, and used again.
#[derive(Default, Debug)]
pub(super) struct Scratch {
    pub(super) memory: Vec<u8>,
    /// None if there is no memory.
    pub(super) booked: Option<Booking>,
}

/// How many exchanges there were with each rank, out and in: both ends count alike.
#[derive(Default, Debug)]
pub(super) struct Numbers {
    by_rank: HashMap<Rank, (u64, u64)>,
}

impl Numbers {
    pub(super) fn next_out(&mut self, rank: Rank) -> u64 {
        let (out, _) = self.by_rank.entry(rank).or_default();
        *out += 1;
        *out
    }

    pub(super) fn next_in(&mut self, rank: Rank) -> u64 {
        let (_, taken) = self.by_rank.entry(rank).or_default();
        *taken += 1;
        *taken
    }
}

/// The plans of a world that were asked for.
#[derive(Default, Debug)]
pub(crate) struct Plans {
    kept: Mutex<HashMap<Key, Kept>>,
    /// Memory that messages go through.
    scratch: Mutex<Vec<Scratch>>,
    /// Memory that messages are packed into.
    pub(super) parcels: Parcels,
    numbers: Mutex<Numbers>,
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Key {
    wish: Wish,
    among: Option<Nodes>,
    element: usize,
}

#[derive(Debug)]
struct Kept {
    plan: Arc<Plan>,
    /// So that their addresses stay theirs.
    _mappings: [Option<Arc<Mapping>>; 2],
}

impl Plans {
    pub(super) fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory of so many bytes; what is in it is anything.
    pub(super) fn scratch(&self, world: &World, bytes: usize) -> Result<Scratch> {
        if bytes == 0 {
            return Ok(Scratch::default());
        }
        let mut kept = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = kept.iter().enumerate().filter(|(_, one)| one.memory.capacity() >= bytes);
        if let Some((at, _)) = fits.min_by_key(|(_, one)| one.memory.capacity()) {
            let mut found = kept.swap_remove(at);
            found.memory.resize(bytes, 0);
            return Ok(found);
        }
        drop(kept);
        let booked = world.note(world.book(Purpose::Comm, bytes as u64))?;
        let mut memory = Vec::new();
        let none =
            |_| Error::OutOfMemory { asked: bytes as u64, left: 0, what: "the memory of this machine" };
        world.note(memory.try_reserve_exact(bytes).map_err(none))?;
        memory.resize(bytes, 0);
        Ok(Scratch { memory, booked: Some(booked) })
    }

    /// Takes memory back.
    pub(super) fn use_again(&self, scratch: Scratch) {
        let mut kept = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let is_small = scratch.memory.capacity() <= MOST_SCRATCH_BYTES;
        if scratch.booked.is_some() && is_small && kept.len() < MOST_SCRATCH {
            kept.push(scratch);
        }
    }

    fn find(
        &self,
        wish: Wish,
        among: Option<&Nodes>,
        element: usize,
        mappings: [Option<&Arc<Mapping>>; 2],
        make: impl FnOnce() -> Result<Plan>,
    ) -> Result<Arc<Plan>> {
        let key = Key { wish, among: among.cloned(), element };
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kept().get(&key) {
            return Ok(found.plan.clone());
        }
        let plan = Arc::new(make()?);
        let mut kept = kept();
        let bytes = || kept.values().map(|one| one.plan.size()).fold(plan.size(), usize::saturating_add);
        if kept.len() >= MOST_KEPT || bytes() > MOST_KEPT_BYTES {
            kept.retain(|_, one| Arc::strong_count(&one.plan) > 1);
            self.parcels.clear();
        }
        kept.insert(key, Kept { plan: plan.clone(), _mappings: mappings.map(|one| one.cloned()) });
        Ok(plan)
    }

    /// Gives back memory that is kept for the next messages. Whether there was any.
    pub(crate) fn give_back(&self) -> bool {
        let scratch = std::mem::take(&mut *self.scratch.lock().unwrap_or_else(PoisonError::into_inner));
        self.parcels.clear() || !scratch.is_empty()
    }
}

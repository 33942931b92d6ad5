//! Many single words in one request: how a list of them is written down, and how the node that has them does it.
//!
//! A [`Batch`] is a table of kinds (what is done, and to which region) and entries that name a kind, an address and what the kind needs. A
//! rank of the node does what it can reach without waiting: words of the arena, and words of its own private memory. What it cannot do (a
//! neighbour's private memory, an address that is wrong, a rank that is gone) it leaves, and says so in its [`Outcome`]: whoever asked does
//! those one by one, and meets the error there.

use crate::node::access::Reach;
use crate::node::address::{GlobalAddress, GlobalPtr, Registration};
use crate::node::atomic::{self, change, AtomicCall, AtomicOp, AtomicWord};
use crate::node::local::{fetch_to_write, Local};
use crate::node::Node;
use crate::{Error, Result};
use kumiki_net::codec::Reader;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The most kinds of a batch: an entry names its own in a byte.
const MOST_KINDS: usize = 255;
/// The most entries of a batch: an outcome names one in two bytes.
const MOST_ENTRIES: usize = 1 << 16;
/// Bytes of a kind, and of an entry without operands.
const KIND_BYTES: usize = 9;
const ENTRY_BYTES: usize = 9;

/// The code of an atomic, and whether its old value is asked for.
const FETCHES: u8 = 64;
/// Beside the width: the word is read, or written, and nothing else.
const READ: u8 = 32;
const WRITE: u8 = 33;
const WIDE: u8 = 16;

/// One word that is to be read or changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WordTask {
    address: GlobalAddress,
    registration: Registration,
    code: u8,
    operands: [u64; 2],
}

impl WordTask {
    fn new<W: AtomicWord>(word: GlobalPtr<W>, code: u8, operands: [u64; 2]) -> WordTask {
        WordTask { address: word.address, registration: word.registration, code, operands }
    }

    /// Reads it.
    #[inline]
    pub fn read<W: AtomicWord>(word: GlobalPtr<W>) -> WordTask {
        WordTask::new(word, READ | W::WIDE | FETCHES, [0; 2])
    }

    /// Writes it.
    #[inline]
    pub fn write<W: AtomicWord>(word: GlobalPtr<W>, value: W) -> WordTask {
        WordTask::new(word, WRITE | W::WIDE, [value.widen(), 0])
    }

    /// Changes it, and asks for its old value or not.
    #[inline]
    pub fn change<W: AtomicWord>(word: GlobalPtr<W>, operation: AtomicOp<W>, fetches: bool) -> WordTask {
        let (code, first, second) = operation.encode();
        WordTask::new(word, code | if fetches { FETCHES } else { 0 }, [first, second])
    }

    /// Where the word is.
    #[inline]
    pub fn address(&self) -> GlobalAddress {
        self.address
    }

    /// What a value that was asked for means.
    #[inline]
    pub fn value<W: AtomicWord>(bits: u64) -> W {
        W::narrow(bits)
    }

    fn fetches(&self) -> bool {
        self.code & FETCHES != 0
    }

    fn bytes(&self) -> u64 {
        if self.code & WIDE != 0 {
            8
        } else {
            4
        }
    }

    /// It as an operation of its own.
    pub(crate) fn alone(&self) -> Alone {
        let wide = self.code & WIDE;
        let code = match self.code & !(WIDE | FETCHES) {
            READ => return Alone::Read(self.address, self.registration, self.bytes() as usize),
            WRITE => {
                let bytes = self.bytes() as usize;
                return Alone::Write(self.address, self.registration, self.operands[0].to_le_bytes(), bytes);
            }
            code => code,
        };
        let [first, second] = self.operands;
        let call = AtomicCall {
            target: self.address,
            registration: self.registration,
            code: code | wide,
            first,
            second,
        };
        Alone::Change(call)
    }

    /// Does it to a word that was found.
    ///
    /// # Safety
    /// The pointer must be valid for the bytes of the word, and aligned.
    #[inline(always)]
    unsafe fn perform(&self, pointer: *mut u8) -> u64 {
        let [first, second] = self.operands;
        // SAFETY: as the caller promises; every bit pattern is valid.
        unsafe {
            match (self.code & !(WIDE | FETCHES), self.code & WIDE != 0) {
                (READ, true) => (*pointer.cast::<AtomicU64>()).load(Ordering::Acquire),
                (READ, false) => (*pointer.cast::<AtomicU32>()).load(Ordering::Acquire) as u64,
                (WRITE, true) => {
                    (*pointer.cast::<AtomicU64>()).store(first, Ordering::Release);
                    0
                }
                (WRITE, false) => {
                    (*pointer.cast::<AtomicU32>()).store(first as u32, Ordering::Release);
                    0
                }
                (_, true) => change::<u64>(pointer, self.code & !FETCHES, first, second),
                (_, false) => change::<u32>(pointer, self.code & !FETCHES, first, second),
            }
        }
    }
}

/// A word that is done alone.
pub(crate) enum Alone {
    /// So many bytes are read.
    Read(GlobalAddress, Registration, usize),
    /// So many of these bytes are written.
    Write(GlobalAddress, Registration, [u8; 8], usize),
    /// It is changed.
    Change(AtomicCall),
}

/// How many operands a code takes; refuses codes that do not exist.
fn operand_count(code: u8) -> Result<usize> {
    match code & !(WIDE | FETCHES) {
        READ => Ok(0),
        WRITE => Ok(1),
        _ => {
            atomic::width(code & !FETCHES)?;
            Ok(if atomic::is_compare_swap(code & !FETCHES) { 2 } else { 1 })
        }
    }
}

/// What is done, and to which region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Kind {
    code: u8,
    registration: Registration,
}

/// A list of words and what is to be done to each.
#[derive(Debug, Default)]
pub struct Batch {
    kinds: Vec<Kind>,
    /// The kind of the last entry.
    last: usize,
    body: Vec<u8>,
    count: usize,
}

impl Batch {
    /// One with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Batch {
        Batch { body: Vec::with_capacity(bytes), ..Batch::default() }
    }

    /// Bytes that it has as a request.
    pub fn request_bytes(&self) -> usize {
        2 + self.kinds.len() * KIND_BYTES + self.body.len()
    }

    /// How many words it has.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a word, if that leaves it within so many bytes. Whether it did.
    #[inline]
    pub fn push(&mut self, task: &WordTask, limit: usize) -> bool {
        const LARGEST: usize = KIND_BYTES + ENTRY_BYTES + 16;
        if self.request_bytes() + LARGEST > limit || self.count == MOST_ENTRIES {
            return false;
        }
        let Some(kind) = self.kind(Kind { code: task.code, registration: task.registration }) else {
            return false;
        };
        let mut entry = [0; ENTRY_BYTES + 16];
        entry[0] = kind as u8;
        entry[1..9].copy_from_slice(&task.address.bits().to_le_bytes());
        entry[9..17].copy_from_slice(&task.operands[0].to_le_bytes());
        entry[17..25].copy_from_slice(&task.operands[1].to_le_bytes());
        let operands = operand_count(task.code).unwrap_or(2);
        self.body.extend_from_slice(&entry[..ENTRY_BYTES + 8 * operands]);
        self.count += 1;
        true
    }

    /// The number of a kind; `None` if there is no room for it.
    #[inline]
    fn kind(&mut self, kind: Kind) -> Option<usize> {
        if self.kinds.get(self.last) == Some(&kind) {
            return Some(self.last);
        }
        self.last = match self.kinds.iter().position(|known| *known == kind) {
            Some(found) => found,
            None if self.kinds.len() == MOST_KINDS => return None,
            None => {
                self.kinds.push(kind);
                self.kinds.len() - 1
            }
        };
        Some(self.last)
    }

    /// It as bytes, behind the code of a service.
    pub fn request(&self, code: u8) -> Vec<u8> {
        let mut request = Vec::with_capacity(self.request_bytes());
        request.push(code);
        request.push(self.kinds.len() as u8);
        for kind in &self.kinds {
            request.push(kind.code);
            request.extend_from_slice(&kind.registration.bits().to_le_bytes());
        }
        request.extend_from_slice(&self.body);
        request
    }

    /// Its words, in order.
    pub fn tasks(&self) -> impl Iterator<Item = WordTask> + '_ {
        let mut entries = Reader::new(&self.body);
        // What was pushed can be read.
        std::iter::from_fn(move || {
            (!entries.is_empty()).then(|| next_task(&mut entries, &self.kinds).ok()).flatten()
        })
    }
}

fn next_task(entries: &mut Reader<'_>, kinds: &[Kind]) -> Result<WordTask> {
    let kind = entries.byte()? as usize;
    let kind = kinds.get(kind).ok_or_else(|| Error::misuse("a word of a batch has no kind".to_string()))?;
    let address = GlobalAddress::from_bits(entries.long()?);
    let mut operands = [0; 2];
    for operand in &mut operands[..operand_count(kind.code)?] {
        *operand = entries.long()?;
    }
    Ok(WordTask { address, registration: kind.registration, code: kind.code, operands })
}

/// What became of a batch.
#[derive(Debug)]
pub struct Outcome<'a> {
    left: &'a [u8],
    values: &'a [u8],
}

impl<'a> Outcome<'a> {
    /// Reads a reply to a batch: what it says is checked against the batch.
    pub fn read(batch: &Batch, reply: &'a [u8]) -> Result<Outcome<'a>> {
        let wrong = || Error::misuse("a batch of words was answered wrongly".to_string());
        let mut reader = Reader::new(reply);
        let count = reader.word()? as usize;
        if count > batch.count {
            return Err(wrong());
        }
        let left = reader.take(2 * count)?;
        let in_order = left.chunks_exact(2).map(|index| u16::from_le_bytes([index[0], index[1]]));
        let mut before = None;
        for index in in_order {
            if index as usize >= batch.count || before.is_some_and(|before| before >= index) {
                return Err(wrong());
            }
            before = Some(index);
        }
        let outcome = Outcome { left, values: &reply[4 + 2 * count..] };
        let values =
            batch.tasks().zip(outcome.marks()).filter(|(task, left)| task.fetches() && !left).count();
        if outcome.values.len() == 8 * values {
            Ok(outcome)
        } else {
            Err(wrong())
        }
    }

    /// Whether all was done, and nothing was asked for.
    pub fn is_plain(&self) -> bool {
        self.left.is_empty() && self.values.is_empty()
    }

    /// For each word in order whether it was left.
    fn marks(&self) -> impl Iterator<Item = bool> + 'a {
        let mut left =
            self.left.chunks_exact(2).map(|index| u16::from_le_bytes([index[0], index[1]]) as usize);
        let mut next = left.next();
        (0..).map(move |index| {
            let is_left = next == Some(index);
            if is_left {
                next = left.next();
            }
            is_left
        })
    }

    /// The words of the batch in order: the value of each that was done, if it was asked for, or that it was left.
    pub fn results<'b>(&self, batch: &'b Batch) -> impl Iterator<Item = (WordTask, Done)> + use<'a, 'b> {
        let mut values = self.values.chunks_exact(8).map(|value| {
            let mut word = [0; 8];
            word.copy_from_slice(value);
            u64::from_le_bytes(word)
        });
        batch.tasks().zip(self.marks()).map(move |(task, left)| {
            let done = match (left, task.fetches()) {
                (true, _) => Done::Left,
                (false, false) => Done::Done,
                (false, true) => Done::Value(values.next().unwrap_or_default()),
            };
            (task, done)
        })
    }
}

/// What became of a word of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Done {
    /// It was done, and nothing was asked for.
    Done,
    /// It was done, and this was asked for.
    Value(u64),
    /// It was left to whoever asked.
    Left,
}

/// Does a batch of another rank: the request behind the code of the service.
pub fn serve(local: Local<'_>, request: &[u8], reply: &mut Vec<u8>) -> Result<()> {
    let mut request = Reader::new(request);
    let kinds = (0..request.byte()?).map(|_| {
        let code = request.byte()?;
        operand_count(code)?;
        Ok(Kind { code, registration: Registration::from_bits(request.long()?) })
    });
    let kinds = kinds.collect::<Result<Vec<Kind>>>()?;
    let mut answer = Answer::default();
    // Words are found a few ahead of what is done, so that their lines are on the way from memory meanwhile.
    let mut ahead: [Option<Found>; AHEAD] = [None; AHEAD];
    let mut count = 0;
    while !request.is_empty() {
        if count == MOST_ENTRIES {
            return Err(Error::misuse("a batch of more words than one may have".to_string()));
        }
        let task = next_task(&mut request, &kinds)?;
        let found = Some((task, local.find(&task)));
        answer.take(local, std::mem::replace(&mut ahead[count % AHEAD], found), count.wrapping_sub(AHEAD));
        count += 1;
    }
    for index in count.saturating_sub(AHEAD)..count {
        answer.take(local, ahead[index % AHEAD].take(), index);
    }
    let Answer { left, values } = answer;
    reply.reserve_exact(4 + left.len() + values.len());
    reply.extend_from_slice(&(left.len() as u32 / 2).to_le_bytes());
    reply.extend_from_slice(&left);
    reply.extend_from_slice(&values);
    Ok(())
}

/// How many words are looked for before the first of them is done.
const AHEAD: usize = 16;

/// A word, and where it is in this process, if it can be reached.
type Found = (WordTask, Option<*mut u8>);

/// What is said to a batch.
#[derive(Default)]
struct Answer {
    /// The numbers of words that are left, two bytes each.
    left: Vec<u8>,
    /// Values that were asked for, eight bytes each.
    values: Vec<u8>,
}

impl Answer {
    /// Does a word of the batch, which has this number, if there is one.
    #[inline]
    fn take(&mut self, local: Local<'_>, found: Option<Found>, index: usize) {
        let Some((task, pointer)) = found else { return };
        match pointer {
            Some(pointer) => {
                // SAFETY: the word was found for this task, a moment ago.
                let value = unsafe { local.perform(&task, pointer) };
                if task.fetches() {
                    self.values.extend_from_slice(&value.to_le_bytes());
                }
            }
            None => self.left.extend_from_slice(&(index as u16).to_le_bytes()),
        }
    }
}

impl Local<'_> {
    /// Finds a word that this process can reach at once, in bounds and aligned.
    #[inline]
    fn find(self, task: &WordTask) -> Option<*mut u8> {
        let pointer = self.node.here(task.address, task.registration, task.bytes());
        let pointer = pointer.or_else(|| self.own(task))?;
        fetch_to_write(pointer);
        (pointer as usize).is_multiple_of(task.bytes() as usize).then_some(pointer)
    }

    /// Does what is to be done to a word, and gives back what it held.
    ///
    /// # Safety
    /// The word must have been [found](Self::find) for this very task.
    #[inline]
    unsafe fn perform(self, task: &WordTask, pointer: *mut u8) -> u64 {
        // SAFETY: the word was found in bounds, and is aligned.
        let old = unsafe { task.perform(pointer) };
        if task.code & !(WIDE | FETCHES) != READ {
            self.node.wrote(pointer);
        }
        old
    }

    /// A word that is not found by the short way: of the arena, or of this rank's private memory while a peer is served (then nobody can
    /// unregister it).
    #[cold]
    #[inline(never)]
    fn own(self, task: &WordTask) -> Option<*mut u8> {
        let node: &Node = self.node;
        let reads = task.code & !(WIDE | FETCHES) == READ;
        match node.reach(task.address, task.registration, task.bytes()).ok()? {
            Reach::Direct(pointer) => Some(pointer),
            reach @ Reach::Private(private) if private.local() == node.local && self.busy.is_some() => {
                let reach = if reads { reach } else { reach.check_writable(task.bytes()).ok()? };
                match reach {
                    Reach::Private(private) => Some(private.pointer()),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::World;

    fn served(local: Local<'_>, request: &[u8]) -> Result<Vec<u8>> {
        let mut reply = Vec::new();
        serve(local, request, &mut reply).map(|()| reply)
    }

    #[test]
    fn what_is_asked_of_words_is_done_in_order_and_what_cannot_be_is_left() {
        let world = World::init().unwrap();
        let words = world.alloc::<u64>(4).unwrap();
        let private = world.register(vec![7u64; 2]).unwrap();
        let word = |index: usize| words.ptr().add(index);
        let mut batch = Batch::default();
        let tasks = [
            WordTask::write(word(0), 5),
            WordTask::change(word(0), AtomicOp::Add(6), true),
            WordTask::read(word(0)),
            WordTask::read(word(4)),
            WordTask::change(word(1), AtomicOp::CompareSwap(0, 9), true),
            WordTask::change(word(1), AtomicOp::Xor(1), false),
            WordTask::read(private.ptr()),
        ];
        tasks.iter().for_each(|task| assert!(batch.push(task, 1 << 10)));
        assert!(batch.tasks().eq(tasks));
        let request = batch.request(3);
        assert_eq!((request[0], request.len()), (3, batch.request_bytes()));
        let reply = served(world.local(), &request[1..]).unwrap();
        let results = Outcome::read(&batch, &reply).unwrap().results(&batch);
        let expected = [
            Done::Done,
            Done::Value(5),
            Done::Value(11),
            Done::Left,
            Done::Value(0),
            Done::Done,
            // Private memory is touched only while a peer is served.
            Done::Left,
        ];
        assert!(results.map(|(_, done)| done).eq(expected));
        assert_eq!(world.get(word(1)), Ok(8));
        assert_eq!(world.perform_word(&tasks[6]), Ok(7));
        let mut small = Batch::default();
        assert!(!small.push(&tasks[0], 35) && small.is_empty(), "it has no room");
        drop((words, private));
        world.finalize().unwrap();
    }

    #[test]
    fn requests_and_replies_that_nobody_writes_are_refused() {
        let world = World::init().unwrap();
        let words = world.alloc::<u64>(1).unwrap();
        let mut batch = Batch::default();
        batch.push(&WordTask::change(words.ptr(), AtomicOp::Add(1), true), 1 << 10);
        let request = batch.request(0).split_off(1);
        for length in 0..request.len() {
            // A list of kinds and no words is a batch of none.
            assert_eq!(
                served(world.local(), &request[..length]).is_ok(),
                length == 1 + KIND_BYTES,
                "{length}"
            );
        }
        let changed = |at: usize, byte: u8| {
            let mut request = request.clone();
            request[at] = byte;
            served(world.local(), &request)
        };
        assert!(changed(1 + KIND_BYTES, 1).is_err(), "a kind that there is not");
        for code in 0..=255 {
            // A code that takes another number of operands makes the entry one of another length.
            let known = operand_count(code).is_ok_and(|count| count == 1);
            assert_eq!(changed(1, code).is_ok(), known, "code {code}");
        }
        let none = [0; 4];
        let value = [[0; 4].as_slice(), &[0; 8]].concat();
        assert!(Outcome::read(&batch, &none).is_err() && Outcome::read(&batch, &value).is_ok());
        let left = |indices: &[u16]| {
            let count = (indices.len() as u32).to_le_bytes();
            let indices = indices.iter().flat_map(|index| index.to_le_bytes());
            let reply: Vec<u8> = count.into_iter().chain(indices).collect();
            Outcome::read(&batch, &reply).map(|outcome| outcome.is_plain())
        };
        assert_eq!(left(&[0]), Ok(false));
        assert!(left(&[1]).is_err() && left(&[0, 0]).is_err());
        drop(words);
        world.finalize().unwrap();
    }
}

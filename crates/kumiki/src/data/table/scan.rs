//! Going through a table: whole pieces of it at a time, or element by element with a cursor.

use super::core::{read_reply, Core, Scope};
use super::directory::Directory;
use super::layout::*;
use super::part::{self, FINISHED};
use super::slot::{Item, Op};
use super::{Cursor, Extent};
use crate::data::message::Reader;
use crate::data::TABLE;
use crate::{Error, GlobalAddress, GlobalPtr, Result};
use kumiki_mem::Call;
use std::sync::Arc;

/// Elements that are inserted at a time when a table is copied into another.
const MERGE_BYTES: usize = 256 << 10;

/// An element as a scan gives it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Element {
    pub(crate) key: Vec<u8>,
    /// Of a map.
    pub(crate) value: Vec<u8>,
    /// Of a multiset.
    pub(crate) number: u64,
}

/// Goes through the elements of a table, piece by piece; while a piece of another node is used, the next one comes.
#[derive(Debug)]
pub(crate) struct Scan<'t> {
    core: &'t Core<'t>,
    scope: Scope,
    directory: Arc<Directory>,
    /// Where the next piece begins.
    index: usize,
    place: (u64, u64),
    /// The next piece, asked for already.
    coming: Option<Call<'t>>,
    /// What is left of this one.
    piece: Vec<u8>,
    used: usize,
    failed: bool,
}

impl<'w> Core<'w> {
    pub(crate) fn scan(&self, scope: Scope) -> Result<Scan<'_>> {
        let directory = self.current_for(scope)?;
        let (piece, used, failed) = (Vec::new(), 0, false);
        Ok(Scan { core: self, scope, directory, index: 0, place: (0, 0), coming: None, piece, used, failed })
    }

    /// Inserts what is in a scope of another table; keys that are here stay as they are, and those of a multiset add up.
    pub(crate) fn merge(&self, other: &Core<'_>, scope: Scope) -> Result<()> {
        if self.raw == other.raw && self.kind != Kind::Multiset {
            return Ok(());
        }
        let op = if self.kind == Kind::Multiset { Op::Add } else { Op::Insert };
        let (mut scan, mut elements, mut bytes) = (other.scan(scope)?, Vec::new(), 0);
        loop {
            let element = scan.next().transpose()?;
            let last = element.is_none();
            if let Some(element) = element {
                bytes += 64 + element.key.len() + element.value.len();
                elements.push(element);
            }
            if last || bytes >= MERGE_BYTES {
                let items: Vec<Item<'_>> = elements.iter().map(Element::item).collect();
                self.run_many(op, &items, |_, _, _| ())?;
                elements.clear();
                bytes = 0;
            }
            if last {
                return Ok(());
            }
        }
    }

    /// Merges, then empties the other.
    pub(crate) fn take_all(&self, other: &Core<'_>, scope: Scope) -> Result<()> {
        if self.raw == other.raw {
            return Ok(());
        }
        self.merge(other, scope)?;
        other.clear(scope)
    }

    /// Empties this one, then merges.
    pub(crate) fn assign(&self, other: &Core<'_>, scope: Scope) -> Result<()> {
        if self.raw == other.raw {
            return Ok(());
        }
        self.clear(scope)?;
        self.merge(other, scope)
    }

    pub(crate) fn end(&self) -> Cursor {
        Cursor { index: self.raw.ranks, slot: 0, element: GlobalAddress::NULL }
    }

    pub(crate) fn begin(&self) -> Result<Cursor> {
        self.try_both(|directory| self.first_from(directory, 0, |_| true))
    }

    /// The first element in the memory of this rank; the end if there is none.
    pub(crate) fn begin_local(&self) -> Result<Cursor> {
        self.try_both(|directory| {
            self.first_from(directory, 0, |index| Scope::Mine.has(self.world, &directory.entries[index]))
        })
    }

    /// What comes behind the last element in the memory of this rank; the end if it has none.
    pub(crate) fn end_local(&self) -> Result<Cursor> {
        if self.begin_local()? == self.end() {
            return Ok(self.end());
        }
        self.try_both(|directory| {
            let last = directory.entries.iter().rposition(|entry| Scope::Mine.has(self.world, entry));
            self.first_from(directory, last.map_or(0, |last| last + 1), |_| true)
        })
    }

    /// The element behind a cursor.
    pub(crate) fn next(&self, cursor: Cursor) -> Result<Cursor> {
        if cursor.index >= self.raw.ranks || cursor.element.is_null() {
            return Ok(self.end());
        }
        let index = cursor.index as usize;
        self.try_both(|directory| {
            match self.next_in(directory, index, cursor.slot, cursor.element.bits())? {
                Some(next) if next.element.is_null() => self.first_from(directory, index + 1, |_| true),
                next => Ok(next),
            }
        })
    }

    /// The first element of the chosen parts, or the end; `None` if the table has been destroyed.
    fn first_from(
        &self,
        directory: &Directory,
        from: usize,
        chosen: impl Fn(usize) -> bool,
    ) -> Result<Option<Cursor>> {
        for index in (from..directory.entries.len()).filter(|&index| chosen(index)) {
            match self.next_in(directory, index, 0, 0)? {
                Some(cursor) if cursor.element.is_null() => {}
                cursor => return Ok(cursor),
            }
        }
        Ok(Some(self.end()))
    }

    /// The next element of the same part, with a null address if there is none; `None` if the table has been destroyed.
    fn next_in(
        &self,
        directory: &Directory,
        index: usize,
        slot: u64,
        element: u64,
    ) -> Result<Option<Cursor>> {
        let (entry, part) = (&directory.entries[index], directory.part(index));
        let found = match entry.near {
            true => part::next(self.world.local(), part, slot, element)?,
            false => {
                let request = part.request(part::NEXT).long(slot).long(element).finish();
                let reply = self.world.call(entry.rank, TABLE, request)?;
                match read_reply(&reply)? {
                    Some(mut reply) => Some((reply.long()?, reply.long()?)),
                    None => None,
                }
            }
        };
        Ok(found.map(|(slot, element)| {
            let element = GlobalAddress::from_bits(element);
            Cursor { index: index as u64, slot, element }
        }))
    }

    /// Where key and value (of a map) of an element are, and the counter of a multiset.
    pub(crate) fn dereference(&self, cursor: Cursor) -> Result<(Extent, Extent, u64)> {
        if cursor.element.is_null() {
            return self.world.note(Err(Error::Misuse("the end of a table has no element".into())));
        }
        let mut words = [0u64; 4];
        let shown = &mut words[..(self.kind.key_at() / 8) as usize];
        self.world.get_slice(GlobalPtr::from_address(cursor.element), shown)?;
        let key_bytes = words[(self.kind.key_bytes_at() / 8) as usize];
        let key = Extent { address: cursor.element.add(self.kind.key_at()), bytes: key_bytes as usize };
        let value_bytes = match self.kind {
            Kind::Map => words[2].checked_sub(8).and_then(|bytes| bytes.checked_sub(key_bytes)),
            Kind::Set | Kind::Multiset => Some(0),
        };
        let removed = || Error::Misuse("a cursor whose element was removed".into());
        let bytes = self.world.note(value_bytes.ok_or_else(removed))?;
        Ok((key, Extent { address: key.address.add(key_bytes), bytes: bytes as usize }, words[2]))
    }
}

impl Element {
    pub(crate) fn item(&self) -> Item<'_> {
        Item { key: &self.key, value: &self.value, number: self.number }
    }
}

impl<'t> Scan<'t> {
    /// Gets the next piece that has something in it; false at the end.
    fn refill(&mut self) -> Result<bool> {
        self.piece.clear();
        self.used = 0;
        while self.piece.is_empty() {
            let world = self.core.world;
            let Some(entry) = self.directory.entries.get(self.index) else { return Ok(false) };
            if self.place.0 == FINISHED || !self.scope.has(world, entry) {
                (self.index, self.place) = (self.index + 1, (0, 0));
                continue;
            }
            let gone = || part::destroyed(self.core.kind);
            if entry.near {
                let part = self.directory.part(self.index);
                self.place =
                    part::scan(world.local(), part, self.place, &mut self.piece)?.ok_or_else(gone)?;
                continue;
            }
            let call = match self.coming.take() {
                Some(call) => call,
                None => self.ask()?,
            };
            let reply = call.wait()?;
            let mut fields = read_reply(&reply)?.ok_or_else(gone)?;
            self.place = (fields.long()?, fields.long()?);
            if self.place.0 != FINISHED {
                self.coming = Some(self.ask()?);
            }
            self.piece = reply;
            self.piece.drain(..1 + 16);
        }
        Ok(true)
    }

    /// Asks another node for the piece at this place.
    fn ask(&self) -> Result<Call<'t>> {
        let part = self.directory.part(self.index);
        let request = part.request(part::SCAN).long(self.place.0).long(self.place.1).finish();
        self.core.world.start_call(self.directory.entries[self.index].rank, TABLE, request)
    }

    fn read(&mut self) -> Result<Option<Element>> {
        if self.used == self.piece.len() && !self.refill()? {
            return Ok(None);
        }
        let mut fields = Reader::new(&self.piece[self.used..]);
        let (number, key, value) = (fields.long()?, fields.bytes()?, fields.bytes()?);
        self.used += 24 + key.len() + value.len();
        Ok(Some(Element { key: key.to_vec(), value: value.to_vec(), number }))
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<Element>;

    fn next(&mut self) -> Option<Result<Element>> {
        if self.failed {
            return None;
        }
        let element = self.read();
        let element = self.core.world.note(element);
        self.failed = element.is_err();
        element.transpose()
    }
}

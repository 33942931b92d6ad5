//! Moving the elements of lists: splice, merge, sort, reverse, remove, unique, swap. None of them copies a payload.

use super::chain::{Node, COUNT, NEXT, PAYLOAD, PREVIOUS};
use super::{Element, List, Position};
use crate::{Error, GlobalAddress, Result};
use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};

impl List<'_> {
    /// Moves one element of another list, or of this one, before a position.
    pub fn splice(&mut self, position: Position, other: &mut List<'_>, element: Position) -> Result<()> {
        if element == other.end() {
            return self.world.note(Err(Error::Misuse("the end of a list cannot be moved".into())));
        }
        self.adopt(position, other, element.0, element.0, 1)
    }

    /// Moves a range of another list, or of this one, before a position, which must not lie in the range.
    pub fn splice_range(
        &mut self,
        position: Position,
        other: &mut List<'_>,
        first: Position,
        last: Position,
    ) -> Result<()> {
        let nodes = other.walk(first, last, false)?;
        if nodes.iter().skip(1).any(|node| node.address == position.0) {
            return self.world.note(Err(Error::Misuse("a range cannot be moved into itself".into())));
        }
        let Some(end) = nodes.last() else { return Ok(()) };
        self.adopt(position, other, first.0, end.address, nodes.len() as u64)
    }

    /// Moves the elements from `first` to `last`, both included.
    fn adopt(
        &self,
        position: Position,
        other: &List<'_>,
        first: GlobalAddress,
        last: GlobalAddress,
        count: u64,
    ) -> Result<()> {
        self.header()?;
        other.header()?;
        let (before, behind) = (self.links(first)?[1], self.links(last)?[0]);
        if position.0 == first || position.0 == behind {
            return Ok(());
        }
        let [_, previous] = self.links(position.0)?;
        self.change(Some(other.address), |batch| {
            batch.set(before, NEXT, behind)?;
            batch.set(behind, PREVIOUS, before)?;
            batch.set(previous, NEXT, first)?;
            batch.set(first, PREVIOUS, previous)?;
            batch.set(last, NEXT, position.0)?;
            batch.set(position.0, PREVIOUS, last)?;
            if other.address != self.address {
                batch.count(other.address, count.wrapping_neg())?;
                batch.count(self.address, count)?;
            }
            Ok(())
        })
    }

    /// Moves all elements of another list into this one, where both are sorted: it stays sorted, and of equals its own come
    /// first.
    pub fn merge_by(
        &mut self,
        other: &mut List<'_>,
        mut compare: impl FnMut(&[u8], &[u8]) -> Ordering,
    ) -> Result<()> {
        self.merge_keys(other, true, |list, node| list.payload(node), |one, two| compare(one, two))
    }

    /// As [`merge_by`](Self::merge_by), by what lies where the elements are.
    pub fn merge_elements_by(
        &mut self,
        other: &mut List<'_>,
        mut compare: impl FnMut(Element, Element) -> Ordering,
    ) -> Result<()> {
        self.merge_keys(other, false, |_, node| Ok(element_of(&node)), |one, two| compare(*one, *two))
    }

    fn merge_keys<K>(
        &self,
        other: &List<'_>,
        payload: bool,
        key: impl Fn(&Self, Node) -> Result<K>,
        mut compare: impl FnMut(&K, &K) -> Ordering,
    ) -> Result<()> {
        if other.address == self.address {
            return Ok(());
        }
        let keyed = |list: &List<'_>| -> Result<VecDeque<(GlobalAddress, K)>> {
            let nodes = list.walk(list.begin()?, list.end(), payload)?;
            nodes.into_iter().map(|node| Ok((node.address, key(self, node)?))).collect()
        };
        let (mut mine, mut theirs) = (keyed(self)?, keyed(other)?);
        let before: Vec<GlobalAddress> = mine.iter().map(|(address, _)| *address).collect();
        let mut order = Vec::with_capacity(mine.len() + theirs.len());
        while let (Some((_, one)), Some((_, two))) = (mine.front(), theirs.front()) {
            let from = if compare(two, one) == Ordering::Less { &mut theirs } else { &mut mine };
            order.extend(from.pop_front().map(|(address, _)| address));
        }
        order.extend(mine.into_iter().chain(theirs).map(|(address, _)| address));
        self.relink(&before, &order, Some(other.address))
    }

    /// Sorts it. Of equals the earlier stays earlier.
    pub fn sort_by(&mut self, mut compare: impl FnMut(&[u8], &[u8]) -> Ordering) -> Result<()> {
        self.sort_keys(|list, node| list.payload(node), true, |one, two| compare(one, two))
    }

    /// Sorts it by what lies where the elements are. Of equals the earlier stays earlier.
    pub fn sort_elements_by(&mut self, mut compare: impl FnMut(Element, Element) -> Ordering) -> Result<()> {
        self.sort_keys(|_, node| Ok(element_of(&node)), false, |one, two| compare(*one, *two))
    }

    fn sort_keys<K>(
        &self,
        key: impl Fn(&Self, Node) -> Result<K>,
        payload: bool,
        mut compare: impl FnMut(&K, &K) -> Ordering,
    ) -> Result<()> {
        let nodes = self.walk(self.begin()?, self.end(), payload)?;
        let before: Vec<GlobalAddress> = nodes.iter().map(|node| node.address).collect();
        let mut keyed =
            nodes.into_iter().map(|node| Ok((node.address, key(self, node)?))).collect::<Result<Vec<_>>>()?;
        keyed.sort_by(|(_, one), (_, two)| compare(one, two));
        let order: Vec<GlobalAddress> = keyed.into_iter().map(|(address, _)| address).collect();
        self.relink(&before, &order, None)
    }

    /// Turns it round.
    pub fn reverse(&mut self) -> Result<()> {
        let nodes = self.walk(self.begin()?, self.end(), false)?;
        let before: Vec<GlobalAddress> = nodes.iter().map(|node| node.address).collect();
        let order: Vec<GlobalAddress> = before.iter().rev().copied().collect();
        self.relink(&before, &order, None)
    }

    /// Removes every element with this payload; gives how many.
    pub fn remove(&mut self, data: &[u8]) -> Result<usize> {
        let copies = self.walk(self.begin()?, self.end(), true)?;
        let mut keep = Vec::with_capacity(copies.len());
        for node in copies {
            let (address, bytes) = (node.address, node.bytes);
            keep.push((address, bytes != data.len() as u64 || self.payload(node)? != data));
        }
        self.retain(&keep)
    }

    /// Of each run of elements with the same payload, removes all but the first; gives how many.
    pub fn unique(&mut self) -> Result<usize> {
        let nodes = self.walk(self.begin()?, self.end(), true)?;
        let mut keep = Vec::with_capacity(nodes.len());
        let mut kept: Option<Vec<u8>> = None;
        for node in nodes {
            let address = node.address;
            let payload = self.payload(node)?;
            let is_new = kept.as_ref() != Some(&payload);
            keep.push((address, is_new));
            if is_new {
                kept = Some(payload);
            }
        }
        self.retain(&keep)
    }

    /// Keeps the marked of all elements.
    fn retain(&self, all: &[(GlobalAddress, bool)]) -> Result<usize> {
        let gone: Vec<GlobalAddress> =
            all.iter().filter(|(_, keep)| !keep).map(|(address, _)| *address).collect();
        if gone.is_empty() {
            return Ok(0);
        }
        let before: Vec<GlobalAddress> = all.iter().map(|(address, _)| *address).collect();
        let order: Vec<GlobalAddress> =
            all.iter().filter(|(_, keep)| *keep).map(|(address, _)| *address).collect();
        self.relink(&before, &order, None)?;
        let count = gone.len() as u64;
        self.free(gone)?;
        Ok(count as usize)
    }

    /// Gives the list another order, where that differs from what it was; a list that gave elements to it is empty then.
    fn relink(
        &self,
        before: &[GlobalAddress],
        order: &[GlobalAddress],
        giver: Option<GlobalAddress>,
    ) -> Result<()> {
        if before == order {
            return Ok(());
        }
        let end = self.address;
        let around = |order: &[GlobalAddress]| -> Vec<[GlobalAddress; 3]> {
            let circle: Vec<GlobalAddress> = [end].into_iter().chain(order.iter().copied()).collect();
            let count = circle.len();
            let node = |index: usize| circle[index % count];
            (0..count).map(|index| [node(index), node(index + 1), node(index + count - 1)]).collect()
        };
        let old: HashMap<GlobalAddress, [GlobalAddress; 2]> =
            around(before).into_iter().map(|[node, next, previous]| (node, [next, previous])).collect();
        self.change(giver, |batch| {
            if let Some(giver) = giver {
                batch.set(giver, NEXT, giver)?;
                batch.set(giver, PREVIOUS, giver)?;
                batch.put(giver.add(COUNT), 0)?;
            }
            for [node, next, previous] in around(order) {
                let [old_next, old_previous] = old.get(&node).copied().unwrap_or_default();
                if next != old_next {
                    batch.set(node, NEXT, next)?;
                }
                if previous != old_previous {
                    batch.set(node, PREVIOUS, previous)?;
                }
            }
            batch.put(end.add(COUNT), order.len() as u64)
        })
    }

    /// Exchanges what two lists hold. The elements stay where they are.
    pub fn swap(&mut self, other: &mut List<'_>) -> Result<()> {
        if other.address == self.address {
            return Ok(());
        }
        let (mine, theirs) = (self.header()?, other.header()?);
        let sides = [(self.address, theirs, other.address), (other.address, mine, self.address)];
        self.change(Some(other.address), |batch| {
            for (list, header, was) in sides {
                let own = |node: GlobalAddress| if node == was { list } else { node };
                batch.set(list, NEXT, own(header.first))?;
                batch.set(list, PREVIOUS, own(header.last))?;
                batch.put(list.add(COUNT), header.count)?;
                if header.first != was {
                    batch.set(header.first, PREVIOUS, list)?;
                    batch.set(header.last, NEXT, list)?;
                }
            }
            Ok(())
        })
    }
}

fn element_of(node: &Node) -> Element {
    Element { address: node.address.add(PAYLOAD), bytes: node.bytes as usize }
}

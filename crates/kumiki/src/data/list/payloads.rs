//! The iterator over the payloads of a list.

use super::chain::{Node, Walk};
use super::List;
use crate::{GlobalAddress, Result};
use std::collections::VecDeque;

/// The payloads of a list, one after the other. They are fetched in large pieces: what changes meanwhile may or may not
/// be seen. It ends after an error.
#[derive(Debug)]
pub struct Payloads<'w> {
    pub(super) list: List<'w>,
    fetched: VecDeque<Node>,
    next: Option<GlobalAddress>,
    /// How many there can still be: a list that was changed meanwhile may have become a circle.
    left: u64,
    ended: bool,
}

impl<'w> Payloads<'w> {
    pub(super) fn new(list: List<'w>) -> Payloads<'w> {
        Payloads { list, fetched: VecDeque::new(), next: None, left: u64::MAX, ended: false }
    }

    fn fetch(&mut self) -> Result<()> {
        let list = self.list.address;
        let from = match self.next {
            Some(next) => next,
            None => {
                let header = self.list.header()?;
                self.left = header.count.saturating_add(1);
                header.first
            }
        };
        self.ended = from == list || self.left == 0;
        if !self.ended {
            let mut nodes = Vec::new();
            let walk = Walk { list, from, until: list, most: self.left, backwards: false, payload: true };
            self.next = Some(self.list.step(walk, &mut nodes)?);
            self.left -= (nodes.len() as u64).min(self.left);
            self.fetched = nodes.into();
        }
        Ok(())
    }
}

impl Iterator for Payloads<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Result<Vec<u8>>> {
        if self.fetched.is_empty() && !self.ended {
            if let Err(error) = self.fetch() {
                self.ended = true;
                return Some(Err(error));
            }
        }
        self.fetched.pop_front().map(|node| self.list.payload(node))
    }
}

impl<'w> IntoIterator for &List<'w> {
    type Item = Result<Vec<u8>>;
    type IntoIter = Payloads<'w>;

    fn into_iter(self) -> Payloads<'w> {
        self.iter()
    }
}

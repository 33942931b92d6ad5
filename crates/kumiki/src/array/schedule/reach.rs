//! Pieces that one rank gets or puts by itself: where they lie in memory of their owners, and in its own.

use super::exchange::{Exchange, Found};
use crate::array::space::{Mapping, Nodes, Section};
use crate::{Rank, Result, Shape};

/// Where the elements of a piece lie in the memory of a rank, in elements: nested loops, the last one innermost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The first one.
    pub start: usize,
    /// How many steps each loop has, and how far each goes.
    pub loops: Vec<(usize, isize)>,
}

impl Layout {
    /// From places in the dimensions of a part with these strides.
    pub(super) fn new(
        strides: &[u64],
        places: impl Iterator<Item = (Option<usize>, (i64, (i64, i64)))>,
    ) -> Layout {
        let (mut start, mut loops) = (0, Vec::with_capacity(strides.len()));
        for (number, (count, (first, by))) in places {
            let stride = number.map_or(0, |number| strides[number] as i64);
            start += first * stride;
            loops.push((count as usize, (by * stride) as isize));
        }
        Layout { start: start as usize, loops }
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.loops.iter().map(|(count, _)| *count).product()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As the shape of a copy that begins at `start`.
    pub fn shape(&self) -> Result<Shape> {
        Shape::section(&self.loops)
    }
}

/// A piece of an array that a rank gets from another, or puts there, without its help.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reach {
    /// Who has it, or gets it.
    pub rank: Rank,
    /// Where it lies there.
    pub there: Layout,
    /// Where it lies here, in the same order.
    pub here: Layout,
}

impl Reach {
    /// What `me` has to get from others (and from itself) so that its part of a section has the values of a section of another array.
    pub fn get(me: Rank, to: (&Mapping, &Section), from: (&Mapping, &Section)) -> Result<Vec<Reach>> {
        let exchange = Exchange::copy(to, from, &[], None)?;
        let mut pieces = Vec::new();
        exchange.takes(me, &mut |found: Found<'_>| {
            let (there, here) = (exchange.source_layout(&found), exchange.target_layout(&found));
            pieces.push(Reach { rank: found.peer, there, here });
        })?;
        Ok(pieces)
    }

    /// What `me` has to put to others (and to itself) so that their parts of a section have the values that it has of a section of another array. Where
    /// the source has copies, only one of them puts.
    pub fn put(me: Rank, to: (&Mapping, &Section), from: (&Mapping, &Section)) -> Result<Vec<Reach>> {
        let exchange = Exchange::copy(to, from, &[], None)?;
        let mut pieces = Vec::new();
        exchange.sends(me, &mut |found: Found<'_>| {
            let (there, here) = (exchange.target_layout(&found), exchange.source_layout(&found));
            pieces.push(Reach { rank: found.peer, there, here });
        });
        Ok(pieces)
    }

    /// The pieces of a section whose elements `me` has, or wants, one behind the other.
    pub fn dense(me: Rank, mapping: &Mapping, section: &Section, is_put: bool) -> Result<Vec<Reach>> {
        let own = Mapping::everywhere(&Nodes::single(me), &section.shape())?;
        let whole = own.whole();
        match is_put {
            true => Reach::put(me, (mapping, section), (&own, &whole)),
            false => Reach::get(me, (&own, &whole), (mapping, section)),
        }
    }
}

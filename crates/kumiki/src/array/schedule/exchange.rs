//! All dimensions of an exchange together: for one rank, the pieces that it sends and those that it gets, by rank.
//!
//! What goes from one rank to another is the product of what goes in each dimension. Where the source has copies, each receiver takes from one: itself
//! if it has one, or else in turn; where the target has copies, all get it.

use super::lines::{Line, Step};
use super::reach::Layout;
use crate::array::space::{combinations, misuse, Mapping, Nodes, Section, Span};
use crate::{Rank, Result};

/// What is to be moved.
#[derive(Debug)]
pub(super) struct Exchange<'m> {
    pub(super) to: &'m Mapping,
    pub(super) from: &'m Mapping,
    pub(super) lines: Vec<Line<'m>>,
    pub(super) copies: Copies,
    /// Who takes part; everybody, if nothing is said.
    pub(super) among: Option<&'m Nodes>,
}

/// Which copy of the source a receiver takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Copies {
    /// Its own, or one in turn.
    Nearest,
    /// The one at its own place: every copy is a target of itself. Pieces without a shadow are left out, and those of corners if they are not wanted.
    Same { corners: bool },
}

/// A piece, as it is found.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub(super) peer: Rank,
    pub(super) steps: &'a [&'a Step],
    /// Where its source and its target are in their nodes.
    pub(super) source: &'a [u32],
    pub(super) target: &'a [u32],
}

impl<'m> Exchange<'m> {
    /// A section of an array to one of another, or of the same: the k-th range of the target goes with the k-th of the source, or, if there is an order, with
    /// that one.
    pub(super) fn copy(
        (to, left): (&'m Mapping, &Section),
        (from, right): (&'m Mapping, &Section),
        order: &[usize],
        among: Option<&'m Nodes>,
    ) -> Result<Exchange<'m>> {
        fit("target", to, left)?;
        fit("source", from, right)?;
        let (wanted, mut given) = (left.shape(), right.shape());
        if !order.is_empty() {
            let mut sorted = order.to_vec();
            sorted.sort_unstable();
            if !sorted.iter().copied().eq(0..given.len()) {
                return Err(misuse(format!("{order:?} is no order of {} dimensions", given.len())));
            }
            given = order.iter().map(|at| given[*at]).collect();
        }
        // A source of one element goes to all of the target.
        let is_one = given.is_empty() && !wanted.is_empty();
        if wanted != given && !is_one {
            return Err(misuse(match wanted.len() == given.len() {
                true => format!("a section of shape {given:?} to one of shape {wanted:?}"),
                false => format!(
                    "a section of {} dimensions ({given:?}) to one of {} ({wanted:?})",
                    given.len(),
                    wanted.len()
                ),
            }));
        }
        let lines = match is_one {
            true => spread_one((to, left), (from, right)),
            false => pairs((to, left), (from, right), order),
        };
        let exchange = Exchange { to, from, lines, copies: Copies::Nearest, among };
        exchange.check_inside()?;
        Ok(exchange)
    }

    /// Fails if somebody who has no part in it has something of it, on all ranks alike.
    fn check_inside(&self) -> Result<()> {
        let Some(among) = self.among else { return Ok(()) };
        for (mapping, what) in [(self.from, "source"), (self.to, "target")] {
            if among.contains_all(mapping.nodes()) {
                continue;
            }
            let end = |line: &Line<'m>| if what == "source" { line.from() } else { line.to() };
            let mut lists: Vec<Vec<u32>> = vec![vec![0]; mapping.nodes().sizes().len()];
            for end in self.lines.iter().filter_map(end) {
                let Some(at) = end.dimension.node_dimension() else { continue };
                let Span { base, step, count, .. } = end.span;
                let owns = |node: &u32| !end.dimension.owned(*node, base, step, count).is_empty();
                lists[at] = end.dimension.axis().owners(base, step, count).into_iter().filter(owns).collect();
            }
            for place in combinations(&lists) {
                let mut copies = self.copies_of(mapping, &place);
                if !copies.any(|rank| among.contains(rank)) {
                    let rank = mapping.nodes().rank_at(&place).unwrap_or(Rank::MAX);
                    return Err(misuse(format!(
                        "the {what} has elements on rank {rank}, which takes no part"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Those who have a copy of what the rank at some coordinates has.
    fn copies_of<'a>(&self, mapping: &'a Mapping, place: &[u32]) -> impl Iterator<Item = Rank> + 'a {
        let mut lists: Vec<Vec<u32>> = place.iter().map(|at| vec![*at]).collect();
        for at in mapping.replicated() {
            lists[at] = (0..mapping.nodes().sizes()[at]).collect();
        }
        let ranks: Vec<Rank> =
            combinations(&lists).filter_map(|place| mapping.nodes().rank_at(&place)).collect();
        ranks.into_iter()
    }

    /// From whom a receiver takes what the ranks at some coordinates have, those over which it is replicated left out: where that is.
    fn choose(&self, place: &mut [u32], receiver: Rank, free: &[usize]) -> Option<Rank> {
        let nodes = self.from.nodes();
        if let Some(own) = nodes.coordinates(receiver) {
            let is_same = self.copies != Copies::Nearest;
            let has_it = (0..place.len()).all(|at| free.contains(&at) || own[at] == place[at]);
            if has_it || is_same {
                free.iter().for_each(|at| place[*at] = own[*at]);
                return nodes.rank_at(place);
            }
        }
        if free.is_empty() {
            return nodes.rank_at(place);
        }
        let copies: Vec<Rank> = match self.among {
            Some(among) => self.copies_of(self.from, place).filter(|rank| among.contains(*rank)).collect(),
            None => self.copies_of(self.from, place).collect(),
        };
        let turn = self.to.nodes().position(receiver).unwrap_or(receiver) as usize;
        let chosen = *copies.get(turn % copies.len().max(1))?;
        place.copy_from_slice(&nodes.coordinates(chosen)?);
        Some(chosen)
    }

    fn takes_part(&self, rank: Rank) -> bool {
        self.among.is_none_or(|among| among.contains(rank))
    }

    fn is_wanted(&self, steps: &[&Step]) -> bool {
        let shadows = steps.iter().filter(|step| step.is_shadow).count();
        match self.copies {
            Copies::Nearest => true,
            Copies::Same { corners } => shadows == 1 || shadows > 1 && corners,
        }
    }

    /// All pieces that a rank gets, in the order in which each source sends its own.
    pub(super) fn takes(&self, me: Rank, found: &mut dyn FnMut(Found<'_>)) -> Result<()> {
        let Some(target) = self.to.nodes().coordinates(me).filter(|_| self.takes_part(me)) else {
            return Ok(());
        };
        let lists: Vec<Vec<Step>> = self
            .lines
            .iter()
            .map(|line| {
                line.steps(
                    line.to().map_or(0, |end| coordinate(&target, end.dimension.node_dimension())),
                    None,
                )
            })
            .collect();
        let free = self.from.replicated();
        let mut missing = false;
        products(&lists.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut |steps| {
            if !self.is_wanted(steps) {
                return;
            }
            let mut source = vec![0; self.from.nodes().sizes().len()];
            for (line, step) in self.lines.iter().zip(steps) {
                if let Some(at) = line.from().and_then(|end| end.dimension.node_dimension()) {
                    source[at] = step.source;
                }
            }
            match self.choose(&mut source, me, &free) {
                Some(peer) => found(Found { peer, steps, source: &source, target: &target }),
                None => missing = true,
            }
        });
        match missing {
            true => Err(misuse("nobody who takes part has all of the source")),
            false => Ok(()),
        }
    }

    /// All pieces that a rank sends, in the order in which each receiver gets its own.
    pub(super) fn sends(&self, me: Rank, found: &mut dyn FnMut(Found<'_>)) {
        let Some(source) = self.from.nodes().coordinates(me).filter(|_| self.takes_part(me)) else { return };
        // Who may get something in each dimension, and what.
        let mut lists: Vec<Vec<(u32, Vec<Step>)>> = Vec::with_capacity(self.lines.len());
        for line in &self.lines {
            let own = line.from().map_or(0, |end| coordinate(&source, end.dimension.node_dimension()));
            let steps = |receiver: u32| (receiver, line.steps(receiver, Some(own)));
            lists.push(
                line.receivers(own).into_iter().map(steps).filter(|(_, steps)| !steps.is_empty()).collect(),
            );
        }
        let receivers = self.to.nodes();
        let free_sources = self.from.replicated();
        let free: Vec<usize> = self.to.replicated();
        let choices: Vec<Vec<u32>> = lists.iter().map(|list| (0..list.len() as u32).collect()).collect();
        for choice in combinations(&choices) {
            let mut places: Vec<Vec<u32>> = vec![vec![0]; receivers.sizes().len()];
            let chosen: Vec<&(u32, Vec<Step>)> =
                choice.iter().zip(&lists).map(|(at, list)| &list[*at as usize]).collect();
            for (line, (receiver, _)) in self.lines.iter().zip(&chosen) {
                if let Some(at) = line.to().and_then(|end| end.dimension.node_dimension()) {
                    places[at] = vec![*receiver];
                }
            }
            for at in &free {
                places[*at] = match self.copies {
                    Copies::Nearest => (0..receivers.sizes()[*at]).collect(),
                    Copies::Same { .. } => vec![source[*at]],
                };
            }
            let steps: Vec<&[Step]> = chosen.iter().map(|(_, steps)| steps.as_slice()).collect();
            for target in combinations(&places) {
                let Some(peer) = receivers.rank_at(&target).filter(|rank| self.takes_part(*rank)) else {
                    continue;
                };
                let mut place = source.clone();
                if self.choose(&mut place, peer, &free_sources) != Some(me) {
                    continue;
                }
                products(&steps, &mut |steps| {
                    if self.is_wanted(steps) {
                        found(Found { peer, steps, source: &source, target: &target });
                    }
                });
            }
        }
    }

    /// Where a piece lies in the memory of its source.
    pub(super) fn source_layout(&self, found: &Found<'_>) -> Layout {
        let part = self.from.part_at(found.source);
        let ends = self.lines.iter().map(|line| line.from().map(|end| end.number));
        let places = found.steps.iter().map(|step| (step.count, step.from));
        Layout::new(part.strides(), ends.zip(places))
    }

    /// Where a piece goes in the memory of its target.
    pub(super) fn target_layout(&self, found: &Found<'_>) -> Layout {
        let part = self.to.part_at(found.target);
        let ends = self.lines.iter().map(|line| line.to().map(|end| end.number));
        let places = found.steps.iter().map(|step| (step.count, step.to));
        Layout::new(part.strides(), ends.zip(places))
    }
}

fn coordinate(place: &[u32], at: Option<usize>) -> u32 {
    at.map_or(0, |at| place[at])
}

/// A section is of the array that it is used with.
fn fit(what: &str, mapping: &Mapping, section: &Section) -> Result<()> {
    let (own, given) = (mapping.dimensions().len(), section.spans().len());
    if own != given {
        return Err(misuse(format!("the {what} has {own} dimensions, and its section {given}")));
    }
    for (number, (dimension, span)) in mapping.dimensions().iter().zip(section.spans()).enumerate() {
        let (size, last) = (dimension.size() as i64, span.base + (span.count - 1) * span.step);
        if span.count > 0 && !((0..size).contains(&span.base) && (0..size).contains(&last)) {
            let base = span.base;
            return Err(misuse(format!(
                "dimension {number} of the {what} has {size} elements, and its section is from {base} to {last}"
            )));
        }
    }
    Ok(())
}

fn ends<'m>(mapping: &'m Mapping, section: &Section) -> Vec<super::lines::End<'m>> {
    let dimensions = mapping.dimensions().iter().zip(section.spans()).enumerate();
    dimensions
        .map(|(number, (dimension, span))| super::lines::End { number, dimension, span: *span })
        .collect()
}

fn pairs<'m>(to: (&'m Mapping, &Section), from: (&'m Mapping, &Section), order: &[usize]) -> Vec<Line<'m>> {
    let (left, right) = (ends(to.0, to.1), ends(from.0, from.1));
    let mut lines: Vec<Line<'m>> =
        left.iter().filter(|end| end.span.is_index).map(|end| Line::ToOne(*end)).collect();
    lines.extend(right.iter().filter(|end| end.span.is_index).map(|end| Line::FromOne(*end)));
    let ranges = left.into_iter().filter(|end| !end.span.is_index);
    let mut others: Vec<_> = right.into_iter().filter(|end| !end.span.is_index).collect();
    if !order.is_empty() {
        others = order.iter().map(|at| others[*at]).collect();
    }
    lines.extend(ranges.zip(others).map(|(to, from)| Line::Pair { from, to }));
    lines
}

/// One element to every one of a section: what goes is as many copies of it as a receiver has elements. The source reads the same place again and again.
fn spread_one<'m>(to: (&'m Mapping, &Section), from: (&'m Mapping, &Section)) -> Vec<Line<'m>> {
    let mut lines: Vec<Line<'m>> = ends(from.0, from.1).into_iter().map(Line::FromOne).collect();
    for end in ends(to.0, to.1) {
        lines.push(if end.span.is_index { Line::ToOne(end) } else { Line::ToAll(end) });
    }
    lines
}

/// One of each list, in all ways, the last list fastest.
fn products<'a>(lists: &[&'a [Step]], found: &mut dyn FnMut(&[&'a Step])) {
    if lists.iter().any(|list| list.is_empty()) {
        return;
    }
    let mut at = vec![0usize; lists.len()];
    let mut steps: Vec<&'a Step> = lists.iter().map(|list| &list[0]).collect();
    loop {
        found(&steps);
        let mut place = lists.len();
        loop {
            let Some(before) = place.checked_sub(1) else { return };
            place = before;
            at[place] += 1;
            if at[place] < lists[place].len() {
                steps[place] = &lists[place][at[place]];
                break;
            }
            at[place] = 0;
            steps[place] = &lists[place][0];
        }
    }
}

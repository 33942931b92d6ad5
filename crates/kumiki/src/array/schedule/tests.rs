//! Plans against a sequential model: the exchange is simulated in memory, for all ranks.

use super::plan::Plan;
use super::{Reach, Width};
use crate::array::space::{Align, Format, Mapping, Nodes, Section, Shadow, Sub, Template};
use crate::comm::rows::{self, copy_between};
use crate::{Error, Rank, World};
use kumiki_sim::{Cluster, Network};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides.max(1)
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as u64) as i64
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}

/// A grid of some of the ranks, with so many dimensions.
fn nodes(dice: &mut Dice, ranks: u32, dimensions: usize) -> Nodes {
    let mut sizes = Vec::new();
    let mut left = ranks;
    for _ in 0..dimensions {
        let size = 1 + dice.below(left.min(4).into()) as u32;
        sizes.push(size);
        left /= size;
    }
    let count = sizes.iter().product::<u32>() as usize;
    let mut all: Vec<Rank> = (0..ranks).collect();
    if dice.below(2) == 0 {
        dice.shuffle(&mut all);
    }
    Nodes::of(&all[..count], &sizes).unwrap()
}

fn format(dice: &mut Dice, nodes: u32, extent: u64) -> Format {
    match dice.below(5) {
        0 => Format::Block(None),
        1 => Format::Block(Some(extent.div_ceil(nodes.into()).max(1) + dice.below(3))),
        2 => Format::Cyclic(1),
        3 => Format::Cyclic(2 + dice.below(3)),
        _ => {
            let mut cuts: Vec<u64> = (1..nodes).map(|_| dice.below(extent + 1)).collect();
            cuts.extend([0, extent]);
            cuts.sort_unstable();
            Format::Irregular(cuts.windows(2).map(|pair| pair[1] - pair[0]).collect())
        }
    }
}

/// A mapping of an array with these sizes.
fn mapping(dice: &mut Dice, ranks: u32, sizes: &[u64], shadows: bool) -> Arc<Mapping> {
    if dice.below(8) == 0 {
        return Mapping::everywhere(&nodes(dice, ranks, 1), sizes).unwrap();
    }
    // Dimensions of the template: those of the array that are not collapsed, in any order, and perhaps one more.
    let mut axes: Vec<Option<usize>> = (0..sizes.len()).filter(|_| dice.below(4) > 0).map(Some).collect();
    // A template has 7 at most.
    if axes.is_empty() || axes.len() < 7 && dice.below(4) == 0 {
        axes.push(None);
    }
    dice.shuffle(&mut axes);
    let spread: Vec<bool> = axes.iter().map(|_| dice.below(5) > 0).collect();
    let nodes = nodes(dice, ranks, spread.iter().filter(|is| **is).count());
    let mut aligns = vec![Align::COLLAPSED; sizes.len()];
    let (mut bounds, mut formats, mut used) = (Vec::new(), Vec::new(), 0);
    for (axis, (array, is_spread)) in axes.iter().zip(&spread).enumerate() {
        let lower = dice.between(-4, 4);
        let (before, behind) = (dice.between(0, 2), dice.between(0, 2));
        let size = array.map_or(5, |array| sizes[array]) as i64;
        let extent = before + size + behind;
        bounds.push((lower, lower + extent - 1));
        formats.push(match is_spread {
            true => format(dice, nodes.sizes()[used], extent as u64),
            false => Format::None,
        });
        used += usize::from(*is_spread);
        if let Some(array) = array {
            aligns[*array] = Align::with(axis, lower + before);
        }
    }
    let template = Template::new(&bounds, &formats, &nodes).unwrap();
    let shadow = |align: &Align| {
        let is_cyclic = align.axis.is_some_and(|axis| matches!(formats[axis], Format::Cyclic(_)));
        match dice.below(5) {
            0 if shadows => Shadow::Full,
            1..3 if shadows && !is_cyclic => Shadow::Width { low: dice.below(4), high: dice.below(4) },
            _ => Shadow::NONE,
        }
    };
    let shadows: Vec<Shadow> = aligns.iter().map(shadow).collect();
    Mapping::new(&template, sizes, &aligns, &shadows).unwrap()
}

/// A section of this shape, and sizes of an array that has it.
fn subscripts(dice: &mut Dice, shape: &[u64]) -> (Vec<u64>, Vec<Sub>) {
    let (mut sizes, mut subs) = (Vec::new(), Vec::new());
    for count in shape {
        while sizes.len() < 4 && dice.below(5) == 0 {
            sizes.push(1 + dice.below(4));
            subs.push(Sub::Index(dice.below(sizes[sizes.len() - 1]) as i64));
        }
        let step = dice.between(1, 3);
        let reach = (*count as i64 - 1).max(0) * step;
        let first = dice.between(0, 3);
        let size = first + reach + 1 + dice.between(0, 3);
        sizes.push(size as u64);
        subs.push(match dice.below(3) {
            0 => Sub::range(first + reach, *count as i64, -step),
            _ => Sub::range(first, *count as i64, step),
        });
    }
    (sizes, subs)
}

/// All indices of a section, in its order.
fn indices(section: &Section) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for span in section.spans() {
        let longer = |index: &Vec<i64>| {
            let index = index.clone();
            (0..span.count)
                .map(move |k| [&index[..], &[span.base + k * span.step]].concat())
                .collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

type Values = HashMap<Vec<i64>, u32>;

const ELEMENT: usize = 4;

fn fill(mapping: &Mapping, ranks: u32, value: impl Fn(&[i64]) -> u32) -> Vec<Vec<u8>> {
    let one = |rank: Rank| {
        let part = mapping.part(rank);
        let mut memory = vec![0xEE; part.len() as usize * ELEMENT];
        for index in indices(&mapping.whole()) {
            if part.owns(&index) {
                let at = part.place(&index).unwrap() * ELEMENT;
                memory[at..at + ELEMENT].copy_from_slice(&value(&index).to_le_bytes());
            }
        }
        memory
    };
    (0..ranks).map(one).collect()
}

fn value_at(memory: &[u8], place: usize) -> u32 {
    u32::from_le_bytes(memory[place * ELEMENT..][..ELEMENT].try_into().unwrap())
}

/// What all ranks do.
#[allow(clippy::type_complexity, reason = "written once")]
fn simulate(
    plans: &[Plan],
    from: &[Vec<u8>],
    to: &mut [Vec<u8>],
    put: &mut dyn FnMut(&rows::Section, &[u8], &mut [u8]),
) {
    let gather = |pieces: &mut dyn Iterator<Item = &rows::Section>, bytes: usize, memory: &[u8]| {
        let mut message = vec![0; bytes];
        let mut at = 0;
        for piece in pieces {
            // In parts that are no whole rows.
            let mut rows = piece.rows();
            while rows.left() > 0 {
                at += rows.pack(memory, (&mut message[..], at), 3 * ELEMENT + at % 50, &mut []).unwrap();
            }
        }
        assert_eq!(at, bytes);
        message
    };
    let mut mail = HashMap::new();
    for (me, plan) in plans.iter().enumerate() {
        for peer in &plan.sends {
            let message = gather(&mut peer.pieces.iter(), peer.bytes, &from[me]);
            assert!(mail.insert((me, peer.rank as usize), message).is_none());
        }
        let kept = plan.own.iter().map(|(from, _)| from.bytes()).sum();
        mail.insert((me, me), gather(&mut plan.own.iter().map(|(from, _)| from), kept, &from[me]));
    }
    for (me, plan) in plans.iter().enumerate() {
        for peer in &plan.takes {
            let message = mail.remove(&(peer.rank as usize, me)).expect("somebody sends what is taken");
            assert_eq!(message.len(), peer.bytes);
            let mut at = 0;
            for piece in &peer.pieces {
                put(piece, &message[at..at + piece.bytes()], &mut to[me]);
                at += piece.bytes();
            }
        }
        let kept = mail.remove(&(me, me)).unwrap();
        let mut at = 0;
        for (source, target) in &plan.own {
            assert_eq!(source.bytes(), target.bytes());
            put(target, &kept[at..at + target.bytes()], &mut to[me]);
            at += target.bytes();
        }
    }
    assert!(mail.is_empty(), "nothing is sent that nobody takes");
}

fn scatter(section: &rows::Section, came: &[u8], to: &mut [u8]) {
    let (mut rows, mut at) = (section.rows(), 0);
    while rows.left() > 0 {
        at += rows.unpack((came, at), to, 2 * ELEMENT + at % 30, &mut []).unwrap();
    }
    assert_eq!(at, came.len());
}

fn code(index: &[i64], salt: u32) -> u32 {
    index.iter().fold(salt, |code, at| code.wrapping_mul(31).wrapping_add(*at as u32 + 1))
}

/// The target, when it has got the source.
fn expected(to: &Mapping, left: &Section, right: &Section, source: u32, target: u32) -> Values {
    let mut values: Values =
        indices(&to.whole()).into_iter().map(|at| (at.clone(), code(&at, target))).collect();
    let froms = indices(right);
    for (position, at) in indices(left).into_iter().enumerate() {
        values.insert(at, code(&froms[position.min(froms.len() - 1)], source));
    }
    values
}

fn check(to: &Mapping, memories: &[Vec<u8>], before: &[Vec<u8>], values: &Values) {
    for (rank, (memory, before)) in memories.iter().zip(before).enumerate() {
        let part = to.part(rank as Rank);
        let mut owned = vec![false; part.len() as usize];
        for index in indices(&to.whole()).into_iter().filter(|index| part.owns(index)) {
            let place = part.place(&index).unwrap();
            owned[place] = true;
            assert_eq!(value_at(memory, place), values[&index], "{index:?} of rank {rank}");
        }
        for place in (0..owned.len()).filter(|place| !owned[*place]) {
            assert_eq!(value_at(memory, place), value_at(before, place), "the shadow of rank {rank}");
        }
    }
}

fn shape(dice: &mut Dice) -> Vec<u64> {
    (0..dice.below(4)).map(|_| dice.below(9)).collect()
}

/// One copy, of one array or between two.
fn copy_case(seed: u64) {
    let dice = &mut Dice(seed);
    let ranks = 1 + dice.below(9) as u32;
    let shape = shape(dice);
    let (to_sizes, left) = subscripts(dice, &shape);
    let to = mapping(dice, ranks, &to_sizes, true);
    let left = to.section(&left).unwrap();
    let inside = dice.below(4) == 0;
    let (from, right) = match inside {
        true => (to.clone(), other_section(dice, &to, &left)),
        false => {
            // Sometimes a single element for all of them.
            let shape = if dice.below(8) == 0 { Vec::new() } else { shape };
            let (sizes, right) = subscripts(dice, &shape);
            let from = mapping(dice, ranks, &sizes, true);
            let right = from.section(&right).unwrap();
            (from, right)
        }
    };
    let all = Nodes::line(ranks);
    let plan = |me| Plan::copy_of(me, &all, ELEMENT, (&to, &left), (&from, &right)).unwrap();
    let plans: Vec<Plan> = (0..ranks).map(plan).collect();
    let sources = fill(&from, ranks, |at| code(at, 1));
    let target = if inside { 1 } else { 7 };
    let before = fill(&to, ranks, |at| code(at, target));
    let mut targets = before.clone();
    simulate(&plans, &sources, &mut targets, &mut scatter);
    let values = expected(&to, &left, &right, 1, target);
    check(&to, &targets, &before, &values);
    let (packed, needed) = plans.iter().zip(&sources).map(|(plan, source)| packed(plan, source)).unzip();
    let (packed, needed): (Vec<Plan>, Vec<Vec<u8>>) = (packed, needed);
    let mut targets = before.clone();
    simulate(&packed, &needed, &mut targets, &mut scatter);
    check(&to, &targets, &before, &values);
    if !inside {
        one_sided(&to, &left, &from, &right, (&sources, &before, &values));
        for (me, (plan, packed)) in plans.iter().zip(&packed).enumerate() {
            let mut direct = before[me].clone();
            let mut staged = before[me].clone();
            let mut from_packed = before[me].clone();
            for (source, target) in &packed.own {
                copy_between(&needed[me], source, &mut from_packed, target);
            }
            for (source, target) in &plan.own {
                copy_between(&sources[me], source, &mut direct, target);
                let mut message = vec![0; source.bytes()];
                source.rows().gather(&sources[me], &mut message);
                target.rows().scatter(&message, &mut staged);
            }
            assert_eq!(direct, staged);
            assert_eq!(direct, from_packed);
        }
    }
}

/// The plan that reads a memory with nothing else in it, and that memory.
fn packed(plan: &Plan, source: &[u8]) -> (Plan, Vec<u8>) {
    let (packed, pieces) = plan.packed();
    let mut needed = Vec::new();
    for piece in &pieces {
        let wide = piece.loops.iter().map(|&(count, stride)| (count, stride * ELEMENT as isize));
        let section = rows::Section::of_loops(piece.start * ELEMENT, ELEMENT, wide.collect());
        let at = needed.len();
        needed.resize(at + piece.len() * ELEMENT, 0);
        section.rows().gather(source, &mut needed[at..]);
    }
    assert_eq!(needed.len(), packed.from_bytes);
    let moved = plan.cost().sent + plan.cost().kept;
    assert!(needed.len() as u64 <= moved, "{} bytes for a copy of {moved}", needed.len());
    (packed, needed)
}

/// Gets and puts do the same as the plan.
fn one_sided(
    to: &Mapping,
    left: &Section,
    from: &Mapping,
    right: &Section,
    (sources, before, values): (&[Vec<u8>], &[Vec<u8>], &Values),
) {
    for is_put in [false, true] {
        let mut targets = before.to_vec();
        for me in 0..before.len() {
            let pieces = match is_put {
                true => Reach::put(me as Rank, (to, left), (from, right)),
                false => Reach::get(me as Rank, (to, left), (from, right)),
            };
            for Reach { rank, there, here } in pieces.unwrap() {
                let (source, target) = if is_put { (here, there) } else { (there, here) };
                let (source_rank, target_rank) =
                    if is_put { (me, rank as usize) } else { (rank as usize, me) };
                let section = |layout: super::Layout| {
                    let loops =
                        layout.loops.iter().map(|(count, by)| (*count, by * ELEMENT as isize)).collect();
                    rows::Section::of_loops(layout.start * ELEMENT, ELEMENT, loops)
                };
                assert_eq!(source.len(), target.len());
                copy_between(
                    &sources[source_rank],
                    &section(source),
                    &mut targets[target_rank],
                    &section(target),
                );
            }
        }
        check(to, &targets, before, values);
    }
}

/// Another section of the same shape, which may overlap.
fn other_section(dice: &mut Dice, mapping: &Mapping, like: &Section) -> Section {
    let subs: Vec<Sub> = like
        .spans()
        .iter()
        .zip(mapping.sizes())
        .map(|(span, size)| match span.is_index {
            true => Sub::Index(dice.below(size) as i64),
            false => {
                let most = if span.count > 1 { (size as i64 - 1) / (span.count - 1) } else { 1 };
                let step = dice.between(1, most.max(1));
                let reach = (span.count - 1).max(0) * step;
                let base = dice.between(0, size as i64 - 1 - reach);
                match dice.below(2) {
                    0 => Sub::range(base + reach, span.count, -step),
                    _ => Sub::range(base, span.count, step),
                }
            }
        })
        .collect();
    mapping.section(&subs).unwrap()
}

/// What a place of a part stands for, dimension by dimension: an index, and whether it is the rank's own. `None` if a reflect leaves it alone.
fn stands_for(mapping: &Mapping, rank: Rank, widths: &[Width], places: &[u64]) -> Option<Vec<(i64, bool)>> {
    let part = mapping.part(rank);
    let mut found = Vec::new();
    for (number, (dimension, width)) in mapping.dimensions().iter().zip(widths).enumerate() {
        let node = part.node(number)?;
        let size = dimension.size() as i64;
        let place = places[number] as i64;
        match dimension.shift(node) {
            Some(shift) => {
                let index = place - shift;
                let is_own = (0..size).contains(&index) && dimension.axis().owner(index) == Some(node);
                if is_own {
                    found.push((index, true));
                    continue;
                }
                if dimension.shadow() == Shadow::Full {
                    (width.low > 0).then_some(())?;
                    found.push((index, false));
                    continue;
                }
                let (first, last) = dimension.ends(node)?;
                let is_near = (first - width.low as i64..=last + width.high as i64).contains(&index);
                let is_there = width.periodic || (0..size).contains(&index);
                (is_near && is_there).then_some(())?;
                found.push((index.rem_euclid(size), false));
            }
            None => {
                let index = dimension.axis().global(node, place).filter(|index| (0..size).contains(index))?;
                found.push((index, true));
            }
        }
    }
    Some(found)
}

fn reflect_case(seed: u64) {
    let dice = &mut Dice(seed);
    let ranks = 1 + dice.below(9) as u32;
    let sizes: Vec<u64> = (0..1 + dice.below(3)).map(|_| 1 + dice.below(8)).collect();
    let mapping = mapping(dice, ranks, &sizes, true);
    let corners = dice.below(2) == 0;
    let mut width = |shadow: Shadow| match shadow.widths() {
        Some((low, high)) => {
            Width { low: dice.below(low + 1), high: dice.below(high + 1), periodic: dice.below(2) == 0 }
        }
        None if dice.below(3) == 0 => Width::NONE,
        None => Width { low: 1, high: 1, periodic: false },
    };
    let widths: Vec<Width> = mapping.dimensions().iter().map(|dimension| width(dimension.shadow())).collect();
    let plans = || -> Vec<Plan> {
        (0..ranks).map(|me| Plan::reflect_of(me, ELEMENT, &mapping, &widths, corners).unwrap()).collect()
    };
    let before = fill(&mapping, ranks, |at| code(at, 3));
    let mut after = before.clone();
    simulate(&plans(), &before, &mut after, &mut scatter);
    // The shadow of every rank holds a number of its own, and goes back to the owners.
    let mut sums = after.clone();
    let back: Vec<Plan> = plans().into_iter().map(Plan::backwards).collect();
    simulate(&back, &after, &mut sums, &mut |section, came, to| {
        let mut there = vec![0; came.len()];
        section.rows().gather(to, &mut there);
        for (there, came) in there.as_chunks_mut::<ELEMENT>().0.iter_mut().zip(came.as_chunks::<ELEMENT>().0)
        {
            *there = u32::from_le_bytes(*there).wrapping_add(u32::from_le_bytes(*came)).to_le_bytes();
        }
        section.rows().scatter(&there, to);
    });
    let free = mapping.replicated();
    let mut times: HashMap<(Vec<u32>, Vec<i64>), u32> = HashMap::new();
    for rank in 0..ranks {
        let part = mapping.part(rank);
        for place in 0..part.len() {
            let places: Vec<u64> = part
                .strides()
                .iter()
                .zip(part.extents())
                .map(|(stride, extent)| place / stride % extent)
                .collect();
            let found = stands_for(&mapping, rank, &widths, &places);
            let shadows = found.iter().flatten().filter(|(_, is_own)| !is_own).count();
            let was = value_at(&before[rank as usize], place as usize);
            let wanted = match &found {
                Some(found) if shadows == 1 || shadows > 1 && corners => {
                    let index: Vec<i64> = found.iter().map(|(index, _)| *index).collect();
                    let copy = free.iter().map(|at| part.coordinates().unwrap()[*at]).collect();
                    *times.entry((copy, index.clone())).or_default() += 1;
                    code(&index, 3)
                }
                _ => was,
            };
            assert_eq!(
                value_at(&after[rank as usize], place as usize),
                wanted,
                "rank {rank} place {places:?}"
            );
        }
    }
    for rank in 0..ranks {
        let part = mapping.part(rank);
        for index in indices(&mapping.whole()).into_iter().filter(|index| part.owns(index)) {
            let copy = free.iter().map(|at| part.coordinates().unwrap()[*at]).collect();
            let count = times.get(&(copy, index.clone())).copied().unwrap_or(0);
            let wanted = code(&index, 3).wrapping_mul(count + 1);
            assert_eq!(value_at(&sums[rank as usize], part.place(&index).unwrap()), wanted, "{index:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 5 } else { 600 }))]

    #[test]
    fn copies_are_as_in_one_memory(seed in any::<u64>()) {
        copy_case(seed);
    }

    #[test]
    fn reflects_are_as_in_one_memory_and_back(seed in any::<u64>()) {
        reflect_case(seed);
    }
}

#[test]
fn only_those_who_take_part_send_and_get() {
    let nodes = Nodes::grid(&[2, 2]).unwrap();
    let template = Template::block(&[8, 8], &nodes).unwrap();
    // Both rows of nodes have a copy.
    let vector = Mapping::new(&template, &[8], &[Align::with(1, 0)], &[Shadow::NONE]).unwrap();
    let top = nodes.subset(&[Sub::Index(0), Sub::All], 0).unwrap();
    let left = vector.section(&[Sub::from(0..4)]).unwrap();
    let right = vector.section(&[Sub::from(4..8)]).unwrap();
    let plan = |me| Plan::copy_of(me, &top, 8, (&vector, &left), (&vector, &right)).unwrap().cost();
    assert_eq!((plan(1).sent, plan(0).received), (32, 32));
    assert_eq!((plan(2), plan(3)), (super::Cost::default(), super::Cost::default()));
    let matrix =
        Mapping::new(&template, &[8, 8], &[Align::with(0, 0), Align::with(1, 0)], &[Shadow::NONE; 2])
            .unwrap();
    let lower = matrix.section(&[Sub::Index(5), Sub::from(0..4)]).unwrap();
    for me in 0..4 {
        let outside = Plan::copy_of(me, &top, 8, (&vector, &left), (&matrix, &lower)).unwrap_err();
        assert!(outside.to_string().contains("the source has elements on rank 2"), "{outside}");
        let outside = Plan::copy_of(me, &top, 8, (&matrix, &lower), (&vector, &left)).unwrap_err();
        assert!(outside.to_string().contains("the target has elements on rank 2"), "{outside}");
    }
}

#[test]
fn what_does_not_fit_is_refused_and_says_why() {
    let nodes = Nodes::line(2);
    let template = Template::block(&[8], &nodes).unwrap();
    let array = Mapping::new(
        &template,
        &[8, 3],
        &[Align::with(0, 0), Align::COLLAPSED],
        &[Shadow::both(1), Shadow::NONE],
    );
    let array = array.unwrap();
    let section = |subs: &[Sub]| array.section(subs).unwrap();
    let copy = |left: &Section, right: &Section| {
        Plan::copy_of(0, &nodes, 8, (&array, left), (&array, right)).unwrap_err().to_string()
    };
    let (row, column) = (section(&[Sub::Index(0), Sub::All]), section(&[Sub::All, Sub::Index(0)]));
    assert!(copy(&row, &column).contains("a section of shape [8] to one of shape [3]"));
    assert!(copy(&array.whole(), &column).contains("a section of 1 dimensions ([8]) to one of 2 ([8, 3])"));
    assert!(copy(&Section::whole(&[8]), &column).contains("the target has 2 dimensions, and its section 1"));
    assert!(copy(&row, &Section::whole(&[9, 3])).contains("dimension 0 of the source has 8 elements"));
    let reflect = |widths: &[Width]| Plan::reflect_of(0, 8, &array, widths, true).unwrap_err().to_string();
    assert!(reflect(&[Width::NONE]).contains("1 widths for the shadow of an array of 2 dimensions"));
    let wide = Width { low: 1, high: 2, periodic: false };
    assert!(reflect(&[wide, Width::NONE]).contains("a width of 1:2, and the shadow has 1:1"));
}

/// In seven dimensions, and on many ranks, a plan has as many pieces as it exchanges.
#[test]
fn plans_grow_with_what_is_exchanged() {
    let nodes = Nodes::grid(&[2; 6]).unwrap();
    let sizes = [8u64; 7];
    let array = |first: usize| {
        let bounds = [(0, 7); 7];
        let mut formats = vec![Format::Block(None); 7];
        formats[first] = Format::None;
        let template = Template::new(&bounds, &formats, &nodes).unwrap();
        let aligns: Vec<Align> = (0..7).map(|at| Align::with(at, 0)).collect();
        Mapping::new(&template, &sizes, &aligns, &[Shadow::NONE; 7]).unwrap()
    };
    let (from, to) = (array(0), array(6));
    let plan = Plan::copy_of(5, &nodes, 8, (&to, &to.whole()), (&from, &from.whole())).unwrap();
    let cost = plan.cost();
    assert!(cost.receivers <= 4 && cost.pieces <= 16, "{cost:?}");
    let many = Nodes::line(65_536);
    let line = |format| {
        let template = Template::new(&[(0, 1 << 40)], &[format], &many).unwrap();
        Mapping::new(&template, &[1 << 40], &[Align::with(0, 0)], &[Shadow::NONE]).unwrap()
    };
    let (from, to) = (line(Format::Block(None)), line(Format::Block(Some((1 << 24) + 100))));
    let cost = Plan::copy_of(40_000, &many, 8, (&to, &to.whole()), (&from, &from.whole())).unwrap().cost();
    assert!(cost.receivers <= 2 && cost.senders <= 2 && cost.pieces <= 4, "{cost:?}");
}

/// Ways in which both ranks, or one of them, fail in an exchange.
const FAILURES: [&str; 4] = ["gathers", "runs", "starts", "one starts"];

#[test]
fn receives_of_what_was_refused_with_one_empty_message_stayed_posted() {
    let outcome = Cluster::new(2, Network::torus(&[2])).run(|attachment| {
        let world = World::attach(attachment)?;
        // Parts of 1.5 MiB: several messages.
        let size = 393_216;
        let nodes = Nodes::line(2);
        let template = Template::new(&[(0, size - 1)], &[Format::Block(None)], &nodes)?;
        let from = Mapping::new(&template, &[size as u64], &[Align::with(0, 0)], &[Shadow::NONE])?;
        let to = Mapping::everywhere(&nodes, &[size as u64])?;
        let plan = Plan::copy(&world, &nodes, 8, (&to, &to.whole()), (&from, &from.whole()))?;
        let (own, mut whole) = (vec![1u8; 4 * size as usize], vec![0u8; 8 * size as usize]);
        for failure in FAILURES {
            let failed = match (failure, world.rank()) {
                ("gathers", _) => plan.instead(&world, || Err(Error::Closed("the group is broken".into()))),
                ("runs", _) => plan.run(&world, &[], &mut whole),
                ("one starts", 0) => plan.start(&world, &own).and_then(|started| started.finish(&mut whole)),
                _ => plan.start(&world, &[]).map(drop),
            };
            assert!(failed.is_err(), "{failure}");
            world.sync()?;
            let is_under_way = (0..100).all(|_| {
                kumiki_sim::compute(kumiki_sim::Time::from_seconds(1e-3));
                world.look_after_messages()
            });
            assert!(!is_under_way, "{failure}: it waits for what never comes");
            world.sync()?;
            plan.run(&world, &own, &mut whole)?;
            assert!(std::mem::replace(&mut whole, vec![0; 8 * size as usize]).iter().all(|byte| *byte == 1));
        }
        world.finalize()
    });
    assert_eq!(outcome.expect("it runs").values().expect("nobody panicked"), [Ok(()), Ok(())]);
}

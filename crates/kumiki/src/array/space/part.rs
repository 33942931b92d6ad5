//! What one rank has of an array: extents with the shadow, where an element lies, and which indices it owns.

use super::{Mapping, Progression};

/// What one rank has of an array: nothing, if it is not one of its nodes. From [`Mapping::part`].
#[derive(Clone, Debug)]
pub struct Part<'m> {
    mapping: &'m Mapping,
    coordinates: Option<Vec<u32>>,
    extents: Vec<u64>,
    strides: Vec<u64>,
}

impl<'m> Part<'m> {
    pub(super) fn new(mapping: &'m Mapping, coordinates: Option<Vec<u32>>) -> Part<'m> {
        let mut part = Part { mapping, coordinates, extents: Vec::new(), strides: Vec::new() };
        part.extents = (0..mapping.dimensions().len()).map(|at| part.extent_of(at)).collect();
        part.strides = vec![1; part.extents.len()];
        for at in (1..part.extents.len()).rev() {
            part.strides[at - 1] = part.strides[at].saturating_mul(part.extents[at]);
        }
        part
    }

    fn extent_of(&self, dimension: usize) -> u64 {
        self.node(dimension).map_or(0, |node| self.mapping.dimensions()[dimension].extent(node))
    }

    /// The mapping that it is a part of.
    pub fn mapping(&self) -> &'m Mapping {
        self.mapping
    }

    /// Where the rank is in the nodes of the array, if it is one of them.
    pub fn coordinates(&self) -> Option<&[u32]> {
        self.coordinates.as_deref()
    }

    /// Where the rank is in the nodes that a dimension is spread over: 0 if it is not.
    pub fn node(&self, dimension: usize) -> Option<u32> {
        let place = self.coordinates.as_ref()?;
        Some(self.mapping.dimensions()[dimension].node_dimension().map_or(0, |at| place[at]))
    }

    /// How many elements it has room for in each dimension, with the shadow.
    pub fn extents(&self) -> &[u64] {
        &self.extents
    }

    /// How far apart elements are in memory whose indices differ by 1, in elements.
    pub fn strides(&self) -> &[u64] {
        &self.strides
    }

    /// How many elements it has room for, with the shadow. At most `u64::MAX`, whatever the sizes are.
    pub fn len(&self) -> u64 {
        match self.coordinates {
            Some(_) => self.extents.iter().fold(1, |count: u64, extent| count.saturating_mul(*extent)),
            None => 0,
        }
    }

    /// Whether it has room for nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first and the last index that it owns in a dimension; between them it owns all, unless the dimension is spread in turn.
    pub fn ends(&self, dimension: usize) -> Option<(i64, i64)> {
        self.mapping.dimensions()[dimension].ends(self.node(dimension)?)
    }

    /// How many indices it owns in a dimension.
    pub fn count(&self, dimension: usize) -> u64 {
        let size = self.mapping.dimensions()[dimension].size();
        self.ranges(dimension, 0, size as i64 - 1, 1).iter().map(Progression::len).sum()
    }

    /// Element `g` of a dimension is at place `g + shift`: with a full shadow, and wherever it is not spread in turn.
    pub fn shift(&self, dimension: usize) -> Option<i64> {
        self.mapping.dimensions()[dimension].shift(self.node(dimension)?)
    }

    /// The indices of `first`, `first + step`, … not beyond `last` that it owns: few progressions, in the direction of the step.
    pub fn ranges(&self, dimension: usize, first: i64, last: i64, step: i64) -> Vec<Progression> {
        let size = self.mapping.dimensions()[dimension].size() as i64;
        match (self.node(dimension), Progression::clipped(first, last, step, 0, size - 1)) {
            (Some(node), Some(inside)) => {
                self.mapping.dimensions()[dimension].axis().ranges(node, inside.first, inside.last, step)
            }
            _ => Vec::new(),
        }
    }

    /// Where an element is in memory, in elements, if this rank has it: its own, or one in the shadow, which may be beyond the bounds of the array.
    pub fn place(&self, index: &[i64]) -> Option<usize> {
        let mut place = 0u64;
        for (dimension, at) in index.iter().enumerate() {
            let here = self.mapping.dimensions().get(dimension)?.place(self.node(dimension)?, *at)?;
            place = place.checked_add(here.checked_mul(self.strides[dimension])?)?;
        }
        (index.len() == self.extents.len() && self.coordinates.is_some()).then_some(place as usize)
    }

    /// Whether this rank owns an element.
    pub fn owns(&self, index: &[i64]) -> bool {
        let dimensions = self.mapping.dimensions();
        index.len() == dimensions.len()
            && self.coordinates.is_some()
            && index.iter().enumerate().all(|(dimension, at)| {
                let size = dimensions[dimension].size() as i64;
                (0..size).contains(at) && dimensions[dimension].axis().owner(*at) == self.node(dimension)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Align, Format, Nodes, Shadow, Template};
    use super::*;

    #[test]
    fn parts_have_extents_shifts_and_places() {
        let nodes = Nodes::grid(&[2, 3]).unwrap();
        let template =
            Template::new(&[(1, 12), (0, 6)], &[Format::Block(None), Format::Cyclic(2)], &nodes).unwrap();
        // Permuted, with an offset.
        let mapping = Mapping::new(
            &template,
            &[7, 9, 2],
            &[Align::with(1, 0), Align::with(0, 3), Align::COLLAPSED],
            &[Shadow::NONE, Shadow::Width { low: 1, high: 2 }, Shadow::NONE],
        )
        .unwrap();
        let first = mapping.part(0);
        assert_eq!((first.ends(0), first.ends(1), first.ends(2)), (Some((0, 6)), Some((0, 3)), Some((0, 1))));
        assert_eq!((first.extents(), first.len(), first.count(0)), (&[3, 7, 2][..], 42, 3));
        assert_eq!((first.shift(0), first.shift(1), first.shift(2)), (None, Some(1), Some(0)));
        assert_eq!(first.place(&[6, -1, 1]), Some(2 * 14 + 1));
        assert_eq!((first.place(&[2, 0, 0]), first.place(&[6, 6, 0])), (None, None));
        let last = mapping.part(5);
        assert_eq!(
            (last.ends(0), last.ends(1), last.extents()),
            (Some((4, 5)), Some((4, 8)), &[2, 8, 2][..])
        );
        assert!(last.owns(&[5, 8, 1]) && !last.owns(&[6, 8, 1]) && !last.owns(&[5, 3, 1]));
        assert!(mapping.part(6).is_empty() && mapping.part(6).coordinates().is_none());
        assert_eq!(mapping.owners(&[3, 4, 0]).unwrap().ranks().collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn a_full_shadow_has_room_for_all_and_an_empty_part_for_nothing() {
        let template = Template::block(&[5], &Nodes::line(4)).unwrap();
        let full = Mapping::new(&template, &[5], &[Align::with(0, 0)], &[Shadow::Full]).unwrap();
        let around = Mapping::new(&template, &[5], &[Align::with(0, 0)], &[Shadow::both(1)]).unwrap();
        assert_eq!((full.part(3).len(), full.part(3).ends(0), full.part(3).shift(0)), (5, None, Some(0)));
        assert_eq!((around.part(2).len(), around.part(3).len(), around.part(3).is_empty()), (3, 0, true));
        let scalar = Mapping::everywhere(&Nodes::line(4), &[]).unwrap();
        assert_eq!((scalar.part(2).len(), scalar.part(4).len(), scalar.part(2).place(&[])), (1, 0, Some(0)));
    }
}

//! How an array lies on nodes: its sizes, a template, which dimension goes with which of it, and the shadow around each node's part. Mappings that are equal are
//! one value in a process: comparing them is comparing addresses, and an array has one word for all of it.

use super::{misuse, Axis, Nodes, Owned, Part, Section, Sub, Template, MAX_DIMENSIONS};
use crate::{Rank, Result};
use std::collections::hash_map::{DefaultHasher, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What a dimension of an array goes with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Align {
    /// The dimension of the template; none if every node has all of this dimension.
    pub axis: Option<usize>,
    /// Element `i` of the array is at index `i + offset` of the template.
    pub offset: i64,
}

impl Align {
    /// A dimension that every node has whole.
    pub const COLLAPSED: Align = Align { axis: None, offset: 0 };

    /// Element `i` goes with index `i + offset` of a dimension of the template.
    pub fn with(axis: usize, offset: i64) -> Align {
        Align { axis: Some(axis), offset }
    }
}

/// Elements around a node's part that it has room for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Shadow {
    /// So many below and above.
    Width {
        /// Below the first one.
        low: u64,
        /// Above the last one.
        high: u64,
    },
    /// The whole dimension.
    Full,
}

impl Shadow {
    /// No shadow.
    pub const NONE: Shadow = Shadow::Width { low: 0, high: 0 };

    /// As many below as above.
    pub fn both(width: u64) -> Shadow {
        Shadow::Width { low: width, high: width }
    }

    /// How wide it is, if it is not full.
    pub fn widths(self) -> Option<(u64, u64)> {
        match self {
            Shadow::Width { low, high } => Some((low, high)),
            Shadow::Full => None,
        }
    }
}

/// One dimension of an array.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Dimension {
    size: u64,
    /// In indices of the array.
    axis: Axis,
    node_dimension: Option<usize>,
    align: Align,
    shadow: Shadow,
}

impl Dimension {
    /// How many elements the array has in it.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The arithmetic of it, in indices of the array: its bounds may be wider than those of the array.
    pub fn axis(&self) -> &Axis {
        &self.axis
    }

    /// The dimension of the nodes that it is spread over.
    pub fn node_dimension(&self) -> Option<usize> {
        self.node_dimension
    }

    /// What it goes with.
    pub fn align(&self) -> Align {
        self.align
    }

    /// What is around a node's part.
    pub fn shadow(&self) -> Shadow {
        self.shadow
    }

    /// The first and the last index that a node has; between them it has all, unless the dimension is spread in turn.
    pub fn ends(&self, node: u32) -> Option<(i64, i64)> {
        self.axis.ends(node, 0, self.size as i64 - 1)
    }

    /// How many indices a node has room for, with the shadow.
    pub fn extent(&self, node: u32) -> u64 {
        match (self.shadow, self.ends(node)) {
            (Shadow::Full, _) => self.size,
            (_, None) => 0,
            (_, Some((_, last))) if self.axis.is_cyclic() => {
                self.axis.local(last).map_or(0, |at| at as u64 + 1)
            }
            (Shadow::Width { low, high }, Some((first, last))) => (last - first) as u64 + 1 + low + high,
        }
    }

    /// Element `g` is at place `g + shift` of a node, if places follow indices: with a full shadow, and wherever the dimension is not spread in turn.
    pub fn shift(&self, node: u32) -> Option<i64> {
        match (self.shadow, self.ends(node)) {
            (Shadow::Full, _) => Some(0),
            _ if self.axis.is_cyclic() => None,
            (Shadow::Width { low, .. }, Some((first, _))) => Some(low as i64 - first),
            (_, None) => Some(0),
        }
    }

    /// Where an index is in a node's part, its own or in the shadow.
    pub fn place(&self, node: u32, index: i64) -> Option<u64> {
        let place = match self.shift(node) {
            Some(shift) => index.checked_add(shift)?,
            None => (self.axis.owner(index) == Some(node)).then(|| self.axis.local(index))??,
        };
        u64::try_from(place).ok().filter(|place| *place < self.extent(node))
    }

    /// What a node has of the indices `base`, `base + step`, …, with places in its part.
    pub fn owned(&self, node: u32, base: i64, step: i64, count: i64) -> Vec<Owned> {
        let mut owned = self.axis.owned(node, base, step, count);
        if let Some(shift) = self.shift(node) {
            for part in &mut owned {
                part.local = base + part.start * step + shift;
                part.local_stride = if part.count > 1 { part.stride * step } else { 0 };
            }
        }
        owned
    }
}

/// How an array lies on nodes. See [`Mapping::new`].
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct Mapping {
    nodes: Nodes,
    dimensions: Vec<Dimension>,
    template: Option<Template>,
}

impl Mapping {
    /// How an array of these sizes lies on the nodes of a template: for each of its dimensions what it goes with, and its shadow. A dimension of the
    /// template that none goes with is one over which the array is replicated.
    ///
    /// ```
    /// use kumiki::array::{Align, Format, Mapping, Nodes, Shadow, Template};
    ///
    /// # fn main() -> kumiki::Result<()> {
    /// let template = Template::block(&[100, 100], &Nodes::grid(&[2, 2])?)?;
    /// // A matrix with one cell around each part, and a row of it that both rows of nodes have.
    /// let matrix = Mapping::new(&template, &[100, 100], &[Align::with(0, 0), Align::with(1, 0)], &[Shadow::both(1); 2])?;
    /// let row = Mapping::new(&template, &[100], &[Align::with(1, 0)], &[Shadow::NONE])?;
    /// assert_eq!(matrix.part(3).extents(), [52, 52]);
    /// assert_eq!(row.owners(&[60])?.ranks().collect::<Vec<_>>(), [1, 3]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(
        template: &Template,
        sizes: &[u64],
        aligns: &[Align],
        shadows: &[Shadow],
    ) -> Result<Arc<Mapping>> {
        check_count(sizes.len())?;
        if aligns.len() != sizes.len() || shadows.len() != sizes.len() {
            let (count, aligned, shaded) = (sizes.len(), aligns.len(), shadows.len());
            return Err(misuse(format!(
                "an array of {count} dimensions, of which {aligned} are aligned and {shaded} have a shadow"
            )));
        }
        let mut taken = vec![false; template.dimensions()];
        let mut dimensions = Vec::with_capacity(sizes.len());
        for (number, ((size, align), shadow)) in sizes.iter().zip(aligns).zip(shadows).enumerate() {
            if let Some(taken) = align.axis.and_then(|axis| taken.get_mut(axis)) {
                if std::mem::replace(taken, true) {
                    return Err(misuse(format!(
                        "dimension {number} of an array goes with one that another goes with"
                    )));
                }
            }
            dimensions.push(dimension(template, number, *size, *align, *shadow)?);
        }
        Ok(intern(Mapping { nodes: template.nodes().clone(), dimensions, template: Some(template.clone()) }))
    }

    /// An array that every one of these nodes has whole.
    pub fn everywhere(nodes: &Nodes, sizes: &[u64]) -> Result<Arc<Mapping>> {
        check_count(sizes.len())?;
        let whole = |(number, size): (usize, &u64)| {
            let extent = check_size(number, *size)?;
            let (align, shadow) = (Align::COLLAPSED, Shadow::NONE);
            Ok(Dimension { size: *size, axis: Axis::whole(extent), node_dimension: None, align, shadow })
        };
        let dimensions: Result<Vec<Dimension>> = sizes.iter().enumerate().map(whole).collect();
        Ok(intern(Mapping { nodes: nodes.clone(), dimensions: dimensions?, template: None }))
    }

    /// The nodes that it lies on.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The template that it is aligned with, if there is one.
    pub fn template(&self) -> Option<&Template> {
        self.template.as_ref()
    }

    /// Its dimensions.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// Its sizes.
    pub fn sizes(&self) -> Vec<u64> {
        self.dimensions.iter().map(|dimension| dimension.size).collect()
    }

    /// How many elements it has.
    pub fn len(&self) -> u64 {
        self.dimensions.iter().map(|dimension| dimension.size).product()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The dimensions of the nodes over which it is replicated.
    pub fn replicated(&self) -> Vec<usize> {
        let spread: Vec<usize> =
            self.dimensions.iter().filter_map(|dimension| dimension.node_dimension).collect();
        (0..self.nodes.sizes().len()).filter(|at| !spread.contains(at)).collect()
    }

    /// What a rank has of it.
    pub fn part(&self, rank: Rank) -> Part<'_> {
        Part::new(self, self.nodes.coordinates(rank))
    }

    /// What the rank at some coordinates has of it.
    pub(crate) fn part_at(&self, coordinates: &[u32]) -> Part<'_> {
        Part::new(self, Some(coordinates.to_vec()))
    }

    /// A section of it.
    pub fn section(&self, subscripts: &[Sub]) -> Result<Section> {
        Section::new(&self.sizes(), subscripts)
    }

    /// All of it.
    pub fn whole(&self) -> Section {
        Section::whole(&self.sizes())
    }

    /// Those who have an element: several, if it is replicated.
    pub fn owners(&self, index: &[i64]) -> Result<Nodes> {
        self.section(&index.iter().copied().map(Sub::Index).collect::<Vec<_>>())?;
        let mut lists: Vec<Vec<u32>> = self.nodes.sizes().iter().map(|size| (0..*size).collect()).collect();
        for (dimension, index) in self.dimensions.iter().zip(index) {
            if let (Some(at), Some(owner)) = (dimension.node_dimension, dimension.axis.owner(*index)) {
                lists[at] = vec![owner];
            }
        }
        self.nodes.product(&lists)
    }
}

fn check_count(dimensions: usize) -> Result<()> {
    match dimensions <= MAX_DIMENSIONS {
        true => Ok(()),
        false => {
            Err(misuse(format!("an array of {dimensions} dimensions: there are at most {MAX_DIMENSIONS}")))
        }
    }
}

fn check_size(number: usize, size: u64) -> Result<i64> {
    // So that places of widened parts cannot overflow, either.
    let size_is = i64::try_from(size).ok().filter(|size| *size <= i64::MAX / 4);
    size_is.ok_or_else(|| misuse(format!("dimension {number} of an array: {size} elements are too many")))
}

fn dimension(
    template: &Template,
    number: usize,
    size: u64,
    align: Align,
    shadow: Shadow,
) -> Result<Dimension> {
    let extent = check_size(number, size)?;
    let wide = |width: u64| width <= i64::MAX as u64 / 8;
    if shadow.widths().is_some_and(|(low, high)| !wide(low) || !wide(high)) {
        return Err(misuse(format!("dimension {number} of an array: a shadow of {shadow:?}")));
    }
    let Some(at) = align.axis else {
        let (axis, node_dimension) = (Axis::whole(extent), None);
        return Ok(Dimension { size, axis, node_dimension, align: Align::COLLAPSED, shadow });
    };
    if at >= template.dimensions() {
        let dimensions = template.dimensions();
        return Err(misuse(format!(
            "dimension {number} of an array goes with dimension {at} of a template that has {dimensions}"
        )));
    }
    let there = template.axis(at);
    let (first, last) = (i128::from(align.offset), i128::from(align.offset) + i128::from(extent) - 1);
    if extent > 0 && (first < i128::from(there.lower()) || last > i128::from(there.upper())) {
        let (lower, upper) = (there.lower(), there.upper());
        return Err(misuse(format!(
            "dimension {number} of an array goes with indices {first}..={last} of a template that has {lower}..={upper}"
        )));
    }
    let node_dimension = template.node_dimension(at);
    let axis = if node_dimension.is_some() { there.shifted(align.offset)? } else { Axis::whole(extent) };
    if axis.is_cyclic() && shadow != Shadow::NONE && shadow != Shadow::Full {
        return Err(misuse(format!(
            "dimension {number} of an array is spread in turn (cyclic): it has no shadow, or a full one"
        )));
    }
    Ok(Dimension { size, axis, node_dimension, align, shadow })
}

/// The one value that is equal to this.
fn intern(mapping: Mapping) -> Arc<Mapping> {
    static KNOWN: Mutex<Option<HashMap<u64, Vec<Weak<Mapping>>>>> = Mutex::new(None);
    let mut hasher = DefaultHasher::new();
    mapping.hash(&mut hasher);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_with(HashMap::new);
    // What nobody has any more goes when there is more of it than of the others.
    if known.len() >= 64
        && known.values().flatten().filter(|one| one.strong_count() == 0).count() * 2 > known.len()
    {
        known.retain(|_, alike| alike.iter().any(|one| one.strong_count() > 0));
    }
    let alike = known.entry(hasher.finish()).or_default();
    alike.retain(|one| one.strong_count() > 0);
    if let Some(found) = alike.iter().filter_map(Weak::upgrade).find(|one| **one == mapping) {
        return found;
    }
    let new = Arc::new(mapping);
    alike.push(Arc::downgrade(&new));
    new
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::*;

    #[test]
    fn equal_mappings_are_one() {
        let template = Template::block(&[7001], &Nodes::line(3)).unwrap();
        let one = || Mapping::new(&template, &[7001], &[Align::with(0, 0)], &[Shadow::both(1)]).unwrap();
        let (first, second) = (one(), one());
        assert!(Arc::ptr_eq(&first, &second));
        let other = Mapping::new(&template, &[7001], &[Align::with(0, 0)], &[Shadow::NONE]).unwrap();
        assert!(!Arc::ptr_eq(&first, &other));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let nodes = Nodes::grid(&[2, 2]).unwrap();
        let block = Template::block(&[10, 10], &nodes).unwrap();
        let cyclic = Template::new(&[(0, 9)], &[Format::Cyclic(1)], &Nodes::line(4)).unwrap();
        let (along, none) = (Align::with(0, 0), Shadow::NONE);
        for wrong in [
            Mapping::new(&block, &[10], &[along, along], &[none]),
            Mapping::new(&block, &[10, 10], &[along, along], &[none; 2]),
            Mapping::new(&block, &[11], &[along], &[none]),
            Mapping::new(&block, &[10], &[Align::with(0, 1)], &[none]),
            Mapping::new(&block, &[10], &[Align::with(2, 0)], &[none]),
            Mapping::new(&cyclic, &[10], &[along], &[Shadow::both(1)]),
            Mapping::new(&block, &[2; 8], &[Align::COLLAPSED; 8], &[none; 8]),
            Mapping::everywhere(&nodes, &[u64::MAX]),
        ] {
            assert!(matches!(wrong, Err(crate::Error::Misuse(_))), "{wrong:?}");
        }
    }
}

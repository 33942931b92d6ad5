//! A template: an index space without elements, and how it is spread over nodes. Arrays are aligned with it.

use super::section::{resolve, Sub};
use super::{misuse, Axis, Nodes, MAX_DIMENSIONS};
use crate::{Rank, Result};
use std::sync::Arc;

/// How one dimension of a template is spread over the nodes of one dimension of a set.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// Not at all: every node has all of it.
    None,
    /// In blocks of this width, or of the least one that is enough: the last nodes may have less than the others, or nothing.
    Block(Option<u64>),
    /// In blocks of this width, in turn.
    Cyclic(u64),
    /// In blocks of these sizes, one for each node; some may be 0.
    Irregular(Arc<[u64]>),
}

/// An index space, spread over nodes. Cheap to clone.
///
/// ```
/// use kumiki::array::{Format, Nodes, Template};
///
/// # fn main() -> kumiki::Result<()> {
/// // Rows in blocks, columns in turn, on a grid of 2 by 3 ranks.
/// let nodes = Nodes::grid(&[2, 3])?;
/// let template = Template::new(&[(0, 99), (1, 200)], &[Format::Block(None), Format::Cyclic(1)], &nodes)?;
/// assert_eq!(template.owner(&[50, 2])?.first(), Some(4));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Template {
    inside: Arc<Inside>,
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Inside {
    formats: Vec<Format>,
    axes: Vec<Axis>,
    /// The dimension of the nodes that each is spread over.
    spread: Vec<Option<usize>>,
    nodes: Nodes,
}

impl Template {
    /// An index space with these inclusive bounds, spread over nodes. The formats that are not [`Format::None`] go with the dimensions of the nodes, in their
    /// order; there are as many, or none at all: then every node has everything.
    pub fn new(bounds: &[(i64, i64)], formats: &[Format], nodes: &Nodes) -> Result<Template> {
        if bounds.len() != formats.len() || bounds.is_empty() || bounds.len() > MAX_DIMENSIONS {
            let (dimensions, given) = (bounds.len(), formats.len());
            return Err(misuse(format!(
                "a template of {dimensions} dimensions with {given} formats: they are as many, from 1 to {MAX_DIMENSIONS}"
            )));
        }
        let mut spread = Vec::with_capacity(bounds.len());
        let mut used = 0;
        for format in formats {
            spread.push((*format != Format::None).then_some(used));
            used += usize::from(*format != Format::None);
        }
        if used != 0 && used != nodes.sizes().len() {
            let sizes = nodes.sizes();
            return Err(misuse(format!(
                "{used} dimensions of a template are spread over nodes of sizes {sizes:?}"
            )));
        }
        let size = |at: &Option<usize>| at.map_or(1, |at| nodes.sizes()[at]);
        let dimensions = bounds.iter().zip(formats).zip(&spread);
        let axes: Result<Vec<Axis>> = dimensions
            .map(|(((lower, upper), format), at)| Axis::new(*lower, *upper, format, size(at)))
            .collect();
        let inside = Inside { formats: formats.to_vec(), axes: axes?, spread, nodes: nodes.clone() };
        Ok(Template { inside: Arc::new(inside) })
    }

    /// Indices from 0 on, all dimensions in blocks.
    pub fn block(sizes: &[u64], nodes: &Nodes) -> Result<Template> {
        let bounds: Vec<(i64, i64)> = sizes.iter().map(|size| (0, *size as i64 - 1)).collect();
        Template::new(&bounds, &vec![Format::Block(None); sizes.len()], nodes)
    }

    /// How many dimensions it has.
    pub fn dimensions(&self) -> usize {
        self.inside.axes.len()
    }

    /// The nodes that it is spread over.
    pub fn nodes(&self) -> &Nodes {
        &self.inside.nodes
    }

    /// How a dimension is spread, as it was said.
    pub fn format(&self, dimension: usize) -> &Format {
        &self.inside.formats[dimension]
    }

    /// The arithmetic of a dimension.
    pub fn axis(&self, dimension: usize) -> &Axis {
        &self.inside.axes[dimension]
    }

    /// The dimension of the nodes that one is spread over.
    pub fn node_dimension(&self, dimension: usize) -> Option<usize> {
        self.inside.spread[dimension]
    }

    /// Where a rank is in the nodes that a dimension is spread over: 0 if it is not spread, `None` if the rank is not one of them.
    pub fn coordinate(&self, dimension: usize, rank: Rank) -> Option<u32> {
        let place = self.nodes().coordinates(rank)?;
        Some(self.node_dimension(dimension).map_or(0, |at| place[at]))
    }

    /// Those who have an element.
    pub fn owner(&self, index: &[i64]) -> Result<Nodes> {
        self.owners(&index.iter().copied().map(Sub::Index).collect::<Vec<_>>())
    }

    /// Those who have at least one element of a section: a box of the nodes. [`Sub::Own`] does not restrict, nor does a dimension that is not spread.
    pub fn owners(&self, subscripts: &[Sub]) -> Result<Nodes> {
        let bounds: Vec<(i64, i64)> =
            self.inside.axes.iter().map(|axis| (axis.lower(), axis.upper())).collect();
        let spans = resolve("a template", &bounds, subscripts)?;
        let sizes = self.nodes().sizes();
        let mut lists: Vec<Vec<u32>> = sizes.iter().map(|size| (0..*size).collect()).collect();
        for (dimension, (span, subscript)) in spans.iter().zip(subscripts).enumerate() {
            let Some(at) = self.node_dimension(dimension) else { continue };
            if *subscript == Sub::Own {
                continue;
            }
            let axis = self.axis(dimension);
            let owns = |node: &u32| !axis.owned(*node, span.base, span.step, span.count).is_empty();
            lists[at] = axis.owners(span.base, span.step, span.count).into_iter().filter(owns).collect();
        }
        self.nodes().product(&lists)
    }
}

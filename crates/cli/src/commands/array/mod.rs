//! `kumiki array plan`: how an index space would be spread over nodes, and what moving it would cost. Nothing is run.
//!
//! | file | what |
//! |---|---|
//! | `words.rs` | how index spaces are written on a command line |
//! | `layout.rs` | what each node has: as a table, as a map, as JSON |
//! | `moves.rs` | what an exchange of shadows or a move would send: likewise |

mod layout;
mod moves;
mod words;

use super::Outcome;
use kumiki::array::{Align, Format, Mapping, Nodes, Shadow, Sub, Template};
use std::path::PathBuf;
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  kumiki array plan 1000x1000 --nodes 2x2                        blocks in both dimensions: who has what
  kumiki array plan 24x60 --nodes 4 --dist 'cyclic(2),*'         rows in turn, two at a time
  kumiki array plan 256x256x256 --nodes 2x2x2 --shadow 1 --reflect
                                                                 what an exchange of shadows would send
  kumiki array plan 2048x2048 --nodes 8 --to cyclic,*            what moving it to another distribution would send
  kumiki array plan 100 --nodes 4 --from 0:50 --to block --into 50:50
                                                                 the first half to where the second is
  kumiki array plan 40x40 --nodes 3x2 --png map.png --json       a picture; one JSON object a line

Sizes, nodes and distributions are in the order of C: the last index is the one whose elements lie side by side. Distributions are `*` (not spread),
block, block(width), cyclic, cyclic(width) and gblock(size:size:..); shadows are widths, `below:above` or `*` (full); sections are
base:length:step, as in XcalableMP C.";

/// Distributed arrays: how they would lie on nodes.
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Example:\n  kumiki array plan 1000x1000 --nodes 2x2    blocks in both dimensions: who has what"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Plan(Box<Plan>),
}

/// Print how an index space would be spread over nodes, and what an exchange of shadows or a move would send.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
struct Plan {
    /// Elements in each dimension, for instance 1000x1000.
    #[arg(value_name = "SIZES", value_parser = sizes)]
    sizes: List<u64>,
    /// Nodes, or a grid of them, for instance 2x2.
    #[arg(long, short, value_name = "GRID", value_parser = grid)]
    nodes: List<u32>,
    /// How each dimension is spread; without it the first ones in blocks, as many as the grid has dimensions.
    #[arg(long, value_name = "LIST", value_parser = formats)]
    dist: Option<List<Format>>,
    /// Elements around each node's part, for all dimensions or for each.
    #[arg(long, value_name = "LIST", value_parser = shadows)]
    shadow: Option<List<Shadow>>,
    /// Bytes of an element.
    #[arg(long, value_name = "BYTES", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    element: u64,
    /// What filling the shadows from their owners would send.
    #[arg(long, requires = "shadow", conflicts_with_all = ["to", "from", "into"])]
    reflect: bool,
    /// With --reflect: dimensions that close to a ring, from 0.
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "reflect")]
    periodic: Vec<usize>,
    /// With --reflect: without what lies beyond edges and corners.
    #[arg(long, requires = "reflect")]
    orthogonal: bool,
    /// What moving the array to one that is spread in this way would send.
    #[arg(long, value_name = "LIST", value_parser = formats)]
    to: Option<List<Format>>,
    /// With --to: the nodes of the other array, if they are not the same.
    #[arg(long, value_name = "GRID", value_parser = grid, requires = "to")]
    to_nodes: Option<List<u32>>,
    /// With --to: the sizes of the other array, if they are not the same.
    #[arg(long, value_name = "SIZES", value_parser = sizes, requires = "to")]
    to_sizes: Option<List<u64>>,
    /// With --to: the section that moves, if not all of it does.
    #[arg(long, value_name = "SECTION", value_parser = section, requires = "to", allow_hyphen_values = true)]
    from: Option<List<Sub>>,
    /// With --to: the section of the other array that it moves to.
    #[arg(long, value_name = "SECTION", value_parser = section, requires = "to", allow_hyphen_values = true)]
    into: Option<List<Sub>>,
    /// Draw who has what, for one and two dimensions (of more the first two).
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// One JSON object a line, for each node.
    #[arg(long)]
    json: bool,
}

/// One argument that is a list: clap would take a plain one for several arguments.
#[derive(Clone, Debug)]
struct List<T>(Vec<T>);

fn sizes(text: &str) -> Result<List<u64>, String> {
    words::sizes(text).map(List)
}

fn grid(text: &str) -> Result<List<u32>, String> {
    words::grid(text).map(List)
}

fn formats(text: &str) -> Result<List<Format>, String> {
    words::formats(text).map(List)
}

fn shadows(text: &str) -> Result<List<Shadow>, String> {
    words::shadows(text).map(List)
}

fn section(text: &str) -> Result<List<Sub>, String> {
    words::section(text).map(List)
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let Command::Plan(plan) = &arguments.command;
    let mapping = mapping(&plan.sizes.0, &plan.nodes.0, plan.dist.as_ref(), plan.shadow.as_ref())?;
    let space = layout::Space { mapping: &mapping, element: plan.element, formats: plan.formats() };
    if let Some(path) = &plan.png {
        space.draw(path)?;
    }
    let moves = plan.moves(&mapping)?;
    let text = if plan.json {
        moves.as_ref().map_or_else(|| space.json(), |moves| moves.json())
    } else {
        let mut text = space.table();
        text += &moves.as_ref().map_or_else(String::new, |moves| moves.table());
        text
    };
    super::print(&text)
}

/// Formats that nobody has said: blocks as long as there are dimensions of nodes.
fn usual(dimensions: usize, nodes: usize) -> Vec<Format> {
    (0..dimensions).map(|at| if at < nodes { Format::Block(None) } else { Format::None }).collect()
}

fn mapping(
    sizes: &[u64],
    nodes: &[u32],
    formats: Option<&List<Format>>,
    shadows: Option<&List<Shadow>>,
) -> Result<Arc<Mapping>, String> {
    let text = |error: kumiki::Error| error.to_string();
    let nodes = Nodes::grid(nodes).map_err(text)?;
    let formats = formats.map_or_else(|| usual(sizes.len(), nodes.sizes().len()), |list| list.0.clone());
    if formats.len() != sizes.len() {
        return Err(format!(
            "{} sizes and {} distributions: each dimension has one",
            sizes.len(),
            formats.len()
        ));
    }
    if sizes.contains(&0) {
        return Err("there is a dimension without elements".into());
    }
    let bounds: Vec<(i64, i64)> = sizes.iter().map(|size| (0, size.saturating_sub(1) as i64)).collect();
    let template = Template::new(&bounds, &formats, &nodes).map_err(text)?;
    let aligns: Vec<Align> = (0..sizes.len()).map(|at| Align::with(at, 0)).collect();
    let shadows = match shadows.map(|list| &list.0[..]) {
        None => vec![Shadow::NONE; sizes.len()],
        Some([one]) => vec![*one; sizes.len()],
        Some(several) => several.to_vec(),
    };
    if shadows.len() != sizes.len() {
        return Err(format!(
            "{} sizes and {} shadows: there is one for each, or one for all",
            sizes.len(),
            shadows.len()
        ));
    }
    Mapping::new(&template, sizes, &aligns, &shadows).map_err(text)
}

impl Plan {
    fn formats(&self) -> Vec<Format> {
        self.dist
            .as_ref()
            .map_or_else(|| usual(self.sizes.0.len(), self.nodes.0.len()), |list| list.0.clone())
    }
}

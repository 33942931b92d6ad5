//! Any graph from a file of lines:
//!
//! ```text
//! routers 3
//! node 0            # a node at router 0; nodes are numbered in the order of the file
//! nodes 1 2         # two more, at routers 1 and 2
//! link 0 1          # a cable: both directions
//! link 1 2 bandwidth 10GB/s latency 500ns
//! arc 2 0           # one direction only
//! ```

use crate::source::{Mistake, Source, Span};
use crate::words::{lines, words, Words};
use crate::{Graph, GraphLink};

/// The most routers of a graph.
const MOST_ROUTERS: u32 = 1 << 22;

/// Reads a graph. One whose nodes cannot all reach each other is refused.
///
/// ```
/// use kumiki_sim::{description::parse_graph, source::Source};
/// let graph = parse_graph(&Source::new("g", "routers 2\nnodes 0 1\nlink 0 1\n")).unwrap();
/// assert_eq!((graph.nodes.len(), graph.links.len()), (2, 2));
/// ```
pub fn parse_graph(source: &Source) -> Result<Graph, Mistake> {
    let mut graph = Graph::default();
    let mut node_places = Vec::new();
    for (start, line) in lines(source) {
        let mut words = words(source, start, line, "");
        let Some(first) = words.take() else { continue };
        match first.text {
            "routers" => {
                (graph.routers, _) = words.number("the number of routers")?;
                if graph.routers == 0 || graph.routers > MOST_ROUTERS {
                    let message = format!("expected 1 to {MOST_ROUTERS} routers, found {}", graph.routers);
                    return Err(source.mistake(first.at, message));
                }
            }
            "node" | "nodes" => {
                while words.peek().is_some() {
                    let at = words.place();
                    graph.nodes.push(router(source, &graph, &mut words)?);
                    node_places.push(at);
                }
            }
            kind @ ("link" | "arc") => {
                let (from, to) = (router(source, &graph, &mut words)?, router(source, &graph, &mut words)?);
                if from == to {
                    return Err(source.mistake(first.at, format!("this links router {from} with itself")));
                }
                let link =
                    attributes(source, &mut words, GraphLink { from, to, bandwidth: None, latency: None })?;
                graph.links.push(link);
                if kind == "link" {
                    graph.links.push(GraphLink { from: to, to: from, ..link });
                }
            }
            other => {
                let known = ["routers", "node", "nodes", "link", "arc"];
                let mistake = source
                    .mistake(first.at, format!("expected one of {}, found `{other}`", known.join(", ")));
                return Err(mistake.with_nearest(other, known));
            }
        }
        words.end()?;
    }
    connected(source, &graph, &node_places)?;
    Ok(graph)
}

fn router(source: &Source, graph: &Graph, words: &mut Words<'_>) -> Result<u32, Mistake> {
    let (router, at): (u32, Span) = words.number("the number of a router")?;
    if router >= graph.routers {
        let message = match graph.routers {
            0 => "expected `routers` and their number before this".to_string(),
            routers => format!("there is no router {router}: routers are 0 to {}", routers - 1),
        };
        return Err(source.mistake(at, message));
    }
    Ok(router)
}

fn attributes(source: &Source, words: &mut Words<'_>, mut link: GraphLink) -> Result<GraphLink, Mistake> {
    while let Some(key) = words.take() {
        let Some(value) = words.take() else { return words.wrong(&format!("a value behind `{}`", key.text)) };
        let wrong = |error: String| source.mistake(value.at, error);
        match key.text {
            "bandwidth" => link.bandwidth = Some(value.text.parse().map_err(wrong)?),
            "latency" => link.latency = Some(value.text.parse().map_err(wrong)?),
            other => {
                let mistake =
                    source.mistake(key.at, format!("expected `bandwidth` or `latency`, found `{other}`"));
                return Err(mistake.with_nearest(other, ["bandwidth", "latency"]));
            }
        }
    }
    Ok(link)
}

/// Every node must reach the first, and be reached by it.
fn connected(source: &Source, graph: &Graph, places: &[Span]) -> Result<(), Mistake> {
    let end = Span::new(source.text.len(), source.text.len());
    let Some(&first) = graph.nodes.first() else {
        return Err(source.mistake(end, "expected at least one `node`, found the end of the file"));
    };
    let forward = reached(graph, first, |link| (link.from, link.to));
    let back = reached(graph, first, |link| (link.to, link.from));
    for ((node, router), place) in graph.nodes.iter().enumerate().zip(places) {
        let (from, to) = match (forward[*router as usize], back[*router as usize]) {
            (true, true) => continue,
            (false, _) => (0, node),
            (_, false) => (node, 0),
        };
        let message = format!("the graph is not connected: there is no way from node {from} to node {to}");
        return Err(source.mistake(*place, message));
    }
    Ok(())
}

fn reached(graph: &Graph, from: u32, ends: impl Fn(&GraphLink) -> (u32, u32)) -> Vec<bool> {
    let mut neighbours = vec![Vec::new(); graph.routers as usize];
    for link in &graph.links {
        let (near, far) = ends(link);
        neighbours[near as usize].push(far);
    }
    let mut seen = vec![false; graph.routers as usize];
    seen[from as usize] = true;
    let mut open = vec![from];
    while let Some(router) = open.pop() {
        for next in &neighbours[router as usize] {
            if !std::mem::replace(&mut seen[*next as usize], true) {
                open.push(*next);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_refused_with_its_place() {
        for (text, place, part) in [
            ("routers 3\nnodes 0 1 2\nlink 0 1\n", (2, 11), "not connected"),
            ("routers 2\nnodes 0 1\narc 0 1\n", (2, 9), "from node 1 to node 0"),
            ("routers 2\nnodes 0 2\n", (2, 9), "no router 2"),
            ("node 0\n", (1, 6), "`routers`"),
            ("routers 2\nlnk 0 1\n", (2, 1), "maybe you meant `link`"),
            ("routers 2\nnodes 0 1\nlink 0 1 bandwith 5GB/s\n", (3, 10), "maybe you meant `bandwidth`"),
            ("routers 2\nnodes 0 1\nlink 0 1 latency soon\n", (3, 18), "number"),
            ("routers 2\nlink 0 0\n", (2, 1), "itself"),
            ("routers 1\n", (2, 1), "at least one `node`"),
        ] {
            let mistake = parse_graph(&Source::new("g", text)).unwrap_err();
            assert!(mistake.to_string().contains(part), "{text}: {mistake}");
            assert_eq!((mistake.line, mistake.column), place, "{text}: {mistake}");
        }
    }

    #[test]
    fn links_have_their_own_speed() {
        let text = "routers 2 # two\nnodes 0 1\nlink 0 1 bandwidth 10GB/s latency 500ns\n";
        let graph = parse_graph(&Source::new("g", text)).unwrap();
        assert_eq!(graph.links[1].latency.unwrap().as_ns(), 500.0);
        assert_eq!((graph.links[1].from, graph.links[1].to), (1, 0));
    }
}

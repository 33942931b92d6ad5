//! A site's own routing as a file of lines `ROUTER NODE NEXT`: at this router, packets for this node go on to that
//! router. `*` stands for every router or node that no other line names.

use crate::source::{Mistake, Source, Span};
use crate::words::{lines, words, Words};
use crate::{Network, RoutingTable, Topology};

/// No line says where to go.
const NOWHERE: u32 = u32::MAX;

/// Reads a routing table for a network. A table that leaves a way open, uses a link that is not there, or leads in a
/// circle is refused.
pub fn parse_table(source: &Source, network: &Network) -> Result<RoutingTable, Mistake> {
    let nodes = network.nodes() as usize;
    let routers = match &network.topology {
        Topology::Graph(graph) => graph.routers as usize,
        Topology::Grid(_) => nodes,
        _ => {
            let message = "a routing table goes with a graph or a grid; describe this network as a graph";
            return Err(source.mistake(Span::default(), message));
        }
    };
    let mut next = vec![NOWHERE; routers * nodes];
    let mut rows = Vec::new();
    for (start, line) in lines(source) {
        let mut words = words(source, start, line, "");
        let Some(first) = words.peek() else { continue };
        let router = index(source, &mut words, routers, "router")?;
        let node = index(source, &mut words, nodes, "node")?;
        let Some(towards) = index(source, &mut words, routers, "router")? else {
            return Err(source.mistake(first.at, "expected the number of the next router, found `*`"));
        };
        words.end()?;
        rows.push((router, node, towards as u32));
    }
    // The more a line says, the later it is written.
    rows.sort_by_key(|(router, node, _)| router.is_some() as u8 + node.is_some() as u8);
    for (router, node, towards) in rows {
        for at in router.map_or(0..routers, |router| router..router + 1) {
            for node in node.map_or(0..nodes, |node| node..node + 1) {
                next[at * nodes + node] = towards;
            }
        }
    }
    if let Topology::Graph(graph) = &network.topology {
        let mut links: Vec<(u32, u32)> = graph.links.iter().map(|link| (link.from, link.to)).collect();
        links.sort_unstable();
        check(source, &next, nodes, &graph.nodes, |from, to| links.binary_search(&(from, to)).is_ok())?;
    }
    Ok(RoutingTable { next })
}

fn index(source: &Source, words: &mut Words<'_>, count: usize, what: &str) -> Result<Option<usize>, Mistake> {
    if words.takes("*") {
        return Ok(None);
    }
    let (number, at): (usize, Span) = words.number(&format!("the number of a {what}, or `*`"))?;
    if number >= count {
        return Err(
            source.mistake(at, format!("there is no {what} {number}: {what}s are 0 to {}", count - 1))
        );
    }
    Ok(Some(number))
}

/// Follows every way to its end.
fn check(
    source: &Source,
    next: &[u32],
    nodes: usize,
    homes: &[u32],
    is_link: impl Fn(u32, u32) -> bool,
) -> Result<(), Mistake> {
    let wrong = |message: String| Err(source.mistake(Span::default(), message));
    for (node, home) in homes.iter().enumerate() {
        for start in homes {
            let (mut at, mut hops) = (*start, 0);
            while at != *home {
                let towards = next[at as usize * nodes + node];
                if towards == NOWHERE {
                    return wrong(format!("no line says where router {at} sends packets for node {node}"));
                }
                if !is_link(at, towards) {
                    return wrong(format!(
                        "packets for node {node} go from router {at} to {towards}, but there is no link"
                    ));
                }
                hops += 1;
                if hops > next.len() / nodes {
                    return wrong(format!("packets for node {node} go in a circle that passes router {at}"));
                }
                at = towards;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn line_of_three() -> Network {
        let text = "routers 3\nnodes 0 1 2\nlink 0 1\nlink 1 2\n";
        let graph = super::super::parse_graph(&Source::new("g", text)).unwrap();
        Network::new("line", Topology::Graph(Arc::new(graph)))
    }

    #[test]
    fn a_table_leads_everywhere_or_is_refused() {
        let network = line_of_three();
        let parse = |text: &str| parse_table(&Source::new("t", text), &network);
        assert!(parse("* * 1\n1 0 0\n1 2 2\n").is_ok());
        for (text, part) in [
            ("0 * 1\n1 0 0\n2 * 1\n", "no line says"),
            ("* * 1\n1 * 0\n", "circle"),
            ("0 2 2\n0 * 1\n1 0 0\n1 2 2\n2 * 1\n", "no link"),
            ("0 3 1\n", "no node 3"),
            ("0 x 1\n", "expected the number"),
            ("0 1 *\n", "next router"),
        ] {
            let mistake = parse(text).unwrap_err().to_string();
            assert!(mistake.contains(part), "{text}: {mistake}");
        }
    }
}

//! One network namespace for each virtual node, connected by bridges: one, or several networks beside each other.
//!
//! The bridges are in a namespace of the launcher itself, so that nothing is ever made in the network of the machine,
//! and everything goes with the last process of the job.

use crate::{Result, RunError};
use kumiki_net::os::multipath;
use kumiki_net::os::network::{self, Network};
use std::net::{Ipv4Addr, SocketAddr};

/// What connects virtual nodes that have network namespaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cables {
    /// So many networks, each with a cable to every node.
    pub networks: u32,
    /// What one of them carries; whatever it can if `None`.
    pub carries: Option<Cable>,
}

impl Default for Cables {
    fn default() -> Cables {
        Cables { networks: 1, carries: None }
    }
}

/// What a cable carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cable {
    /// Bytes a second, in each direction.
    pub bytes_per_second: u64,
    /// Bytes that wait at an end for their turn; more are dropped.
    pub queue_bytes: u32,
}

/// The most networks.
pub const MAX_NETWORKS: u32 = 8;
/// Where a node listens on all networks but the first, for connections that go over several.
const OTHER_PORT: u16 = 9077;

/// The address of a node in its namespace; the port is for the agent to choose.
pub(crate) fn address(node: u32) -> SocketAddr {
    SocketAddr::from((ip(node, 0), 0))
}

fn ip(node: u32, network: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a4d_0000 + (network << 16) + node + 2)
}

fn bridge(network: u32) -> String {
    format!("kumiki{network}")
}

/// Puts the launcher into a namespace of its own, which holds the bridges between the nodes.
pub(crate) fn enter(cables: &Cables) -> Result<()> {
    let hint = |error: kumiki_net::Error| {
        RunError::Options(format!(
            "--netns needs root or user namespaces, and this machine allows neither: {error}"
        ))
    };
    network::enter_new_network().map_err(hint)?;
    let network = Network::open()?;
    for number in 0..cables.networks {
        network.add_bridge(&bridge(number)).map_err(hint)?;
        network.turn_on(&bridge(number))?;
    }
    Ok(())
}

/// Connects the namespace of a node with the bridges.
pub(crate) fn connect(node: u32, pid: u32, cables: &Cables) -> Result<()> {
    let network = Network::open()?;
    for number in 0..cables.networks {
        // The name of the first is what a cable is called by whoever cuts one.
        let cable = if number == 0 { format!("node{node}") } else { format!("node{node}.{number}") };
        let far = format!("eth{number}");
        network.add_cable(&cable, &bridge(number), &far, pid)?;
        shape(&network, &cable, cables.carries)?;
        network.turn_on(&cable)?;
    }
    network::in_network_of(pid, || {
        let network = Network::open()?;
        network.turn_on("lo")?;
        for number in 0..cables.networks {
            let far = format!("eth{number}");
            network.add_address(&far, ip(node, number), 16)?;
            shape(&network, &far, cables.carries)?;
            network.turn_on(&far)?;
        }
        if cables.networks > 1 {
            multipath::set_limits(cables.networks - 1)?;
        }
        (1..cables.networks).try_for_each(|number| multipath::add_endpoint(ip(node, number), OTHER_PORT))
    })?;
    Ok(())
}

fn shape(network: &Network, end: &str, carries: Option<Cable>) -> kumiki_net::Result<()> {
    match carries {
        Some(cable) => network.shape(end, cable.bytes_per_second, cable.queue_bytes),
        None => Ok(()),
    }
}

//! One network namespace for each virtual node, connected by a bridge.
//!
//! The bridge is in a namespace of the launcher itself, so that nothing is ever made in the network of the machine,
//! and everything goes with the last process of the job.

use crate::{Result, RunError};
use kumiki_net::os::network::{self, Network};
use std::net::{Ipv4Addr, SocketAddr};

/// What the cable of a virtual node carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cable {
    /// Bytes a second, in each direction.
    pub bytes_per_second: u64,
    /// Bytes that wait at an end for their turn; more are dropped.
    pub queue_bytes: u32,
}

const BRIDGE: &str = "kumiki0";
/// The end of a node's cable, in its namespace.
const FAR: &str = "eth0";

/// The address of a node in its namespace; the port is for the agent to choose.
pub(crate) fn address(node: u32) -> SocketAddr {
    SocketAddr::from((ip(node), 0))
}

fn ip(node: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a4d_0000 + node + 2)
}

/// Puts the launcher into a namespace of its own, which holds the bridge between the nodes.
pub(crate) fn enter() -> Result<()> {
    let hint = |error: kumiki_net::Error| {
        RunError::Options(format!(
            "--netns needs root or user namespaces, and this machine allows neither: {error}"
        ))
    };
    network::enter_new_network().map_err(hint)?;
    let network = Network::open()?;
    network.add_bridge(BRIDGE).map_err(hint)?;
    network.turn_on(BRIDGE)?;
    Ok(())
}

/// Connects the namespace of a node with the bridge.
pub(crate) fn connect(node: u32, pid: u32, carries: Option<Cable>) -> Result<()> {
    let cable = format!("node{node}");
    let network = Network::open()?;
    network.add_cable(&cable, BRIDGE, FAR, pid)?;
    shape(&network, &cable, carries)?;
    network.turn_on(&cable)?;
    network::in_network_of(pid, || {
        let network = Network::open()?;
        network.turn_on("lo")?;
        network.add_address(FAR, ip(node), 16)?;
        shape(&network, FAR, carries)?;
        network.turn_on(FAR)
    })?;
    Ok(())
}

fn shape(network: &Network, end: &str, carries: Option<Cable>) -> kumiki_net::Result<()> {
    match carries {
        Some(cable) => network.shape(end, cable.bytes_per_second, cable.queue_bytes),
        None => Ok(()),
    }
}

//! The short form of networks: `torus:8x8x8,buffers=2`. Read by [`Network::parse_short`]; the settings after the sizes are the same names that
//! the command line and network files use.

use crate::network::{join_sizes, Dimension, Network, Parameters, Topology};
use crate::Error;

/// The topologies that have a short form.
const KINDS: &str = "torus:8x8x8, mesh:16x16, grid:8x8x2m, fattree:levels=3,arity=16,taper=2 or \
                     dragonfly:groups=9,routers=4,nodes=2,globals=2";

pub(crate) fn parse(text: &str) -> Result<Network, Error> {
    let (kind, rest) = text
        .split_once(':')
        .ok_or_else(|| Error::Network(format!("'{text}' has no colon: expected something like {KINDS}")))?;
    let mut settings = Settings::read(rest)?;
    let (topology, sizes) = match kind {
        "torus" => grid_of(&mut settings, true, kind)?,
        "mesh" => grid_of(&mut settings, false, kind)?,
        "grid" => grid_of(&mut settings, true, kind)?,
        "fattree" => fat_tree(&mut settings)?,
        "dragonfly" => dragonfly(&mut settings)?,
        _ => {
            return Err(Error::Network(format!("unknown topology '{kind}': expected something like {KINDS}")))
        }
    };
    let mut network = Network::new(&format!("{kind}:{sizes}"), topology);
    let settings = settings.rest();
    for (name, value) in &settings {
        set(&mut network.parameters, name, value)?;
    }
    if !settings.iter().any(|(name, _)| name == "nic_bandwidth") {
        network.parameters.nic_bandwidth = Some(network.parameters.link_bandwidth);
    }
    check(&network)?;
    Ok(network)
}

fn number(name: &str, value: &str) -> Result<u32, Error> {
    value.parse().map_err(|_| Error::Network(format!("{name}: '{value}' is no number up to {}", u32::MAX)))
}

/// A number of bytes, perhaps with K, M or G behind it.
fn size<T: TryFrom<u64>>(name: &str, value: &str) -> Result<T, Error> {
    let (digits, shift) = match value.char_indices().next_back() {
        Some((at, 'K')) => (&value[..at], 10),
        Some((at, 'M')) => (&value[..at], 20),
        Some((at, 'G')) => (&value[..at], 30),
        _ => (value, 0),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
        Error::Network(format!("{name}: '{value}' is no size: expected something like 2048, 4K or 1M"))
    })
}

/// Sets one parameter by its name, as short forms, options and network files write it.
pub fn set(parameters: &mut Parameters, name: &str, value: &str) -> Result<(), Error> {
    fn read<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, Error>
    where
        T::Err: std::fmt::Display,
    {
        value.parse().map_err(|error| Error::Network(format!("{name}: {error}")))
    }
    match name {
        "link_bandwidth" | "bandwidth" => parameters.link_bandwidth = read(name, value)?,
        "link_latency" | "latency" => parameters.link_latency = read(name, value)?,
        "router_delay" => parameters.router_delay = read(name, value)?,
        "packet_bytes" | "packet" => parameters.packet_bytes = size(name, value)?,
        "header_bytes" | "header" => parameters.header_bytes = size(name, value)?,
        "buffer_packets" | "buffers" => parameters.buffer_packets = number(name, value)?,
        "lanes" => parameters.lanes = number(name, value)?,
        "channel_rule" | "channels" => parameters.channel_rule = read(name, value)?,
        "crossbar" => parameters.crossbar = read(name, value)?,
        "credit_delay" => parameters.credit_delay = read(name, value)?,
        "nics" => parameters.nics = number(name, value)?,
        "nic_bandwidth" if value == "links" => parameters.nic_bandwidth = None,
        "nic_bandwidth" => parameters.nic_bandwidth = Some(read(name, value)?),
        "injection_slots" | "slots" => parameters.injection_slots = number(name, value)?,
        "injection_room" if value == "auto" => parameters.injection_room = None,
        "injection_room" => parameters.injection_room = Some(number(name, value)?),
        "ranks_per_node" => parameters.ranks_per_node = number(name, value)?,
        "send_overhead" => parameters.send_overhead = read(name, value)?,
        "recv_overhead" => parameters.recv_overhead = read(name, value)?,
        "flag_overhead" => parameters.flag_overhead = read(name, value)?,
        "atomic_time" => parameters.atomic_time = read(name, value)?,
        "message_time" => parameters.message_time = read(name, value)?,
        "barrier_time" => parameters.barrier_time = read(name, value)?,
        "memory_bandwidth" => parameters.memory_bandwidth = read(name, value)?,
        "rendezvous_bytes" | "rendezvous" if value == "off" => parameters.rendezvous_bytes = u64::MAX,
        "rendezvous_bytes" | "rendezvous" => parameters.rendezvous_bytes = size(name, value)?,
        "ties" => parameters.ties = read(name, value)?,
        "routing" => parameters.routing = read(name, value)?,
        _ => {
            let known: Vec<&str> = parameters.list().iter().map(|(name, _)| *name).collect();
            return Err(Error::Network(format!(
                "unknown parameter '{name}': expected one of {}",
                known.join(", ")
            )));
        }
    }
    Ok(())
}

/// Refuses sizes that cannot be built.
pub(crate) fn check(network: &Network) -> Result<(), Error> {
    network.parameters.check()?;
    match network.nodes() {
        0 => Err(Error::Network(format!("{} has no nodes", network.name))),
        nodes if nodes > 1 << 24 => Err(Error::Network(format!(
            "{} has {nodes} nodes: at most {} can be simulated",
            network.name,
            1 << 24
        ))),
        _ => Ok(()),
    }
}

fn grid_of(settings: &mut Settings, wraps: bool, kind: &str) -> Result<(Topology, String), Error> {
    let text = settings
        .sizes
        .take()
        .ok_or_else(|| Error::Network(format!("{kind}: expected sizes like 8x8x8 after the colon")))?;
    let links = settings.number("links")?.unwrap_or(1);
    let mut dimensions = Vec::new();
    for part in text.split('x') {
        let (number, mesh) = match part.strip_suffix('m') {
            Some(number) if kind == "grid" => (number, true),
            _ => (part, false),
        };
        let size: u32 = number.parse().ok().filter(|&size| size > 0).ok_or_else(|| {
            Error::Network(format!(
                "'{part}' in '{text}' is no size: expected numbers with x between them, like 8x8x8"
            ))
        })?;
        dimensions.push(Dimension { size, wraps: wraps && !mesh, links });
    }
    if dimensions.len() > 8 || links == 0 || links > 16 {
        return Err(Error::Network(format!(
            "{kind}:{text}: at most 8 dimensions, and 1 to 16 links in each direction"
        )));
    }
    let name = if links == 1 { text } else { format!("{text},links={links}") };
    Ok((Topology::Grid(dimensions), name))
}

fn fat_tree(settings: &mut Settings) -> Result<(Topology, String), Error> {
    let lists = (settings.list("down")?, settings.list("up")?);
    let (down, up) = match lists {
        (Some(down), Some(up)) => (down, up),
        (None, None) => {
            let levels = settings.number("levels")?.unwrap_or(3) as usize;
            let arity = settings.need("arity", "fattree")?;
            let taper = settings.number("taper")?.unwrap_or(1).max(1);
            if levels == 0 || levels > 6 || arity % taper != 0 {
                return Err(Error::Network(format!(
                    "fattree: levels must be 1 to 6, and taper ({taper}) must divide arity ({arity})"
                )));
            }
            let mut up = vec![arity; levels - 1];
            if let Some(lowest) = up.first_mut() {
                *lowest = arity / taper;
            }
            (vec![arity; levels], up)
        }
        _ => return Err(Error::Network("fattree: 'down' and 'up' belong together".to_owned())),
    };
    if up.len() + 1 != down.len() || down.iter().chain(&up).any(|&number| number == 0 || number > 1024) {
        return Err(Error::Network(format!(
            "fattree: down={} needs one number less in up, all between 1 and 1024, not up={}",
            join_sizes(&down),
            join_sizes(&up)
        )));
    }
    let slow = settings.number("slow")?.unwrap_or(1).max(1);
    let mut speed = vec![1.0; up.len()];
    if let Some(lowest) = speed.first_mut() {
        *lowest = 1.0 / f64::from(slow);
    }
    let slow = if slow == 1 { String::new() } else { format!(",slow={slow}") };
    let name = format!("down={},up={}{slow}", join_sizes(&down), join_sizes(&up));
    Ok((Topology::FatTree { down, up, speed }, name))
}

fn dragonfly(settings: &mut Settings) -> Result<(Topology, String), Error> {
    let routers = settings.need("routers", "dragonfly")?;
    let nodes = settings.need("nodes", "dragonfly")?;
    let globals = settings.need("globals", "dragonfly")?;
    let reach = u64::from(routers) * u64::from(globals) + 1;
    let groups = settings.number("groups")?.unwrap_or(u32::try_from(reach).unwrap_or(u32::MAX));
    if groups == 0 || u64::from(groups) > reach || routers == 0 || nodes == 0 || routers > 512 || nodes > 512
    {
        return Err(Error::Network(format!(
            "dragonfly: {routers} routers with {globals} global links reach {reach} groups, not {groups}; routers and \
             nodes must be 1 to 512"
        )));
    }
    let name = format!("groups={groups},routers={routers},nodes={nodes},globals={globals}");
    Ok((Topology::Dragonfly { groups, routers, nodes, globals }, name))
}

/// What stands after the colon: perhaps sizes, then names with values.
struct Settings {
    sizes: Option<String>,
    values: Vec<(String, String)>,
}

impl Settings {
    fn read(text: &str) -> Result<Settings, Error> {
        let mut settings = Settings { sizes: None, values: Vec::new() };
        for (index, part) in text.split(',').map(str::trim).filter(|part| !part.is_empty()).enumerate() {
            match part.split_once('=') {
                Some((name, value)) => {
                    settings.values.push((name.trim().to_owned(), value.trim().to_owned()))
                }
                None if index == 0 => settings.sizes = Some(part.to_owned()),
                None => return Err(Error::Network(format!("'{part}' is no setting: expected name=value"))),
            }
        }
        Ok(settings)
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.values.iter().position(|(known, _)| known == name)?;
        Some(self.values.remove(at).1)
    }

    fn number(&mut self, name: &str) -> Result<Option<u32>, Error> {
        let Some(text) = self.take(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| Error::Network(format!("{name}: expected a number, not '{text}'")))
    }

    fn need(&mut self, name: &str, kind: &str) -> Result<u32, Error> {
        self.number(name)?.ok_or_else(|| Error::Network(format!("{kind}: '{name}=' is missing")))
    }

    fn list(&mut self, name: &str) -> Result<Option<Vec<u32>>, Error> {
        let Some(text) = self.take(name) else { return Ok(None) };
        let numbers: Result<Vec<u32>, _> = text.split('x').map(str::parse).collect();
        numbers
            .map(Some)
            .map_err(|_| Error::Network(format!("{name}: expected numbers like 16x16, not '{text}'")))
    }

    /// What no topology has taken: parameters.
    fn rest(self) -> Vec<(String, String)> {
        let sizes = self.sizes.map(|text| (text, String::new()));
        sizes.into_iter().chain(self.values).collect()
    }
}

/// A grid of the given sizes, for tests of other modules.
#[cfg(test)]
pub(crate) fn mesh(sizes: &[u32]) -> Network {
    Network::new("mesh", Topology::Grid(crate::network::grid(sizes, false, 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_are_read() {
        let torus = parse("torus:128x64,buffers=2,ties=random,bandwidth=10GB/s").unwrap();
        assert_eq!(torus.nodes(), 8192);
        assert_eq!(torus.parameters.buffer_packets, 2);
        let tofu = parse("grid:4x4x4x2mx3x2m").unwrap();
        let Topology::Grid(dimensions) = &tofu.topology else { panic!("not a grid") };
        assert_eq!(dimensions.iter().filter(|dimension| dimension.wraps).count(), 4);
        let tree = parse("fattree:levels=3,arity=4,taper=2").unwrap();
        assert_eq!(
            tree.topology,
            Topology::FatTree { down: vec![4, 4, 4], up: vec![2, 4], speed: vec![1.0, 1.0] }
        );
        assert_eq!(parse("dragonfly:routers=4,nodes=2,globals=2").unwrap().nodes(), 72);
        assert_eq!(mesh(&[3, 4]).nodes(), 12);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("torus", "no colon"),
            ("tours:8x8", "unknown topology 'tours'"),
            ("torus:8x0", "'0' in '8x0'"),
            ("torus:links=2", "expected sizes"),
            ("torus:8x8,colour=red", "unknown parameter 'colour'"),
            ("torus:8x8,buffers=0", "buffer_packets must be"),
            ("torus:8x8,ties=odd", "expected one of split, plus, random"),
            ("fattree:levels=3", "'arity=' is missing"),
            ("fattree:levels=2,arity=4,taper=3", "must divide"),
            ("fattree:down=4x4,up=4x4", "one number less"),
            ("dragonfly:groups=99,routers=2,nodes=1,globals=1", "reach 3 groups"),
            ("torus:65536x65536", "nodes"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}

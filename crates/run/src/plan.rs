//! Which rank goes where: block by block over the nodes, or in turn.

use crate::{Cables, Options, Result, RunError};
use kumiki_net::os::{file, socket};
use std::net::IpAddr;
use std::path::Path;

/// The name of this machine for people. No host can have it.
const HERE: &str = "this machine";
/// What some editors put at the beginning of a file.
const BYTE_ORDER_MARK: char = '\u{feff}';
/// The most ranks of a job.
pub const MAX_RANKS: u32 = 1 << 20;
/// A longer file of hosts is something else, or never ends.
const HOSTFILE_BYTES: u64 = 64 << 20;

/// One node of the job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PlannedNode {
    /// The host to reach by ssh; `None` for this machine.
    pub(crate) host: Option<String>,
    /// Its name for people.
    pub(crate) name: String,
    /// Its ranks.
    pub(crate) ranks: Vec<u32>,
}

/// A host and how many ranks it takes, if it says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// Its name or address, maybe with a user before it.
    pub name: String,
    /// How many ranks it takes.
    pub slots: Option<u32>,
}

/// Places the ranks.
pub(crate) fn plan(options: &Options) -> Result<Vec<PlannedNode>> {
    let hosts = hosts(options)?;
    if !hosts.is_empty() && options.virtual_nodes.is_some() {
        return wrong(
            "--virtual-nodes (KUMIKI_VIRTUAL_NODES) makes nodes of this one machine; it cannot be combined with hosts",
        );
    }
    if options.network_namespaces && options.virtual_nodes.is_none() {
        return wrong("--netns (KUMIKI_NETNS) gives each virtual node a namespace; add --virtual-nodes K");
    }
    if options.cables != Cables::default() && !options.network_namespaces {
        return wrong("--links and --link-rate are of the cables between network namespaces; add --netns");
    }
    let ranks = match (options.ranks, options.per_node) {
        (Some(0), _) => return wrong("a job needs at least one rank"),
        (_, Some(0)) => return wrong("--ppn is 0: a node has at least one rank"),
        (Some(ranks), _) => ranks,
        (None, per_node) => count_slots(&hosts, per_node, options.virtual_nodes)?,
    };
    if ranks > MAX_RANKS {
        return wrong(&format!("{ranks} ranks are more than the {MAX_RANKS} that a job can have"));
    }
    let (names, capacities) = places(options, &hosts, ranks)?;
    let room: u64 = capacities.iter().map(|&capacity| capacity as u64).sum();
    if room < ranks as u64 {
        return wrong(&format!(
            "{ranks} ranks do not fit: there is room for {room}; raise --ppn, or add slots or hosts"
        ));
    }
    Ok(seat(ranks, names, capacities, options.cyclic))
}

/// Gives each rank a seat, as long as there are some: entry after entry, or one of each in turn. Entries of one name are one
/// node, which then has several turns.
fn seat(ranks: u32, names: Names, mut capacities: Vec<u32>, cyclic: bool) -> Vec<PlannedNode> {
    let mut nodes: Vec<PlannedNode> = Vec::new();
    let node_of: Vec<usize> = names
        .into_iter()
        .map(|(host, name)| {
            nodes.iter().position(|node| node.name == name).unwrap_or_else(|| {
                nodes.push(PlannedNode { host, name, ranks: Vec::new() });
                nodes.len() - 1
            })
        })
        .collect();
    let mut entry = 0;
    for rank in 0..ranks {
        while capacities[entry] == 0 {
            entry = (entry + 1) % node_of.len();
        }
        capacities[entry] -= 1;
        nodes[node_of[entry]].ranks.push(rank);
        if cyclic {
            entry = (entry + 1) % node_of.len();
        }
    }
    nodes.retain(|node| !node.ranks.is_empty());
    nodes
}

fn count_slots(hosts: &[Host], per_node: Option<u32>, virtual_nodes: Option<u32>) -> Result<u32> {
    let distinct = (0..hosts.len()).filter(|&index| is_first(hosts, index)).count();
    let nodes = if hosts.is_empty() { virtual_nodes.unwrap_or(1) } else { distinct as u32 };
    let slots = match per_node {
        Some(per_node) => nodes.checked_mul(per_node),
        None if hosts.is_empty() => Some(nodes),
        None => hosts.iter().try_fold(0u32, |sum, host| sum.checked_add(host.slots.unwrap_or(1))),
    };
    slots.ok_or_else(|| RunError::Options("too many ranks".into()))
}

/// Whether a host is not named before.
fn is_first(hosts: &[Host], index: usize) -> bool {
    hosts[..index].iter().all(|host| host.name != hosts[index].name)
}

type Names = Vec<(Option<String>, String)>;

/// The nodes, and how many ranks fit on each.
fn places(options: &Options, hosts: &[Host], ranks: u32) -> Result<(Names, Vec<u32>)> {
    if hosts.is_empty() {
        let count = options.virtual_nodes.unwrap_or(1);
        if count == 0 || count > ranks {
            return wrong(&format!(
                "--virtual-nodes (KUMIKI_VIRTUAL_NODES) must be between 1 and the number of ranks, {ranks}; it is {count}"
            ));
        }
        let even = (0..count).map(|node| ranks / count + (node < ranks % count) as u32);
        let capacities = options.per_node.map_or(even.collect(), |per_node| vec![per_node; count as usize]);
        let names =
            (0..count).map(|node| (None, if count == 1 { HERE.into() } else { format!("node {node}") }));
        return Ok((names.collect(), capacities));
    }
    let even = ranks.div_ceil(hosts.len() as u32);
    let says = hosts.iter().any(|host| host.slots.is_some());
    let capacity = |(index, host): (usize, &Host)| match (options.per_node, host.slots) {
        (Some(per_node), _) if is_first(hosts, index) => per_node,
        (Some(_), _) => 0,
        (None, Some(slots)) => slots,
        (None, None) if says => 1,
        (None, None) => even,
    };
    let reach = |host: &Host| (host.name != HERE).then(|| host.name.clone());
    let names = hosts.iter().map(|host| (reach(host), host.name.clone()));
    Ok((names.collect(), hosts.iter().enumerate().map(capacity).collect()))
}

/// The hosts that are asked for. Where all of them are this machine, they are one node that needs no ssh to be reached; unless
/// the user says how they are to be reached.
fn hosts(options: &Options) -> Result<Vec<Host>> {
    let mut hosts = named_hosts(options)?;
    let here = own_addresses();
    if options.ssh == Options::default().ssh && hosts.iter().all(|host| is_one_of(&host.name, &here)) {
        hosts.iter_mut().for_each(|host| host.name = HERE.into());
    }
    Ok(hosts)
}

fn own_addresses() -> Vec<IpAddr> {
    socket::interface_addresses().unwrap_or_default()
}

/// Whether a name or address of a host is one of this machine.
pub fn is_here(name: &str) -> bool {
    is_one_of(name, &own_addresses())
}

fn is_one_of(name: &str, own_addresses: &[IpAddr]) -> bool {
    match name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || own_addresses.contains(&address),
        Err(_) => is_own_name(name, &kumiki_net::os::process::host_name()),
    }
}

/// Whether a name is one of this machine's, which calls itself `own`, with or without its domain.
fn is_own_name(name: &str, own: &str) -> bool {
    const LOOPBACK: [&str; 5] =
        ["localhost", "localhost.localdomain", "localhost4", "localhost6", "ip6-localhost"];
    let without_domain = own.split('.').next().unwrap_or_default();
    let is_one = |known: &&str| name.eq_ignore_ascii_case(known);
    !name.is_empty() && (LOOPBACK.iter().any(is_one) || is_one(&own) || is_one(&without_domain))
}

fn named_hosts(options: &Options) -> Result<Vec<Host>> {
    match (&options.hosts, &options.hostfile) {
        (Some(_), Some(_)) => wrong("give --host (KUMIKI_HOSTS) or --hostfile (KUMIKI_HOSTFILE), not both"),
        (Some(list), None) => list.split(',').map(|word| parse_host(word.trim())).collect(),
        (None, Some(path)) => read_hostfile(path),
        (None, None) => Ok(Vec::new()),
    }
}

/// The hosts of a file, one a line: `name`, `name:N` or `name slots=N`; `#` begins a comment.
pub fn read_hostfile(path: &Path) -> Result<Vec<Host>> {
    let text = file::read_text(path, HOSTFILE_BYTES).map_err(|error| {
        RunError::Options(format!("cannot read the hostfile {}: {error}", path.display()))
    })?;
    parse_hostfile(&text, &path.to_string_lossy())
}

fn parse_hostfile(text: &str, file: &str) -> Result<Vec<Host>> {
    let mut hosts = Vec::new();
    for (number, line) in text.trim_start_matches(BYTE_ORDER_MARK).lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let place = |why: String| RunError::Options(format!("line {} of {file}: {why}", number + 1));
        let mut words = line.split_whitespace();
        let mut host = parse_host(words.next().unwrap_or_default()).map_err(|why| place(why.to_string()))?;
        for word in words {
            let slots = word.strip_prefix("slots=").and_then(|digits| digits.parse().ok());
            let slots = slots.filter(|slots| (1..=MAX_RANKS).contains(slots));
            host.slots =
                Some(slots.ok_or_else(|| {
                    place(format!("`{word}` should be slots=N, with N from 1 to {MAX_RANKS}"))
                })?);
        }
        hosts.push(host);
    }
    if hosts.is_empty() {
        return wrong(&format!("{file} names no host"));
    }
    Ok(hosts)
}

/// `name`, `name:N` or `user@name:N`; an IPv6 address with a number stands in brackets.
pub fn parse_host(word: &str) -> Result<Host> {
    if word.parse::<std::net::Ipv6Addr>().is_ok() {
        return Ok(Host { name: word.into(), slots: None });
    }
    let outside = word.rfind(']').map_or(0, |end| end + 1);
    let (name, slots) = match word[outside..].rfind(':') {
        Some(colon) => (&word[..outside + colon], Some(&word[outside + colon + 1..])),
        None => (word, None),
    };
    let slots = match slots.map(str::parse::<u32>) {
        None => None,
        Some(Ok(slots @ 1..=MAX_RANKS)) => Some(slots),
        Some(_) => {
            return wrong(&format!(
                "`{word}`: after the colon comes the number of ranks, from 1 to {MAX_RANKS}"
            ))
        }
    };
    // A name that starts with a dash would be taken for an option of ssh.
    let bad = |letter: char| letter.is_whitespace() || letter.is_control() || letter == ',';
    if name.is_empty() || name.starts_with('-') || name.contains(bad) {
        return wrong(&format!("`{word}` is not the name of a host"));
    }
    let name = name.replace(['[', ']'], "");
    Ok(Host { name, slots })
}

fn wrong<T>(message: &str) -> Result<T> {
    Err(RunError::Options(message.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(options: &Options) -> Vec<(String, usize)> {
        plan(options).unwrap().into_iter().map(|node| (node.name, node.ranks.len())).collect()
    }

    #[test]
    fn ranks_go_block_by_block() {
        let options = Options { ranks: Some(5), virtual_nodes: Some(2), ..Options::default() };
        let nodes = plan(&options).unwrap();
        assert_eq!(nodes[0].ranks, [0, 1, 2]);
        assert_eq!(nodes[1].ranks, [3, 4]);
    }

    #[test]
    fn ranks_are_dealt_out_in_turn() {
        let of = |hosts: &str, ranks| Options {
            hosts: Some(hosts.into()),
            ranks: Some(ranks),
            cyclic: true,
            ..Options::default()
        };
        let dealt = |hosts, ranks| -> Vec<(String, Vec<u32>)> {
            plan(&of(hosts, ranks)).unwrap().into_iter().map(|node| (node.name, node.ranks)).collect()
        };
        assert_eq!(dealt("a,b", 5), [("a".into(), vec![0, 2, 4]), ("b".into(), vec![1, 3])]);
        assert_eq!(dealt("a,a,b", 4), [("a".into(), vec![0, 1, 3]), ("b".into(), vec![2])]);
        assert_eq!(dealt("a,b,c", 2), [("a".into(), vec![0]), ("b".into(), vec![1])]);
        assert_eq!(dealt("a:1,b:3", 4), [("a".into(), vec![0]), ("b".into(), vec![1, 2, 3])]);
        assert!(plan(&of("a:1,b:1", 3)).is_err(), "more than the hosts take");
    }

    #[test]
    fn a_host_that_is_named_more_than_once_is_one_node() {
        let of = |hosts: &str, ranks| Options { hosts: Some(hosts.into()), ranks, ..Options::default() };
        assert_eq!(sizes(&of("a,a,b,b", None)), [("a".into(), 2), ("b".into(), 2)]);
        assert_eq!(sizes(&of("a:2,b,a", Some(4))), [("a".into(), 3), ("b".into(), 1)]);
        let each = |ranks| Options { per_node: Some(3), ..of("a,a,b,b", ranks) };
        assert_eq!(sizes(&each(None)), [("a".into(), 3), ("b".into(), 3)]);
        assert!(plan(&each(Some(7))).is_err(), "more than three of a node");
    }

    #[test]
    fn hosts_take_as_many_as_they_say() {
        let of = |hosts: &str, ranks| Options { hosts: Some(hosts.into()), ranks, ..Options::default() };
        assert_eq!(sizes(&of("a,b:2", None)), [("a".into(), 1), ("b".into(), 2)]);
        assert_eq!(sizes(&of("a,b", Some(5))), [("a".into(), 3), ("b".into(), 2)]);
        assert_eq!(sizes(&of("u@a:4,b:4", Some(4))), [("u@a".into(), 4)]);
        assert_eq!(sizes(&of("[fe80::1]:2", None)), [("fe80::1".into(), 2)]);
        assert_eq!(sizes(&of("fe80::2", Some(2))), [("fe80::2".into(), 2)]);
        assert!(plan(&of("a:1,b:1", Some(3))).is_err());
        for bad in ["", "a:0", "a:x", "-oProxyCommand=x", "a b"] {
            assert!(plan(&of(bad, Some(1))).is_err(), "{bad}");
        }
    }

    #[test]
    fn this_machine_needs_no_ssh() {
        let of = |hosts: &str, ssh: &str| {
            let options = Options { hosts: Some(hosts.into()), ssh: ssh.into(), ..Options::default() };
            let nodes = plan(&options).unwrap();
            nodes.into_iter().map(|node| (node.host, node.ranks.len())).collect::<Vec<_>>()
        };
        assert_eq!(of("localhost:2,127.0.0.1,[::1]:1,LOCALHOST", "ssh"), [(None, 5)]);
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(of(own.trim(), "ssh"), [(None, 1)]);
        let reached = |hosts: &str, ssh: &str| of(hosts, ssh).into_iter().all(|(host, _)| host.is_some());
        // Others must be able to reach it; another user is another user; and whoever says how wants it so.
        assert!(reached("localhost,beta", "ssh") && reached("me@localhost", "ssh"));
        assert!(reached("localhost", "ssh -p 2222"));
    }

    #[test]
    fn a_machine_is_known_by_its_name_without_the_domain() {
        let known = |name| is_own_name(name, "node7.cluster.org");
        assert!(known("node7") && known("Node7.cluster.org") && known("localhost6"));
        assert!(!known("node7.elsewhere.org") && !known("node") && !known("") && !is_own_name("", ""));
        assert!(is_here("[::1]"));
    }

    #[test]
    fn a_file_of_hosts_that_never_ends_is_not_read_for_ever() {
        let options = Options { hostfile: Some("/dev/zero".into()), ..Options::default() };
        assert!(plan(&options).unwrap_err().to_string().contains("longer than"));
    }

    #[test]
    fn a_hostfile_is_understood_and_its_mistakes_are_named() {
        let hosts = parse_hostfile("\u{feff}# mine\r\na slots=2\r\n\r\nb:3  # fast\nc\n", "F").unwrap();
        let slots: Vec<_> = hosts.iter().map(|host| (host.name.as_str(), host.slots)).collect();
        assert_eq!(slots, [("a", Some(2)), ("b", Some(3)), ("c", None)]);
        for (text, expected) in [
            ("a slots=zero", "line 1 of F: `slots=zero`"),
            ("a\n\nb:0", "line 3 of F: `b:0`"),
            ("a\r\nb many\r\n", "line 2 of F: `many` should be"),
            ("a,b", "line 1 of F: `a,b` is not the name"),
            ("a slots=4000000000", "from 1 to 1048576"),
            ("# none", "F names no host"),
        ] {
            let error = parse_hostfile(text, "F").unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let base = Options { ranks: Some(2), ..Options::default() };
        for options in [
            Options { ranks: Some(0), ..base.clone() },
            Options { virtual_nodes: Some(3), ..base.clone() },
            Options { virtual_nodes: Some(0), ..base.clone() },
            Options { network_namespaces: true, ..base.clone() },
            Options { virtual_nodes: Some(2), cables: Cables { networks: 2, carries: None }, ..base.clone() },
            Options { virtual_nodes: Some(2), hosts: Some("a".into()), ..base.clone() },
            Options { per_node: Some(1), ..base.clone() },
            Options { per_node: Some(0), ..base.clone() },
            Options { ranks: Some(u32::MAX), ..base.clone() },
        ] {
            assert!(plan(&options).is_err(), "{options:?}");
        }
    }
}

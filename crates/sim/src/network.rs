//! The description of a network: its [`Topology`] and its [`Parameters`]. A description is plain data, made by hand, read from a short form like
//! `torus:8x8x8` ([`Network::parse_short`]) or from a file by the command line; the wiring turns it into routers and links.

use std::str::FromStr;
use std::sync::Arc;

use crate::{Bandwidth, Error, Time};

/// A network: how it is wired, and how fast everything is.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// What reports call it.
    pub name: String,
    /// How routers and nodes are connected.
    pub topology: Topology,
    /// How fast and how large everything is.
    pub parameters: Parameters,
}

/// How routers and nodes are connected.
#[derive(Clone, Debug, PartialEq)]
pub enum Topology {
    /// A torus, a mesh, or a mixture: a grid of routers with one node each. The first dimension varies fastest with the node number.
    Grid(Vec<Dimension>),
    /// A tree of switches with several roots; nodes hang on the lowest switches.
    FatTree {
        /// How many children a switch has, from the lowest level (whose children are nodes) up.
        down: Vec<u32>,
        /// How many up-links a switch has, from the lowest level up; the highest has none, so there is one number less.
        up: Vec<u32>,
        /// How fast up-links are as a factor of the link bandwidth, from the lowest level up; as long as `up`.
        speed: Vec<f64>,
    },
    /// Groups of routers, all connected within a group, and groups connected by global links.
    Dragonfly {
        /// How many groups.
        groups: u32,
        /// Routers in a group.
        routers: u32,
        /// Nodes of a router.
        nodes: u32,
        /// Global links of a router; `routers * globals` must reach every other group.
        globals: u32,
    },
    /// Any graph.
    Graph(Arc<Graph>),
}

/// One dimension of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// How many routers in a row.
    pub size: u32,
    /// Whether the last is connected to the first.
    pub wraps: bool,
    /// How many parallel links there are in each direction.
    pub links: u32,
}

/// Routers, the links between them, and the routers that nodes hang on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// How many routers.
    pub routers: u32,
    /// The router of each node.
    pub nodes: Vec<u32>,
    /// Directed links; a cable is two of them.
    pub links: Vec<GraphLink>,
}

/// A directed link of a graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GraphLink {
    /// The router it leaves.
    pub from: u32,
    /// The router it enters.
    pub to: u32,
    /// Its bandwidth where it is not the network's.
    pub bandwidth: Option<Bandwidth>,
    /// Its latency where it is not the network's.
    pub latency: Option<Time>,
}

/// The way that packets take.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Routing {
    /// The usual deterministic one: dimension order on grids, up/down with D-mod-k on fat trees, minimal on dragonflies, the first shortest
    /// path on graphs.
    #[default]
    Deterministic,
    /// Every shortest way is open, and the first free link is taken.
    Adaptive,
    /// One of the shortest ways, drawn for each packet and hop.
    Random,
    /// One of the shortest ways, fixed for each pair of nodes by a hash.
    Ecmp,
    /// A table says the next router for each router and destination.
    Table(Arc<RoutingTable>),
}

/// A site's own routing: at each router, which link leads on to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingTable {
    /// `next[router * nodes + node]` is the router to go to next; ignored where the node hangs on the router itself.
    pub next: Vec<u32>,
}

/// What a packet does that has to go exactly half-way around a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ties {
    /// The packets of a message take both directions in turn.
    #[default]
    Split,
    /// Always the rising direction.
    Plus,
    /// A direction drawn for each packet.
    Random,
}

/// How virtual channels keep a torus free of deadlock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChannelRule {
    /// Packets that go over the wrap-around link of a ring use the second channel for the whole ring, others the first.
    #[default]
    Wrap,
    /// All begin on the first channel, and change to the second when they cross the wrap-around link.
    Dateline,
    /// One channel and no rule: rings of a torus deadlock under load. For demonstration.
    None,
}

/// How the virtual channels of a link come into a router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Crossbar {
    /// One packet at a time of all channels of a link.
    #[default]
    Shared,
    /// Each channel on its own.
    Free,
}

/// How fast and how large everything is. All of it is printed with every result, because each of it can change one.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// Of each link in each direction.
    pub link_bandwidth: Bandwidth,
    /// Time of flight of a link.
    pub link_latency: Time,
    /// Time that a router needs for the head of a packet. A hop takes this and the link latency.
    pub router_delay: Time,
    /// The largest payload of a packet.
    pub packet_bytes: u32,
    /// What each packet carries beside its payload.
    pub header_bytes: u32,
    /// Buffer space of a virtual channel at the far end of each link, in packets.
    pub buffer_packets: u32,
    /// Virtual channels of each class; how many classes there are follows from topology and routing.
    pub lanes: u32,
    /// How virtual channels keep a torus free of deadlock.
    pub channel_rule: ChannelRule,
    /// How the virtual channels of a link come into a router.
    pub crossbar: Crossbar,
    /// How long a credit takes back to the sender of a packet.
    pub credit_delay: Time,
    /// Network interfaces of a node; messages take them in turn.
    pub nics: u32,
    /// How fast an interface injects and ejects; `None` is as fast as the router's links take and give. A description that sets the
    /// link bandwidth and not this one means interfaces of that bandwidth.
    pub nic_bandwidth: Option<Bandwidth>,
    /// Time that an interface needs for each message beside its packets, before it begins with the next one.
    pub message_time: Time,
    /// How many packets of an interface can wait for the router at once, each for its own output. [`Network::new`] gives tori two.
    pub injection_slots: u32,
    /// Room that the buffer ahead must have for a packet to enter a network of rings, in packets (at most the buffer). With 1, packets that
    /// enter take the places that those on their way wait for, and saturated rings come nearly to a stop. `None` is 2 where a ring has more
    /// than 8 routers or a buffer has 4 packets or more, and 1 elsewhere.
    pub injection_room: Option<u32>,
    /// Ranks that share a node; rank `r` is on node `r / ranks_per_node`.
    pub ranks_per_node: u32,
    /// CPU time to start an operation.
    pub send_overhead: Time,
    /// CPU time to complete a receive.
    pub recv_overhead: Time,
    /// Time from a flag being raised until its rank can see that.
    pub flag_overhead: Time,
    /// Time of an atomic operation at its target.
    pub atomic_time: Time,
    /// Time of a barrier of all ranks after the last has come.
    pub barrier_time: Time,
    /// Copies between ranks of one node.
    pub memory_bandwidth: Bandwidth,
    /// Sends of more than this wait until the receiver is ready (rendezvous).
    pub rendezvous_bytes: u64,
    /// What a packet does that has to go exactly half-way around a ring.
    pub ties: Ties,
    /// The way that packets take.
    pub routing: Routing,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            link_bandwidth: Bandwidth::from_bytes_per_second(5_000_000_000),
            link_latency: Time::from_ns(40),
            router_delay: Time::from_ns(60),
            packet_bytes: 2048,
            header_bytes: 0,
            buffer_packets: 4,
            lanes: 1,
            channel_rule: ChannelRule::default(),
            crossbar: Crossbar::default(),
            credit_delay: Time::ZERO,
            nics: 1,
            nic_bandwidth: Some(Bandwidth::from_bytes_per_second(5_000_000_000)),
            message_time: Time::ZERO,
            injection_slots: 1,
            injection_room: None,
            ranks_per_node: 1,
            send_overhead: Time::ZERO,
            recv_overhead: Time::ZERO,
            flag_overhead: Time::ZERO,
            atomic_time: Time::ZERO,
            barrier_time: Time::ZERO,
            memory_bandwidth: Bandwidth::from_bytes_per_second(20_000_000_000),
            rendezvous_bytes: u64::MAX,
            ties: Ties::default(),
            routing: Routing::default(),
        }
    }
}

impl Parameters {
    /// Routers of the shortest ring in which buffers could all fill up.
    pub(crate) const LEAST_RING: u32 = 4;

    /// Where rings have no more routers than this, and buffers no more packets, no place is kept free if nothing else is said.
    const SHORT_RING: u32 = 8;
    const SHALLOW_BUFFER: u32 = 3;

    /// The longest time that a packet may take.
    const LONGEST: Time = Time::from_us(1_000_000);

    /// The deepest buffers that can be simulated.
    pub const MOST_BUFFER_PACKETS: u32 = 32_767;

    /// The time that the head of a packet needs for one hop.
    pub fn hop(&self) -> Time {
        self.link_latency + self.router_delay
    }

    /// The time of a full packet on a link.
    pub fn packet_time(&self) -> Time {
        self.link_bandwidth.time_of(u64::from(self.packet_bytes) + u64::from(self.header_bytes))
    }

    /// How many packets a message has. An empty message is one packet.
    pub fn packets_of(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.packet_bytes)).max(1)
    }

    /// Room that a packet needs to enter a network whose longest ring has so many routers.
    pub(crate) fn room_to_enter(&self, longest_ring: u32) -> u32 {
        // Without a rule for channels rings are to deadlock: then nothing keeps a place free either.
        if longest_ring < Parameters::LEAST_RING || self.channel_rule == ChannelRule::None {
            return 1;
        }
        let short =
            longest_ring <= Parameters::SHORT_RING && self.buffer_packets <= Parameters::SHALLOW_BUFFER;
        self.injection_room.unwrap_or(if short { 1 } else { 2 }).min(self.buffer_packets)
    }

    /// Every parameter with its name and value, for reports.
    pub fn list(&self) -> Vec<(&'static str, String)> {
        let nic = self.nic_bandwidth.map_or("as the links".to_owned(), |bandwidth| bandwidth.to_string());
        let rendezvous = match self.rendezvous_bytes {
            u64::MAX => "off".to_owned(),
            bytes => bytes.to_string(),
        };
        vec![
            ("link_bandwidth", self.link_bandwidth.to_string()),
            ("link_latency", self.link_latency.to_string()),
            ("router_delay", self.router_delay.to_string()),
            ("packet_bytes", self.packet_bytes.to_string()),
            ("header_bytes", self.header_bytes.to_string()),
            ("buffer_packets", self.buffer_packets.to_string()),
            ("lanes", self.lanes.to_string()),
            ("channel_rule", self.channel_rule.name().to_owned()),
            ("crossbar", self.crossbar.name().to_owned()),
            ("credit_delay", self.credit_delay.to_string()),
            ("nics", self.nics.to_string()),
            ("nic_bandwidth", nic),
            ("message_time", self.message_time.to_string()),
            ("injection_slots", self.injection_slots.to_string()),
            ("injection_room", self.injection_room.map_or("auto".to_owned(), |room| room.to_string())),
            ("ranks_per_node", self.ranks_per_node.to_string()),
            ("send_overhead", self.send_overhead.to_string()),
            ("recv_overhead", self.recv_overhead.to_string()),
            ("flag_overhead", self.flag_overhead.to_string()),
            ("atomic_time", self.atomic_time.to_string()),
            ("barrier_time", self.barrier_time.to_string()),
            ("memory_bandwidth", self.memory_bandwidth.to_string()),
            ("rendezvous_bytes", rendezvous),
            ("ties", self.ties.name().to_owned()),
            ("routing", self.routing.name().to_owned()),
        ]
    }

    /// Refuses what cannot be simulated.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |what: &str| Err(Error::Network(what.to_owned()));
        if self.packet_bytes == 0 {
            return wrong("packet_bytes must be at least 1");
        }
        if self.buffer_packets == 0 || self.buffer_packets > Parameters::MOST_BUFFER_PACKETS {
            return wrong(&format!(
                "buffer_packets must be between 1 and {}, not {}",
                Parameters::MOST_BUFFER_PACKETS,
                self.buffer_packets
            ));
        }
        if self.packet_time() > Parameters::LONGEST || self.hop() > Parameters::LONGEST {
            return wrong(&format!(
                "a packet takes {} on a link and {} a hop: at most {} can be simulated",
                self.packet_time(),
                self.hop(),
                Parameters::LONGEST
            ));
        }
        for (name, value) in [
            ("lanes", self.lanes),
            ("nics", self.nics),
            ("injection_slots", self.injection_slots),
            ("injection_room", self.injection_room.unwrap_or(1)),
            ("ranks_per_node", self.ranks_per_node),
        ] {
            let most = if name == "ranks_per_node" { 4096 } else { 32 };
            if value == 0 || value > most {
                return wrong(&format!("{name} must be between 1 and {most}, not {value}"));
            }
        }
        Ok(())
    }
}

/// Gives an enum of parameters its names, for reports and for reading.
macro_rules! named {
    ($kind:ty, $what:literal, $($name:literal => $value:expr),+ $(,)?) => {
        impl $kind {
            /// The names that can be read.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// The name of this one.
            pub fn name(&self) -> &'static str {
                $(if *self == $value { return $name; })+
                "table"
            }
        }

        impl FromStr for $kind {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                $(if text == $name { return Ok($value); })+
                Err(format!("unknown {} '{text}': expected one of {}", $what, Self::NAMES.join(", ")))
            }
        }
    };
}

named!(Ties, "tie rule", "split" => Ties::Split, "plus" => Ties::Plus, "random" => Ties::Random);
named!(ChannelRule, "channel rule",
    "wrap" => ChannelRule::Wrap, "dateline" => ChannelRule::Dateline, "none" => ChannelRule::None);
named!(Crossbar, "crossbar", "shared" => Crossbar::Shared, "free" => Crossbar::Free);
named!(Routing, "routing",
    "deterministic" => Routing::Deterministic, "adaptive" => Routing::Adaptive,
    "random" => Routing::Random, "ecmp" => Routing::Ecmp);

impl Network {
    /// A network of this topology with the parameters that nothing else is said about. A router of a grid has four interfaces, because
    /// one could not use its many links; other nodes have one. On a torus an interface has two slots, as many as a link has channels.
    pub fn new(name: &str, topology: Topology) -> Network {
        let mut network = Network { name: name.to_owned(), topology, parameters: Parameters::default() };
        if matches!(network.topology, Topology::Grid(_)) {
            network.parameters.nics = 4;
        }
        if network.longest_ring() >= Parameters::LEAST_RING {
            network.parameters.injection_slots = 2;
        }
        network
    }

    /// Routers of the longest ring of a grid; 0 where there is none.
    pub(crate) fn longest_ring(&self) -> u32 {
        let Topology::Grid(dimensions) = &self.topology else { return 0 };
        dimensions
            .iter()
            .filter(|dimension| dimension.wraps)
            .map(|dimension| dimension.size)
            .max()
            .unwrap_or(0)
    }

    /// A torus with one link in each direction: `torus(&[8, 8, 8])`.
    pub fn torus(sizes: &[u32]) -> Network {
        let name = format!("torus:{}", join_sizes(sizes));
        Network::new(&name, Topology::Grid(grid(sizes, true, 1)))
    }

    /// Reads a short form: a topology, its sizes, and after commas settings of topology or parameters.
    ///
    /// | form | meaning |
    /// |---|---|
    /// | `torus:8x8x8`, `mesh:16x16` | grids; `links=2` for two links in each direction |
    /// | `grid:24x18x17x2mx3x2m` | a grid in which dimensions with an `m` do not wrap |
    /// | `fattree:levels=3,arity=16,taper=2` | `taper`: up-links of the lowest switches are so many times fewer; `slow=2`: their up-links so many times slower |
    /// | `fattree:down=16x16x16,up=8x16` | children and up-links of each level |
    /// | `dragonfly:groups=9,routers=4,nodes=2,globals=2` | |
    ///
    /// ```
    /// use kumiki_sim::Network;
    /// assert_eq!(Network::parse_short("torus:8x8x8").unwrap().nodes(), 512);
    /// let network = Network::parse_short("fattree:levels=2,arity=4,buffers=2,routing=ecmp").unwrap();
    /// assert_eq!((network.nodes(), network.parameters.buffer_packets), (16, 2));
    /// ```
    pub fn parse_short(text: &str) -> Result<Network, Error> {
        crate::short::parse(text)
    }

    /// How many nodes it has.
    pub fn nodes(&self) -> u64 {
        match &self.topology {
            Topology::Grid(dimensions) => dimensions
                .iter()
                .fold(1, |nodes: u64, dimension| nodes.saturating_mul(u64::from(dimension.size))),
            Topology::FatTree { down, .. } => {
                down.iter().fold(1, |nodes: u64, &children| nodes.saturating_mul(u64::from(children)))
            }
            Topology::Dragonfly { groups, routers, nodes, .. } => {
                u64::from(*groups).saturating_mul(u64::from(*routers)).saturating_mul(u64::from(*nodes))
            }
            Topology::Graph(graph) => graph.nodes.len() as u64,
        }
    }

    /// How many routers it has.
    pub fn routers(&self) -> u64 {
        match &self.topology {
            Topology::Grid(_) => self.nodes(),
            Topology::FatTree { down, up, .. } => {
                // Above each part of the nodes stand as many switches as there are ways up to that level.
                let (mut below, mut width, mut routers) = (1, 1, 0u64);
                for (level, &children) in down.iter().enumerate() {
                    below *= u64::from(children).max(1);
                    width *= if level > 0 { u64::from(up[level - 1]) } else { 1 };
                    routers += self.nodes() / below * width;
                }
                routers
            }
            Topology::Dragonfly { groups, routers, .. } => u64::from(*groups) * u64::from(*routers),
            Topology::Graph(graph) => u64::from(graph.routers),
        }
    }

    /// How many ranks fit on it.
    pub fn ranks(&self) -> u64 {
        self.nodes().saturating_mul(u64::from(self.parameters.ranks_per_node))
    }
}

/// A grid of these sizes whose dimensions are all alike.
pub(crate) fn grid(sizes: &[u32], wraps: bool, links: u32) -> Vec<Dimension> {
    sizes.iter().map(|&size| Dimension { size, wraps, links }).collect()
}

pub(crate) fn join_sizes(sizes: &[u32]) -> String {
    sizes.iter().map(u32::to_string).collect::<Vec<_>>().join("x")
}

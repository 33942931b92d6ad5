//! The ways of reaching memory.

/// Where the memory is that the topics use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Memory {
    /// In the arena.
    Arena,
    /// In the process.
    Private,
}

/// Whether ranks of a node may copy each other's private memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProcessVm {
    /// If the system lets them, which it does.
    Auto,
    /// Not allowed by `KUMIKI_PROCESS_VM`.
    Off,
    /// Refused by the system, as in a container: the library finds out when it tries.
    Refused,
}

/// A way of reaching memory.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Way {
    pub(crate) name: &'static str,
    /// Virtual nodes; 0 for one a rank.
    pub(crate) nodes: u32,
    pub(crate) memory: Memory,
    pub(crate) process_vm: ProcessVm,
}

impl Way {
    /// Nodes of a job of `ranks`.
    pub(crate) fn nodes_of(&self, ranks: u32) -> u32 {
        if self.nodes == 0 {
            ranks
        } else {
            self.nodes
        }
    }
}

/// `nodes` of the ways whose ranks are simulated.
pub(crate) const SIMULATED: u32 = u32::MAX;

const fn way(name: &'static str, nodes: u32, memory: Memory, process_vm: ProcessVm) -> Way {
    Way { name, nodes, memory, process_vm }
}

/// Every way.
pub(crate) const EVERY: &[Way] = &[
    way("shm", 1, Memory::Arena, ProcessVm::Auto),
    way("tcp", 0, Memory::Arena, ProcessVm::Auto),
    way("mixed", 2, Memory::Arena, ProcessVm::Auto),
    way("private", 1, Memory::Private, ProcessVm::Auto),
    way("private_off", 1, Memory::Private, ProcessVm::Off),
    way("private_refused", 1, Memory::Private, ProcessVm::Refused),
    way("private_mixed", 2, Memory::Private, ProcessVm::Auto),
    way("private_mixed_refused", 2, Memory::Private, ProcessVm::Refused),
];

/// Those that differ in where the ranks are.
pub(crate) const NODES: &[Way] = EVERY.first_chunk::<3>().expect("there are eight ways").as_slice();

/// Those where ranks have neighbours.
pub(crate) const CLOSE: &[Way] =
    &[way("shm", 1, Memory::Arena, ProcessVm::Auto), way("mixed", 2, Memory::Arena, ProcessVm::Auto)];

/// Those with private memory on one node.
pub(crate) const PRIVATE: &[Way] = &[
    way("private", 1, Memory::Private, ProcessVm::Auto),
    way("private_off", 1, Memory::Private, ProcessVm::Off),
];

/// Those in virtual time, in one process.
pub(crate) const SIM: &[Way] = &[
    way("sim", SIMULATED, Memory::Arena, ProcessVm::Off),
    way("sim_private", SIMULATED, Memory::Private, ProcessVm::Off),
];

/// The way of a name.
pub(crate) fn named(name: &str) -> &'static Way {
    EVERY.iter().find(|way| way.name == name).unwrap_or_else(|| panic!("there is no way {name}"))
}

//! What the user asks for.

use std::path::PathBuf;
use std::time::Duration;

/// Whether ranks are bound to processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Bind {
    /// They run where the system puts them.
    #[default]
    None,
    /// Each gets one processor, as long as there are enough; then they share.
    Core,
}

/// What happens when a rank is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnLoss {
    /// The job ends, with a report.
    #[default]
    Abort,
    /// The others are told, and go on.
    Continue,
}

/// A job to be run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of ranks; without it one for each slot of the hosts, or one.
    pub ranks: Option<u32>,
    /// Hosts: `a,b:2`.
    pub hosts: Option<String>,
    /// A file of hosts.
    pub hostfile: Option<PathBuf>,
    /// Deal the ranks out to the hosts in turn, instead of filling one host after the other.
    pub cyclic: bool,
    /// Ranks of each node.
    pub per_node: Option<u32>,
    /// Nodes to make of this one machine.
    pub virtual_nodes: Option<u32>,
    /// A network namespace for each virtual node.
    pub network_namespaces: bool,
    /// Binding to processors.
    pub bind: Bind,
    /// Environment of the ranks: `NAME` or `NAME=VALUE`.
    pub environment: Vec<String>,
    /// Directory of the ranks.
    pub directory: Option<PathBuf>,
    /// Put the rank before each line of output.
    pub tag_output: bool,
    /// End the job after this time.
    pub timeout: Option<Duration>,
    /// How long a peer may be silent.
    pub peer_timeout: Duration,
    /// Memory that the library may take for a rank.
    pub budget_bytes: Option<u64>,
    /// The most memory of a rank for `malloc` and data structures.
    pub pool_bytes: Option<u64>,
    /// Starter memory of each rank.
    pub starter_bytes: u64,
    /// The most TCP connections of a rank.
    pub connections: u32,
    /// The most operations of a rank that are under way at once; what its environment says if `None`.
    pub operations: Option<u32>,
    /// A file for a trace.
    pub trace: Option<PathBuf>,
    /// What happens when a rank is lost.
    pub on_loss: OnLoss,
    /// The command that reaches another host; words separated by blanks.
    pub ssh: String,
    /// The `kumiki` program to start agents from; this very program if `None`.
    pub agent_program: Option<PathBuf>,
    /// The program and its arguments.
    pub command: Vec<std::ffi::OsString>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            ranks: None,
            hosts: None,
            hostfile: None,
            cyclic: false,
            per_node: None,
            virtual_nodes: None,
            network_namespaces: false,
            bind: Bind::None,
            environment: Vec::new(),
            directory: None,
            tag_output: false,
            timeout: None,
            peer_timeout: Duration::from_secs(15),
            budget_bytes: None,
            pool_bytes: None,
            starter_bytes: 4096,
            connections: 256,
            operations: None,
            trace: None,
            on_loss: OnLoss::Abort,
            ssh: "ssh".into(),
            agent_program: None,
            command: Vec::new(),
        }
    }
}

//! What the user asks for.

use crate::netns::Cables;
use kumiki_net::terms::Terms;
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
    /// What connects them then.
    pub cables: Cables,
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
    /// What ranks, agents and the hub hold to.
    pub terms: Terms,
    /// A file for a trace.
    pub trace: Option<PathBuf>,
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
            cables: Cables::default(),
            bind: Bind::None,
            environment: Vec::new(),
            directory: None,
            tag_output: false,
            timeout: None,
            terms: Terms::default(),
            trace: None,
            ssh: "ssh".into(),
            agent_program: None,
            command: Vec::new(),
        }
    }
}

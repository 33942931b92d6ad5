//! The launcher as a library: where the ranks go, how their nodes are reached, signals, streams and exit codes.
//!
//! | file | what |
//! |---|---|
//! | `options.rs` | what the user asks for |
//! | `plan.rs` | which rank goes where |
//! | `agents.rs` | starting the agent of each node, here or by ssh |
//! | `launcher.rs` | the loop that carries the messages of the hub |
//! | `parts/` | several launchers, one world |
//! | `streams.rs` | standard input and output |
//! | `trace.rs` | the file of a trace |
//! | `netns.rs` | one network namespace for each virtual node |
//! | `agent.rs` | being the agent of a node |
//! | `relay.rs` | being a relay between programs that join |
//! | `figures.rs` | sizes and limits, for `kumiki info` and the documentation |
#![forbid(unsafe_code)]

pub mod agent;
mod agents;
pub mod figures;
mod launcher;
mod netns;
mod options;
pub mod parts;
mod plan;
pub mod relay;
mod streams;
mod trace;

pub use kumiki_net::agent::bootstrap::is_rank;
pub use kumiki_net::agent::portfile::Portfile;
pub use kumiki_net::agent::report::{print as report, say};
pub use kumiki_net::environment;
pub use kumiki_net::os::probe;
pub use kumiki_net::os::socket::free_port;
pub use kumiki_net::terms;
pub use launcher::run;
pub use netns::{Cable, Cables, MAX_NETWORKS};
pub use options::{Bind, Options};
pub use plan::{is_here, parse_host, read_hostfile, Host, MAX_RANKS};

/// What programs that start foreign jobs, or measure the bare machine, need of the operating system.
pub mod system {
    pub use kumiki_net::os::bare::SharedWords;
    pub use kumiki_net::os::descriptor::set_close_on_exec;
    pub use kumiki_net::os::file::{
        can_replace, command, find_program, is_own_program, private_folder, read_bytes, read_private,
        read_text, read_text_from, replace, trusted_folder,
    };
    pub use kumiki_net::os::memory::create_sealed;
    pub use kumiki_net::os::process::{
        allowed_cores, become_subreaper, children, signal, signal_group, user,
    };
    pub use kumiki_net::os::random_bytes;
    pub use kumiki_net::os::socket::{avoid_pacing, checksum};
}

/// What it takes to look at running worlds from outside, and to show them on a terminal.
pub mod watch {
    pub use kumiki_net::os::descriptor::{poll, read};
    pub use kumiki_net::os::holders::{held, program, Held};
    pub use kumiki_net::os::process::{stop_self, Signals};
    pub use kumiki_net::os::terminal::{size, Keys};
    pub use kumiki_net::os::time::now_ms;
    pub use kumiki_net::shm::arena::{Phase, NAME};
    pub use kumiki_net::shm::board::{Origin, Traffic};
    pub use kumiki_net::shm::control::Activity;
    pub use kumiki_net::shm::glance::{Glance, Member, Source, Strange, Whereabouts, MOST_MEMBERS_SEEN};
    pub use kumiki_net::shm::world::Status;
}

/// Why a job could not be started.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The options contradict each other or the machine; the message says what would be right.
    #[error("{0}")]
    Options(String),
    /// A system call of the launcher failed.
    #[error(transparent)]
    System(#[from] kumiki_net::Error),
}

/// The result of starting a job.
pub type Result<T> = std::result::Result<T, RunError>;

//! Every environment variable of Kumiki, in one table, and the only code that reads them.
//!
//! `docs/environment.md` is made from the table ([`render_markdown`]); an unknown `KUMIKI_*` name is answered with
//! the nearest one ([`unknown_variables`]).

use crate::{Error, Result};
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Who reads a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    /// The launcher: the same as the option of `kumiki run` of that name.
    Launcher,
    /// The agent of a node.
    Agent,
    /// Every process of a job.
    Rank,
    /// The benchmarks.
    Bench,
    /// Set by Kumiki itself for the processes it starts.
    Internal,
}

impl std::fmt::Display for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Reader::Launcher => "`kumiki run`",
            Reader::Agent => "node agent",
            Reader::Rank => "ranks",
            Reader::Bench => "`kumiki bench`",
            Reader::Internal => "set by Kumiki",
        })
    }
}

/// One variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What holds when it is not set.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// Who reads it.
    pub reader: Reader,
}

const fn variable(
    name: &'static str,
    default: &'static str,
    reader: Reader,
    meaning: &'static str,
) -> Variable {
    Variable { name, default, meaning, reader }
}

use Reader::{Agent, Bench, Internal, Launcher, Rank};

/// Every variable, in the order of the documentation.
pub const VARIABLES: &[Variable] = &[
    variable("KUMIKI_RANKS", "1", Launcher, "Number of ranks (`-n`). Ranks started without `kumiki run` read it too: the size of the world."),
    variable("KUMIKI_HOSTS", "this machine", Launcher, "Hosts to run on (`--host a,b:2`)."),
    variable("KUMIKI_HOSTFILE", "none", Launcher, "File of hosts (`--hostfile`), one `name slots=N` or `name:N` a line."),
    variable("KUMIKI_CYCLIC", "no", Launcher, "Deal the ranks out to the hosts in turn (`--cyclic`)."),
    variable("KUMIKI_PPN", "as the hosts say", Launcher, "Ranks of each node (`--ppn`)."),
    variable("KUMIKI_VIRTUAL_NODES", "1", Launcher, "Nodes to make of this one machine (`--virtual-nodes`)."),
    variable("KUMIKI_NETNS", "no", Launcher, "Give each virtual node a network namespace (`--netns`)."),
    variable("KUMIKI_LINKS", "1", Launcher, "Networks beside each other between network namespaces (`--links`)."),
    variable("KUMIKI_LINK_RATE", "as fast as can be", Launcher, "Bits a second that each cable of a network namespace carries (`--link-rate`), for instance `100M`."),
    variable("KUMIKI_LINK_QUEUE", "256K", Launcher, "Bytes that wait for their turn at each end of such a cable (`--link-queue`); more are dropped."),
    variable("KUMIKI_BIND", "none", Launcher, "Bind ranks to processors (`--bind`): core or none."),
    variable("KUMIKI_WDIR", "the current directory", Launcher, "Directory of the ranks (`--wdir`)."),
    variable("KUMIKI_TAG_OUTPUT", "no", Launcher, "Put the rank before each line of output (`--tag-output`)."),
    variable("KUMIKI_TIMEOUT", "none", Launcher, "End the job after this time (`--timeout`), for instance `90s` or `10m`."),
    variable("KUMIKI_ON_LOSS", "abort", Launcher, "What to do when a rank is lost (`--on-loss`): abort or continue."),
    variable("KUMIKI_SSH", "ssh", Launcher, "Command that reaches another host (`--ssh`)."),
    variable("KUMIKI_PEER_TIMEOUT", "15s", Launcher, "How long a peer may be silent before it counts as lost (`--peer-timeout`)."),
    variable("KUMIKI_BUDGET", "none", Launcher, "Memory that the library may take for a rank (`--budget`), for instance `4M`."),
    variable("KUMIKI_POOL", "none", Launcher, "The most memory of a rank that its own and other ranks' `malloc` and data structures may take (`--pool`), for instance `64M`."),
    variable("KUMIKI_STARTER", "4096", Launcher, "Bytes of starter memory of each rank (`--starter`)."),
    variable("KUMIKI_CONNECTIONS", "256", Launcher, "The most TCP connections of a rank (`--connections`); the least recently used is closed first."),
    variable("KUMIKI_OPERATIONS", "4096", Launcher, "The most operations of a rank that are under way at once (`--operations`), 16 at least; issuing one more waits for the oldest. Each takes 192 bytes of the budget while it is under way."),
    variable("KUMIKI_PROCESS_VM", "auto", Launcher, "Use `process_vm_readv` and `process_vm_writev` for private regions on a node: auto or off."),
    variable("KUMIKI_MEND", "on where programs join, otherwise off", Launcher, "Whether a connection that breaks is mended: both sides keep what they send until it is acknowledged, and go on over another connection; a peer is lost when that does not come about within the peer timeout. on or off."),
    variable("KUMIKI_PACING", "auto", Rank, "Whether large payloads between machines give way where several meet: auto, on (a single sender, too) or off."),
    variable("KUMIKI_MULTIPATH", "auto", Rank, "Whether connections between machines go over several networks at once (Multipath TCP): auto (if the machine has endpoints for it, see `ip mptcp endpoint`), on or off. Node agents read it too."),
    variable("KUMIKI_TRACE", "none", Rank, "File for a trace that Perfetto and Chrome read (`--trace`)."),
    variable("KUMIKI_COUNT", "no", Rank, "Count frames and bytes, and print them at the end."),
    variable("KUMIKI_FAULT", "none", Rank, "Faults to inject into connections, for tests."),
    variable("KUMIKI_CHECK", "0", Rank, "`1`: the nodes of arrays compare what they call, and with what, before each collective call; a difference is an error that says where both calls are."),
    variable("KUMIKI_SPIN", "auto", Rank, "Microseconds to spin before sleeping; auto measures, and is 0 when ranks outnumber cores."),
    variable("KUMIKI_TUNE", "none", Rank, "File of decisions which algorithms groups use: read at the first group, and written by rank 0 when it finalizes, with what was learned."),
    variable("KUMIKI_INIT_TIMEOUT", "120s", Rank, "How long ranks started without `kumiki run` wait for each other."),
    variable("KUMIKI_SLICE", "twice the machine's memory", Agent, "Address space that each rank's memory may take in every process of its node; less is needed under valgrind, `ulimit -v` and the like, for instance `256M`."),
    variable("KUMIKI_NET", "the way the launcher came", Agent, "Network to listen on, for instance `10.1.0.0/16`: the interface with an address in it."),
    variable("KUMIKI_PORTS", "any", Agent, "Ports to listen on, for instance `30000-30100`. A node uses one."),
    variable("KUMIKI_MASTER", "none", Rank, "`host:port` where rank 0 listens when ranks are started without `kumiki run`."),
    variable("KUMIKI_RANK", "none", Rank, "The rank of this process when ranks are started without `kumiki run`."),
    variable("KUMIKI_SECRET_FILE", "none", Rank, "File with the secret of the job when ranks are started without `kumiki run`: mode 0600, at least 32 bytes or 64 hex digits."),
    variable("KUMIKI_PORTFILE", "none", Rank, "The file in which the parts of a job find each other, when several launchers start one world (`macprun`): mode 0600."),
    variable("KUMIKI_OFFSET_RANK", "0", Rank, "The number of the first rank of this process's part of the job."),
    variable("KUMIKI_NODE", "the machine", Rank, "Name that tells apart nodes which are one machine, when ranks are started without `kumiki run`."),
    variable("WAITIO_MASTER_HOST", "localhost", Rank, "Host where rank 0 of block 0 calls the roll, when several programs join ([join.md](join.md)): the same in every block."),
    variable("WAITIO_MASTER_PORT", "7100", Rank, "Port where it does."),
    variable("WAITIO_PBID", "0", Rank, "The number of this program's block."),
    variable("WAITIO_NPB", "1", Rank, "How many blocks join."),
    variable("WAITIO_SECRET", "none", Rank, "What all blocks know, and nobody else: 16 letters or more. Without it, and without a file, blocks join on one machine and of one user only. A file is better: other users may see the environment of a process."),
    variable("WAITIO_SECRET_FILE", "none", Rank, "File with that secret: mode 0600."),
    variable("WAITIO_PORT_RANGE", "any", Rank, "Ports to listen on, besides the master's, for instance `30000-30100`; as `KUMIKI_PORTS`, which goes before it."),
    variable("WAITIO_RELAY", "none", Rank, "`host:port` of a relay (`kumiki relay`) through which blocks on other machines are reached, where no direct connection can be. Addresses in the networks of this machine are called directly. It knows the secret of the blocks."),
    variable("WAITIO_TIMEOUT", "what the program says", Rank, "How long a block waits for the others, for instance `90s`: goes before what the program says to `waitio_init`."),
    variable("WAITIO_SCRATCH_DIR", "`.kumiki` in the home folder", Rank, "Folder that all blocks see, in which `waitio-serv` keeps the host of block 0, and `WAITIO_COMM_TYPE=file` what is under way."),
    variable("COUPLER_JOB_ID", "`PBS_JOBID`, `SLURM_JOB_ID` or `PJM_JOBID`, or `default`", Rank, "The name of the job that the blocks make up."),
    variable("WAITIO_COMM_TYPE", "socket", Rank, "What links the machines of the blocks: `socket` (their networks), `file` (a folder that all see, see `WAITIO_SCRATCH_DIR`), or `hybrid` (their networks where they reach each other, and otherwise the folder). `verbs` and what is not known is answered with one warning, and sockets. On a machine it is shared memory in any case."),
    variable("WAITIO_MAXFILE_SIZE_PER_PROC", "64M", Rank, "With `file` and `hybrid`: how many bytes of a process may lie unread in files, 1M at least. `-1` and `unlimited` are answered with a line, and the default."),
    variable("WAITIO_HYBRID_THRESHOULD", "none", Rank, "Bytes from which on the original sends messages through files. It is read, so that a mistake in it is found, and changes nothing: `hybrid` decides by machine. `-1` and `unlimited` are answered with a line."),
    variable("WAITIO_HYBRID_THRESHOLD", "none", Rank, "The same, as it is spelled elsewhere."),
    variable("WAITIO_PROGRESS", "`calls`", Rank, "`thread`: a thread of each WaitIO process makes messages go on while the program computes. Otherwise (`calls`, `in calls`, `none`, or no in any of the usual ways) calls do, and long messages between machines are served in any case."),
    variable("XMP_NODE_SIZE0", "what the number of nodes leaves", Rank, "Nodes in the first dimension, the fastest, of a `nodes` directive of XcalableMP that has several `*`."),
    variable("XMP_NODE_SIZE1", "what the number of nodes leaves", Rank, "The same for the second dimension."),
    variable("XMP_NODE_SIZE2", "what the number of nodes leaves", Rank, "The same for the third dimension."),
    variable("XMP_NODE_SIZE3", "what the number of nodes leaves", Rank, "The same for the fourth dimension."),
    variable("XMP_NODE_SIZE4", "what the number of nodes leaves", Rank, "The same for the fifth dimension."),
    variable("XMP_NODE_SIZE5", "what the number of nodes leaves", Rank, "The same for the sixth dimension."),
    variable("XMP_NODE_SIZE6", "what the number of nodes leaves", Rank, "The same for the seventh dimension."),
    variable("KUMIKI_HOSTING", "auto", Rank, "Who keeps the agent of a machine and the hub when programs join: auto (processes of the `kumiki` command, if it is beside the library or on the `PATH`) or thread (of the process that comes first)."),
    variable("KUMIKI_PEERS_DIR", "`kumiki/peers` in the user's cache", Bench, "Folder of the MPI libraries and of Lamellar to compare with, as given to `benches/peers/install`: of this user or root, and nobody else may write to it."),
    variable("KUMIKI_MEASURE_FD", "none", Internal, "Descriptor to which ranks write what joining cost them, for `kumiki mem`."),
    variable("KUMIKI_AGENT_FD", "none", Internal, "Descriptor of the line to the node agent."),
];

/// Reads a variable; an empty one counts as not set.
pub fn text(name: &'static str) -> Result<Option<String>> {
    debug_assert!(VARIABLES.iter().any(|variable| variable.name == name), "{name} is not in the table");
    match std::env::var_os(name).filter(|value| !value.is_empty()) {
        None => Ok(None),
        Some(value) => match value.into_string() {
            Ok(value) => Ok(Some(value)),
            Err(value) => Err(wrong(name, &value, "text in UTF-8")),
        },
    }
}

/// Reads a whole number.
pub fn number(name: &'static str) -> Result<Option<u32>> {
    let Some(value) = text(name)? else { return Ok(None) };
    value.trim().parse().map(Some).map_err(|_| wrong(name, &value.into(), "a whole number such as 4"))
}

/// Reads a number of bytes.
pub fn bytes(name: &'static str) -> Result<Option<u64>> {
    let Some(value) = text(name)? else { return Ok(None) };
    parse_bytes(&value)
        .map(Some)
        .ok_or_else(|| wrong(name, &value.into(), "a size such as 65536, 64K, 4M or 1G"))
}

/// Reads a port.
pub fn port(name: &'static str) -> Result<Option<u16>> {
    let Some(value) = text(name)? else { return Ok(None) };
    let port = value.trim().parse().ok().filter(|&port: &u16| port > 0);
    port.map(Some).ok_or_else(|| wrong(name, &value.into(), "a port such as 7100"))
}

/// Reads a span of time.
pub fn duration(name: &'static str) -> Result<Option<Duration>> {
    let Some(value) = text(name)? else { return Ok(None) };
    parse_duration(&value)
        .map(Some)
        .ok_or_else(|| wrong(name, &value.into(), "a time such as 500ms, 15s or 2m"))
}

/// Reads a choice among words.
pub fn choice(name: &'static str, words: &[&'static str]) -> Result<Option<&'static str>> {
    let Some(value) = text(name)? else { return Ok(None) };
    // Where yes and no are among the words, what others write for them is understood too.
    let said = parse_yes_or_no(&value).map(|yes| if yes { "yes" } else { "no" });
    let word = said.filter(|said| words.contains(said)).unwrap_or(value.trim());
    let found = words.iter().find(|known| known.eq_ignore_ascii_case(word)).copied();
    found.map(Some).ok_or_else(|| wrong(name, &value.into(), &words.join(" or ")))
}

/// The name of the job, as whoever started it says: `COUPLER_JOB_ID`, or that of the batch system, or `default`.
pub fn job_name() -> Result<String> {
    let given = text("COUPLER_JOB_ID")?;
    let by_batch = || {
        let names = ["PBS_JOBID", "SLURM_JOB_ID", "PJM_JOBID"].into_iter();
        names.filter_map(|name| std::env::var(name).ok()).find(|name| !name.is_empty())
    };
    Ok(given.or_else(by_batch).unwrap_or_else(|| "default".into()))
}

/// Where something of the job lies that all its blocks see: `WAITIO_SCRATCH_DIR`, or `.kumiki` in the home folder; named by the user and the job.
pub fn job_place(what: &str) -> Result<PathBuf> {
    let folder = match text("WAITIO_SCRATCH_DIR")? {
        Some(folder) => PathBuf::from(folder),
        None => {
            let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
            let none = || Error::Refused("there is no folder for it: set WAITIO_SCRATCH_DIR, or HOME".into());
            PathBuf::from(home.ok_or_else(none)?).join(".kumiki")
        }
    };
    Ok(folder.join(format!("{what}.{}.{}", crate::os::process::user(), plain(&job_name()?))))
}

/// A name that can be part of one of a file: what is no plain letter becomes its number.
fn plain(job: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let letter = |byte: u8| match is_plain(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02x}"),
    };
    job.bytes().take(100).map(letter).collect()
}

/// The variables that name a range of ports; the first that is set goes before the others.
const PORT_RANGES: [&str; 2] = ["KUMIKI_PORTS", "WAITIO_PORT_RANGE"];

/// The variable that says at which ports to listen, or that would.
pub fn ports_name() -> &'static str {
    let mut set = PORT_RANGES.into_iter().filter(|&name| text(name).is_ok_and(|value| value.is_some()));
    set.next().unwrap_or(PORT_RANGES[0])
}

/// `KUMIKI_PORTS` or `WAITIO_PORT_RANGE`: the lowest and the highest port.
pub fn ports() -> Result<Option<(u16, u16)>> {
    let set = PORT_RANGES.into_iter().map(|name| text(name).map(|value| value.map(|value| (name, value))));
    let Some((name, value)) = set.collect::<Result<Vec<_>>>()?.into_iter().flatten().next() else {
        return Ok(None);
    };
    let (low, high) = value.split_once('-').unwrap_or((&value, &value));
    match (low.trim().parse(), high.trim().parse()) {
        (Ok(low), Ok(high)) if 0 < low && low <= high => Ok(Some((low, high))),
        _ => Err(wrong(name, &value.into(), "a range such as 30000-30100")),
    }
}

/// The folder of what this user's programs keep to be faster the next time: `XDG_CACHE_HOME`, or `.cache` in the home.
pub fn cache_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))
}

/// Whether valgrind runs this process: it does not see what another process writes there, and takes it for memory that nobody has written.
pub fn is_watched() -> bool {
    std::env::var_os("LD_PRELOAD").is_some_and(|names| names.to_string_lossy().contains("vgpreload"))
}

/// Whether whoever started this process ends everything that it has started as soon as it has ended itself: an agent of ours, or Slurm.
pub fn ends_with_its_launcher() -> bool {
    ["KUMIKI_AGENT_FD", "SLURM_STEP_ID"].iter().any(|name| std::env::var_os(name).is_some())
}

/// A peer cannot be expected to answer sooner.
pub const LEAST_PEER_TIMEOUT: Duration = Duration::from_millis(100);

/// `KUMIKI_PEER_TIMEOUT`: how long a peer may be silent.
pub fn peer_timeout() -> Result<Option<Duration>> {
    let Some(time) = duration("KUMIKI_PEER_TIMEOUT")? else { return Ok(None) };
    if time < LEAST_PEER_TIMEOUT {
        let value = std::env::var_os("KUMIKI_PEER_TIMEOUT").unwrap_or_default();
        return Err(wrong("KUMIKI_PEER_TIMEOUT", &value, "100ms or more"));
    }
    Ok(Some(time))
}

/// Fewer operations at once would not let the library do its own work beside the program's.
pub const LEAST_OPERATIONS: u32 = 16;

/// `KUMIKI_OPERATIONS`: how many operations may be under way at once.
pub fn operations() -> Result<Option<u32>> {
    match number("KUMIKI_OPERATIONS")? {
        Some(few) if few < LEAST_OPERATIONS => {
            Err(wrong("KUMIKI_OPERATIONS", &few.to_string().into(), "16 or more"))
        }
        said => Ok(said),
    }
}

/// The variables of WaitIO that are sizes.
pub const WAITIO_SIZES: [&str; 3] =
    ["WAITIO_HYBRID_THRESHOULD", "WAITIO_HYBRID_THRESHOLD", "WAITIO_MAXFILE_SIZE_PER_PROC"];

/// What a variable for a size has where scripts of the field say that there is none: as if it were not set.
pub fn endless(name: &'static str) -> Option<String> {
    let value = text(name).ok().flatten()?;
    ["-1", "unlimited"].iter().any(|word| word.eq_ignore_ascii_case(value.trim())).then_some(value)
}

/// One of [`WAITIO_SIZES`], if it is set to a size.
pub fn waitio_size(name: &'static str) -> Result<Option<u64>> {
    if endless(name).is_some() {
        return Ok(None);
    }
    bytes(name)
}

/// Whether a value of `WAITIO_PROGRESS` is another word for `calls`, or none.
fn is_no_thread(value: &str) -> bool {
    let value = value.trim().to_ascii_lowercase();
    matches!(&value[..], "" | "none" | "in calls") || parse_yes_or_no(&value) == Some(false)
}

/// Looks at variables that are read late, or only by some jobs: what they say must make sense in any case.
pub fn check() -> Result<()> {
    network()?;
    ports()?;
    peer_timeout().map(drop)
}

/// The same for programs that join: also what is only read later, or only by some ways to join.
pub fn check_joining() -> Result<()> {
    check()?;
    for name in WAITIO_SIZES {
        waitio_size(name)?;
    }
    let asks = text("WAITIO_PROGRESS")?.unwrap_or_default();
    if !is_no_thread(&asks) {
        choice("WAITIO_PROGRESS", &["thread", "calls"])?;
    }
    choice("KUMIKI_HOSTING", &["auto", "thread"])?;
    match text("WAITIO_RELAY")? {
        Some(place) if !is_place(place.trim()) => {
            Err(wrong("WAITIO_RELAY", &place.into(), "host:port such as 10.1.0.1:7200, or a host alone"))
        }
        _ => Ok(()),
    }
}

/// Whether this can be a host with or without a port. (An IPv6 address with a port is in brackets.)
fn is_place(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some(split) if text.parse::<IpAddr>().is_err() && !text.ends_with(']') => split,
        _ => (text, "1"),
    };
    let is_host =
        !host.is_empty() && !host.contains(|letter: char| letter.is_whitespace() || "/@,".contains(letter));
    is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// `KUMIKI_NET`: the network to listen on, and how it was written.
fn network() -> Result<Option<(Network, String)>> {
    let Some(value) = text("KUMIKI_NET")? else { return Ok(None) };
    match Network::parse(&value) {
        Some(network) => Ok(Some((network, value))),
        None => Err(wrong("KUMIKI_NET", &value.into(), "a network such as 10.1.0.0/16")),
    }
}

/// The address of this machine that other nodes reach: in the network `KUMIKI_NET`, or the one by which ssh came.
pub fn reached_address() -> Result<IpAddr> {
    if let Some((network, value)) = network()? {
        let addresses = crate::os::socket::interface_addresses()?;
        return addresses.iter().copied().find(|address| network.contains(*address)).ok_or_else(|| {
            let have: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
            Error::Refused(format!(
                "no address of this machine is in KUMIKI_NET={value}; it has {}",
                have.join(", ")
            ))
        });
    }
    // "client-address client-port server-address server-port"
    let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
    let server = connection.split_whitespace().nth(2).and_then(|word| word.parse().ok());
    server.ok_or_else(|| {
        Error::Refused("cannot tell which address other nodes reach; set KUMIKI_NET to their network".into())
    })
}

/// Yes or no, in one of the usual ways to write it.
pub fn parse_yes_or_no(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" | "t" | "true" | "on" | "1" => Some(true),
        "n" | "no" | "f" | "false" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// A size: a number, or a number with K, M, G or T (powers of 1024).
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim().trim_end_matches(['B', 'b']).trim_end_matches('i');
    let split = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let scale: u64 = match unit.trim() {
        "" => 1,
        "K" | "k" => 1 << 10,
        "M" | "m" => 1 << 20,
        "G" | "g" => 1 << 30,
        "T" | "t" => 1 << 40,
        _ => return None,
    };
    match digits.parse::<u64>() {
        Ok(number) => number.checked_mul(scale),
        Err(_) => {
            let value = digits.parse::<f64>().ok()? * scale as f64;
            (value.is_finite() && value < u64::MAX as f64).then_some(value as u64)
        }
    }
}

/// A span of time: seconds, or a number with ms, s, m or h.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let split = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let scale = match unit.trim() {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(digits.parse::<f64>().ok()? * scale).ok()
}

/// For each `KUMIKI_*` variable of the environment that does not exist: its name, and the nearest that does.
pub fn unknown_variables() -> Vec<(String, &'static str)> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter_map(|name| nearest(&name).map(|near| (name, near))).collect()
}

/// The nearest existing name to a `KUMIKI_*` variable, `None` if it exists itself, or is none of ours.
pub fn nearest(name: &str) -> Option<&'static str> {
    if !name.starts_with("KUMIKI_") || VARIABLES.iter().any(|variable| variable.name == name) {
        return None;
    }
    VARIABLES.iter().map(|variable| variable.name).min_by_key(|known| strsim::osa_distance(name, known))
}

/// `docs/environment.md`.
pub fn render_markdown() -> String {
    let mut text = String::from(
        "# Environment variables\n\n\
         <!-- Made from crates/net/src/environment.rs; do not edit. -->\n\n\
         Options of `kumiki run` win over variables. A `KUMIKI_*` variable that is not in this table is reported \
         with the nearest name that is.\n\n\
         | variable | default | read by | meaning |\n|---|---|---|---|\n",
    );
    for variable in VARIABLES {
        let Variable { name, default, meaning, reader } = variable;
        text.push_str(&format!("| `{name}` | {default} | {reader} | {meaning} |\n"));
    }
    text
}

fn wrong(name: &str, value: &OsString, right: &str) -> Error {
    Error::Misuse(format!("{name}={} cannot be; it should be {right}", value.to_string_lossy()))
}

/// A network in CIDR notation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Network {
    address: IpAddr,
    prefix: u32,
}

impl Network {
    fn parse(text: &str) -> Option<Network> {
        let (address, prefix) = match text.trim().split_once('/') {
            Some((address, prefix)) => (address.parse().ok()?, prefix.parse().ok()?),
            None => {
                let address: IpAddr = text.trim().parse().ok()?;
                (address, if address.is_ipv4() { 32 } else { 128 })
            }
        };
        (prefix <= if address.is_ipv4() { 32 } else { 128 }).then_some(Network { address, prefix })
    }

    fn contains(self, address: IpAddr) -> bool {
        let high_bits = |value: u128, bits: u32| value.checked_shr(bits - self.prefix).unwrap_or(0);
        match (self.address, address) {
            (IpAddr::V4(net), IpAddr::V4(v4)) => {
                high_bits(net.to_bits().into(), 32) == high_bits(v4.to_bits().into(), 32)
            }
            (IpAddr::V6(net), IpAddr::V6(v6)) => {
                high_bits(net.to_bits(), 128) == high_bits(v6.to_bits(), 128)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_understood() {
        let sizes =
            [("0", 0), ("64", 64), ("4K", 4096), ("4M", 4 << 20), ("1.5G", 3 << 29), ("2MiB", 2 << 20)];
        for (text, value) in sizes {
            assert_eq!(parse_bytes(text), Some(value), "{text}");
        }
        for text in ["", "K", "-1", "4X", "4 M 2", "99999999999999T"] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
        for (text, milliseconds) in [("500ms", 500), ("15s", 15_000), ("15", 15_000), ("2m", 120_000)] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        assert_eq!(
            ["1", "Yes", "off", "maybe"].map(parse_yes_or_no),
            [Some(true), Some(true), Some(false), None]
        );
        for text in ["", "s", "-5s", "5 weeks"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_nearest() {
        assert_eq!(nearest("KUMIKI_RANKZ"), Some("KUMIKI_RANKS"));
        assert_eq!(nearest("KUMIKI_VIRTUALNODES"), Some("KUMIKI_VIRTUAL_NODES"));
        assert_eq!((nearest("KUMIKI_RANKS"), nearest("PATH")), (None, None));
        let cases =
            [("run", "run"), ("rnu", "run"), ("rn", "run"), ("runn", "run"), ("", "run"), ("abc", "cab")];
        assert_eq!(cases.map(|(one, other)| strsim::osa_distance(one, other)), [0, 1, 1, 1, 3, 2]);
    }

    #[test]
    fn places_of_relays_are_understood() {
        for good in
            ["gate", "gate:7200", "10.1.0.1:7200", "fe80::1", "[fe80::1]", "[fe80::1]:7200", "gate.org:1"]
        {
            assert!(is_place(good), "{good}");
        }
        for bad in
            ["", ":7200", "gate:", "gate:0", "gate:port", "gate:70000", "http://gate:7200", "a b", "a:1,b:2"]
        {
            assert!(!is_place(bad), "{bad}");
        }
    }

    #[test]
    fn words_for_calls_that_documents_had_were_refused() {
        for word in ["off", "No", "0", "none", "in calls", "FALSE", " ", ""] {
            assert!(is_no_thread(word), "{word}");
        }
        for word in ["thread", "yes", "1", "thraed"] {
            assert!(!is_no_thread(word), "{word}");
        }
    }

    #[test]
    fn no_job_leads_out_of_its_folder() {
        assert_eq!(plain("../1234.host[7]"), "%2e%2e%2f1234%2ehost%5b7%5d");
        assert_eq!(plain("run_7-a"), "run_7-a");
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = VARIABLES.iter().map(|variable| variable.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), VARIABLES.len());
    }

    #[test]
    fn a_network_holds_its_addresses_only() {
        let contains = |net: &str, ip: &str| Network::parse(net).unwrap().contains(ip.parse().unwrap());
        assert!(contains("10.1.0.0/16", "10.1.255.1") && !contains("10.1.0.0/16", "10.2.0.1"));
        assert!(contains("0.0.0.0/0", "8.8.8.8") && !contains("0.0.0.0/0", "::1"));
        assert!(
            contains("::/0", "::1") && contains("fd00::/8", "fd12::1") && !contains("127.0.0.1", "127.0.0.2")
        );
        assert!(Network::parse("10.0.0.0/33").is_none() && Network::parse("ten").is_none());
    }
}

//! `kumiki run`: starts the ranks of a job and stays until they have ended.

use super::Outcome;
use clap::ValueEnum;
use kumiki_run::environment::{self, parse_bytes, parse_duration, parse_yes_or_no};
use kumiki_run::parts::{self, MeetingPlace, Parts};
use kumiki_run::terms::{self, Terms};
use kumiki_run::{Bind, Cable, Cables, Options};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  kumiki run -n 4 ./heat                        four ranks on this machine
  kumiki run -n 4 --virtual-nodes 2 ./heat      the same on two nodes made of this machine
  kumiki run --host alpha:8,beta:8 ./heat       sixteen ranks on two hosts, reached by ssh
  kumiki run -n 4 --timeout 60s --tag-output ./heat --size 512
  kumiki run --join blocks                      programs under their own launchers: share/doc/kumiki/docs/join.md

The exit code is 0 if every rank ended well; otherwise that of the first rank that did not, 128 plus the signal \
that killed it, 124 after --timeout, 127 if there is no such program. Every option has an environment form. \
Ctrl-C ends the job, twice kills it at once; SIGUSR2 prints who waits for whom.";

/// Start the ranks of a job and stay until they have ended.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Number of ranks.
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = ranks, env = "KUMIKI_RANKS")]
    ranks: Option<u32>,
    /// Hosts to run on, each with the number of its ranks if wanted: a,b:2. Other hosts than this are reached by ssh.
    #[arg(long = "host", value_name = "HOSTS", env = "KUMIKI_HOSTS")]
    hosts: Option<String>,
    /// File of hosts: one `name slots=N` or `name:N` a line; a name that comes again adds to its slots.
    #[arg(long, value_name = "FILE", env = "KUMIKI_HOSTFILE")]
    hostfile: Option<PathBuf>,
    /// Deal the ranks out to the hosts in turn, instead of filling one host after the other.
    #[arg(long, env = "KUMIKI_CYCLIC", value_parser = yes_or_no)]
    cyclic: bool,
    /// Ranks of each node.
    #[arg(long, value_name = "P", value_parser = count, env = "KUMIKI_PPN")]
    ppn: Option<u32>,
    /// Make this many nodes of this one machine, with TCP between them.
    #[arg(long, value_name = "K", value_parser = count, env = "KUMIKI_VIRTUAL_NODES")]
    virtual_nodes: Option<u32>,
    /// Give each virtual node a network namespace of its own.
    #[arg(long, env = "KUMIKI_NETNS", value_parser = yes_or_no)]
    netns: bool,
    /// So many networks beside each other between the network namespaces, each with a cable to every node (see KUMIKI_MULTIPATH).
    #[arg(long, value_name = "N", value_parser = networks, default_value = "1", env = "KUMIKI_LINKS")]
    links: u32,
    /// Bits a second that each cable of a network namespace carries (100M, 1G), to see what a slower network does.
    #[arg(long, value_name = "BITS", value_parser = bit_rate, env = "KUMIKI_LINK_RATE")]
    link_rate: Option<u64>,
    /// Bytes that wait for their turn at each end of such a cable; more are dropped.
    #[arg(long, value_name = "BYTES", value_parser = queue_bytes, default_value = "256K", requires = "link_rate", env = "KUMIKI_LINK_QUEUE")]
    link_queue: u32,
    /// Bind each rank to a processor.
    #[arg(long, value_name = "WHAT", default_value = "none", env = "KUMIKI_BIND")]
    bind: BindChoice,
    /// Environment for the ranks: NAME passes ours on, NAME=VALUE sets it. May be repeated.
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    environment: Vec<String>,
    /// Directory of the ranks.
    #[arg(long, value_name = "DIR", env = "KUMIKI_WDIR")]
    wdir: Option<PathBuf>,
    /// Put the rank before each line of output.
    #[arg(long, env = "KUMIKI_TAG_OUTPUT", value_parser = yes_or_no)]
    tag_output: bool,
    /// End the job after this time (60, 90s, 10m), with a report and exit code 124.
    #[arg(long, value_name = "TIME", value_parser = some_time, env = "KUMIKI_TIMEOUT")]
    timeout: Option<Duration>,
    /// How long a peer may be silent before it counts as lost; 100ms at least.
    #[arg(long, value_name = "TIME", value_parser = peer_timeout, default_value = "15s", env = "KUMIKI_PEER_TIMEOUT")]
    peer_timeout: Duration,
    /// Memory that the library may take for each rank (64K, 4M).
    #[arg(long, value_name = "BYTES", value_parser = bytes, env = "KUMIKI_BUDGET")]
    budget: Option<u64>,
    /// The most memory of a rank that malloc and data structures of all ranks may take.
    #[arg(long, value_name = "BYTES", value_parser = bytes, env = "KUMIKI_POOL")]
    pool: Option<u64>,
    /// Starter memory of each rank.
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value_t = Terms::default().starter_bytes, env = "KUMIKI_STARTER")]
    starter: u64,
    /// The most TCP connections of a rank.
    #[arg(long, value_name = "N", value_parser = count, default_value_t = Terms::default().connection_cap, env = "KUMIKI_CONNECTIONS")]
    connections: u32,
    /// The most operations of a rank that are under way at once; issuing one more waits for the oldest.
    #[arg(long, value_name = "N", value_parser = operations, default_value_t = Terms::default().operation_cap, env = "KUMIKI_OPERATIONS")]
    operations: u32,
    /// Write a trace that Perfetto and Chrome read.
    #[arg(long, value_name = "FILE", env = "KUMIKI_TRACE")]
    trace: Option<PathBuf>,
    /// What to do when a rank is lost.
    #[arg(long, value_name = "WHAT", default_value = "abort", env = "KUMIKI_ON_LOSS")]
    on_loss: LossChoice,
    /// Command that reaches another host.
    #[arg(long, value_name = "CMD", default_value = "ssh", env = "KUMIKI_SSH")]
    ssh: String,
    /// Start the programs of a file, each under its own launcher, as blocks that join: the number of blocks, then on lines of their own their launchers (`none`: the
    /// processes are started by this command), their numbers of processes, and the programs. Each line of output gets the number of its block; when one fails the others are ended.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "hosts", "hostfile", "virtual_nodes", "netns"])]
    join: Option<PathBuf>,
    /// Host (and port, `HOST:PORT`) of the first process of the first block, for --join, if it is not this machine.
    #[arg(long, value_name = "HOST", requires = "join", value_parser = meeting_place)]
    join_master: Option<MeetingPlace>,
    /// File to make for the secret of the blocks, for --join, if they are on several machines: all must see it.
    #[arg(long, value_name = "PATH", requires = "join")]
    join_secret: Option<PathBuf>,
    /// `HOST:PORT` of a relay (`kumiki relay`), for --join, if blocks cannot reach each other. It and the blocks take their secret from WAITIO_SECRET_FILE.
    #[arg(long, value_name = "HOST:PORT", requires = "join", conflicts_with = "join_secret")]
    join_relay: Option<String>,
    /// The program, and its arguments.
    #[arg(required_unless_present = "join", trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, ValueEnum)]
enum BindChoice {
    /// One processor a rank.
    Core,
    /// Wherever the system puts them.
    None,
}

#[derive(Clone, Copy, ValueEnum)]
enum LossChoice {
    /// End the job, with a report.
    Abort,
    /// Tell the others, and go on.
    Continue,
}

pub(crate) fn run(arguments: Arguments) -> Outcome {
    if let Some(file) = &arguments.join {
        return run_blocks(file, &arguments);
    }
    kumiki_run::run(&options(arguments)).map_err(|error| error.to_string())
}

/// Several programs, each under its own launcher.
fn run_blocks(file: &Path, arguments: &Arguments) -> Outcome {
    super::warn_of_unknown_variables();
    let job = Parts {
        parts: super::macprun::read_blocks(file)?,
        starter_bytes: 0,
        pool_bytes: None,
        portfile: arguments.join_secret.clone(),
        timeout: arguments.timeout,
        forward_input: true,
    };
    let nowhere = MeetingPlace { host: None, port: None, relay: None };
    let place = arguments.join_master.clone().unwrap_or(nowhere);
    let place = MeetingPlace { relay: arguments.join_relay.clone(), ..place };
    let goes_on = matches!(arguments.on_loss, LossChoice::Continue);
    parts::run_blocks(&job, &place, goes_on).map_err(|error| error.to_string())
}

fn meeting_place(text: &str) -> Result<MeetingPlace, String> {
    let (host, port) = match text.rsplit_once(':') {
        // An address of version 6 has more of them, and none behind its brackets.
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            let number = port.parse().ok().filter(|&port: &u16| port > 0);
            (host, Some(number.ok_or_else(|| format!("`{port}` should be a port such as 7100"))?))
        }
        _ => (text, None),
    };
    match host.is_empty() {
        true => Err("the host is missing".into()),
        false => Ok(MeetingPlace { host: Some(host.trim_matches(['[', ']']).to_owned()), port, relay: None }),
    }
}

/// As `kumiki run` with these words behind it: so every option has its environment form here, too.
pub(crate) fn run_words(words: Vec<OsString>) -> Outcome {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }
    let line = std::iter::once("kumiki run".into()).chain(words);
    let line = <Line as clap::Parser>::try_parse_from(line);
    let told = |error| crate::help::explained(error, <Line as clap::CommandFactory>::command()).to_string();
    run(line.map_err(told)?.arguments)
}

/// What all the parts of the job are told alike.
fn terms(arguments: &Arguments) -> Terms {
    Terms {
        starter_bytes: arguments.starter,
        budget_bytes: arguments.budget.unwrap_or(u64::MAX),
        pool_bytes: arguments.pool.unwrap_or(u64::MAX),
        peer_timeout_ms: terms::milliseconds(arguments.peer_timeout),
        connection_cap: arguments.connections,
        operation_cap: arguments.operations,
        continue_on_loss: matches!(arguments.on_loss, LossChoice::Continue).into(),
        ..Terms::default()
    }
}

fn options(arguments: Arguments) -> Options {
    let terms = terms(&arguments);
    Options {
        ranks: arguments.ranks,
        hosts: arguments.hosts,
        hostfile: arguments.hostfile,
        cyclic: arguments.cyclic,
        per_node: arguments.ppn,
        virtual_nodes: arguments.virtual_nodes,
        network_namespaces: arguments.netns,
        cables: Cables {
            networks: arguments.links,
            carries: arguments
                .link_rate
                .map(|bits| Cable { bytes_per_second: bits / 8, queue_bytes: arguments.link_queue }),
        },
        bind: match arguments.bind {
            BindChoice::Core => Bind::Core,
            BindChoice::None => Bind::None,
        },
        environment: arguments.environment,
        directory: arguments.wdir,
        tag_output: arguments.tag_output,
        timeout: arguments.timeout,
        terms,
        trace: arguments.trace,
        ssh: arguments.ssh,
        agent_program: None,
        command: arguments.command,
    }
}

/// A number of things of which there is at least one.
pub(crate) fn count(text: &str) -> Result<u32, String> {
    count_up_to(text, u32::MAX)
}

/// A number of ranks.
pub(crate) fn ranks(text: &str) -> Result<u32, String> {
    count_up_to(text, kumiki_run::MAX_RANKS)
}

fn count_up_to(text: &str, most: u32) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("it should be a whole number, at least 1 and at most {most}"))
}

/// A number of networks.
fn networks(text: &str) -> Result<u32, String> {
    count_up_to(text, kumiki_run::MAX_NETWORKS)
}

/// A number of operations, as ranks take it.
fn operations(text: &str) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|&number| number >= environment::LEAST_OPERATIONS);
    number.ok_or_else(|| format!("it should be a whole number, at least {}", environment::LEAST_OPERATIONS))
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    parse_yes_or_no(text).ok_or_else(|| "it should be yes or no".into())
}

/// Bits a second: a number with K, M or G, which are thousands here.
fn bit_rate(text: &str) -> Result<u64, String> {
    let number = text.trim().trim_end_matches("/s").trim_end_matches("bit");
    let unit = number.chars().last().unwrap_or(' ').to_ascii_uppercase();
    let scale = ["K", "M", "G"].iter().position(|&known| unit.to_string() == known);
    let digits = if scale.is_some() { &number[..number.len() - 1] } else { number };
    let value = digits.trim().parse::<f64>().ok();
    let bits = value.map(|value| value * 1000f64.powi(scale.map_or(0, |scale| scale as i32 + 1)));
    bits.filter(|bits| (1e4..=1e12).contains(bits))
        .map(|bits| bits as u64)
        .ok_or_else(|| "it should be a rate such as 100M or 2.5G bits a second, at least 10K".into())
}

/// Bytes that wait at the end of a cable: a packet at least.
fn queue_bytes(text: &str) -> Result<u32, String> {
    let queue = bytes(text)?;
    u32::try_from(queue)
        .ok()
        .filter(|&queue| queue >= 2048)
        .ok_or_else(|| "it should be 2K or more, and less than 4G".into())
}

fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text).ok_or_else(|| "it should be a size such as 65536, 64K, 4M or 1G".into())
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "it should be a time such as 500ms, 15s or 2m".into())
}

/// A time that is not over at once.
fn some_time(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|time| match time.is_zero() {
        true => Err("it should be more than 0".into()),
        false => Ok(time),
    })
}

fn peer_timeout(text: &str) -> Result<Duration, String> {
    let least = environment::LEAST_PEER_TIMEOUT;
    duration(text).and_then(|time| match time < least {
        true => Err(format!("it should be {}ms or more: nobody answers at once", least.as_millis())),
        false => Ok(time),
    })
}

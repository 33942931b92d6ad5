//! What is simulated, and where: a program by its file or a pattern by its name, a network, and what changes results.

use clap::builder::PossibleValuesParser;
use kumiki_run::environment::parse_bytes;
use kumiki_sim::source::{nearest, Source};
use kumiki_sim::{
    goal, mgen, replay, run_pattern, simulate, Engine, Network, Options, Pacing, Pattern, PatternKind,
    Report, Steps, Ties, Time, Workload,
};
use std::path::Path;

/// Options that every simulation has.
#[derive(clap::Args, Clone)]
pub(crate) struct Settings {
    /// Number of ranks; all that the network has room for if it is not said.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub(crate) ranks: Option<u32>,
    /// Bytes of a message of a pattern (of an allreduce: of the vector).
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "64K")]
    pub(crate) bytes: u64,
    /// Messages to each partner in a step of a pattern.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) messages: u32,
    /// Steps of a pattern: all, so many, or sample:N:SEED.
    #[arg(long, value_name = "STEPS", default_value = "all")]
    pub(crate) steps: Steps,
    /// All ranks meet after each step, and everything has arrived.
    #[arg(long)]
    pub(crate) sync_steps: bool,
    /// Idle time between the packets of a message: off, overlap, hops, or a time such as 800ns.
    #[arg(long, value_name = "GAP", default_value = "off")]
    pub(crate) pacing: Pacing,
    /// Buffer space of each virtual channel, in packets.
    #[arg(long, value_name = "PACKETS")]
    pub(crate) buffers: Option<u32>,
    /// Which way a packet goes that has half a ring before it.
    #[arg(long, value_name = "WHICH", value_parser = PossibleValuesParser::new(Ties::NAMES))]
    pub(crate) ties: Option<String>,
    /// For everything that is drawn.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Sets any parameter of the network: link_bandwidth=10GB/s. May be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Sets a parameter of an MGEN program: k=8. May be repeated.
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = mgen::parameter)]
    pub(crate) parameters: Vec<(String, mgen::Value)>,
    /// Each rank of a pattern computes for up to this time before a step.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0")]
    pub(crate) imbalance: Time,
    /// Messages of a rank that may be on their way in `alltoall`.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) window: u32,
    /// Computing of a trace takes so many times as long.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    pub(crate) compute_scale: f64,
    /// So many times as many ranks as the trace has, if its pattern is regular.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) multiply: u32,
    /// Looks only at overheads, latency and the rate of the interfaces: no contention.
    #[arg(long)]
    pub(crate) uncontended: bool,
}

impl Default for Settings {
    /// As the command line without options.
    fn default() -> Settings {
        Settings {
            ranks: None,
            bytes: 64 << 10,
            messages: 1,
            steps: Steps::All,
            sync_steps: false,
            pacing: Pacing::Off,
            buffers: None,
            ties: None,
            seed: 1,
            set: Vec::new(),
            parameters: Vec::new(),
            imbalance: Time::ZERO,
            window: 4,
            compute_scale: 1.0,
            multiply: 1,
            uncontended: false,
        }
    }
}

/// A program that can be simulated.
pub(crate) enum Program {
    Pattern(Box<Pattern>),
    Language(Box<mgen::Program>),
    Schedule(goal::Schedule),
    Trace(replay::Replay),
}

/// A network with the settings of the command line.
pub(crate) fn network(name: &str, settings: &Settings) -> Result<Network, String> {
    let mut network = kumiki_sim::description::network(name)?;
    let mut set = |name: &str, value: &str| {
        kumiki_sim::set_parameter(&mut network.parameters, name, value).map_err(|error| error.to_string())
    };
    if let Some(buffers) = settings.buffers {
        set("buffer_packets", &buffers.to_string())?;
    }
    if let Some(ties) = &settings.ties {
        set("ties", ties)?;
    }
    for entry in &settings.set {
        let (name, value) = entry
            .split_once('=')
            .ok_or_else(|| format!("--set {entry}: expected NAME=VALUE, such as link_bandwidth=10GB/s"))?;
        set(name.trim(), value.trim()).map_err(|error| format!("--set {entry}: {error}"))?;
    }
    if let Some(ranks) = settings.ranks.filter(|ranks| u64::from(*ranks) > network.ranks()) {
        return Err(format!(
            "--ranks {ranks}: {} has room for {} ranks; take a larger network, or --set ranks_per_node=N",
            network.name,
            network.ranks()
        ));
    }
    Ok(network)
}

/// A program by its file or name, for a network.
pub(crate) fn program(name: &str, network: &Network, settings: &Settings) -> Result<Program, String> {
    let ranks = match settings.ranks {
        Some(ranks) => ranks,
        None => u32::try_from(network.ranks()).map_err(|_| format!("{} has too many ranks", network.name))?,
    };
    if let Ok(kind) = name.parse::<PatternKind>() {
        let mut pattern = Pattern::new(kind, network).with_ranks(ranks, network);
        (pattern.bytes, pattern.messages, pattern.steps) =
            (settings.bytes, settings.messages, settings.steps);
        (pattern.seed, pattern.imbalance, pattern.window) =
            (settings.seed, settings.imbalance, settings.window);
        return Ok(Program::Pattern(Box::new(pattern)));
    }
    let path = Path::new(name);
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("");
    if !path.exists() {
        return Err(unknown_program(name));
    }
    let source = Source::read(path)?;
    let program = match ending {
        "goal" => Program::Schedule(goal::Schedule::parse(&source)?),
        "json" => {
            let trace = replay::Replay::parse(&source, settings.compute_scale)?;
            Program::Trace(if settings.multiply > 1 {
                trace.multiplied(&source, settings.multiply)?
            } else {
                trace
            })
        }
        _ => Program::Language(Box::new(mgen::Program::new(
            &source,
            ranks,
            &settings.parameters,
            settings.seed,
        )?)),
    };
    let wanted = program.ranks();
    if u64::from(wanted) > network.ranks() || settings.ranks.is_some_and(|ranks| ranks != wanted) {
        return Err(format!("{name} has {wanted} ranks, but there are {ranks} here; leave --ranks out, or take a larger network"));
    }
    Ok(program)
}

fn unknown_program(name: &str) -> String {
    let names = PatternKind::ALL.iter().map(|kind| kind.name());
    let near = match nearest(name, names.clone()) {
        Some(near) => format!("; maybe you meant {near}"),
        None => String::new(),
    };
    let names: Vec<&str> = names.collect();
    format!(
        "there is no file and no pattern {name}{near}\n  patterns are {}; files end in .mgen, .goal or .json",
        names.join(", ")
    )
}

impl Program {
    /// How many ranks it has.
    pub(crate) fn ranks(&self) -> u32 {
        match self {
            Program::Pattern(pattern) => pattern.ranks,
            Program::Language(program) => program.ranks(),
            Program::Schedule(schedule) => schedule.ranks(),
            Program::Trace(trace) => trace.ranks(),
        }
    }

    /// Simulates it.
    pub(crate) fn run(&self, network: &Network, options: &Options<'_>) -> Result<Report, String> {
        let done = match self {
            Program::Pattern(pattern) => run_pattern(network, pattern, options),
            Program::Language(program) => {
                let done = simulate(network, program.as_ref(), options);
                // A rank that failed has ended, and others may have waited for it.
                if let Some(mistake) = program.mistake() {
                    return Err(mistake.to_string());
                }
                done
            }
            Program::Schedule(schedule) => simulate(network, schedule, options),
            Program::Trace(trace) => simulate(network, trace, options),
        };
        done.map_err(|error| error.to_string())
    }

    /// What the command line has set for it, for the report.
    pub(crate) fn parameters(&self, settings: &Settings) -> Vec<(String, String)> {
        let mut list: Vec<(&str, String)> = Vec::new();
        match self {
            // The report has those of a pattern.
            Program::Pattern(_) | Program::Schedule(_) => {}
            Program::Language(program) => {
                let value = |value: &mgen::Value| match value {
                    mgen::Value::Number(number) => number.to_string(),
                    mgen::Value::Time(ps) => Time::from_ps(u64::try_from(*ps).unwrap_or(0)).to_string(),
                    mgen::Value::Handle(_) => String::new(),
                };
                let named =
                    program.parameters().iter().map(|(name, given)| (format!("param.{name}"), value(given)));
                return named.collect();
            }
            Program::Trace(_) => {
                list.push(("compute_scale", settings.compute_scale.to_string()));
                list.push(("multiply", settings.multiply.to_string()));
            }
        }
        list.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }
}

/// How a simulation is run, from the settings.
pub(crate) fn options(settings: &Settings) -> Options<'static> {
    Options {
        engine: if settings.uncontended { Engine::Uncontended } else { Engine::Packets },
        pacing: settings.pacing,
        sync_steps: settings.sync_steps,
        seed: settings.seed,
        ..Options::default()
    }
}

fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text).ok_or_else(|| "it should be a size such as 65536, 64K, 4M or 1G".into())
}

fn factor(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "it should be a number, 0 or more".into())
}

/// Refuses parameters of programs where no program has any.
pub(crate) fn check_parameters<'a>(
    settings: &Settings,
    mut programs: impl Iterator<Item = &'a String>,
) -> Result<(), String> {
    let Some((name, _)) = settings.parameters.first() else { return Ok(()) };
    match programs.any(|program| is_language(program)) {
        true => Ok(()),
        false => Err(format!(
            "--param {name}: only programs in MGEN have parameters; patterns have --bytes, --steps and the like, and networks --set"
        )),
    }
}

/// Whether a program is one in MGEN: neither a pattern nor a schedule nor a trace.
fn is_language(name: &str) -> bool {
    let ending = Path::new(name).extension();
    name.parse::<PatternKind>().is_err() && ending.is_none_or(|ending| ending != "goal" && ending != "json")
}

fn time(text: &str) -> Result<Time, String> {
    text.parse()
}

//! The loop of the launcher: it carries the messages of the hub, minds signals and streams, and ends with the job.

use crate::agents::{self, AgentProcess};
use crate::plan::{self, PlannedNode};
use crate::streams::{Printer, Read, Source};
use crate::trace::TraceFile;
use crate::{netns, Bind, Options, Result, RunError};
use kumiki_net::agent::hub::{Effect, Hub, Plan, GRACE_MS};
use kumiki_net::agent::link::Shared;
use kumiki_net::agent::protocol::{Launch, Listen, ToHub, ToNode};
use kumiki_net::agent::report;
use kumiki_net::auth::Secret;
use kumiki_net::environment;
use kumiki_net::os::process::{self, Signals};
use kumiki_net::os::{descriptor, random_bytes, time};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;

/// How often a standard input is looked at that cannot be read now (a terminal of another job).
const INPUT_RETRY_MS: u64 = 500;

/// How long what was killed may take to be gone.
const BURIAL_MS: u64 = 2_000;

/// Runs a job to its end. Returns the exit code that the launcher should have.
///
/// It takes over the signals of the calling thread meanwhile, and must be called while the process has no other
/// threads if network namespaces are asked for.
pub fn run(options: &Options) -> Result<i32> {
    if options.command.first().is_none_or(|name| name.is_empty()) {
        return Err(RunError::Options("no program was given".into()));
    }
    environment::check()?;
    let nodes = plan::plan(options)?;
    let trace = options.trace.as_deref().map(TraceFile::begin).transpose()?;
    let launches = launches(options, &nodes, trace.as_ref())?;
    let mut secret = [0; 32];
    random_bytes(&mut secret)?;
    let mut launcher = Launcher::new(options, &nodes, &Secret::from_bytes(secret))?;
    for (node, launch) in launches.into_iter().enumerate() {
        launcher.agents[node].link.send(&ToNode::Launch(Box::new(launch)).encode());
    }
    let code = launcher.run();
    if let Some(trace) = trace {
        trace.end()?;
    }
    code
}

/// What each agent is told.
fn launches(options: &Options, nodes: &[PlannedNode], trace: Option<&TraceFile>) -> Result<Vec<Launch>> {
    let mut random = [0; 8];
    random_bytes(&mut random)?;
    let job = u64::from_le_bytes(random);
    let ranks: u32 = nodes.iter().map(|node| node.ranks.len() as u32).sum();
    let terms = options.terms.within_bounds().as_environment_says()?;
    let on_machine = |node: &PlannedNode, other: &PlannedNode| node.host == other.host;
    let launch = |(index, node): (usize, &PlannedNode)| {
        let here = |other: &&PlannedNode| on_machine(node, other);
        let count = |list: &[PlannedNode]| list.iter().filter(here).map(|n| n.ranks.len() as u32).sum();
        Ok(Launch {
            job,
            node: index as u32,
            nodes: nodes.len() as u32,
            ranks,
            here: node.ranks.clone(),
            machine_ranks: count(nodes),
            machine_before: count(&nodes[..index]),
            terms,
            listen: match &node.host {
                None if options.network_namespaces => Listen::Address(netns::address(index as u32)),
                None => Listen::Loopback,
                Some(_) => Listen::Reached,
            },
            bind_cores: options.bind == Bind::Core,
            pipe_output: options.tag_output || node.host.is_some(),
            remote: node.host.is_some(),
            forward_input: true,
            directory: directory(options, node)?,
            environment: rank_environment(options, trace, node.host.is_some())?,
            command: options.command.iter().map(|word| word.as_bytes().to_vec()).collect(),
        })
    };
    nodes.iter().enumerate().map(launch).collect()
}

/// Where the ranks run: where the launcher runs, unless the user says otherwise.
fn directory(options: &Options, node: &PlannedNode) -> Result<Vec<u8>> {
    match (&options.directory, &node.host) {
        (Some(directory), None) => {
            let path = std::path::absolute(directory)
                .map_err(|error| RunError::Options(format!("--wdir {}: {error}", directory.display())))?;
            Ok(path.into_os_string().into_vec())
        }
        (Some(directory), Some(_)) => Ok(directory.as_os_str().as_bytes().to_vec()),
        (None, None) => Ok(Vec::new()),
        (None, Some(_)) => {
            let path = std::env::current_dir()
                .map_err(|error| RunError::Options(format!("cannot tell the current directory: {error}")))?;
            Ok(path.into_os_string().into_vec())
        }
    }
}

/// What is added to the environment of the ranks.
fn rank_environment(
    options: &Options,
    trace: Option<&TraceFile>,
    remote: bool,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut list = Vec::new();
    if remote {
        // Another host knows none of our variables; those that ranks and agents read must go with the job.
        for variable in environment::VARIABLES {
            let reads = matches!(variable.reader, environment::Reader::Rank | environment::Reader::Agent);
            if let Some(value) = std::env::var_os(variable.name).filter(|_| reads) {
                list.push((variable.name.as_bytes().to_vec(), value.into_vec()));
            }
        }
    }
    if let Some(trace) = trace {
        list.push((b"KUMIKI_TRACE".to_vec(), trace.path().as_os_str().as_bytes().to_vec()));
    }
    for entry in &options.environment {
        let (name, value) = match entry.split_once('=') {
            Some((name, value)) => (name, Some(value.as_bytes().to_vec())),
            None => (entry.as_str(), std::env::var_os(entry).map(OsStringExt::into_vec)),
        };
        if name.is_empty() || name.contains('\0') {
            return Err(RunError::Options(format!("--env {entry}: it should be NAME or NAME=VALUE")));
        }
        if let Some(nearest) = environment::nearest(name) {
            report::print(&format!("--env {name}: there is no such variable; maybe you meant {nearest}"));
        }
        match value {
            Some(value) => list.push((name.as_bytes().to_vec(), value)),
            None => {
                return Err(RunError::Options(format!("--env {name}: the launcher has no such variable")))
            }
        }
    }
    Ok(list)
}

/// What rank 0 is called for people: one part of a job in parts counts on from those before it.
fn first_rank(options: &Options) -> u32 {
    let entries = options.environment.iter().rev();
    let mut values = entries.filter_map(|entry| entry.strip_prefix("KUMIKI_OFFSET_RANK="));
    values.next().and_then(|value| value.parse().ok()).unwrap_or(0)
}

struct Launcher<'a> {
    options: &'a Options,
    hub: Hub,
    agents: Vec<AgentProcess>,
    signals: Signals,
    printer: Printer,
    source: Source,
    /// The node of rank 0.
    first_node: u32,
    end_at_ms: Option<u64>,
    interrupted: u32,
    finished: Option<i32>,
    /// Children that the process had before the job; they are none of our business.
    children_before: Vec<i32>,
}

impl<'a> Launcher<'a> {
    fn new(options: &'a Options, nodes: &[PlannedNode], secret: &Secret) -> Result<Launcher<'a>> {
        let now_ms = time::now_ms();
        let signals = Signals::new(&[
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGHUP,
            libc::SIGUSR2,
            libc::SIGTSTP,
            libc::SIGCONT,
            libc::SIGPIPE,
        ])?;
        if options.network_namespaces {
            netns::enter(&options.cables)?;
        }
        process::become_subreaper()?;
        let children_before = process::children();
        let agents =
            nodes.iter().map(|node| agents::start(options, node, secret)).collect::<Result<Vec<_>>>()?;
        if options.network_namespaces {
            agents.iter().enumerate().try_for_each(|(index, agent)| {
                netns::connect(index as u32, agent.child.id(), &options.cables)
            })?;
        }
        let mut hub = Hub::new(
            Plan {
                ranks: nodes.iter().map(|node| node.ranks.len() as u32).sum(),
                nodes: nodes.iter().map(|node| (node.name.clone(), node.ranks.clone())).collect(),
                terms: options.terms.within_bounds(),
                template: None,
            },
            now_ms,
        );
        let first_rank = first_rank(options);
        hub.count_from(first_rank);
        let first_node = nodes.iter().position(|node| node.ranks.contains(&0)).unwrap_or(0) as u32;
        Ok(Launcher {
            options,
            hub,
            agents,
            signals,
            printer: Printer::new(options.tag_output, first_rank),
            source: Source::default(),
            first_node,
            end_at_ms: options.timeout.map(|timeout| now_ms + timeout.as_millis() as u64),
            interrupted: 0,
            finished: None,
            children_before,
        })
    }

    fn run(&mut self) -> Result<i32> {
        loop {
            self.wait()?;
            let now_ms = time::now_ms();
            if self.end_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
                self.end_at_ms = None;
                let seconds = self.options.timeout.unwrap_or_default().as_secs_f64();
                self.hub.end(124, format!("the job did not end within {seconds} s (--timeout)"), now_ms);
            }
            if self.printer.is_broken() && self.interrupted == 0 {
                self.interrupt(libc::SIGPIPE);
            }
            self.hub.tick(now_ms);
            self.perform();
            if let Some(code) = self.finished {
                self.bury();
                return Ok(code);
            }
        }
    }

    /// Waits for something to happen, and takes in all that has.
    fn wait(&mut self) -> Result<()> {
        let behind = self.printer.is_behind();
        let reads_input = self.source.wants();
        let mut timeout_ms = self.hub.wake_up_at().saturating_sub(time::now_ms());
        if let Some(at_ms) = self.end_at_ms {
            timeout_ms = timeout_ms.min(at_ms.saturating_sub(time::now_ms()));
        }
        if behind || !reads_input {
            timeout_ms = timeout_ms.min(if behind { 10 } else { INPUT_RETRY_MS });
        }
        let mut watched = vec![(self.signals.as_fd(), false)];
        if reads_input {
            watched.push((self.source.as_fd(), false));
        }
        let first_agent = watched.len();
        let mut owners = Vec::new();
        for (node, agent) in self.agents.iter().enumerate().filter(|(_, agent)| !agent.link.is_ended()) {
            if !behind {
                watched.push((agent.link.input(), false));
                owners.push(node);
            }
            if agent.link.backlog_bytes() > 0 {
                watched.push((agent.link.output(), true));
                owners.push(node);
            }
        }
        let ready = descriptor::poll(&watched, timeout_ms.min(60_000) as i32)?;
        let happened = |index: usize| {
            let entry = ready[index];
            entry.readable || entry.writable || entry.hung_up
        };
        let (signalled, input) = (happened(0), reads_input && happened(1));
        let mut busy: Vec<usize> = owners
            .iter()
            .enumerate()
            .filter(|(i, _)| happened(first_agent + i))
            .map(|(_, &node)| node)
            .collect();
        busy.dedup();
        for node in busy {
            self.agents[node].link.flush();
            self.read_agent(node as u32);
        }
        if behind {
            self.hub.excuse_silence(time::now_ms());
        }
        if signalled {
            self.read_signals();
        }
        if input {
            self.read_input();
        }
        Ok(())
    }

    fn read_agent(&mut self, node: u32) {
        let now_ms = time::now_ms();
        let agent = &mut self.agents[node as usize];
        let messages = agent.link.receive().and_then(|messages| {
            messages.iter().map(|message| ToHub::decode(message)).collect::<kumiki_net::Result<Vec<_>>>()
        });
        match messages {
            Ok(messages) => {
                messages.into_iter().for_each(|message| self.handle_message(node, message, now_ms))
            }
            Err(error) => self.hub.node_gone(node, &error.to_string(), now_ms),
        }
        if self.agents[node as usize].link.is_ended() {
            let why = self.how_agent_ended(node);
            self.hub.node_gone(node, &why, now_ms);
        }
    }

    fn handle_message(&mut self, node: u32, message: ToHub, now_ms: u64) {
        match message {
            ToHub::Output { local, is_error, bytes } => {
                let rank = self.hub.rank_at(node, local).map_or(local, |rank| rank.0);
                self.printer.print(rank, is_error, bytes);
                self.hub.receive(node, ToHub::Heartbeat, now_ms);
            }
            ToHub::InputTaken { bytes, closed } => {
                self.source.taken(bytes);
                if closed {
                    self.source.close();
                }
            }
            other => self.hub.receive(node, other, now_ms),
        }
    }

    /// Its stream is closed, so it ends at once; how is worth a moment's wait.
    fn how_agent_ended(&mut self, node: u32) -> String {
        let agent = &mut self.agents[node as usize];
        let limit_ms = time::now_ms() + 500;
        loop {
            match agent.child.try_wait() {
                Ok(Some(status)) => {
                    let what = agent.reached_by.as_deref().unwrap_or("it");
                    return match (status.code(), status.signal()) {
                        (Some(code), _) => format!("{what} exited with code {code}"),
                        (None, signal) => format!("{what} was killed by signal {}", signal.unwrap_or(0)),
                    };
                }
                Ok(None) if time::now_ms() < limit_ms => {
                    std::thread::sleep(std::time::Duration::from_millis(1))
                }
                _ => return "its control stream was closed".into(),
            }
        }
    }

    fn read_signals(&mut self) {
        while let Some(signal) = self.signals.next() {
            match signal {
                libc::SIGUSR2 => self.hub.survey(time::now_ms()),
                libc::SIGTSTP => self.suspend(),
                libc::SIGCONT | libc::SIGPIPE => {}
                signal => self.interrupt(signal),
            }
        }
    }

    /// The first time the ranks get the signal and a grace; the second time they are killed.
    fn interrupt(&mut self, signal: i32) {
        let grace_ms = if self.interrupted == 0 { GRACE_MS } else { 0 };
        self.interrupted += 1;
        self.hub.interrupt(signal, grace_ms, time::now_ms());
    }

    /// Ctrl-Z: the ranks stop, then we do; when we go on, so do they.
    fn suspend(&mut self) {
        self.hub.broadcast(ToNode::Suspend(true));
        self.perform();
        process::stop_self();
        self.hub.excuse_silence(time::now_ms());
        self.hub.broadcast(ToNode::Suspend(false));
    }

    fn read_input(&mut self) {
        let bytes = match self.source.read() {
            Read::Nothing => return,
            Read::Bytes(bytes) => bytes,
            Read::End => Vec::new(),
        };
        self.agents[self.first_node as usize].link.send(&ToNode::Input(bytes).encode());
    }

    fn perform(&mut self) {
        while let Some(effect) = self.hub.next_effect() {
            match effect {
                Effect::Send(node, message) => self.agents[node as usize].link.send(&message.encode()),
                Effect::SendAll(except, message) => {
                    if message == ToNode::Start {
                        self.source.open();
                    }
                    let message = Shared::new(&message.encode());
                    for (node, agent) in (0..).zip(&mut self.agents) {
                        if Some(node) != except && self.hub.listens(node) {
                            agent.link.send_shared(&message);
                        }
                    }
                }
                Effect::Report(text) => self.printer.report(&text),
                Effect::Finished(code) => self.finished = Some(code),
            }
        }
    }

    /// Waits for the agents and for the last output; nothing of the job is left afterwards.
    fn bury(&mut self) {
        let limit_ms = time::now_ms() + BURIAL_MS;
        for agent in &mut self.agents {
            while matches!(agent.child.try_wait(), Ok(None)) {
                if time::now_ms() >= limit_ms {
                    let _ = agent.child.kill();
                }
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        }
        // An agent that was killed may have left descendants of its ranks to us.
        process::bury_children(&self.children_before, BURIAL_MS);
        while !self.printer.is_done() && self.interrupted < 2 {
            let _ = descriptor::poll(&[(self.signals.as_fd(), false)], 5);
            self.read_signals();
        }
    }
}

impl Drop for Launcher<'_> {
    fn drop(&mut self) {
        // An agent whose stream closes kills its ranks; here that only happens when the start failed half-way.
        for agent in &mut self.agents {
            if self.finished.is_none() {
                let _ = agent.child.kill();
                let _ = agent.child.wait();
            }
        }
    }
}

//! Running a pattern. Where steps are synchronised, the network is empty between them, so each is a run of its own: they fill all cores.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Mutex;

use super::{OneStep, Pattern, Prepared, Steps};
use crate::bound::Loads;
use crate::engine::{causes, simulate_on};
use crate::random::mix;
use crate::report::{LinkUse, Sampling, StepReport};
use crate::wiring::Wiring;
use crate::{Error, Network, Options, Progress, Report, Time, Workload};

/// How many messages are looked at to know the bound of the steps that are not run.
const MOST_MESSAGES_FOR_BOUND: u32 = 1 << 23;

/// Runs a pattern on a network.
///
/// ```
/// use kumiki_sim::{run_pattern, Network, Options, Pattern, PatternKind};
/// let network = Network::parse_short("torus:4x4,buffers=2").unwrap();
/// let pattern = Pattern::new(PatternKind::ShiftPairwise, &network);
/// let report = run_pattern(&network, &pattern, &Options { sync_steps: true, ..Options::default() }).unwrap();
/// assert_eq!(report.steps.len(), 15);
/// assert!(report.time >= report.bound);
/// ```
pub fn run_pattern(network: &Network, pattern: &Pattern, options: &Options<'_>) -> Result<Report, Error> {
    let prepared = pattern.prepare(options.sync_steps)?;
    let wiring = Wiring::new(network)?;
    let records = options.record_operations || options.record_timeline;
    let apart = options.sync_steps && !pattern.kind.steps_depend() && !records && prepared.chosen.len() > 1;
    let mut report = match apart {
        true => run_apart(network, &wiring, &prepared, options)?,
        false => simulate_on(network, &wiring, &prepared, options)?,
    };
    for (step, &number) in report.steps.iter_mut().zip(&prepared.chosen) {
        step.step = number;
    }
    report.parameters.extend([
        ("pattern_bytes", pattern.bytes.to_string()),
        ("pattern_messages", pattern.messages.to_string()),
        ("pattern_steps", pattern.steps.to_string()),
        ("pattern_seed", pattern.seed.to_string()),
        ("pattern_window", pattern.window.to_string()),
        ("pattern_imbalance", pattern.imbalance.to_string()),
    ]);
    if (prepared.chosen.len() as u32) < prepared.total && options.sync_steps {
        report.sampling = Some(sampling(network, &wiring, &prepared, &report)?);
    }
    Ok(report)
}

/// Runs each step by itself, as many at once as there are threads, and adds them up.
fn run_apart(
    network: &Network,
    wiring: &Wiring,
    prepared: &Prepared,
    options: &Options<'_>,
) -> Result<Report, Error> {
    let count = prepared.chosen.len();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if options.threads == 0 { cores } else { options.threads }.min(count);
    let next = AtomicUsize::new(0);
    let counted = Counted::default();
    let sum = Mutex::new(Sum::default());
    let failed = Mutex::new(None);
    let work = || loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= count {
            return;
        }
        let tell = |progress: &Progress| counted.tell(progress, count, options);
        let own = Options {
            seed: mix(options.seed ^ (u64::from(prepared.chosen[index]) << 32)),
            progress: options.progress.is_some().then_some(&tell as &(dyn Fn(&Progress) + Send + Sync)),
            ..options.clone()
        };
        match simulate_on(network, wiring, &OneStep { prepared, index }, &own) {
            Ok(report) => {
                counted.add(&report, count, options);
                sum.lock().expect("no thread panics while it holds the lock").add(index, report);
            }
            Err(error) => {
                // Nobody needs the rest.
                next.store(count, Ordering::Relaxed);
                failed.lock().expect("no thread panics while it holds the lock").get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    if let Some(error) = failed.into_inner().expect("no thread panics while it holds the lock") {
        return Err(error);
    }
    let mut report = sum.into_inner().expect("no thread panics while it holds the lock").finish(prepared);
    report.parameters = crate::engine::parameter_list(network, options);
    report.causes = causes(&report, network, options);
    Ok(report)
}

/// What all threads have done together.
#[derive(Default)]
struct Counted {
    steps: AtomicU64,
    packets: AtomicU64,
    packet_hops: AtomicU64,
}

impl Counted {
    fn add(&self, report: &Report, count: usize, options: &Options<'_>) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.packets.fetch_add(report.packets, Ordering::Relaxed);
        self.packet_hops.fetch_add(report.packet_hops, Ordering::Relaxed);
        self.tell(&Progress { simulated: report.time, ..Progress::default() }, count, options);
    }

    /// Tells of a step under way, on top of those that are done.
    fn tell(&self, progress: &Progress, count: usize, options: &Options<'_>) {
        let Some(callback) = options.progress else { return };
        callback(&Progress {
            simulated: progress.simulated,
            packets: self.packets.load(Ordering::Relaxed) + progress.packets,
            packet_hops: self.packet_hops.load(Ordering::Relaxed) + progress.packet_hops,
            done: Some(self.steps.load(Ordering::Relaxed) as f64 / count as f64),
        });
    }
}

/// One report of the reports of synchronised steps: those of a long schedule are not kept.
#[derive(Default)]
struct Sum {
    report: Report,
    links: BTreeMap<(u32, u32, u32), LinkUse>,
    /// Steps that were done before one ahead of them.
    early: BTreeMap<usize, Report>,
}

impl Sum {
    /// Adds a step, as soon as those before it are there: the order of what is summed does not depend on threads.
    fn add(&mut self, index: usize, step: Report) {
        self.early.insert(index, step);
        while let Some(step) = self.early.remove(&self.report.steps.len()) {
            self.add_next(step);
        }
    }

    fn add_next(&mut self, step: Report) {
        let sum = &mut self.report;
        if sum.workload.is_empty() {
            sum.workload = step.workload;
            sum.network = step.network;
            sum.ranks = step.ranks;
        }
        sum.time += step.time;
        sum.bound += step.bound;
        sum.carried += step.carried;
        sum.nic_bound += step.nic_bound;
        sum.flight += step.flight;
        sum.messages += step.messages;
        sum.packets += step.packets;
        sum.packet_hops += step.packet_hops;
        sum.events += step.events;
        sum.cpu_seconds += step.cpu_seconds;
        sum.packets_in_flight = sum.packets_in_flight.max(step.packets_in_flight);
        sum.router_bytes = sum.router_bytes.max(step.router_bytes);
        sum.queueing.merge(&step.queueing);
        sum.steps.push(StepReport { step: 0, time: step.time, bound: step.bound });
        for link in step.links {
            self.links
                .entry((link.from, link.to, link.lane))
                .and_modify(|known| {
                    known.bytes += link.bytes;
                    known.busy += link.busy;
                })
                .or_insert(link);
        }
    }

    fn finish(mut self, prepared: &Prepared) -> Report {
        self.report.links = self.links.into_values().collect();
        self.report.rank_times = vec![self.report.time; prepared.ranks() as usize];
        self.report
    }
}

/// What the steps that were run say about all of them.
fn sampling(
    network: &Network,
    wiring: &Wiring,
    prepared: &Prepared,
    report: &Report,
) -> Result<Sampling, Error> {
    let run = report.steps.len() as f64;
    let total = f64::from(prepared.total);
    let mean = report.time.as_seconds() / run;
    let squares: f64 = report.steps.iter().map(|step| (step.time.as_seconds() - mean).powi(2)).sum();
    let deviation = if run > 1.0 { (squares / (run - 1.0)).sqrt() } else { 0.0 };
    let error = total * deviation / run.sqrt() * (1.0 - run / total).max(0.0).sqrt();
    let most = (MOST_MESSAGES_FOR_BOUND / prepared.ranks()).max(64);
    let looked = if prepared.total > most { Steps::Some(most) } else { Steps::All };
    let mut pattern = prepared.pattern.clone();
    pattern.steps = looked;
    let looked = pattern.prepare(true)?;
    let parameters = &network.parameters;
    let per_node = parameters.ranks_per_node;
    let mut loads = Loads::new(wiring, parameters);
    let mut bound = Time::ZERO;
    for index in 0..looked.chosen.len() {
        loads.clear();
        looked.messages_of(index, &mut |from, to, bytes| {
            let wire_bytes = bytes + parameters.packets_of(bytes) * u64::from(parameters.header_bytes);
            loads.add(from / per_node, to / per_node, wire_bytes);
        });
        loads.settle();
        bound += loads.link_time();
    }
    Ok(Sampling {
        steps_total: prepared.total,
        steps_run: report.steps.len() as u32,
        estimate: Time::from_seconds(mean * total),
        standard_error: Time::from_seconds(error),
        bound_total: Time::from_seconds(bound.as_seconds() * total / looked.chosen.len() as f64),
        bound_estimate: Time::from_seconds(report.bound.as_seconds() * total / run),
    })
}

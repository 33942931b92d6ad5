//! The report of a run: times, bounds, and what the time above the bound is for.

use super::pacing::Noted;
use super::{Carrier, Simulation};
use crate::queue::Queue;
use crate::report::{Cause, LinkUse, Report, StepReport};
use crate::wiring::{Wiring, NONE};
use crate::{Engine, Network, Options, Time};

/// The bounds of a step, or summed over steps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shares {
    /// The link-load bound with every choice split evenly.
    bound: Time,
    /// The same for what links really carried.
    carried: Time,
    /// The bound of the interfaces.
    nics: Time,
    /// The longest way, at zero load.
    flight: Time,
}

impl std::ops::AddAssign for Shares {
    fn add_assign(&mut self, other: Shares) {
        self.bound += other.bound;
        self.carried += other.carried;
        self.nics += other.nics;
        self.flight += other.flight;
    }
}

impl<Q: Queue> Simulation<'_, Q> {
    /// The bounds of what has been sent since the last step.
    pub(super) fn end_step(&mut self) {
        let shares = self.shares_of_step();
        self.steps.push(StepReport {
            step: self.steps.len() as u32,
            time: Time::from_ps(self.now - self.step_start_ps),
            bound: shares.bound,
        });
        self.shares += shares;
        self.step_start_ps = self.now;
    }

    fn shares_of_step(&mut self) -> Shares {
        self.loads.settle();
        let (mut bound, nics) = (self.loads.link_time(), self.loads.nic_time());
        self.loads.clear();
        let mut carried = bound;
        if let Carrier::Packets(fabric) = &self.carrier {
            self.carried.resize(self.run.wiring.links.len(), 0);
            carried = Time::ZERO;
            for (link, (bytes, before)) in fabric.link_bytes().zip(&mut self.carried).enumerate() {
                carried = carried.max(self.run.wiring.bandwidth(link).time_of(bytes - *before));
                *before = bytes;
            }
            // Where ways are drawn, they can by chance be more even than the even split of all that is possible.
            bound = bound.min(carried);
        }
        let flight = Time::from_ps(std::mem::take(&mut self.longest_flight_ps));
        Shares { bound, carried, nics, flight }
    }

    /// The report, and what the pacer has noted.
    pub(super) fn finish(mut self) -> (Report, Vec<Noted>) {
        let last = self.shares_of_step();
        self.shares += last;
        let run = self.run;
        let mut report = Report {
            workload: run.workload.name(),
            network: run.network.name.clone(),
            ranks: self.ranks.len() as u32,
            time: Time::from_ps(self.ranks.iter().map(|rank| rank.end_ps).max().unwrap_or(0)),
            bound: self.shares.bound,
            carried: self.shares.carried,
            nic_bound: self.shares.nics,
            flight: self.shares.flight,
            rank_times: self.ranks.iter().map(|rank| Time::from_ps(rank.end_ps)).collect(),
            steps: self.steps,
            operations: self.operations,
            timeline: self.timeline,
            messages: self.delivered,
            events: self.handled,
            cpu_seconds: self.started.seconds(),
            parameters: parameter_list(run.network, run.options),
            ..Report::default()
        };
        if let Carrier::Packets(fabric) = &self.carrier {
            report.packets = fabric.delivered;
            report.packet_hops = fabric.packet_hops;
            report.packets_in_flight = fabric.most_in_flight;
            report.queueing = fabric.queueing();
            report.router_bytes = (fabric.bytes() + run.wiring.bytes()) as u64;
            report.links = link_uses(run.wiring, fabric.link_bytes());
        }
        report.causes = causes(&report, run.network, run.options);
        (report, self.pacer.into_noted())
    }
}

fn link_uses(wiring: &Wiring, carried: impl Iterator<Item = u64>) -> Vec<LinkUse> {
    let mut uses = Vec::new();
    for (index, bytes) in carried.enumerate().filter(|&(_, bytes)| bytes > 0) {
        let link = &wiring.links[index];
        debug_assert_ne!(link.to, NONE, "nothing goes where no link leads");
        let direction = wiring.direction(index as u32);
        uses.push(LinkUse {
            from: link.from,
            to: link.to,
            lane: u32::from(link.lane),
            dimension: direction.map(|(dimension, _)| dimension),
            rising: direction.is_some_and(|(_, rising)| rising),
            bytes,
            busy: wiring.bandwidth(index).time_of(bytes),
        });
    }
    uses
}

/// Everything that could change the result.
pub(crate) fn parameter_list(network: &Network, options: &Options<'_>) -> Vec<(&'static str, String)> {
    let engine = match options.engine {
        Engine::Packets => "packets",
        Engine::Uncontended => "uncontended",
    };
    let mut list = network.parameters.list();
    if let Some((_, room)) = list.iter_mut().find(|(name, _)| *name == "injection_room") {
        *room = network.parameters.room_to_enter(network.longest_ring()).to_string();
    }
    list.extend([
        ("engine", engine.to_owned()),
        ("pacing", options.pacing.to_string()),
        ("sync_steps", options.sync_steps.to_string()),
        ("seed", options.seed.to_string()),
    ]);
    list
}

/// What the time above the bound is for: each part takes what those before it have left.
pub(crate) fn causes(report: &Report, network: &Network, options: &Options<'_>) -> Vec<Cause> {
    let parameters = &network.parameters;
    let mut left = report.time.since(report.bound);
    let mut list = Vec::new();
    let mut take = |what: &'static str, time: Time, text: String| {
        let time = time.min(left);
        left = left.since(time);
        if time > Time::ZERO {
            list.push(Cause { what, time, text });
        }
    };
    take(
        "ways",
        report.carried.since(report.bound),
        format!(
            "ties ({}) and routing ({}) load links unevenly",
            parameters.ties.name(),
            parameters.routing.name()
        ),
    );
    take(
        "interfaces",
        report.nic_bound.since(report.bound.max(report.carried)),
        format!("the interfaces need {} for what they send and receive", report.nic_bound),
    );
    take("latency", report.flight, format!("the longest ways take {} without load", report.flight));
    let waiting = if options.sync_steps { "" } else { ", and what ranks do and wait for" };
    let rest = format!(
        "packets wait behind others (buffers of {} packets, {} a class, crossbar {}, {} injection slots, pacing {}){waiting}",
        parameters.buffer_packets,
        parameters.lanes,
        parameters.crossbar.name(),
        parameters.injection_slots,
        options.pacing
    );
    take("buffers", Time::MAX, rest);
    list.sort_by_key(|cause| std::cmp::Reverse(cause.time));
    list
}

//! What comes out of a simulation, as plain data. The command line makes text, JSON, charts and time lines of it.

use crate::{Handle, Time};

/// The result of a simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The name of the workload.
    pub workload: String,
    /// The name of the network.
    pub network: String,
    /// How many ranks ran.
    pub ranks: u32,
    /// The predicted time of the whole run. Where steps were sampled, of the sampled steps.
    pub time: Time,
    /// The link-load bound: the time that the busiest link needs for the bytes it has to carry; where steps are synchronised, the sum
    /// over the steps. No schedule is faster.
    pub bound: Time,
    /// The same bound for what links really carried, which ties and routing decided.
    pub carried: Time,
    /// The time that the busiest network interface needs; zero when interfaces are as fast as the links.
    pub nic_bound: Time,
    /// The longest way without load; where steps are synchronised, summed over the steps.
    pub flight: Time,
    /// What the time is above the bound for, largest first.
    pub causes: Vec<Cause>,
    /// When each rank was done.
    pub rank_times: Vec<Time>,
    /// Each step, where steps were synchronised.
    pub steps: Vec<StepReport>,
    /// What the sampled steps say about all of them.
    pub sampling: Option<Sampling>,
    /// Every operation, if asked for.
    pub operations: Vec<OperationRecord>,
    /// What every rank did when, if asked for.
    pub timeline: Vec<Span>,
    /// Messages delivered over the network.
    pub messages: u64,
    /// Packets delivered.
    pub packets: u64,
    /// Links passed, summed over packets.
    pub packet_hops: u64,
    /// Events that the simulator has handled.
    pub events: u64,
    /// The most packets that were in the network at once.
    pub packets_in_flight: u64,
    /// Every link that carried something.
    pub links: Vec<LinkUse>,
    /// How long packets waited at each hop beyond the hop itself.
    pub queueing: Histogram,
    /// CPU time that the simulation took, in seconds, of all threads together.
    pub cpu_seconds: f64,
    /// Bytes of the simulator's state for routers, links and interfaces.
    pub router_bytes: u64,
    /// Everything that could change the result, with its name.
    pub parameters: Vec<(&'static str, String)>,
}

impl Report {
    /// The time divided by the bound; 1 is ideal. Undefined without traffic.
    pub fn ratio(&self) -> Option<f64> {
        (self.bound > Time::ZERO).then(|| self.time.as_us() / self.bound.as_us())
    }

    /// How busy a link was, from 0 to 1.
    pub fn utilisation(&self, link: &LinkUse) -> f64 {
        if self.time == Time::ZERO {
            return 0.0;
        }
        link.busy.as_us() / self.time.as_us()
    }

    /// The links that were busiest, the first so many.
    pub fn hottest_links(&self, count: usize) -> Vec<&LinkUse> {
        let mut links: Vec<&LinkUse> = self.links.iter().collect();
        links.sort_by_key(|link| (std::cmp::Reverse(link.busy), link.from, link.to, link.lane));
        links.truncate(count);
        links
    }
}

/// One reason why a run takes longer than its bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// What it is: ties, interfaces, software, latency, or buffers and arbitration.
    pub what: &'static str,
    /// How much of the time above the bound it explains.
    pub time: Time,
    /// The same for people, with the parameter that would change it.
    pub text: String,
}

/// One synchronised step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepReport {
    /// Its number in the workload.
    pub step: u32,
    /// How long it took.
    pub time: Time,
    /// Its link-load bound.
    pub bound: Time,
}

/// What the sampled steps say about all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// How many steps the whole schedule has.
    pub steps_total: u32,
    /// How many were simulated.
    pub steps_run: u32,
    /// The time of the whole schedule, extrapolated: the mean step times the number of steps.
    pub estimate: Time,
    /// The standard error of the estimate, from how much the steps differ.
    pub standard_error: Time,
    /// The link-load bound of all steps, computed, not sampled.
    pub bound_total: Time,
    /// The bound of all steps as the sampled ones would give it: how far it is from `bound_total` shows how well the sample stands for all.
    pub bound_estimate: Time,
}

/// What an operation was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum OperationKind {
    Send,
    Recv,
    Put,
    Get,
    Copy,
    Atomic,
}

impl OperationKind {
    /// Its name, in small letters.
    pub fn name(self) -> &'static str {
        match self {
            OperationKind::Send => "send",
            OperationKind::Recv => "recv",
            OperationKind::Put => "put",
            OperationKind::Get => "get",
            OperationKind::Copy => "copy",
            OperationKind::Atomic => "atomic",
        }
    }
}

/// One operation of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationRecord {
    /// The rank that issued it.
    pub rank: u32,
    /// Its handle.
    pub handle: Handle,
    /// What it was.
    pub kind: OperationKind,
    /// The other rank: the receiver, the target, or the source of a get; of a receive the sender, once it is known.
    pub peer: Option<u32>,
    /// Its size.
    pub bytes: u64,
    /// When the script issued it.
    pub issued: Time,
    /// When its data began to enter the network; of a receive, when it was posted.
    pub started: Time,
    /// When it completed.
    pub completed: Time,
}

/// What a rank did for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The rank.
    pub rank: u32,
    /// What it did: `compute`, `overhead`, `wait`, `flag`, `barrier`, `step`.
    pub what: &'static str,
    /// From when.
    pub start: Time,
    /// Until when.
    pub end: Time,
}

/// What a link carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkUse {
    /// The router it leaves.
    pub from: u32,
    /// The router it enters.
    pub to: u32,
    /// Which of several parallel links it is.
    pub lane: u32,
    /// The dimension of a grid it belongs to.
    pub dimension: Option<u32>,
    /// Whether it leads in the rising direction of its dimension.
    pub rising: bool,
    /// Bytes carried, headers included.
    pub bytes: u64,
    /// For how long it carried them.
    pub busy: Time,
}

/// How often a time fell between powers of two nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// `counts[0]` counts no waiting at all; `counts[i]` times below 2^i ns and not below 2^(i−1) ns (the first from above zero).
    pub counts: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; Histogram::BUCKETS] }
    }
}

impl Histogram {
    /// How many buckets there are; the last takes everything above.
    pub const BUCKETS: usize = 33;

    /// Counts a time.
    #[inline]
    pub fn add(&mut self, time: Time) {
        self.counts[Histogram::bucket(time)] += 1;
    }

    /// Counts what another one has counted.
    pub fn merge(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// How many times were counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The bucket of a time.
    #[inline]
    pub(crate) fn bucket(time: Time) -> usize {
        // A nanosecond is taken as 1024 ps here: a shift instead of a division, and no branch, on the path of every packet.
        let ps = time.as_ps();
        let bits = (64 - (ps >> 10).leading_zeros()) as usize;
        (bits + usize::from(ps > 0)).min(Histogram::BUCKETS - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_powers_of_two() {
        let mut histogram = Histogram::default();
        for ps in [0, 0, 500, 1_500, 3_000, u64::MAX] {
            histogram.add(Time::from_ps(ps));
        }
        assert_eq!(histogram.counts[..4], [2, 1, 1, 1]);
        assert_eq!(histogram.counts[Histogram::BUCKETS - 1], 1);
        assert_eq!(histogram.total(), 6);
    }
}

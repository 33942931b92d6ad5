//! The gap of a message. Pacing by overlap needs to know which messages share a step: the workload says it beforehand, or a run without contention
//! finds it out.

use std::collections::{BTreeMap, HashMap};

use super::{run_with, Run};
use crate::bound::Loads;
use crate::program::Gap;
use crate::{Engine, Error, Options, Pacing};

/// How many steps are kept at once: ranks that run free are in a few steps at a time.
const KEPT: usize = 16;

/// A message: its step, and its nodes.
pub(super) type Noted = (u32, u32, u32);

/// Knows the gap of every message.
pub(super) struct Pacer<'a> {
    run: Run<'a>,
    pacing: Pacing,
    packet_ps: u64,
    /// Messages on each link in a step, and the most on any, for the steps that ranks are in.
    steps: BTreeMap<u32, (Loads<'a>, u64)>,
    /// The messages of each step, where the workload does not know them.
    found: HashMap<u32, Vec<(u32, u32)>>,
    /// The messages of this run, when it is the one that finds them out.
    noted: Option<Vec<Noted>>,
}

impl<'a> Pacer<'a> {
    /// The pacing of the options.
    pub(super) fn new(run: Run<'a>) -> Result<Pacer<'a>, Error> {
        let mut pacer = Pacer::plain(run, run.options.pacing);
        if run.options.pacing == Pacing::Overlap && !run.workload.messages_of_step(0, &mut |_, _, _| ()) {
            for (step, from, to) in find_out(run)? {
                pacer.found.entry(step).or_default().push((from, to));
            }
        }
        Ok(pacer)
    }

    fn plain(run: Run<'a>, pacing: Pacing) -> Pacer<'a> {
        let packet_ps = run.parameters.packet_time().as_ps();
        Pacer { run, pacing, packet_ps, steps: BTreeMap::new(), found: HashMap::new(), noted: None }
    }

    /// Notes a message, when messages are to be found out.
    #[inline]
    pub(super) fn note(&mut self, step: u32, from: u32, to: u32) {
        if let Some(noted) = &mut self.noted {
            noted.push((step, from, to));
        }
    }

    /// What was noted.
    pub(super) fn into_noted(self) -> Vec<Noted> {
        self.noted.unwrap_or_default()
    }

    /// The idle time between the packets of a message between nodes.
    #[inline]
    pub(super) fn gap_ps(&mut self, gap: Gap, step: u32, from: u32, to: u32) -> u64 {
        match (gap, self.pacing) {
            (Gap::Fixed(gap), _) | (Gap::Default, Pacing::Fixed(gap)) => gap.as_ps(),
            (_, Pacing::Off) => 0,
            (_, Pacing::Hops) => u64::from(self.run.wiring.hops(from, to).saturating_sub(1)) * self.packet_ps,
            (_, Pacing::Overlap) => {
                let in_step = self.run.options.sync_steps;
                let (loads, most) = self.loads(step);
                let overlap = if in_step { *most } else { loads.largest_on_way(from, to) };
                overlap.saturating_sub(Loads::UNIT) * self.packet_ps / Loads::UNIT
            }
        }
    }

    /// How many messages of a step are on each link.
    fn loads(&mut self, step: u32) -> &(Loads<'a>, u64) {
        if !self.steps.contains_key(&step) {
            if self.steps.len() >= KEPT {
                self.steps.pop_first();
            }
            let loads = self.count(step);
            let most = loads.largest();
            self.steps.insert(step, (loads, most));
        }
        &self.steps[&step]
    }

    fn count(&self, step: u32) -> Loads<'a> {
        let mut loads = Loads::new(self.run.wiring, self.run.parameters);
        match self.found.get(&step) {
            Some(messages) => messages.iter().for_each(|&(from, to)| loads.add(from, to, 1)),
            None => {
                let per_node = self.run.parameters.ranks_per_node;
                let mut add = |from: u32, to: u32, _| loads.add(from / per_node, to / per_node, 1);
                self.run.workload.messages_of_step(step, &mut add);
            }
        }
        loads.settle();
        loads
    }
}

/// Runs the workload without contention, to see which messages belong to which step.
fn find_out(run: Run<'_>) -> Result<Vec<Noted>, Error> {
    let options =
        Options { engine: Engine::Uncontended, pacing: Pacing::Off, progress: None, ..run.options.clone() };
    let run = Run { options: &options, ..run };
    let mut pacer = Pacer::plain(run, Pacing::Off);
    pacer.noted = Some(Vec::new());
    Ok(run_with(run, pacer)?.1)
}

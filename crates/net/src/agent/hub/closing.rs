//! How a job ends before its time: one report that says who waited for whom, then the end of every process.

use super::{Effect, Hub, NodeState, Standing, GRACE_MS};
use crate::agent::protocol::{ToNode, Wait};
use std::collections::BTreeMap;

/// How long to wait for the agents to say what their ranks wait for.
const SURVEY_MS: u64 = 500;
/// How long past the grace an agent may take to end.
const AGENT_GRACE_MS: u64 = 3_000;
/// The most lines of a report about single ranks.
const MAX_LINES: usize = 16;
/// The same when the user has asked for it.
const MAX_SURVEY_LINES: usize = 4096;

/// A job that is being ended.
#[derive(Debug)]
pub(super) struct Closing {
    headline: String,
    survey: Survey,
    /// Set once the ranks have been told to end: when agents that have not ended are given up.
    given_up_ms: Option<u64>,
}

impl Closing {
    /// The ranks have been told already.
    pub(super) fn announced(now_ms: u64, grace_ms: u32) -> Closing {
        let given_up_ms = Some(now_ms + grace_ms as u64 + AGENT_GRACE_MS);
        Closing { headline: String::new(), survey: Survey::new(MAX_LINES, now_ms), given_up_ms }
    }

    pub(super) fn is_announced(&self) -> bool {
        self.given_up_ms.is_some()
    }

    pub(super) fn deadline_ms(&self) -> Option<u64> {
        Some(self.given_up_ms.unwrap_or(self.survey.deadline_ms))
    }
}

/// What ranks wait for, as it comes in from the agents. Only as many are kept as are shown: the first.
#[derive(Debug)]
pub(super) struct Survey {
    waits: BTreeMap<u32, Wait>,
    most: usize,
    /// How many more there were.
    more: usize,
    /// Which nodes have answered.
    answered: Vec<bool>,
    deadline_ms: u64,
}

impl Survey {
    fn new(most: usize, now_ms: u64) -> Survey {
        let deadline_ms = now_ms + SURVEY_MS;
        Survey { waits: BTreeMap::new(), most, more: 0, answered: Vec::new(), deadline_ms }
    }

    pub(super) fn deadline_ms(&self) -> u64 {
        self.deadline_ms
    }

    fn has_answered(&self, node: u32) -> bool {
        self.answered.get(node as usize).is_some_and(|&answered| answered)
    }

    fn add(&mut self, node: u32, waits: Vec<(u32, Wait)>) {
        if self.has_answered(node) {
            return;
        }
        self.answered.resize(self.answered.len().max(node as usize + 1), false);
        self.answered[node as usize] = true;
        for (rank, wait) in waits {
            self.waits.insert(rank, wait);
            if self.waits.len() > self.most {
                self.waits.pop_last();
                self.more += 1;
            }
        }
    }

    fn render(&self) -> String {
        let mut text = String::new();
        for (rank, wait) in &self.waits {
            let peer = wait.peer.map_or(String::new(), |peer| format!(" for {peer}"));
            let seconds = wait.for_ms as f64 / 1000.0;
            let since = if wait.for_ms == 0 { String::new() } else { format!(", for {seconds:.1} s") };
            text.push_str(&format!("\n  rank {rank} {}{peer}{since}", wait.doing));
        }
        if self.more > 0 {
            text.push_str(&format!("\n  … and {} more", self.more));
        }
        text
    }
}

impl Hub {
    /// Asks every agent what its ranks wait for; the answer comes as a report.
    pub fn survey(&mut self, now_ms: u64) {
        if self.closing.is_none() && self.survey.is_none() {
            self.survey = Some(Survey::new(MAX_SURVEY_LINES, now_ms));
            self.broadcast(ToNode::Describe);
        }
    }

    /// Remembers the first failure, and shows every one.
    pub(super) fn note_failure(&mut self, code: i32, text: String) {
        if self.exit_code == 0 {
            self.exit_code = code;
        }
        if self.closing.is_none() {
            self.effects.push_back(Effect::Report(text));
        }
    }

    /// The job has failed: it ends, unless it goes on when ranks are lost.
    pub(super) fn fail(&mut self, code: i32, headline: String, now_ms: u64) {
        if self.hold(code, &headline) {
            return;
        }
        if self.goes_on_after_loss() {
            return self.note_failure(code, headline);
        }
        if self.closing.is_some() {
            return;
        }
        if self.exit_code == 0 {
            self.exit_code = code;
        }
        self.closing = Some(Closing { headline, survey: Survey::new(MAX_LINES, now_ms), given_up_ms: None });
        if self.used {
            self.broadcast(ToNode::Describe);
        } else {
            self.announce(now_ms);
        }
    }

    pub(super) fn surveyed(&mut self, node: u32, waits: Vec<Wait>) {
        let seats = &self.nodes[node as usize].seats;
        let named = |wait: Wait| seats.get(wait.local as usize).map(|&rank| (rank, wait));
        // What the dead waited for is of no interest. Who ends because of them is not dead yet.
        let lives = |(rank, _): &(u32, Wait)| self.members[*rank].standing != Standing::Lost;
        let named = |wait: Wait| named(wait).filter(lives);
        let waits: Vec<_> = waits.into_iter().filter_map(named).collect();
        if let Some(closing) = self.closing.as_mut().filter(|closing| !closing.is_announced()) {
            closing.survey.add(node, waits);
        } else if let Some(survey) = &mut self.survey {
            survey.add(node, waits);
        }
    }

    pub(super) fn tick_closing(&mut self, now_ms: u64) {
        let Some(closing) = &self.closing else { return };
        match closing.given_up_ms {
            None if now_ms >= closing.survey.deadline_ms || self.is_surveyed(&closing.survey) => {
                self.announce(now_ms);
            }
            Some(limit_ms) if now_ms >= limit_ms => {
                (0..self.nodes.len() as u32).for_each(|node| self.set_state(node, NodeState::Gone));
                self.check_finished();
            }
            _ => {}
        }
    }

    pub(super) fn tick_survey(&mut self, now_ms: u64) {
        let Some(survey) = &self.survey else { return };
        if now_ms >= survey.deadline_ms || self.is_surveyed(survey) {
            let text = format!("who waits for whom:{}", survey.render());
            self.survey = None;
            self.effects.push_back(Effect::Report(text));
        }
    }

    /// Shows a report that has not been shown, when nothing is left to wait for.
    pub(super) fn flush_closing(&mut self) {
        let Some(closing) = self.closing.as_mut().filter(|closing| !closing.is_announced()) else { return };
        closing.given_up_ms = Some(0);
        let headline = std::mem::take(&mut closing.headline);
        let report = headline + &closing.survey.render();
        closing.survey = Survey::new(MAX_LINES, 0);
        self.effects.push_back(Effect::Report(report));
    }

    fn announce(&mut self, now_ms: u64) {
        let reason = self.closing.as_ref().map(|closing| closing.headline.clone()).unwrap_or_default();
        self.flush_closing();
        if let Some(closing) = &mut self.closing {
            closing.given_up_ms = Some(now_ms + GRACE_MS as u64 + AGENT_GRACE_MS);
        }
        self.broadcast(ToNode::Terminate { signal: libc::SIGTERM, grace_ms: GRACE_MS, reason });
        self.check_finished();
    }

    fn is_surveyed(&self, survey: &Survey) -> bool {
        (0..self.nodes.len() as u32)
            .all(|node| self.nodes[node as usize].state != NodeState::Running || survey.has_answered(node))
    }
}

//! How a job ends before its time: one report that says who waited for whom, then the end of every process.

use super::{Effect, Hub, NodeState, Standing, GRACE_MS};
use crate::agent::protocol::{ToNode, Wait};

/// How long to wait for the agents to say what their ranks wait for.
const SURVEY_MS: u64 = 500;
/// How long past the grace an agent may take to end.
const AGENT_GRACE_MS: u64 = 3_000;
/// The most lines of a report about single ranks.
const MAX_LINES: usize = 16;

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
        Closing { headline: String::new(), survey: Survey::new(now_ms), given_up_ms }
    }

    pub(super) fn is_announced(&self) -> bool {
        self.given_up_ms.is_some()
    }

    pub(super) fn deadline_ms(&self) -> Option<u64> {
        Some(self.given_up_ms.unwrap_or(self.survey.deadline_ms))
    }
}

/// What ranks wait for, as it comes in from the agents.
#[derive(Debug)]
pub(super) struct Survey {
    waits: Vec<(u32, Wait)>,
    answered: Vec<u32>,
    deadline_ms: u64,
}

impl Survey {
    fn new(now_ms: u64) -> Survey {
        Survey { waits: Vec::new(), answered: Vec::new(), deadline_ms: now_ms + SURVEY_MS }
    }

    pub(super) fn deadline_ms(&self) -> u64 {
        self.deadline_ms
    }

    fn add(&mut self, node: u32, waits: Vec<(u32, Wait)>) {
        if !self.answered.contains(&node) {
            self.answered.push(node);
            self.waits.extend(waits);
        }
    }
}

impl Hub {
    /// Asks every agent what its ranks wait for; the answer comes as a report.
    pub fn survey(&mut self, now_ms: u64) {
        if self.closing.is_none() && self.survey.is_none() {
            self.survey = Some(Survey::new(now_ms));
            self.broadcast(&ToNode::Describe);
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
        self.closing = Some(Closing { headline, survey: Survey::new(now_ms), given_up_ms: None });
        if self.used {
            self.broadcast(&ToNode::Describe);
        } else {
            self.announce(now_ms);
        }
    }

    pub(super) fn surveyed(&mut self, node: u32, waits: Vec<Wait>) {
        let seats = &self.nodes[node as usize].seats;
        let named = |wait: Wait| seats.get(wait.local as usize).map(|&rank| (rank, wait));
        // What the dead waited for is of no interest. Who ends because of them is not dead yet.
        let lives = |(rank, _): &(u32, Wait)| self.members[*rank as usize].standing != Standing::Lost;
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
                self.nodes.iter_mut().for_each(|entry| entry.state = NodeState::Gone);
                self.check_finished();
            }
            _ => {}
        }
    }

    pub(super) fn tick_survey(&mut self, now_ms: u64) {
        let Some(survey) = &self.survey else { return };
        if now_ms >= survey.deadline_ms || self.is_surveyed(survey) {
            let text = format!("who waits for whom:{}", self.render(survey, usize::MAX));
            self.survey = None;
            self.effects.push_back(Effect::Report(text));
        }
    }

    /// Shows a report that has not been shown, when nothing is left to wait for.
    pub(super) fn flush_closing(&mut self) {
        let Some(closing) = self.closing.as_mut().filter(|closing| !closing.is_announced()) else { return };
        closing.given_up_ms = Some(0);
        let headline = std::mem::take(&mut closing.headline);
        let survey = std::mem::replace(&mut closing.survey, Survey::new(0));
        let report = headline + &self.render(&survey, MAX_LINES);
        self.effects.push_back(Effect::Report(report));
    }

    fn announce(&mut self, now_ms: u64) {
        let reason = self.closing.as_ref().map(|closing| closing.headline.clone()).unwrap_or_default();
        self.flush_closing();
        if let Some(closing) = &mut self.closing {
            closing.given_up_ms = Some(now_ms + GRACE_MS as u64 + AGENT_GRACE_MS);
        }
        self.broadcast(&ToNode::Terminate { signal: libc::SIGTERM, grace_ms: GRACE_MS, reason });
        self.check_finished();
    }

    fn is_surveyed(&self, survey: &Survey) -> bool {
        (0..self.nodes.len() as u32).all(|node| {
            self.nodes[node as usize].state != NodeState::Running || survey.answered.contains(&node)
        })
    }

    fn render(&self, survey: &Survey, most: usize) -> String {
        let mut waits: Vec<&(u32, Wait)> = survey.waits.iter().collect();
        waits.sort_by_key(|(rank, _)| *rank);
        let mut text = String::new();
        for (rank, wait) in waits.iter().take(most) {
            let peer = wait.peer.map_or(String::new(), |peer| format!(" for {peer}"));
            let seconds = wait.for_ms as f64 / 1000.0;
            let since = if wait.for_ms == 0 { String::new() } else { format!(", for {seconds:.1} s") };
            text.push_str(&format!("\n  rank {rank} {}{peer}{since}", wait.doing));
        }
        if waits.len() > most {
            text.push_str(&format!("\n  … and {} more", waits.len() - most));
        }
        text
    }
}

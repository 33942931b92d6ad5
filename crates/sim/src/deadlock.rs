//! What is said when nothing can move any more: which ranks wait for what and whom, which circle they wait in, and, when it is the network
//! itself that is stuck, the circle of buffers that wait for each other's space.

use std::fmt;

use crate::Time;

/// A run that came to a stop before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// When the last thing happened.
    pub time: Time,
    /// Every rank that waits.
    pub blocked: Vec<Blocked>,
    /// Ranks of which each waits for the next, and the last for the first; empty when there is no such circle.
    pub circle: Vec<u32>,
    /// Buffers of which each waits for space in the next, and the last for the first, each as the link that feeds it; empty when the
    /// network is not to blame.
    pub credit_circle: Vec<String>,
    /// Packets that are stuck in the network.
    pub packets: u64,
}

/// A rank that waits, and for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The rank.
    pub rank: u32,
    /// What it waits for.
    pub what: String,
    /// The rank it waits for, where that is known.
    pub on: Option<u32>,
}

/// How many blocked ranks and buffers a message lists.
const LISTED: usize = 8;

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.credit_circle.is_empty() {
            writeln!(
                f,
                "the network is deadlocked at {}: {} packets cannot move, because",
                self.time, self.packets
            )?;
            for buffer in self.credit_circle.iter().take(4 * LISTED) {
                writeln!(f, "  {buffer}")?;
            }
            write!(f, "and so on in a circle; use the channel rule 'wrap' or 'dateline'")?;
            return Ok(());
        }
        write!(f, "the program is deadlocked at {}: {} ranks wait", self.time, self.blocked.len())?;
        for blocked in self.blocked.iter().take(LISTED) {
            write!(f, "\n  rank {} waits for {}", blocked.rank, blocked.what)?;
        }
        if self.blocked.len() > LISTED {
            write!(f, "\n  and {} more", self.blocked.len() - LISTED)?;
        }
        if let Some(first) = self.circle.first() {
            let circle: Vec<String> = self.circle.iter().chain([first]).map(u32::to_string).collect();
            write!(f, "\nthey wait in a circle: {}", circle.join(" → "))?;
        }
        Ok(())
    }
}

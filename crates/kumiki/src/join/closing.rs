//! How those who leave find out that nobody is in a collective with them any more: all members say that they leave, and hear that all do.
//!
//! A member may be done with a collective while others are in it, and would miss it. So it waits until all have come to leave; but whoever goes on for
//! long, or is lost, is not waited for. Groups are closed in the same order everywhere.

use super::Join;
use crate::comm::Messages;
use crate::world::among::{children, parent};
use crate::{Members, Rank, World};
use kumiki_mem::Activity;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The messages of those who leave: no program has this number.
const CONTEXT: u32 = 0x8000_0003;
/// The tag of all processes together: no group has this number.
const ALL: u64 = u64::MAX;
/// How often it is looked whether somebody has come.
const PAUSE: Duration = Duration::from_micros(500);

impl Join {
    /// Closes all groups that have had collectives, of joined programs and of arrays, as far as the others come to that.
    pub(super) fn close(&self, until: Instant) {
        let mut met = std::mem::take(&mut *self.world().met());
        met.sort_by_cached_key(|(name, members)| (*name, members.iter().collect::<Vec<Rank>>()));
        let mail = self.world().messages().context(CONTEXT);
        // Groups of the world, and what was made of them, had all processes for members once.
        let all = self
            .world()
            .met_all
            .load(Ordering::Relaxed)
            .then(|| (ALL, Members::from(0..self.world().ranks())));
        for (tag, members) in met.into_iter().chain(all) {
            let Some(me) = members.position(self.world().rank()) else { continue };
            let closing = Closing { world: self.world(), mail, tag, members, me, until };
            // If not, there is nothing to be done about it.
            let _ = closing.hear();
        }
    }
}

struct Closing<'a> {
    world: &'a World,
    mail: Messages<'a>,
    tag: u64,
    members: Members,
    me: Rank,
    until: Instant,
}

impl Closing<'_> {
    /// Whether all leave. Who knows that somebody does not says so: nobody waits for longer than it must.
    fn hear(&self) -> bool {
        let mut all = children(self.me, self.members.len()).all(|child| self.await_word(child));
        if self.me != 0 {
            self.say(parent(self.me), all);
            all = self.await_word(parent(self.me));
        }
        children(self.me, self.members.len()).for_each(|child| self.say(child, all));
        all
    }

    fn say(&self, member: Rank, all: bool) {
        let to = self.members.get(member).unwrap_or(Rank::MAX);
        // What cannot go at once goes while this process leaves; who is gone need not hear it.
        if let Ok(sending) = self.mail.start_send(to, self.tag, vec![u8::from(all)]) {
            drop(sending);
        }
    }

    fn await_word(&self, member: Rank) -> bool {
        let from = self.members.get(member).unwrap_or(Rank::MAX);
        let Ok(receiving) = self.mail.start_receive::<u8>(from, self.tag) else { return false };
        let mut shown = None;
        while !receiving.is_done() {
            shown.get_or_insert_with(|| self.world.memory.show_wait(Activity::Leave, from));
            if Instant::now() >= self.until {
                let _ = receiving.cancel();
                return false;
            }
            std::thread::sleep(PAUSE);
        }
        receiving.wait().is_ok_and(|message| message.elements == [1])
    }
}

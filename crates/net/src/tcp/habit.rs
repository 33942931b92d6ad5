//! Two ranks that ask each other, again and again: an answer goes with the question that follows it.
//!
//! Whoever asks one thing after the other asks again as soon as it is answered. If its answer came together with a question of the
//! same peer, the answer to that can wait the moment: then both go out with one system call, come with one, and so on. Only who
//! has asked again at once a few times is believed to do it once more. If it does not, what was kept goes as any message that
//! [may wait](crate::contract::Message::may_wait), and the habit must be shown anew.

use super::link::is_small;
use super::Tcp;
use crate::contract::{Message, Outbox, Path};
use crate::Rank;

/// So often a rank must have asked again at once.
pub(super) const HABIT: u8 = 4;

impl Tcp {
    /// Something has come on a link that awaited so many answers. If it was the last of them, and whoever asked always asks again
    /// at once, what is owed to the peer goes along.
    #[inline]
    pub(super) fn note_answered(&mut self, index: u32, awaited: u32, out: &mut Outbox) {
        if awaited == 0 {
            return;
        }
        let Some(link) = self.links.get(index as usize).and_then(Option::as_ref) else { return };
        if link.unanswered > 0 {
            return;
        }
        self.answered = Some(index);
        let goes_along =
            |(_, message): &(Rank, Message)| message.path == Path::Answer(index) && is_small(message);
        if link.habit >= HABIT && link.takes_more() && out.messages.iter().all(goes_along) {
            out.messages.iter_mut().for_each(|(_, message)| message.may_wait = true);
        }
    }

    /// A question goes to a rank: perhaps the one that was just answered.
    #[inline]
    pub(super) fn asks_again(&mut self, to: Rank) {
        let Some(index) = self.answered.take() else { return };
        if let Some(link) = self.links[index as usize].as_mut().filter(|link| link.peer == Some(to)) {
            link.habit = (link.habit + 1).min(HABIT);
        }
    }

    /// Somebody polls: who was answered has not asked again.
    #[inline]
    pub(super) fn asks_no_more(&mut self) {
        let Some(index) = self.answered.take() else { return };
        if let Some(link) = self.links[index as usize].as_mut() {
            link.habit = 0;
        }
    }
}

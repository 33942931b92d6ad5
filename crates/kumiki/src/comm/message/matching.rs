//! Which message goes to which receive: a value that knows nothing of worlds, memory or time.
//!
//! Messages are fed in the order in which they arrive, which for any one source is the order in which it sent them; receives in the order
//! in which they are posted. A message goes to the first receive that it fits, a receive gets the first message that fits it: so of two
//! messages of one source that fit the same receive the earlier one is received first, whatever came from others.

use std::collections::VecDeque;

/// Places of a queue that are kept.
const FEW: usize = 64;

/// What is known of a message before it is received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Envelope {
    /// Messages of one context are never received in another.
    pub(crate) context: u32,
    /// Who sent it.
    pub(crate) source: u32,
    pub(crate) tag: u64,
    /// Bytes of it.
    pub(crate) bytes: u64,
}

/// Which messages a receive takes. What is not said may be anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Selector {
    pub(crate) context: u32,
    pub(crate) source: Option<u32>,
    pub(crate) tag: Option<u64>,
}

impl Selector {
    pub(crate) fn fits(&self, envelope: &Envelope) -> bool {
        self.context == envelope.context
            && self.source.is_none_or(|source| source == envelope.source)
            && self.tag.is_none_or(|tag| tag == envelope.tag)
    }
}

/// Receives that have no message yet, and messages that nobody has asked for yet.
#[derive(Debug)]
pub(crate) struct Matching<R, M> {
    posted: VecDeque<(Selector, R)>,
    unexpected: VecDeque<(Envelope, M)>,
}

impl<R, M> Default for Matching<R, M> {
    fn default() -> Self {
        Matching { posted: VecDeque::new(), unexpected: VecDeque::new() }
    }
}

impl<R, M> Matching<R, M> {
    /// The receive that a message which arrives goes to: it is posted no more. If there is none, the caller [keeps](Self::keep) the
    /// message, or has it arrive later, with all that come behind it from its source.
    pub(crate) fn arrive(&mut self, envelope: &Envelope) -> Option<R> {
        let at = self.posted.iter().position(|(selector, _)| selector.fits(envelope))?;
        let receive = self.posted.remove(at).map(|(_, receive)| receive);
        give_back(&mut self.posted);
        receive
    }

    /// The same for one receive: whether the message goes to that. If it does not, everything is as it was.
    pub(crate) fn arrive_for(&mut self, envelope: &Envelope, is_it: impl Fn(&R) -> bool) -> bool {
        let first = self.posted.iter().position(|(selector, _)| selector.fits(envelope));
        let Some(at) = first.filter(|at| is_it(&self.posted[*at].1)) else { return false };
        self.posted.remove(at);
        give_back(&mut self.posted);
        true
    }

    /// The receive that a message which arrives would [go to](Self::arrive).
    pub(crate) fn first_for(&self, envelope: &Envelope) -> Option<&R> {
        self.posted.iter().find(|(selector, _)| selector.fits(envelope)).map(|(_, receive)| receive)
    }

    /// Whether there is one.
    pub(crate) fn is_wanted(&self, envelope: &Envelope) -> bool {
        self.first_for(envelope).is_some()
    }

    /// Keeps a message that [nobody has asked for](Self::arrive).
    pub(crate) fn keep(&mut self, envelope: Envelope, message: M) {
        self.unexpected.push_back((envelope, message));
    }

    /// The first message that is kept and fits: it is kept no more.
    pub(crate) fn take(&mut self, selector: &Selector) -> Option<(Envelope, M)> {
        let at = self.unexpected.iter().position(|(envelope, _)| selector.fits(envelope))?;
        let message = self.unexpected.remove(at);
        give_back(&mut self.unexpected);
        message
    }

    /// Posts a receive for which there was [nothing to take](Self::take).
    pub(crate) fn post(&mut self, selector: Selector, receive: R) {
        self.posted.push_back((selector, receive));
    }

    /// The first message that is kept and fits.
    pub(crate) fn probe(&self, selector: &Selector) -> Option<Envelope> {
        self.unexpected.iter().map(|(envelope, _)| *envelope).find(|envelope| selector.fits(envelope))
    }

    /// The first message that is kept and of which this is said.
    pub(crate) fn find_kept(
        &mut self,
        mut is_it: impl FnMut(&Envelope, &M) -> bool,
    ) -> Option<(Envelope, &mut M)> {
        let found = self.unexpected.iter_mut().find(|(envelope, message)| is_it(envelope, message));
        found.map(|(envelope, message)| (*envelope, message))
    }

    /// Takes back a receive that is posted.
    pub(crate) fn withdraw(&mut self, is_it: impl Fn(&R) -> bool) -> Option<R> {
        let at = self.posted.iter().position(|(_, receive)| is_it(receive))?;
        self.posted.remove(at).map(|(_, receive)| receive)
    }

    /// Takes back all receives of which this is said.
    pub(crate) fn withdraw_all(&mut self, mut is_one: impl FnMut(&Selector, &R) -> bool) {
        self.posted.retain(|(selector, receive)| !is_one(selector, receive));
        give_back(&mut self.posted);
    }

    /// Takes back all receives that are posted for this source alone.
    pub(crate) fn withdraw_source(&mut self, source: u32) -> Vec<R> {
        let (gone, left): (VecDeque<_>, VecDeque<_>) =
            self.posted.drain(..).partition(|(selector, _)| selector.source == Some(source));
        self.posted = left;
        gone.into_iter().map(|(_, receive)| receive).collect()
    }

    /// Whether a receive is posted that a message of this source could fit.
    pub(crate) fn awaits(&self, source: u32) -> bool {
        self.posted.iter().any(|(selector, _)| selector.source.is_none_or(|wanted| wanted == source))
    }

    /// All messages that are kept.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (Envelope, M)> + '_ {
        self.unexpected.drain(..)
    }

    /// The receive that was posted before all but so many, and its selector.
    pub(crate) fn posted(&self, at: usize) -> Option<&(Selector, R)> {
        self.posted.get(at)
    }

    /// What a receive that is posted takes.
    pub(crate) fn find(&self, is_it: impl Fn(&R) -> bool) -> Option<Selector> {
        self.posted.iter().find(|(_, receive)| is_it(receive)).map(|(selector, _)| *selector)
    }

    /// How many receives are posted.
    pub(crate) fn posted_count(&self) -> usize {
        self.posted.len()
    }

    /// How many messages are kept.
    pub(crate) fn kept_count(&self) -> usize {
        self.unexpected.len()
    }
}

/// Gives memory back that was taken when there was much more.
fn give_back<T>(queue: &mut VecDeque<T>) {
    if queue.capacity() > FEW && queue.len() < queue.capacity() / 2 {
        queue.shrink_to((queue.len() + queue.len() / 4).max(FEW));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(source: u32, tag: u64) -> Envelope {
        Envelope { context: 0, source, tag, bytes: 0 }
    }

    fn selector(source: Option<u32>, tag: Option<u64>) -> Selector {
        Selector { context: 0, source, tag }
    }

    #[test]
    fn a_message_goes_to_the_first_receive_that_it_fits() {
        let mut matching = Matching::<u32, u32>::default();
        matching.post(selector(Some(1), Some(5)), 10);
        matching.post(selector(None, None), 11);
        matching.post(selector(Some(1), None), 12);
        assert_eq!(matching.arrive(&Envelope { context: 1, ..envelope(1, 5) }), None, "another context");
        assert_eq!(matching.arrive(&envelope(1, 6)), Some(11));
        assert_eq!(matching.arrive(&envelope(1, 5)), Some(10));
        assert_eq!(matching.arrive(&envelope(2, 5)), None);
        assert_eq!(matching.arrive(&envelope(1, 5)), Some(12));
        assert_eq!(matching.posted_count(), 0);
    }

    #[test]
    fn a_receive_gets_the_first_message_that_fits_it() {
        let mut matching = Matching::<u32, u32>::default();
        for (source, tag, message) in [(1, 5, 0), (2, 5, 1), (1, 6, 2), (1, 5, 3)] {
            matching.keep(envelope(source, tag), message);
        }
        assert_eq!(matching.probe(&selector(None, Some(6))), Some(envelope(1, 6)));
        let mut take = |source, tag| matching.take(&selector(source, tag)).map(|(_, message)| message);
        assert_eq!(take(Some(1), Some(6)), Some(2));
        assert_eq!(take(Some(3), None), None);
        assert_eq!(take(None, None), Some(0));
        assert_eq!(take(Some(1), None), Some(3));
        assert_eq!(take(Some(2), Some(5)), Some(1));
        assert_eq!(matching.kept_count(), 0);
    }

    #[test]
    fn receives_that_are_withdrawn_get_nothing() {
        let mut matching = Matching::<u32, u32>::default();
        for (source, receive) in [(Some(1), 10), (None, 11), (Some(1), 12), (Some(2), 13)] {
            matching.post(selector(source, None), receive);
        }
        assert_eq!(matching.withdraw(|receive| *receive == 13), Some(13));
        assert_eq!(matching.withdraw(|receive| *receive == 13), None);
        assert_eq!(matching.withdraw_source(1), [10, 12]);
        assert_eq!(matching.arrive(&envelope(1, 0)), Some(11));
        assert!(matching.posted(0).is_none());
    }

    /// The rule itself: every message and every receive has a time, and a receive belongs to the earliest message for which all receives
    /// that fit and came before are taken; written down without any queue.
    #[derive(Default)]
    struct Model {
        messages: Vec<(Envelope, u32, bool)>,
        receives: Vec<(Selector, u32, bool)>,
    }

    impl Model {
        fn arrive(&mut self, envelope: Envelope, message: u32) -> Option<u32> {
            let open =
                self.receives.iter_mut().find(|(selector, _, taken)| !taken && selector.fits(&envelope));
            let found = open.map(|open| {
                open.2 = true;
                open.1
            });
            self.messages.push((envelope, message, found.is_some()));
            found
        }

        fn post(&mut self, selector: Selector, receive: u32) -> Option<u32> {
            let open =
                self.messages.iter_mut().find(|(envelope, _, taken)| !taken && selector.fits(envelope));
            let found = open.map(|open| {
                open.2 = true;
                open.1
            });
            self.receives.push((selector, receive, found.is_some()));
            found
        }

        fn cancel(&mut self, receive: u32) -> bool {
            let open = self.receives.iter_mut().find(|(_, number, taken)| !taken && *number == receive);
            open.map(|open| open.2 = true).is_some()
        }
    }

    #[test]
    fn any_program_of_messages_receives_probes_and_cancels_matches_as_the_model_does() {
        for seed in 1..=200u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut next = |limit: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) % limit
            };
            let (mut matching, mut model) = (Matching::<u32, u32>::default(), Model::default());
            for step in 0..200u32 {
                let context = next(2) as u32;
                let (source, tag) = (next(3) as u32, next(3));
                let any = next(4);
                let (some_source, some_tag) =
                    ((any & 1 == 0).then_some(source), (any & 2 == 0).then_some(tag));
                let selector = Selector { context, source: some_source, tag: some_tag };
                match next(8) {
                    0..4 => {
                        let envelope = Envelope { context, source, tag, bytes: step.into() };
                        let found = matching.arrive(&envelope);
                        if found.is_none() {
                            matching.keep(envelope, step);
                        }
                        assert_eq!(found, model.arrive(envelope, step), "seed {seed}, step {step}");
                    }
                    4..7 => {
                        let seen = matching.probe(&selector);
                        let found = matching.take(&selector);
                        assert_eq!(seen, found.map(|(envelope, _)| envelope));
                        if found.is_none() {
                            matching.post(selector, step);
                        }
                        let found = found.map(|(_, message)| message);
                        assert_eq!(found, model.post(selector, step), "seed {seed}, step {step}");
                    }
                    _ => {
                        let receive = next(u64::from(step) + 1) as u32;
                        let found = matching.withdraw(|posted| *posted == receive).is_some();
                        assert_eq!(found, model.cancel(receive), "seed {seed}, step {step}");
                    }
                }
            }
        }
    }
}

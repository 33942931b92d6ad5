//! The terms of a job: what its ranks, agents and hub must all hold to alike. They come from the command line or the
//! environment of whoever begins the job, travel in one message to each agent, and stand at the head of each node's arena,
//! where the ranks read them.
//!
//! A new one is a field here, with its usual value, its variable and its place in the bytes; a line of the table in
//! `environment.rs`; and an option of `kumiki run` (`cli/src/commands/run.rs`). Everything between passes on the whole.

use crate::codec::{Reader, Writer};
use crate::{environment, Result};
use std::time::Duration;

/// Bytes of starter memory of each rank when nobody says how many.
pub const STARTER_BYTES: u64 = 4096;

/// The terms. They lie in shared memory, so each is a number for which every value is one: what is on or off is 1 or 0.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Bytes of starter memory of each rank.
    pub starter_bytes: u64,
    /// Private and heap bytes that the library may take for each rank; `u64::MAX` if there is no budget.
    pub budget_bytes: u64,
    /// The most bytes that the pool of a rank may have, where all ranks allocate.
    pub pool_bytes: u64,
    /// How long a peer may be silent before it counts as lost.
    pub peer_timeout_ms: u32,
    /// The most TCP connections of a rank.
    pub connection_cap: u32,
    /// The most operations of a rank that are under way at once.
    pub operation_cap: u32,
    /// 1 if the job goes on when a rank is lost.
    pub continue_on_loss: u32,
    /// 1 if `process_vm_*` may be used between ranks of the node.
    pub allow_process_vm: u32,
    /// 1 if connections that break are mended.
    pub mend_links: u32,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            starter_bytes: STARTER_BYTES,
            budget_bytes: u64::MAX,
            pool_bytes: u64::MAX,
            peer_timeout_ms: 15_000,
            connection_cap: 256,
            operation_cap: 4096,
            continue_on_loss: 0,
            allow_process_vm: 1,
            mend_links: 0,
        }
    }
}

impl Terms {
    /// As the environment says, for a job that has no launcher of ours.
    pub fn from_environment(starter_bytes: u64) -> Result<Terms> {
        let usual = Terms::default();
        let on_loss = environment::choice("KUMIKI_ON_LOSS", &["abort", "continue"])?;
        let terms = Terms {
            starter_bytes: environment::bytes("KUMIKI_STARTER")?.unwrap_or(starter_bytes),
            budget_bytes: environment::bytes("KUMIKI_BUDGET")?.unwrap_or(usual.budget_bytes),
            pool_bytes: environment::bytes("KUMIKI_POOL")?.unwrap_or(usual.pool_bytes),
            peer_timeout_ms: Terms::peer_timeout_ms()?,
            connection_cap: environment::number("KUMIKI_CONNECTIONS")?.unwrap_or(usual.connection_cap),
            operation_cap: environment::operations()?.unwrap_or(usual.operation_cap),
            continue_on_loss: (on_loss == Some("continue")).into(),
            allow_process_vm: usual.allow_process_vm,
            mend_links: usual.mend_links,
        };
        terms.within_bounds().as_environment_says()
    }

    /// These, with what nobody could work with raised or lowered to what somebody can: whoever starts a job from a program may say
    /// anything.
    pub fn within_bounds(self) -> Terms {
        Terms {
            peer_timeout_ms: milliseconds(Duration::from_millis(self.peer_timeout_ms.into())),
            connection_cap: self.connection_cap.max(1),
            operation_cap: self.operation_cap.max(environment::LEAST_OPERATIONS),
            ..self
        }
    }

    /// Of these, whether `process_vm_*` may be used, and whether connections are mended, is said by the environment alone: they are
    /// no options.
    pub fn as_environment_says(self) -> Result<Terms> {
        let off = environment::choice("KUMIKI_PROCESS_VM", &["auto", "off"])? == Some("off");
        let allow_process_vm = if off { 0 } else { self.allow_process_vm };
        let mend = environment::choice("KUMIKI_MEND", &["off", "on"])?;
        let mend_links = mend.map_or(self.mend_links, |mend| (mend == "on").into());
        Ok(Terms { allow_process_vm, mend_links, ..self })
    }

    /// How long a peer may be silent, as the environment says; for those who do not know the terms yet.
    pub fn peer_timeout_ms() -> Result<u32> {
        let said = environment::peer_timeout()?;
        Ok(said.map_or(Terms::default().peer_timeout_ms, milliseconds))
    }

    /// Whether the job goes on when a rank is lost.
    pub fn continues_on_loss(&self) -> bool {
        self.continue_on_loss != 0
    }

    /// Writes them.
    pub(crate) fn write(&self, writer: Writer) -> Writer {
        writer
            .long(self.starter_bytes)
            .long(self.budget_bytes)
            .long(self.pool_bytes)
            .word(self.peer_timeout_ms)
            .word(self.connection_cap)
            .word(self.operation_cap)
            .word(self.continue_on_loss)
            .word(self.allow_process_vm)
            .word(self.mend_links)
    }

    /// Reads what [`write`](Self::write) wrote.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Terms> {
        Ok(Terms {
            starter_bytes: reader.long()?,
            budget_bytes: reader.long()?,
            pool_bytes: reader.long()?,
            peer_timeout_ms: reader.word()?,
            connection_cap: reader.word()?,
            operation_cap: reader.word()?,
            continue_on_loss: reader.word()?,
            allow_process_vm: reader.word()?,
            mend_links: reader.word()?,
        })
    }
}

/// A timeout as the terms have it: not shorter than anybody can answer, and no more than can be added to a time.
pub fn milliseconds(timeout: Duration) -> u32 {
    timeout.as_millis().clamp(environment::LEAST_PEER_TIMEOUT.as_millis(), 1 << 30) as u32
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any terms.
    pub(crate) fn terms() -> impl Strategy<Value = Terms> {
        (any::<[u64; 3]>(), any::<[u32; 6]>()).prop_map(|(longs, words)| Terms {
            starter_bytes: longs[0],
            budget_bytes: longs[1],
            pool_bytes: longs[2],
            peer_timeout_ms: words[0],
            connection_cap: words[1],
            operation_cap: words[2],
            continue_on_loss: words[3],
            allow_process_vm: words[4],
            mend_links: words[5],
        })
    }

    #[test]
    fn without_a_word_of_anybody_the_usual_terms_hold() {
        // The tests of this crate run without variables of ours.
        assert_eq!(Terms::from_environment(4096).unwrap(), Terms::default());
    }

    #[test]
    fn a_program_that_asked_for_no_connection_waited_for_one_for_ever() {
        let none = Terms { peer_timeout_ms: 0, connection_cap: 0, operation_cap: 0, ..Terms::default() };
        let bounded = none.within_bounds();
        assert_eq!((bounded.peer_timeout_ms, bounded.connection_cap, bounded.operation_cap), (100, 1, 16));
        assert_eq!(Terms::default().within_bounds(), Terms::default());
    }

    #[test]
    fn a_timeout_is_neither_too_short_to_answer_nor_too_long_to_add() {
        let all = [0, 99, 100, 15_000, u64::MAX].map(|ms| milliseconds(Duration::from_millis(ms)));
        assert_eq!(all, [100, 100, 100, 15_000, 1 << 30]);
    }

    proptest! {
        #[test]
        fn terms_survive_the_bytes(terms in terms()) {
            let bytes = terms.write(Writer::new(0)).finish();
            let mut reader = Reader::new(&bytes[1..]);
            prop_assert_eq!(Terms::read(&mut reader).unwrap(), terms);
            reader.end().unwrap();
            prop_assert!(Terms::read(&mut Reader::new(&bytes[2..])).is_err());
        }
    }
}

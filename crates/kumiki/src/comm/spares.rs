//! Buffers of long requests that were answered, for the next ones: fresh memory of that length takes the system as long as what is sent.

use crate::{Purpose, World};
use kumiki_mem::{Booking, LETTER_BYTES};

/// The least bytes that a buffer is kept for, and the most that one has which is kept.
pub(super) const LEAST_SPARE: usize = 16 << 10;
const MOST_BYTES: usize = 160 << 10;

/// Some of them, each booked; and one for letters, which is while it is away, too.
#[derive(Default)]
pub(super) struct Spares {
    long: Vec<(Vec<u8>, Booking)>,
    letter: Vec<u8>,
    letter_booked: Option<Booking>,
}

impl Spares {
    /// A buffer for so many bytes.
    pub(super) fn take(&mut self, bytes: usize) -> Vec<u8> {
        let spare = if bytes >= LEAST_SPARE { self.long.pop() } else { None };
        spare.map(|(buffer, _)| buffer).unwrap_or_default()
    }

    /// Keeps a buffer, if it is long, there are not so many, and there is memory for it.
    pub(super) fn keep(&mut self, world: &World, buffer: Vec<u8>, most: usize) {
        if !(LEAST_SPARE..=MOST_BYTES).contains(&buffer.capacity()) || self.long.len() >= most {
            return;
        }
        if let Ok(booked) = world.memory.book(Purpose::Comm, buffer.capacity() as u64) {
            self.long.push((buffer, booked));
        }
    }

    /// The buffer for a letter: it is no longer than one.
    pub(super) fn take_letter(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.letter)
    }

    /// Keeps that buffer, if there is memory for it.
    pub(super) fn give_letter(&mut self, world: &World, letter: Vec<u8>) {
        if self.letter_booked.is_none() {
            self.letter_booked = world.memory.book(Purpose::Comm, LETTER_BYTES as u64).ok();
        }
        if self.letter_booked.is_some() {
            self.letter = letter;
        }
    }

    /// Memory is short, or nothing long is sent any more.
    pub(super) fn clear(&mut self) {
        *self = Spares::default();
    }
}

//! A terminal on which keys are read one by one.

use super::named;
use crate::Result;
use rustix::termios::{tcgetattr, tcgetwinsize, tcsetattr};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use std::os::fd::{AsFd, BorrowedFd};

/// A terminal whose keys come one by one and are not shown, until it is dropped. Signals by key (Ctrl-C, Ctrl-Z) stay.
#[derive(Debug)]
pub struct Keys<F: AsFd> {
    terminal: F,
    before: Termios,
}

impl<F: AsFd> Keys<F> {
    /// Begins to read keys; an error if it is no terminal.
    pub fn new(terminal: F) -> Result<Keys<F>> {
        let before = named("tcgetattr", tcgetattr(&terminal))?;
        let keys = Keys { terminal, before };
        keys.begin()?;
        Ok(keys)
    }

    /// Begins once more, after somebody else had the terminal.
    pub fn begin(&self) -> Result<()> {
        let mut now = self.before.clone();
        now.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // A read gives what is there, and waits for nothing.
        now.special_codes[SpecialCodeIndex::VMIN] = 0;
        now.special_codes[SpecialCodeIndex::VTIME] = 0;
        named("tcsetattr", tcsetattr(&self.terminal, OptionalActions::Now, &now))
    }

    /// The terminal as it was.
    pub fn end(&self) {
        // One that is gone need not be as it was.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

impl<F: AsFd> Drop for Keys<F> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Columns and rows of a terminal; `None` if it is none, or does not say.
pub fn size(terminal: BorrowedFd<'_>) -> Option<(u16, u16)> {
    let size = tcgetwinsize(terminal).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

//! Memory that is lent out of a [`Scope`]: by address, to what outlives no scope, but whose type cannot say so. Each loan has a token, and a
//! scope does not end before all of them have come back.

use crate::drive::pending::Scope;
use crate::drive::vouched::Vouched;
use crate::Result;
use kumiki_net::os::process;
use std::sync::atomic::{fence, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// How often a scope looks whether a loan that another thread has just now has come back.
const NAP: Duration = Duration::from_micros(50);

/// What a scope has lent.
#[derive(Default)]
pub(super) struct Loans(Arc<()>);

/// What each loan has.
pub(super) type Token = Arc<()>;

impl Loans {
    fn token(&self) -> Token {
        self.0.clone()
    }

    /// Waits until all that was lent has come back: nobody touches that memory afterwards.
    pub(super) fn wait(&self) {
        // In a child that this process has forked the threads are not there that may have one.
        while Arc::strong_count(&self.0) > 1 && !process::is_forked_child() {
            std::thread::sleep(NAP);
        }
        // What the others wrote before they let go is seen: dropping a token is a release.
        fence(Ordering::Acquire);
    }
}

/// Memory that a scope has lent to be written by this process. The scope does not end before this is dropped.
#[derive(Debug)]
pub struct Loan {
    start: *mut u8,
    bytes: usize,
    _token: Token,
}

// SAFETY: it is the only way to memory that was borrowed mutably, of a type that any thread may write.
unsafe impl Send for Loan {}

impl Loan {
    /// The memory.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the memory is borrowed until the scope ends, which waits for the token; nobody else has it meanwhile.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Lends memory to be written by this process, at any time before the scope ends: what this gives must be dropped, and not be what the scope gives.
    #[doc(hidden)]
    pub fn lend_to_write(&'scope self, memory: &'scope mut [u8]) -> Loan {
        Loan { start: memory.as_mut_ptr(), bytes: memory.len(), _token: self.loans.token() }
    }

    /// Registers memory to be read by all ranks until what this gives is dropped: before the scope ends, as above.
    #[doc(hidden)]
    pub fn lend_to_read(&'scope self, memory: &'scope [u8]) -> Result<Vouched> {
        // SAFETY: the memory is borrowed until the scope ends, which waits for the token that is dropped behind the registration.
        let vouched = unsafe { self.world.vouch(memory.as_ptr(), memory.len()) }?;
        Ok(vouched.with(self.loans.token()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_does_not_end_before_what_it_lent_has_come_back() {
        let world = crate::World::init().expect("a world");
        let (mut place, lent) = (vec![0u8; 100], vec![7u8; 100]);
        let seen = std::thread::scope(|threads| {
            world
                .scope(|scope| {
                    let (mut loan, vouched) = (scope.lend_to_write(&mut place), scope.lend_to_read(&lent)?);
                    let got = world.get(vouched.ptr().add(99))?;
                    threads.spawn(move || {
                        std::thread::sleep(Duration::from_millis(20));
                        loan.as_mut_slice()[99] = got;
                        drop(vouched);
                    });
                    Ok(scope.lend_to_write(&mut []).as_mut_slice().len())
                })
                .expect("the scope")
        });
        assert_eq!((seen, place[99]), (0, 7));
        world.finalize().expect("the end");
    }
}

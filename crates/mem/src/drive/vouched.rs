//! Memory of a program in another language that others read for a while: whoever gives it vouches for it.

use crate::drive::loans::Token;
use crate::drive::world::World;
use crate::drive::Drive;
use crate::node::address::GlobalPtr;
use crate::node::region::Granted;
use crate::Result;
use kumiki_net::os::process;
use kumiki_net::shm::region::Kind;
use std::sync::Arc;

/// Memory that is not ours, registered to be read by all ranks until this is dropped: nobody else reads it afterwards.
pub struct Vouched {
    world: Arc<Drive>,
    granted: Granted,
    bytes: usize,
    /// Of the scope that has lent it, if one has: that waits until this is gone.
    _lent: Option<Token>,
}

impl std::fmt::Debug for Vouched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Vouched({:#x}, {} bytes)", self.granted.address, self.bytes)
    }
}

impl Vouched {
    /// What a scope waits for.
    pub(super) fn with(self, token: Token) -> Vouched {
        let mut vouched = self;
        vouched._lent = Some(token);
        vouched
    }

    /// A pointer to the first byte, for any rank.
    pub fn ptr(&self) -> GlobalPtr<u8> {
        GlobalPtr::new(self.granted.address, self.granted.registration)
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for Vouched {
    fn drop(&mut self) {
        if process::is_forked_child() {
            return;
        }
        self.world.quiesce();
        // It fails only where the memory is registered no more: then nobody reads it.
        let _ = self.world.unregister(self.granted.slot, self.granted.generation);
    }
}

impl World {
    /// Registers raw memory, for other languages, to be read by all ranks: whoever writes to it gets [`Bounds`](crate::Error::Bounds).
    ///
    /// ```
    /// # fn main() -> kumiki_mem::Result<()> {
    /// let world = kumiki_mem::World::init()?;
    /// let memory = [1u8, 2, 3];
    /// // SAFETY: nobody writes to the memory, and it is there until it is given back.
    /// let vouched = unsafe { world.vouch(memory.as_ptr(), memory.len()) }?;
    /// let place = vouched.ptr();
    /// assert_eq!(world.get(place.add(2)), Ok(3));
    /// assert!(world.put(place, 7).is_err());
    /// drop(vouched);
    /// assert!(world.get(place).is_err());
    /// # world.reset(0)?.finalize()
    /// # }
    /// ```
    ///
    /// # Safety
    /// `pointer` must be valid for reads of `bytes`, and nobody may write there, until what this gives has been dropped.
    pub unsafe fn vouch(&self, pointer: *const u8, bytes: usize) -> Result<Vouched> {
        self.note(self.serve_private())?;
        let granted = self.note(self.core().register(pointer.cast_mut(), bytes as u64, Kind::ReadOnly, 0))?;
        Ok(Vouched { world: self.core().clone(), granted, bytes, _lent: None })
    }
}

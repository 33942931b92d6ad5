//! Who may come in.

use crate::auth::{Identity, Secret};
use crate::shm::arena::Arena;
use crate::shm::world::Status;
use crate::{Error, Rank, Result};

/// Who may come in: whoever knows the secret and is still part of the world.
pub(super) struct Admission<'a> {
    pub(super) secret: &'a Secret,
    pub(super) admit: &'a dyn Fn(Identity) -> Result<()>,
    /// How long it may take.
    pub(super) patience_ms: u64,
}

/// A rank of an earlier life of the world, or one that was given up, is not let in again.
pub(super) fn admit(arena: &Arena, identity: Identity) -> Result<()> {
    let current = arena.shared().incarnation();
    if identity.incarnation != current {
        let theirs = identity.incarnation;
        return Err(Error::Refused(format!(
            "rank {} is of life {theirs} of a world in life {current}",
            identity.rank
        )));
    }
    match arena.place(Rank(identity.rank)).map(|word| word.load().status) {
        None => Err(Error::Refused(format!("there is no rank {}", identity.rank))),
        Some(Status::Lost) => Err(Error::Refused(format!("rank {} was given up as lost", identity.rank))),
        Some(_) => Ok(()),
    }
}

/// Fails if a rank was given up.
#[inline]
pub(super) fn not_lost(arena: &Arena, rank: Rank) -> Result<()> {
    match arena.place(rank).map(|word| word.load()) {
        Some(place) if place.status == Status::Lost => {
            Err(Error::PeerLost { rank, why: place.cause.to_string() })
        }
        _ => Ok(()),
    }
}

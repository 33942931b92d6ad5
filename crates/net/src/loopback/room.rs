//! What the endpoints of a loopback share: what has come for each, and the memory that each has registered.

use crate::contract::{Key, Memory, Sleeper};
use crate::wire::Header;
use crate::{Rank, Result};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// So many frames wait for an endpoint at most; those who send more keep them as messages.
const MOST_FRAMES: usize = 64;

/// What has come for an endpoint.
pub(super) enum News {
    Frame { from: Rank, header: Header, bytes: Vec<u8> },
    Lost(Rank),
}

#[derive(Default)]
struct Seat {
    news: VecDeque<News>,
    /// Somebody ended its sleep.
    woken: bool,
    /// It is gone: nothing comes to it any more.
    gone: bool,
}

/// The place where endpoints meet.
pub(super) struct Room {
    seats: Vec<(Mutex<Seat>, Condvar)>,
    memory: Mutex<HashMap<(Rank, Key), Arc<dyn Memory>>>,
}

/// Whether a frame was taken.
#[derive(PartialEq, Eq)]
pub(super) enum Taken {
    Yes,
    Full,
    Gone,
}

impl Room {
    pub(super) fn new(seats: u32) -> Room {
        Room { seats: (0..seats).map(|_| Default::default()).collect(), memory: Mutex::default() }
    }

    fn seat(&self, rank: Rank) -> Option<MutexGuard<'_, Seat>> {
        let (seat, _) = self.seats.get(rank.index())?;
        Some(seat.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    fn rouse(&self, rank: Rank) {
        if let Some((_, came)) = self.seats.get(rank.index()) {
            came.notify_all();
        }
    }

    /// Whether an endpoint has room for a frame.
    pub(super) fn has_room(&self, rank: Rank) -> Taken {
        match self.seat(rank) {
            Some(seat) if seat.gone => Taken::Gone,
            Some(seat) if seat.news.len() < MOST_FRAMES => Taken::Yes,
            Some(_) => Taken::Full,
            None => Taken::Gone,
        }
    }

    pub(super) fn tell(&self, rank: Rank, news: News) {
        if let Some(mut seat) = self.seat(rank).filter(|seat| !seat.gone) {
            seat.news.push_back(news);
        }
        self.rouse(rank);
    }

    pub(super) fn next(&self, rank: Rank) -> Option<News> {
        self.seat(rank)?.news.pop_front()
    }

    /// Bytes that wait for an endpoint.
    pub(super) fn waiting_bytes(&self, rank: Rank) -> u64 {
        let bytes = |news: &News| match news {
            News::Frame { bytes, .. } => (bytes.len() + std::mem::size_of::<News>()) as u64,
            News::Lost(_) => std::mem::size_of::<News>() as u64,
        };
        self.seat(rank).map_or(0, |seat| seat.news.iter().map(bytes).sum())
    }

    /// An endpoint is gone, and so is its memory. Gives those whose frames it has not taken.
    pub(super) fn leave(&self, rank: Rank) -> Vec<Rank> {
        self.memory().retain(|(owner, _), _| *owner != rank);
        let Some(mut seat) = self.seat(rank) else { return Vec::new() };
        seat.gone = true;
        let sender = |news| match news {
            News::Frame { from, .. } => Some(from),
            News::Lost(_) => None,
        };
        seat.news.drain(..).filter_map(sender).collect()
    }

    fn memory(&self) -> MutexGuard<'_, HashMap<(Rank, Key), Arc<dyn Memory>>> {
        self.memory.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn keep(&self, rank: Rank, key: Key, memory: Arc<dyn Memory>) {
        self.memory().insert((rank, key), memory);
    }

    /// Whether it was there.
    pub(super) fn forget(&self, rank: Rank, key: Key) -> bool {
        self.memory().remove(&(rank, key)).is_some()
    }

    pub(super) fn memory_of(&self, rank: Rank, key: Key) -> Option<Arc<dyn Memory>> {
        self.memory().get(&(rank, key)).cloned()
    }
}

/// How an endpoint sleeps.
pub(super) struct Rest(pub(super) Arc<Room>, pub(super) Rank);

impl Sleeper for Rest {
    fn sleep(&self, timeout_ms: i32) -> Result<()> {
        let (Some(mut seat), Some((_, came))) = (self.0.seat(self.1), self.0.seats.get(self.1.index()))
        else {
            return Ok(());
        };
        if seat.news.is_empty() && !seat.woken {
            let time = Duration::from_millis(timeout_ms.max(0) as u64);
            seat = came
                .wait_timeout(seat, time)
                .map_or_else(|poisoned| poisoned.into_inner().0, |(seat, _)| seat);
        }
        seat.woken = false;
        Ok(())
    }

    fn wake(&self) {
        if let Some(mut seat) = self.0.seat(self.1) {
            seat.woken = true;
        }
        self.0.rouse(self.1);
    }
}

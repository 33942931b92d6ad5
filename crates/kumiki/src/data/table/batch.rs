//! The same thing with many keys: those for one part travel together, and several such requests are under way at once.

use super::core::{check_item, read_reply, write_item, Core};
use super::part;
use super::slot::{Item, Op, Sink};
use crate::data::TABLE;
use crate::Result;
use kumiki_mem::{Call, PoolSpan};
use std::collections::VecDeque;

/// A request is sent when it is this long.
const REQUEST_BYTES: usize = 32 << 10;
/// Requests that are under way at once.
const UNDERWAY: usize = 8;

/// Keys for one part that are still to be sent.
struct Queue {
    index: usize,
    items: VecDeque<usize>,
}

/// A request that is under way, and what it is about.
struct Flight<'w> {
    queue: usize,
    items: Vec<usize>,
    call: Call<'w>,
}

/// Keeps the latest value that came.
#[derive(Default)]
struct Latest(Vec<u8>);

impl Sink for Latest {
    fn take(&mut self, span: PoolSpan<'_>, at: u64, bytes: u64) -> Result<()> {
        self.0.clear();
        self.0.take(span, at, bytes)
    }

    fn accept(&mut self, value: &[u8]) {
        self.0.clear();
        self.0.extend_from_slice(value);
    }
}

impl<'w> Core<'w> {
    /// Does something with each item, and tells the number of the item, the answer and the value. When it fails, some
    /// items are done and others are not.
    pub(crate) fn run_many(
        &self,
        op: Op,
        items: &[Item<'_>],
        mut tell: impl FnMut(usize, u64, &[u8]),
    ) -> Result<()> {
        let directory = self.current()?;
        let mut places = Vec::with_capacity(items.len());
        let mut queues: Vec<Queue> = Vec::new();
        let mut queue_of = vec![usize::MAX; directory.entries.len()];
        for (number, &item) in items.iter().enumerate() {
            self.world.note(check_item(item))?;
            let (index, slot) = self.place(item.key);
            places.push((index, slot));
            if !directory.entries[index].near {
                if queue_of[index] == usize::MAX {
                    queue_of[index] = queues.len();
                    queues.push(Queue { index, items: VecDeque::new() });
                }
                queues[queue_of[index]].items.push_back(number);
            }
        }
        let mut flights: VecDeque<Flight<'_>> = VecDeque::new();
        let mut turn = 0;
        let send = |queue: &mut Queue, number: usize| -> Result<Flight<'w>> {
            let mut request = directory.part(queue.index).request(part::EXECUTE).byte(op as u8);
            let mut sent = Vec::new();
            while let Some(item) = queue.items.pop_front() {
                request = write_item(request, places[item].1, op, items[item]);
                sent.push(item);
                if request.len() >= REQUEST_BYTES {
                    break;
                }
            }
            let rank = directory.entries[queue.index].rank;
            let call = self.world.start_call(rank, TABLE, request.finish())?;
            Ok(Flight { queue: number, items: sent, call })
        };
        // The other nodes work while this rank does its own part.
        fill(&mut flights, &mut queues, &mut turn, send)?;
        let mut latest = Latest::default();
        for (number, &item) in items.iter().enumerate() {
            let (index, slot) = places[number];
            if directory.entries[index].near {
                let answer =
                    part::apply(self.world.local(), directory.part(index), slot, op, item, &mut latest);
                let answer = answer.and_then(|answer| answer.ok_or_else(|| part::destroyed(self.kind)));
                let answer = self.world.note(answer)?;
                tell(number, answer, if op == Op::Get && answer > 0 { &latest.0 } else { &[] });
            }
        }
        while let Some(flight) = flights.pop_front() {
            let reply = flight.call.wait()?;
            let fields = read_reply(&reply)?;
            let mut reply = self.world.note(fields.ok_or_else(|| part::destroyed(self.kind)))?;
            let done = (reply.long()? as usize).min(flight.items.len());
            for &item in &flight.items[..done] {
                let answer = reply.long()?;
                tell(item, answer, part::read_value(&mut reply, op, answer)?);
            }
            for &item in flight.items[done..].iter().rev() {
                queues[flight.queue].items.push_front(item);
            }
            fill(&mut flights, &mut queues, &mut turn, send)?;
        }
        Ok(())
    }
}

/// Sends requests until enough are under way, from each queue in turn.
fn fill<'w>(
    flights: &mut VecDeque<Flight<'w>>,
    queues: &mut [Queue],
    turn: &mut usize,
    send: impl Fn(&mut Queue, usize) -> Result<Flight<'w>>,
) -> Result<()> {
    let mut empty = 0;
    while flights.len() < UNDERWAY && empty < queues.len() {
        let number = *turn % queues.len();
        *turn += 1;
        if queues[number].items.is_empty() {
            empty += 1;
        } else {
            flights.push_back(send(&mut queues[number], number)?);
            empty = 0;
        }
    }
    Ok(())
}

//! What happens to a packet between two queues: the first of a queue asks for an output, a free output serves those who ask in turn, and what is
//! served joins the next queue. `PLAIN` says that the network is a plain one, where the same is simpler.

use super::{event, Fabric, Health, Input, Note, Output, Room, TOLD};
use crate::queue::Queue;
use crate::report::Histogram;
use crate::wiring::{Ways, Wiring, NONE};
use crate::Time;
use std::ops::Deref;

impl<W: Deref<Target = Wiring>> Fabric<W> {
    /// The head of the first packet of a queue is there.
    #[inline(always)]
    pub(super) fn head<const PLAIN: bool>(&mut self, queue: usize, now: u64, events: &mut impl Queue) {
        // Where ports are shared it can have asked already, when another channel was done.
        if !self.shared_ports || self.can_ask(queue, now) {
            self.request::<PLAIN>(queue, now, events);
        }
    }

    /// Whether a packet is at the router of its destination.
    #[inline(always)]
    pub(super) fn is_there<const PLAIN: bool>(&self, packet: usize, router: u32) -> bool {
        let way = &self.packets[packet].way;
        match PLAIN {
            true => !way.is_straight() && way.dest == router,
            false => self.wiring.router_of(way.dest) == router,
        }
    }

    /// The first packet of a queue asks for where it wants to go.
    pub(super) fn request<const PLAIN: bool>(&mut self, queue: usize, now: u64, events: &mut impl Queue) {
        if self.is_held::<PLAIN>(queue, now, events) {
            return;
        }
        let Input { head, router, .. } = self.inputs[queue];
        if self.is_there::<PLAIN>(head as usize, router) {
            return self.request_exit::<PLAIN>(queue, now, events);
        }
        let way = &mut self.packets[head as usize].way;
        let next = match &self.wiring.ways {
            Ways::Grid(grid) if PLAIN => grid.next(way, router),
            _ if self.wiring.several_ways => return self.ask_all::<PLAIN>(queue, now, events),
            _ => self.wiring.next(way, router),
        };
        self.ask::<PLAIN>(next.link as usize, usize::from(next.class), queue, now, events);
    }

    /// A queue asks for a link. One that is free has nobody waiting who could use it: whoever comes is served at once, or waits for room.
    #[inline(always)]
    fn ask<const PLAIN: bool>(
        &mut self,
        link: usize,
        class: usize,
        queue: usize,
        now: u64,
        events: &mut impl Queue,
    ) {
        match self.open::<PLAIN>(link, class, queue, now) {
            Some(channel) => self.transmit::<PLAIN>(link, queue, channel, now, events),
            None => self.wait::<PLAIN>(link, class, queue, now, events),
        }
    }

    /// A queue asks for every link that its packet may take, and takes the first that is open.
    fn ask_all<const PLAIN: bool>(&mut self, queue: usize, now: u64, events: &mut impl Queue) {
        let Input { head, router, .. } = self.inputs[queue];
        let mut found = std::mem::take(&mut self.found);
        self.wiring.candidates(&self.packets[head as usize].way, router, &mut found);
        let open = found.iter().find_map(|candidate| {
            let link = candidate.link as usize;
            self.open::<PLAIN>(link, usize::from(candidate.class), queue, now).map(|channel| (link, channel))
        });
        match open {
            Some((link, channel)) => {
                let way = &mut self.packets[head as usize].way;
                way.stage = way.stage.saturating_add(1);
                self.transmit::<PLAIN>(link, queue, channel, now, events);
            }
            None => found.iter().for_each(|candidate| {
                self.wait::<PLAIN>(candidate.link as usize, usize::from(candidate.class), queue, now, events)
            }),
        }
        self.found = found;
    }

    /// The channel that a queue could send to over a link now.
    #[inline(always)]
    fn open<const PLAIN: bool>(&self, link: usize, class: usize, queue: usize, now: u64) -> Option<usize> {
        if self.outputs[link].until > now {
            return None;
        }
        let needed = if queue < self.link_queues { 1 } else { self.entrance };
        let (channel, room) = self.room::<PLAIN>(link, class);
        (room >= needed).then_some(channel)
    }

    /// A queue waits for an output: until it is free, or has room behind it.
    #[inline(always)]
    pub(super) fn wait<const PLAIN: bool>(
        &mut self,
        output: usize,
        class: usize,
        queue: usize,
        now: u64,
        events: &mut impl Queue,
    ) {
        let place = &mut self.inputs[queue].place;
        place.set_asked(true);
        let bit = place.bit();
        let (word, mask) = self.requests_of::<PLAIN>(output, class, bit);
        *word |= mask;
        let out = &mut self.outputs[output];
        if out.until <= now {
            self.await_room::<PLAIN>(output, class);
        } else if out.until != TOLD {
            events.push(out.until, event::TAIL | output as u64);
            out.until = TOLD;
        }
    }

    /// A free link of a plain network waits for room where anybody asks for it.
    #[inline(always)]
    fn await_room_if_asked(&mut self, link: usize) {
        let requests = self.outputs[link].requests;
        for class in (0..2).filter(|&class| requests[class] != 0) {
            self.await_room::<true>(link, class);
        }
    }

    /// A free link waits for room in the buffers of a class.
    #[inline(always)]
    fn await_room<const PLAIN: bool>(&mut self, link: usize, class: usize) {
        if PLAIN {
            self.inputs[2 * link + class].room.0 |= Room::AWAITED;
        } else {
            let first = link * self.channels + class * self.lanes;
            self.inputs[first..][..self.lanes].iter_mut().for_each(|input| input.room.0 |= Room::AWAITED);
        }
    }

    /// The word in which a queue's request for an output is kept, and its bit there.
    #[inline(always)]
    pub(super) fn requests_of<const PLAIN: bool>(
        &mut self,
        output: usize,
        class: usize,
        bit: u16,
    ) -> (&mut u32, u32) {
        if PLAIN {
            (&mut self.outputs[output].requests[class & 1], 1 << (bit % 32))
        } else {
            let (word, mask) = self.place(output, class, bit);
            (&mut self.requests[word], mask)
        }
    }

    /// The same as a place in the table of requests, in a network that is not plain.
    #[inline(always)]
    fn place(&self, output: usize, class: usize, bit: u16) -> (usize, u32) {
        let bit = usize::from(bit);
        ((output * self.classes + class) * self.words + bit / WORD, 1 << (bit % WORD))
    }

    /// Whether a queue asks for an output.
    pub(super) fn asks(&self, output: usize, class: usize, bit: u16) -> bool {
        match self.plain {
            true => self.outputs[output].requests[class] & 1 << bit != 0,
            false => {
                let (word, mask) = self.place(output, class, bit);
                self.requests[word] & mask != 0
            }
        }
    }

    /// Whether any queue asks for an output.
    #[inline(always)]
    fn is_asked_for<const PLAIN: bool>(&self, output: usize) -> bool {
        if PLAIN {
            return self.outputs[output].requests != [0; 2];
        }
        let words = self.classes * self.words;
        self.requests[output * words..][..words].iter().any(|&word| word != 0)
    }

    /// Gives a link that has become free to the next queue that asks for it and whose packet has room ahead.
    #[inline(always)]
    fn arbitrate<const PLAIN: bool>(&mut self, link: usize, now: u64, events: &mut impl Queue) {
        let last = self.outputs[link].last;
        if PLAIN {
            let eligible = self.eligible_of_both(link);
            match next_bit(eligible[0] | eligible[1], last) {
                Some(bit) => {
                    let class = usize::from(eligible[1] & 1 << (bit % 32) != 0);
                    self.serve::<PLAIN>(link, class, bit, 2 * link + class, now, events);
                }
                None => self.await_room_if_asked(link),
            }
            return;
        }
        let any = |word: usize| {
            (0..self.classes).fold(0, |bits, class| bits | self.eligible::<PLAIN>(link, class, word))
        };
        let Some(bit) = next_of_words(self.words, last, any) else {
            return (0..self.classes).for_each(|class| self.await_room::<PLAIN>(link, class));
        };
        for class in (0..self.classes).rev() {
            let word = usize::from(bit) / WORD;
            if self.eligible::<PLAIN>(link, class, word) & 1 << (usize::from(bit) % WORD) != 0 {
                let channel = self.room::<PLAIN>(link, class).0;
                return self.serve::<PLAIN>(link, class, bit, channel, now, events);
            }
        }
    }

    /// The queues that ask for a link of a plain network and have room ahead, for both classes. Which have it nobody can foresee: without
    /// branches it takes less time.
    #[inline(always)]
    fn eligible_of_both(&self, link: usize) -> [u32; 2] {
        let Output { requests, through, .. } = self.outputs[link];
        let [first, second] = &self.inputs[2 * link..][..2] else { unreachable!("two channels") };
        let through = ones(usize::from(through));
        let allowed = |room: u16| bits_if(room > 0, through) | bits_if(room >= self.entrance, !0);
        [requests[0] & allowed(first.room.packets()), requests[1] & allowed(second.room.packets())]
    }

    /// One word of the queues that ask for a link on a class and have room ahead.
    #[inline(always)]
    fn eligible<const PLAIN: bool>(&self, link: usize, class: usize, word: usize) -> u32 {
        let out = &self.outputs[link];
        let asked = match PLAIN {
            true => out.requests[class],
            false => self.requests[(link * self.classes + class) * self.words + word],
        };
        if asked == 0 {
            return 0;
        }
        self.allowed(self.room::<PLAIN>(link, class).1, out.through, word) & asked
    }

    /// The queues that may send where there is so much room: if there is little, only those of links.
    #[inline(always)]
    fn allowed(&self, room: u16, through: u16, word: usize) -> u32 {
        match room {
            room if room >= self.entrance => !0,
            0 => 0,
            _ => ones(usize::from(through).saturating_sub(WORD * word)),
        }
    }

    /// The channel of a class with the most room behind a link, and how much it has.
    #[inline(always)]
    fn room<const PLAIN: bool>(&self, link: usize, class: usize) -> (usize, u16) {
        if PLAIN {
            let channel = 2 * link + class;
            return (channel, self.inputs[channel].room.packets());
        }
        let first = link * self.channels + class * self.lanes;
        let mut best = (first, self.inputs[first].room.packets());
        for channel in first + 1..first + self.lanes {
            let room = self.inputs[channel].room.packets();
            if room > best.1 {
                best = (channel, room);
            }
        }
        best
    }

    /// A queue that has asked for a link sends over it.
    #[inline(always)]
    fn serve<const PLAIN: bool>(
        &mut self,
        link: usize,
        class: usize,
        bit: u16,
        channel: usize,
        now: u64,
        events: &mut impl Queue,
    ) {
        let queue = self.queue_of_bit[self.outputs[link].table as usize + usize::from(bit)] as usize;
        self.inputs[queue].place.set_asked(false);
        if !PLAIN && self.wiring.several_ways {
            self.withdraw(queue, bit);
            let way = &mut self.packets[self.inputs[queue].head as usize].way;
            way.stage = way.stage.saturating_add(1);
        } else {
            let (word, mask) = self.requests_of::<PLAIN>(link, class, bit);
            *word &= !mask;
        }
        self.transmit::<PLAIN>(link, queue, channel, now, events);
    }

    /// Takes back what a packet with several ways has asked for.
    pub(super) fn withdraw(&mut self, queue: usize, bit: u16) {
        let Input { head, router, .. } = self.inputs[queue];
        let mut found = std::mem::take(&mut self.found);
        self.wiring.candidates(&self.packets[head as usize].way, router, &mut found);
        for candidate in &found {
            let (word, mask) = self.place(candidate.link as usize, usize::from(candidate.class), bit);
            self.requests[word] &= !mask;
        }
        self.found = found;
    }

    /// A queue sends its first packet over a link into a channel.
    fn transmit<const PLAIN: bool>(
        &mut self,
        link: usize,
        queue: usize,
        channel: usize,
        now: u64,
        events: &mut impl Queue,
    ) {
        let asked = self.hold_others::<PLAIN>(queue) | self.is_asked_for::<PLAIN>(link);
        let from_link = queue < self.link_queues;
        let out = &mut self.outputs[link];
        let speed = if PLAIN { self.speed } else { self.speeds[usize::from(out.speed)] };
        let input = &mut self.inputs[queue];
        let index = input.head;
        let packet = &mut self.packets[index as usize];
        let (bytes, ps) = match packet.is_last() {
            true => self.rests[packet.message as usize].time_on(&speed, self.packet_bytes),
            false => (self.packet_bytes, speed.packet_ps),
        };
        let mut tail = now + ps;
        if !PLAIN {
            // A tail cannot leave before it has come: a fast link behind a slow one waits for it.
            let tail_in = &mut self.tails_in[index as usize];
            tail = tail.max(*tail_in);
            *tail_in = tail + speed.hop_ps;
        }
        let arrival = now + speed.hop_ps;
        let waited = now - packet.arrived;
        packet.arrived = arrival;
        let next = std::mem::replace(&mut packet.next, NONE);
        let told = asked | (next != NONE) | !from_link;
        let until = if told { TOLD } else { tail };
        out.until = until;
        out.source = if told { queue as u32 } else { NONE };
        out.last = input.place.bit();
        self.carried[link] += u64::from(bytes);
        input.gone = until;
        input.head = next;
        self.waited[Histogram::bucket(Time::from_ps(waited))] += 1;
        self.packet_hops += 1;
        self.join(channel, index, arrival, events);
        if told {
            events.push(tail, event::TAIL | link as u64);
        }
        if from_link {
            self.make_room::<PLAIN>(queue, tail, now, events);
        }
    }

    /// A packet is on its way to a queue. Nobody overtakes it on its link, so it joins at once; if nobody is in front of it, it asks for its
    /// output when its head is there and the packet before it gone.
    #[inline(always)]
    fn join(&mut self, queue: usize, index: u32, arrival: u64, events: &mut impl Queue) {
        let input = &mut self.inputs[queue];
        input.room.0 -= 1;
        let last = std::mem::replace(&mut input.tail, index);
        if input.head != NONE {
            self.packets[last as usize].next = index;
            return;
        }
        input.head = index;
        if input.gone != TOLD {
            events.push(arrival.max(input.gone), event::HEAD | queue as u64);
        }
    }

    /// The first packet of a queue has begun to leave. Its room empties as it goes, and the next packet fills it no faster than its link
    /// carries it: so the sender may start when the rest of the one is gone by the time that the other has come. Between links of one
    /// speed that is at once, as with credits that are counted in flits.
    #[inline(always)]
    pub(super) fn make_room<const PLAIN: bool>(
        &mut self,
        queue: usize,
        tail: u64,
        now: u64,
        events: &mut impl Queue,
    ) {
        let mut at = now + self.credit_ps;
        if !PLAIN {
            let speed = &self.speeds[usize::from(self.outputs[self.link_of::<PLAIN>(queue)].speed)];
            at = at.max(tail.saturating_sub(speed.packet_ps) + self.credit_ps);
        }
        if at > now {
            return events.push(at, event::CREDIT | queue as u64);
        }
        let room = &mut self.inputs[queue].room.0;
        *room += 1;
        // Those who wait are served when all that this event does is done.
        if *room & Room::AWAITED != 0 {
            self.left.push(queue as u32);
        }
    }

    /// The sender of a link learns later of room in a buffer.
    pub(super) fn credit<const PLAIN: bool>(&mut self, channel: usize, now: u64, events: &mut impl Queue) {
        self.inputs[channel].room.0 += 1;
        self.use_room::<PLAIN>(channel, now, events);
    }

    /// Serves those who waited for room, which may make room for others.
    #[inline(always)]
    pub(super) fn tell_senders<const PLAIN: bool>(&mut self, now: u64, events: &mut impl Queue) {
        if self.left.is_empty() {
            return;
        }
        let mut told = 0;
        while let Some(&channel) = self.left.get(told) {
            told += 1;
            self.use_room::<PLAIN>(channel as usize, now, events);
        }
        self.left.clear();
    }

    /// There is room in a buffer: if the link to it is free, it serves whoever waited for that.
    #[inline(always)]
    fn use_room<const PLAIN: bool>(&mut self, channel: usize, now: u64, events: &mut impl Queue) {
        let link = self.link_of::<PLAIN>(channel);
        let room = self.inputs[channel].room.packets();
        self.inputs[channel].room = Room(room);
        let Output { until, last, through, requests, .. } = self.outputs[link];
        if until > now {
            return;
        }
        let class = if PLAIN { channel % 2 } else { channel % self.channels / self.lanes };
        let bit = if PLAIN {
            next_bit(requests[class] & self.allowed(room, through, 0), last)
        } else {
            let first = (link * self.classes + class) * self.words;
            let asked = |word: usize| self.requests[first + word] & self.allowed(room, through, word);
            next_of_words(self.words, last, asked)
        };
        match bit {
            Some(bit) => self.serve::<PLAIN>(link, class, bit, channel, now, events),
            None => self.await_room::<PLAIN>(link, class),
        }
    }

    /// The link that feeds a queue.
    #[inline(always)]
    pub(super) fn link_of<const PLAIN: bool>(&self, queue: usize) -> usize {
        if PLAIN {
            queue / 2
        } else {
            queue / self.channels
        }
    }

    /// A tail has left a link: the link is free, and so is the queue that sent.
    #[inline(always)]
    pub(super) fn tail<const PLAIN: bool>(&mut self, link: usize, now: u64, events: &mut impl Queue) {
        // While it still counts as busy, the next packet of the queue only asks: others may have waited longer.
        let source = self.outputs[link].source;
        if source != NONE {
            self.vacate::<PLAIN>(source as usize, now, events);
        }
        let out = &mut self.outputs[link];
        if out.health != Health::Up {
            (out.health, out.source) = (Health::Down, NONE);
            return;
        }
        out.until = now;
        self.arbitrate::<PLAIN>(link, now, events);
    }

    /// A link goes down, or comes up again. What is on it arrives; what wants to go over it waits, or takes another way where there is one.
    /// A link that is down counts as busy.
    pub(crate) fn set_down(&mut self, link: u32, down: bool, now: u64, events: &mut impl Queue) {
        let out = &mut self.outputs[link as usize];
        match (out.health, down) {
            (Health::Up, true) if out.until <= now => {
                (out.health, out.until, out.source) = (Health::Down, TOLD, NONE);
            }
            (Health::Up, true) => {
                out.health = Health::Failing;
                if out.until != TOLD {
                    events.push(out.until, event::TAIL | u64::from(link));
                    out.until = TOLD;
                }
            }
            (Health::Failing, false) => out.health = Health::Up,
            (Health::Down, false) => {
                (out.health, out.until) = (Health::Up, now);
                match self.plain {
                    true => self.serve_again::<true>(link as usize, now, events),
                    false => self.serve_again::<false>(link as usize, now, events),
                }
            }
            _ => {}
        }
    }

    fn serve_again<const PLAIN: bool>(&mut self, link: usize, now: u64, events: &mut impl Queue) {
        self.arbitrate::<PLAIN>(link, now, events);
        self.tell_senders::<PLAIN>(now, events);
    }

    /// A packet is gone from the queue it was in: the next one asks, if its head is there.
    #[inline(always)]
    pub(super) fn vacate<const PLAIN: bool>(&mut self, queue: usize, now: u64, events: &mut impl Queue) {
        if queue < self.link_queues {
            self.inputs[queue].gone = now;
            self.release_others::<PLAIN>(queue, now, events);
            let head = self.inputs[queue].head;
            if head != NONE {
                match self.packets[head as usize].arrived {
                    arrived if arrived > now => events.push(arrived, event::HEAD | queue as u64),
                    _ => self.request::<PLAIN>(queue, now, events),
                }
            }
        } else {
            let packet = &self.packets[self.inputs[queue].tail as usize];
            if packet.is_last() {
                self.notes.push(Note::Sent(packet.message));
            }
            self.slot_free::<PLAIN>(queue - self.link_queues, now, events);
        }
    }

    /// The next queue that asks for the way out to an interface.
    pub(super) fn next_for_exit<const PLAIN: bool>(&mut self, output: usize) -> Option<usize> {
        let Output { last, table, requests, .. } = self.outputs[output];
        let bit = if PLAIN {
            next_bit(requests[0], last)
        } else {
            let first = output * self.classes * self.words;
            next_of_words(self.words, last, |word| self.requests[first + word])
        }?;
        let (word, mask) = self.requests_of::<PLAIN>(output, 0, bit);
        *word &= !mask;
        let queue = self.queue_of_bit[table as usize + usize::from(bit)] as usize;
        self.inputs[queue].place.set_asked(false);
        Some(queue)
    }
}

/// Bits of a word of requests.
pub(super) const WORD: usize = 32;

/// The bits, if so; without a branch.
#[inline(always)]
fn bits_if(so: bool, bits: u32) -> u32 {
    bits & u32::from(so).wrapping_neg()
}

/// The lowest so many bits.
#[inline]
fn ones(count: usize) -> u32 {
    if count >= WORD {
        !0
    } else {
        (1 << count) - 1
    }
}

/// The first set bit after the last one served, around the end, over several words.
fn next_of_words(words: usize, last: u16, bits_of: impl Fn(usize) -> u32) -> Option<u16> {
    let start = usize::from(last) / WORD;
    let after = (!0u32 << (usize::from(last) % WORD)) << 1;
    for turn in 0..=words {
        let word = (start + turn) % words;
        let mut bits = bits_of(word);
        if turn == 0 {
            bits &= after;
        } else if turn == words {
            bits &= !after;
        }
        if bits != 0 {
            return Some((word * WORD) as u16 + bits.trailing_zeros() as u16);
        }
    }
    None
}

/// The same in one word.
#[inline]
fn next_bit(bits: u32, last: u16) -> Option<u16> {
    if bits == 0 {
        return None;
    }
    let after = bits & ((!0u32 << last) << 1);
    Some(if after != 0 { after.trailing_zeros() } else { bits.trailing_zeros() } as u16)
}

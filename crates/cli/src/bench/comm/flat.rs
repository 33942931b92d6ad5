//! Collectives as one writes them without a library: a binomial tree of all processes over bare sockets, which knows nothing of nodes and
//! blocks. Nothing of Kumiki is on the path that is timed.

use super::super::worker::{Measured, Request, FIRST_WORD};
use super::ours::{text, Comm, Done};
use kumiki_run::system::avoid_pacing;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;

/// How lines begin that only this answers.
pub(in crate::bench) const FLAT: &str = "comm.flat.";
/// The word of starter memory with the port of a rank.
const PORT_WORD: usize = FIRST_WORD as usize + 9;

/// Sockets to those whom a rank may meet in a tree, whichever rank is its root.
pub(in crate::bench) struct Flat {
    me: u32,
    ranks: u32,
    sockets: Vec<Option<TcpStream>>,
}

impl Comm<'_> {
    /// Microseconds of a call of all ranks that moves one number: the root of a broadcast goes round, and a sum goes to rank 0 and back.
    pub(super) fn flat_collective(&mut self, name: &str, request: &Request) -> Measured {
        let mut flat = match self.flat.take() {
            Some(flat) => flat,
            None => self.connect_flat()?,
        };
        let ranks = flat.ranks;
        let times = self.together(request, |count| {
            for number in 0..count {
                let root = (number % u64::from(ranks)) as u32;
                let (got, expected) = match name {
                    "bcast" => {
                        let value = if flat.me == root { number as f64 } else { -1.0 };
                        (flat.broadcast(root, value)?, number as f64)
                    }
                    _ => {
                        let sum = flat.reduce(1.0)?;
                        (flat.broadcast(0, sum)?, f64::from(ranks))
                    }
                };
                if got != expected {
                    return Err(format!("a value of {name} is wrong"));
                }
            }
            Ok(())
        });
        self.flat = Some(flat);
        Ok(times?.into_iter().map(|nanoseconds| nanoseconds / 1e3).collect())
    }

    /// Every rank calls it.
    fn connect_flat(&self) -> Done<Flat> {
        let (world, wrong) = (self.world, |error: std::io::Error| error.to_string());
        let (me, ranks) = (world.rank(), world.ranks());
        let word = |rank| Ok::<_, String>(world.starter::<u64>(rank).map_err(text)?.add(PORT_WORD));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(wrong)?;
        world.put(word(me)?, u64::from(listener.local_addr().map_err(wrong)?.port())).map_err(text)?;
        world.sync().map_err(text)?;
        let mut flat = Flat { me, ranks, sockets: (0..ranks).map(|_| None).collect() };
        let meets = |other: u32| other != me && (is_step(me, other, ranks) || is_step(other, me, ranks));
        for other in (0..me).filter(|&other| meets(other)) {
            let port = world.get(word(other)?).map_err(text)? as u16;
            let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(wrong)?;
            socket.write_all(&me.to_ne_bytes()).map_err(wrong)?;
            flat.sockets[other as usize] = Some(socket);
        }
        for _ in (me + 1..ranks).filter(|&other| meets(other)) {
            let (mut socket, _) = listener.accept().map_err(wrong)?;
            let mut bytes = [0; 4];
            socket.read_exact(&mut bytes).map_err(wrong)?;
            let place = flat.sockets.get_mut(u32::from_ne_bytes(bytes) as usize).ok_or("a stranger")?;
            *place = Some(socket);
        }
        for socket in flat.sockets.iter().flatten() {
            socket.set_nodelay(true).map_err(wrong)?;
            avoid_pacing(socket.as_fd());
        }
        world.sync().map_err(text)?;
        Ok(flat)
    }
}

/// Whether it is a power of two from one rank to the other, round the end.
fn is_step(from: u32, to: u32, ranks: u32) -> bool {
    ((to + ranks - from) % ranks).is_power_of_two()
}

impl Flat {
    /// Who is so far from the root.
    fn rank_at(&self, place: u32, root: u32) -> u32 {
        (place + root) % self.ranks
    }

    /// The children of a place, the one with the most below it first.
    fn children(&self, place: u32) -> impl DoubleEndedIterator<Item = u32> + use<> {
        let (bits, ranks) = (if place == 0 { 31 } else { place.trailing_zeros() }, self.ranks);
        (0..bits).rev().map(move |bit| place + (1 << bit)).filter(move |&child| child < ranks)
    }

    fn broadcast(&mut self, root: u32, mut value: f64) -> Done<f64> {
        let place = (self.me + self.ranks - root) % self.ranks;
        if place != 0 {
            value = self.receive(self.rank_at(place & (place - 1), root))?;
        }
        self.children(place).try_for_each(|child| self.send(self.rank_at(child, root), value))?;
        Ok(value)
    }

    /// The sum of all values, at rank 0.
    fn reduce(&mut self, mut value: f64) -> Done<f64> {
        for child in self.children(self.me).rev() {
            value += self.receive(child)?;
        }
        if self.me != 0 {
            self.send(self.me & (self.me - 1), value)?;
        }
        Ok(value)
    }

    fn socket(&self, rank: u32) -> Done<&TcpStream> {
        self.sockets[rank as usize].as_ref().ok_or_else(|| format!("there is no socket to rank {rank}"))
    }

    fn send(&self, to: u32, value: f64) -> Done<()> {
        self.socket(to)?.write_all(&value.to_ne_bytes()).map_err(|error| error.to_string())
    }

    fn receive(&self, from: u32) -> Done<f64> {
        let mut bytes = [0; 8];
        self.socket(from)?.read_exact(&mut bytes).map_err(|error| error.to_string())?;
        Ok(f64::from_ne_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_a_tree_has_one_parent_and_whoever_is_met_is_a_power_of_two_away() {
        for ranks in 1..40 {
            let flat = Flat { me: 0, ranks, sockets: Vec::new() };
            let mut seen = vec![0; ranks as usize];
            for place in 0..ranks {
                for child in flat.children(place) {
                    seen[child as usize] += 1;
                    assert_eq!(child & (child - 1), place);
                    assert!(is_step(flat.rank_at(place, 3), flat.rank_at(child, 3), ranks));
                }
            }
            assert!(seen[0] == 0 && seen[1..].iter().all(|&count| count == 1), "{ranks}: {seen:?}");
        }
    }
}

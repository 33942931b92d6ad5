//! A few ranks for the tests of this room: each has a node and an engine of its own, and messages go where a test carries them.

use crate::engine::calls::Services;
use crate::engine::operations::{Action, Operation, Side};
use crate::engine::order::Condition;
use crate::engine::{Engine, Feed};
use crate::node::address::{GlobalAddress, Registration, STARTER_SLOT};
use crate::node::atomic::{AtomicCall, AtomicOp};
use crate::node::local::Local;
use crate::node::Node;
use kumiki_net::contract::{Message, Outbox, Sink};
use kumiki_net::shm::arena::Arena;
use kumiki_net::terms::Terms;
use kumiki_net::Rank;
use std::sync::Arc;

/// Ranks, each on a node of its own.
pub(crate) struct Stage {
    pub(crate) nodes: Vec<Node>,
    pub(crate) engines: Vec<Engine>,
}

impl Stage {
    pub(crate) fn new(ranks: u32) -> Stage {
        let views = Arena::apart(1, ranks, Terms::default()).expect("an arena");
        let node = |(rank, view)| Node::new(Arc::new(view), Rank(rank), true, true, 0).expect("a node");
        let engine = |_| Engine::new(Services::default());
        Stage { nodes: (0..).zip(views).map(node).collect(), engines: (0..ranks).map(engine).collect() }
    }

    pub(crate) fn feed(&mut self, rank: u32) -> Feed<'_> {
        self.engines[rank as usize].feed(&self.nodes[rank as usize])
    }

    /// A place in the starter memory of a rank.
    pub(crate) fn address(&self, rank: u32, at: u64) -> GlobalAddress {
        self.nodes[0].format.address(Rank(rank), STARTER_SLOT, at)
    }

    pub(crate) fn side(&self, rank: u32, at: u64) -> Side {
        Side::Global(self.address(rank, at), Registration::ANY)
    }

    pub(crate) fn copy(&self, to: (u32, u64), from: (u32, u64), bytes: u64) -> Action {
        Action::Copy { dst: self.side(to.0, to.1), src: self.side(from.0, from.1), bytes }
    }

    pub(crate) fn adding(&self, rank: u32, at: u64, number: u64) -> AtomicCall {
        let (code, first, second) = AtomicOp::Add(number).encode();
        AtomicCall { target: self.address(rank, at), registration: Registration::ANY, code, first, second }
    }

    pub(crate) fn write(&self, rank: u32, at: u64, bytes: &[u8]) {
        let local = Local { node: &self.nodes[rank as usize], busy: None };
        local.span(self.address(rank, at), bytes.len() as u64).and_then(|span| span.write(0, bytes)).unwrap();
    }

    pub(crate) fn read(&self, rank: u32, at: u64, bytes: usize) -> Vec<u8> {
        let local = Local { node: &self.nodes[rank as usize], busy: None };
        let mut found = vec![0; bytes];
        local.span(self.address(rank, at), bytes as u64).and_then(|span| span.read(0, &mut found)).unwrap();
        found
    }

    pub(crate) fn word(&self, rank: u32, at: u64) -> u64 {
        u64::from_le_bytes(self.read(rank, at, 8).try_into().unwrap())
    }

    /// Enters an operation of the program of a rank that has been sent to `peer`, or still waits for what is before it.
    pub(crate) fn enter(&mut self, rank: u32, id: u64, action: Action, peer: Option<u32>) {
        let condition = if peer.is_some() { Condition::Free } else { Condition::Exactly(id - 1) };
        let operation = Operation { peer: peer.map(Rank), ..Operation::of_program(action, condition) };
        self.engines[rank as usize].operations.insert(id, operation);
    }

    /// Gives a rank the frame of a message of another, without payload; what it has to say to that.
    pub(crate) fn deliver(&mut self, to: u32, from: u32, message: &Message) -> Vec<(u32, Message)> {
        let mut out = Outbox::default();
        self.feed(to).frame(Rank(from), 0, &message.header, &mut out);
        out.messages.drain(..).map(|(to, message)| (to.0, message)).collect()
    }
}

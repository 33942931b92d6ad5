//! Copies of shapes and puts with a signal in the random programs: whoever finds the word changed finds all of the data.

use super::{pattern, Issued, Member, Script, Storm, Wanted, PLACES, PLACES_AT, PLACE_BYTES, SOURCE_BYTES};
use crate::engine::operations::Action;
use crate::engine::sections::{Near, Recipe};
use crate::engine::start::{self, Started};
use crate::node::address::Registration;
use crate::node::atomic::{AtomicCall, AtomicOp};
use crate::node::shape::Shape;
use kumiki_net::auth;
use kumiki_net::contract::Outbox;
use kumiki_net::Rank;

/// Six rows of four bytes, every eight; behind them, in the same place, is the word.
const ROWS: [(u64, i64); 1] = [(6, 8)];
const ROW_BYTES: u64 = 4;
const BYTES: u64 = 24;
const WORD_AT: u64 = 56;

impl Storm {
    pub(super) fn shape(&mut self, rank: u32, script: &mut Script<'_>) {
        let (to, wants) = (script.below(self.ranks().into()) as u32, script.below(2) == 1);
        let at = script.next() * 3 % (SOURCE_BYTES - PLACE_BYTES);
        let used = self.used.entry(to).or_default();
        if to == rank || *used == PLACES || self.issued.len() >= super::MOST_OPERATIONS {
            return;
        }
        let place = if wants { at } else { PLACES_AT + *used * PLACE_BYTES };
        *used += u64::from(!wants);
        let buffer: Box<[u8]> = (0..BYTES).map(|byte| if wants { 0 } else { pattern(rank, byte) }).collect();
        self.lent.push(buffer);
        let lent = self.lent.len() - 1;
        let near = Near {
            lowest: self.lent[lent].as_mut_ptr() as usize,
            shape: Shape::of_rows(BYTES, &[]).unwrap(),
            first: 0,
            bytes: BYTES,
        };
        let shape = Shape::of_rows(ROW_BYTES, &ROWS).unwrap();
        let (code, first, second) = AtomicOp::Add(1u64).encode();
        let target = self.address(to, place + WORD_AT);
        let call = AtomicCall { target, registration: Registration::ANY, code, first, second };
        let recipe = Recipe {
            address: self.address(to, place),
            registration: Registration::ANY,
            whole_low: shape.low(),
            whole_span: shape.span(),
            shape,
            signal: (!wants).then_some(call),
        };
        let recipe = recipe.encode();
        let (recipe_bytes, digest) = (recipe.len() as u32, auth::digest(&recipe));
        let Member { node, engine, .. } = &mut self.members[rank as usize];
        let id = engine.new_internal();
        engine.sections.begin(id, recipe, near, wants);
        let action = Action::Shape { to: Rank(to), digest, bytes: BYTES, recipe_bytes, wants };
        let Ok(Started::Sent(peer, message)) = start::start(node, action) else { panic!("a recipe is sent") };
        let message = engine.enter(id, peer, action, message);
        engine.feed(node).settle();
        let wanted = Wanted::Shape { to, place, wants, lent };
        self.issued.push(Issued { rank, id, wanted, ended: None });
        let mut out = Outbox::default();
        out.messages.push((peer, message));
        self.post(rank, out);
    }

    /// Rows that were got are those of the source, and rows behind a word that was changed are all there, and nothing between them.
    pub(super) fn check_shapes(&self) {
        for issued in &self.issued {
            let Wanted::Shape { to, place, wants, lent } = issued.wanted else { continue };
            if !self.is_honest(to) || !self.is_honest(issued.rank) {
                continue;
            }
            let done = issued.ended == Some(Ok(()));
            let row = |byte: u64| byte / ROW_BYTES * 8 + byte % ROW_BYTES;
            if wants {
                let right = (0..BYTES).map(|byte| pattern(to, place + row(byte)));
                assert!(!done || right.eq(self.lent[lent].iter().copied()), "rows of rank {to}");
                continue;
            }
            let word = self.read_word(to, place + WORD_AT);
            assert!(word <= 1 && (word == 1 || !done), "a signal was given {word} times");
            let mut right = vec![0; WORD_AT as usize];
            (0..BYTES).for_each(|byte| right[row(byte) as usize] = pattern(issued.rank, byte));
            assert!(word == 0 || self.read(to, place, WORD_AT) == right, "a signal without its data");
        }
    }
}

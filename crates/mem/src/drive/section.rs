//! Copies of shapes between memory of this process and that of any rank, and puts with a signal. On the node they are loops over rows;
//! otherwise one message with a recipe.

use crate::drive::issue::Number;
use crate::drive::world::World;
use crate::drive::Drive;
use crate::engine::sections::{Near, Recipe, MOST_PIECES};
use crate::engine::start;
use crate::node::access::Reach;
use crate::node::address::{GlobalAddress, GlobalPtr};
use crate::node::atomic::{self, AtomicCall, AtomicOp, AtomicWord};
use crate::node::copy;
use crate::node::shape::{move_shape, Laid, Shape};
use crate::{Error, Pod, Result};
use kumiki_net::os::process;
use kumiki_net::shm::control::Activity;
use kumiki_net::Rank;

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Put,
    Get,
}

/// An operation by recipe that is under way: memory of the caller is lent to it until this is dropped.
struct Begun<'a> {
    core: &'a Drive,
    id: u64,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        // In a forked child the engine may be held by a thread that does not exist there.
        if process::is_forked_child() {
            return;
        }
        let mut machine = self.core.machine();
        let engine = &mut machine.engine;
        engine.operations.remove(self.id);
        let _ = engine.operations.take_result_of(self.id);
        engine.sections.end(self.id);
        engine.feed(self.core).settle();
    }
}

impl World {
    /// Writes the elements of a shape of `values` to those of a shape behind `to`; they are at their places when this returns. Both
    /// shapes have the same number of elements, and each is gone through in its own order. Nothing is written if anything of it
    /// lies outside of its region.
    pub fn put_shape<T: Pod>(
        &self,
        to: GlobalPtr<T>,
        there: &Shape,
        values: &[T],
        here: &Shape,
    ) -> Result<()> {
        let near = self.near::<T>(values.as_ptr() as usize, values.len(), here);
        self.core().note(near.and_then(|near| self.move_by_shape(Way::Put, to, there, near)))
    }

    /// Reads the elements of a shape behind `from` into those of a shape of `into`; as [`put_shape`](Self::put_shape).
    pub fn get_shape<T: Pod>(
        &self,
        from: GlobalPtr<T>,
        there: &Shape,
        into: &mut [T],
        here: &Shape,
    ) -> Result<()> {
        let near = self.near::<T>(into.as_mut_ptr() as usize, into.len(), here);
        self.core().note(near.and_then(|near| self.move_by_shape(Way::Get, from, there, near)))
    }

    /// Writes elements, and then changes a word of the same rank: whoever sees the word changed, by an atomic operation or by waiting
    /// for it, sees the elements. Between nodes it is one message. If it fails, the word is as it was, unless the error says that its fate
    /// is unknown.
    pub fn put_signal<T: Pod, W: AtomicWord>(
        &self,
        to: GlobalPtr<T>,
        values: &[T],
        word: GlobalPtr<W>,
        signal: AtomicOp<W>,
    ) -> Result<()> {
        let put = self.put_here_or_recipe(to, values, word, signal).and_then(|put| match put {
            Some((owner, recipe, near)) => self.do_by_recipe(owner, Way::Put, recipe, near),
            None => Ok(()),
        });
        self.core().note(put)
    }

    /// Memory of the caller, in bytes, if the shape lies in it.
    fn near<T: Pod>(&self, start: usize, length: usize, shape: &Shape) -> Result<Near> {
        let inside = shape.low() >= 0 && shape.low() as u64 + shape.span() <= length as u64;
        if !inside && !shape.is_empty() {
            let wrong = format!("a shape that reaches from {} over {} elements", shape.low(), shape.span());
            return Err(Error::misuse(format!("{wrong}; the slice has {length}")));
        }
        let shape = shape.in_bytes(size_of::<T>())?;
        let bytes = shape.total();
        Ok(Near { lowest: start + shape.low() as usize, shape, first: 0, bytes })
    }

    fn move_by_shape<T: Pod>(&self, way: Way, far: GlobalPtr<T>, there: &Shape, near: Near) -> Result<()> {
        let core = self.core();
        core.check_usable()?;
        let shape = there.in_bytes(size_of::<T>())?;
        if shape.total() != near.bytes {
            let (one, other) = (shape.total(), near.bytes);
            return Err(Error::misuse(format!("shapes of {one} bytes there and {other} here")));
        }
        if shape.is_empty() {
            return Ok(());
        }
        let start = GlobalAddress::from_bits(far.address.bits().wrapping_add_signed(shape.low()));
        let reach = core.reach(start, far.registration, shape.span())?;
        let reach = if way == Way::Put { reach.check_writable(shape.span())? } else { reach };
        let owner = match start::asks(core, reach) {
            Some(owner) => owner,
            None => {
                let (lowest, _pin) = core.pin_own(reach)?;
                let (far, here) = (Laid { lowest, shape: &shape }, near.laid());
                let (to, from) = if way == Way::Put { (far, here) } else { (here, far) };
                return match move_shape(core, to, 0, from, 0, near.bytes)? {
                    true => Ok(()),
                    false => Err(Error::Refused("memory of this node could not be copied".into())),
                };
            }
        };
        let (whole_low, whole_span) = (shape.low(), shape.span());
        for (first, shape) in shape.cut(MOST_PIECES)? {
            let (address, registration) = (far.address, far.registration);
            let part = Near { first, bytes: shape.total(), ..near.clone() };
            let recipe = Recipe { address, registration, shape, whole_low, whole_span, signal: None };
            self.do_by_recipe(owner, way, recipe, part)?;
        }
        Ok(())
    }

    /// Writes elements and changes a word, if both can be reached from here; else says what is to be asked of whom.
    pub(crate) fn put_here_or_recipe<T: Pod, W: AtomicWord>(
        &self,
        to: GlobalPtr<T>,
        values: &[T],
        word: GlobalPtr<W>,
        signal: AtomicOp<W>,
    ) -> Result<Option<(Rank, Recipe, Near)>> {
        let (code, first, second) = signal.encode();
        let call = AtomicCall { target: word.address, registration: word.registration, code, first, second };
        let core = self.core();
        core.check_usable()?;
        let bytes = size_of_val(values) as u64;
        let width = atomic::width(call.code)?;
        let owner = core.format.rank(call.target);
        if core.format.rank(to.address) != owner {
            return Err(Error::misuse("put_signal: the word and the elements must be on one rank"));
        }
        let data = core.reach(to.address, to.registration, bytes)?.check_writable(bytes)?;
        let word = core.reach(call.target, call.registration, width)?.check_writable(width)?;
        let (data, pin) = core.pin_own(data)?;
        let (word, word_pin) = if pin.is_some() { core.pin_own_too(word)? } else { core.pin_own(word)? };
        if let (Reach::Direct(data), Reach::Direct(word)) = (data, word) {
            if !(word as u64).is_multiple_of(width) {
                return Err(atomic::misaligned(call.target, width));
            }
            // SAFETY: the destination was checked for all of them, and is pinned if it is private; they are only read.
            unsafe { copy::move_bytes(data, values.as_ptr().cast(), bytes as usize) };
            // Its order is that of a release: whoever sees it sees what came before.
            atomic::perform(word, &call)?;
            core.wrote(word);
            return Ok(None);
        }
        drop((pin, word_pin));
        let shape = Shape::of_rows(bytes, &[])?;
        let near = Near { lowest: values.as_ptr() as usize, shape: shape.clone(), first: 0, bytes };
        let (address, registration) = (to.address, to.registration);
        let (whole_low, whole_span) = (shape.low(), shape.span());
        let recipe = Recipe { address, registration, shape, whole_low, whole_span, signal: Some(call) };
        Ok(Some((owner, recipe, near)))
    }

    /// Notes a recipe that is about to be sent, and the memory that goes with it; gives its number.
    pub(crate) fn note_recipe(&self, recipe: &Recipe, near: Near, wants: bool) -> u64 {
        let mut machine = self.core().machine();
        let id = machine.engine.new_internal();
        machine.engine.sections.begin(id, recipe.encode(), near, wants);
        id
    }

    /// Sends a recipe to whoever owns what it is about, and waits for the answer.
    fn do_by_recipe(&self, to: Rank, way: Way, recipe: Recipe, near: Near) -> Result<()> {
        let (core, wants): (&Drive, bool) = (self.core(), way == Way::Get);
        let id = self.note_recipe(&recipe, near, wants);
        let _begun = Begun { core, id };
        self.launch(Number::Given(id), recipe.action(to, wants))?;
        core.wait_until(Activity::Complete, None, |engine| engine.operations.take_result_of(id))?
    }
}

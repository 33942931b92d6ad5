//! Many single words, here and there.

use super::buffers::{apart, list, list_mut};
use super::operations::operation;
use super::{edge, edge_or, give, handle, KumikiWorld};
use crate::things::{self, Here};
use kumiki::comm::Stream;
use kumiki::{AtomicWord, GlobalAddress, GlobalPtr, Result, World};
use std::ffi::c_int;

handle! {
    /// `struct kumiki_stream`.
    KumikiStream
}

type StreamThing = Stream<'static>;
const NAME: &str = "stream";
/// Words whose values are asked for at a time: so much memory is taken for them.
const WORDS_AT_A_TIME: usize = 1 << 16;

fn word<W: AtomicWord>(bits: u64) -> GlobalPtr<W> {
    GlobalPtr::from_address(GlobalAddress::from_bits(bits))
}

/// Makes a stream.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`; `stream` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_stream_create(
    world: *const KumikiWorld,
    stream: *mut *mut KumikiStream,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { give(stream, "the stream", std::ptr::null_mut()) }?;
        let make = |here: &Here<'_>| {
            // SAFETY: what borrows the world is kept.
            let made: StreamThing = unsafe { here.lasting() }.stream();
            // SAFETY: it was written before.
            unsafe { stream.write(here.keep(made)) };
            Ok(())
        };
        things::enter(world, make)
    })
}

/// Waits until everything is done that was streamed.
#[no_mangle]
pub extern "C" fn kumiki_stream_flush(stream: *mut KumikiStream) -> c_int {
    edge(|| things::with(stream, NAME, |_, stream: &mut StreamThing| stream.flush()))
}

/// Bytes of the buffers of a stream; -1 if there is no such stream.
#[no_mangle]
pub extern "C" fn kumiki_stream_bytes(stream: *const KumikiStream) -> i64 {
    edge_or(-1, || things::with(stream, NAME, |_, stream: &mut StreamThing| Ok(stream.bytes() as i64)))
}

/// Flushes a stream, and frees it.
#[no_mangle]
pub extern "C" fn kumiki_stream_free(stream: *mut KumikiStream) -> c_int {
    edge(|| things::take(stream, NAME, |_, mut stream: StreamThing| stream.flush()))
}

/// Changes many words, and gives what each held before to whoever wants it.
fn change_many<W: AtomicWord>(
    world: &World,
    number: c_int,
    words: &[u64],
    (first, second): (&[W], &[W]),
    old: Option<&mut [W]>,
) -> Result<()> {
    operation(number, W::zeroed(), W::zeroed())?;
    let second = |index: usize| second.get(index).copied().unwrap_or_else(W::zeroed);
    let entry = |index: usize| Ok((word(words[index]), operation(number, first[index], second(index))?));
    match old {
        Some(old) => {
            for (at, values) in old.chunks_mut(WORDS_AT_A_TIME).enumerate() {
                let start = at * WORDS_AT_A_TIME;
                let entries: Result<Vec<_>> = (start..start + values.len()).map(entry).collect();
                values.copy_from_slice(&world.fetch_many(entries?)?);
            }
            Ok(())
        }
        None => {
            let mut stream = world.stream();
            for index in 0..words.len() {
                let (to, change) = entry(index)?;
                if let Err(error) = stream.update(to, change) {
                    // What is under way is waited for.
                    let _ = stream.flush();
                    return Err(error);
                }
            }
            stream.flush()
        }
    }
}

fn get_many<W: AtomicWord>(world: &World, words: &[u64], into: &mut [W]) -> Result<()> {
    for (words, values) in words.chunks(WORDS_AT_A_TIME).zip(into.chunks_mut(WORDS_AT_A_TIME)) {
        values.copy_from_slice(&world.get_many(words.iter().map(|bits| word(*bits)))?);
    }
    Ok(())
}

/// The functions for words of one width.
macro_rules! batches {
    ($word:ty, $put:ident, $update:ident, $put_many:ident, $get_many:ident, $fetch_many:ident) => {
        /// Writes a word, with others.
        #[no_mangle]
        pub extern "C" fn $put(stream: *mut KumikiStream, to: u64, value: $word) -> c_int {
            edge(|| {
                things::with(stream, NAME, |_, stream: &mut StreamThing| stream.put(word::<$word>(to), value))
            })
        }

        /// Changes a word, with others.
        #[no_mangle]
        pub extern "C" fn $update(
            stream: *mut KumikiStream,
            number: c_int,
            target: u64,
            first: $word,
            second: $word,
        ) -> c_int {
            edge(|| {
                let change = operation(number, first, second)?;
                things::with(stream, NAME, |_, stream: &mut StreamThing| stream.update(word(target), change))
            })
        }

        /// Writes many words.
        ///
        /// # Safety
        /// `world` must be a world, or NULL for that of `acp_init`; both lists must be readable for `count` values.
        #[no_mangle]
        pub unsafe extern "C" fn $put_many(
            world: *const KumikiWorld,
            words: *const u64,
            values: *const $word,
            count: usize,
        ) -> c_int {
            edge(|| {
                // SAFETY: as the caller promises.
                let words = unsafe { list(words, count, "words") }?;
                // SAFETY: as the caller promises.
                let values = unsafe { list(values, count, "values") }?;
                let pairs = words.iter().map(|bits| word(*bits)).zip(values.iter().copied());
                things::enter(world, |here| here.world.put_many(pairs))
            })
        }

        /// Reads many words.
        ///
        /// # Safety
        /// `world` must be a world, or NULL for that of `acp_init`; `words` must be readable and `into` writable for `count` values.
        #[no_mangle]
        pub unsafe extern "C" fn $get_many(
            world: *const KumikiWorld,
            into: *mut $word,
            words: *const u64,
            count: usize,
        ) -> c_int {
            edge(|| {
                // SAFETY: as the caller promises.
                let words = unsafe { list(words, count, "words") }?;
                let bytes = (count.saturating_mul(8), count.saturating_mul(size_of::<$word>()));
                apart((words.as_ptr().cast(), bytes.0), (into.cast_const().cast(), bytes.1))?;
                // SAFETY: as the caller promises.
                let into = unsafe { list_mut(into, count, "into") }?;
                things::enter(world, |here| get_many(here.world, words, into))
            })
        }

        /// Changes many words, and gives what each held before to whoever wants it.
        ///
        /// # Safety
        /// `world` must be a world, or NULL for that of `acp_init`; `words` and `first` must be readable for `count` values, and so must
        /// `second` unless it is NULL; `old` must be writable for as many, or NULL.
        #[no_mangle]
        pub unsafe extern "C" fn $fetch_many(
            world: *const KumikiWorld,
            number: c_int,
            words: *const u64,
            first: *const $word,
            second: *const $word,
            old: *mut $word,
            count: usize,
        ) -> c_int {
            edge(|| {
                // SAFETY: as the caller promises.
                let words = unsafe { list(words, count, "words") }?;
                // SAFETY: as the caller promises.
                let first = unsafe { list(first, count, "first") }?;
                let seconds = if second.is_null() && number != COMPARE_SWAP { 0 } else { count };
                // SAFETY: as the caller promises.
                let second = unsafe { list(second, seconds, "second") }?;
                let bytes = count.saturating_mul(size_of::<$word>());
                let was = (old.cast_const().cast(), bytes);
                // What each word held may go where a value came from.
                let copied = [first, second].map(|values| {
                    let meets = apart((values.as_ptr().cast(), size_of_val(values)), was).is_err();
                    meets.then(|| values.to_vec())
                });
                let first = copied[0].as_deref().unwrap_or(first);
                let second = copied[1].as_deref().unwrap_or(second);
                apart((words.as_ptr().cast(), size_of_val(words)), was)?;
                let old = match old.is_null() {
                    true => None,
                    // SAFETY: as the caller promises.
                    false => Some(unsafe { list_mut(old, count, "old") }?),
                };
                things::enter(world, |here| change_many(here.world, number, words, (first, second), old))
            })
        }
    };
}

/// The operation that needs both values.
const COMPARE_SWAP: c_int = 1;

batches!(
    u32,
    kumiki_stream_put_u32,
    kumiki_stream_update_u32,
    kumiki_put_many_u32,
    kumiki_get_many_u32,
    kumiki_fetch_many_u32
);
batches!(
    u64,
    kumiki_stream_put_u64,
    kumiki_stream_update_u64,
    kumiki_put_many_u64,
    kumiki_get_many_u64,
    kumiki_fetch_many_u64
);

//! `post` and `wait`, which count, and the synchronisation of images: short messages, each of which satisfies one wait.

use super::references::{self, KxmpRef};
use super::{collectives, edge, session, sets, tasks};
use crate::api::buffers::list;
use crate::guard::misuse;
use kumiki::{Rank, Result, World};
use std::ffi::{c_char, c_int, c_long};

/// The messages of events, and of images that wait for each other: no program has these numbers.
const EVENTS: u32 = 0x8000_0010;
const IMAGES: u32 = 0x8000_0011;

/// `KXMP_NO_TAG`.
const NO_TAG: c_long = c_long::MIN;

/// Posts to a node. What this node has put there before is at its place.
///
/// # Safety
/// `place` must be a text, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kxmp_post(place: *const c_char, to: KxmpRef, tag: c_long) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "post", || {
            session::with(|world| {
                let to = references::single(world, &to)?;
                world.complete_all()?;
                world.messages().context(EVENTS).send::<u8>(to, tag as u64, &[])
            })
        })
    }
}

/// Waits for a post of a node, or of any, with a tag, or any.
///
/// # Safety
/// `place` must be a text, or NULL; `from` must be readable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kxmp_wait(place: *const c_char, from: *const KxmpRef, tag: c_long) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "wait", || {
            session::with(|world| {
                let from = from.as_ref().map(|from| references::single(world, from)).transpose()?;
                let tag = (tag != NO_TAG).then_some(tag as u64);
                world.messages().context(EVENTS).receive_into::<u8>(&mut [], from, tag).map(drop)
            })
        })
    }
}

/// The body of a function that synchronises images: its status is 0, because what goes wrong ends the job.
unsafe fn sync_edge(name: &str, status: *mut c_int, body: impl FnOnce() -> Result<()>) {
    // SAFETY: there is no place, and the status is as the caller promises.
    unsafe {
        edge(std::ptr::null(), name, body);
        if !status.is_null() {
            status.write(0);
        }
    }
}

/// The rank of an image: counted from 0 among all, as coarrays count them, also in a task.
fn rank_of(image: c_int) -> Result<Rank> {
    let images = sets::entire()?;
    let rank = u32::try_from(image).ok().and_then(|image| images.members.get(image));
    rank.ok_or_else(|| {
        misuse(format!("there is no image {image}: they go from 0 to {}", images.members.len() - 1))
    })
}

/// Waits for images, each of which waits for this one as often.
fn meet(world: &World, ranks: &[Rank]) -> Result<()> {
    tasks::check_present(ranks.iter().copied())?;
    world.complete_all()?;
    let mail = world.messages().context(IMAGES);
    let others = || ranks.iter().filter(|&&rank| rank != world.rank());
    others().try_for_each(|&rank| mail.send::<u8>(rank, 0, &[]))?;
    others().try_for_each(|&rank| mail.receive_into::<u8>(&mut [], rank, 0).map(drop))
}

/// Waits for all images that execute: in a task, for those that execute it.
///
/// # Safety
/// `status` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn xmp_sync_all(status: *mut c_int) {
    // SAFETY: as the caller promises.
    unsafe { sync_edge("xmp_sync_all", status, || collectives::meet(&*sets::executing()?)) };
}

/// What this image has put is at its place.
///
/// # Safety
/// `status` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn xmp_sync_memory(status: *mut c_int) {
    // SAFETY: as the caller promises.
    unsafe { sync_edge("xmp_sync_memory", status, || session::with(|world| world.complete_all())) };
}

/// Waits for an image.
///
/// # Safety
/// `status` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn xmp_sync_image(image: c_int, status: *mut c_int) {
    // SAFETY: as the caller promises.
    unsafe { sync_edge("xmp_sync_image", status, || session::with(|world| meet(world, &[rank_of(image)?]))) };
}

/// Waits for several images.
///
/// # Safety
/// `images` must have `count` numbers; `status` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn xmp_sync_images(count: c_int, images: *const c_int, status: *mut c_int) {
    // SAFETY: as the caller promises.
    unsafe {
        sync_edge("xmp_sync_images", status, || {
            let count = usize::try_from(count).map_err(|_| misuse(format!("{count} images")))?;
            let ranks = list(images, count, "the images")?.iter().map(|&image| rank_of(image));
            let ranks = ranks.collect::<Result<Vec<Rank>>>()?;
            session::with(|world| meet(world, &ranks))
        });
    }
}

/// Waits for every other image, each of which may wait for this one alone.
///
/// # Safety
/// `status` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn xmp_sync_images_all(status: *mut c_int) {
    // SAFETY: as the caller promises.
    unsafe {
        sync_edge("xmp_sync_images_all", status, || {
            let ranks: Vec<Rank> = sets::executing()?.members.iter().collect();
            session::with(|world| meet(world, &ranks))
        });
    }
}

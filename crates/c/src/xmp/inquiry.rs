//! Who and where this node is, time, and what nodes are.

use super::nodes::{Kind, Nodes};
use super::references::Tag;
use super::{edge_or, sets};
use crate::guard::misuse;
use kumiki::{Error, Result};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::time::Instant;

/// `xmp_desc_t`.
pub type Descriptor = *const c_void;

/// A function that asks for a number about the sets of nodes.
macro_rules! question {
    ($($name:ident, $set:ident, $ask:expr, $doc:literal;)*) => {$(
        #[doc = $doc]
        #[no_mangle]
        pub extern "C" fn $name() -> c_int {
            edge_or(stringify!($name), -1, || sets::$set().map(|set| {
                let ask: fn(&sets::Set) -> u32 = $ask;
                ask(&set) as c_int
            }))
        }
    )*};
}

question! {
    xmp_node_num, executing, |set| set.me + 1, "The number of this node among those that execute, from 1.";
    xmpc_node_num, executing, |set| set.me, "The number of this node among those that execute, from 0.";
    xmpc_this_image, entire, |set| set.me, "The number of this image among all, from 0, also in a task.";
    xmp_this_image, entire, |set| set.me + 1, "The number of this image among all, from 1, also in a task.";
    xmp_num_nodes, executing, |set| set.members.len(), "How many nodes execute.";
    xmp_num_images, entire, |set| set.members.len(), "How many images there are, also in a task.";
    xmp_all_node_num, entire, |set| set.me + 1, "The number of this node among all, from 1.";
    xmpc_all_node_num, entire, |set| set.me, "The number of this node among all, from 0.";
    xmp_all_num_nodes, entire, |set| set.members.len(), "How many nodes there are.";
}

/// Seconds since a moment in the past.
#[no_mangle]
pub extern "C" fn xmp_wtime() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    edge_or("xmp_wtime", 0.0, || Ok(START.get_or_init(Instant::now).elapsed().as_secs_f64()))
}

/// What `xmp_wtime` can tell apart.
#[no_mangle]
pub extern "C" fn xmp_wtick() -> f64 {
    edge_or("xmp_wtick", 0.0, || Ok(1e-9))
}

/// What a program asks for is given.
///
/// # Safety
/// `to` must be writable, or NULL.
pub(super) unsafe fn give<T>(to: *mut T, value: T) -> Result<()> {
    match to.is_null() {
        true => Err(misuse("the place for the answer is NULL")),
        false => {
            // SAFETY: as the caller promises.
            unsafe { to.write(value) };
            Ok(())
        }
    }
}

/// A number that a C program keeps in an int.
pub(super) fn int(number: i64) -> Result<c_int> {
    c_int::try_from(number).map_err(|_| misuse(format!("{number} is too large for an int")))
}

/// A dimension, counted from 1.
pub(super) fn axis(dim: c_int, count: usize) -> Result<usize> {
    let axis = usize::try_from(dim).ok().and_then(|dim| dim.checked_sub(1)).filter(|&axis| axis < count);
    axis.ok_or_else(|| misuse(format!("there is no dimension {dim}: they go from 1 to {count}")))
}

/// The body of a question: 0, or -1 and a line on standard error.
pub(super) fn answer_edge(name: &str, body: impl FnOnce() -> Result<()>) -> c_int {
    edge_or(name, -1, || body().map(|()| 0))
}

/// The nodes of a descriptor.
///
/// # Safety
/// It must be one of this library, or NULL.
pub(super) unsafe fn nodes(descriptor: Descriptor) -> Result<&'static Nodes> {
    let wrong = || misuse("the descriptor is none of nodes: use xmp_desc_of with the name of nodes");
    if descriptor.is_null() {
        return Err(wrong());
    }
    // SAFETY: as the caller promises: it begins with a tag, which says what it is.
    match unsafe { descriptor.cast::<u64>().read() } == Tag::Nodes as u64 {
        // SAFETY: the tag says so, and nodes are never freed.
        true => Ok(unsafe { &*descriptor.cast() }),
        false => Err(wrong()),
    }
}

/// How many dimensions nodes have.
///
/// # Safety
/// `d` must be a descriptor, and `ndims` writable.
#[no_mangle]
pub unsafe extern "C" fn xmp_nodes_ndims(d: Descriptor, ndims: *mut c_int) -> c_int {
    // SAFETY: as the caller promises.
    answer_edge("xmp_nodes_ndims", || unsafe { give(ndims, nodes(d)?.sizes.len() as c_int) })
}

/// The coordinate of this node in a dimension, from 0.
unsafe fn coordinate(d: Descriptor, dim: c_int) -> Result<i64> {
    // SAFETY: as the caller promises.
    let nodes = unsafe { nodes(d) }?;
    let axis = axis(dim, nodes.sizes.len())?;
    let own = super::session::with(|world| Ok(nodes.coordinates(world.rank())))?;
    let own = own.ok_or_else(|| Error::Refused(format!("this node is not among {}", nodes.name)))?;
    Ok(own[axis])
}

/// The coordinate of this node in a dimension, from 1.
///
/// # Safety
/// `d` must be a descriptor, and `index` writable.
#[no_mangle]
pub unsafe extern "C" fn xmp_nodes_index(d: Descriptor, dim: c_int, index: *mut c_int) -> c_int {
    // SAFETY: as the caller promises.
    answer_edge("xmp_nodes_index", || unsafe { give(index, int(coordinate(d, dim)? + 1)?) })
}

/// The coordinate of this node in a dimension, from 0.
///
/// # Safety
/// `d` must be a descriptor, and `index` writable.
#[no_mangle]
pub unsafe extern "C" fn xmpc_nodes_index(d: Descriptor, dim: c_int, index: *mut c_int) -> c_int {
    // SAFETY: as the caller promises.
    answer_edge("xmpc_nodes_index", || unsafe { give(index, int(coordinate(d, dim)?)?) })
}

/// How many nodes there are in a dimension.
///
/// # Safety
/// `d` must be a descriptor, and `size` writable.
#[no_mangle]
pub unsafe extern "C" fn xmp_nodes_size(d: Descriptor, dim: c_int, size: *mut c_int) -> c_int {
    // SAFETY: as the caller promises.
    answer_edge("xmp_nodes_size", || unsafe {
        let nodes = nodes(d)?;
        give(size, int(nodes.sizes[axis(dim, nodes.sizes.len())?])?)
    })
}

/// The number of this node among nodes, from 0.
///
/// # Safety
/// `d` must be a descriptor, and `rank` writable.
#[no_mangle]
pub unsafe extern "C" fn xmp_nodes_rank(d: Descriptor, rank: *mut c_int) -> c_int {
    // SAFETY: as the caller promises.
    answer_edge("xmp_nodes_rank", || unsafe {
        let nodes = nodes(d)?;
        let own = super::session::with(|world| Ok(nodes.members.position(world.rank())))?;
        let own = own.ok_or_else(|| Error::Refused(format!("this node is not among {}", nodes.name)))?;
        give(rank, own as c_int + 1)
    })
}

/// What nodes were declared to be.
///
/// # Safety
/// `d` must be a descriptor, and `attr` writable.
#[no_mangle]
pub unsafe extern "C" fn xmp_nodes_attr(d: Descriptor, attr: *mut c_int) -> c_int {
    // SAFETY: as the caller promises.
    answer_edge("xmp_nodes_attr", || unsafe {
        let attribute = match nodes(d)?.kind {
            Kind::Entire => 2000,
            Kind::Executing => 2001,
            Kind::Subset => 2003,
        };
        give(attr, attribute)
    })
}

/// What nodes are a part of, and where: lower bound, upper bound and step of each dimension.
///
/// # Safety
/// `d` must be a descriptor, `dn` writable, and the others for a number of each dimension.
#[no_mangle]
pub unsafe extern "C" fn xmp_nodes_equiv(
    d: Descriptor,
    dn: *mut Descriptor,
    lb: *mut c_int,
    ub: *mut c_int,
    st: *mut c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    answer_edge("xmp_nodes_equiv", || unsafe {
        let own = nodes(d)?;
        let none = || Error::Refused(format!("{} are not a part of other nodes", own.name));
        let (whole, triplets) = own.part_of.as_ref().ok_or_else(none)?;
        give(dn, std::ptr::from_ref::<Nodes>(whole).cast())?;
        for (axis, triplet) in triplets.iter().enumerate() {
            for (to, value) in [lb, ub, st].into_iter().zip(triplet) {
                give(to.wrapping_add(axis), int(*value)?)?;
            }
        }
        Ok(())
    })
}

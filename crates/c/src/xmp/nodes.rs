//! `nodes`: names for ordered sets of nodes, in one or several dimensions.

use super::references::{KxmpRef, Subscript, Tag};
use super::sets::{self};
use super::{edge, references, session, MOST_DIMENSIONS};
use crate::api::buffers::list;
use crate::guard::misuse;
use kumiki::array;
use kumiki::{Members, Rank, Result, World};
use std::ffi::{c_char, c_int, c_long, CStr};
use std::sync::{Mutex, PoisonError};

/// `*` as a size.
const STAR: c_long = -1;
/// The variables that say what several `*` are.
const SIZES: [&str; MOST_DIMENSIONS] = [
    "XMP_NODE_SIZE0",
    "XMP_NODE_SIZE1",
    "XMP_NODE_SIZE2",
    "XMP_NODE_SIZE3",
    "XMP_NODE_SIZE4",
    "XMP_NODE_SIZE5",
    "XMP_NODE_SIZE6",
];

/// `kxmp_nodes`: it lives as long as the program.
#[repr(C)]
#[derive(Debug)]
pub struct Nodes {
    tag: Tag,
    pub(super) name: String,
    pub(super) kind: Kind,
    /// The fastest first.
    pub(super) sizes: Vec<i64>,
    pub(super) members: Members,
    /// Of a subset: what it is a part of, and where, by dimension of that: lower bound, upper bound, step, from 1.
    pub(super) part_of: Option<(&'static Nodes, Vec<[i64; 3]>)>,
    /// The same for arrays; none if there are no members.
    pub(super) space: Option<array::Nodes>,
}

/// What nodes were declared to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Entire,
    Executing,
    Subset,
}

/// All nodes that were declared: a directive that is executed again finds what it made.
static DECLARED: Mutex<Vec<&'static Nodes>> = Mutex::new(Vec::new());

impl Nodes {
    /// How many there are of each dimension, as bounds.
    pub(super) fn bounds(&self) -> Vec<(i64, i64)> {
        self.sizes.iter().map(|size| (0, size - 1)).collect()
    }

    /// The coordinates of a rank.
    pub(super) fn coordinates(&self, rank: Rank) -> Option<Vec<i64>> {
        let mut number = i64::from(self.members.position(rank)?);
        let coordinate = |size: &i64| {
            let coordinate = number % size;
            number /= size;
            coordinate
        };
        Some(self.sizes.iter().map(coordinate).collect())
    }

    /// The members that a reference names; none where `*` means a coordinate that this node has not.
    pub(super) fn members_of(&self, world: &World, reference: &KxmpRef) -> Result<Option<Members>> {
        let Some(subscripts) = reference.subscripts(&self.name, &self.bounds())? else {
            return Ok(Some(self.members.clone()));
        };
        let own = self.coordinates(world.rank());
        if own.is_none() && subscripts.contains(&Subscript::Any) {
            return Ok(None);
        }
        let own = own.unwrap_or_else(|| vec![0; self.sizes.len()]);
        let indices: Vec<Vec<i64>> = subscripts
            .iter()
            .zip(self.bounds())
            .zip(own)
            .map(|((subscript, bounds), own)| subscript.indices(bounds, own))
            .collect();
        Ok(Some(self.pick(&indices)))
    }

    /// The members with these coordinates in each dimension, the first dimension fastest.
    pub(super) fn pick(&self, indices: &[Vec<i64>]) -> Members {
        let mut numbers = vec![0i64];
        let mut stride = 1;
        for (indices, size) in indices.iter().zip(&self.sizes) {
            let step = stride;
            numbers = indices
                .iter()
                .flat_map(|index| numbers.iter().map(move |number| number + index * step))
                .collect();
            stride *= size;
        }
        let ranks = numbers.into_iter().filter_map(|number| self.members.get(number as u32));
        ranks.collect::<Vec<Rank>>().into()
    }
}

/// Sizes whose product is the number of nodes: what `*` stands for is said by the environment where there are several, or completed.
fn complete(name: &str, sizes: &[c_long], total: i64) -> Result<Vec<i64>> {
    let stars: Vec<usize> = (0..sizes.len()).filter(|&axis| sizes[axis] == STAR).collect();
    let mut known = sizes.to_vec();
    if let Some(size) = sizes.iter().find(|&&size| size < 1 && size != STAR) {
        return Err(misuse(format!("nodes {name}: a dimension of {size} nodes")));
    }
    let mut open = stars.clone();
    if stars.len() > 1 {
        for &axis in &stars {
            let Some(text) = kumiki::raw::variable(SIZES[axis])? else { continue };
            let size = text.trim().parse::<c_long>().ok().filter(|&size| size > 0);
            let variable = SIZES[axis];
            known[axis] =
                size.ok_or_else(|| misuse(format!("{variable}: {text} is no number of nodes such as 4")))?;
            open.retain(|&still| still != axis);
        }
    }
    let product = |sizes: &[c_long]| {
        sizes.iter().filter(|&&size| size != STAR).try_fold(1 as c_long, |all, &size| all.checked_mul(size))
    };
    let fixed = product(&known).unwrap_or(c_long::MAX);
    let shape = || {
        sizes
            .iter()
            .map(|&size| if size == STAR { "*".into() } else { size.to_string() })
            .collect::<Vec<String>>()
            .join(" x ")
    };
    let wrong = || {
        let hint = match stars.len() {
            0 => "start it with as many, or write * for a size".to_string(),
            1 => "start it with a multiple of the other sizes".to_string(),
            _ => format!("set {} and so on so that they fit", SIZES[stars[0]]),
        };
        misuse(format!("nodes {name}: {} (the fastest first) are not {total} nodes; {hint}", shape()))
    };
    if open.is_empty() {
        return if fixed == total { Ok(known) } else { Err(wrong()) };
    }
    if total % fixed != 0 {
        return Err(wrong());
    }
    let shares = even(total / fixed, open.len());
    open.iter().zip(shares).for_each(|(&axis, share)| known[axis] = share);
    Ok(known)
}

/// So many factors of a number, as near to each other as can be; the largest last.
fn even(mut number: i64, count: usize) -> Vec<i64> {
    let mut factors = vec![1; count];
    let mut primes = Vec::new();
    let mut prime = 2;
    while number > 1 {
        while number % prime == 0 {
            primes.push(prime);
            number /= prime;
        }
        prime += 1;
        if prime * prime > number && number > 1 {
            primes.push(number);
            break;
        }
    }
    for prime in primes.into_iter().rev() {
        if let Some(least) = factors.iter_mut().min() {
            *least *= prime;
        }
    }
    factors.sort_unstable();
    factors
}

/// Where a reference lies in what it is a part of, from 1.
fn triplets(nodes: &Nodes, world: &World, reference: &KxmpRef) -> Result<Vec<[i64; 3]>> {
    let own = nodes.coordinates(world.rank()).unwrap_or_else(|| vec![0; nodes.sizes.len()]);
    let Some(subscripts) = reference.subscripts(&nodes.name, &nodes.bounds())? else {
        return Ok(nodes.sizes.iter().map(|&size| [1, size, 1]).collect());
    };
    let triplet = |((subscript, size), own): ((&Subscript, &i64), i64)| match *subscript {
        Subscript::At(index) => [index + 1, index + 1, 1],
        Subscript::Range { first, last, step } => [first + 1, last + 1, step],
        Subscript::All => [1, *size, 1],
        Subscript::Any => [own + 1, own + 1, 1],
    };
    Ok(subscripts.iter().zip(&nodes.sizes).zip(own).map(triplet).collect())
}

/// Declares nodes.
///
/// # Safety
/// `slot` must be writable; `place` and `name` must be texts, or NULL; `sizes` must have `ndims` numbers.
#[no_mangle]
pub unsafe extern "C" fn kxmp_nodes_make(
    slot: *mut *const Nodes,
    place: *const c_char,
    name: *const c_char,
    ndims: c_int,
    sizes: *const c_long,
    kind: c_int,
    of: KxmpRef,
) -> *const Nodes {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "nodes", || {
            let name = text(name);
            let ndims = dimensions(ndims)?;
            let sizes = list(sizes, ndims, "sizes")?;
            let nodes = session::with(|world| make(world, &name, sizes, kind, &of))?;
            if !slot.is_null() {
                slot.write(nodes);
            }
            Ok(std::ptr::from_ref(nodes))
        })
    }
}

/// A name that C gives.
///
/// # Safety
/// It must be a text, or NULL.
pub(super) unsafe fn text(name: *const c_char) -> String {
    if name.is_null() {
        return String::new();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

/// A number of dimensions.
pub(super) fn dimensions(ndims: c_int) -> Result<usize> {
    let count = usize::try_from(ndims).ok().filter(|count| (1..=MOST_DIMENSIONS).contains(count));
    count.ok_or_else(|| misuse(format!("{ndims} dimensions; there can be 1 to {MOST_DIMENSIONS}")))
}

fn make(world: &World, name: &str, sizes: &[c_long], kind: c_int, of: &KxmpRef) -> Result<&'static Nodes> {
    let (kind, members, part_of) = match kind {
        0 => (Kind::Entire, Some(sets::entire()?.members.clone()), None),
        1 => (Kind::Executing, Some(sets::executing()?.members.clone()), None),
        2 => {
            let part = match of.of()? {
                references::Of::Nodes(whole) => Some((whole, triplets(whole, world, of)?)),
                _ => None,
            };
            (Kind::Subset, references::members(world, of)?, part)
        }
        _ => return Err(misuse(format!("nodes {name}: there is no kind {kind}"))),
    };
    // A node that has no coordinate of its own there has no such nodes: none that it is in.
    let members = members.unwrap_or_else(|| Members::strided(0, 1, 0));
    let sizes = match members.len() {
        0 => sizes.iter().map(|&size| size.max(1)).collect(),
        count => complete(name, sizes, count.into())?,
    };
    let mut declared = DECLARED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_same = |known: &&&Nodes| {
        known.name == name && known.kind == kind && known.sizes == sizes && known.members == members
    };
    if let Some(known) = declared.iter().find(is_same) {
        return Ok(known);
    }
    let space = match members.is_empty() {
        true => None,
        false => {
            let ranks: Vec<Rank> = members.iter().collect();
            let sizes: Vec<u32> = sizes.iter().rev().map(|&size| size as u32).collect();
            Some(array::Nodes::of(&ranks, &sizes)?)
        }
    };
    let nodes = Nodes { tag: Tag::Nodes, name: name.into(), kind, sizes, members, part_of, space };
    let nodes: &'static Nodes = Box::leak(Box::new(nodes));
    declared.push(nodes);
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_are_completed_so_that_all_nodes_are_used() {
        assert_eq!(complete("p", &[STAR], 6).unwrap(), [6]);
        assert_eq!(complete("p", &[2, STAR], 6).unwrap(), [2, 3]);
        assert_eq!(complete("p", &[STAR, STAR], 12).unwrap(), [3, 4]);
        assert_eq!(complete("p", &[STAR, 2, STAR], 14).unwrap(), [1, 2, 7]);
        assert_eq!(complete("p", &[3, 3], 9).unwrap(), [3, 3]);
        assert!(complete("p", &[3, 3], 8).unwrap_err().to_string().contains("3 x 3"));
        assert!(complete("p", &[4, STAR], 6).is_err());
        assert_eq!((even(1, 2), even(7, 3), even(64, 3)), (vec![1, 1], vec![1, 1, 7], vec![4, 4, 4]));
    }
}

//! What all members of a group do together.
// As many arguments as MPI has.
#![allow(clippy::too_many_arguments)]

use super::arguments::{face, Group, Memory, Number, Numbers, Requests};
use super::elements::{bytes_for, bytes_of, how};
use super::groups::{self, Shared};
use super::messages::peer_of;
use super::requests::Asked;
use super::session::Here;
use crate::api::buffers::{list, readable, size_for, writable, Promised};
use crate::guard::misuse;
use kumiki::comm::{Group as Members, Started};
use kumiki::raw::{self, groups as combining, Booking};
use kumiki::{Purpose, Rank, Result};
use std::borrow::Cow;
use std::ffi::c_void;

/// `WAITIO_MPI_IN_PLACE`: what this member has is where it belongs already.
fn is_in_place(memory: Memory) -> bool {
    // That of Open MPI, and that of MPICH, which a program may have left.
    [1, usize::MAX].contains(&(memory.0 as usize))
}

/// Does something with the collectives of a group, and its root.
fn with_root<R>(
    comm: Group,
    root: Number,
    work: impl FnOnce(&Here<'_>, &Members<'static>, Rank) -> Result<R>,
) -> Result<R> {
    groups::with(comm, |here, group| {
        let root = peer_of(group, root.0)?;
        work(here, group.collectives()?, root)
    })
}

/// The same where there is no root.
fn with<R>(comm: Group, work: impl FnOnce(&Here<'_>, &Members<'static>) -> Result<R>) -> Result<R> {
    groups::with(comm, |here, group| work(here, group.collectives()?))
}

/// Bytes of the program that are given away, apart from those that are written: copied where they overlap.
///
/// # Safety
/// `from` must be readable for so many bytes.
unsafe fn given<'a>(from: Memory, bytes: usize, into: &[u8]) -> Result<Cow<'a, [u8]>> {
    let (start, other) = (from.0 as usize, into.as_ptr() as usize);
    let meet = start < other.saturating_add(into.len()) && other < start.saturating_add(bytes);
    if meet && bytes > 0 && !into.is_empty() {
        let mut copy = vec![0; bytes];
        // SAFETY: as the caller promises; the copy is nobody else's.
        unsafe { std::ptr::copy_nonoverlapping(from.0.cast(), copy.as_mut_ptr(), bytes) };
        return Ok(Cow::Owned(copy));
    }
    // SAFETY: as the caller promises.
    unsafe { readable(from.0, bytes, "send") }.map(Cow::Borrowed)
}

/// Copies what this member gives to where the result will be, unless it is there.
///
/// # Safety
/// `send` must be readable and `recv` writable for so many bytes.
unsafe fn bring<'a>(send: Memory, recv: Memory, bytes: usize) -> Result<&'a mut [u8]> {
    // SAFETY: as the caller promises; only checked here, and used when the other is not used any more.
    unsafe { writable(recv.0, bytes, "recv") }?;
    if !is_in_place(send) && bytes > 0 {
        // SAFETY: as the caller promises.
        unsafe { readable(send.0, bytes, "send") }?;
        // SAFETY: as the caller promises. They may overlap.
        unsafe { std::ptr::copy(send.0.cast::<u8>(), recv.0.cast(), bytes) };
    }
    // SAFETY: as the caller promises.
    unsafe { writable(recv.0, bytes, "recv") }
}

unsafe fn barrier(comm: Group) -> Result<()> {
    with(comm, |_, members| members.barrier())
}

unsafe fn bcast(buf: Memory, count: Number, datatype: Number, root: Number, comm: Group) -> Result<()> {
    // SAFETY: as the caller promises.
    let data = unsafe { writable(buf.0, bytes_for(count.0, datatype.0)?, "buf") }?;
    with_root(comm, root, |_, members, root| members.broadcast(root, data))
}

unsafe fn reduce(
    send: Memory,
    recv: Memory,
    count: Number,
    datatype: Number,
    op: Number,
    root: Number,
    comm: Group,
) -> Result<()> {
    let (how, bytes) = (how(datatype.0, op.0)?, bytes_for(count.0, datatype.0)?);
    with_root(comm, root, |here, members, root| {
        if members.rank() == root {
            // SAFETY: as the caller promises.
            return combining::reduce(members, root, unsafe { bring(send, recv, bytes) }?, &how);
        }
        // What the others receive into means nothing, and may not be there.
        let from = if is_in_place(send) { recv } else { send };
        let _booked = raw::book(here.join.world(), Purpose::Comm, bytes)?;
        // SAFETY: as the caller promises.
        let mut data = unsafe { readable(from.0, bytes, "send") }?.to_vec();
        combining::reduce(members, root, &mut data, &how)
    })
}

unsafe fn allreduce(
    send: Memory,
    recv: Memory,
    count: Number,
    datatype: Number,
    op: Number,
    comm: Group,
) -> Result<()> {
    let (how, bytes) = (how(datatype.0, op.0)?, bytes_for(count.0, datatype.0)?);
    with(comm, |_, members| {
        if is_in_place(send) || (send.0.addr()).abs_diff(recv.0.addr()) < bytes {
            // SAFETY: as the caller promises.
            return combining::allreduce(members, unsafe { bring(send, recv, bytes) }?, &how);
        }
        // SAFETY: as the caller promises; they do not overlap.
        let (data, into) = unsafe { (readable(send.0, bytes, "send")?, writable(recv.0, bytes, "recv")?) };
        combining::allreduce_into(members, data, into, &how)
    })
}

/// Bytes of all members, where each has so many.
fn of_all(members: &Members<'_>, bytes: usize) -> Result<usize> {
    size_for(bytes, members.ranks() as usize, "count")
}

/// What this member has at its place of a result.
fn own_of(members: &Members<'_>, all: &[u8], bytes: usize) -> Vec<u8> {
    let own = members.rank() as usize * bytes;
    all[own..own + bytes].to_vec()
}

unsafe fn gather(
    send: Memory,
    recv: Memory,
    count: Number,
    datatype: Number,
    root: Number,
    comm: Group,
) -> Result<()> {
    let bytes = bytes_for(count.0, datatype.0)?;
    with_root(comm, root, |_, members, root| {
        let is_root = members.rank() == root;
        let all = if is_root { of_all(members, bytes)? } else { 0 };
        // SAFETY: as the caller promises.
        let into = unsafe { writable(recv.0, all, "recv") }?;
        let data = match is_root && is_in_place(send) {
            true => Cow::Owned(own_of(members, into, bytes)),
            // SAFETY: as the caller promises.
            false => unsafe { given(send, bytes, into) }?,
        };
        members.gather(root, &data, into)
    })
}

unsafe fn allgather(send: Memory, recv: Memory, count: Number, datatype: Number, comm: Group) -> Result<()> {
    let bytes = bytes_for(count.0, datatype.0)?;
    with(comm, |_, members| {
        // SAFETY: as the caller promises.
        let into = unsafe { writable(recv.0, of_all(members, bytes)?, "recv") }?;
        let data = match is_in_place(send) {
            true => Cow::Owned(own_of(members, into, bytes)),
            // SAFETY: as the caller promises.
            false => unsafe { given(send, bytes, into) }?,
        };
        members.allgather(&data, into)
    })
}

unsafe fn alltoall(send: Memory, recv: Memory, count: Number, datatype: Number, comm: Group) -> Result<()> {
    let bytes = bytes_for(count.0, datatype.0)?;
    with(comm, |_, members| {
        let all = of_all(members, bytes)?;
        // SAFETY: as the caller promises.
        let into = unsafe { writable(recv.0, all, "recv") }?;
        let data = match is_in_place(send) {
            true => Cow::Owned(into.to_vec()),
            // SAFETY: as the caller promises.
            false => unsafe { given(send, all, into) }?,
        };
        members.alltoall(&data, into)
    })
}

/// Where the bytes of each member lie in memory of the program.
struct Layout {
    counts: Vec<usize>,
    places: Vec<usize>,
}

impl Layout {
    /// As counts and displacements in elements say.
    ///
    /// # Safety
    /// Both must be readable for a number for each member, or NULL.
    unsafe fn new(
        members: &Members<'_>,
        counts: Numbers,
        displs: Numbers,
        datatype: Number,
    ) -> Result<Layout> {
        let (element, ranks) = (bytes_of(datatype.0)?, members.ranks() as usize);
        // SAFETY: as the caller promises.
        let (counts, displs) =
            unsafe { (list(counts.0, ranks, "counts")?, list(displs.0, ranks, "displs")?) };
        let in_bytes = |number: i32| {
            let number = usize::try_from(number)
                .map_err(|_| misuse(format!("counts and displs: {number} cannot be")))?;
            Ok(number * element)
        };
        // The place of what has no elements need not be one.
        let places = counts.iter().zip(displs).map(|(&count, &place)| if count == 0 { 0 } else { place });
        Ok(Layout {
            counts: counts.iter().copied().map(in_bytes).collect::<Result<_>>()?,
            places: places.map(in_bytes).collect::<Result<_>>()?,
        })
    }

    /// Bytes of all members.
    fn total(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Copies what lies together to where it belongs, but for one member.
    ///
    /// # Safety
    /// `into` must be writable at all those places.
    unsafe fn spread(&self, from: &[u8], into: Memory, except: Option<Rank>) -> Result<()> {
        let mut at = 0;
        for (member, (&count, &place)) in self.counts.iter().zip(&self.places).enumerate() {
            if except != Some(member as Rank) {
                // SAFETY: as the caller promises.
                let to = unsafe { writable(into.0.wrapping_byte_add(place), count, "recv") }?;
                to.copy_from_slice(&from[at..at + count]);
            }
            at += count;
        }
        Ok(())
    }

    /// Copies what lies where it belongs to one place.
    ///
    /// # Safety
    /// `from` must be readable at all those places.
    unsafe fn collect(&self, from: Memory) -> Result<Vec<u8>> {
        let mut together = Vec::with_capacity(self.total());
        for (&count, &place) in self.counts.iter().zip(&self.places) {
            // SAFETY: as the caller promises.
            together.extend_from_slice(unsafe { readable(from.0.wrapping_byte_add(place), count, "send") }?);
        }
        Ok(together)
    }

    /// The bytes of one member.
    ///
    /// # Safety
    /// `from` must be readable there.
    unsafe fn part<'a>(&self, member: Rank, from: Memory) -> Result<&'a [u8]> {
        let member = member as usize;
        // SAFETY: as the caller promises.
        unsafe { readable(from.0.wrapping_byte_add(self.places[member]), self.counts[member], "recv") }
    }
}

unsafe fn scatter(
    send: Memory,
    sendcount: Number,
    sendtype: Number,
    recv: Memory,
    recvcount: Number,
    recvtype: Number,
    root: Number,
    comm: Group,
) -> Result<()> {
    with_root(comm, root, |_, members, root| {
        let is_root = members.rank() == root;
        let keeps = is_root && is_in_place(recv);
        let each = if is_root { bytes_for(sendcount.0, sendtype.0)? } else { 0 };
        let bytes = if keeps { each } else { bytes_for(recvcount.0, recvtype.0)? };
        if is_root && each != bytes {
            return Err(misuse(format!("each member is sent {each} bytes, and the root receives {bytes}")));
        }
        let mut unused = if keeps { vec![0; bytes] } else { Vec::new() };
        let into = match keeps {
            true => &mut unused[..],
            // SAFETY: as the caller promises.
            false => unsafe { writable(recv.0, bytes, "recv") }?,
        };
        let all = if is_root { of_all(members, each)? } else { 0 };
        // SAFETY: as the caller promises.
        let data = unsafe { given(send, all, into) }?;
        members.scatter(root, &data, into)
    })
}

unsafe fn scatterv(
    send: Memory,
    sendcounts: Numbers,
    displs: Numbers,
    sendtype: Number,
    recv: Memory,
    recvcount: Number,
    recvtype: Number,
    root: Number,
    comm: Group,
) -> Result<()> {
    with_root(comm, root, |here, members, root| {
        let is_root = members.rank() == root;
        // SAFETY: as the caller promises.
        let layout =
            is_root.then(|| unsafe { Layout::new(members, sendcounts, displs, sendtype) }).transpose()?;
        let keeps = is_root && is_in_place(recv);
        let own = layout.as_ref().map_or(0, |layout| layout.counts[root as usize]);
        let _booked = raw::book(here.join.world(), Purpose::Comm, layout.as_ref().map_or(0, Layout::total))?;
        let (counts, data) = match &layout {
            // SAFETY: as the caller promises.
            Some(layout) => (&layout.counts[..], unsafe { layout.collect(send) }?),
            None => (&[][..], Vec::new()),
        };
        let mut unused = if keeps { vec![0; own] } else { Vec::new() };
        let room = if keeps { own } else { bytes_for(recvcount.0, recvtype.0)? };
        // The root takes what it has for itself: there may be more room.
        let room = if is_root { own.min(room) } else { room };
        let into = match keeps {
            true => &mut unused[..],
            // SAFETY: as the caller promises.
            false => unsafe { writable(recv.0, room, "recv") }?,
        };
        members.scatterv(root, &data, counts, into)
    })
}

unsafe fn gatherv(
    send: Memory,
    sendcount: Number,
    sendtype: Number,
    recv: Memory,
    recvcounts: Numbers,
    displs: Numbers,
    recvtype: Number,
    root: Number,
    comm: Group,
) -> Result<()> {
    with_root(comm, root, |here, members, root| {
        if members.rank() != root {
            // SAFETY: as the caller promises.
            let data = unsafe { readable(send.0, bytes_for(sendcount.0, sendtype.0)?, "send") }?;
            return members.gatherv(root, data, &[], &mut []);
        }
        // SAFETY: as the caller promises.
        let layout = unsafe { Layout::new(members, recvcounts, displs, recvtype) }?;
        let _booked = raw::book(here.join.world(), Purpose::Comm, layout.total())?;
        let mut together = vec![0; layout.total()];
        let stays = is_in_place(send).then_some(root);
        let data = match stays {
            // SAFETY: as the caller promises.
            Some(root) => unsafe { layout.part(root, recv) }?,
            // SAFETY: as the caller promises.
            None => unsafe { readable(send.0, bytes_for(sendcount.0, sendtype.0)?, "send") }?,
        };
        members.gatherv(root, data, &layout.counts, &mut together)?;
        // SAFETY: as the caller promises.
        unsafe { layout.spread(&together, recv, stays) }
    })
}

unsafe fn allgatherv(
    send: Memory,
    sendcount: Number,
    sendtype: Number,
    recv: Memory,
    recvcounts: Numbers,
    displs: Numbers,
    recvtype: Number,
    comm: Group,
) -> Result<()> {
    with(comm, |here, members| {
        // SAFETY: as the caller promises.
        let layout = unsafe { Layout::new(members, recvcounts, displs, recvtype) }?;
        let _booked = raw::book(here.join.world(), Purpose::Comm, layout.total())?;
        let mut together = vec![0; layout.total()];
        let stays = is_in_place(send).then_some(members.rank());
        let data = match stays {
            // SAFETY: as the caller promises.
            Some(me) => unsafe { layout.part(me, recv) }?,
            // SAFETY: as the caller promises.
            None => unsafe { readable(send.0, bytes_for(sendcount.0, sendtype.0)?, "send") }?,
        };
        members.allgatherv(data, &layout.counts, &mut together)?;
        // SAFETY: as the caller promises.
        unsafe { layout.spread(&together, recv, stays) }
    })
}

/// A collective under way. What was started comes before the group that it borrows. What goes through it is copied when it is started, and
/// again when it has ended: so nobody touches memory of the program in between.
pub(super) struct Underway {
    started: Started<'static, 'static, u8>,
    into: Promised,
    _booked: Booking,
    _group: Shared,
}

impl Underway {
    pub(super) fn is_done(&self) -> bool {
        self.started.is_done()
    }

    pub(super) fn finish(self) -> Result<()> {
        let came = self.started.wait()?;
        let bytes = came.len().min(self.into.len());
        // SAFETY: the program leaves the memory alone until the request has ended, as the header demands.
        unsafe { self.into.fill(&came[..bytes]) };
        Ok(())
    }
}

/// Starts a collective of a group: `begin` gives it, and where what comes of it goes.
///
/// # Safety
/// `request` must be writable, or NULL.
unsafe fn start(
    comm: Group,
    request: Requests,
    bytes: usize,
    begin: impl FnOnce(&Shared, &'static Members<'static>) -> Result<(Started<'static, 'static, u8>, Promised)>,
) -> Result<()> {
    let underway = || {
        groups::with(comm, |here, group| {
            let members = group.collectives()?;
            // SAFETY: the request keeps the group that has them, and is dropped before it.
            let members: &'static Members<'static> = unsafe { &*std::ptr::from_ref(members) };
            let booked = raw::book(here.join.world(), Purpose::Comm, bytes)?;
            let (started, into) = begin(group, members)?;
            Ok(Asked::Underway(Box::new(Underway { started, into, _booked: booked, _group: group.clone() })))
        })
    };
    // SAFETY: as the caller promises.
    unsafe { request.start(underway) }
}

fn nowhere() -> Result<Promised> {
    Promised::new(std::ptr::null_mut::<c_void>(), 0, "nothing")
}

unsafe fn ibarrier(comm: Group, request: Requests) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { start(comm, request, 0, |_, members| Ok((members.start_barrier()?, nowhere()?))) }
}

unsafe fn ibcast(
    buf: Memory,
    count: Number,
    datatype: Number,
    root: Number,
    comm: Group,
    request: Requests,
) -> Result<()> {
    let bytes = bytes_for(count.0, datatype.0);
    let begin = |group: &Shared, members: &'static Members<'static>| {
        let (root, bytes) = (peer_of(group, root.0)?, bytes?);
        // SAFETY: as the caller promises.
        let data = unsafe { readable(buf.0, bytes, "buf") }?.to_vec();
        let into = if members.rank() == root { nowhere()? } else { Promised::new(buf.0, bytes, "buf")? };
        Ok((members.start_broadcast(root, data)?, into))
    };
    // SAFETY: as the caller promises.
    unsafe { start(comm, request, bytes_for(count.0, datatype.0).unwrap_or(0), begin) }
}

unsafe fn ireduce(
    send: Memory,
    recv: Memory,
    count: Number,
    datatype: Number,
    op: Number,
    root: Number,
    comm: Group,
    request: Requests,
) -> Result<()> {
    let begin = |group: &Shared, members: &'static Members<'static>| {
        let (how, bytes, root) =
            (how(datatype.0, op.0)?, bytes_for(count.0, datatype.0)?, peer_of(group, root.0)?);
        let from = if is_in_place(send) { recv } else { send };
        // SAFETY: as the caller promises.
        let data = unsafe { readable(from.0, bytes, "send") }?.to_vec();
        let into = if members.rank() == root { Promised::new(recv.0, bytes, "recv")? } else { nowhere()? };
        Ok((combining::start_reduce(members, root, data, how)?, into))
    };
    // SAFETY: as the caller promises.
    unsafe { start(comm, request, bytes_for(count.0, datatype.0).unwrap_or(0), begin) }
}

unsafe fn iallreduce(
    send: Memory,
    recv: Memory,
    count: Number,
    datatype: Number,
    op: Number,
    comm: Group,
    request: Requests,
) -> Result<()> {
    let begin = |_: &Shared, members: &'static Members<'static>| {
        let (how, bytes) = (how(datatype.0, op.0)?, bytes_for(count.0, datatype.0)?);
        let from = if is_in_place(send) { recv } else { send };
        // SAFETY: as the caller promises.
        let data = unsafe { readable(from.0, bytes, "send") }?.to_vec();
        Ok((combining::start_allreduce(members, data, how)?, Promised::new(recv.0, bytes, "recv")?))
    };
    // SAFETY: as the caller promises.
    unsafe { start(comm, request, bytes_for(count.0, datatype.0).unwrap_or(0), begin) }
}

face! {
    /// Waits until all members have come here.
    waitio_mpi_barrier | WAITIO_MPI_Barrier, waitio_mpi_barrier_ waitio_mpi_barrier_f_ = barrier(comm: Group);
    /// Gives the elements of the root to all members.
    waitio_mpi_bcast | WAITIO_MPI_Bcast, waitio_mpi_bcast_ waitio_mpi_bcast_f_ =
        bcast(buf: Memory, count: Number, datatype: Number, root: Number, comm: Group);
    /// Combines the elements of all members into those of the root.
    waitio_mpi_reduce | WAITIO_MPI_Reduce, waitio_mpi_reduce_ waitio_mpi_reduce_f_ =
        reduce(send: Memory, recv: Memory, count: Number, datatype: Number, op: Number, root: Number, comm: Group);
    /// Combines the elements of all members, on all of them.
    waitio_mpi_allreduce | WAITIO_MPI_Allreduce, waitio_mpi_allreduce_ waitio_mpi_allreduce_f_ =
        allreduce(send: Memory, recv: Memory, count: Number, datatype: Number, op: Number, comm: Group);
    /// Brings as many elements of each member to the root.
    waitio_mpi_gather | WAITIO_MPI_Gather, waitio_mpi_gather_ waitio_mpi_gather_f_ =
        gather(send: Memory, recv: Memory, count: Number, datatype: Number, root: Number, comm: Group);
    /// Brings as many elements of each member to all.
    waitio_mpi_allgather | WAITIO_MPI_Allgather, waitio_mpi_allgather_ waitio_mpi_allgather_f_ =
        allgather(send: Memory, recv: Memory, count: Number, datatype: Number, comm: Group);
    /// Gives as many elements of each member to each.
    waitio_mpi_alltoall | WAITIO_MPI_Alltoall, waitio_mpi_alltoall_ waitio_mpi_alltoall_f_ =
        alltoall(send: Memory, recv: Memory, count: Number, datatype: Number, comm: Group);
    /// Gives as many elements of the root to each member.
    waitio_mpi_scatter | WAITIO_MPI_Scatter, waitio_mpi_scatter_ waitio_mpi_scatter_f_ =
        scatter(send: Memory, sendcount: Number, sendtype: Number, recv: Memory, recvcount: Number, recvtype: Number,
            root: Number, comm: Group);
    /// Gives any number of elements of the root to each member.
    waitio_mpi_scatterv | WAITIO_MPI_Scatterv, waitio_mpi_scatterv_ waitio_mpi_scatterv_f_ =
        scatterv(send: Memory, sendcounts: Numbers, displs: Numbers, sendtype: Number, recv: Memory, recvcount: Number,
            recvtype: Number, root: Number, comm: Group);
    /// Brings any number of elements of each member to the root.
    waitio_mpi_gatherv | WAITIO_MPI_Gatherv, waitio_mpi_gatherv_ waitio_mpi_gatherv_f_ =
        gatherv(send: Memory, sendcount: Number, sendtype: Number, recv: Memory, recvcounts: Numbers, displs: Numbers,
            recvtype: Number, root: Number, comm: Group);
    /// Brings any number of elements of each member to all.
    waitio_mpi_allgatherv | WAITIO_MPI_Allgatherv, waitio_mpi_allgatherv_ waitio_mpi_allgatherv_f_ =
        allgatherv(send: Memory, sendcount: Number, sendtype: Number, recv: Memory, recvcounts: Numbers, displs: Numbers,
            recvtype: Number, comm: Group);
    /// Starts a barrier.
    waitio_mpi_ibarrier | WAITIO_MPI_Ibarrier, waitio_mpi_ibarrier_ waitio_mpi_ibarrier_f_ =
        ibarrier(comm: Group, request: Requests);
    /// Starts a broadcast.
    waitio_mpi_ibcast | WAITIO_MPI_Ibcast, waitio_mpi_ibcast_ waitio_mpi_ibcast_f_ =
        ibcast(buf: Memory, count: Number, datatype: Number, root: Number, comm: Group, request: Requests);
    /// Starts a reduction to the root.
    waitio_mpi_ireduce | WAITIO_MPI_Ireduce, waitio_mpi_ireduce_ waitio_mpi_ireduce_f_ =
        ireduce(send: Memory, recv: Memory, count: Number, datatype: Number, op: Number, root: Number, comm: Group,
            request: Requests);
    /// Starts a reduction on all members.
    waitio_mpi_iallreduce | WAITIO_MPI_Iallreduce, waitio_mpi_iallreduce_ waitio_mpi_iallreduce_f_ =
        iallreduce(send: Memory, recv: Memory, count: Number, datatype: Number, op: Number, comm: Group,
            request: Requests);
}

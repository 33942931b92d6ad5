//! Messages and requests in the words of MPI.

use super::arguments::{
    face, BytesOut, Group, IndexOut, IntTag, Memory, Number, Out, Requests, Statuses, Tag,
};
use super::elements::{bytes_for, bytes_of};
use super::messages::{self, peer_of};
use super::{groups, requests};
use crate::api::buffers::{readable, writable};
use kumiki::Result;
use std::ffi::c_int;

unsafe fn isend(
    buf: Memory,
    count: Number,
    datatype: Number,
    dest: Number,
    tag: IntTag,
    comm: Group,
    request: Requests,
) -> Result<()> {
    let bytes = bytes_for(count.0, datatype.0);
    // SAFETY: as the caller promises.
    unsafe { messages::start_send(comm, dest.0, (buf.0, bytes), tag.0, request) }
}

unsafe fn irecv(
    buf: Memory,
    count: Number,
    datatype: Number,
    source: Number,
    tag: IntTag,
    comm: Group,
    request: Requests,
) -> Result<()> {
    let bytes = bytes_for(count.0, datatype.0);
    // SAFETY: as the caller promises.
    unsafe { messages::start_receive(comm, source.0, (buf.0, bytes), tag.0, request) }
}

unsafe fn send(
    buf: Memory,
    count: Number,
    datatype: Number,
    dest: Number,
    tag: IntTag,
    comm: Group,
) -> Result<()> {
    if requests::any_underway() {
        // Collectives that are under way go on while it is waited for.
        // SAFETY: as the caller promises; the request is waited for here.
        return unsafe { requests::at_once(|request| isend(buf, count, datatype, dest, tag, comm, request)) };
    }
    // SAFETY: as the caller promises.
    let message = unsafe { readable(buf.0, bytes_for(count.0, datatype.0)?, "buf") }?;
    groups::with(comm, |_, group| group.send(peer_of(group, dest.0)?, tag.0, message))
}

unsafe fn recv(
    buf: Memory,
    count: Number,
    datatype: Number,
    source: Number,
    tag: IntTag,
    comm: Group,
) -> Result<()> {
    if requests::any_underway() {
        // SAFETY: as the caller promises; the request is waited for here.
        return unsafe {
            requests::at_once(|request| irecv(buf, count, datatype, source, tag, comm, request))
        };
    }
    // SAFETY: as the caller promises.
    let into = unsafe { writable(buf.0, bytes_for(count.0, datatype.0)?, "buf") }?;
    groups::with(comm, |_, group| group.receive_into(into, peer_of(group, source.0)?, tag.0).map(drop))
}

unsafe fn waitall(count: Number, requests: Requests, statuses: Statuses) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { requests::wait_all(count, requests, |index, has_failed| statuses.give(index, has_failed)) }
}

/// Tells in a status whether something went wrong.
unsafe fn told(status: Statuses, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let ended = work();
    // SAFETY: as the caller promises.
    unsafe { status.give(0, ended.is_err()) };
    ended
}

unsafe fn wait(request: Requests, status: Statuses) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { told(status, || requests::wait(request)) }
}

unsafe fn test(request: Requests, flag: Out, status: Statuses) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { told(status, || requests::test(request, flag)) }
}

unsafe fn waitany(count: Number, requests: Requests, index: IndexOut, status: Statuses) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { told(status, || requests::wait_any(count, requests, index)) }
}

unsafe fn testany(
    count: Number,
    requests: Requests,
    index: IndexOut,
    flag: Out,
    status: Statuses,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { told(status, || requests::test_any(count, requests, index, flag)) }
}

unsafe fn probe(source: Number, tag: IntTag, comm: Group, bytes: BytesOut) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { messages::probe(comm, source, Tag(tag.0), bytes) }
}

unsafe fn iprobe(source: Number, tag: IntTag, comm: Group, flag: Out, bytes: BytesOut) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { messages::iprobe(comm, source, Tag(tag.0), flag, bytes) }
}

unsafe fn type_size(datatype: Number, size: Out) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { size.give("the size", bytes_of(datatype.0)? as c_int) }
}

use requests::cancel;

face! {
    /// Begins to send elements to a member.
    waitio_mpi_isend | WAITIO_MPI_Isend, waitio_mpi_isend_ waitio_mpi_isend_f_ =
        isend(buf: Memory, count: Number, datatype: Number, dest: Number, tag: IntTag, comm: Group, request: Requests);
    /// Begins to receive up to so many elements of a member.
    waitio_mpi_irecv | WAITIO_MPI_Irecv, waitio_mpi_irecv_ waitio_mpi_irecv_f_ =
        irecv(buf: Memory, count: Number, datatype: Number, source: Number, tag: IntTag, comm: Group, request: Requests);
    /// Sends elements to a member.
    waitio_mpi_send | WAITIO_MPI_Send, waitio_mpi_send_ waitio_mpi_send_f_ =
        send(buf: Memory, count: Number, datatype: Number, dest: Number, tag: IntTag, comm: Group);
    /// Receives up to so many elements of a member.
    waitio_mpi_recv | WAITIO_MPI_Recv, waitio_mpi_recv_ waitio_mpi_recv_f_ =
        recv(buf: Memory, count: Number, datatype: Number, source: Number, tag: IntTag, comm: Group);
    /// Waits for all requests of a list.
    waitio_mpi_waitall | WAITIO_MPI_Waitall, waitio_mpi_waitall_ waitio_mpi_waitall_f_ =
        waitall(count: Number, requests: Requests, statuses: Statuses);
    /// Waits for a request.
    waitio_mpi_wait | WAITIO_MPI_Wait, waitio_mpi_wait_ waitio_mpi_wait_f_ = wait(request: Requests, status: Statuses);
    /// Whether a request is done; then it has been waited for.
    waitio_mpi_test | WAITIO_MPI_Test, waitio_mpi_test_ waitio_mpi_test_f_ =
        test(request: Requests, flag: Out, status: Statuses);
    /// Waits for one request of a list.
    waitio_mpi_waitany | WAITIO_MPI_Waitany, waitio_mpi_waitany_ waitio_mpi_waitany_f_ =
        waitany(count: Number, requests: Requests, index: IndexOut, status: Statuses);
    /// Whether a request of a list is done; then it has been waited for.
    waitio_mpi_testany | WAITIO_MPI_Testany, waitio_mpi_testany_ waitio_mpi_testany_f_ =
        testany(count: Number, requests: Requests, index: IndexOut, flag: Out, status: Statuses);
    /// Gives a receive up, or takes what it has got.
    waitio_mpi_cancel | WAITIO_MPI_Cancel, waitio_mpi_cancel_ waitio_mpi_cancel_f_ = cancel(request: Requests);
    /// Waits for a message of a member, and leaves it where it is: its bytes.
    waitio_mpi_probe | WAITIO_MPI_Probe, waitio_mpi_probe_ waitio_mpi_probe_f_ =
        probe(source: Number, tag: IntTag, comm: Group, bytes: BytesOut);
    /// Whether a message of a member has come, and its bytes.
    waitio_mpi_iprobe | WAITIO_MPI_Iprobe, waitio_mpi_iprobe_ waitio_mpi_iprobe_f_ =
        iprobe(source: Number, tag: IntTag, comm: Group, flag: Out, bytes: BytesOut);
    /// Bytes of an element of a type.
    waitio_mpi_type_size | WAITIO_MPI_Type_size, waitio_mpi_type_size_ waitio_mpi_type_size_f_ =
        type_size(datatype: Number, size: Out);
}

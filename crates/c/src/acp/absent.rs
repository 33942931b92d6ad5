//! Functions of ACP that are not there yet. Programs that call them do not link; with these sections of the library the linker says
//! why, also where no header of ours was read. (The compiler says it first: see `acp.h`.)

/// A section that the GNU linker shows to whoever refers to a name.
macro_rules! absent {
    ($($name:literal)*) => {
        std::arch::global_asm!(
            $(
                concat!(".section .gnu.warning.", $name, ",\"\",%progbits"),
                concat!(".ascii \"", $name, ": Kumiki has no channels and segment buffers yet; send with acp_copy into memory of the receiver\""),
            )*
            ".text",
        );
    };
}

absent! {
    "acp_create_src_segbuf"
    "acp_create_dst_segbuf"
    "acp_connect_segbuf"
    "acp_isconnected_segbuf"
    "acp_ready_segbuf"
    "acp_ack_segbuf"
    "acp_isready_segbuf"
    "acp_isacked_segbuf"
    "acp_query_segbuf_head"
    "acp_query_segbuf_tail"
    "acp_query_segbuf_sent"
    "acp_disconnect_segbuf"
    "acp_free_segbuf"
    "acp_create_ch"
    "acp_free_ch"
    "acp_nbfree_ch"
    "acp_nbsend_ch"
    "acp_nbrecv_ch"
    "acp_wait_ch"
    "acp_waitall_ch"
    "acp_send_ch"
    "acp_recv_ch"
}

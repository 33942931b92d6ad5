//! Per-job secret and handshake.

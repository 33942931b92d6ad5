//! Frames and the connection state machine: no I/O, no clock, no unsafe.

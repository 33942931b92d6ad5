//! Bytes between fields have no value, so a struct with gaps is not plain data.

#[derive(Clone, Copy, kumiki::Pod, kumiki::Zeroable)]
#[repr(C)]
struct Gap {
    small: u8,
    large: u32,
}

#[derive(Clone, Copy, kumiki::Pod, kumiki::Zeroable)]
#[repr(C, align(16))]
struct Tail(u64);

fn main() {}

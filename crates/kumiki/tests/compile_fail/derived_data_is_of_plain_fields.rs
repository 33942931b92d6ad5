//! A struct is plain data only if every field is: other ranks can write any bytes there.

#[derive(Clone, Copy, kumiki::Pod, kumiki::Zeroable)]
#[repr(C)]
struct Flag {
    set: bool,
}

#[derive(Clone, Copy, kumiki::Pod, kumiki::Zeroable)]
#[repr(transparent)]
struct Pointer(&'static u64);

fn main() {}

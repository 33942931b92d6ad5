//! Other programs of a job read what one wrote, so the order of the fields must not be left to the compiler.

#[derive(Clone, Copy, kumiki::Pod, kumiki::Zeroable)]
struct Open {
    one: u32,
    two: u32,
}

#[derive(Clone, Copy, kumiki::Pod, kumiki::Zeroable)]
#[repr(C)]
struct Unknown<T: kumiki::Pod> {
    one: u8,
    two: T,
}

#[derive(Clone, Copy, kumiki::Pod, kumiki::Zeroable)]
#[repr(u8)]
enum Choice {
    Zero = 0,
}

fn main() {}

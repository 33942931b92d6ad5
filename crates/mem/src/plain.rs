//! Plain data: the traits of bytemuck, with macros of our own that derive them in programs which do not know bytemuck.

// The traits come by a glob, which the macros of the same names go before. By name they could bring bytemuck's macros along:
// anybody in the build of a program can turn those on.
pub use bytemuck::*;
pub use kumiki_derive::{Pod, Zeroable};

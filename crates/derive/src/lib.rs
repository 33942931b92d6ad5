//! `#[derive(kumiki::Pod, kumiki::Zeroable)]`: what says that a type of the program may lie in global memory.
//!
//! bytemuck's own derives name `::bytemuck`, which a program that depends on Kumiki alone does not have; these name
//! `::kumiki`, and make the same checks. They stand in a crate of their own because macros of this kind must. Users meet
//! them through the crate `kumiki`; may use nothing else of the workspace.
//!
//! The traits are `unsafe` to implement, so what is derived must have been proved. Of a [`Pod`] that is: every bit pattern
//! is a value, which holds if it holds for every field (a `where` clause); no byte is padding, which a constant assertion
//! compares, or the representation excludes; and no reference or drop, which the traits that `Pod` builds on exclude.
#![forbid(unsafe_code)]

mod input;

use input::Input;
use proc_macro::TokenStream;
use quote::quote;
use syn::DeriveInput;

/// Derives `kumiki::Pod` for a struct: plain data, any bytes of which are a value, without padding.
///
/// The struct must be `#[repr(C)]` or `#[repr(transparent)]`, all its fields must be `Pod`, and there must be no gap
/// between or behind them. With parameters it must be `#[repr(transparent)]` or `#[repr(C, packed)]`, because gaps cannot
/// be looked for before the types are known. A crate that knows Kumiki by another name says
/// `#[kumiki(crate = "name")]`.
#[proc_macro_derive(Pod, attributes(kumiki))]
pub fn derive_pod(item: TokenStream) -> TokenStream {
    derive(item, |input| {
        let no_padding = input.no_padding()?;
        let implementation = input.implement("Pod");
        Ok(quote! { #no_padding #implementation })
    })
}

/// Derives `kumiki::Zeroable` for a struct: all bytes zero are a value of it, because they are one of every field.
///
/// A crate that knows Kumiki by another name says `#[kumiki(crate = "name")]`.
#[proc_macro_derive(Zeroable, attributes(kumiki))]
pub fn derive_zeroable(item: TokenStream) -> TokenStream {
    derive(item, |input| Ok(input.implement("Zeroable")))
}

fn derive(item: TokenStream, make: impl Fn(&Input) -> syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    let made = syn::parse::<DeriveInput>(item).and_then(Input::new).and_then(|input| make(&input));
    made.unwrap_or_else(|error| error.to_compile_error()).into()
}

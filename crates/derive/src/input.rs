//! The struct that a derive stands on: what is looked at, and what is made of it.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{parse_quote, Attribute, Data, DeriveInput, Error, LitInt, LitStr, Path, Result, Type};

/// A struct, its fields, and how it is laid out.
pub(crate) struct Input {
    item: DeriveInput,
    fields: Vec<Type>,
    layout: Layout,
    /// Where the traits are.
    home: Path,
}

/// What `#[repr(…)]` says.
#[derive(Default)]
struct Layout {
    c: bool,
    transparent: bool,
    /// `packed` or `packed(1)`: no field is aligned, so there is no gap whatever the fields are.
    packed: bool,
}

impl Input {
    /// Looks at a struct; anything else is an error.
    pub(crate) fn new(item: DeriveInput) -> Result<Input> {
        let Data::Struct(data) = &item.data else {
            return Err(Error::new_spanned(
                &item.ident,
                "only structs can be derived to lie in global memory",
            ));
        };
        let fields = data.fields.iter().map(|field| field.ty.clone()).collect();
        let layout = layout(&item.attrs)?;
        let home = home(&item.attrs)?;
        Ok(Input { item, fields, layout, home })
    }

    /// What proves that no byte of the struct is padding, or why that cannot be proved.
    pub(crate) fn no_padding(&self) -> Result<TokenStream> {
        let (name, fields) = (&self.item.ident, &self.fields);
        if !self.layout.c && !self.layout.transparent {
            let what =
                "Pod needs #[repr(C)] or #[repr(transparent)]: without it the order of the fields is open";
            return Err(Error::new_spanned(name, what));
        }
        if self.layout.transparent || self.layout.packed {
            return Ok(TokenStream::new());
        }
        if !self.item.generics.params.is_empty() {
            let what = "Pod of a struct with parameters needs #[repr(transparent)] or #[repr(C, packed)]: \
                        whether others have gaps is not known before their types are";
            return Err(Error::new_spanned(&self.item.generics, what));
        }
        let message =
            format!("{name} has gaps between or behind its fields, so it is not Pod: fill them with fields");
        Ok(quote! {
            const _: () = ::core::assert!(
                ::core::mem::size_of::<#name>() == 0 #(+ ::core::mem::size_of::<#fields>())*,
                #message
            );
        })
    }

    /// The implementation of a trait, which holds where it holds for every field.
    pub(crate) fn implement(&self, name: &str) -> TokenStream {
        let (home, name) = (&self.home, format_ident!("{name}"));
        let mut generics = self.item.generics.clone();
        let bounds = &mut generics.make_where_clause().predicates;
        for field in &self.fields {
            bounds.push(parse_quote!(#field: #home::#name));
        }
        let (parameters, arguments, bounds) = generics.split_for_impl();
        let item = &self.item.ident;
        quote! {
            // SAFETY: The bounds hold for every field, and `no_padding` stands beside an implementation of `Pod`.
            unsafe impl #parameters #home::#name for #item #arguments #bounds {}
        }
    }
}

fn layout(attributes: &[Attribute]) -> Result<Layout> {
    let mut layout = Layout::default();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        attribute.parse_nested_meta(|meta| {
            layout.c |= meta.path.is_ident("C");
            layout.transparent |= meta.path.is_ident("transparent");
            let mut argument = None;
            if meta.input.peek(syn::token::Paren) {
                let inner;
                syn::parenthesized!(inner in meta.input);
                argument = Some(inner.parse::<LitInt>()?.base10_parse::<u32>()?);
            }
            layout.packed |= meta.path.is_ident("packed") && argument.unwrap_or(1) == 1;
            Ok(())
        })?;
    }
    Ok(layout)
}

/// The path of the crate that has the traits.
fn home(attributes: &[Attribute]) -> Result<Path> {
    let mut home = parse_quote!(::kumiki);
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("kumiki")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("expected crate = \"…\""));
            }
            home = meta.value()?.parse::<LitStr>()?.parse()?;
            Ok(())
        })?;
    }
    Ok(home)
}

//! The writer: names beside what they hold.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Data, DataEnum, DeriveInput, Fields, FieldsNamed, Result, parse_quote};

use crate::attributes::{Attributes, field};

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let attributes = Attributes::of(&input.attrs)?;
    let name = &input.ident;
    let body = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => record(fields)?,
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => quote!(self.0.write(out);),
            _ => return Err(syn::Error::new_spanned(name, "neither named fields nor exactly one")),
        },
        Data::Enum(data) => variants(name, &attributes, data)?,
        Data::Union(_) => return Err(syn::Error::new_spanned(name, "a union")),
    };
    let mut generics = input.generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(crate::write::ToJson));
    }
    let (generics, of, bounds) = generics.split_for_impl();
    Ok(quote! {
        impl #generics crate::write::ToJson for #name #of #bounds {
            fn write(&self, out: &mut ::std::string::String) {
                #body
            }
        }
    })
}

/// An object, its fields in the order of their declaration.
fn record(fields: &FieldsNamed) -> Result<TokenStream> {
    let mut entries = Vec::new();
    for f in &fields.named {
        let (text, own) = field(f)?;
        let ident = &f.ident;
        if !own.skip {
            let there = quote!(::core::option::Option::Some(&self.#ident));
            let value = own.skip_if.map_or_else(
                || there.clone(),
                |skip| quote!(if #skip(&self.#ident) { ::core::option::Option::None } else { #there }),
            );
            entries.push(quote!((#text, #value)));
        }
    }
    Ok(quote!(crate::write::object(out, &[#(#entries),*]);))
}

/// A word, or an object with a tag.
fn variants(name: &Ident, attributes: &Attributes, data: &DataEnum) -> Result<TokenStream> {
    let mut arms = Vec::new();
    for v in &data.variants {
        let (word, ident) = (attributes.word(v)?.0, &v.ident);
        let idents: Vec<_> = v.fields.iter().map(|f| &f.ident).collect();
        let mut names = Vec::new();
        for f in &v.fields {
            names.push(field(f)?.0);
        }
        arms.push(match &attributes.tag {
            None if idents.is_empty() => quote!(#name::#ident => crate::write::text(out, #word)),
            None => return Err(syn::Error::new_spanned(v, "a word holds nothing")),
            Some(tag) => quote!(#name::#ident { #(#idents),* } => crate::write::object(
                out,
                &[(#tag, ::core::option::Option::Some(&#word)), #((#names, ::core::option::Option::Some(#idents))),*],
            )),
        });
    }
    Ok(quote!(match self { #(#arms),* }))
}

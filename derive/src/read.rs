//! The reader: a table of fields, and the way from a field's place to the field.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::{Data, DataEnum, DeriveInput, Fields, FieldsNamed, Result, Variant};

use crate::attributes::{Attributes, Otherwise, field};

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let attributes = Attributes::of(&input.attrs)?;
    let name = &input.ident;
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => record(name, &attributes, fields, None),
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => Ok(newtype(name)),
            _ => Err(syn::Error::new_spanned(name, "neither named fields nor exactly one")),
        },
        Data::Enum(data) if attributes.tag.is_some() => tagged(name, &attributes, data),
        Data::Enum(data) => words(name, &attributes, data),
        Data::Union(_) => Err(syn::Error::new_spanned(name, "a union")),
    }
}

/// A value of one field reads as that field.
fn newtype(name: &Ident) -> TokenStream {
    quote! {
        impl crate::read::FromJson for #name {
            fn hollow() -> Self {
                Self(crate::read::FromJson::hollow())
            }

            fn read(&mut self, value: &::serde_json::Value) -> crate::error::Result<()> {
                self.0.read(value)
            }
        }
    }
}

/// An object. `tag` is a field that tells variants apart and was read before.
fn record(
    name: &Ident,
    attributes: &Attributes,
    fields: &FieldsNamed,
    tag: Option<&str>,
) -> Result<TokenStream> {
    let whole = matches!(attributes.otherwise, Otherwise::Default);
    let (mut names, mut arms, mut required, mut hollow) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for f in &fields.named {
        let (text, own) = field(f)?;
        let (ident, ty) = (&f.ident, &f.ty);
        match &own.otherwise {
            _ if own.skip => hollow.push(quote!(#ident: ::core::default::Default::default())),
            Otherwise::Function(path) => hollow.push(quote!(#ident: #path())),
            Otherwise::Default => hollow.push(quote!(#ident: ::core::default::Default::default())),
            Otherwise::Required if whole => {}
            Otherwise::Required => {
                hollow.push(quote!(#ident: crate::read::FromJson::hollow()));
                let place = names.len();
                required.push(quote!(((!<#ty as crate::read::FromJson>::OPTIONAL) as u64) << #place));
            }
        }
        if !own.skip {
            let place = names.len();
            arms.push(quote!(#place => self.#ident.read(value)));
            names.push(text);
        }
    }
    let mut places: Vec<_> = (0..names.len()).collect();
    places.sort_by_key(|&i| names.get(i));
    let places = places.into_iter().map(|i| u8::try_from(i).unwrap_or(u8::MAX));
    let rest = if whole { quote!(..Self::default()) } else { TokenStream::new() };
    let tag = tag
        .map_or_else(|| quote!(::core::option::Option::None), |t| quote!(::core::option::Option::Some(#t)));
    Ok(quote! {
        impl crate::read::FromJson for #name {
            fn hollow() -> Self {
                Self { #(#hollow,)* #rest }
            }

            fn read(&mut self, value: &::serde_json::Value) -> crate::error::Result<()> {
                const SHAPE: crate::read::Shape = crate::read::Shape {
                    names: &[#(#names),*],
                    sorted: &[#(#places),*],
                    required: 0 #(| #required)*,
                    tag: #tag,
                };
                *self = Self::hollow();
                crate::read::object(self, &SHAPE, value)
            }
        }

        impl crate::read::Record for #name {
            fn set(&mut self, place: usize, value: &::serde_json::Value) -> crate::error::Result<()> {
                use crate::read::FromJson;
                match place {
                    #(#arms,)*
                    _ => Ok(()),
                }
            }
        }
    })
}

/// One of a list of words.
fn words(name: &Ident, attributes: &Attributes, data: &DataEnum) -> Result<TokenStream> {
    let (mut texts, mut arms) = (Vec::new(), Vec::new());
    let mut first = None;
    for v in &data.variants {
        if !matches!(v.fields, Fields::Unit) {
            return Err(syn::Error::new_spanned(v, "a word holds nothing"));
        }
        let (word, aliases) = attributes.word(v)?;
        let mut all: Vec<_> = aliases.into_iter().chain([word]).collect();
        all.sort();
        let ident = &v.ident;
        first.get_or_insert(ident);
        let places = texts.len()..texts.len() + all.len();
        arms.extend(places.map(|place| quote!(#place => Self::#ident)));
        texts.extend(all);
    }
    Ok(quote! {
        impl crate::read::FromJson for #name {
            fn hollow() -> Self {
                Self::#first
            }

            fn read(&mut self, value: &::serde_json::Value) -> crate::error::Result<()> {
                *self = match crate::read::word(value, &[#(#texts),*])? {
                    #(#arms,)*
                    _ => Self::#first,
                };
                Ok(())
            }
        }
    })
}

/// An object whose tag says which of several it is. Each becomes a record of its own first.
fn tagged(name: &Ident, attributes: &Attributes, data: &DataEnum) -> Result<TokenStream> {
    let tag = attributes.tag.as_deref().unwrap_or_default();
    let (mut texts, mut arms, mut records) = (Vec::new(), Vec::new(), Vec::new());
    let mut first = None;
    for (place, v) in data.variants.iter().enumerate() {
        texts.push(attributes.word(v)?.0);
        let of = format_ident!("{}{}", name, v.ident);
        let (record, built) = variant(&of, v, tag)?;
        records.push(record);
        arms.push(quote!(#place => {
            let mut given = <#of as crate::read::FromJson>::hollow();
            crate::read::FromJson::read(&mut given, value)?;
            #built
        }));
        first.get_or_insert_with(|| {
            quote! {{
                let given = <#of as crate::read::FromJson>::hollow();
                #built
            }}
        });
    }
    Ok(quote! {
        const _: () = {
            #(#records)*

            impl crate::read::FromJson for #name {
                fn hollow() -> Self {
                    #first
                }

                fn read(&mut self, value: &::serde_json::Value) -> crate::error::Result<()> {
                    *self = match crate::read::tag(value, #tag, &[#(#texts),*])? {
                        #(#arms,)*
                        _ => Self::hollow(),
                    };
                    Ok(())
                }
            }
        };
    })
}

/// The record of one variant, and the variant made of it.
fn variant(of: &Ident, v: &Variant, tag: &str) -> Result<(TokenStream, TokenStream)> {
    let none =
        FieldsNamed { brace_token: syn::token::Brace::default(), named: syn::punctuated::Punctuated::new() };
    let fields = match &v.fields {
        Fields::Named(fields) => fields,
        Fields::Unit => &none,
        Fields::Unnamed(_) => return Err(syn::Error::new_spanned(v, "fields without names")),
    };
    let idents: Vec<_> = fields.named.iter().map(|f| &f.ident).collect();
    let types: Vec<_> = fields.named.iter().map(|f| &f.ty).collect();
    let record = record(of, &Attributes::default(), fields, Some(tag))?;
    let name = &v.ident;
    let given = if idents.is_empty() { quote!(let _ = given;) } else { TokenStream::new() };
    Ok((
        quote!(struct #of { #(#idents: #types,)* } #record),
        quote!(#given Self::#name { #(#idents: given.#idents,)* }),
    ))
}

//! The attributes of serde that the core uses. Any other is refused, not ignored.

use proc_macro2::Span;
use quote::ToTokens;
use syn::{Attribute, ExprPath, Field, LitStr, Result, Variant};

/// Where a value comes from that was left out.
#[derive(Clone, Default)]
pub(crate) enum Otherwise {
    /// It must be given.
    #[default]
    Required,
    /// `Default::default()`.
    Default,
    /// A function.
    Function(ExprPath),
}

/// What `#[serde(..)]` says of a type, a variant or a field.
#[derive(Clone, Default)]
pub(crate) struct Attributes {
    pub(crate) otherwise: Otherwise,
    pub(crate) rename: Option<String>,
    pub(crate) aliases: Vec<String>,
    pub(crate) tag: Option<String>,
    pub(crate) skip: bool,
    pub(crate) skip_if: Option<ExprPath>,
    pub(crate) transparent: bool,
    snake_case: bool,
}

impl Attributes {
    pub(crate) fn of(attributes: &[Attribute]) -> Result<Self> {
        let mut out = Self::default();
        for attribute in attributes.iter().filter(|a| a.path().is_ident("serde")) {
            attribute.parse_nested_meta(|meta| {
                let name = meta.path.to_token_stream().to_string();
                let text = || meta.value()?.parse::<LitStr>();
                match name.as_str() {
                    "deny_unknown_fields" => {}
                    "default" if meta.input.peek(syn::Token![=]) => {
                        out.otherwise = Otherwise::Function(text()?.parse()?);
                    }
                    "default" => out.otherwise = Otherwise::Default,
                    "rename" => out.rename = Some(text()?.value()),
                    "alias" => out.aliases.push(text()?.value()),
                    "tag" => out.tag = Some(text()?.value()),
                    "skip" => out.skip = true,
                    "skip_serializing_if" => out.skip_if = Some(text()?.parse()?),
                    "transparent" => out.transparent = true,
                    "rename_all" if text()?.value() == "snake_case" => out.snake_case = true,
                    _ => return Err(meta.error("an attribute that the core's own reader does not know")),
                }
                Ok(())
            })?;
        }
        Ok(out)
    }

    /// The name of a variant in JSON, under what its enum says.
    pub(crate) fn word(&self, variant: &Variant) -> Result<(String, Vec<String>)> {
        let own = Self::of(&variant.attrs)?;
        let plain = variant.ident.to_string();
        let name = own.rename.unwrap_or_else(|| if self.snake_case { snake(&plain) } else { plain });
        Ok((name, own.aliases))
    }
}

/// The name of a field in JSON, and what its attributes say.
pub(crate) fn field(field: &Field) -> Result<(String, Attributes)> {
    let attributes = Attributes::of(&field.attrs)?;
    let Some(ident) = &field.ident else {
        return Err(syn::Error::new(Span::call_site(), "a field without a name"));
    };
    Ok((attributes.rename.clone().unwrap_or_else(|| ident.to_string()), attributes))
}

/// `SpotThenReserved` as `spot_then_reserved`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for (i, c) in name.chars().enumerate() {
        if c.is_uppercase() && i > 0 {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

//! `#[derive(Settings)]`: each field of a struct is a key of a configuration table.
//!
//! ```text
//! #[derive(Settings)]
//! struct Options {
//!     /// how long a call may take
//!     #[setting(default = Duration::from_secs(60))]
//!     timeout: Duration,
//! }
//! ```
//!
//! The first paragraph of a field's documentation is the description of the key. `Default` is implemented, too.
//! Options of `#[setting(…)]`:
//!
//! - `key = "…"`: the key, if it differs from the field's name.
//! - `default = …`: the field's default, if it differs from its type's.
//! - `or = …`: the default in words, if it depends on something else.
//! - `about = …`: the description, if it is computed.
//! - `required`: the key must be set.
//! - `file_only`: only the configuration file may set the key.
//! - `range = …`, `size`, `word`, `words = …`, `may_be_empty`: the values that the key accepts, if its type does not say so.
//! - `nested`: the field is a struct of settings whose keys are in the same table.
//! - `visit = …`: a function that visits the keys of the field. It gets the struct and the visitor.
//! - `skip`: the field is not a setting.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{
    Data, DeriveInput, Error, Expr, ExprLit, Field, Fields, Ident, Lit, LitStr, Meta, Result,
    parse_macro_input,
};

/// Implements `Settings` and `Default`; see [the crate](crate).
#[proc_macro_derive(Settings, attributes(setting))]
pub fn derive_settings(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    implement(&parse_macro_input!(input)).unwrap_or_else(Error::into_compile_error).into()
}

fn implement(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(syn::DataStruct { fields: Fields::Named(fields), .. }) = &input.data else {
        return Err(Error::new_spanned(input, "settings are a struct with named fields"));
    };
    let settings = fields.named.iter().map(Setting::of).collect::<Result<Vec<_>>>()?;
    let name = &input.ident;
    let fields = settings.iter().map(|setting| setting.field);
    let defaults = settings.iter().map(Setting::default);
    let statements = settings.iter().map(Setting::statement);
    Ok(quote! {
        impl ::std::default::Default for #name {
            fn default() -> Self {
                Self { #(#fields: #defaults,)* }
            }
        }

        impl ::toolwire_engine::settings::Settings for #name {
            fn settings(&mut self, keys: &mut dyn ::toolwire_engine::settings::Visitor) {
                #(#statements)*
            }
        }
    })
}

/// A field and its options.
struct Setting<'i> {
    field: &'i Ident,
    /// The first paragraph of its documentation.
    docs: String,
    key: String,
    default: Option<Expr>,
    or: Option<Expr>,
    about: Option<Expr>,
    range: Option<Expr>,
    words: Option<Expr>,
    visit: Option<Expr>,
    /// The options without values.
    flags: Vec<Ident>,
}

impl<'i> Setting<'i> {
    fn of(field: &'i Field) -> Result<Self> {
        let name = field.ident.as_ref().ok_or_else(|| Error::new_spanned(field, "a field without a name"))?;
        let mut setting = Self {
            field: name,
            docs: docs(field),
            key: name.to_string(),
            default: None,
            or: None,
            about: None,
            range: None,
            words: None,
            visit: None,
            flags: Vec::new(),
        };
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("setting")) {
            attribute.parse_nested_meta(|option| {
                let name = option.path.require_ident()?.clone();
                let value = match name.to_string().as_str() {
                    "key" => {
                        setting.key = option.value()?.parse::<LitStr>()?.value();
                        return Ok(());
                    }
                    "default" => &mut setting.default,
                    "or" => &mut setting.or,
                    "about" => &mut setting.about,
                    "range" => &mut setting.range,
                    "words" => &mut setting.words,
                    "visit" => &mut setting.visit,
                    "required" | "size" | "word" | "may_be_empty" | "file_only" | "nested" | "skip" => {
                        setting.flags.push(name);
                        return Ok(());
                    }
                    _ => return Err(option.error("unknown option of a setting")),
                };
                *value = Some(option.value()?.parse()?);
                Ok(())
            })?;
        }
        let is_key = !setting.is("skip") && !setting.is("nested") && setting.visit.is_none();
        if is_key && setting.docs.is_empty() && setting.about.is_none() {
            return Err(Error::new_spanned(field, "a setting without a description"));
        }
        Ok(setting)
    }

    fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    fn default(&self) -> TokenStream {
        match &self.default {
            Some(default) => quote!(#default),
            None => quote!(::std::default::Default::default()),
        }
    }

    /// The statement that visits the setting.
    fn statement(&self) -> TokenStream {
        let field = self.field;
        if let Some(visit) = &self.visit {
            return quote!(#visit(self, keys););
        }
        if self.is("skip") {
            return TokenStream::new();
        }
        if self.is("nested") {
            return quote! {{
                use ::toolwire_engine::settings::Settings as _;
                self.#field.settings(keys);
            }};
        }
        let value = match (&self.words, &self.range) {
            (Some(words), _) => {
                quote!(Word(&mut ::toolwire_engine::settings::OneOf(&mut self.#field, &#words)))
            }
            (None, Some(range)) => quote!(from((&mut self.#field, #range))),
            (None, None) if self.is("word") => quote!(Word(&mut self.#field)),
            (None, None) if self.is("size") => quote!(Size(&mut self.#field)),
            (None, None) if self.is("may_be_empty") => quote!(AnyText(&mut self.#field)),
            (None, None) => quote!(from(&mut self.#field)),
        };
        let (key, docs) = (&self.key, &self.docs);
        let about = self.about.as_ref().map_or_else(|| quote!(#docs), |about| quote!(#about));
        let or = match &self.or {
            Some(or) => quote!(.or(#or)),
            None if self.is("required") => quote!(.or(::toolwire_engine::settings::Key::REQUIRED)),
            None => TokenStream::new(),
        };
        let file_only = self.is("file_only").then(|| quote!(.file_only()));
        quote! {
            keys.key(
                ::toolwire_engine::settings::Key::new(#key, #about) #or #file_only,
                ::toolwire_engine::settings::Field::#value,
            );
        }
    }
}

/// The first paragraph of a field's documentation, as one line.
fn docs(field: &Field) -> String {
    let lines = field.attrs.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(docs) if docs.path.is_ident("doc") => match &docs.value {
            Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) => Some(line.value().trim().to_owned()),
            _ => None,
        },
        _ => None,
    });
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

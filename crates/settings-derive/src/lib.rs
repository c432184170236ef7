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
//! The first paragraph of a field's documentation becomes the description of its key. The macro also implements `Default`.
//! Options of `#[setting(…)]`:
//!
//! - `key = …`: the key, if it differs from the field's name.
//! - `default = …`: the field's default, if it is not the default of the type.
//! - `or = …`: a description of the default, if the default depends on something else.
//! - `about = …`: an expression for the description, instead of the documentation.
//! - `required`: the key must be set.
//! - `file_only`: the key can be set only in the configuration file.
//! - `range = …`, `size`, `word`, `words = …`, `may_be_empty`: restricts the values that the key accepts, beyond its type.
//! - `read = …, show = …`: methods of the visitor that read and show a value of a type that only the configuration knows. A
//!   struct with such a key gets an inherent method `settings` instead of an implementation of the trait.
//! - `nested`: the field is a struct of settings, and its keys belong to the same table.
//! - `visit = …`: a function that visits the keys of the field. Its arguments are the struct and the visitor.
//! - `skip`: the field is not a setting.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{
    Data, DeriveInput, Error, Expr, ExprLit, Field, Fields, Ident, Lit, Meta, Result, parse_macro_input,
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
    let is_special = settings.iter().any(|setting| setting.value("read").is_some());
    let visiting = match is_special {
        true => quote! {
            impl #name {
                /// Shows all keys to `keys`.
                pub(crate) fn settings(&mut self, keys: &mut impl crate::keys::Keys) {
                    #(#statements)*
                }
            }
        },
        false => quote! {
            impl ::toolwire_engine::settings::Settings for #name {
                fn settings(&mut self, keys: &mut dyn ::toolwire_engine::settings::Visitor) {
                    #(#statements)*
                }
            }
        },
    };
    Ok(quote! {
        impl ::std::default::Default for #name {
            fn default() -> Self {
                Self { #(#fields: #defaults,)* }
            }
        }

        #visiting
    })
}

/// A field and its options.
struct Setting<'i> {
    field: &'i Ident,
    /// The first paragraph of its documentation.
    docs: String,
    values: Vec<(Ident, Expr)>,
    flags: Vec<Ident>,
}

const VALUES: [&str; 9] = ["key", "default", "or", "about", "range", "words", "read", "show", "visit"];

const FLAGS: [&str; 7] = ["required", "file_only", "size", "word", "may_be_empty", "nested", "skip"];

impl<'i> Setting<'i> {
    fn of(field: &'i Field) -> Result<Self> {
        let name = field.ident.as_ref().ok_or_else(|| Error::new_spanned(field, "a field without a name"))?;
        let mut setting = Self { field: name, docs: docs(field), values: Vec::new(), flags: Vec::new() };
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("setting")) {
            attribute.parse_nested_meta(|option| {
                let name = option.path.require_ident()?.clone();
                if VALUES.iter().any(|known| name == known) {
                    setting.values.push((name, option.value()?.parse()?));
                } else if FLAGS.iter().any(|known| name == known) {
                    setting.flags.push(name);
                } else {
                    return Err(option.error("unknown option of a setting"));
                }
                Ok(())
            })?;
        }
        let is_key = !setting.is("skip") && !setting.is("nested") && setting.value("visit").is_none();
        if is_key && setting.docs.is_empty() && setting.value("about").is_none() {
            return Err(Error::new_spanned(field, "a setting without a description"));
        }
        Ok(setting)
    }

    fn value(&self, name: &str) -> Option<&Expr> {
        self.values.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    fn default(&self) -> TokenStream {
        match self.value("default") {
            Some(default) => quote!(#default),
            None => quote!(::std::default::Default::default()),
        }
    }

    /// Returns the statement that visits the setting.
    fn statement(&self) -> TokenStream {
        let field = self.field;
        if let Some(visit) = self.value("visit") {
            return quote!(#visit(self, keys););
        }
        if self.is("skip") {
            return TokenStream::new();
        }
        if self.is("nested") {
            return quote!(self.#field.settings(keys););
        }
        let key = self.key();
        if let (Some(read), Some(show)) = (self.value("read"), self.value("show")) {
            return quote!(keys.special(#key, &mut self.#field, #read, #show););
        }
        let value = match (self.value("words"), self.value("range")) {
            (Some(words), _) => {
                quote!(Word(&mut ::toolwire_engine::settings::OneOf(&mut self.#field, &#words)))
            }
            (None, Some(range)) => quote!(from((&mut self.#field, #range))),
            (None, None) if self.is("word") => quote!(Word(&mut self.#field)),
            (None, None) if self.is("size") => quote!(Size(&mut self.#field)),
            (None, None) if self.is("may_be_empty") => quote!(AnyText(&mut self.#field)),
            (None, None) => quote!(from(&mut self.#field)),
        };
        quote!(keys.key(#key, ::toolwire_engine::settings::Field::#value);)
    }

    /// Returns the expression for the key and its description.
    fn key(&self) -> TokenStream {
        let (name, docs) = (self.field.to_string(), &self.docs);
        let key = self.value("key").map_or_else(|| quote!(#name), |key| quote!(#key));
        let about = self.value("about").map_or_else(|| quote!(#docs), |about| quote!(#about));
        let required = self.is("required").then(|| quote!(.or(::toolwire_engine::settings::Key::REQUIRED)));
        let or = self.value("or").map(|or| quote!(.or(#or)));
        let file_only = self.is("file_only").then(|| quote!(.file_only()));
        quote!(::toolwire_engine::settings::Key::new(#key, #about) #required #or #file_only)
    }
}

/// Returns the first paragraph of a field's documentation, joined into one line.
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

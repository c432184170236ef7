//! The kinds of providers. A new kind needs a module and a line in the table below.

mod answer;

use toolwire_pipeline::settings::{Settings, Visitor};

/// A fault in a provider's settings.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    pub key: &'static str,
    /// Contains no secrets.
    pub message: String,
}

impl Fault {
    fn new(key: &'static str, message: impl Into<String>) -> Self {
        Self { key, message: message.into() }
    }
}

/// Declares the kinds: `Variant "name": module;`. Each module defines `Options`, the [`Settings`] of one provider, with
/// these methods: `check` finds mistakes that involve several keys, `offers` returns the names of the tools that a
/// provider with a given name may offer (a trailing `*` matches any suffix), and `build` creates the provider.
macro_rules! kinds {
    ($($(#[$on:meta])* $variant:ident $name:literal: $module:ident;)*) => {
        $($(#[$on])* pub mod $module;)*

        /// The settings of a provider, by kind.
        #[derive(Debug, Clone)]
        pub enum ProviderOptions {
            $($(#[$on])* #[doc = concat!("`", $name, "`")] $variant($module::Options),)*
        }

        /// The kinds, by their name in the configuration.
        pub const KINDS: &[(&str, fn() -> ProviderOptions)] =
            &[$($(#[$on])* ($name, || ProviderOptions::$variant($module::Options::default())),)*];

        impl ProviderOptions {
            pub fn kind(&self) -> &'static str {
                match self { $($(#[$on])* Self::$variant(_) => $name,)* }
            }

            /// Declares the settings that only this kind has to `keys`.
            pub fn settings(&mut self, keys: &mut dyn Visitor) {
                match self { $($(#[$on])* Self::$variant(options) => options.settings(keys),)* }
            }

            /// Checks the settings for mistakes that involve several keys.
            ///
            /// # Errors
            /// The first mistake.
            pub fn check(&self) -> Result<(), Fault> {
                match self { $($(#[$on])* Self::$variant(options) => options.check(),)* }
            }

            /// The names of the tools that the provider `name` may offer. A trailing `*` matches any suffix.
            pub fn offers(&self, name: &str) -> Vec<String> {
                match self { $($(#[$on])* Self::$variant(options) => options.offers(name),)* }
            }

            /// Creates the provider.
            ///
            /// # Errors
            /// What is wrong with the settings.
            pub(crate) fn build(
                &self,
                host: &super::Host,
            ) -> Result<std::sync::Arc<dyn super::Provider>, Fault> {
                self.check()?;
                match self { $($(#[$on])* Self::$variant(options) => options.build(host),)* }
            }
        }
    };
}

pub use registered::{CallStream, KeyNumber, Registered, Registrations, ShownRequest};

kinds! {
    Command "command": command;
    Serper "serper": serper;
    Search "search": search;
    Fetch "fetch": fetch;
    Registered "http": registered;
    Images "images": images;
    #[cfg(feature = "mcp")]
    Mcp "mcp": mcp;
    #[cfg(feature = "mcp")]
    ClientMcp "client_mcp": client_mcp;
}

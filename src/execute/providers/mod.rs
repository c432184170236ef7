//! The kinds of providers. A new one is its file and one line of the table.

mod answer;

/// Declares the kinds: `Variant "name": module;`. The module has `Options`, the settings of one provider, with `settings`, which
/// declares their keys, and `build`, which makes the provider.
macro_rules! kinds {
    ($($(#[$on:meta])* $variant:ident $name:literal: $module:ident;)*) => {
        $($(#[$on])* pub(crate) mod $module;)*

        /// The settings of a provider, by its kind.
        #[derive(Debug, Clone)]
        pub(crate) enum ProviderOptions {
            $($(#[$on])* #[doc = concat!("`", $name, "`")] $variant($module::Options),)*
        }

        /// The kinds, by their names in the configuration.
        pub(crate) const KINDS: &[(&str, fn() -> ProviderOptions)] =
            &[$($(#[$on])* ($name, || ProviderOptions::$variant($module::Options::default())),)*];

        impl ProviderOptions {
            /// The kind's name.
            pub(crate) fn kind(&self) -> &'static str {
                match self { $($(#[$on])* Self::$variant(_) => $name,)* }
            }

            /// Shows `keys` the settings that only this kind has.
            pub(crate) fn settings(&mut self, keys: &mut dyn crate::settings::Settings) {
                match self { $($(#[$on])* Self::$variant(options) => options.settings(keys),)* }
            }

            /// Makes the provider.
            ///
            /// # Errors
            /// What is wrong with the settings, in words.
            pub(crate) fn build(
                &self,
                host: &super::Host,
            ) -> Result<std::sync::Arc<dyn super::Provider>, String> {
                match self { $($(#[$on])* Self::$variant(options) => options.build(host),)* }
            }
        }
    };
}

pub(crate) use registered::{CallStream, KeyNumber, Registered, Registrations, ShownRequest};

kinds! {
    Command "command": command;
    Serper "serper": serper;
    Search "search": search;
    Registered "http": registered;
    Images "images": images;
    #[cfg(feature = "mcp")]
    Mcp "mcp": mcp;
}

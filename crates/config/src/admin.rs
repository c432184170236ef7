//! `[admin]`: the admin API.

use std::{sync::Arc, time::Duration};

use secrecy::SecretString;

use super::{
    keys::{Reading, table_of},
    table::Table,
};
use toolwire_pipeline::settings::Settings;

/// Upper limit of `keep_exchanges`. One record takes a few kilobytes.
const MAX_EXCHANGES: usize = 10_000;

/// The settings of `[admin]`.
#[derive(Debug, Clone, Settings)]
pub struct AdminSettings {
    /// secrets, one of which is needed. If empty, only requests from this machine are served, without a key
    pub api_keys: Vec<SecretString>,
    /// names, other than `localhost`, in the browser's address bar: `["tools.example"]`
    pub hosts: Vec<String>,
    /// whether the [admin API](admin.md) shows texts, arguments and results: `off`; `redacted`, everything
    /// but secrets
    #[setting(default = Capture::Off, word)]
    pub capture: Capture,
    /// how long a sign-in lasts without a request; at most seven days
    #[setting(default = Duration::from_secs(12 * 60 * 60))]
    pub session_ttl: Duration,
    /// how many of the last [exchanges](admin.md) are kept in memory; 0 to 10,000
    #[setting(default = 2000, range = 0..=MAX_EXCHANGES)]
    pub keep_exchanges: usize,
}

/// The contents that events and exchanges include.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Capture {
    /// No contents.
    #[default]
    Off,
    /// All contents except secrets.
    Redacted,
}

impl Capture {
    /// The word for this value in the configuration file.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// Reads the table. `None` if it is absent.
pub(super) fn read(table: &mut Table<'_>) -> Option<Arc<AdminSettings>> {
    let mut admin = AdminSettings::default();
    table.cell("admin")?.table(|table| {
        admin.settings(&mut Reading(table));
        Some(())
    });
    Some(Arc::new(admin))
}

/// The table with its resolved values, and with secrets masked.
pub(super) fn shown(admin: &AdminSettings) -> toml::Table {
    table_of(|keys| admin.clone().settings(keys))
}

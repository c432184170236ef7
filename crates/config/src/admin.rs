//! `[admin]`: the admin API.

use std::{sync::Arc, time::Duration};

use secrecy::SecretString;

use super::{
    keys::{Reading, table_of},
    table::Table,
};
use toolwire_pipeline::settings::{Field, Key, Settings};

/// Maximum number of exchanges that can be kept. A record takes a few kilobytes.
const MAX_EXCHANGES: usize = 10_000;

/// The settings of `[admin]`.
#[derive(Debug, Clone)]
pub struct AdminSettings {
    /// API keys, one of which every request needs. If there are none, only requests from this machine are
    /// served.
    pub api_keys: Vec<SecretString>,
    /// Host names by which browsers may reach toolwire, in addition to this machine's own names.
    pub hosts: Vec<String>,
    /// The contents that events and exchanges show.
    pub capture: Capture,
    /// Time without a request after which a session ends.
    pub session_ttl: Duration,
    /// Number of exchanges that are kept.
    pub keep_exchanges: usize,
}

/// The contents that events and exchanges show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Capture {
    /// No contents.
    #[default]
    Off,
    /// All contents except secrets.
    Redacted,
}

impl Default for AdminSettings {
    fn default() -> Self {
        Self {
            api_keys: Vec::new(),
            hosts: Vec::new(),
            capture: Capture::Off,
            session_ttl: Duration::from_secs(12 * 60 * 60),
            keep_exchanges: 2000,
        }
    }
}

impl Capture {
    /// The setting's value.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

pub(super) fn keys(keys: &mut dyn Settings, admin: &mut AdminSettings) {
    keys.key(
        Key::new(
            "api_keys",
            "secrets, one of which is needed. If empty, only requests from this machine are served, without a \
             key",
        ),
        Field::SecretList(&mut admin.api_keys),
    );
    keys.key(
        Key::new(
            "hosts",
            "names, other than `localhost`, in the browser's address bar: `[\"tools.example\"]`",
        ),
        Field::Texts(&mut admin.hosts),
    );
    keys.key(
        Key::new(
            "capture",
            "whether the [admin API](admin.md) shows texts, arguments and results: `off`; `redacted`, everything \
             but secrets",
        ),
        Field::Word(&mut admin.capture),
    );
    keys.key(
        Key::new("session_ttl", "how long a sign-in lasts without a request; at most seven days"),
        Field::Duration(&mut admin.session_ttl),
    );
    keys.key(
        Key::new(
            "keep_exchanges",
            "how many of the last [exchanges](admin.md) are kept in memory; 0 to 10,000",
        ),
        Field::CountIn(&mut admin.keep_exchanges, 0..=MAX_EXCHANGES),
    );
}

/// Reads the table. `None` if it is absent.
pub(super) fn read(table: &mut Table<'_>) -> Option<Arc<AdminSettings>> {
    let mut admin = AdminSettings::default();
    table.cell("admin")?.table(|table| {
        keys(&mut Reading(table), &mut admin);
        Some(())
    });
    Some(Arc::new(admin))
}

/// The table with its resolved values, secrets masked.
pub(super) fn shown(admin: &AdminSettings) -> toml::Table {
    table_of(|visitor| keys(visitor, &mut admin.clone()))
}

//! The resolved configuration as TOML: every key with its value, secrets masked.

use std::{hash::BuildHasher, hash::RandomState, sync::LazyLock};

use toml::{Table, Value};

use super::{
    Config, admin, alternatives, execution,
    keys::table_of,
    read::{self, Root},
    telemetry, tls,
};

/// Shown in place of a secret.
pub(super) const MASK: &str = "********";

/// The digits of its hash behind it.
const HASH_DIGITS: usize = 16;

/// What stands in tables for a secret: the mask, and a hash that differs in every process. It tells whether two configurations of
/// this process have the same secret. [`Config::to_toml`] leaves the mask alone.
pub(super) fn masked(secret: impl AsRef<[u8]>) -> String {
    static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    format!("{MASK}{:0HASH_DIGITS$x}", HASHER.hash_one(secret.as_ref()))
}

/// Stands between a value and a mark of what is behind it. No path contains it.
const MARK: char = '\0';

/// What stands in tables for a value that names `content`: the value as it is shown, and a hash as that of [`masked`], which
/// [`Config::to_toml`] leaves away.
pub(super) fn marked(shown: &str, content: impl AsRef<[u8]>) -> String {
    format!("{shown}{MARK}{}", masked(content))
}

fn hide(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(end) = text.find(MARK) {
                text.truncate(end);
            }
            // It may stand inside a URL.
            if let Some((before, after)) = text.split_once(MASK) {
                let rest = after.get(HASH_DIGITS..).unwrap_or_default();
                *text = [before, MASK, rest].concat();
            }
        }
        Value::Array(entries) => entries.iter_mut().for_each(hide),
        Value::Table(table) => table.iter_mut().for_each(|(_, value)| hide(value)),
        _ => {}
    }
}

impl Config {
    /// The whole configuration as TOML, with defaults filled in and secrets masked. Loaded again, it resolves
    /// to the same configuration except for the secrets.
    pub fn to_toml(&self) -> Table {
        let mut shown = self.comparable();
        shown.iter_mut().for_each(|(_, value)| hide(value));
        shown
    }

    /// The same with [marks](masked) by which secrets can be compared. It must not leave the process.
    pub(super) fn comparable(&self) -> Table {
        let mut root = Root {
            listen: self.listen.clone(),
            api_keys: self.api_keys.clone(),
            cors_origins: self.cors_origins.clone(),
            hosts: self.hosts.clone(),
            state_dir: self.state_dir.as_ref().map(|folder| folder.display().to_string()),
            store: self.store.clone(),
            passthrough: self.passthrough.clone(),
            drain_delay: self.drain_delay,
            drain_timeout: self.drain_timeout,
            threads: self.threads,
        };
        let mut shown = table_of(|keys| read::root(keys, &mut root, true));
        let tables = [
            ("metrics", table_of(|keys| read::metrics(keys, &mut self.metrics.clone()))),
            ("limits", table_of(|keys| read::limits(keys, &mut self.limits.clone()))),
            ("failover", table_of(|keys| alternatives::failover(keys, &mut self.failover.clone()))),
        ];
        shown.extend(tables.map(|(key, table)| (key.to_owned(), Value::Table(table))));
        // A definition contains only the keys that were set, no defaults.
        let formats: Vec<_> =
            self.formats.own().iter().filter_map(|own| Value::try_from(&own.definition).ok()).collect();
        let upstreams = self.upstreams.iter().map(|upstream| Value::Table(upstream.shown()));
        let models = self.models.iter().map(|model| Value::Table(model.shown()));
        let keys = self.keys.iter().map(|key| Value::Table(key.shown())).collect();
        let arrays = [
            ("keys", keys),
            ("upstreams", upstreams.collect()),
            ("models", models.collect()),
            ("formats", formats),
        ];
        let arrays = arrays.into_iter().filter(|(key, entries): &(_, Vec<_>)| {
            !matches!(*key, "formats" | "keys") || !entries.is_empty()
        });
        shown.extend(arrays.map(|(key, entries)| (key.to_owned(), Value::Array(entries))));
        shown.extend(self.admin.iter().map(|admin| ("admin".to_owned(), Value::Table(admin::shown(admin)))));
        shown.extend(self.tls.iter().map(|settings| ("tls".to_owned(), Value::Table(tls::shown(settings)))));
        let telemetry = self.telemetry.iter().map(|settings| Value::Table(telemetry::shown(settings)));
        shown.extend(telemetry.map(|table| ("telemetry".to_owned(), table)));
        shown.extend(self.execution.iter().flat_map(|settings| execution::shown(settings)));
        shown
    }
}

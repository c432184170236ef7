//! The resolved configuration as TOML.

use toml::{Table, Value};

use super::{Config, admin, execution, keys::table_of, mask::hide, read::Root, telemetry, tls};
use toolwire_pipeline::settings::Settings;

impl Config {
    /// The complete configuration, with defaults filled in and secrets masked. If the result is loaded, it resolves to
    /// the same configuration, except for the secrets.
    pub fn to_toml(&self) -> Table {
        let mut shown = self.comparable();
        shown.iter_mut().for_each(|(_, value)| hide(value));
        shown
    }

    /// Like [`Config::to_toml`], but with [hashes](masked) for comparing secrets. This table must not leave the
    /// process.
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
            has_keys: true,
        };
        let mut shown = table_of(|keys| root.settings(keys));
        let tables = [
            ("metrics", table_of(|keys| self.metrics.clone().settings(keys))),
            ("limits", table_of(|keys| self.limits.clone().settings(keys))),
            ("failover", table_of(|keys| self.failover.clone().settings(keys))),
        ];
        shown.extend(tables.map(|(key, table)| (key.to_owned(), Value::Table(table))));
        // Includes only the keys that were set, no defaults.
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

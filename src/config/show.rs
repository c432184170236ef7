//! The resolved configuration as TOML: every key with its value, secrets masked.

use toml::{Table, Value};

use super::{
    Config, admin, execution,
    keys::table_of,
    read::{self, Root},
    tls,
};

/// Shown in place of a secret.
pub(super) const MASK: &str = "********";

impl Config {
    /// The whole configuration as TOML, with defaults filled in and secrets masked. Loaded again, it resolves
    /// to the same configuration except for the secrets.
    pub fn to_toml(&self) -> Table {
        let mut root = Root {
            listen: self.listen.clone(),
            api_keys: self.api_keys.clone(),
            cors_origins: self.cors_origins.clone(),
            state_dir: self.state_dir.as_ref().map(|folder| folder.display().to_string()),
            store: self.store,
            passthrough: self.passthrough.clone(),
            drain_timeout: self.drain_timeout,
            threads: self.threads,
        };
        let mut shown = table_of(|keys| read::root(keys, &mut root, true));
        let tables = [
            ("metrics", table_of(|keys| read::metrics(keys, &mut self.metrics.clone()))),
            ("limits", table_of(|keys| read::limits(keys, &mut self.limits.clone()))),
        ];
        shown.extend(tables.map(|(key, table)| (key.to_owned(), Value::Table(table))));
        // A definition contains only the keys that were set, no defaults.
        let formats: Vec<_> =
            self.formats.own().iter().filter_map(|own| Value::try_from(&own.definition).ok()).collect();
        let upstreams = self.upstreams.iter().map(|upstream| Value::Table(upstream.shown()));
        let models = self.models.iter().map(|model| Value::Table(model.shown()));
        let arrays = [("upstreams", upstreams.collect()), ("models", models.collect()), ("formats", formats)];
        let arrays = arrays
            .into_iter()
            .filter(|(key, entries): &(_, Vec<_>)| *key != "formats" || !entries.is_empty());
        shown.extend(arrays.map(|(key, entries)| (key.to_owned(), Value::Array(entries))));
        shown.extend(self.admin.iter().map(|admin| ("admin".to_owned(), Value::Table(admin::shown(admin)))));
        shown.extend(self.tls.iter().map(|settings| ("tls".to_owned(), Value::Table(tls::shown(settings)))));
        shown.extend(self.execution.iter().flat_map(|settings| execution::shown(settings)));
        shown
    }
}

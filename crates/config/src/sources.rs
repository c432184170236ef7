//! [`Setting`]: a setting with its value, its default, and where its value comes from.
//!
//! A setting is identified by its path, such as `limits.max_body` or `providers.serper.api_key`. In arrays, the `name`
//! of an entry is part of the path.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use toml::{
    Spanned, Table, Value,
    de::{DeTable, DeValue},
};

use super::{
    AdminSettings, Config, Facts, Failover, Limits, Metrics, Overlay, Overrides, Refused, execution,
    facts::KeyFacts,
    keys::table_of,
    mask::MASK,
    overlay::{LaidOver, below},
    problem::Place,
    read::Root,
    source::Source,
};
use toolwire_execution::ExecutionSettings;
use toolwire_pipeline::settings::Settings;
use toolwire_pipeline::wire::digest::Digest;

/// Where the values of a configuration come from, by path. Settings without a source have their default value.
#[derive(Clone, Default)]
pub struct Sources {
    values: BTreeMap<String, ValueSource>,
    /// The file's own values of settings that saved settings override.
    shadowed: BTreeMap<String, serde_json::Value>,
    /// Saved settings that do not fit into the file's tables.
    refused: Vec<Refused>,
    origin: Option<Arc<Origin>>,
}

// The values in the file may be secret, so they are left out.
toolwire_pipeline::wire::debug_fields!(Sources { values });

/// What a configuration was read from.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) source: Source,
    pub(super) overrides: Overrides,
    pub(super) overlay: Overlay,
    /// The files that values refer to, with digests of their content.
    pub(super) files: BTreeMap<PathBuf, Digest>,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueSource {
    /// `file`, `env`, `flag`, or `overlay` for a setting that was saved through the admin API.
    pub kind: &'static str,
    /// The file and line, the variable, or the flag. For `overlay`, where the overridden value comes from, if there is
    /// one.
    pub place: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    pub path: String,
    pub value: SettingValue,
    /// `None` if there is no default, or if the default depends on other settings.
    pub default: Option<Value>,
    /// `None` if the value is the default.
    pub source: Option<ValueSource>,
    /// If the source is `overlay`, the value in the file, unless it is secret.
    pub file_value: Option<serde_json::Value>,
    pub facts: KeyFacts,
}

#[derive(Debug, Clone, PartialEq)]
pub enum SettingValue {
    Plain(Value),
    /// Whether the secret is set.
    Secret(bool),
}

impl Sources {
    /// Finds the sources of the values in the tables of `root`.
    pub(super) fn of(root: &DeTable<'_>, source: &Source) -> Self {
        let mut sources = Self::default();
        sources.table("", root, source);
        sources
    }

    fn table(&mut self, path: &str, table: &DeTable<'_>, source: &Source) {
        for (key, value) in table.iter() {
            self.value(&below(path, key.get_ref()), value, source);
        }
    }

    fn value(&mut self, path: &str, value: &Spanned<DeValue<'_>>, source: &Source) {
        match value.get_ref() {
            DeValue::Table(table) => self.table(path, table, source),
            DeValue::Array(entries) if entries.iter().any(|entry| entry.get_ref().is_table()) => {
                for entry in entries.iter() {
                    let DeValue::Table(table) = entry.get_ref() else { continue };
                    if let Some(DeValue::String(name)) = table.get("name").map(Spanned::get_ref) {
                        self.table(&below(path, name), table, source);
                    }
                }
            }
            DeValue::String(text) if text.starts_with("env:") => {
                let place = Some(text.strip_prefix("env:").unwrap_or_default().to_owned());
                self.values.insert(path.to_owned(), ValueSource { kind: "env", place });
            }
            _ => {
                let (kind, place) = match source.place(value.span().start) {
                    Place::File { path, line, .. } => ("file", Some(format!("{path}:{line}"))),
                    Place::Flag(name) => ("flag", Some(name.to_owned())),
                    Place::Overlay { .. } => ("overlay", None),
                    Place::Nowhere => return,
                };
                self.values.insert(path.to_owned(), ValueSource { kind, place });
            }
        }
    }
}

impl Config {
    pub fn facts(&self) -> Facts {
        Facts::of(self)
    }

    /// All settings, ordered by path.
    pub fn settings(&self) -> Vec<Setting> {
        let mut values = BTreeMap::new();
        let facts = self.facts();
        flatten("", &Value::Table(self.to_toml()), &facts, &mut values);
        let mut defaults = BTreeMap::new();
        flatten("", &Value::Table(self.defaults()), &facts, &mut defaults);
        let unset = self.execution.iter().flat_map(|execution| execution::unset_secrets(execution));
        let unset = unset.map(|path| (path, SettingValue::Secret(false)));
        let mut settings: Vec<_> = values
            .into_iter()
            .map(|(path, value)| match is_secret(&value) {
                true => (path, SettingValue::Secret(true)),
                false => (path, SettingValue::Plain(value)),
            })
            .chain(unset)
            .map(|(path, value)| {
                let shadowed = self.sources.shadowed.get(&path);
                let file_value = shadowed.filter(|_| matches!(value, SettingValue::Plain(_))).cloned();
                let source = self.sources.of_setting(&path).cloned();
                let facts = facts.find(&path).cloned().unwrap_or_default();
                // The value of a key that must be set is nobody's default, even if a table of defaults needs one.
                let default =
                    defaults.get(&path).filter(|own| !facts.is_required && !is_secret(own)).cloned();
                Setting { default, source, file_value, facts, path, value }
            })
            .collect();
        settings.sort_by(|a, b| a.path.cmp(&b.path));
        settings
    }

    /// All tables with default values.
    fn defaults(&self) -> Table {
        let mut root = Root { threads: self.threads, ..Root::default() };
        let mut defaults = table_of(|keys| root.settings(keys));
        let tables = [
            ("metrics", table_of(|keys| Metrics::default().settings(keys))),
            ("limits", table_of(|keys| Limits::default().settings(keys))),
            ("failover", table_of(|keys| Failover::default().settings(keys))),
            ("admin", table_of(|keys| AdminSettings::default().settings(keys))),
        ];
        defaults.extend(tables.map(|(name, table)| (name.to_owned(), Value::Table(table))));
        if let Some(settings) = &self.execution {
            defaults.extend(execution::shown(&ExecutionSettings::default()));
            defaults.insert("providers".to_owned(), execution::provider_defaults(settings));
        }
        defaults
    }
}

impl Sources {
    /// The source of a setting, or of the first value in it if it is a table.
    fn of_setting(&self, path: &str) -> Option<&ValueSource> {
        let within = format!("{path}.");
        let first = || self.values.range(within.clone()..).next().filter(|(own, _)| own.starts_with(&within));
        self.values.get(path).or_else(|| first().map(|(_, source)| source))
    }

    /// Completes the sources of tables into which saved settings were inserted. `in_file` holds the sources from before
    /// the insertion.
    pub(super) fn over(self, in_file: Self, laid: LaidOver, origin: Origin) -> Self {
        let (mut values, mut in_file) = (self.values, in_file.values);
        for (path, value) in values.iter_mut().filter(|(_, value)| value.kind == "overlay") {
            value.place = in_file.remove(path).and_then(|source| source.place);
        }
        let LaidOver { shadowed, refused } = laid;
        Self { values, shadowed, refused, origin: Some(Arc::new(origin)) }
    }

    pub(super) fn origin(&self) -> Option<&Origin> {
        self.origin.as_deref()
    }

    /// Saved settings that do not fit into the file's tables.
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }
}

/// Collects the values in `value` by path. Tables that are set as a whole are single values. Array entries are identified by name; entries without a name are left out.
fn flatten(path: &str, value: &Value, facts: &Facts, values: &mut BTreeMap<String, Value>) {
    match value {
        Value::Table(table) if !facts.is_json(path) => {
            for (key, value) in table {
                flatten(&below(path, key), value, facts, values);
            }
        }
        Value::Array(entries) if entries.iter().any(Value::is_table) => {
            for entry in entries {
                if let Some(name) = entry.get("name").and_then(Value::as_str) {
                    flatten(&below(path, name), entry, facts, values);
                }
            }
        }
        value => _ = values.insert(path.to_owned(), value.clone()),
    }
}

/// Whether `value` is a masked secret, or a list of masked secrets.
fn is_secret(value: &Value) -> bool {
    match value {
        Value::String(text) => text.starts_with(MASK),
        Value::Array(entries) => entries.first().is_some_and(is_secret),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::{Overrides, load};

    const FILE: &str = r#"
listen = "127.0.0.1:0"
api_keys = ["env:CLIENT_KEY"]

[limits]
max_body = "1MiB"

[[upstreams]]
name = "up"
dialect = "chat"
base_url = "http://127.0.0.1:1/v1"

[[models]]
name = "gpt-4.1"

[execution]
max_rounds = 5

[[providers]]
name = "addons"
kind = "http"
keys = ["registration-key"]
lease = "30s"
"#;

    #[test]
    fn settings_have_values_defaults_and_sources() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(FILE.as_bytes()).unwrap();
        let overrides = Overrides {
            file: Some(file.path().to_owned()),
            listen: vec!["127.0.0.1:1".to_owned()],
            ..Overrides::default()
        };
        let environment = |name: &str| (name == "CLIENT_KEY").then(|| "key-of-a-client".to_owned());
        let config = load(&overrides, &environment).unwrap().config;
        let settings = config.settings();
        let setting = |path: &str| {
            settings.iter().find(|setting| setting.path == path).unwrap_or_else(|| panic!("{path}"))
        };
        let source = |path: &str| {
            setting(path)
                .source
                .as_ref()
                .map(|source| (source.kind, source.place.as_deref().unwrap_or_default()))
        };
        let line = |number: usize| format!("{}:{number}", file.path().display());

        let body = setting("limits.max_body");
        assert_eq!(body.value, SettingValue::Plain("1MiB".into()));
        assert_eq!(body.default, Some("10MiB".into()));
        assert_eq!(source("limits.max_body"), Some(("file", line(6).as_str())));
        assert_eq!((source("limits.max_store"), source("metrics.tool_names")), (None, None));
        assert_eq!(source("listen").map(|(kind, _)| kind), Some("flag"));
        assert_eq!(setting("api_keys").value, SettingValue::Secret(true));
        assert_eq!(setting("models.\"gpt-4.1\".upstream").value, SettingValue::Plain("up".into()));
        assert_eq!(setting("providers.addons.keys").value, SettingValue::Secret(true));
        let lease = setting("providers.addons.lease");
        assert_eq!((&lease.value, &lease.default), (&SettingValue::Plain("30s".into()), &Some("60s".into())));
        assert_eq!(
            source("execution.max_rounds"),
            Some(("file", line(17).as_str())),
            "also if it is the default"
        );
    }
}

//! [`KeyFacts`]: what the declaration of a setting says about it.

use std::collections::BTreeMap;

use toml::Value;

use super::{
    AdminSettings, Config, Failover, Limits, Metrics, execution,
    keys::{Keys, count_value, duration_value, is_file_only},
    overlay::below,
    read::Root,
    table::Cell,
    telemetry, tls,
};
use toolwire_execution::{ExecutionSettings, ToolRules};
use toolwire_pipeline::settings::{Field, Key, Settings, Visitor};

/// What the declaration of a key says about it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeyFacts {
    /// Whether the admin API may set the key.
    pub is_settable: bool,
    pub min: Option<Value>,
    pub max: Option<Value>,
}

/// Facts about settings, by path.
#[derive(Debug, Default)]
pub struct Facts(BTreeMap<String, KeyFacts>);

impl Facts {
    pub(super) fn of(config: &Config) -> Self {
        let mut facts = Self::default();
        facts.table("", false, |keys| Root::default().settings(keys));
        facts.table("metrics", false, |keys| Metrics::default().settings(keys));
        facts.table("limits", false, |keys| Limits::default().settings(keys));
        facts.table("failover", false, |keys| Failover::default().settings(keys));
        facts.table("admin", false, |keys| AdminSettings::default().settings(keys));
        facts.table("tls", false, |keys| tls::Draft::default().settings(keys));
        facts.table("telemetry", false, |keys| {
            telemetry::Draft::default().settings(keys);
        });
        let Some(settings) = &config.execution else { return facts };
        facts.table("execution", true, |keys| execution::keys(keys, &mut ExecutionSettings::default()));
        for entry in &settings.providers {
            facts.table(&below("providers", &entry.name), true, |keys| {
                execution::ProviderDraft::default().settings(keys);
                entry.options.clone().settings(keys);
            });
        }
        for tool in settings.tools.keys() {
            facts.table(&below("tools", tool), true, |keys| {
                execution::tool_keys(keys, &mut ToolRules::default());
            });
        }
        facts
    }

    fn table(&mut self, path: &str, is_settable: bool, visit: impl FnOnce(&mut Describing)) {
        let mut describing = Describing::default();
        visit(&mut describing);
        self.0.extend(describing.0.into_iter().map(|(key, facts)| {
            (below(path, key), KeyFacts { is_settable: facts.is_settable && is_settable, ..facts })
        }));
    }

    /// The facts about a setting. If there are none for its own path, returns those of the closest path above it.
    pub fn find(&self, path: &str) -> Option<&KeyFacts> {
        let mut path = path;
        loop {
            if let Some(facts) = self.0.get(path) {
                return Some(facts);
            }
            path = path.rsplit_once('.')?.0;
        }
    }

    /// The paths of the settings that the admin API may set.
    pub fn settable(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, facts)| facts.is_settable).map(|(path, _)| path.as_str())
    }
}

/// A visitor that collects the facts in declarations.
#[derive(Debug, Default)]
struct Describing(Vec<(&'static str, KeyFacts)>);

impl Visitor for Describing {
    fn key(&mut self, key: Key, field: Field<'_>) {
        let is_settable = !is_file_only(&key, &field);
        let (min, max) = match field {
            Field::Count(_, least) => (Some(count_value(least)), None),
            Field::CountIn(_, range) => (Some(count_value(*range.start())), Some(count_value(*range.end()))),
            Field::DurationIn(_, range) => {
                (Some(duration_value(*range.start())), Some(duration_value(*range.end())))
            }
            _ => (None, None),
        };
        self.0.push((key.name, KeyFacts { is_settable, min, max }));
    }
}

impl Keys for Describing {
    fn special<V>(
        &mut self,
        key: Key,
        _: &mut V,
        _: impl FnOnce(Cell<'_>) -> Option<V>,
        _: impl FnOnce(&V) -> Option<Value>,
    ) {
        self.0.push((key.name, KeyFacts { is_settable: !key.is_file_only, ..KeyFacts::default() }));
    }
}

//! [`KeyFacts`]: what the declaration of a setting says about it.

use std::{borrow::Cow, collections::BTreeMap};

use toml::Value;

use super::{
    AdminSettings, Config, Failover, Limits, Metrics, client_keys, execution, format,
    keys::{Keys, count_value, duration_value, is_file_only},
    model,
    overlay::below,
    read::Root,
    table::Cell,
    telemetry, tls, upstream, upstream_tls,
};
use toolwire_execution::{ExecutionSettings, ToolRules};
use toolwire_pipeline::{
    format::Definition,
    settings::{Field, Key, Settings, Visitor},
};

/// What the declaration of a key says about it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeyFacts {
    /// Whether the admin API may set the key.
    pub is_settable: bool,
    pub min: Option<Value>,
    pub max: Option<Value>,
    /// What the key does, in Markdown.
    pub about: Cow<'static, str>,
    /// The words that the key accepts. Empty if it accepts others.
    pub words: Vec<&'static str>,
    pub is_required: bool,
    /// Whether the value is a table that is set as a whole, such as a JSON Schema.
    pub is_json: bool,
}

impl KeyFacts {
    fn of(key: Key) -> Self {
        Self {
            is_settable: !key.is_file_only,
            is_required: key.default == Some(Key::REQUIRED),
            about: key.about,
            words: key.words.to_vec(),
            ..Self::default()
        }
    }
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
        facts.entries(config);
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
                let about = "the tool to which these rules apply";
                let mut name = String::new();
                keys.key(Key::new("name", about).or(Key::REQUIRED).file_only(), (&mut name).into());
                execution::tool_keys(keys, &mut ToolRules::default());
            });
        }
        facts
    }

    /// Adds the facts about the entries of the arrays that the admin API cannot change.
    fn entries(&mut self, config: &Config) {
        for own in &config.upstreams {
            let path = below("upstreams", &own.name);
            self.table(&path, false, |keys| upstream::Draft::default().settings(keys));
            self.table(&below(&path, "tls"), false, |keys| upstream_tls::Draft::default().settings(keys));
            self.table(&below(&path, own.dialect().name()), false, |keys| own.options.clone().settings(keys));
        }
        for own in &config.models {
            self.table(&below("models", &own.name), false, |keys| {
                let mut draft = model::Draft::default();
                model::selection(keys, &mut draft, &[], &config.formats);
                model::treatment(keys, &mut draft, &config.formats);
            });
        }
        for own in &config.keys {
            self.table(&below("keys", &own.name), false, |keys| client_keys::Draft::default().settings(keys));
        }
        for own in config.formats.own() {
            self.table(&below("formats", &own.definition.name), false, |keys| {
                format::keys(keys, &mut Definition::default());
            });
        }
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

    /// Whether the setting at `path` is a table that is set as a whole.
    pub fn is_json(&self, path: &str) -> bool {
        self.0.get(path).is_some_and(|facts| facts.is_json)
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
        let words = match &field {
            Field::Word(value) => value.words(),
            _ => key.words.to_vec(),
        };
        let is_json = matches!(field, Field::Json(_));
        let (min, max) = match field {
            Field::Count(_, least) => (Some(count_value(least)), None),
            Field::CountIn(_, range) => (Some(count_value(*range.start())), Some(count_value(*range.end()))),
            Field::DurationIn(_, range) => {
                (Some(duration_value(*range.start())), Some(duration_value(*range.end())))
            }
            _ => (None, None),
        };
        self.0.push((key.name, KeyFacts { is_settable, min, max, words, is_json, ..KeyFacts::of(key) }));
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
        self.0.push((key.name, KeyFacts::of(key)));
    }
}

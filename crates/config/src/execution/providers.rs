//! `[[providers]]`: the entries, and the settings of each kind.

use secrecy::SecretString;
use toml::Value;

use super::{rate, shown_rate};
use crate::{
    Model,
    keys::{Reading, count_value, shown_text, some, string, table_of},
    table::{Cell, Table},
    value::{choice, count, text},
};
use toolwire_execution::{ExecutionSettings, KINDS, ProviderEntry, ProviderOptions, Rate};
use toolwire_pipeline::{
    settings::{Field, Key, Settings, TableText, Visitor},
    wire::suggest::suggest,
};

/// The names of the kinds of providers, for the documentation.
fn kinds() -> String {
    KINDS.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// An entry of `[[providers]]` that is being read.
#[derive(Debug, Settings)]
pub(crate) struct ProviderDraft {
    /// its name in logs and in the names of its tools
    #[setting(required, file_only, read = some(text), show = shown_text)]
    name: Option<String>,
    #[setting(
        about = format!("the kind of provider: {}", kinds()), key = "kind", required, file_only,
        read = |cell| choice(KINDS)(cell).map(|default| Some(default())),
        show = |options| options.as_ref().map(|options| string(options.kind()))
    )]
    options: Option<ProviderOptions>,
    /// names of the tools that it may offer; `*` at the end matches any rest
    #[setting(or = "all")]
    tools: Vec<String>,
    /// names of tools that it may not offer
    deny: Vec<String>,
    /// calls of its tools at the same time
    #[setting(
        read = some(count(1)),
        show = |most| Some(count_value(most.unwrap_or(ProviderEntry::MAX_RUNNING)))
    )]
    max_running: Option<usize>,
    /// calls of its tools by all clients together: `"60/1m"`
    #[setting(or = "`\"off\"`", read = rate, show = shown_rate)]
    rate_limit: Option<Rate>,
}

impl ProviderDraft {
    pub(super) fn of(entry: &ProviderEntry) -> Self {
        Self {
            name: Some(entry.name.clone()),
            options: Some(entry.options.clone()),
            tools: entry.tools.clone(),
            deny: entry.deny.clone(),
            max_running: Some(entry.max_running),
            rate_limit: entry.rate_limit,
        }
    }
}

pub(super) fn provider<'a>(table: &mut Table<'a>) -> Option<(ProviderEntry, Option<Cell<'a>>)> {
    let mut draft = ProviderDraft::default();
    draft.settings(&mut Reading(table));
    let mut options = draft.options?;
    options.settings(&mut Reading(table));
    if let Err(fault) = options.check() {
        table.report_fault(fault.key, &fault.message);
    }
    let ProviderDraft { name, tools, deny, max_running, rate_limit, .. } = draft;
    let max_running = max_running.unwrap_or(ProviderEntry::MAX_RUNNING);
    Some((ProviderEntry { name: name?, options, tools, deny, max_running, rate_limit }, table.cell("name")))
}

/// Checks that the model that a provider asks is configured. `models` is `None` if the tables of models
/// contain mistakes.
pub(super) fn check_asked_model(entry: &ProviderEntry, cell: &Cell<'_>, models: Option<&[Model]>) {
    let (ProviderOptions::Search(options), Some(models)) = (&entry.options, models) else { return };
    let name = options.model();
    if name.is_empty() || models.iter().any(|model| model.name == name || model.is_wildcard()) {
        return;
    }
    let names: Vec<_> = models.iter().map(|model| model.name.as_str()).collect();
    let message = format!("no model `{name}`; {}", suggest(name, &names, None));
    let written = cell.entries().into_iter().find(|(key, ..)| *key == "model");
    written.map_or_else(|| cell.clone(), |(_, _, model)| model).wrong::<()>(message);
}

/// The paths of the providers' secrets that are not set.
pub(crate) fn unset_secrets(settings: &ExecutionSettings) -> Vec<String> {
    struct Unset(Vec<&'static str>);
    impl Visitor for Unset {
        fn key(&mut self, key: Key, field: Field<'_>) {
            if matches!(field, Field::Secret(None)) {
                self.0.push(key.name);
            }
        }
    }
    let of = |entry: &ProviderEntry| {
        let mut unset = Unset(Vec::new());
        entry.options.clone().settings(&mut unset);
        unset.0.into_iter().map(|key| format!("providers.{}.{key}", entry.name)).collect::<Vec<_>>()
    };
    settings.providers.iter().flat_map(of).collect()
}

/// Returns entries of the same providers with default settings.
pub(crate) fn provider_defaults(settings: &ExecutionSettings) -> Value {
    let default = |entry: &ProviderEntry| {
        let options =
            KINDS.iter().find(|(kind, _)| *kind == entry.options.kind()).map(|(_, default)| default());
        let mut shown = toml::Table::from_iter([("name".to_owned(), string(&entry.name))]);
        shown.extend(
            options.map(|mut options| table_of(|visitor| options.settings(visitor))).unwrap_or_default(),
        );
        Value::Table(shown)
    };
    Value::Array(settings.providers.iter().map(default).collect())
}

/// The secrets among a provider's settings.
pub(super) fn secrets(entry: &ProviderEntry) -> Vec<SecretString> {
    #[derive(Default)]
    struct Collecting(Vec<SecretString>);
    impl Visitor for Collecting {
        fn key(&mut self, _: Key, field: Field<'_>) {
            match field {
                Field::Secret(Some(secret)) => self.0.push(secret.clone()),
                Field::SecretList(secrets) => self.0.extend(secrets.iter().cloned()),
                Field::TextTable(texts) => {
                    self.0.extend(texts.values().filter_map(TableText::as_secret).cloned())
                }
                _ => {}
            }
        }
    }
    let mut collecting = Collecting::default();
    entry.options.clone().settings(&mut collecting);
    collecting.0
}

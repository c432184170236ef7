//! `[execution]`, `[[providers]]` and `[[tools]]`: the stage that runs hosted tools.

use std::{collections::HashMap, sync::Arc};

use toml::Value;

use super::{
    keys::{Keys, Reading, string, table_of},
    read::entries,
    table::{Cell, Table},
    value::{choice, text},
};
use crate::{
    execute::{
        ExecutionSettings, Injection, KINDS, Permission, ProviderEntry, ProviderOptions, ToolRules,
        Visibility,
    },
    rules::MixedTurns,
    settings::{Field, Key, OneOf, Settings},
};

const VISIBILITIES: [(&str, Visibility); 3] =
    [("off", Visibility::Off), ("reasoning", Visibility::Reasoning), ("items", Visibility::Items)];

const MIXED_TURNS: [(&str, MixedTurns); 3] = [
    ("defer", MixedTurns::Defer),
    ("server_first", MixedTurns::ServerFirst),
    ("client_only", MixedTurns::ClientOnly),
];

const INJECTIONS: [(&str, Injection); 3] =
    [("force", Injection::Force), ("selective", Injection::Selective), ("off", Injection::Off)];

const PERMISSIONS: [(&str, Permission); 3] =
    [("allow", Permission::Allow), ("ask", Permission::Ask), ("deny", Permission::Deny)];

/// The keys of `[execution]`.
pub(super) fn keys(keys: &mut dyn Settings, settings: &mut ExecutionSettings) {
    keys.key(
        Key::new(
            "max_rounds",
            "how often the model may call hosted tools in one response; then it must answer",
        ),
        Field::Count(&mut settings.max_rounds, 1),
    );
    keys.key(Key::new("max_calls", "hosted calls in one response"), Field::Count(&mut settings.max_calls, 1));
    keys.key(
        Key::new("max_parallel", "hosted calls of one response that run at the same time"),
        Field::Count(&mut settings.max_parallel, 1),
    );
    keys.key(
        Key::new("deadline", "for a whole response with its tools. Clients usually wait ten minutes"),
        Field::Duration(&mut settings.deadline),
    );
    keys.key(
        Key::new("max_result", "of one result; longer ones are shortened"),
        Field::Size(&mut settings.max_result),
    );
    keys.key(
        Key::new("max_results", "of all results of one response; beyond, calls have no result"),
        Field::Size(&mut settings.max_results),
    );
    keys.key(
        Key::new(
            "visibility",
            "what clients see of hosted calls: `off`, nothing; `reasoning`, a line of reasoning for each; `items`, calls that \
             the server ran, as their dialect has them",
        ),
        Field::Word(&mut OneOf(&mut settings.visibility, &VISIBILITIES)),
    );
    keys.key(
        Key::new(
            "mixed_turns",
            "when the model calls hosted tools and the client's at once: `defer`, the client gets its calls, and the hosted \
             results are added when it sends its own; `server_first`, the hosted calls run, and the model is asked to repeat \
             the others; `client_only`, the hosted calls are dropped",
        ),
        Field::Word(&mut OneOf(&mut settings.mixed_turns, &MIXED_TURNS)),
    );
    keys.key(
        Key::new("separator", "between the texts that the model writes before and after hosted calls")
            .or("a blank line"),
        Field::AnyText(&mut settings.separator),
    );
    settings.images.keys(keys);
    let off = || "off".to_owned();
    let mut command = settings.image_command.take().unwrap_or_else(off);
    keys.key(
        Key::new(
            "image_command",
            "a message of the user that begins with this asks for an image of what follows, without a model: \
             `/generate-image a red fox`. `off`: there is no such command",
        ),
        Field::Text(&mut command),
    );
    settings.image_command = Some(command).filter(|command| *command != off());
}

/// The keys that all kinds of `[[providers]]` have.
pub(super) fn provider_keys(keys: &mut impl Keys, draft: &mut ProviderDraft) {
    let kinds: Vec<_> = KINDS.iter().map(|(name, _)| format!("`{name}`")).collect();
    keys.special(
        Key::new("name", "its name in logs and in the names of its tools").or(Key::REQUIRED),
        &mut draft.name,
        |cell| text(cell).map(Some),
        |name| name.as_deref().map(string),
    );
    keys.special(
        Key::new("kind", format!("what it is: {}", kinds.join(", "))).or(Key::REQUIRED),
        &mut draft.options,
        |cell| choice(KINDS)(cell).map(|default| Some(default())),
        |options| options.as_ref().map(|options| string(options.kind())),
    );
    keys.key(
        Key::new("tools", "the names of the tools that it may offer; `*` at the end matches any rest")
            .or("all"),
        Field::Texts(&mut draft.tools),
    );
}

/// An entry of `[[providers]]` whose keys have not all been read.
#[derive(Debug, Default)]
pub(super) struct ProviderDraft {
    name: Option<String>,
    options: Option<ProviderOptions>,
    tools: Vec<String>,
}

fn provider<'a>(table: &mut Table<'a>) -> Option<(ProviderEntry, Option<Cell<'a>>)> {
    let mut draft = ProviderDraft::default();
    provider_keys(&mut Reading(table), &mut draft);
    let mut options = draft.options?;
    options.settings(&mut Reading(table));
    Some((ProviderEntry { name: draft.name?, options, tools: draft.tools }, table.cell("name")))
}

/// The keys of `[[tools]]`, but for the name.
pub(super) fn tool_keys(keys: &mut dyn Settings, rules: &mut ToolRules) {
    keys.key(
        Key::new(
            "injection",
            "when the model gets the tool: `force`, always; `selective`, when the user's words ask for it; `off`, never",
        ),
        Field::Word(&mut OneOf(&mut rules.injection, &INJECTIONS)),
    );
    keys.key(
        Key::new("permission", "whether it may run: `allow`, `ask` (a person, over the admin API) or `deny`"),
        Field::Word(&mut OneOf(&mut rules.permission, &PERMISSIONS)),
    );
    keys.key(
        Key::new("timeout", "how long a call may take").or("the provider's"),
        Field::DurationOrOff(&mut rules.timeout),
    );
    keys.key(
        Key::new("cache_ttl", "how long a result serves equal calls, or `\"off\"`"),
        Field::DurationOrOff(&mut rules.cache_ttl),
    );
}

fn tool(table: &mut Table<'_>) -> Option<(String, ToolRules)> {
    let mut rules = ToolRules::default();
    let name = match table.cell("name") {
        Some(cell) => text(cell),
        None => {
            table.report_missing("name");
            None
        }
    };
    tool_keys(&mut Reading(table), &mut rules);
    Some((name?, rules))
}

/// Reads the three tables. `None`: there is no `[execution]`.
pub(super) fn read(table: &mut Table<'_>) -> Option<Arc<ExecutionSettings>> {
    let mut settings = ExecutionSettings::default();
    let execution = table.cell("execution");
    for cell in entries(table, "providers") {
        if execution.is_none() {
            cell.warn("no tool is run without the table `[execution]`");
        }
        if let Some((entry, name)) = cell.table(provider) {
            if let (true, Some(name)) =
                (settings.providers.iter().any(|other| other.name == entry.name), name)
            {
                name.wrong::<()>(format!("a second provider `{}`", entry.name));
            }
            settings.providers.push(entry);
        }
    }
    settings.tools =
        entries(table, "tools").into_iter().filter_map(|cell| cell.table(tool)).collect::<HashMap<_, _>>();
    execution?.table(|table| {
        keys(&mut Reading(table), &mut settings);
        Some(())
    });
    Some(Arc::new(settings))
}

/// The paths of the providers' secrets that are not set.
pub(super) fn unset_secrets(settings: &ExecutionSettings) -> Vec<String> {
    struct Unset(Vec<&'static str>);
    impl Settings for Unset {
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

/// Entries of the same providers without any settings.
pub(super) fn provider_defaults(settings: &ExecutionSettings) -> Value {
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

/// The three tables as they resolved, secrets masked.
pub(super) fn shown(settings: &ExecutionSettings) -> Vec<(String, Value)> {
    let mut settings = settings.clone();
    let execution = table_of(|visitor| keys(visitor, &mut settings));
    let providers = settings.providers.iter().map(|entry| {
        let options = Some(entry.options.clone());
        let mut draft = ProviderDraft { name: Some(entry.name.clone()), options, tools: entry.tools.clone() };
        let mut shown = table_of(|visitor| provider_keys(visitor, &mut draft));
        shown.extend(table_of(|visitor| entry.options.clone().settings(visitor)));
        Value::Table(shown)
    });
    let providers: Vec<_> = providers.collect();
    let mut tools: Vec<_> = settings.tools.iter().collect();
    tools.sort_by_key(|(name, _)| name.as_str());
    let tools = tools.into_iter().map(|(name, rules)| {
        let mut shown = toml::Table::from_iter([("name".to_owned(), string(name))]);
        shown.extend(table_of(|visitor| tool_keys(visitor, &mut rules.clone())));
        Value::Table(shown)
    });
    let tools: Vec<_> = tools.collect();
    let tables = [
        ("execution", Value::Table(execution)),
        ("providers", Value::Array(providers)),
        ("tools", Value::Array(tools)),
    ];
    let is_there = |value: &Value| value.as_array().is_none_or(|entries| !entries.is_empty());
    tables
        .into_iter()
        .filter(|(_, value)| is_there(value))
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

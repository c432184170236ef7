//! `[execution]`, `[[providers]]`, `[[tools]]` and `[[permissions]]`: settings of hosted tools.

mod providers;
#[cfg(test)]
mod tests;
mod tools;

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use secrecy::SecretString;
use toml::Value;

pub(super) use self::{
    providers::{ProviderDraft, provider_defaults, unset_secrets},
    tools::{PermissionDraft, tool_keys},
};
use self::{
    providers::{check_asked_model, provider, secrets},
    tools::{permission, tool},
};
use super::{
    ClientKey, Model,
    keys::{Keys, Reading, duration_value, string, table_of},
    proxies,
    table::{Cell, Table, entries},
    value::text,
};
use toolwire_execution::{ExecutionSettings, PermissionRule, Rate};
use toolwire_net::{proxied::Proxies, store::Owner};
use toolwire_pipeline::{
    settings::{Field, Key, Settings},
    wire::suggest::suggest,
};

/// Upper limit of `max_rounds`, the number of hops per turn in which tools may run.
const MAX_ROUNDS: usize = 20;

const MAX_RETRIES: usize = 10;

/// The keys of `[execution]`.
pub(super) fn keys(keys: &mut impl Keys, settings: &mut ExecutionSettings) {
    limits(keys, settings);
    behaviour(keys, settings);
    settings.permissions.settings(keys);
}

fn limits(keys: &mut impl Keys, settings: &mut ExecutionSettings) {
    keys.key(
        Key::new(
            "max_rounds",
            "how often the model may call hosted tools in one response, at most 20; then it must answer",
        ),
        Field::CountIn(&mut settings.max_rounds, 1..=MAX_ROUNDS),
    );
    keys.key(Key::new("max_calls", "hosted calls in one response"), Field::Count(&mut settings.max_calls, 1));
    keys.key(
        Key::new("max_parallel", "hosted calls of one response at the same time"),
        Field::Count(&mut settings.max_parallel, 1),
    );
    keys.key(
        Key::new("max_running", "hosted calls of all responses at the same time"),
        Field::Count(&mut settings.max_running, 1),
    );
    keys.key(
        Key::new("deadline", "for a response with its tools. Clients usually wait ten minutes"),
        Field::Duration(&mut settings.deadline),
    );
    keys.key(
        Key::new("max_result", "one result, in bytes; longer ones are shortened"),
        Field::Size(&mut settings.max_result),
    );
    keys.key(
        Key::new("max_results", "all results of one response; beyond, calls have no result"),
        Field::Size(&mut settings.max_results),
    );
    keys.key(
        Key::new(
            "retries",
            "how often a call is tried again if its tool may be called twice or nothing was sent; at most 10",
        ),
        Field::CountIn(&mut settings.retries, 0..=MAX_RETRIES),
    );
    rate_key(
        keys,
        Key::new("rate_limit", "hosted calls of one client: `\"60/1m\"`").or("`\"off\"`"),
        &mut settings.rate_limit,
    );
    keys.key(
        Key::new("rate_wait", "how long a call may wait because of a rate limit; then it fails"),
        Field::Duration(&mut settings.rate_wait),
    );
    keys.key(
        Key::new("cache_size", "results that are kept for equal calls"),
        Field::Size(&mut settings.cache_size),
    );
}

fn behaviour(keys: &mut impl Keys, settings: &mut ExecutionSettings) {
    keys.key(
        Key::new("visibility", "what clients [see](tools.md) of hosted calls: `off`, `reasoning` or `items`"),
        Field::Word(&mut settings.visibility),
    );
    keys.key(
        Key::new(
            "mixed_turns",
            "when the model calls [hosted tools and the client's](tools.md) \
             in one turn: `defer`, `server_first` or `client_only`",
        ),
        Field::Word(&mut settings.mixed_turns),
    );
    keys.key(
        Key::new("separator", "between texts before and after hosted calls").or("a blank line"),
        Field::AnyText(&mut settings.separator),
    );
    keys.key(
        Key::new(
            "clash",
            "when a client declares a tool with a hosted one's name, the model gets: `client_wins`, the \
             client's; `server_wins`, the hosted one; `prefix`, both, as `hosted__NAME`",
        ),
        Field::Word(&mut settings.clash),
    );
    keys.special(
        Key::new(
            "proxy",
            "the HTTP proxy of all providers, as `proxy` of an upstream; see [TLS and proxies](tls.md)",
        )
        .or("by the environment")
        .file_only(),
        &mut settings.proxies,
        |cell| proxies::read(cell).map(Proxies::One),
        |proxies| match proxies {
            Proxies::One(proxy) => Some(proxies::shown(proxy.as_ref())),
            Proxies::Environment(_) => None,
        },
    );
    keys.special(
        Key::new("audit", "a file for all events of hosted calls, as JSON lines").or("none").file_only(),
        &mut settings.audit,
        |cell| text(cell).map(|path| Some(path.into())),
        |path| path.as_deref().and_then(|path| path.to_str()).map(string),
    );
    keys.key(
        Key::new("login_key", "encrypts [logins at MCP servers](tools.md): at least 32 random characters")
            .or("a key in a file beside them")
            .file_only(),
        Field::Secret(&mut settings.login_key),
    );
    images(keys, settings);
}

fn images(keys: &mut impl Keys, settings: &mut ExecutionSettings) {
    settings.images.settings(keys);
    let off = || "off".to_owned();
    let mut command = settings.image_command.take().unwrap_or_else(off);
    keys.key(
        Key::new("image_command", "a user's message that begins with this asks for an image; or `off`"),
        Field::Text(&mut command),
    );
    settings.image_command = Some(command).filter(|command| *command != off());
}

fn rate_key(keys: &mut impl Keys, key: Key, value: &mut Option<Rate>) {
    keys.special(key, value, rate, shown_rate);
}

fn shown_rate(rate: &Option<Rate>) -> Option<Value> {
    let Rate { count, period } = (*rate)?;
    Some(string(&format!("{count}/{}", duration_value(period).as_str()?)))
}

/// Reads a rate such as `"10/1m"`, or `"off"` for no limit.
fn rate(cell: Cell<'_>) -> Option<Option<Rate>> {
    const EXPECTED: &str = "a rate such as \"10/1m\", or \"off\"";
    let written = text(cell.clone())?;
    if written == "off" {
        return Some(None);
    }
    let read = || {
        let (count, period) = written.split_once('/')?;
        let period = period.trim();
        let period = match period.starts_with(|first: char| first.is_ascii_digit()) {
            true => humantime::parse_duration(period),
            false => humantime::parse_duration(&format!("1{period}")),
        };
        let count: NonZeroU32 = count.trim().parse().ok()?;
        let period = period.ok().filter(|period| *period >= Duration::from_millis(1))?;
        Some(Rate { count, period })
    };
    match read() {
        Some(rate) => Some(Some(rate)),
        None => cell.wrong(format!("expected {EXPECTED}")),
    }
}

/// Reads the tables. `None` if there is no `[execution]`.
pub(super) fn read(
    table: &mut Table<'_>,
    models: Option<&[Model]>,
    clients: &[ClientKey],
) -> Option<Arc<ExecutionSettings>> {
    let mut settings = ExecutionSettings::default();
    let execution = table.cell("execution");
    for cell in entries(table, "providers") {
        if execution.is_none() {
            cell.warn("no tool is run without the table `[execution]`");
        }
        if let Some((entry, name)) = cell.clone().table(provider) {
            check_asked_model(&entry, &cell, models);
            if let (true, Some(name)) =
                (settings.providers.iter().any(|other| other.name == entry.name), name)
            {
                name.wrong::<()>(format!("a second provider `{}`", entry.name));
            }
            settings.providers.push(entry);
        }
    }
    for cell in entries(table, "tools") {
        let Some((name, rules, written)) = cell.clone().table(tool) else { continue };
        if execution.is_some() && !settings.may_offer(&name) {
            let offered = settings.providers.iter().flat_map(|entry| entry.options.offers(&entry.name));
            let offered: Vec<_> = offered.collect();
            let offered: Vec<_> = offered.iter().map(String::as_str).collect();
            let hint = suggest(&name, &offered, None);
            written.unwrap_or(cell.clone()).warn(format!("no provider offers a tool `{name}`; {hint}"));
        }
        if settings.tools.contains_key(&name) {
            cell.wrong::<()>(format!("a second entry for `{name}`"));
        }
        settings.tools.insert(name, rules);
    }
    let rules = entries(table, "permissions").into_iter().filter_map(|cell| cell.table(permission));
    let owner = |own: Owner| {
        let named = clients.iter().find(|key| key.digest.owner() == own);
        named.map_or(own, ClientKey::owner)
    };
    settings.permissions.rules =
        rules.map(|rule| PermissionRule { key: rule.key.map(owner), ..rule }).collect();
    let cell = execution?;
    let is_chosen = cell.entries().iter().any(|(key, ..)| *key == "proxy");
    if !is_chosen {
        settings.proxies = proxies::of_any(&cell);
    }
    cell.table(|table| {
        keys(&mut Reading(table), &mut settings);
        Some(())
    });
    let proxies = settings.proxies.secrets().into_iter().map(SecretString::from);
    let own = proxies.chain(settings.login_key.clone());
    settings.secrets = settings.providers.iter().flat_map(secrets).chain(own).collect();
    Some(Arc::new(settings))
}

/// The tables with their resolved values, and with secrets masked.
pub(super) fn shown(settings: &ExecutionSettings) -> Vec<(String, Value)> {
    let mut settings = settings.clone();
    let execution = table_of(|visitor| keys(visitor, &mut settings));
    let providers = settings.providers.iter().map(|entry| {
        let mut shown = table_of(|keys| ProviderDraft::of(entry).settings(keys));
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
    let rules = settings.permissions.rules.iter();
    let rules = rules.map(|rule| Value::Table(table_of(|keys| PermissionDraft::of(rule).settings(keys))));
    let rules: Vec<_> = rules.collect();
    let tables = [
        ("execution", Value::Table(execution)),
        ("providers", Value::Array(providers)),
        ("tools", Value::Array(tools)),
        ("permissions", Value::Array(rules)),
    ];
    let is_there = |value: &Value| value.as_array().is_none_or(|entries| !entries.is_empty());
    tables
        .into_iter()
        .filter(|(_, value)| is_there(value))
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

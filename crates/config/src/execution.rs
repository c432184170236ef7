//! `[execution]`, `[[providers]]`, `[[tools]]` and `[[permissions]]`: the stage that runs hosted tools.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use secrecy::{ExposeSecret, SecretString};
use toml::Value;

use super::{
    ClientKey, Model,
    keys::{
        Keys, Reading, count_value, duration_value, shown_text, size_value, some, string, strings, table_of,
    },
    mask::masked,
    proxies,
    table::{Cell, Table, entries},
    value::{choice, count, count_in, duration, list, secret, size, text},
};
use toolwire_execution::{
    CacheRule, Domain, ExecutionSettings, Intent, KINDS, Permission, PermissionRule, ProviderEntry,
    ProviderOptions, Rate, ToolRules,
};
use toolwire_net::{proxied::Proxies, store::Owner};
use toolwire_pipeline::{
    settings::{Field, Key, OneOf, Settings, TableText, Visitor},
    wire::suggest::suggest,
};

/// Upper limit of `max_rounds`: hops of one turn that may run tools.
const MAX_ROUNDS: usize = 20;

/// Upper limit of `retries`.
const MAX_RETRIES: usize = 10;

const PERMISSIONS: [(&str, Permission); 3] =
    [("allow", Permission::Allow), ("ask", Permission::Ask), ("deny", Permission::Deny)];

/// The keys of `[execution]`.
pub(super) fn keys(keys: &mut impl Keys, settings: &mut ExecutionSettings) {
    limits(keys, settings);
    behaviour(keys, settings);
    permissions(keys, settings);
}

/// The keys for limits.
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
        Key::new("max_result", "one result, in characters; longer ones are shortened"),
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

/// The keys for what clients and the model see.
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
    images(keys, settings);
}

/// Generated images.
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

/// The keys for permissions.
fn permissions(keys: &mut impl Keys, settings: &mut ExecutionSettings) {
    let settings = &mut settings.permissions;
    keys.key(
        Key::new(
            "permission",
            "for calls without a rule in `[[tools]]` and `[[permissions]]`: `allow`, `ask` (a person, over the \
             admin API) or `deny`",
        ),
        Field::Word(&mut OneOf(&mut settings.default, &PERMISSIONS)),
    );
    keys.key(
        Key::new("ask_timeout", "how long a question waits; then the call is denied"),
        Field::Duration(&mut settings.ask_timeout),
    );
    keys.key(
        Key::new(
            "unattended",
            "questions while no reader is connected to the event feed: `deny`, `allow`, or `wait`",
        ),
        Field::Word(&mut settings.unattended),
    );
}

fn rate_key(keys: &mut impl Keys, key: Key, value: &mut Option<Rate>) {
    keys.special(key, value, rate, shown_rate);
}

fn shown_rate(rate: &Option<Rate>) -> Option<Value> {
    let Rate { count, period } = (*rate)?;
    Some(string(&format!("{count}/{}", duration_value(period).as_str()?)))
}

/// A rate such as `"10/1m"`, or `"off"` for none.
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

/// The names of the kinds of providers, for people.
fn kinds() -> String {
    KINDS.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// An entry of `[[providers]]` that is being read.
#[derive(Debug, Settings)]
pub(super) struct ProviderDraft {
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
    fn of(entry: &ProviderEntry) -> Self {
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

fn provider<'a>(table: &mut Table<'a>) -> Option<(ProviderEntry, Option<Cell<'a>>)> {
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

/// The keys of `[[tools]]`, except the name.
pub(super) fn tool_keys(keys: &mut impl Keys, rules: &mut ToolRules) {
    keys.key(
        Key::new(
            "injection",
            "when the model gets the tool: `force`, always; `selective`, when the user asks for it; `off`, never",
        ),
        Field::Word(&mut rules.injection),
    );
    keys.special(
        Key::new(
            "intent",
            "the words that ask for it, such as `\"search the web\"`; `\"find|look up + news|article\"` needs \
             one word of each side",
        )
        .or("the tool's name, or built in"),
        &mut rules.intent,
        |cell| list(intent)(cell),
        |intents| (!intents.is_empty()).then(|| strings(intents.iter().map(Intent::as_str))),
    );
    keys.special(
        Key::new("permission", "whether it may run: `allow`, `ask` (a person, over the admin API) or `deny`")
            .or("that of `[execution]`"),
        &mut rules.permission,
        |cell| choice(&PERMISSIONS)(cell).map(Some),
        |permission| permission.and_then(|own| word(&PERMISSIONS, own)),
    );
    keys.key(
        Key::new("description", "for the model: what it does, and when to call it").or("the provider's"),
        Field::OptionalText(&mut rules.description),
    );
    keys.key(
        Key::new("label", "for people: its name").or("the provider's"),
        Field::OptionalText(&mut rules.label),
    );
    keys.key(
        Key::new("progress", "for people, while it runs: `\"Searching for: {query}\"`").or("the provider's"),
        Field::OptionalText(&mut rules.progress),
    );
    keys.key(
        Key::new(
            "prompt",
            "for the model: added to the system instructions of requests in which it gets the tool",
        ),
        Field::OptionalText(&mut rules.prompt),
    );
    tool_limits(keys, rules);
}

/// The keys of `[[tools]]` that limit its calls.
fn tool_limits(keys: &mut impl Keys, rules: &mut ToolRules) {
    keys.special(
        Key::new("timeout", "how long one attempt may take").or("the provider's"),
        &mut rules.timeout,
        |cell| duration(cell).map(Some),
        |timeout| timeout.map(duration_value),
    );
    keys.special(
        Key::new("retries", "how often a call is tried again").or("those of `[execution]`"),
        &mut rules.retries,
        |cell| count_in(0..=MAX_RETRIES)(cell).map(Some),
        |retries| retries.map(count_value),
    );
    keys.special(
        Key::new("cache_ttl", "how long a result serves equal calls of the same client, or `\"off\"`")
            .or("`\"300s\"` for tools that may be called twice, else `\"off\"`"),
        &mut rules.cache,
        cache_rule,
        |rule| match rule {
            CacheRule::Default => None,
            CacheRule::Off => Some(string("off")),
            CacheRule::For(ttl) => Some(duration_value(*ttl)),
        },
    );
    rate_key(
        keys,
        Key::new("rate_limit", "its calls by one client: `\"10/1m\"`").or("the provider's"),
        &mut rules.rate_limit,
    );
    keys.special(
        Key::new("max_uses", "its calls in one response").or("`max_calls`"),
        &mut rules.max_uses,
        |cell| count(1)(cell).map(Some),
        |uses| uses.map(count_value),
    );
    keys.special(
        Key::new("max_result", "one result, in characters; longer ones are shortened")
            .or("that of `[execution]`"),
        &mut rules.max_result,
        |cell| size(cell).map(Some),
        |size| size.map(size_value),
    );
    keys.key(
        Key::new("url_argument", "the argument with the URL, for rules about domains").or("the provider's"),
        Field::OptionalText(&mut rules.url_argument),
    );
    domains_key(
        keys,
        Key::new("allow_domains", "domains that its calls may address, with subdomains").or("all"),
        &mut rules.allow_domains,
    );
    domains_key(
        keys,
        Key::new("deny_domains", "domains that its calls may not address, with subdomains"),
        &mut rules.deny_domains,
    );
}

fn domains_key(keys: &mut impl Keys, key: Key, domains: &mut Vec<Domain>) {
    keys.special(
        key,
        domains,
        |cell| list(domain)(cell),
        |domains| Some(strings(domains.iter().map(Domain::as_str))),
    );
}

/// Reads a domain. Anything else is reported, since it would never match.
fn domain(cell: Cell<'_>) -> Option<Domain> {
    match Domain::parse(&text(cell.clone())?) {
        Some(domain) => Some(domain),
        None => cell.wrong("expected a domain such as \"example.com\", without a scheme, port or path"),
    }
}

fn intent(cell: Cell<'_>) -> Option<Intent> {
    match Intent::parse(&text(cell.clone())?) {
        Some(intent) => Some(intent),
        None => cell.wrong("expected words such as \"search the web\" or \"find|look up + news|article\""),
    }
}

fn cache_rule(cell: Cell<'_>) -> Option<CacheRule> {
    match super::value::duration_or_off(cell)? {
        Some(ttl) => Some(CacheRule::For(ttl)),
        None => Some(CacheRule::Off),
    }
}

fn word<T: PartialEq>(words: &[(&str, T)], value: T) -> Option<Value> {
    words.iter().find(|(_, known)| *known == value).map(|(word, _)| string(word))
}

/// An entry of `[[permissions]]` that is being read.
#[derive(Debug, Settings)]
pub(super) struct PermissionDraft {
    /// `allow`, `ask` (a person, over the admin API) or `deny`
    #[setting(
        required, read = some(choice(&PERMISSIONS)),
        show = |permission| permission.and_then(|own| word(&PERMISSIONS, own))
    )]
    permission: Option<Permission>,
    /// the client's key, a secret; one of `[[keys]]` stands for all of its name
    #[setting(
        or = "all clients",
        read = |cell| secret(cell).map(|key| Some(Owner::of_key(key.expose_secret().as_bytes()))),
        show = |key| key.map(|key| string(&masked(key.0)))
    )]
    key: Option<Owner>,
    /// the model that the client requests; `*` at the end matches any rest
    #[setting(or = "all")]
    model: Option<String>,
    /// the hosted tool; `*` at the end matches any rest
    #[setting(or = "all")]
    tool: Option<String>,
    /// the domain that the call addresses, with subdomains
    #[setting(
        or = "all", read = some(domain),
        show = |domain| domain.as_ref().map(|domain| string(domain.as_str()))
    )]
    domain: Option<Domain>,
}

fn permission(table: &mut Table<'_>) -> Option<PermissionRule> {
    let mut draft = PermissionDraft::default();
    draft.settings(&mut Reading(table));
    let PermissionDraft { permission, key, model, tool, domain } = draft;
    Some(PermissionRule { key, model, tool, domain, permission: permission? }.normalized())
}

fn tool<'a>(table: &mut Table<'a>) -> Option<(String, ToolRules, Option<Cell<'a>>)> {
    let mut rules = ToolRules::default();
    let name = match table.cell("name") {
        Some(cell) => text(cell),
        None => {
            table.report_missing("name");
            None
        }
    };
    tool_keys(&mut Reading(table), &mut rules);
    Some((name?, rules, table.cell("name")))
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
    settings.secrets = settings.providers.iter().flat_map(secrets).chain(proxies).collect();
    Some(Arc::new(settings))
}

/// Checks that the model that a provider asks is configured. `models` is `None` if the tables of models
/// contain mistakes.
fn check_asked_model(entry: &ProviderEntry, cell: &Cell<'_>, models: Option<&[Model]>) {
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
pub(super) fn unset_secrets(settings: &ExecutionSettings) -> Vec<String> {
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

/// The secrets among a provider's settings.
fn secrets(entry: &ProviderEntry) -> Vec<SecretString> {
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

/// The tables with their resolved values, secrets masked.
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
    let rules = settings.permissions.rules.iter().map(|rule| {
        let PermissionRule { key, model, tool, domain, permission } = rule.clone();
        let mut draft = PermissionDraft { permission: Some(permission), key, model, tool, domain };
        Value::Table(table_of(|keys| draft.settings(keys)))
    });
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::of_text;

    const UPSTREAM: &str = "[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"http://127.0.0.1:1/v1\"\n[[models]]\nname = \"m\"\n";

    fn read_text(text: &str) -> Result<Arc<ExecutionSettings>, String> {
        let config = of_text(format!("{text}\n{UPSTREAM}")).map_err(|problems| problems.to_string())?;
        config.execution.ok_or_else(|| "no stage".to_owned())
    }

    #[test]
    fn texts_in_the_file_itself_are_secret_if_their_name_says_so() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"from-a-file").unwrap();
        let text = r#"
            [execution]
            [[providers]]
            name = "local"
            kind = "command"
            command = ["true"]
            env = { LANGUAGE = "english", LEVEL = "1", API_KEY = "plain-key", OUTSIDE = "file:PATH" }
            [[providers]]
            name = "remote"
            kind = "mcp"
            url = "http://127.0.0.1:1/mcp"
            headers = { Authorization = "Bearer abc", x-api-key = "def", X-Region = "europe", X-Own = "file:PATH" }
            "#;
        let settings = read_text(&text.replace("PATH", file.path().to_str().unwrap())).unwrap();
        let mut secrets: Vec<_> = settings.secrets.iter().map(ExposeSecret::expose_secret).collect();
        secrets.sort_unstable();
        assert_eq!(secrets, ["Bearer abc", "def", "from-a-file", "from-a-file", "plain-key"]);
        let shown = format!("{:?}", shown(&settings));
        assert!(shown.contains("english") && shown.contains("europe"), "{shown}");
        assert!(
            !shown.contains("abc") && !shown.contains("plain-key") && !shown.contains("from-a"),
            "{shown}"
        );
    }

    #[test]
    fn all_settings_of_calls_are_read_and_shown() {
        let settings = read_text(
            r#"
            [execution]
            max_rounds = 20
            rate_limit = "60/m"
            rate_wait = "1s"
            clash = "prefix"
            permission = "ask"
            unattended = "wait"
            [[providers]]
            name = "calc"
            kind = "command"
            command = ["true"]
            deny = ["x*"]
            max_running = 2
            rate_limit = "5/10s"
            [[tools]]
            name = "calc"
            intent = ["sum|add up", "how much + is"]
            permission = "deny"
            cache_ttl = "off"
            rate_limit = "10/1m"
            max_uses = 1
            retries = 0
            max_result = "1KiB"
            deny_domains = ["bad.example"]
            [[permissions]]
            permission = "allow"
            key = "a-client-key"
            tool = "Calc"
            domain = "*.Example.com"
            "#,
        )
        .unwrap();
        let minute = Duration::from_secs(60);
        assert_eq!(settings.rate_limit, Some(Rate { count: 60.try_into().unwrap(), period: minute }));
        let rules = settings.rules_for("calc", &[]);
        assert_eq!((rules.cache, rules.max_uses, rules.max_result), (CacheRule::Off, Some(1), Some(1024)));
        let rules = settings.all_permissions().rules;
        let [own, of_tool] = &rules[..] else { panic!("two rules: {rules:?}") };
        assert_eq!(own.key, Some(Owner::of_key(b"a-client-key")));
        assert_eq!(
            (own.tool.as_deref(), own.domain.as_ref().map(Domain::as_str)),
            (Some("calc"), Some("example.com"))
        );
        assert_eq!((of_tool.tool.as_deref(), of_tool.permission), (Some("calc"), Permission::Deny));
        let shown = shown(&settings).into_iter().map(|(key, value)| format!("{key}: {value}\n"));
        let shown: String = shown.collect();
        for part in ["60/60s", "10/60s", "5/10s", "how much + is", "\"off\"", "\"deny\"", "prefix", "wait"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains("a-client-key"), "{shown}");
    }

    #[test]
    fn mistakes_are_reported() {
        for (text, word) in [
            ("[execution]\nmax_rounds = 21", "from 1 to 20"),
            ("[execution]\nmax_rounds = 0", "from 1 to 20"),
            ("[execution]\nretries = 11", "from 0 to 10"),
            ("[execution]\nrate_limit = \"0/1m\"", "a rate such as"),
            ("[execution]\nrate_limit = \"10\"", "a rate such as"),
            ("[execution]\nrate_limit = \"10/0s\"", "a rate such as"),
            ("[execution]\n[[tools]]\nname = \"a\"\nintent = [\"+\"]", "expected words"),
            ("[execution]\n[[tools]]\nname = \"a\"\n[[tools]]\nname = \"a\"", "a second entry"),
            ("[execution]\n[[permissions]]\ntool = \"a\"", "missing key `permission`"),
            ("[execution]\n[[permissions]]\npermission = \"maybe\"", "maybe"),
        ] {
            let error = read_text(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn domains_are_read_in_their_normal_form_and_anything_else_is_a_mistake() {
        let tables = |domain: &str| {
            [
                format!(
                    "[execution]\n[[tools]]\nname = \"a\"\nallow_domains = [\"ok.example\", \"{domain}\"]"
                ),
                format!("[execution]\n[[tools]]\nname = \"a\"\ndeny_domains = [\"{domain}\"]"),
                format!("[execution]\n[[permissions]]\npermission = \"deny\"\ndomain = \"{domain}\""),
            ]
        };
        for wrong in [
            "https://evil.example",
            "https://evil.example/",
            "evil.example:443",
            "evil.example/x",
            "a b",
            "*",
            "u@evil.example",
        ] {
            for text in tables(wrong) {
                let error = read_text(&text).unwrap_err();
                assert!(error.contains("expected a domain"), "{text}: {error}");
            }
        }
        for (written, normal) in [
            ("bücher.example", "xn--bcher-kva.example"),
            (" Evil.Example ", "evil.example"),
            ("*.evil.example", "evil.example"),
            (".evil.example.", "evil.example"),
            ("[::1]", "[::1]"),
            ("127.1", "127.0.0.1"),
        ] {
            let [_, denied, permission] = tables(written);
            let rules = read_text(&denied).unwrap().rules_for("a", &[]);
            assert_eq!(rules.deny_domains[0].as_str(), normal);
            let rules = &read_text(&permission).unwrap().permissions.rules;
            assert_eq!(rules[0].domain.as_ref().map(Domain::as_str), Some(normal));
        }
    }
}

//! `[[tools]]` and `[[permissions]]`: rules for hosted tools.

use secrecy::ExposeSecret;

use super::{MAX_RETRIES, rate_key};
use crate::{
    keys::{Keys, Reading, count_value, duration_value, size_value, some, string, strings},
    mask::masked,
    table::{Cell, Table},
    value::{choice, count, count_in, duration, list, secret, size, text},
};
use toolwire_execution::{CacheRule, Domain, Intent, Permission, PermissionRule, ToolRules};
use toolwire_net::store::Owner;
use toolwire_pipeline::settings::{Field, Key, Settings};

const PERMISSIONS: [(&str, Permission); 3] =
    [("allow", Permission::Allow), ("ask", Permission::Ask), ("deny", Permission::Deny)];

/// The keys of `[[tools]]`, except the name.
pub(crate) fn tool_keys(keys: &mut impl Keys, rules: &mut ToolRules) {
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
            .or("that of `[execution]`")
            .one_of(&["allow", "ask", "deny"]),
        &mut rules.permission,
        |cell| choice(&PERMISSIONS)(cell).map(Some),
        |permission| permission.map(|own| string(own.into())),
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

/// The keys of `[[tools]]` that limit calls.
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
        Key::new("max_result", "one result, in bytes; longer ones are shortened").or("that of `[execution]`"),
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
    match crate::value::duration_or_off(cell)? {
        Some(ttl) => Some(CacheRule::For(ttl)),
        None => Some(CacheRule::Off),
    }
}

/// An entry of `[[permissions]]` that is being read.
#[derive(Debug, Settings)]
pub(crate) struct PermissionDraft {
    /// `allow`, `ask` (a person, over the admin API) or `deny`
    #[setting(
        required, read = some(choice(&PERMISSIONS)),
        show = |permission| permission.map(|own| string(own.into()))
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

impl PermissionDraft {
    pub(super) fn of(rule: &PermissionRule) -> Self {
        let PermissionRule { key, model, tool, domain, permission } = rule.clone();
        Self { permission: Some(permission), key, model, tool, domain }
    }
}

pub(super) fn permission(table: &mut Table<'_>) -> Option<PermissionRule> {
    let mut draft = PermissionDraft::default();
    draft.settings(&mut Reading(table));
    let PermissionDraft { permission, key, model, tool, domain } = draft;
    Some(PermissionRule { key, model, tool, domain, permission: permission? }.normalized())
}

pub(super) fn tool<'a>(table: &mut Table<'a>) -> Option<(String, ToolRules, Option<Cell<'a>>)> {
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

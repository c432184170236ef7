//! What a configuration resolved to, as TOML: every key with its value, secrets masked.

use std::time::Duration;

use toml::{Table, Value};

use super::{
    Config, Model, Origins, SystemPosition, Upstream,
    model::{ARGUMENTS, MISROUTE, REASONING, SERVER_CALLS, UNKNOWN_CALLS},
    upstream::{CUSTOM_TOOLS, DEVELOPER_ROLE, RESULT_IMAGES, STREAM},
};
use crate::{
    dialect::{UpstreamDialect, lumo::Version},
    format::Definition,
    rules::Detect,
};

/// In the place of a secret.
const MASK: &str = "********";

impl Config {
    /// The whole configuration as TOML, defaults filled in and secrets masked. Loaded again it resolves to the same
    /// configuration, but for the secrets.
    pub fn to_toml(&self) -> Table {
        let limits = &self.limits;
        let answer = &limits.answer;
        let mut shown = table([
            ("listen", strings(self.listen.iter().map(ToString::to_string))),
            ("api_keys", strings(self.api_keys.iter().map(|_| MASK.to_owned()))),
            ("cors_origins", origins(&self.cors_origins)),
            ("drain_timeout", duration(self.drain_timeout)),
            ("threads", count(self.threads)),
            ("metrics", Value::Table(table([("tool_names", Value::Boolean(self.metrics.tool_names))]))),
            (
                "limits",
                Value::Table(table([
                    ("max_body", size(limits.max_body)),
                    ("max_pending_bodies", size(limits.max_pending_bodies)),
                    ("body_timeout", duration(limits.body_timeout)),
                    ("write_timeout", duration(limits.write_timeout)),
                    ("max_frame", size(answer.max_frame)),
                    ("max_arguments", size(answer.max_arguments)),
                    ("max_calls", count(answer.max_calls)),
                    ("max_hold", size(answer.max_hold)),
                    ("max_depth", count(answer.max_depth)),
                    ("max_name", size(answer.max_name)),
                    ("max_markup", size(answer.max_markup)),
                    ("max_answer", size(answer.max_answer)),
                    ("keep_alive", duration(limits.keep_alive)),
                ])),
            ),
            (
                "upstreams",
                Value::Array(self.upstreams.iter().map(|entry| Value::Table(upstream(entry))).collect()),
            ),
            ("models", Value::Array(self.models.iter().map(|entry| Value::Table(model(entry))).collect())),
        ]);
        let formats: Vec<_> = self.formats.own().iter().filter_map(|own| format(&own.definition)).collect();
        if !formats.is_empty() {
            shown.insert("formats".to_owned(), Value::Array(formats));
        }
        shown
    }
}

fn origins(origins: &Origins) -> Value {
    strings(
        match origins {
            Origins::None => Vec::new(),
            Origins::Any => vec!["*".to_owned()],
            Origins::Listed(listed) => {
                listed.iter().filter_map(|origin| origin.to_str().ok()).map(str::to_owned).collect()
            }
        }
        .into_iter(),
    )
}

fn upstream(upstream: &Upstream) -> Table {
    let Upstream { timeouts, queue, .. } = upstream;
    let mut shown = table([
        ("name", string(&upstream.name)),
        ("dialect", string(upstream.dialect().name())),
        ("base_url", string(upstream.base_url.to_string().trim_end_matches('/'))),
        ("connect_timeout", duration(timeouts.connect)),
        ("header_timeout", duration(timeouts.header)),
        ("idle_timeout", duration(timeouts.idle)),
        ("total_timeout", timeouts.total.map_or_else(|| string("off"), duration)),
        ("max_concurrent", count(queue.max_concurrent)),
        ("max_waiting", count(queue.max_waiting)),
        ("wait_timeout", duration(queue.wait_timeout)),
        ("tolerate_truncation", Value::Boolean(upstream.tolerate_truncation)),
        ("retry_unanswered", Value::Boolean(upstream.retry_unanswered)),
    ]);
    if upstream.api_key.is_some() {
        shown.insert("api_key".to_owned(), string(MASK));
    }
    if !upstream.headers.is_empty() {
        let names = upstream.headers.keys().map(|name| (name.to_string(), string(MASK)));
        shown.insert("headers".to_owned(), Value::Table(names.collect()));
    }
    let options = match &upstream.options {
        UpstreamDialect::Lumo(lumo) => table([
            ("version", string(if lumo.version == Version::V1 { "v1" } else { "v2" })),
            ("native_tools", strings(lumo.native_tools.iter().cloned())),
        ]),
        UpstreamDialect::Chat(chat) => table([
            ("include_usage", Value::Boolean(chat.include_usage)),
            ("cumulative", Value::Boolean(chat.cumulative)),
            ("stream", word(&STREAM, chat.stream)),
            ("developer_role", word(&DEVELOPER_ROLE, chat.keep_developer)),
            ("custom_tools", word(&CUSTOM_TOOLS, chat.keep_custom_tools)),
            ("result_images", word(&RESULT_IMAGES, chat.keep_result_images)),
            ("join_user_turns", Value::Boolean(chat.join_user_turns)),
        ]),
    };
    shown.insert(upstream.dialect().name().to_owned(), Value::Table(options));
    shown
}

fn model(model: &Model) -> Table {
    let settings = &model.settings;
    let mut shown = table([
        ("name", string(&model.name)),
        ("upstream", string(&model.upstream.name)),
        ("tools", string(&model.tools.to_string())),
        (
            "detect",
            match &settings.detect {
                Detect::Auto => string("auto"),
                Detect::Off => string("off"),
                Detect::AutoAnd(formats) => {
                    let names = formats.iter().copied();
                    strings(std::iter::once("auto").chain(names).map(str::to_owned))
                }
                Detect::Formats(formats) => strings(formats.iter().copied().map(str::to_owned)),
            },
        ),
        ("reasoning", word(&REASONING, settings.reasoning)),
        ("server_calls", word(&SERVER_CALLS, settings.server_calls)),
        ("arguments", word(&ARGUMENTS, settings.arguments)),
        ("unknown_calls", word(&UNKNOWN_CALLS, settings.unknown_calls)),
        ("misroute", word(&MISROUTE, settings.misroute)),
        ("repair", Value::Boolean(settings.repair)),
        ("tool_prefix", string(&settings.tool_prefix)),
        (
            "system_position",
            string(match model.system_position {
                SystemPosition::System => "system",
                SystemPosition::User => "user",
            }),
        ),
    ]);
    // A wildcard's depends on the name that a client asks for, unless it is configured.
    if !model.is_wildcard() || model.starts_in_reasoning.is_some() {
        let starts = model.settings_for(&model.name).starts_in_reasoning;
        shown.insert("starts_in_reasoning".to_owned(), Value::Boolean(starts));
    }
    let optional = [("upstream_name", &model.upstream_name), ("instructions", &model.instructions)];
    for (key, value) in optional {
        if let Some(value) = value {
            shown.insert(key.to_owned(), string(value));
        }
    }
    shown
}

/// What the definition leaves to its defaults is left out.
fn format(definition: &Definition) -> Option<Value> {
    Value::try_from(definition).ok()
}

fn table<const N: usize>(entries: [(&str, Value); N]) -> Table {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn string(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn strings(texts: impl Iterator<Item = String>) -> Value {
    Value::Array(texts.map(Value::String).collect())
}

fn count(count: usize) -> Value {
    Value::Integer(i64::try_from(count).unwrap_or(i64::MAX))
}

fn word<T: PartialEq>(words: &[(&str, T)], value: T) -> Value {
    string(words.iter().find(|(_, known)| *known == value).map_or("", |(word, _)| word))
}

/// As short as it can be said: `90s`, `250ms`.
fn duration(duration: Duration) -> Value {
    string(&match duration.subsec_nanos() {
        0 => format!("{}s", duration.as_secs()),
        _ => humantime::format_duration(duration).to_string(),
    })
}

/// In the largest unit that divides it: `10MiB`, `1500B`.
fn size(size: usize) -> Value {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(bytes, _)| size.is_multiple_of(*bytes));
    let (bytes, name) = unit.unwrap_or((1, "B"));
    string(&format!("{}{name}", size / bytes))
}

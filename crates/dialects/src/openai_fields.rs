//! Fields of requests that OpenAI's two APIs have in common, for clients of one and upstreams of the other.

use serde_json::Value;

use crate::{Dialect, conversation::Conversation};

/// The fields. Responses nests `verbosity` in `text`.
pub(super) const SHARED: &[&str] = &[
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "user",
    VERBOSITY,
];

pub(super) const VERBOSITY: &str = "verbosity";

/// The fields among `names` that a client of the other API gave, for an upstream of `own`.
pub(super) fn given<'c>(
    conversation: &'c Conversation,
    own: Dialect,
    names: &'static [&'static str],
) -> impl Iterator<Item = (&'static str, &'c Value)> {
    let other = if own == Dialect::Chat { Dialect::Responses } else { Dialect::Chat };
    let rest = conversation.rest.from_dialect(other.name());
    let value = move |name: &&'static str| {
        let rest = rest?;
        let nested = || rest.get("text")?.get(VERBOSITY).filter(|_| *name == VERBOSITY);
        Some((*name, rest.get(*name).or_else(nested).filter(|value| !value.is_null())?))
    };
    names.iter().filter_map(value)
}

/// Removes `fields`, which [`given`] has returned, from those that are reported as dropped.
pub(super) fn tell_carried(
    conversation: &Conversation,
    fields: &[(&'static str, &Value)],
    dropped: &mut Vec<String>,
) {
    for (name, _) in fields {
        let text = conversation.rest.get("text").and_then(Value::as_object);
        let is_all = *name == VERBOSITY && text.is_some_and(|text| text.len() == 1);
        dropped.retain(|field| field != *name && !(is_all && field == "text"));
    }
}

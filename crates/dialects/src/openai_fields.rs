//! Fields of requests that OpenAI's APIs have in common, for clients of one and upstreams of another.

use serde_json::Value;

use super::fields::Fields;
use crate::{Dialect, conversation::Conversation, failure::Failure};

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

/// The fields among `names` that a client of another of these APIs gave, for an upstream of `own`.
pub(super) fn given<'c>(
    conversation: &'c Conversation,
    own: Dialect,
    names: &'static [&'static str],
) -> impl Iterator<Item = (&'static str, &'c Value)> {
    let others = [Dialect::Chat, Dialect::Responses, Dialect::Completions].into_iter();
    let mut others = others.filter(|other| *other != own);
    let rest = others.find_map(|other| conversation.rest.from_dialect(other.name()));
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

/// Takes `include_usage` out of `stream_options`, whose other members remain.
pub(super) fn include_usage(fields: &mut Fields<'_, '_>) -> Result<bool, Failure> {
    let Some(mut options) = fields.object("stream_options")? else { return Ok(false) };
    let wanted = options.boolean("include_usage")?.unwrap_or(false);
    let others = options.into_rest();
    if !others.is_empty() {
        fields.keep("stream_options", others);
    }
    Ok(wanted)
}

//! Token counts as Chat Completions and text completions report them.

use serde_json::{Map, Value, json};

use super::Dialect;
use crate::event::Usage;

/// The usage object: the three counts that clients read, followed by the upstream's other fields. Missing
/// counts are left out, because zero would mean that nothing was used.
pub(super) fn object(usage: &Usage) -> Map<String, Value> {
    let sum = || usage.input?.checked_add(usage.output?);
    let counts = [
        ("prompt_tokens", usage.input),
        ("completion_tokens", usage.output),
        ("total_tokens", usage.total.or_else(sum)),
    ];
    let given = counts.into_iter().filter_map(|(key, count)| Some((key.to_owned(), count?.into())));
    let mut object: Map<_, _> = given.collect();
    let raw = usage.raw.as_ref().filter(|raw| raw.dialect == Dialect::Chat.name());
    let raw = raw.and_then(|raw| serde_json::from_str::<Map<String, Value>>(raw.object.get()).ok());
    for (key, value) in raw.into_iter().flatten() {
        object.entry(key).or_insert(value);
    }
    let details = [
        ("prompt_tokens_details", "cached_tokens", usage.cached),
        ("completion_tokens_details", "reasoning_tokens", usage.reasoning),
    ];
    for (details, key, count) in details {
        if let Some(count) = count {
            object.entry(details).or_insert_with(|| json!({key: count}));
        }
    }
    object
}

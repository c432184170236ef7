//! Token counts as the API tells them.

use serde_json::{Map, Value};

use crate::event::Usage;

/// The usage object: the three counts that every client reads, then what else the upstream told. What nobody told
/// is 0.
pub(super) fn object(usage: &Usage) -> Map<String, Value> {
    let (input, output) = (usage.input.unwrap_or(0), usage.output.unwrap_or(0));
    let mut object = Map::new();
    object.insert("prompt_tokens".to_owned(), input.into());
    object.insert("completion_tokens".to_owned(), output.into());
    object.insert(
        "total_tokens".to_owned(),
        usage.total.unwrap_or_else(|| input.saturating_add(output)).into(),
    );
    let raw = usage.raw.as_ref().and_then(|raw| serde_json::from_str::<Map<String, Value>>(raw.get()).ok());
    for (key, value) in raw.into_iter().flatten() {
        object.entry(key).or_insert(value);
    }
    object
}

//! Token counts as OpenAI's usage object reports them, which other APIs have taken over.

use serde_json::value::RawValue;

use crate::{event::Usage, wire::json::Json};

/// The counts of a usage object, and the object itself.
pub(super) fn usage_of(usage: Json<'_>) -> Usage {
    let count = |keys: [&str; 2]| keys.iter().find_map(|key| usage.get(key)?.as_u64());
    let input = count(["prompt_tokens", "input_tokens"]);
    let output = count(["completion_tokens", "output_tokens"]);
    let sum = || input?.checked_add(output?);
    let detail = |key: &str| usage.get("prompt_tokens_details")?.get(key)?.as_u64();
    Usage {
        input,
        output,
        total: count(["total_tokens"; 2]).or_else(sum),
        cached: detail("cached_tokens"),
        cache_written: detail("cache_write_tokens"),
        raw: RawValue::from_string(usage.raw().to_owned()).ok(),
    }
}

//! Token counts as OpenAI's usage object reports them, which other APIs have taken over.

use serde_json::value::RawValue;

use super::Dialect;
use crate::{
    event::{RawUsage, Usage},
    wire::json::Json,
};

/// The counts of a usage object, and the object itself, for clients of Chat Completions.
pub(super) fn usage_of(usage: Json<'_>) -> Usage {
    let count = |keys: [&str; 2]| keys.iter().find_map(|key| usage.get(key)?.as_u64());
    let input = count(["prompt_tokens", "input_tokens"]);
    let output = count(["completion_tokens", "output_tokens"]);
    let sum = || input?.checked_add(output?);
    let detail =
        |of: [&str; 2], key: &str| of.iter().find_map(|details| usage.get(details)?.get(key)?.as_u64());
    let of_input = ["prompt_tokens_details", "input_tokens_details"];
    let of_output = ["completion_tokens_details", "output_tokens_details"];
    Usage {
        input,
        output,
        reasoning: detail(of_output, "reasoning_tokens"),
        total: count(["total_tokens"; 2]).or_else(sum),
        cached: detail(of_input, "cached_tokens"),
        cache_written: detail(of_input, "cache_write_tokens"),
        raw: raw_usage(usage, Dialect::Chat),
    }
}

/// A usage object as it is, for clients of the same dialect.
pub(super) fn raw_usage(usage: Json<'_>, dialect: Dialect) -> Option<RawUsage> {
    let object = RawValue::from_string(usage.raw().to_owned()).ok()?;
    Some(RawUsage { dialect: dialect.name(), object })
}

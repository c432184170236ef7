//! Reads token counts from OpenAI's usage object, which other APIs have adopted.

use serde_json::value::RawValue;

use super::Dialect;
use crate::{
    event::{RawUsage, Usage},
    wire::json::Json,
};

/// The counts in a usage object, and the object itself for clients of Chat Completions. Some providers send
/// counts in other members, see docs/protocols/chat.md#upstream-deviations.
pub(super) fn usage_of(usage: Json<'_>) -> Usage {
    let first = |keys: &[&str]| keys.iter().find_map(|key| count(usage.get(key)?));
    let sum_of = |one: &str, other: &str| first(&[one])?.checked_add(first(&[other])?);
    let input = first(&["prompt_tokens", "input_tokens"])
        .or_else(|| sum_of("prompt_cache_hit_tokens", "prompt_cache_miss_tokens"));
    let output = first(&["completion_tokens", "output_tokens"]);
    let sum = || input?.checked_add(output?);
    let detail = |of: [&str; 2], keys: &[&str]| {
        let objects = || of.iter().filter_map(|details| usage.get(details));
        keys.iter().find_map(|key| objects().find_map(|details| count(details.get(key)?)))
    };
    let of_input = ["prompt_tokens_details", "input_tokens_details"];
    let of_output = ["completion_tokens_details", "output_tokens_details"];
    Usage {
        input,
        output,
        reasoning: detail(of_output, &["reasoning_tokens"]).or_else(|| first(&["reasoning_tokens"])),
        total: first(&["total_tokens"]).or_else(sum),
        cached: detail(of_input, &["cached_tokens"])
            .or_else(|| first(&["cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens"])),
        cache_written: detail(of_input, &["cache_write_tokens", "cache_creation_tokens"])
            .or_else(|| first(&["cache_write_tokens", "cache_creation_input_tokens"])),
        raw: raw_usage(usage, Dialect::Chat),
    }
}

/// The sum of two counts, of which each may be unknown.
pub(super) fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    }
}

/// More tokens than any response can have. A higher count is an upstream's mistake, and must not make sums
/// overflow.
const MAX_COUNT: u64 = 1 << 40;

/// A token count, which is a number (possibly like `10.0`) or a string that contains one.
pub(super) fn count(json: Json<'_>) -> Option<u64> {
    let count = json.as_u64().or_else(|| {
        let text = json.string_body().unwrap_or(json.raw()).trim();
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        whole.parse().ok().filter(|_| fraction.bytes().all(|digit| digit == b'0'))
    });
    count.filter(|count| *count <= MAX_COUNT)
}

/// The usage object itself, for clients of the same dialect.
pub(super) fn raw_usage(usage: Json<'_>, dialect: Dialect) -> Option<RawUsage> {
    let object = RawValue::from_string(usage.raw().to_owned()).ok()?;
    Some(RawUsage { dialect: dialect.name(), object })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_that_no_response_can_have_is_no_count() {
        let cases = [
            ("1099511627776", Some(1 << 40)),
            ("1099511627777", None),
            ("18446744073709551615", None),
            ("\"18446744073709551615\"", None),
            ("1e300", None),
            ("-5", None),
            ("\"70.00\"", Some(70)),
        ];
        for (text, expected) in cases {
            assert_eq!(count(Json::parse(text).unwrap()), expected, "{text}");
        }
    }
}

//! Sends one instance of each type in requests through every upstream dialect.

use super::{UPSTREAMS, check_all, embed::embedded, sent};
use crate::support::types::{
    claim::{Becomes, Entry},
    trace::{Seen, carries},
};
use serde_json::{Value, json};
use toolwire::dialect::Dialect;

#[test]
fn each_type_in_requests_becomes_what_its_table_says() {
    check_all(
        &[Dialect::Chat, Dialect::Responses, Dialect::Messages],
        |_| true,
        |own, kind, name, instance, entry| {
            let Some((with, without)) = embedded(own, kind, name, instance) else { return Vec::new() };
            let at = |upstream| {
                let fault = contradiction(own, upstream, instance, entry, &with, &without)?;
                Some(format!("towards {upstream} {fault}"))
            };
            UPSTREAMS.into_iter().filter_map(at).collect()
        },
    );
}

fn contradiction(
    own: Dialect,
    upstream: Dialect,
    instance: &Value,
    entry: &Entry,
    with: &Value,
    without: &Value,
) -> Option<String> {
    let claim = entry.towards(own, upstream);
    let with = sent(own, with, upstream);
    let is_carried = claim.is_none_or(|claim| claim.becomes == Becomes::Carried);
    if own == upstream && is_carried {
        let mut left_out = claim.map(|claim| claim.without.clone()).unwrap_or_default();
        // Upstreams of Responses do not store items, so they do not know their ids.
        left_out.extend((own == Dialect::Responses).then(|| "id".to_owned()));
        return match with {
            Ok(body) if carries(&body, instance, &left_out) => None,
            Ok(body) => Some(format!("is not carried: {body}")),
            Err(message) => Some(format!("is refused: {message}")),
        };
    }
    let Some(claim) = claim else { return Some("is not in the table".to_owned()) };
    let without = sent(own, without, upstream).expect("the request without the instance is accepted");
    Seen::of(instance, with, &without).contradicts(claim)
}

/// A request with all that other dialects have in common shows which members an upstream of Gemini gets.
#[test]
fn each_member_for_gemini_is_written_or_not_as_its_table_says() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let function = json!({"name": "f", "parameters": schema});
    let request = json!({
        "model": "m", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}],
        "tools": [{"type": "function", "function": function}], "tool_choice": "required",
        "temperature": 0.5, "top_p": 0.5, "top_k": 5, "max_tokens": 9, "stop": "x", "seed": 1, "logprobs": true,
        "top_logprobs": 2, "presence_penalty": 0.5, "frequency_penalty": 0.5, "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
    });
    let body = sent(Dialect::Chat, &request, Dialect::Gemini).unwrap();
    let is_written = |name: &str| {
        [&body, &body["generationConfig"], &body["tools"][0]].iter().any(|object| object.get(name).is_some())
    };
    let is_setting = |kind: &str| matches!(kind, "config member" | "tool member");
    check_all(&[Dialect::Gemini], is_setting, |_, _, name, _, entry| {
        let is_mapped = entry.0.iter().any(|claim| claim.becomes == Becomes::Mapped);
        Vec::from_iter((is_mapped != is_written(name)).then(|| format!("is not so in {body}")))
    });
}

//! The members of requests, by their names in Chat Completions, as a [`Conversation`] has them.

use serde_json::Value;

use crate::conversation::Conversation;

/// Members whose absence changes neither what is asked nor the form of the response. If a server refuses one of them by
/// name, the request is sent again without it.
pub(super) const DISPENSABLE: [&str; 10] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "seed",
    "reasoning_effort",
    "verbosity",
];

/// What a request gives for a member.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Given {
    Nothing,
    Number(f64),
    Other,
}

/// What the request gives for `member`.
pub(super) fn given(sent: &Conversation, member: &str) -> Given {
    let sampling = &sent.sampling;
    let number = |number: &serde_json::Number| number.as_f64().map_or(Given::Other, Given::Number);
    let is_given = match member {
        "temperature" => return sampling.temperature.as_ref().map_or(Given::Nothing, number),
        "top_p" => return sampling.top_p.as_ref().map_or(Given::Nothing, number),
        "seed" => return sampling.seed.as_ref().map_or(Given::Nothing, number),
        "stop" => !sampling.stop.is_empty(),
        "reasoning_effort" => sampling.reasoning_effort.is_some(),
        "response_format" => sampling.response_format.is_some(),
        "max_tokens" => sampling.max_tokens.is_some(),
        "parallel_tool_calls" => !sent.parallel_calls,
        _ => false,
    };
    match sent.rest.get(member) {
        _ if is_given => Given::Other,
        None | Some(Value::Null) => Given::Nothing,
        Some(Value::Number(given)) => number(given),
        Some(_) => Given::Other,
    }
}

/// Leaves `member` out of the request.
pub(super) fn remove(sent: &mut Conversation, member: &str) {
    let sampling = &mut sent.sampling;
    match member {
        "temperature" => sampling.temperature = None,
        "top_p" => sampling.top_p = None,
        "seed" => sampling.seed = None,
        "stop" => sampling.stop.clear(),
        "reasoning_effort" => sampling.reasoning_effort = None,
        "response_format" => sampling.response_format = None,
        "max_tokens" => {
            sampling.max_tokens = None;
            sent.rest.remove("max_completion_tokens");
        }
        "parallel_tool_calls" => sent.parallel_calls = true,
        _ => {}
    }
    sent.rest.remove(member);
}

/// The `type` of `thinking` in a request of Anthropic's API or of servers that have the same member.
pub(super) fn thinking_type(sent: &Conversation) -> Option<&str> {
    sent.rest.get("thinking")?.get("type")?.as_str()
}

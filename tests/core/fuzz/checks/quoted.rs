//! Checks which calls are quotations: splits do not change that, and a call that a sentence repeats from a tool's
//! result is not carried out.

use serde_json::json;
use toolwire::{
    conversation::Conversation,
    dialect::chat,
    event::Finish,
    format::{self, Format},
    rules::{ArgumentDelivery, Detect, QuotedCalls, Rules},
};

use super::{engine::is_left_of, found::find_in, input::Input};

/// The text after an echo, on the same line.
const BEHIND: &str = ", and nothing else.";

/// The first four bytes are choices. A tool's result follows, and behind a zero the response. Without a zero, the
/// response is a sentence that repeats the result.
pub(crate) fn quoted(data: &[u8]) {
    let mut input = Input::new(data);
    let Some(format) = input.of(format::ALL, |format: &Format| format.name) else { return };
    let (flags, seed) = (input.byte(), input.byte());
    let on = |bit: u8| flags >> bit & 1 == 1;
    let text = input.text();
    let (result, said) = match text.split_once('\0') {
        Some((result, said)) => (result, said.to_owned()),
        None => (&*text, format!("The page says {text}{BEHIND}")),
    };
    let is_echo = !text.contains('\0');
    let conversation = conversation(result);
    let rules = Rules {
        detect: if on(0) { Detect::Formats(vec![format.name]) } else { Detect::Auto },
        quoted_calls: [QuotedCalls::Text, QuotedCalls::Strict][usize::from(on(1))],
        arguments: if on(2) { ArgumentDelivery::Whole } else { ArgumentDelivery::Stream },
        repair: !on(3),
        ..Rules::default()
    };
    let finish = if on(4) { Finish::Length } else { Finish::Stop };
    let found = find_in(&conversation, &rules, &said, seed, finish, usize::MAX);
    assert!(is_left_of(&found.text, &said), "invented: {:?} of {said:?}", found.text);
    if is_echo {
        let quoted = |arguments: &str| !arguments.contains(BEHIND.trim_matches([',', ' ', '.']));
        let carried = found.calls.iter().find(|call| call.is_complete() && quoted(&call.arguments));
        assert_eq!(carried, None, "{said:?}");
    }
}

fn conversation(result: &str) -> Conversation {
    let tool = |name: &str| {
        json!({"type": "function", "function": {"name": name, "parameters": {"type": "object",
            "properties": {"x": {"type": "string"}, "n": {"type": "integer"}, "l": {"type": "array"}}}}})
    };
    let tools = ["f", "get_weather", "set"].map(tool);
    let request = json!({
        "model": "m",
        "tools": tools,
        "messages": [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": null, "tool_calls":
                [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": result},
        ],
    });
    chat::request::decode(request.to_string().as_bytes()).expect("a request")
}

//! Checks that arguments in Python notation become JSON, and that JSON without escapes keeps its values.

use serde_json::Value;
use toolwire::{
    event::{CallEnd, Finish},
    format,
    rules::{ArgumentDelivery, Detect, Rules},
};

use super::{found::find, input::Input};

/// The first two bytes are choices; a value follows.
pub(crate) fn literal(data: &[u8]) {
    let mut input = Input::new(data);
    let flags = input.byte();
    let seed = input.byte();
    let on = |bit: u8| flags >> bit & 1 == 1;
    let written = input.text();
    let (format, open, close): (_, _, _) = match flags >> 4 & 3 {
        0 => (&format::PYTHONIC, "[a(x=", ")]"),
        1 => (&format::LFM2, "<|tool_call_start|>[a(x=", ")]<|tool_call_end|>"),
        2 => (&format::FUNCTION_GEMMA, "<start_function_call>call:a{x:", "}<end_function_call>"),
        _ => (&format::GEMMA4, "<|tool_call>call:a{x:", "}<tool_call|>"),
    };
    let settings = Rules {
        detect: Detect::Formats(vec![format.name]),
        arguments: if on(0) { ArgumentDelivery::Whole } else { ArgumentDelivery::Stream },
        ..Rules::default()
    };
    let finish = if on(2) { Finish::Length } else { Finish::Stop };
    let close = if on(3) { "" } else { close };
    let text = format!("{open}{written}{close}");
    let found = find(&settings, &text, seed, finish, usize::MAX);
    let python = flags >> 4 & 2 == 0;
    let Ok(value) = serde_json::from_str::<Value>(&written) else { return };
    if !python || close.is_empty() || written.contains('\\') {
        return;
    }
    let [call] = found.calls.as_slice() else { panic!("one call in {text:?}: {found:?}") };
    assert_eq!(call.end, Some(CallEnd::Complete), "{text:?}: {call:?}");
    let arguments: Value = serde_json::from_str(&call.arguments).expect("JSON");
    assert_eq!(arguments["x"], value, "{text:?}: {call:?}");
}

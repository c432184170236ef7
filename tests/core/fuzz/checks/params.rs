//! Checks that arguments between tags become JSON of the types in the schema, and that plain strings are unchanged.

use serde_json::{Value, json};
use toolwire::{
    event::{CallEnd, Finish},
    format::{self, Format},
    rules::{ArgumentDelivery, Detect, Rules},
};

use super::{found::find, input::Input};

/// A format, and the markup around a parameter of `set`: before the key, after the key, and after the value.
type Tags = (&'static Format, &'static str, &'static str, &'static str);

static TAGS: [Tags; 5] = [
    (
        &format::QWEN3_CODER,
        "<tool_call>\n<function=set>\n<parameter=",
        ">\n",
        "\n</parameter>\n</function>\n</tool_call>",
    ),
    (&format::GLM45, "<tool_call>set\n<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n</tool_call>"),
    (
        &format::MINIMAX_M2,
        "<minimax:tool_call>\n<invoke name=\"set\">\n<parameter name=\"",
        "\">",
        "</parameter>\n</invoke>\n</minimax:tool_call>",
    ),
    (
        &format::ANTHROPIC_LEGACY,
        "<function_calls>\n<invoke name=\"set\">\n<parameter name=\"",
        "\">",
        "</parameter>\n</invoke>\n</function_calls>",
    ),
    (&format::MINICPM5, "<function name=\"set\"><param name=\"", "\">", "</param></function>"),
];

/// The first three bytes are choices; a value follows.
pub(crate) fn params(data: &[u8]) {
    let mut input = Input::new(data);
    let flags = input.byte();
    let on = |bit: u8| flags >> bit & 1 == 1;
    let (format, open, middle, close) = TAGS[usize::from(input.byte()) % TAGS.len()];
    let seed = input.byte();
    let key = ["s", "n", "i", "f", "l", "o", "t", "u"][usize::from(flags >> 4 & 7)];
    let written = input.text();
    let settings = Rules {
        detect: Detect::Formats(vec![format.name]),
        arguments: if on(0) { ArgumentDelivery::Whole } else { ArgumentDelivery::Stream },
        repair: !on(1),
        ..Rules::default()
    };
    let finish = if on(2) { Finish::Length } else { Finish::Stop };
    let close = if on(3) { "" } else { close };
    let text = format!("{open}{key}{middle}{written}{close}");
    let found = find(&settings, &text, seed, finish, usize::MAX);
    if close.is_empty() || key != "s" || written.contains(['<', '&']) {
        return;
    }
    let [call] = found.calls.as_slice() else { panic!("one call in {text:?}: {found:?}") };
    assert_eq!((call.name.as_str(), call.end), ("set", Some(CallEnd::Complete)), "{text:?}: {call:?}");
    let arguments: Value = serde_json::from_str(&call.arguments).expect("JSON");
    assert_eq!(arguments, json!({"s": written}), "{text:?}: {call:?}");
}

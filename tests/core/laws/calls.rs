//! Tests law 3 for calls: code that shares nothing with the engine writes them, and they must be found unchanged.
//! Also tests law 5 for text that resembles calls.

use proptest::{prelude::*, sample::Index};
use toolwire::{
    event::{CallEnd, Finish},
    rules::{ArgumentDelivery, Rules},
};

use crate::laws::{
    detector::find,
    soup::{cut_text, cuts},
    tries,
};
use crate::support::cuts::by_characters;

#[derive(Debug, Clone)]
struct Call {
    name: &'static str,
    arguments: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Pre,
    PreCode,
    Ticks,
    Tildes,
    Bare,
    ToolCall,
    FunctionCall,
}

const FORMS: [Form; 7] =
    [Form::Pre, Form::PreCode, Form::Ticks, Form::Tildes, Form::Bare, Form::ToolCall, Form::FunctionCall];

#[derive(Debug, Clone, Copy)]
enum Layout {
    NameFirst,
    ArgumentsFirst,
    Aliases,
    Typed,
    Function,
    Packed,
    Spread,
}

const LAYOUTS: [Layout; 7] = [
    Layout::NameFirst,
    Layout::ArgumentsFirst,
    Layout::Aliases,
    Layout::Typed,
    Layout::Function,
    Layout::Packed,
    Layout::Spread,
];

fn json_of(Call { name, arguments }: &Call, layout: Layout) -> String {
    match layout {
        Layout::NameFirst => format!(r#"{{"name":"{name}","arguments":{arguments}}}"#),
        Layout::ArgumentsFirst => format!(r#"{{"arguments":{arguments},"name":"{name}"}}"#),
        Layout::Aliases => format!(r#"{{"tool_name":"{name}","parameters":{arguments}}}"#),
        Layout::Typed => {
            format!(r#"{{"type":"function_call","id":"i","name":"{name}","arguments":{arguments}}}"#)
        }
        Layout::Function => {
            format!(r#"{{"type":"function","function":{{"name":"{name}","arguments":{arguments}}}}}"#)
        }
        Layout::Packed => {
            format!(r#"{{"name":"{name}","arguments":{}}}"#, serde_json::Value::from(arguments.as_str()))
        }
        Layout::Spread => format!("{{\n  \"name\" : \"{name}\",\r\n\t\"arguments\" : {arguments}\n}}"),
    }
}

/// Writes the calls, either all in one container or each in its own.
fn written(calls: &[(Call, Layout)], form: Form, array: bool) -> String {
    let objects: Vec<String> = calls.iter().map(|(call, layout)| json_of(call, *layout)).collect();
    let body = if array { format!("[{}]", objects.join(", ")) } else { objects.join("\n") };
    match form {
        Form::Pre => format!("<pre>{body}</pre>"),
        Form::PreCode => format!("<pre class=\"x\">\n<code>{body}</code>\n</pre>"),
        Form::Ticks => format!("```json\n{body}\n```\n"),
        Form::Tildes => format!("~~~~\n{body}\n~~~~\n"),
        Form::Bare => body,
        Form::ToolCall => format!("<tool_call>\n{body}\n</tool_call>"),
        Form::FunctionCall => format!("<function_call>{body}</function_call>"),
    }
}

/// Text that has no special meaning inside a string.
const INSIDE: &[&str] = &[
    "</pre>",
    "<pre>",
    "```",
    "\\n```\\n",
    "~~~~",
    "</tool_call>",
    "<tool_call>",
    "{",
    "}",
    "[",
    "]",
    "\\\"",
    "\\\\",
    "`",
    "'",
    "<think>",
    "</code>",
    "\\u00e9",
    "\\ud83d\\ude00",
    "\\/",
    "é",
    "😀",
    "// x",
    "/* x */",
    ",}",
    "{\\\"name\\\":\\\"b\\\"}",
    " ",
    "\\n",
    "x",
    "&quot;",
    "name",
    "[TOOL_CALLS]",
];

fn string() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(INSIDE), 0..8)
        .prop_map(|parts| format!("\"{}\"", parts.concat()))
}

/// Generates JSON with numbers spelled in any way and white space in any place.
fn value() -> impl Strategy<Value = String> {
    let number = prop::sample::select(
        &["0", "-0", "2.50", "12345678901234567890", "1e3", "-1.5E-7", "0.1e+2"] as &[_],
    );
    let word = prop::sample::select(&["true", "false", "null", "{}", "[]", "[ ]", "{ \n }"] as &[_]);
    let leaf =
        prop_oneof![3 => string(), 1 => number.prop_map(str::to_owned), 1 => word.prop_map(str::to_owned)];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let blank = || prop::sample::select(&["", "", " ", "\n\t"] as &[_]);
        let list = (prop::collection::vec(inner.clone(), 1..4), blank())
            .prop_map(|(items, blank)| format!("[{blank}{}{blank}]", items.join(&format!("{blank},"))));
        prop_oneof![list, object(inner)]
    })
}

fn object(inner: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let blank = prop::sample::select(&["", "", " ", "\n  "] as &[_]);
    // One key occurs twice, and some are keys that the call itself uses.
    let key = prop::sample::select(&["x", "y", "name", "arguments", "a b", "type", "é", "\\\"", "x"] as &[_]);
    (prop::collection::vec((key, inner), 0..4), blank).prop_map(|(members, blank)| {
        let members: Vec<String> =
            members.into_iter().map(|(key, value)| format!("{blank}\"{key}\"{blank}:{value}")).collect();
        format!("{{{}{blank}}}", members.join(","))
    })
}

fn call() -> impl Strategy<Value = Call> {
    let name = prop::sample::select(&["a", "b", "get_weather"] as &[_]);
    (name, object(value())).prop_map(|(name, arguments)| Call { name, arguments })
}

/// Text around calls: prose, incomplete markers, and code that is not a call.
const BESIDE: &[&str] = &[
    "",
    "Let me see.",
    "a < b & <tool_ or <pr",
    "set {a, b}, {} and [1, 2].",
    "Like `<tool_call>{\"name\":\"a\",\"arguments\":{}}</tool_call>` here.",
    "```python\nprint({\"name\": \"a\", \"arguments\": {}})\n```",
    "~~~\nnothing\n~~~",
    "{\"name\":\"Alice\",\"arguments\":{}}",
    "{\"data\":{\"name\":\"a\",\"arguments\":{}}}",
    "{\"name\":\"a\",\"parameters\":{\"type\":\"object\",\"properties\":{\"x\":{}}}}",
    "日本 😀",
    "<<<",
];

/// A message that alternates between text and groups of calls, with each group on a line of its own.
#[derive(Debug, Clone)]
struct Message {
    text: String,
    calls: Vec<Call>,
    /// The text of the message, without the calls.
    rest: String,
}

fn message(call: impl Strategy<Value = Call>) -> impl Strategy<Value = Message> {
    let group = (
        prop::collection::vec((call, prop::sample::select(&LAYOUTS as &[_])), 1..3),
        prop::sample::select(&FORMS as &[_]),
        any::<bool>(),
    );
    let turn = (prop::sample::select(BESIDE), group);
    (prop::collection::vec(turn, 1..4), prop::sample::select(BESIDE)).prop_map(|(turns, last)| {
        let (mut text, mut calls, mut rest) = (String::new(), Vec::new(), String::new());
        for (before, (group, form, array)) in turns {
            text.push_str(&format!("{before}\n{}\n", written(&group, form, array)));
            rest.push_str(before);
            calls.extend(group.into_iter().map(|(call, _)| call));
        }
        text.push_str(last);
        rest.push_str(last);
        Message { text, calls, rest }
    })
}

fn without_blanks(text: &str) -> String {
    text.split_whitespace().collect()
}

proptest! {
    #![proptest_config(tries(400))]

    /// Every call is found, in both modes and with any split. Its arguments are unchanged, and so is all other text
    /// except for white space.
    #[test]
    fn written_calls_are_found(
        message in message(call()),
        cuts in cuts(),
        whole: bool,
        repair: bool,
    ) {
        let arguments = if whole { ArgumentDelivery::Whole } else { ArgumentDelivery::Stream };
        let settings = Rules { arguments, repair, ..Rules::default() };
        let pieces = cut_text(&message.text, &cuts);
        for pieces in [pieces, by_characters(&message.text, 1)] {
            let found = find(&settings, &pieces, Finish::Stop);
            let got: Vec<_> = found.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
            let wanted: Vec<_> = message.calls.iter().map(|call| (call.name, call.arguments.as_str())).collect();
            prop_assert_eq!(got, wanted);
            prop_assert!(found.calls.iter().all(|call| call.end == Some(CallEnd::Complete)));
            prop_assert_eq!(without_blanks(&found.text), without_blanks(&message.rest));
            prop_assert_eq!(&found.reasoning, "");
        }
    }

    #[test]
    fn undeclared_name_without_a_marker_is_text(
        arguments in object(value()),
        layout in prop::sample::select(&LAYOUTS as &[_]),
        form in prop::sample::select(&[Form::Pre, Form::PreCode, Form::Ticks, Form::Tildes, Form::Bare] as &[_]),
        array: bool,
        cuts in cuts(),
        whole: bool,
    ) {
        let call = Call { name: "c", arguments };
        let text = format!("Look:\n{}\nSo.", written(&[(call, layout)], form, array));
        let arguments = if whole { ArgumentDelivery::Whole } else { ArgumentDelivery::Stream };
        let settings = Rules { arguments, ..Rules::default() };
        let found = find(&settings, &cut_text(&text, &cuts), Finish::Stop);
        prop_assert_eq!((found.text.as_str(), found.calls.len()), (text.as_str(), 0));
    }

    /// A truncated call is never completed: the client gets a prefix of the arguments, or no call.
    #[test]
    fn truncated_call_keeps_what_was_sent(call in call(), form in prop::sample::select(&FORMS as &[_]), at in any::<Index>()) {
        let text = written(&[(call.clone(), Layout::NameFirst)], form, false);
        let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let cut = &text[..ends[at.index(ends.len())]];
        for arguments in [ArgumentDelivery::Stream, ArgumentDelivery::Whole] {
            let settings = Rules { arguments, ..Rules::default() };
            let found = find(&settings, &[cut], Finish::Length);
            prop_assert!(found.calls.len() < 2);
            let Some(got) = found.calls.first() else {
                // What a marker opened is left out.
                let rest = cut.strip_prefix(&found.text);
                prop_assert!(rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('<')), "{:?}", found.text);
                continue;
            };
            prop_assert!(call.arguments.starts_with(&got.arguments), "{:?}", got);
            prop_assert_eq!(got.end == Some(CallEnd::Complete), got.arguments == call.arguments);
            prop_assert!(arguments == ArgumentDelivery::Stream || got.end == Some(CallEnd::Complete));
        }
    }
}

/// The rest of a call belongs to its arguments, wherever pieces end.
#[test]
fn rest_of_a_broken_call_is_not_text() {
    let settings = Rules { repair: false, ..Rules::default() };
    let pieces = [
        "`<|python_tag|>{\"name\": \"get_weather\", \"parameters\": {\"city\": \"plain ",
        "text ",
        "\r\n\"",
        "}}",
    ];
    let found = find(&settings, &pieces, Finish::Stop);
    assert_eq!(found.text, "`<|python_tag|>");
    assert_eq!(found.calls.len(), 1, "{found:?}");
    assert_eq!(found.calls[0].arguments, "{\"city\": \"plain text \r\n\"}");
    assert_eq!(found.calls[0].end, Some(CallEnd::Broken));
}

//! Tests law 4: held bytes stay within the configured limits. When a limit is reached, the response fails with a
//! clear error or continues as plain text, and splits do not change the outcome.

use proptest::prelude::*;
use serde_json::json;
use toolwire::{
    event::{CallEnd, Finish},
    rules::{ArgumentDelivery, Limits, Rules},
};

use crate::laws::{
    detector::{find, find_in_any_split, known, settings},
    soup::{cuts, soup},
    tries,
};
use crate::support::{
    client::Answer,
    cuts::by_characters,
    exchange::{Exchange, request, tools},
    upstream::Speech,
};

/// How many bytes may be held beyond the limits: the longest marker, tag, header, number or name, all of which have
/// a small fixed length.
const FIXED: usize = 1100;

/// Fragments that a detector might hold back when they repeat.
const RUNS: &[&str] = &[
    " ",
    "\n",
    "`",
    "~",
    "<",
    "{",
    "[",
    "\"",
    "x",
    "1",
    "\\",
    "<pre ",
    "<pre a=b ",
    "```json ",
    "{\"arguments\":{\"x\":",
    "{\"arguments\":\"",
    "<tool_call>",
    "<tool_call>{\"name\":\"",
    "{\"id\":\"",
    "{\"name\":\"a\",\"arguments\":{\"x\":1,",
    "<tool_call>{\"name\":\"a\",\"arguments\":{\"x\":1,",
    "<tool_call>{\"name\":\"a\",\"arguments\":[1,",
    "<think>",
    "\t",
    "<tool_call>{\"name\":\"a\",\"arguments\":\"",
    "{\"name\":\"a\",\"arguments\":{\"x\":1}}",
    "\r\n",
    "</think>",
    "\u{a0}",
    "<tool_call>{\"name\":\"a\",\"arguments\":{\"x\":",
    "/*",
    ",",
];

/// Generates a soup with long runs of one fragment.
fn long_soup() -> impl Strategy<Value = String> {
    let run = (prop::sample::select(RUNS), 1..900_usize).prop_map(|(text, times)| {
        if text.len() == 1 { text.repeat(times) } else { text.repeat(times % 3 + 1) }
    });
    let part = prop_oneof![2 => run, 1 => soup(4)];
    prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
}

fn small() -> impl Strategy<Value = Limits> {
    let sizes = |sizes: &'static [usize]| prop::sample::select(sizes);
    (sizes(&[0, 16, 100, 500]), sizes(&[16, 300]), sizes(&[2, 5])).prop_map(
        |(max_hold, max_arguments, max_depth)| Limits {
            max_hold,
            max_arguments,
            max_depth,
            ..Limits::default()
        },
    )
}

proptest! {
    #![proptest_config(tries(200))]

    #[test]
    fn held_bytes_are_bounded(text in long_soup(), limits in small(), mut settings in settings(known())) {
        settings.limits = limits;
        let found = find(&settings, &by_characters(&text, 1), Finish::Stop);
        let waits = if settings.arguments == ArgumentDelivery::Whole { 2 * limits.max_arguments } else { 0 };
        // After a backtick, the calls of a container are held until the container is complete, in both modes.
        let waits = if text.contains('`') { 2 * limits.max_arguments } else { waits };
        let most = 2 * limits.max_hold + waits + FIXED;
        for (_, _, held) in &found.trace {
            prop_assert!(*held <= most, "{} held of at most {}", held, most);
        }
    }

    /// Law 1 also holds when limits are reached.
    #[test]
    fn limits_are_reached_at_the_same_byte_in_any_split(
        text in long_soup(),
        cuts in cuts(),
        limits in small(),
        mut settings in settings(known()),
    ) {
        settings.limits = limits;
        find_in_any_split(&settings, &text, &cuts, Finish::Stop)?;
    }
}

fn exchange(limits: Limits, arguments: ArgumentDelivery, speech: Speech) -> Exchange {
    let tools = tools(["a", "b"], &serde_json::Value::Null);
    let settings = Rules { limits, arguments, ..Rules::default() };
    Exchange::new(request(&json!({"tools": tools})), settings, speech)
}

fn code(answer: &Answer) -> Option<&str> {
    answer.error.as_ref().map(|error| error["code"].as_str().expect("a code"))
}

#[test]
fn max_calls_is_exact() {
    let call = r#"{"name":"a","arguments":{}}"#;
    let limits = Limits { max_calls: 3, ..Limits::default() };
    for arguments in [ArgumentDelivery::Stream, ArgumentDelivery::Whole] {
        for speech in Speech::ALL {
            let exchange = exchange(limits, arguments, speech);
            let (answer, _) = exchange.in_pieces("three", &speech.says(&[&call.repeat(3)], "stop"));
            assert_eq!((code(&answer), answer.calls.len()), (None, 3));
            let (answer, _) = exchange.in_pieces("four", &speech.says(&[&call.repeat(4)], "stop"));
            assert_eq!((code(&answer), answer.calls.len()), (Some("limit_exceeded"), 3));
            assert_eq!((answer.finish, answer.done), (None, true));
        }
        let native = |n: u64| {
            json!(["d", {"tool_calls": [{"index": n, "id": format!("c{n}"), "type": "function",
                                           "function": {"name": "a", "arguments": "{}"}}]}])
        };
        let ends = [json!(["fin", "tool_calls"]), json!(["done"])];
        let events: Vec<_> = (0..4).map(native).chain(ends).collect();
        let exchange = exchange(limits, arguments, Speech::Chat);
        let (answer, _) = exchange.in_pieces("native", &Speech::Chat.stream(&events));
        assert_eq!(code(&answer), Some("limit_exceeded"));
    }
}

#[test]
fn max_arguments_is_exact() {
    let limits = Limits { max_arguments: 50, ..Limits::default() };
    let arguments_of = |len: usize| format!(r#"{{"x":"{}"}}"#, "é".repeat((len - 8) / 2));
    for speech in Speech::ALL {
        for (form, len, fits) in
            [("{}", 50, true), ("{}", 52, false), ("<tool_call>{}</tool_call>", 52, false)]
        {
            let call = format!(r#"{{"name":"a","arguments":{}}}"#, arguments_of(len));
            let text = form.replace("{}", &call);
            let stream = speech.says(&[&text], "stop");
            let (answer, _) =
                exchange(limits, ArgumentDelivery::Stream, speech).at_every_cut("streamed", &stream);
            assert_eq!(code(&answer), (!fits).then_some("limit_exceeded"), "{text}");
            let sent = &answer.calls[0].arguments;
            assert!(arguments_of(len).starts_with(sent) && sent.len() <= 50, "{sent}");
            let (answer, _) = exchange(limits, ArgumentDelivery::Whole, speech).in_pieces("whole", &stream);
            assert_eq!(code(&answer), (!fits).then_some("limit_exceeded"), "{text}");
            assert_eq!(answer.calls.len(), usize::from(fits), "not sent if it is too long");
        }
    }
    let native = |arguments: &str| {
        json!(["d", {"tool_calls": [{"index": 0, "id": "c", "type": "function",
                                     "function": {"name": "a", "arguments": arguments}}]}])
    };
    let ends = [json!(["fin", "tool_calls"]), json!(["done"])];
    let pieces: Vec<_> =
        [native("{\"x\":\""), native(&"y".repeat(60)), native("\"}")].into_iter().chain(ends).collect();
    for arguments in [ArgumentDelivery::Stream, ArgumentDelivery::Whole] {
        let (answer, _) =
            exchange(limits, arguments, Speech::Chat).in_pieces("native", &Speech::Chat.stream(&pieces));
        assert_eq!(code(&answer), Some("limit_exceeded"));
    }
}

/// A native call is held while a call in the text, which is not complete, may be the same.
#[test]
fn nothing_follows_arguments_that_are_too_long() {
    let limits = Limits { max_arguments: 60, ..Limits::default() };
    let exchange = exchange(limits, ArgumentDelivery::Stream, Speech::OllamaChat);
    let native = json!(["d", {"role": "assistant", "content": "",
        "tool_calls": [{"function": {"name": "a", "arguments": {}}}]}]);
    let begin = "<tool_call>{\"name\": \"a\", \"arguments\": {\"x\": \"";
    let text = |text: &str| json!(["m", text]);
    let events = [text(begin), native, text(&"b".repeat(61)), json!(["fin", "stop"]), json!(["done"])];
    let (answer, _) = exchange.in_pieces(begin, &Speech::OllamaChat.stream(&events));
    assert_eq!((code(&answer), answer.calls.len()), (Some("limit_exceeded"), 1), "{answer:?}");
}

#[test]
fn endless_frame_is_an_error() {
    let limits = Limits { max_frame: 1000, ..Limits::default() };
    for speech in Speech::ALL {
        let exchange = exchange(limits, ArgumentDelivery::Stream, speech);
        let stream = speech.says(&["Hi", &"x".repeat(2000)], "stop");
        let (answer, _) = exchange.in_pieces("endless", &stream);
        assert_eq!((code(&answer), answer.text.as_str()), (Some("upstream_protocol"), "Hi"));
    }
}

#[test]
fn deep_nesting_is_safe() {
    for open in
        ["[", "{\"a\":", "{\"name\":\"a\",\"arguments\":", "<tool_call>[", "```json\n[", "{\"function\":"]
    {
        for repair in [false, true] {
            for arguments in [ArgumentDelivery::Stream, ArgumentDelivery::Whole] {
                let settings = Rules { repair, arguments, ..Rules::default() };
                let text = open.repeat(3000);
                let found = find(&settings, &by_characters(&text, 64), Finish::Stop);
                assert!(found.text == text || !found.calls.is_empty(), "{open}");
            }
        }
    }
    let deep = format!(r#"{{"name":"a","arguments":{{"x":{}{}}}}} ok"#, "[".repeat(300), "]".repeat(300));
    let whole = Rules { arguments: ArgumentDelivery::Whole, ..Rules::default() };
    let found = find(&whole, &[&deep], Finish::Stop);
    assert_eq!((found.text.as_str(), found.calls.len()), (deep.as_str(), 0));
    let found = find(&Rules::default(), &[&deep], Finish::Stop);
    assert_eq!(found.calls[0].end, Some(CallEnd::Broken));
}

/// Conformance case L05, except for its timing: an unclosed fence must not hold back more and more text.
#[test]
fn unclosed_fence_holds_nothing() {
    for open in ["```python\n", "```json\n{\"k\":1}\n", "```json\nwords\n"] {
        let mut pieces = vec![open];
        pieces.extend(std::iter::repeat_n("token ", 20_000));
        let found = find(&Rules::default(), &pieces, Finish::Stop);
        assert_eq!(found.text, pieces.concat());
        assert!(found.trace.iter().all(|(_, _, held)| *held < 32));
    }
}

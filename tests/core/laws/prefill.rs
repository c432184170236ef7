//! Tests responses that continue a prefill, which is text in the request. The client gets calls that begin in the
//! prefill, but none of the prefill as text.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwire::{
    conversation::{Call, Constraint, Prefill, ToolChoice},
    enforce::{Means, constrain},
    format::{ALL, Format},
    rules::{ArgumentDelivery, Detect, Enforce, Limits, Rules, UnknownCalls},
};

use super::{
    soup::{cut_text, cuts, prose, soup},
    tries,
};
use crate::support::{
    client::Answer,
    exchange::{Cuts, Exchange, request, tools},
    upstream::Speech,
};

const HERMES: &str = "<tool_call>\n{\"name\":";

fn exchange(settings: Rules) -> Exchange {
    let schema = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
    Exchange::new(request(&json!({"tools": tools(["a", "b"], &schema)})), settings, Speech::Chat)
}

fn prefilled(text: &str, is_repeated: bool, settings: Rules) -> Exchange {
    let prefill = Some(Prefill { text: text.to_owned(), is_repeated });
    Exchange { prefill, ..exchange(settings) }
}

/// The parts of an answer to compare: everything except IDs and counts.
fn kept(answer: &Answer) -> (String, String, Vec<(String, String)>, Option<String>) {
    let calls = answer.calls.iter().map(|call| (call.name.clone(), call.arguments.clone()));
    (answer.text.clone(), answer.reasoning.clone(), calls.collect(), answer.finish.clone())
}

fn got(exchange: &Exchange, pieces: &[&str], finish: &str) -> Answer {
    exchange.run([Speech::Chat.says(pieces, finish).as_slice()]).0
}

fn rules() -> impl Strategy<Value = Rules> {
    let detect = prop_oneof![
        2 => Just(Detect::Auto),
        1 => prop::sample::select(ALL).prop_map(|format| Detect::AutoAnd(vec![format.name])),
        1 => prop::sample::select(ALL).prop_map(|format| Detect::Formats(vec![format.name])),
    ];
    let arguments = prop_oneof![3 => Just(ArgumentDelivery::Stream), 1 => Just(ArgumentDelivery::Whole)];
    let unknown = prop_oneof![3 => Just(UnknownCalls::Forward), 1 => Just(UnknownCalls::Text)];
    (detect, arguments, unknown, prop::bool::weighted(0.2), 16..200_usize).prop_map(
        |(detect, arguments, unknown_calls, starts_in_reasoning, max_hold)| Rules {
            detect,
            arguments,
            unknown_calls,
            starts_in_reasoning,
            limits: Limits { max_hold, ..Limits::default() },
            ..Rules::default()
        },
    )
}

/// Returns each format that has a prefill for these tools, with the prefill.
fn prefills(names: &[&str]) -> Vec<(&'static Format, String)> {
    let mut conversation = request(&json!({"tools": tools(names.iter().copied(), &Value::Null)}));
    conversation.tool_choice = ToolChoice::Required;
    let means = Means { prefill: true, ..Means::default() };
    let found = ALL.iter().filter_map(|format| {
        let enforced = constrain(&conversation, format, "", Enforce::Prefill, &means)?;
        let Constraint::Prefill(text) = enforced.constraint else { panic!("{:?}", enforced.constraint) };
        Some((enforced.format, text))
    });
    found.collect()
}

proptest! {
    #![proptest_config(tries(150))]

    /// The response is read either as a continuation of the prefill or without it, but never as a mixture.
    #[test]
    fn response_is_read_with_the_prefill_or_without(
        text in prop_oneof![3 => soup(12), 1 => prose()],
        prefill in prop_oneof![3 => prop::sample::select(prefills(&["a", "b"])).prop_map(|(_, text)| text), 1 => soup(3)],
        settings in rules(),
        cuts in cuts(),
        repeats in prop::option::weighted(0.3, any::<bool>()),
        finish in prop::sample::select(&["stop", "length"] as &[_]),
    ) {
        prop_assume!(!prefill.trim().is_empty());
        let own = if repeats.is_some() { format!("{prefill}{text}") } else { text.clone() };
        let prefilled = prefilled(&prefill, repeats == Some(true), settings.clone());
        let whole = kept(&got(&prefilled, &[&own], finish));
        prop_assert_eq!(&kept(&got(&prefilled, &cut_text(&own, &cuts), finish)), &whole);

        let without_reasoning = exchange(Rules { starts_in_reasoning: false, ..settings.clone() });
        let more = own.strip_prefix(prefill.as_str()).unwrap_or(&own);
        let both = kept(&got(&without_reasoning, &[&format!("{prefill}{more}")], finish));
        let alone = if repeats == Some(true) { more } else { own.as_str() };
        let alone = kept(&got(&exchange(settings), &[alone], finish));
        prop_assert!(whole == both || whole == alone, "{:?}\nboth: {:?}\nalone: {:?}", whole, both, alone);
        if both.2.is_empty() {
            prop_assert_eq!(whole, alone, "the prefill did not become a call");
        }
    }
}

#[test]
fn prefilled_call_is_found_in_every_format() {
    for names in [&["a"][..], &["a", "b"], &["get_weather", "get_news"]] {
        let found = prefills(names);
        assert!(found.len() > 20, "{}", found.len());
        for (format, prefill) in found {
            let name = names[0];
            let call =
                format.teach.expect("a taught format").form.calls(&[Call::new("1", name, r#"{"x": 1}"#)]);
            let rest = call.strip_prefix(&prefill).expect("calls begin with the prefill");
            let mut exchange = prefilled(
                &prefill,
                false,
                Rules { detect: Detect::AutoAnd(vec![format.name]), ..Rules::default() },
            );
            exchange.conversation = request(&json!({"tools": tools(names.iter().copied(), &Value::Null)}));
            let (answer, tally) = exchange.text(format.name, rest, "stop", Cuts::Text);
            assert_eq!(answer.text, "", "{}: {call}", format.name);
            assert_eq!(answer.named_calls(), [(name, r#"{"x": 1}"#)], "{}: {call}", format.name);
            assert_eq!((answer.finish.as_deref(), tally.held), (Some("tool_calls"), 0));
            // If the model adds nothing, nothing is invented.
            let empty = exchange.text(format.name, "", "stop", Cuts::Text).0;
            assert_eq!(kept(&empty), (String::new(), String::new(), Vec::new(), Some("stop".to_owned())));
        }
    }
}

#[test]
fn text_that_is_no_call_arrives_without_the_prefill() {
    let call = r#"<tool_call>{"name":"a","arguments":{"x":1}}</tool_call>"#;
    for (text, expected, calls) in [
        ("I cannot.", "I cannot.", 0),
        (" I cannot.\n", " I cannot.\n", 0),
        (r#" "a" and so on"#, r#" "a" and so on"#, 0),
        (r#" "a", "arguments": nothing"#, r#" "a", "arguments": nothing"#, 0),
        // The response ignores the prefill or repeats it.
        ("<tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\":1}}\n</tool_call>", "", 1),
        ("<tool_call>\n{\"name\":\"a\", \"arguments\": {\"x\":1}}\n</tool_call>", "", 1),
        ("<tool_call>\n{\"name\": x", "<tool_call>\n{\"name\": x", 0),
        ("<tool_call>\n{\"name\"", "<tool_call>\n{\"name\"", 0),
        // The response continues the prefilled call, and the text after the call contains the same marker.
        (
            " \"a\", \"arguments\": {\"x\":1}}</tool_call> and <tool_call>\n{\"name\": x",
            "and <tool_call>\n{\"name\": x",
            1,
        ),
        (call, "", 1),
        (&format!("Well. {call}"), "Well.", 1),
    ] {
        let exchange = prefilled(HERMES, false, Rules::default());
        let answer = exchange.text(text, text, "stop", Cuts::Bytes).0;
        assert_eq!(
            (answer.text.trim_start(), answer.calls.len()),
            (expected.trim_start(), calls),
            "{text:?}"
        );
    }
    // The prefill includes the name of the call, but no arguments.
    let begun = "<tool_call>\n{\"name\":\"a\",\"arguments\":";
    let exchange = prefilled(begun, false, Rules::default());
    for text in [
        "I cannot.",
        "In Paris",
        "nothing",
        "-",
        "1 ",
        "null",
        " \"a\" is fine",
        "}}\n</tool_call>",
        ")",
        " ",
    ] {
        let answer = exchange.text(text, text, "stop", Cuts::Bytes).0;
        assert_eq!((answer.text.as_str(), answer.calls.len()), (text, 0));
    }
    // This server always repeats the prefill, so only the text after it comes from the model.
    let exchange = prefilled(HERMES, true, Rules::default());
    for (text, expected, calls) in [
        ("<tool_call>\n{\"name\": x", " x", 0),
        ("<tool_call>\n{\"name\":", "", 0),
        ("<tool_call>\n{\"name\"", "<tool_call>\n{\"name\"", 0),
        ("<tool_call>\n{\"name\": \"a\", \"arguments\": {}}\n</tool_call>", "", 1),
        (" \"a\", \"arguments\": {}}\n</tool_call>", "", 1),
        ("No.", "No.", 0),
    ] {
        let answer = exchange.text(text, text, "stop", Cuts::Bytes).0;
        assert_eq!((answer.text.as_str(), answer.calls.len()), (expected, calls), "{text:?}");
    }
}

#[test]
fn reasoning_around_a_prefilled_call_is_separated() {
    let call = " \"a\", \"arguments\": {\"x\":1}}</tool_call>";
    let whole = format!("{HERMES}{call}");
    for starts_in_reasoning in [false, true] {
        let exchange = prefilled(HERMES, false, Rules { starts_in_reasoning, ..Rules::default() });
        // The upstream sends reasoning in its own field, before the content and between its parts.
        let mut events = Vec::new();
        events.push(json!(["r", "Hm."]));
        for piece in call.split_inclusive(' ') {
            events.push(json!(["m", piece]));
            events.push(json!(["r", " So."]));
        }
        events.extend([json!(["fin", "stop"]), json!(["done"])]);
        let stream = Speech::Chat.stream(&events);
        let answer = exchange.at_every_cut("separate reasoning", &stream).0;
        assert_eq!((answer.text.as_str(), answer.calls.len()), ("", 1));
        assert!(answer.reasoning.starts_with("Hm. So."), "{}", answer.reasoning);
        // This server ignores the prefill.
        let text = format!("<think>Hm.</think>{whole}");
        let answer = exchange.text(&text, &text, "stop", Cuts::Bytes).0;
        assert_eq!((answer.text.as_str(), answer.reasoning.as_str(), answer.calls.len()), ("", "Hm.", 1));
        // This server honours the prefill.
        assert_eq!(exchange.text(call, call, "stop", Cuts::Bytes).0.named_calls(), [("a", "{\"x\":1}")]);
    }
    let exchange = prefilled(HERMES, false, Rules { starts_in_reasoning: true, ..Rules::default() });
    let text = format!("Hm.</think>{whole}");
    let answer = exchange.text(&text, &text, "stop", Cuts::Bytes).0;
    assert_eq!((answer.text.as_str(), answer.reasoning.as_str(), answer.calls.len()), ("", "Hm.", 1));
}

#[test]
fn native_calls_of_a_prefilled_response_are_kept() {
    let call = json!({"index": 0, "id": "c1", "function": {"name": "a", "arguments": "{\"x\":1}"}});
    for text in ["", "Well.", "<tool_call>\n"] {
        let events = [
            json!(["m", text]),
            json!(["d", {"tool_calls": [call.clone()]}]),
            json!(["fin", "tool_calls"]),
            json!(["done"]),
        ];
        let answer = prefilled(HERMES, false, Rules::default())
            .at_every_cut("a native call", &Speech::Chat.stream(&events))
            .0;
        assert_eq!((answer.text.as_str(), answer.named_calls()), (text, vec![("a", "{\"x\":1}")]));
    }
}

#[test]
fn broken_off_prefilled_response_keeps_its_text() {
    let pieces = ["<tool_call>\n{\"na", "me\": \"a\", \"argum"];
    let stream = Speech::Chat.stream(&pieces.map(|piece| json!(["m", piece])));
    let answer = prefilled(HERMES, false, Rules::default()).in_pieces("broken off", &stream).0;
    assert_eq!(answer.text, "<tool_call>\n{\"name\": \"a\", \"argum");
    assert!(answer.error.is_some() && answer.finish.is_none());
}

/// The text that is held for a second reading is limited, and splits do not change where the limit is reached.
#[test]
fn undecided_prefilled_text_is_limited() {
    let limits = Limits { max_hold: 100, max_arguments: 200, ..Limits::default() };
    for arguments in [ArgumentDelivery::Stream, ArgumentDelivery::Whole] {
        let rules = Rules { limits, arguments, ..Rules::default() };
        let exchange = prefilled(HERMES, false, rules);
        for len in [50, 99, 100, 101, 180, 290, 300, 301, 400, 5000] {
            let text = format!(" \"a\", \"arguments\": {{\"é{}", "é".repeat(len / 2));
            let stream = Speech::Chat.says(&[&text], "stop");
            let (whole, tally) = exchange.run([stream.as_slice()]);
            assert!(tally.held_peak <= 2 * 310 + HERMES.len(), "{}", tally.held_peak);
            for pieces in crate::support::cuts::in_sizes(&text) {
                let (parts, _) = exchange.run([Speech::Chat.says(&pieces, "stop").as_slice()]);
                assert_eq!(kept(&parts), kept(&whole), "{len} in {}", pieces.len());
            }
        }
    }
}

#[test]
fn large_frames_of_wide_characters_lose_nothing() {
    let city = "日本é".repeat(4000);
    let call = format!("{HERMES} \"a\", \"arguments\": {{\"x\":\"{city}\"}}}}\n</tool_call>");
    let (plain, begun) = (exchange(Rules::default()), prefilled(HERMES, false, Rules::default()));
    for (exchange, text) in [(&plain, call.as_str()), (&begun, &call[HERMES.len()..])] {
        let answer = got(exchange, &[text], "stop");
        assert_eq!(answer.named_calls(), [("a", format!("{{\"x\":\"{city}\"}}").as_str())]);
    }
    for (exchange, text) in [(&begun, city.as_str()), (&plain, &format!("`{city}"))] {
        assert_eq!(got(exchange, &[text], "stop").text, text);
    }
}

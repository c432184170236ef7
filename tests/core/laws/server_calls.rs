//! Tests calls that the upstream ran or tried to run: how they are forwarded, their limits, and when the request is
//! repeated.

use std::collections::BTreeSet;

use bytes::BytesMut;
use proptest::prelude::*;
use serde_json::{Value, json};
use toolwire::{
    dialect::{Answering, ClientDialect, Stamp, Writer, chat},
    format::KnownFormats,
    pipeline::{Pipeline, State},
    rules::{ArgumentDelivery, Limits, Misroute, Rules, ServerCalls},
};

use crate::{
    laws::{
        soup::{cut_bytes, cuts, soup},
        tries,
    },
    support::{
        client::Answer,
        exchange::{Exchange, request, tools},
        upstream::Speech,
    },
};

/// An exchange whose client declares the tools `names`, which all require an argument `x`.
fn exchange(names: &[&str], settings: Rules) -> Exchange {
    let schema = json!({"type": "object", "properties": {"x": {}}, "required": ["x"]});
    let mut fields = json!({});
    if !names.is_empty() {
        fields["tools"] = tools(names.iter().copied(), &schema);
    }
    Exchange::new(request(&fields), settings, Speech::LumoV2)
}

fn run(exchange: &Exchange, events: &Value) -> Answer {
    exchange.at_every_cut("server calls", &exchange.speech.stream(events.as_array().unwrap())).0
}

fn search() -> Value {
    json!([
        ["m", "See"],
        ["stc", {"id": "n1", "name": "web_search", "arguments": "{\"query\":\"q\"}"}],
        ["str", {"call_id": "n1", "content": {"results": [{"url": "https://a.x", "title": "A"}, {"url": "https://b.x"}]}}],
        ["m", " this."],
        ["fin", "stop"],
        ["done"]
    ])
}

const RESULT: &str = r#"{"results":[{"title":"A","url":"https://a.x"},{"url":"https://b.x"}]}"#;

#[test]
fn server_call_is_forwarded_only_to_clients_that_expect_it() {
    for (server_calls, declared, forwarded, annotated) in [
        (ServerCalls::Auto, [].as_slice(), true, false),
        (ServerCalls::Auto, &["a"], false, true),
        (ServerCalls::Forward, &["a"], true, false),
        (ServerCalls::Annotate, &[], false, true),
        (ServerCalls::Annotate, &["a"], false, true),
        (ServerCalls::Hide, &[], false, false),
    ] {
        for arguments in [ArgumentDelivery::Stream, ArgumentDelivery::Whole] {
            let mut exchange = exchange(declared, Rules { server_calls, arguments, ..Rules::default() });
            for stream in [true, false] {
                exchange.conversation.stream = stream;
                let got = run(&exchange, &search());
                let what = format!("{server_calls:?} {declared:?} {arguments:?} {stream}");
                assert_eq!((got.text.as_str(), got.finish.as_deref()), ("See this.", Some("stop")), "{what}");
                assert_eq!(
                    (got.calls.len(), got.results.len()),
                    if forwarded { (1, 1) } else { (0, 0) },
                    "{what}"
                );
                let expected = ("web_search".to_owned(), "{\"query\":\"q\"}".to_owned());
                let seen: Vec<_> =
                    got.server_calls.iter().map(|call| (call.0.clone(), call.1.clone())).collect();
                assert_eq!(seen, if annotated { vec![expected] } else { vec![] }, "{what}");
                if annotated {
                    let content: Value = serde_json::from_str(&got.server_calls[0].2).unwrap();
                    assert_eq!(content, serde_json::from_str::<Value>(RESULT).unwrap());
                    let places =
                        got.annotations.iter().map(|it| it["url_citation"]["start_index"].as_u64().unwrap());
                    assert_eq!(places.collect::<Vec<_>>(), [3, 3], "{what}");
                } else {
                    assert_eq!(got.annotations.len(), 0, "{what}");
                }
            }
        }
    }
}

/// The client declares a tool with the same name as the upstream's tool, but the model knows the client's tools by
/// prefixed names. So the name without the prefix means the upstream's tool.
#[test]
fn declared_server_call_is_forwarded() {
    let settings = Rules {
        tool_prefix: "user:".to_owned(),
        server_tools: vec!["web_search".to_owned()],
        ..Rules::default()
    };
    let got = run(&exchange(&["web_search"], settings), &search());
    assert_eq!((got.calls.len(), got.results.len(), got.finish.as_deref()), (1, 1, Some("stop")));
}

/// The text of a call goes on after the native call, wherever it was interrupted.
#[test]
fn call_in_text_survives_a_native_call_in_between() {
    const TEXT: &str = r#"{"name":"a","arguments":{"x":1}}"#;
    for server_calls in [ServerCalls::Auto, ServerCalls::Annotate, ServerCalls::Hide] {
        let exchange = exchange(&["a"], Rules { server_calls, ..Rules::default() });
        for at in 1..TEXT.len() {
            let (first, second) = TEXT.split_at(at);
            let events = json!([
                ["m", first],
                ["stc", {"id": "n1", "name": "web_search", "arguments": "{\"query\":\"q\"}"}],
                ["str", {"call_id": "n1", "content": "found"}],
                ["m", second],
                ["fin", "stop"],
                ["done"]
            ]);
            let got = exchange.run([&*exchange.speech.stream(events.as_array().unwrap())]).0;
            let what = format!("{server_calls:?} {at}");
            let calls: Vec<_> = got.calls.iter().map(|call| (&*call.name, &*call.arguments)).collect();
            assert_eq!((calls, got.text.as_str()), (vec![("a", "{\"x\":1}")], ""), "{what}");
            assert_eq!(got.server_calls.len(), usize::from(server_calls != ServerCalls::Hide), "{what}");
        }
    }
}

#[test]
fn annotated_call_without_a_result_is_sent_at_the_end() {
    let events = json!([
        ["stc", {"id": "n1", "name": "generate_image", "arguments": "{\"prompt\":\"p\"}"}],
        ["m", "Here."],
        ["fin", "stop"],
        ["done"]
    ]);
    let got = run(&exchange(&["a"], Rules::default()), &events);
    let expected = ("generate_image".to_owned(), "{\"prompt\":\"p\"}".to_owned(), String::new());
    assert_eq!((got.text.as_str(), got.server_calls), ("Here.", vec![expected]));
}

/// Arguments are held until the result arrives, up to a limit. Beyond it, they are sent early rather than lost.
#[test]
fn oversized_arguments_of_annotated_calls_are_sent_before_the_result() {
    let call = |id: &str| json!(["stc", {"id": id, "name": "s", "arguments": format!("{{\"q\":\"{id}\"}}")}]);
    let result = |id: &str| json!(["str", {"call_id": id, "content": id}]);
    let events = json!([call("n1"), call("n2"), result("n1"), result("n2"), ["fin", "stop"], ["done"]]);
    let limits = Limits { max_hold: 12, ..Limits::default() };
    let got = run(&exchange(&["a"], Rules { limits, ..Rules::default() }), &events);
    let reported: Vec<_> = got
        .server_calls
        .iter()
        .map(|(_, arguments, content)| (arguments.as_str(), content.as_str()))
        .collect();
    assert_eq!(reported, [("{\"q\":\"n2\"}", ""), ("{\"q\":\"n1\"}", "n1"), ("", "n2")]);
}

#[test]
fn limits_apply_to_hidden_calls() {
    let limits = Limits { max_arguments: 100, max_calls: 3, ..Limits::default() };
    let call = |number: usize, bytes: usize| {
        let arguments = json!({ "x": "y".repeat(bytes - r#"{"x":""}"#.len()) });
        json!(["stc", {"id": format!("n{number}"), "name": "web_search", "arguments": arguments.to_string()}])
    };
    for server_calls in [ServerCalls::Auto, ServerCalls::Forward, ServerCalls::Annotate, ServerCalls::Hide] {
        for names in [[].as_slice(), &["a"], &["web_search"]] {
            let exchange = exchange(names, Rules { server_calls, limits, ..Rules::default() });
            let end = [json!(["fin", "stop"]), json!(["done"])];
            for (bytes, count, fails) in [(99, 3, false), (100, 3, false), (101, 1, true), (20, 4, true)] {
                let calls = (0..count).map(|number| call(number, bytes + usize::from(bytes < 99) * number));
                let got = run(&exchange, &calls.chain(end.clone()).collect());
                let code = got.error.as_ref().map(|error| error["code"].as_str().unwrap());
                let what = format!("{server_calls:?} {names:?} {count} of {bytes}");
                assert_eq!(code, fails.then_some("limit_exceeded"), "{what}");
                assert_eq!(got.finish.is_some(), !fails, "{what}");
            }
        }
    }
}

fn bouncing() -> Exchange {
    let mut exchange = exchange(&["a", "b"], Rules { misroute: Misroute::Bounce, ..Rules::default() });
    let second =
        json!([["stc", {"id": "n9", "name": "a", "arguments": "{\"x\":9}"}], ["fin", "stop"], ["done"]]);
    exchange.later = vec![exchange.speech.stream(second.as_array().unwrap())];
    exchange
}

#[test]
fn failure_is_reported_instead_of_bounced() {
    let before = [
        json!(["stc", {"id": "n1", "name": "a"}]),
        json!(["stc", {"id": "n1", "name": "a", "arguments": "{\"y\":1}"}]),
        json!(["m", "Sorry."]),
    ];
    for (end, code) in [
        (json!([]), "upstream_truncated"),
        (json!([["err", {"code": "error"}]]), "error"),
        (json!([["err", {"code": "rejected"}]]), "rejected"),
        (json!([["err", {"code": "timeout"}]]), "timeout"),
        (json!([["fin", "timeout"], ["done"]]), "timeout"),
        (json!([["d", {"content": "AAEC", "encrypted": 1}], ["fin", "stop"]]), "upstream_decrypt_failed"),
    ] {
        let events: Value = before.iter().chain(end.as_array().unwrap()).cloned().collect();
        let got = run(&bouncing(), &events);
        assert_eq!(got.error.as_ref().map(|error| error["code"].as_str().unwrap()), Some(code), "{end}");
        assert_eq!((got.calls.len(), got.finish), (0, None), "{end}");
    }
    for (word, finish) in [("content_filter", "content_filter"), ("length", "length")] {
        let events: Value = before.iter().cloned().chain([json!(["fin", word]), json!(["done"])]).collect();
        let got = run(&bouncing(), &events);
        assert_eq!((got.error, got.finish.as_deref()), (None, Some(finish)));
        assert_eq!(got.calls.len(), 1, "{word}: what was dispatched goes out as it is");
    }
    let mut oversized = bouncing();
    oversized.settings.limits.max_frame = 300;
    let events: Value =
        before.iter().cloned().chain([json!(["m", "x".repeat(400)]), json!(["fin", "stop"])]).collect();
    assert_eq!(run(&oversized, &events).error.unwrap()["code"], "upstream_protocol");
}

#[test]
fn misrouted_call_is_bounced_after_a_clean_end() {
    for events in [
        json!([["m", "Let me see."], ["stc", {"id": "n1", "name": "a"}], ["m", " Hm."], ["fin", "stop"], ["done"]]),
        json!([["m", "Let me see. Hm."], ["stc", {"id": "n1", "name": "a", "arguments": "{\"y\":1}"}], ["m", "Sorry."], ["done"]]),
    ] {
        let got = run(&bouncing(), &events);
        assert_eq!((got.text.as_str(), got.named_calls()), ("Let me see. Hm.", vec![("a", "{\"x\":9}")]));
        assert_eq!(got.finish.as_deref(), Some("tool_calls"));
    }
}

#[test]
fn call_that_the_model_corrects_itself_is_not_bounced() {
    let got = run(
        &bouncing(),
        &json!([
            ["stc", {"id": "n1", "name": "a", "arguments": "{\"y\":1}"}],
            ["str", {"call_id": "n1", "content": "{\"error\":true}"}],
            ["stc", {"id": "n2", "name": "a", "arguments": "{\"x\":1}"}],
            ["m", "Sorry."],
            ["fin", "stop"],
            ["done"]
        ]),
    );
    assert_eq!((got.text.as_str(), got.named_calls()), ("", vec![("a", "{\"x\":1}")]));
}

#[test]
fn several_misrouted_calls_are_bounced_at_once() {
    let exchange = bouncing();
    let events = json!([
        ["stc", {"id": "n1", "name": "a", "arguments": "{\"y\":1}"}],
        ["stc", {"id": "n2", "name": "b", "arguments": "{\"z\":1}"}],
        ["fin", "stop"],
        ["done"]
    ]);
    let mut pipeline = exchange.pipeline();
    let mut out = BytesMut::new();
    let state = pipeline.push(&exchange.speech.stream(events.as_array().unwrap()), &mut out);
    assert_eq!(state, State::HopEnded);
    let asked = format!("{:?}", pipeline.follow_up().unwrap().turns);
    assert!(asked.contains("the tool `a`") && asked.contains("the tool `b`"), "{asked}");
}

/// Client libraries join the lists in deltas by each element's `index`.
#[test]
fn list_elements_have_indices() {
    let exchange = exchange(&["a"], Rules::default());
    let answering = Answering::new(&exchange.conversation, Stamp { seed: 1, created: 1 });
    let writer = Writer::Chat(chat::Writer::new(&answering));
    let mut pipeline = Pipeline::new(
        &exchange.conversation,
        &exchange.settings,
        KnownFormats::built_in(),
        exchange.reader(),
        writer,
        &answering,
    );
    let mut out = BytesMut::new();
    pipeline.push(&exchange.speech.stream(search().as_array().unwrap()), &mut out);
    let text = std::str::from_utf8(&out).unwrap();
    for (list, count) in [("annotations", 2), ("tool_results", 1)] {
        let places: Vec<_> = (0..count).map(|place| format!("\"{list}\":[{{\"index\":{place},")).collect();
        assert!(places.iter().all(|place| text.contains(place)), "{text}");
    }
}

/// Lumo v1 gives its calls no IDs, so toolwire creates them.
#[test]
fn calls_that_the_upstream_ran_have_ids_in_every_mode() {
    let call = json!(["tc", r#"{"name":"web_search","arguments":{"query":"q"}}"#]);
    let result = json!(["tr", r#"{"results":[{"url":"https://a.x","title":"A"}]}"#]);
    let events = [
        call.clone(),
        result.clone(),
        json!(["m", "One."]),
        call,
        result,
        json!(["m", "Two."]),
        json!(["done"]),
    ];
    let stream = Speech::LumoV1.stream(&events);
    for client in ClientDialect::all() {
        for (server_calls, names) in [
            (ServerCalls::Forward, [].as_slice()),
            (ServerCalls::Annotate, &[]),
            (ServerCalls::Auto, &["a"]),
            (ServerCalls::Auto, &[]),
        ] {
            for is_stream in [true, false] {
                let mut exchange = exchange(names, Rules { server_calls, ..Rules::default() });
                exchange.speech = Speech::LumoV1;
                exchange.conversation.stream = is_stream;
                let answering = Answering::new(&exchange.conversation, Stamp { seed: 1, created: 1 });
                let mut pipeline = Pipeline::new(
                    &exchange.conversation,
                    &exchange.settings,
                    KnownFormats::built_in(),
                    exchange.reader(),
                    client.side().writer(&answering),
                    &answering,
                );
                let mut out = BytesMut::new();
                pipeline.push(&stream, &mut out);
                pipeline.finish(&mut out);
                let text = std::str::from_utf8(&out).unwrap();
                let what = format!("{client:?} {server_calls:?} {names:?} {is_stream}: {text}");
                for empty in ["\"id\":\"\"", "_id\":\"\""] {
                    assert!(!text.contains(empty), "{what}");
                }
                assert_eq!(ids_of_calls(text).len(), 2, "{what}");
            }
        }
    }
}

fn ids_of_calls(text: &str) -> BTreeSet<&str> {
    let words: Vec<_> = text.split('"').collect();
    let id = |words: &[&'_ str]| {
        let is_id = ["id", "tool_use_id", "call_id"].contains(&words[0]) && words[1] == ":";
        is_id && ["call_", "srvtoolu_", "ws_"].iter().any(|prefix| words[2].starts_with(prefix))
    };
    words.windows(3).filter(|words| id(words)).map(|words| words[2]).collect()
}

/// Returns the text and the calls that the client gets. White space at the end of the text is removed, since it is
/// framing if there are calls.
fn said(answer: &Answer) -> (String, Vec<(String, String)>) {
    let calls =
        answer.named_calls().into_iter().map(|(name, arguments)| (name.to_owned(), arguments.to_owned()));
    (answer.text.trim_end().to_owned(), calls.collect())
}

proptest! {
    #![proptest_config(tries(400))]

    /// The text before a misrouted call reaches the client unchanged, no matter how it ends, and no part of it is
    /// mistaken for the model's apology.
    #[test]
    fn text_before_a_misrouted_call_is_not_lost(
        text in soup(8),
        arguments in prop::sample::select(&[ArgumentDelivery::Stream, ArgumentDelivery::Whole] as &[_]),
        misroute in prop::sample::select(&[Misroute::Rescue, Misroute::Bounce] as &[_]),
        cuts in cuts(),
    ) {
        let rules = Rules { arguments, misroute, ..Rules::default() };
        let exchange = exchange(&["a", "b", "rescued"], rules);
        let events = |events: &[Value]| exchange.speech.stream(events);
        let text = json!(["m", text]);
        let end = [json!(["fin", "stop"]), json!(["done"])];
        let alone = exchange.run([events(&[std::slice::from_ref(&text), &end[..]].concat()).as_slice()]).0;
        let call = |arguments: &str| json!(["stc", {"id": "n1", "name": "rescued", "arguments": arguments}]);
        let apology = json!(["m", "Sorry."]);
        let (mut expected, whole) = (said(&alone), "{\"x\":1}");
        expected.1.push(("rescued".to_owned(), whole.to_owned()));
        let streams = [
            [&[text.clone(), call(whole), apology], &end[..]].concat(),
            [&[text.clone(), call(whole)], &end[..]].concat(),
            [&[call(""), text, call(whole)], &end[..]].concat(),
        ];
        for stream in streams {
            let stream = events(&stream);
            let (answer, _) = exchange.run([stream.as_slice()]);
            prop_assert_eq!(said(&answer), expected.clone());
            prop_assert_eq!(&exchange.run(cut_bytes(&stream, &cuts)).0, &answer);
        }
    }
}

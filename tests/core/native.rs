//! Native calls that are not quite as they should be, from upstreams of all dialects to clients of all dialects, cut anywhere.

use bytes::BytesMut;
use serde_json::{Value, json};
use toolwire::{
    dialect::ClientDialect,
    rules::{ArgumentDelivery, Rules},
};

use crate::support::{
    client::Answer,
    exchange::{Exchange, request, tools},
    upstream::Speech,
};

const CLIENTS: [ClientDialect; 3] = [ClientDialect::Chat, ClientDialect::Messages, ClientDialect::Responses];

/// The response to a request with the tool `get_weather`.
fn answered(speech: Speech, client: ClientDialect, rules: &Rules, events: &[Value], stream: bool) -> Answer {
    let fields = json!({"tools": tools(["get_weather", "f"], &Value::Null), "stream": stream});
    let mut exchange = Exchange::new(request(&fields), rules.clone(), speech);
    exchange.client = client;
    let bytes = speech.stream(events);
    let (answer, _) = exchange.run([bytes.as_slice()]);
    for size in [1, 64] {
        assert_eq!(exchange.run(bytes.chunks(size)).0, answer, "in pieces of {size} bytes");
    }
    answer
}

/// One call with these arguments, in two pieces.
fn call(name: &str, arguments: &str) -> Vec<Value> {
    let middle = arguments.char_indices().map(|(at, _)| at).nth(arguments.chars().count() / 2).unwrap_or(0);
    let (left, right) = arguments.split_at(middle);
    vec![
        json!(["d", {"tool_calls": [{"index": 0, "id": "c0", "type": "function", "function": {"name": name, "arguments": left}}]}]),
        json!(["d", {"tool_calls": [{"index": 0, "function": {"arguments": right}}]}]),
        json!(["fin", "tool_calls"]),
        json!(["done"]),
    ]
}

#[test]
fn arguments_that_are_not_quite_json_are_repaired() {
    for (written, meant) in [
        ("{'city': 'Paris'}", json!({"city": "Paris"})),
        (r#"{"city":"Paris",}"#, json!({"city": "Paris"})),
        ("{\"city\":\"Pa\nris\"}", json!({"city": "Pa\nris"})),
        (r#"{"city":"C:\dir"}"#, json!({"city": "C:\\dir"})),
        (r#"{"city":"Paris","x": True}"#, json!({"city": "Paris", "x": true})),
        (r#""{\"city\":\"Paris\"}""#, json!({"city": "Paris"})),
        ("null", json!({})),
        (r#"{"city":"Paris"}</tool_call>"#, json!({"city": "Paris"})),
    ] {
        for speech in [Speech::Chat, Speech::Messages, Speech::Responses] {
            for (client, delivery, stream) in CLIENTS.into_iter().flat_map(|client| {
                [(client, ArgumentDelivery::Stream, true), (client, ArgumentDelivery::Whole, false)]
            }) {
                let rules = Rules { arguments: delivery, ..Rules::default() };
                let answer = answered(speech, client, &rules, &call("get_weather", written), stream);
                let what = format!("{written} {speech:?} {client:?} {stream}");
                assert_eq!(answer.calls.len(), 1, "{what}");
                let given: Value = serde_json::from_str(&answer.calls[0].arguments).expect(&what);
                assert_eq!((given, answer.finish.as_deref()), (meant.clone(), Some("tool_calls")), "{what}");
                assert!(answer.warnings.is_empty() && answer.error.is_none(), "{what}");
            }
        }
    }
}

#[test]
fn text_in_place_of_an_object_is_repaired() {
    for written in ["{'city': 'Paris'}", r#""{\"city\":\"Paris\"}""#, r#"{"city":"Paris",}</tool_call>"#] {
        let events = [
            json!(["d", {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "get_weather", "arguments": written}}]}]),
            json!(["fin", "stop"]),
            json!(["done"]),
        ];
        let answer = answered(Speech::OllamaChat, ClientDialect::Chat, &Rules::default(), &events, true);
        let given: Value = serde_json::from_str(&answer.calls[0].arguments).expect(written);
        assert_eq!(given, json!({"city": "Paris"}));
    }
}

#[test]
fn arguments_that_cannot_be_repaired_reach_the_client_with_a_warning() {
    for written in [r#"{"a":"1"}{"a":"2"}"#, r#"{"a":1} and more"#, "[1]"] {
        for client in CLIENTS {
            for (delivery, repair) in [
                (ArgumentDelivery::Stream, true),
                (ArgumentDelivery::Whole, true),
                (ArgumentDelivery::Whole, false),
            ] {
                let rules = Rules { arguments: delivery, repair, ..Rules::default() };
                let answer = answered(Speech::Chat, client, &rules, &call("get_weather", written), true);
                let what = format!("{written} {client:?} {delivery:?}");
                assert_eq!(answer.calls[0].arguments, written, "{what}");
                // Responses has no finish reason: the status of the item says it.
                let finish = if client == ClientDialect::Responses { "stop" } else { "tool_calls" };
                assert_eq!(answer.finish.as_deref(), Some(finish), "{what}");
                assert_eq!(answer.warnings, ["invalid_arguments"], "{what}");
            }
        }
    }
}

#[test]
fn without_repair_withheld_calls_are_not_dropped() {
    let rules = Rules { arguments: ArgumentDelivery::Whole, repair: false, ..Rules::default() };
    let answer =
        answered(Speech::Chat, ClientDialect::Chat, &rules, &call("get_weather", "{'city': 'Paris'}"), true);
    assert_eq!(answer.named_calls(), [("get_weather", "{'city': 'Paris'}")]);
    assert_eq!(answer.warnings, ["invalid_arguments"]);
}

#[test]
fn valid_arguments_pass_in_the_frames_of_the_upstream() {
    let frame = |arguments: &str| {
        format!(
            r#"{{"id":"i","object":"chat.completion.chunk","created":1,"model":"m","choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"function":{{"arguments":{}}}}}]}},"finish_reason":null}}],"own":1}}"#,
            json!(arguments)
        )
    };
    let head = frame("").replace(r#""function":{"#, r#""id":"c0","type":"function","function":{"name":"f","#);
    let pieces = ["{\"a\":", "[1", " 2".trim(), "],\"b\":\"x", "\\n", "y\"}"].map(frame);
    let stream: String = [head].iter().chain(&pieces).map(|frame| format!("data: {frame}\n\n")).collect();
    let fields = json!({"tools": tools(["f"], &Value::Null)});
    let exchange = Exchange::new(request(&fields), Rules::default(), Speech::Chat);
    let (mut pipeline, mut out) = (exchange.pipeline(), BytesMut::new());
    pipeline.push(stream.as_bytes(), &mut out);
    let written = String::from_utf8(out.to_vec()).unwrap();
    assert!(written.ends_with(&stream), "{written}");
}

#[test]
fn decorated_name_of_a_native_call_is_the_declared_one() {
    for name in [
        "get_weather<|channel|>analysis",
        "get_weather<|constrain|>json",
        "get_weather ",
        "get_weather\n",
        "default_api:get_weather",
        "multi_tool_use.get_weather",
        "functions.get_weather:0",
    ] {
        for client in CLIENTS {
            for speech in [Speech::Chat, Speech::Messages, Speech::Responses] {
                let answer = answered(speech, client, &Rules::default(), &call(name, "{\"a\":1}"), true);
                assert_eq!(
                    answer.named_calls(),
                    [("get_weather", "{\"a\":1}")],
                    "{name:?} {client:?} {speech:?}"
                );
            }
        }
    }
    for name in ["get_weather<|call|>f", "other.get_weather", "get_weather2"] {
        let answer = answered(Speech::Chat, ClientDialect::Chat, &Rules::default(), &call(name, "{}"), true);
        assert_eq!(answer.named_calls(), [(name, "{}")]);
    }
}

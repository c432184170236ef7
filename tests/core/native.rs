//! Tests slightly malformed native calls, from upstreams of every dialect to clients of every dialect, in any
//! split.

use bytes::BytesMut;
use serde_json::{Value, json};
use toolwire::{
    dialect::ClientDialect,
    rules::{ArgumentDelivery, Rules, ServerCalls},
};

use crate::support::{
    client::Answer,
    exchange::{Exchange, request, tools},
    upstream::Speech,
};

const CLIENTS: [ClientDialect; 4] =
    [ClientDialect::Chat, ClientDialect::Messages, ClientDialect::Responses, ClientDialect::Ollama];

/// Returns the client's answer to a request that declares the tools `get_weather` and `f`.
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
                // The Responses API has no finish reasons. The item's status shows the fault.
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

/// Returns what a Messages client gets from a Messages upstream.
fn forwarded(rules: &Rules, fields: &Value, upstream: &[u8]) -> String {
    let mut exchange = Exchange::new(request(fields), rules.clone(), Speech::Messages);
    exchange.client = ClientDialect::Messages;
    let written = |pieces: &[&[u8]]| {
        let (mut pipeline, mut out) = (exchange.pipeline(), BytesMut::new());
        for piece in pieces {
            pipeline.push(piece, &mut out);
        }
        pipeline.finish(&mut out);
        String::from_utf8(out.to_vec()).unwrap()
    };
    let whole = written(&[upstream]);
    let bytes: Vec<&[u8]> = upstream.chunks(1).collect();
    assert_eq!(written(&bytes), whole, "byte by byte");
    whole
}

fn events(blocks: &[&str], delta: &str) -> String {
    let start = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}}

"#;
    let mut stream = start.to_owned();
    for (index, block) in blocks.iter().enumerate() {
        stream.push_str(&format!(
            "event: content_block_start\ndata: {{\"type\":\"content_block_start\",\"index\":{index},\"content_block\":{block}}}\n\n"
        ));
        stream.push_str(&format!(
            "event: content_block_stop\ndata: {{\"type\":\"content_block_stop\",\"index\":{index}}}\n\n"
        ));
    }
    stream
        + &format!(
            "event: message_delta\ndata: {{\"type\":\"message_delta\",\"delta\":{delta},\"usage\":{{\"output_tokens\":5}}}}\n\nevent: message_stop\ndata: {{\"type\":\"message_stop\"}}\n\n"
        )
}

const TOOL_USE: &str = r#"{"type":"tool_use","id":"t","name":"f","input":{"a":1}}"#;

#[test]
fn stop_reasons_that_contradict_the_blocks_are_corrected() {
    let fields = json!({"tools": tools(["f"], &Value::Null)});
    for (blocks, word, expected) in [
        (vec![TOOL_USE], "end_turn", "tool_use"),
        (vec![TOOL_USE], "tool_use", "tool_use"),
        (vec![TOOL_USE], "stop_sequence", "tool_use"),
        (vec![], "tool_use", "end_turn"),
        (vec![], "stop", "end_turn"),
        (vec![], "length", "max_tokens"),
        (vec![], "tool_calls", "end_turn"),
        (vec![], "stop_sequence", "stop_sequence"),
        (vec![], "pause_turn", "pause_turn"),
        (vec![], "refusal", "refusal"),
        (vec![], "model_context_window_exceeded", "model_context_window_exceeded"),
    ] {
        let delta = format!(r#"{{"stop_reason":"{word}","stop_sequence":null,"container":{{"id":"c"}}}}"#);
        let stream = forwarded(&Rules::default(), &fields, events(&blocks, &delta).as_bytes());
        let expected_delta = format!(r#""stop_reason":"{expected}""#);
        assert!(
            stream.contains(&expected_delta) && stream.contains(r#""container":{"id":"c"}"#),
            "{word}: {stream}"
        );
        let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
            "content": blocks.iter().map(|block| serde_json::from_str::<Value>(block).unwrap()).collect::<Vec<_>>(),
            "stop_reason": word, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}});
        let whole = json!({"tools": tools(["f"], &Value::Null), "stream": false});
        let body = forwarded(&Rules::default(), &whole, message.to_string().as_bytes());
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["stop_reason"], expected, "{word}");
    }
}

const SERVER_BLOCKS: [&str; 8] = [
    r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"code_execution","input":{"code":"1.50"},"caller":{"type":"direct"}}"#,
    r#"{"type":"code_execution_tool_result","tool_use_id":"srvtoolu_1","content":{"type":"code_execution_result","stdout":"1","stderr":"","return_code":0,"content":[]},"later":[1,{}]}"#,
    r#"{"type":"server_tool_use","id":"srvtoolu_2","name":"web_search","input":{}}"#,
    r#"{"type":"web_search_tool_result","tool_use_id":"srvtoolu_2","content":[],"caller":{"type":"direct"}}"#,
    r#"{"type":"mcp_tool_use","id":"mcptoolu_1","name":"echo","server_name":"own","input":{"a":1}}"#,
    r#"{"type":"mcp_tool_result","tool_use_id":"mcptoolu_1","is_error":false,"content":[{"type":"text","text":"x"}]}"#,
    r#"{"type":"later_tool_result","tool_use_id":"srvtoolu_9","content":"of an earlier response"}"#,
    r#"{"type":"later","x":1}"#,
];

#[test]
fn blocks_of_server_tools_reach_clients_of_the_same_api_as_they_are() {
    let upstream = events(&SERVER_BLOCKS, r#"{"stop_reason":"end_turn","stop_sequence":null}"#);
    for fields in [json!({}), json!({"tools": tools(["f"], &Value::Null)})] {
        for server_calls in [ServerCalls::Auto, ServerCalls::Forward, ServerCalls::Annotate] {
            let rules = Rules { server_calls, ..Rules::default() };
            let stream = forwarded(&rules, &fields, upstream.as_bytes());
            let blocks = |stream: &str| -> Vec<String> {
                stream.lines().filter(|line| line.contains("content_block_")).map(str::to_owned).collect()
            };
            assert_eq!(blocks(&stream), blocks(&upstream));
            let mut whole = fields.clone();
            whole["stream"] = false.into();
            let content: Vec<Value> =
                SERVER_BLOCKS.iter().map(|block| serde_json::from_str(block).unwrap()).collect();
            let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
                "stop_reason": "end_turn", "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}});
            let body = forwarded(&rules, &whole, message.to_string().as_bytes());
            let body: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(body["content"].to_string(), message["content"].to_string());
        }
    }
}

#[test]
fn hidden_server_calls_stay_hidden() {
    let upstream = events(&SERVER_BLOCKS[..6], r#"{"stop_reason":"end_turn","stop_sequence":null}"#);
    let rules = Rules { server_calls: ServerCalls::Hide, ..Rules::default() };
    let stream = forwarded(&rules, &json!({}), upstream.as_bytes());
    assert!(!stream.contains("content_block_start"), "{stream}");
}

#[test]
fn streamed_input_of_a_server_tool_passes_under_another_index() {
    let upstream = events(&[], r#"{"stop_reason":"end_turn","stop_sequence":null}"#);
    let block = r#"event: content_block_start
data: {"type":"content_block_start","index":7,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":7,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"q\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":7}

event: message_delta"#;
    let stream =
        forwarded(&Rules::default(), &json!({}), upstream.replace("event: message_delta", block).as_bytes());
    assert!(stream.contains(&block.replace("\"index\":7", "\"index\":0")), "{stream}");
}

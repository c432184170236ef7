//! Tests clients of Ollama's API: requests, and what is written for them.

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};
use toolwire::{
    conversation::{Conversation, Part, Role},
    dialect::{Answering, ClientDialect, Dialect, Stamp, Target, UpstreamDialect},
    event::{CallEnd, CallStart, Event, Finish, Reasoning, Runner, Source, Usage},
    failure::{Failure, Kind},
};

const STAMP: Stamp = Stamp { seed: 1, created: 1_700_000_000 };

fn decode(fields: &Value) -> Result<Conversation, Failure> {
    let mut request = json!({"model": "m"});
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    ClientDialect::Ollama.side().decode(request.to_string().as_bytes())
}

fn user(more: Value) -> Value {
    let mut request = json!({"messages": [{"role": "user", "content": "q"}]});
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    request
}

/// Returns an upstream's request, and the fields that it lacks.
fn sent(fields: Value, upstream: Dialect) -> (Value, Vec<String>) {
    let conversation = decode(&fields).unwrap();
    let request = UpstreamDialect::try_from(upstream).unwrap().side().encode(&conversation, "m");
    (serde_json::from_slice(&request.body).unwrap(), request.dropped)
}

/// Completes a request to `path` as the gateway does.
fn completed(path: &str, body: &str) -> Bytes {
    let side = ClientDialect::Ollama.side();
    let endpoint = side.endpoints().iter().find(|endpoint| endpoint.path == path).unwrap();
    side.complete(Bytes::from(body.to_owned()), &Target::new(endpoint, "")).unwrap()
}

fn written(conversation: &Conversation, events: &[Event<'_>]) -> String {
    let mut writer = ClientDialect::Ollama.side().writer(&Answering::new(conversation, STAMP));
    let mut out = BytesMut::new();
    events.iter().for_each(|event| writer.event(event, &mut out));
    writer.finish(&mut out);
    String::from_utf8(out.into()).unwrap()
}

fn call(index: u32, arguments: &[&'static str], end: CallEnd) -> Vec<Event<'static>> {
    let start = CallStart {
        index,
        id: format!("call_{index}").into(),
        name: "f".into(),
        runner: Runner::Client,
        source: Source::Native,
        signature: None,
    };
    let arguments = arguments.iter().map(|piece| Event::CallArguments { index, piece: (*piece).into() });
    [Event::CallStart(start)].into_iter().chain(arguments).chain([Event::CallEnd { index, end }]).collect()
}

#[test]
fn streams_are_the_default() {
    assert!(decode(&user(json!({}))).unwrap().stream);
    assert!(!decode(&user(json!({"stream": false}))).unwrap().stream);
    assert!(decode(&user(json!({"stream": null}))).unwrap().stream);
}

#[test]
fn options_reach_the_upstreams_that_have_them() {
    let options = json!({"options": {
        "temperature": 0.50, "top_p": 0.9, "seed": 7, "stop": "x", "num_predict": 9, "top_k": 4,
        "presence_penalty": 1.5, "num_gpu": 1, "repeat_penalty": 1.1,
    }, "keep_alive": "5m"});
    let (chat, dropped) = sent(user(options.clone()), Dialect::Chat);
    assert_eq!(
        (&chat["temperature"], &chat["max_tokens"], &chat["stop"]),
        (&json!(0.5), &json!(9), &json!(["x"]))
    );
    assert_eq!((&chat["presence_penalty"], &chat["options"]), (&json!(1.5), &Value::Null));
    assert_eq!(dropped, ["keep_alive", "options.num_gpu", "repeat_penalty", "top_k"]);
    let (own, dropped) = sent(user(options.clone()), Dialect::Ollama);
    for (name, value) in options["options"].as_object().unwrap() {
        let value = if name == "stop" { json!(["x"]) } else { value.clone() };
        assert_eq!(own["options"][name], value, "{name}");
    }
    assert_eq!((&own["keep_alive"], dropped.len()), (&json!("5m"), 0), "{dropped:?}");
    let (messages, _) = sent(user(json!({"options": {"num_predict": -1}})), Dialect::Chat);
    assert_eq!(messages["max_tokens"], Value::Null, "no limit");
    let (own, _) = sent(user(json!({"options": {"num_predict": -1}})), Dialect::Ollama);
    assert_eq!(own["options"], json!({"num_predict": -1}));
}

#[test]
fn think_is_said_in_the_words_of_the_upstream() {
    let think = |think: Value, upstream| sent(user(json!({"think": think})), upstream);
    assert_eq!(think(json!(false), Dialect::Messages).0["thinking"]["type"], "disabled");
    assert_eq!(think(json!("low"), Dialect::Chat), think(json!("low"), Dialect::Chat));
    assert_eq!(think(json!("low"), Dialect::Chat).0["reasoning_effort"], "low");
    for value in [json!(true), json!(false), json!("high")] {
        assert_eq!(think(value.clone(), Dialect::Ollama).0["think"], value);
    }
    let failure = decode(&user(json!({"think": "much"}))).unwrap_err();
    assert!(failure.message().contains("`think`"), "{failure:?}");
}

#[test]
fn format_is_a_constraint() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let format =
        |format: &Value| sent(user(json!({"format": format})), Dialect::Chat).0["response_format"].clone();
    assert_eq!(format(&json!("json")), json!({"type": "json_object"}));
    assert_eq!(format(&schema)["json_schema"]["schema"], schema);
    assert_eq!(format(&json!("")), Value::Null);
    assert_eq!(sent(user(json!({"format": schema})), Dialect::Ollama).0["format"], schema);
    assert_eq!(decode(&user(json!({"format": "xml"}))).unwrap_err().kind(), Kind::Request);
}

#[test]
fn results_belong_to_calls_by_id_or_by_name_and_order() {
    let call = |name: &str| json!({"function": {"name": name, "arguments": {"a": 1.50}}});
    let with_id = json!({"id": "mine", "function": {"name": "f", "arguments": {}}});
    let request = json!({"messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "", "thinking": "t", "tool_calls": [call("f"), call("g"), call("f"), with_id]},
        {"role": "tool", "tool_name": "g", "content": "of g"},
        {"role": "tool", "content": "4", "tool_call_id": "mine"},
        {"role": "tool", "tool_name": "f", "content": "1"},
        {"role": "tool", "content": "3"},
        {"role": "tool", "tool_name": "f", "content": "of nothing"},
    ]});
    let conversation = decode(&request).unwrap();
    let results = conversation.turns.iter().flat_map(|turn| &turn.parts).filter_map(|part| match part {
        Part::Result(output) => Some((output.id.as_str(), output.name.as_str(), output.content.as_str())),
        _ => None,
    });
    assert_eq!(
        results.collect::<Vec<_>>(),
        [
            ("call_2", "g", "of g"),
            ("mine", "f", "4"),
            ("call_1", "f", "1"),
            ("call_3", "f", "3"),
            ("call_4", "f", "of nothing")
        ]
    );
    assert!(matches!(&conversation.turns[1].parts[0], Part::Reasoning { text, .. } if text == "t"));
    assert!(matches!(&conversation.turns[1].parts[1], Part::Call(call) if call.arguments == "{\"a\":1.5}"));
}

/// JetBrains' koog sends each call in a message of its own, and results without a name.
#[test]
fn calls_in_adjacent_messages_are_of_one_response() {
    let call = |city: &str| json!({"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"city": city}}}]});
    let result = |content: &str| json!({"role": "tool", "content": content});
    let messages = [call("Paris"), call("Rome"), result("1"), result("2"), call("Oslo"), result("3")];
    let conversation = decode(&json!({ "messages": messages })).unwrap();
    let id = |part: &Part| match part {
        Part::Call(call) => call.id.clone(),
        Part::Result(output) => format!("{}: {}", output.id, output.content.as_str()),
        other => panic!("{other:?}"),
    };
    let turns: Vec<Vec<String>> =
        conversation.turns.iter().map(|turn| turn.parts.iter().map(id).collect()).collect();
    assert_eq!(
        turns,
        [vec!["call_1", "call_2"], vec!["call_1: 1"], vec!["call_2: 2"], vec!["call_3"], vec!["call_3: 3"]]
    );
}

/// A result is found without a search through all calls.
#[test]
fn many_results_are_matched() {
    let count = 20_000;
    let calls = vec![json!({"function": {"name": "f", "arguments": {}}}); count];
    let mut messages = vec![json!({"role": "assistant", "tool_calls": calls})];
    messages.extend(vec![json!({"role": "tool", "tool_name": "f", "content": "r"}); count]);
    let conversation = decode(&json!({ "messages": messages })).unwrap();
    let last = &conversation.turns.last().unwrap().parts[0];
    assert!(matches!(last, Part::Result(output) if output.id == format!("call_{count}")));
}

#[test]
fn images_are_base64_or_data_urls() {
    let request = json!({"messages": [
        {"role": "user", "content": "q", "images": ["iVBORw0KGgoA", "data:image/gif;base64,R0lG"]},
    ]});
    let (chat, _) = sent(request, Dialect::Chat);
    let urls: Vec<_> = chat["messages"][0]["content"].as_array().unwrap()[1..].iter().collect();
    assert_eq!(urls[0]["image_url"]["url"], "data:image/png;base64,iVBORw0KGgoA");
    assert_eq!(urls[1]["image_url"]["url"], "data:image/gif;base64,R0lG");
    let failure = decode(&json!({"messages": [{"role": "user", "images": [1]}]})).unwrap_err();
    assert_eq!(failure.param(), Some("messages[0].images[0]"));
}

#[test]
fn prompt_is_a_conversation() {
    let body = completed("/api/generate", r#"{"model":"m","prompt":"p","system":"s","stream":false}"#);
    let conversation = ClientDialect::Ollama.side().decode(&body).unwrap();
    let said: Vec<_> = conversation.turns.iter().map(|turn| (turn.role, turn.joined_text())).collect();
    assert_eq!(said, [(Role::System, "s".to_owned()), (Role::User, "p".to_owned())]);
    let events = [
        Event::Reasoning(Reasoning::text("t")),
        Event::Text("a".into()),
        Event::Text("\"b\n".into()),
        Event::Finish(Finish::Length),
    ];
    let head = r#""model":"m","created_at":"2023-11-14T22:13:20Z""#;
    assert_eq!(
        written(&conversation, &events),
        format!(
            "{{{head},\"response\":\"a\\\"b\\n\",\"thinking\":\"t\",\"done\":true,\"done_reason\":\"length\",\"prompt_eval_count\":0,\"eval_count\":0}}"
        )
    );
    for (key, value) in [("raw", json!(true)), ("suffix", json!("x")), ("template", json!("x"))] {
        let failure = decode(&json!({"prompt": "p", key: value})).unwrap_err();
        assert_eq!((failure.kind(), failure.param()), (Kind::Request, Some(key)));
    }
    assert!(decode(&json!({"prompt": "p", "raw": false, "suffix": "", "template": ""})).is_ok());
}

#[test]
fn stream_has_a_line_for_each_piece_and_each_call() {
    let conversation = decode(&user(json!({}))).unwrap();
    let usage = Usage { input: Some(3), output: Some(5), ..Usage::default() };
    let mut events = vec![Event::Reasoning(Reasoning::text("t")), Event::Text("a\n\u{1f600}".into())];
    // The calls are interleaved, and the arguments have line breaks.
    let (mut first, second) =
        (call(0, &["{\"a\":\n", " 2.50}"], CallEnd::Complete), call(1, &[], CallEnd::Complete));
    let end = first.pop().unwrap();
    events.extend(first);
    events.extend(second);
    events.push(end);
    events.extend([Event::Finish(Finish::Calls), Event::Usage(usage)]);
    let head =
        r#"{"model":"m","created_at":"2023-11-14T22:13:20Z","message":{"role":"assistant","content":""#;
    let tool = |number: u32, arguments: &str| {
        format!(
            "{head}\",\"tool_calls\":[{{\"id\":\"call_{number}\",\"function\":{{\"index\":{number},\"name\":\"f\",\"arguments\":{arguments}}}}}]}},\"done\":false}}"
        )
    };
    let expected = [
        format!("{head}\",\"thinking\":\"t\"}},\"done\":false}}"),
        format!("{head}a\\n\u{1f600}\"}},\"done\":false}}"),
        tool(1, "{}"),
        tool(0, "{\"a\":2.50}"),
        format!(
            "{head}\"}},\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":3,\"eval_count\":5}}"
        ),
    ];
    assert_eq!(written(&conversation, &events), expected.map(|line| line + "\n").concat());
}

#[test]
fn call_that_is_not_whole_is_no_call() {
    for (arguments, end) in
        [("{\"a\":", CallEnd::Cut), ("[1]", CallEnd::Complete), ("{oops", CallEnd::Broken)]
    {
        for stream in [true, false] {
            let conversation = decode(&user(json!({ "stream": stream }))).unwrap();
            let mut events = call(0, &[arguments], end);
            events.push(Event::Finish(Finish::Length));
            let written = written(&conversation, &events);
            assert!(!written.contains("tool_calls"), "{written}");
            let last: Value = serde_json::from_str(written.lines().last().unwrap()).unwrap();
            assert_eq!(last["toolwire"]["broken_calls"][0]["arguments"], arguments);
        }
    }
}

#[test]
fn request_without_messages_loads_or_unloads() {
    let side = ClientDialect::Ollama.side();
    let made = |path: &str, body: &str| {
        let conversation = side.decode(&completed(path, body)).unwrap();
        let made = side.made(&conversation, &STAMP).expect("a response without a model");
        (made.content_type, serde_json::from_slice::<Value>(&made.body).unwrap())
    };
    let (kind, body) = made("/api/chat", r#"{"model":"m","messages":[]}"#);
    assert_eq!((kind, &body["done_reason"]), ("application/x-ndjson", &json!("load")));
    assert_eq!((&body["message"]["role"], &body["done"]), (&json!("assistant"), &json!(true)));
    let (kind, body) = made("/api/generate", r#"{"model":"m","stream":false}"#);
    assert_eq!((kind, &body["response"]), ("application/json", &json!("")));
    for keep_alive in ["0", "\"0\"", "\"0s\"", "0.0"] {
        let (_, body) =
            made("/api/generate", &format!(r#"{{"model":"m","prompt":"","keep_alive":{keep_alive}}}"#));
        assert_eq!(body["done_reason"], "unload", "{keep_alive}");
    }
    for keep_alive in ["-1", "\"5m\"", "null", "\"\""] {
        let (_, body) = made("/api/chat", &format!(r#"{{"model":"m","keep_alive":{keep_alive}}}"#));
        assert_eq!(body["done_reason"], "load", "{keep_alive}");
    }
    assert_eq!(side.made(&decode(&user(json!({}))).unwrap(), &STAMP), None);
}

/// What the client writes about the path does not count.
#[test]
fn path_takes_precedence_over_the_body() {
    let body = completed(
        "/api/generate",
        r#"{"model":"m","prompt":"p","messages":[],"toolwire_path":{"generate":false}}"#,
    );
    assert_eq!(ClientDialect::Ollama.side().decode(&body).unwrap().turns.len(), 1);
}

#[test]
fn wrong_types_are_refused_by_name() {
    for (fields, param) in [
        (json!({"messages": "x"}), "messages"),
        (json!({"messages": [1]}), "messages[0]"),
        (json!({"messages": [{"content": "x"}]}), "messages[0].role"),
        (json!({"messages": [{"role": "x"}]}), "messages[0].role"),
        (json!({"messages": [{"role": "user", "content": [1]}]}), "messages[0].content"),
        (
            json!({"messages": [{"role": "assistant", "tool_calls": [{}]}]}),
            "messages[0].tool_calls[0].function",
        ),
        (user(json!({"tools": [{"type": "x"}]})), "tools[0].type"),
        (user(json!({"options": []})), "options"),
        (user(json!({"options": {"temperature": "x"}})), "options.temperature"),
        (user(json!({"stream": "x"})), "stream"),
        (user(json!({"Stream": true})), "Stream"),
    ] {
        let failure = decode(&fields).unwrap_err();
        assert_eq!((failure.kind(), failure.param()), (Kind::Request, Some(param)), "{fields}");
        let body: Value = serde_json::from_slice(&ClientDialect::Ollama.side().error_body(&failure)).unwrap();
        assert_eq!(body, json!({"error": failure.message()}));
    }
}

//! Tests the events that Responses clients get.

use std::collections::HashSet;

use bytes::BytesMut;
use serde_json::{Value, json};
use toolwire::{
    conversation::{Conversation, Namespaced},
    dialect::{Answering, ClientDialect, Stamp},
    event::{
        Annotation, CallEnd, CallResult, CallStart, Event, Finish, Media, Opaque, Reasoning, Runner,
        ServerCall, Source, Start, Usage, Warning,
    },
    failure::{Failure, Kind},
};

use crate::support::responses::{of_body, of_stream};

fn decoded(fields: &Value) -> Conversation {
    let mut body = json!({"model": "m", "input": "?"});
    for (key, value) in fields.as_object().unwrap() {
        body[key] = value.clone();
    }
    ClientDialect::Responses.side().decode(body.to_string().as_bytes()).unwrap()
}

fn answering(fields: &Value) -> Answering {
    Answering::new(&decoded(fields), Stamp { seed: 7, created: 17 })
}

fn written(answering: &Answering, events: &[Event<'_>]) -> String {
    let mut writer = ClientDialect::Responses.side().writer(answering);
    let mut out = BytesMut::new();
    events.iter().for_each(|event| writer.event(event, &mut out));
    writer.finish(&mut out);
    String::from_utf8(out.to_vec()).unwrap()
}

fn streamed(events: &[Event<'_>]) -> String {
    written(&answering(&json!({"stream": true})), events)
}

fn whole(events: &[Event<'_>]) -> Value {
    serde_json::from_str(&written(&answering(&json!({})), events)).unwrap()
}

/// Returns the data of the events whose type contains `part`.
fn data_of<'s>(stream: &'s str, part: &str) -> Vec<&'s str> {
    let frames = stream.split_terminator("\n\n");
    let frames = frames.filter_map(|frame| frame.strip_prefix("event: ")?.split_once("\ndata: "));
    frames.filter(|(kind, _)| kind.contains(part)).map(|(_, data)| data).collect()
}

fn kinds(stream: &str) -> Vec<&str> {
    let kinds = stream.split_terminator("\n\n").filter_map(|frame| frame.strip_prefix("event: response."));
    kinds.filter_map(|frame| Some(frame.split_once('\n')?.0)).collect()
}

fn call(index: u32, id: &'static str, name: &'static str, runner: Runner) -> Event<'static> {
    Event::CallStart(CallStart {
        index,
        id: id.into(),
        name: name.into(),
        runner,
        source: Source::Native,
        signature: None,
    })
}

fn arguments(index: u32, piece: &'static str) -> Event<'static> {
    Event::CallArguments { index, piece: piece.into() }
}

fn end(index: u32) -> Event<'static> {
    Event::CallEnd { index, end: CallEnd::Complete }
}

const SUFFIX: &str = "ID";

/// Replaces the random part of the IDs in `text`.
fn plain(text: &str) -> String {
    let at = text.find("resp_").expect("an id") + "resp_".len();
    text.replace(&text[at..at + 24].to_owned(), SUFFIX)
}

#[test]
fn text_has_the_events_that_every_client_accepts() {
    let stream = plain(&streamed(&[
        Event::Start(Start { id: "c1".into(), model: "gpt".into(), created: Some(5) }),
        Event::Text("a\"".into()),
        Event::Text("b".into()),
        Event::Finish(Finish::Stop),
        Event::Usage(Usage {
            input: Some(3),
            output: Some(2),
            cached: Some(1),
            reasoning: Some(1),
            ..Usage::default()
        }),
    ]));
    assert_eq!(
        kinds(&stream),
        [
            "created",
            "in_progress",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "completed",
        ]
    );
    let deltas = data_of(&stream, "output_text.delta");
    assert_eq!(
        deltas[0],
        r#"{"type":"response.output_text.delta","item_id":"msg_ID_0","output_index":0,"content_index":0,"logprobs":[],"delta":"a\"","sequence_number":4}"#
    );
    let completed: Value = serde_json::from_str(data_of(&stream, "completed")[0]).unwrap();
    let response = &completed["response"];
    let head = ["id", "created_at", "model", "status", "store"].map(|key| &response[key]);
    assert_eq!(head, [&json!("resp_ID"), &json!(5), &json!("gpt"), &json!("completed"), &json!(true)]);
    assert_eq!(
        response["output"],
        json!([{"id": "msg_ID_0", "type": "message", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": "a\"b", "annotations": [], "logprobs": []}]}])
    );
    assert_eq!(
        response["usage"],
        json!({"input_tokens": 3, "input_tokens_details": {"cached_tokens": 1}, "output_tokens": 2,
            "output_tokens_details": {"reasoning_tokens": 1}, "total_tokens": 5})
    );
}

/// A response with every kind of content that a Responses client can get.
fn everything() -> Vec<Event<'static>> {
    let search = ServerCall {
        id: "s1".into(),
        name: "web_search".into(),
        runner: Runner::Upstream,
        server: "".into(),
        arguments: Some(r#"{"query":"q"}"#.into()),
        content: Some(r#"{"results":[{"url":"https://a","title":"A"}]}"#.into()),
        details: None,
        is_error: false,
        approval: "".into(),
    };
    let asked = ServerCall {
        id: "s2".into(),
        name: "weather".into(),
        runner: Runner::Upstream,
        server: "".into(),
        arguments: Some("{}".into()),
        content: None,
        details: None,
        is_error: false,
        approval: "".into(),
    };
    let told = ServerCall { arguments: None, content: Some("rain".into()), is_error: true, ..asked.clone() };
    vec![
        Event::Reasoning(Reasoning::text("h\nm")),
        Event::Reasoning(Reasoning {
            signature: Some(Opaque::new("messages", "sig")),
            ..Reasoning::text("")
        }),
        Event::Annotation(Annotation { url: "https://a".into(), title: "A".into(), span: (0, 0) }),
        Event::from(search),
        Event::from(asked),
        Event::from(told),
        Event::Text("é1".into()),
        Event::Refusal("no".into()),
        Event::Annotation(Annotation { url: "https://b".into(), title: String::new().into(), span: (1, 2) }),
        call(0, "c0", "f", Runner::Client),
        arguments(0, "{\"x\""),
        call(1, "c1", "g", Runner::Client),
        arguments(0, ":1}"),
        end(0),
        end(1),
        call(2, "c2", "lookup", Runner::Upstream),
        arguments(2, "{}"),
        end(2),
        Event::CallResult(CallResult { index: 2, id: "c2".into(), content: "found".into(), is_error: false }),
        Event::Media(Media { id: "i".into(), mime: "image/webp".into(), data: "AAAA".into() }),
        Event::Text("2".into()),
        Event::Annotation(Annotation { url: "https://c".into(), title: "C".into(), span: (2, 3) }),
        Event::Warning(Warning { code: "required_call_missing", message: "w".into() }),
        Event::Finish(Finish::Calls),
    ]
}

#[test]
fn items_of_every_kind_satisfy_a_strict_client() {
    let stream = streamed(&everything());
    let answer = of_stream(stream.as_bytes());
    assert_eq!(
        (answer.text.as_str(), answer.refusal.as_str(), answer.reasoning.as_str()),
        ("é12", "no", "h\nm")
    );
    assert_eq!(answer.named_calls(), [("f", "{\"x\":1}"), ("g", "{}")]);
    let run: Vec<_> =
        answer.server_calls.iter().map(|(name, _, output)| (name.as_str(), output.as_str())).collect();
    assert_eq!(run, [("web_search", ""), ("weather", "rain"), ("lookup", "found")]);
    assert_eq!(
        (answer.images, answer.warnings),
        (vec![json!("AAAA")], vec!["required_call_missing".to_owned()])
    );
    assert_eq!((answer.finish.as_deref(), answer.done), (Some("tool_calls"), true));
    let spans: Vec<_> = answer
        .annotations
        .iter()
        .map(|cited| (cited["url"].as_str().unwrap(), cited["start_index"].as_u64().unwrap()))
        .collect();
    // Positions are relative to the part, not to the response.
    assert_eq!(spans, [("https://a", 0), ("https://b", 0), ("https://c", 0)]);
}

#[test]
fn streamed_and_whole_responses_are_the_same() {
    let stream = streamed(&everything());
    let completed: Value = serde_json::from_str(data_of(&stream, "completed").last().unwrap()).unwrap();
    assert_eq!(completed["response"], whole(&everything()));
    let kinds: Vec<_> =
        completed["response"]["output"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect();
    assert_eq!(
        kinds,
        [
            "reasoning",
            "web_search_call",
            "mcp_call",
            "message",
            "function_call",
            "function_call",
            "mcp_call",
            "image_generation_call",
            "message",
        ]
    );
}

#[test]
fn searches_that_the_upstream_ran_are_items_of_their_own() {
    let stream = plain(&streamed(&everything()));
    let of_search = |part: &str| {
        data_of(&stream, part).into_iter().find(|data| data.contains("ws_ID_toolwire1")).unwrap().to_owned()
    };
    assert!(kinds(&stream).join(" ").contains(
        "output_item.added web_search_call.in_progress web_search_call.searching web_search_call.completed output_item.done"
    ));
    let done: Value = serde_json::from_str(&of_search("output_item.done")).unwrap();
    assert_eq!(
        done["item"],
        json!({"id": "ws_ID_toolwire1", "type": "web_search_call", "status": "completed",
            "action": {"type": "search", "query": "q", "sources": [{"type": "url", "url": "https://a"}]}})
    );
}

/// A call to `generate_images`: its start if `result` is `None`, otherwise its result.
fn images_call(id: &str, runner: Runner, result: Option<bool>) -> Event<'static> {
    Event::from(ServerCall {
        id: id.to_owned().into(),
        name: "generate_images".into(),
        runner,
        server: "".into(),
        arguments: result.is_none().then(|| r#"{"prompt":"a fox"}"#.into()),
        content: result.map(|_| "links".into()),
        details: None,
        is_error: result == Some(false),
        approval: "".into(),
    })
}

fn image_of(id: &str, mime: &str, data: &str) -> Event<'static> {
    Event::Media(Media {
        id: id.to_owned().into(),
        mime: mime.to_owned().into(),
        data: data.to_owned().into(),
    })
}

#[test]
fn each_image_of_a_hosted_call_is_an_item() {
    let hosted = Runner::Toolwire;
    let events = [
        Event::Text("One moment.".into()),
        images_call("a", hosted, None),
        images_call("b", hosted, None),
        images_call("c", hosted, None),
        image_of("b", "image/jpeg", "BBBB"),
        images_call("b", hosted, Some(true)),
        image_of("a", "image/png", "AAAA"),
        image_of("a", "image/webp", "AAA="),
        images_call("a", hosted, Some(true)),
        images_call("c", hosted, Some(false)),
        Event::Text("Here.".into()),
        Event::Finish(Finish::Stop),
    ];
    let stream = streamed(&events);
    let completed: Value = serde_json::from_str(data_of(&stream, "completed").last().unwrap()).unwrap();
    assert_eq!(completed["response"], whole(&events));
    let stream = plain(&stream);
    let completed: Value = serde_json::from_str(data_of(&stream, "completed").last().unwrap()).unwrap();
    let item = |id: &str, status: &str, result: Value, format: Value| {
        let mut item = json!({"id": id, "type": "image_generation_call", "status": status, "result": result});
        if !format.is_null() {
            item["output_format"] = format;
        }
        item
    };
    assert_eq!(
        completed["response"]["output"].as_array().unwrap()[1..5],
        [
            item("ig_ID_toolwire1", "completed", json!("AAAA"), json!("png")),
            item("ig_ID_toolwire2", "completed", json!("BBBB"), json!("jpeg")),
            item("ig_ID_toolwire3", "failed", Value::Null, Value::Null),
            item("ig_ID_toolwire4", "completed", json!("AAA="), json!("webp")),
        ]
    );
    let own = |id: &str| {
        let of_item = |data: &&str| data.contains(id) && !data.contains("response.completed");
        let kinds =
            stream.lines().filter_map(|line| line.strip_prefix("data: ")).filter(of_item).map(|data| {
                let event: Value = serde_json::from_str(data).unwrap();
                event["type"].as_str().unwrap().trim_start_matches("response.").to_owned()
            });
        kinds.collect::<Vec<_>>().join(" ").replace("image_generation_call.", "")
    };
    let whole_life = "output_item.added in_progress generating completed output_item.done";
    assert_eq!([own("ig_ID_toolwire1"), own("ig_ID_toolwire2"), own("ig_ID_toolwire4")], [whole_life; 3]);
    assert_eq!(own("ig_ID_toolwire3"), "output_item.added in_progress generating output_item.done");
    assert_eq!(
        of_stream(stream.as_bytes()).images,
        [json!("AAAA"), json!("BBBB"), Value::Null, json!("AAA=")]
    );
}

/// The images of such a call arrive separately, and its result may contain other text.
#[test]
fn call_of_the_same_name_that_the_upstream_ran_is_one_of_an_mcp_server() {
    let upstream = Runner::Upstream;
    let events = [
        images_call("a", upstream, None),
        images_call("a", upstream, Some(true)),
        Event::Finish(Finish::Stop),
    ];
    let output = whole(&events)["output"].clone();
    assert_eq!((&output[0]["type"], &output[0]["output"]), (&json!("mcp_call"), &json!("links")));
}

#[test]
fn reasoning_carries_the_upstreams_state() {
    let item = |reasoning: Reasoning<'static>| {
        let whole =
            whole(&[Event::Reasoning(reasoning), Event::Text("a".into()), Event::Finish(Finish::Stop)]);
        let mut item = whole["output"][0].clone();
        item.as_object_mut().unwrap().remove("id");
        item
    };
    let signature = Some(Opaque::new("responses", "enc"));
    assert_eq!(
        item(Reasoning { text: "t".into(), signature: signature.clone(), redacted: false }),
        json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}], "encrypted_content": "enc"})
    );
    assert_eq!(
        item(Reasoning { text: "".into(), signature: signature.clone(), redacted: true }),
        json!({"type": "reasoning", "summary": [], "encrypted_content": "enc"})
    );
    assert_eq!(
        item(Reasoning { text: "".into(), signature, redacted: false })["summary"],
        json!([{"type": "summary_text", "text": ""}])
    );
}

#[test]
fn calls_of_custom_tools_and_of_namespaces_are_mapped_back() {
    let answering = Answering {
        stream: true,
        custom_tools: HashSet::from(["sql".to_owned()]),
        namespaced: vec![Namespaced {
            name: "n__f".to_owned(),
            namespace: "n".to_owned(),
            inner: "f".to_owned(),
        }],
        ..answering(&json!({}))
    };
    let stream = plain(&written(
        &answering,
        &[
            call(0, "c0", "sql", Runner::Client),
            arguments(0, "{\"inp"),
            arguments(0, "ut\":\"SEL"),
            arguments(0, "\\n1\"}"),
            end(0),
            call(1, "c1", "n__f", Runner::Client),
            end(1),
            Event::Finish(Finish::Calls),
        ],
    ));
    let answer = of_stream(stream.as_bytes());
    assert_eq!(answer.named_calls(), [("sql", "SEL\n1"), ("f", "{}")]);
    let done = data_of(&stream, "output_item.done");
    let done: Vec<Value> = done.into_iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    assert_eq!(
        [&done[0]["item"], &done[1]["item"]],
        [
            &json!({"id": "ctc_ID_0", "type": "custom_tool_call", "status": "completed", "call_id": "c0", "name": "sql", "input": "SEL\n1"}),
            &json!({"id": "fc_ID_1", "type": "function_call", "status": "completed", "call_id": "c1", "name": "f", "namespace": "n", "arguments": "{}"}),
        ]
    );
    assert_eq!(data_of(&stream, "custom_tool_call_input.delta").len(), 2);
}

#[test]
fn truncated_responses_are_incomplete() {
    let events = [
        Event::Text("a".into()),
        call(0, "c0", "f", Runner::Client),
        arguments(0, "{\"x"),
        Event::CallEnd { index: 0, end: CallEnd::Cut },
        Event::Finish(Finish::Length),
    ];
    let response = whole(&events);
    assert_eq!(
        (&response["status"], &response["incomplete_details"]),
        (&json!("incomplete"), &json!({"reason": "max_output_tokens"}))
    );
    assert_eq!(response["output"][1]["status"], "incomplete");
    assert_eq!(of_stream(streamed(&events).as_bytes()).finish.as_deref(), Some("length"));
    let events = [Event::Text("a".into()), Event::Finish(Finish::Filter)];
    let response = whole(&events);
    assert_eq!(
        (&response["incomplete_details"]["reason"], &response["output"][0]["status"]),
        (&json!("content_filter"), &json!("incomplete"))
    );
}

#[test]
fn failures_are_raised_by_all_clients_and_leave_calls_open() {
    let failure = Failure::new(Kind::Truncated, "cut \"off\"");
    let mut writer = ClientDialect::Responses.side().writer(&answering(&json!({"stream": true})));
    let mut out = BytesMut::new();
    for event in [call(0, "c0", "f", Runner::Client), Event::Text("a".into()), arguments(0, "{\"x")] {
        writer.event(&event, &mut out);
    }
    writer.fail(&failure, &mut out);
    let stream = String::from_utf8(out.to_vec()).unwrap();
    let answer = of_stream(stream.as_bytes());
    let error = answer.error.unwrap();
    assert_eq!((&error["message"], &error["code"]), (&json!("cut \"off\""), &json!("upstream_truncated")));
    let failed: Value = serde_json::from_str(data_of(&stream, "response.failed")[0]).unwrap();
    let response = &failed["response"];
    assert_eq!(response["error"], json!({"code": "upstream_truncated", "message": "cut \"off\""}));
    assert_eq!(response["output"].as_array().unwrap().len(), 1, "only the message, which is incomplete");
    assert_eq!((&response["output"][0]["status"], &response["usage"]), (&json!("incomplete"), &Value::Null));
    assert!(!stream.contains("function_call_arguments.done"));
}

#[test]
fn failure_before_the_first_content_follows_the_first_events() {
    let mut writer = ClientDialect::Responses.side().writer(&answering(&json!({"stream": true})));
    let mut out = BytesMut::new();
    writer.keep_alive(&mut out);
    assert_eq!(out, ": keep-alive\n\n");
    out.clear();
    writer.fail(&Failure::new(Kind::Internal, "why"), &mut out);
    let stream = String::from_utf8(out.to_vec()).unwrap();
    assert_eq!(kinds(&stream), ["created", "in_progress", "failed"]);
    assert_eq!(of_stream(stream.as_bytes()).error.unwrap()["code"], "server_error");
    let body = ClientDialect::Responses.side().error_body(&Failure::new(Kind::RateLimit, "slow"));
    let error = of_body(&body, 429).error.unwrap();
    assert_eq!((&error["type"], &error["code"]), (&json!("rate_limit_error"), &json!("rate_limit_exceeded")));
}

#[test]
fn response_repeats_the_request() {
    let request = json!({
        "instructions": "be brief",
        "tools": [{"type": "function", "name": "a"}, {"type": "file_search"}],
        "tool_choice": {"type": "function", "name": "a"},
        "parallel_tool_calls": false,
        "temperature": 0.25,
        "top_p": 1,
        "metadata": {"k": "v"},
        "store": false,
        "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_object"}},
        "max_output_tokens": 9,
    });
    let answering = Answering { left_out: vec!["file_search".to_owned()], ..answering(&request) };
    let response: Value = serde_json::from_str(&written(&answering, &[Event::Finish(Finish::Stop)])).unwrap();
    for (key, value) in request.as_object().unwrap() {
        if key != "metadata" {
            assert_eq!(&response[key], value, "{key}");
        }
    }
    assert_eq!(response["metadata"], json!({"k": "v", "toolwire_ignored_tools": "file_search"}));
    assert_eq!((&response["output"], &response["truncation"]), (&json!([]), &json!("disabled")));
}

#[test]
fn piece_of_text_is_written_as_it_comes() {
    let mut writer = ClientDialect::Responses.side().writer(&answering(&json!({"stream": true})));
    let mut out = BytesMut::new();
    for text in ["a", "b"] {
        writer.event(&Event::Text(text.into()), &mut out);
        let stream = std::str::from_utf8(&out).unwrap();
        assert!(
            stream.trim_end().rsplit_once("data: ").unwrap().1.contains(&format!("\"delta\":\"{text}\""))
        );
    }
}

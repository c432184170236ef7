//! Requests and responses of clients that speak Google's Interactions API.

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};
use toolwire::{
    conversation::{Conversation, Part, Role, ToolChoice},
    dialect::{Answering, ClientDialect, Dialect, Stamp, UpstreamDialect, fitted},
    event::{Annotation, CallEnd, CallStart, Event, Finish, Media, Opaque, Reasoning, Runner, Source, Usage},
    failure::{Failure, Kind},
    rules::Rules,
};

use crate::support::{
    exchange::{Exchange, request as chat_request, tools},
    interactions,
    upstream::Speech,
};

const CLIENT: ClientDialect = ClientDialect::Interactions;

const STAMP: Stamp = Stamp { seed: 11, created: 1_700_000_000 };

fn request(members: Value) -> Value {
    let mut body = json!({"model": "m", "input": "hi"});
    for (key, value) in members.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

fn decoded(members: Value) -> Result<Conversation, Failure> {
    CLIENT.side().decode(request(members).to_string().as_bytes())
}

/// The body of the request to an upstream of `dialect`.
fn sent(members: Value, dialect: Dialect) -> Value {
    let upstream = UpstreamDialect::try_from(dialect).unwrap();
    let conversation = decoded(members).unwrap();
    let fitted = fitted(&conversation, Dialect::Interactions, upstream.side()).unwrap();
    serde_json::from_slice(&upstream.side().encode(&fitted, "m").body).unwrap()
}

/// A conversation with all kinds of steps, including a mixed history: a message as before May 2026, and a content.
fn history() -> Value {
    json!([
        {"role": "user", "content": "one"},
        {"type": "text", "text": "two"},
        {"type": "thought", "signature": "c2ln", "summary": [{"type": "text", "text": "Hm."}]},
        {"type": "model_output", "content": [{"type": "text", "text": "Let me look."}]},
        {"type": "function_call", "id": "c1", "name": "f", "arguments": {"q": "x"}, "signature": "Y2FsbA=="},
        {"type": "function_call", "id": "c2", "name": "g", "arguments": {}},
        {"type": "function_result", "call_id": "c2", "name": "g", "result": {"a": [1]}, "is_error": true},
        {"type": "function_result", "call_id": "c1", "result": [
            {"type": "text", "text": "seen"}, {"type": "image", "mime_type": "image/png", "data": "iVBORw0KGgo="},
        ]},
        {"type": "user_input", "content": [
            {"type": "text", "text": "And this?"}, {"type": "image", "uri": "https://x/i.png"},
        ]},
    ])
}

#[test]
fn steps_become_turns() {
    let tools = json!([
        {"type": "function", "name": "f", "description": "F", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}},
        {"type": "function", "name": "g"},
    ]);
    let members = json!({"system_instruction": "Be kind.", "input": history(), "tools": tools});
    let conversation = decoded(members.clone()).unwrap();
    let roles: Vec<_> = conversation.turns.iter().map(|turn| turn.role).collect();
    assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::Tool, Role::Tool, Role::User]);
    let Part::Reasoning { text, signature: Some(signature), redacted: false } =
        &conversation.turns[2].parts[0]
    else {
        panic!("{:?}", conversation.turns[2]);
    };
    assert_eq!((text.as_str(), signature), ("Hm.", &Opaque::new("gemini", "c2ln".to_owned())));
    let chat = sent(members.clone(), Dialect::Chat);
    let said = chat["messages"].as_array().unwrap();
    assert_eq!(said[0], json!({"role": "system", "content": "Be kind."}));
    assert_eq!(said[2]["tool_calls"][0]["function"], json!({"name": "f", "arguments": "{\"q\":\"x\"}"}));
    let results: Vec<_> = said[3..5].iter().map(|said| (&said["tool_call_id"], &said["content"])).collect();
    assert_eq!(results[0], (&json!("c2"), &json!("{\"a\":[1]}")));
    assert_eq!(results[1].0, "c1");
    assert!(said[5..].iter().any(|said| said.to_string().contains("https://x/i.png")), "{chat}");
    let gemini = sent(members, Dialect::Gemini);
    let parts = gemini["contents"][1]["parts"].as_array().unwrap();
    let call = parts.iter().find(|part| part["functionCall"]["name"] == "f").unwrap();
    assert_eq!(call["thoughtSignature"], "Y2FsbA==", "{gemini}");
}

#[test]
fn configuration_is_read() {
    let chat = sent(
        json!({
            "model": "models/x",
            "input": {"type": "text", "text": "hi"},
            "generation_config": {
                "max_output_tokens": 5, "temperature": 0.5, "top_p": 0.25, "seed": 7, "stop_sequences": ["."],
                "thinking_level": "low",
            },
            "response_format": [{"type": "text", "mime_type": "application/json", "schema": {"type": "object"}}],
        }),
        Dialect::Chat,
    );
    assert_eq!(chat["messages"], json!([{"role": "user", "content": "hi"}]));
    for (key, value) in [
        ("temperature", json!(0.5)),
        ("top_p", json!(0.25)),
        ("seed", json!(7)),
        ("stop", json!(["."])),
        ("reasoning_effort", json!("low")),
    ] {
        assert_eq!(chat[key], value, "{key}");
    }
    assert_eq!(chat["response_format"]["json_schema"]["schema"], json!({"type": "object"}));
    for (format, kind) in [
        (json!({"type": "text", "mime_type": "text/plain"}), json!(null)),
        (json!({"type": "text", "mime_type": "application/json"}), json!("json_object")),
        (json!({"type": "object", "properties": {}}), json!("json_schema")),
    ] {
        let chat = sent(json!({"response_format": format}), Dialect::Chat);
        assert_eq!(chat["response_format"]["type"], kind, "{format}");
    }
    let names = || vec!["f".to_owned(), "g".to_owned()];
    for (given, choice) in [
        (json!("auto"), ToolChoice::Auto),
        (json!("any"), ToolChoice::Required),
        (json!("none"), ToolChoice::None),
        (json!({"allowed_tools": {"mode": "any", "tools": ["f"]}}), ToolChoice::Named("f".to_owned())),
        (
            json!({"allowed_tools": {"mode": "any", "tools": ["f", "g"]}}),
            ToolChoice::Allowed { names: names(), required: true },
        ),
        (
            json!({"allowed_tools": {"mode": "validated", "tools": ["f", "g"]}}),
            ToolChoice::Allowed { names: names(), required: false },
        ),
    ] {
        let tools = json!([{"type": "function", "name": "f"}, {"type": "function", "name": "g"}]);
        let conversation =
            decoded(json!({"tools": tools, "generation_config": {"tool_choice": given}})).unwrap();
        assert_eq!(conversation.tool_choice, choice, "{given}");
    }
}

#[test]
fn invalid_requests_are_refused_with_the_place() {
    for (members, param) in [
        (json!({"input": null}), "input"),
        (json!({"input": 5}), "input"),
        (json!({"input": [5]}), "input[0]"),
        (json!({"input": [{"content": "x"}]}), "input[0].type"),
        (
            json!({"input": [{"type": "user_input", "content": [{"type": "text", "text": 1}]}]}),
            "input[0].content[0].text",
        ),
        (json!({"input": [{"type": "function_call", "name": "f"}]}), "input[0].id"),
        (
            json!({"input": [{"type": "function_call", "id": "a", "name": "f", "arguments": "{}"}]}),
            "input[0].arguments",
        ),
        (json!({"input": [{"type": "function_result", "result": "x"}]}), "input[0].call_id"),
        (json!({"Input": "x"}), "Input"),
        (json!({"stream": "yes"}), "stream"),
        (json!({"system_instruction": ["x"]}), "system_instruction"),
        (json!({"tools": {}}), "tools"),
        (json!({"tools": [{"name": "f"}]}), "tools[0].type"),
        (json!({"tools": [{"type": "function", "name": "f", "parameters": []}]}), "tools[0].parameters"),
        (json!({"tools": [{"type": "function", "name": "f"}, {"type": "function", "name": "f"}]}), "tools"),
        (json!({"generation_config": []}), "generation_config"),
        (json!({"generation_config": {"top_p": "x"}}), "generation_config.top_p"),
        (json!({"generation_config": {"tool_choice": "must"}}), "generation_config.tool_choice"),
        (json!({"response_format": "json"}), "response_format"),
        (json!({"response_format": [{"type": "text"}, {"type": "text"}]}), "response_format"),
        (json!({"response_format": {"type": "audio"}}), "response_format"),
        (json!({"response_modalities": ["text", "image"]}), "response_modalities"),
        (json!({"agent": "deep-research"}), "agent"),
        (json!({"background": true}), "background"),
        (json!({"cached_content": "c"}), "cached_content"),
        (json!({"continuation_token": "t"}), "continuation_token"),
        (json!({"environment": "e"}), "environment"),
    ] {
        let failure = decoded(members.clone()).expect_err(&members.to_string());
        assert_eq!((failure.kind(), failure.param()), (Kind::Request, Some(param)), "{members}: {failure}");
    }
    assert!(decoded(json!({"previous_interaction_id": ""})).is_ok());
    let failure = decoded(json!({"previous_interaction_id": "v1_x".repeat(1000)})).unwrap_err();
    assert_eq!((failure.kind(), failure.param()), (Kind::NotFound, Some("previous_interaction_id")));
    assert!(failure.message().len() < 300, "{failure}");
}

/// Steps and contents that an SDK adds later, or that Google's servers have made, do not fail a request for another upstream.
#[test]
fn unknown_steps_and_members_are_left_out() {
    let members = json!({
        "input": [
            {"type": "text", "text": "hi", "new": {}},
            {"type": "google_search_call", "id": "s", "arguments": {"queries": ["q"]}},
            {"type": "google_search_result", "call_id": "s", "result": []},
            {"type": "model_output", "content": [{"type": "text", "text": "found"}], "error": null},
            {"type": "thought"},
            {"type": "user_input"},
            {"type": "user_input", "content": []},
            {"type": "user_input", "content": "more"},
        ],
        "safety_settings": [], "labels": {"a": "b"}, "new_member": 1, "background": false,
        "generation_config": {"image_config": {}, "thinking_summaries": "auto"},
        "tools": [{"type": "google_search"}, {"type": "code_execution"}],
    });
    for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Gemini, Dialect::Ollama] {
        let body = sent(members.clone(), dialect).to_string();
        assert!(body.contains("found") && body.contains("more"), "{dialect}: {body}");
        for word in ["google_search_call", "new_member", "labels", "image_config"] {
            assert!(!body.contains(word), "{dialect}: {body}");
        }
    }
}

#[test]
fn media_reach_the_upstreams_that_can_read_them() {
    let content = |kind: &str, members: Value| {
        let mut content = json!({"type": kind});
        content.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        json!({"input": [content]})
    };
    let pdf = content("document", json!({"data": "JVBERi0=", "mime_type": "application/pdf"}));
    let body = sent(pdf.clone(), Dialect::Chat);
    assert_eq!(
        body["messages"][0]["content"][0]["file"]["file_data"],
        "data:application/pdf;base64,JVBERi0="
    );
    let inline = json!({"mimeType": "application/pdf", "data": "JVBERi0="});
    assert_eq!(sent(pdf, Dialect::Gemini)["contents"][0]["parts"][0]["inlineData"], inline);
    let uri = "https://generativelanguage.googleapis.com/v1beta/files/x";
    let theirs = content("image", json!({"uri": uri, "mime_type": "image/png"}));
    let file = json!({"mimeType": "image/png", "fileUri": uri});
    assert_eq!(sent(theirs.clone(), Dialect::Gemini)["contents"][0]["parts"][0]["fileData"], file);
    let (conversation, chat) = (decoded(theirs).unwrap(), UpstreamDialect::try_from(Dialect::Chat).unwrap());
    assert!(fitted(&conversation, Dialect::Interactions, chat.side()).is_err());
}

/// A response with everything that the API can express.
fn events() -> Vec<Event<'static>> {
    let call = |index: u32, id: &'static str, name: &'static str| {
        Event::CallStart(CallStart {
            index,
            id: id.into(),
            name: name.into(),
            runner: Runner::Client,
            source: Source::Native,
            signature: None,
        })
    };
    vec![
        Event::Reasoning(Reasoning::text("Hm")),
        Event::Reasoning(Reasoning {
            signature: Some(Opaque::new("gemini", "c2ln".to_owned())),
            ..Reasoning::default()
        }),
        Event::Text("Hel".into()),
        Event::Text("lo".into()),
        Event::Annotation(Annotation { url: "https://x".into(), title: "X".into(), span: (0, 5) }),
        Event::Media(Media { id: "".into(), mime: "image/png".into(), data: "iVBORw0KGgo=".into() }),
        call(0, "c1", "f"),
        Event::CallArguments { index: 0, piece: "{\"q\":".into() },
        Event::CallArguments { index: 0, piece: " \"x\"}".into() },
        Event::CallEnd { index: 0, end: CallEnd::Complete },
        call(1, "c2", "g"),
        Event::CallEnd { index: 1, end: CallEnd::Complete },
        Event::Usage(Usage { input: Some(3), output: Some(9), reasoning: Some(2), ..Usage::default() }),
        Event::Finish(Finish::Calls),
    ]
}

/// What a client of this request gets, and what is stored.
fn written(members: Value, events: &[Event<'_>]) -> (String, Option<String>) {
    let conversation = decoded(members).unwrap();
    let mut writer = CLIENT.side().writer(&Answering::new(&conversation, STAMP));
    let mut out = BytesMut::new();
    for event in events {
        writer.event(event, &mut out);
    }
    writer.finish(&mut out);
    (String::from_utf8(out.to_vec()).unwrap(), writer.take_response())
}

#[test]
fn response_has_the_same_steps_streamed_and_whole() {
    let (stream, stored) = written(json!({"stream": true}), &events());
    let (whole, also_stored) = written(json!({}), &events());
    assert_eq!((stored.as_ref(), also_stored.as_ref()), (Some(&whole), Some(&whole)));
    let whole_json: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(
        whole_json["steps"],
        json!([
            {"type": "thought", "signature": "c2ln", "summary": [{"type": "text", "text": "Hm"}]},
            {"type": "model_output", "content": [
                {"type": "text", "text": "Hello", "annotations": [{"type": "url_citation", "url": "https://x", "title": "X"}]},
                {"type": "image", "mime_type": "image/png", "data": "iVBORw0KGgo="},
            ]},
            {"type": "function_call", "id": "c1", "name": "f", "arguments": {"q": "x"}},
            {"type": "function_call", "id": "c2", "name": "g", "arguments": {}},
        ])
    );
    assert_eq!(whole_json["status"], "requires_action");
    assert_eq!(
        whole_json["usage"],
        json!({"total_input_tokens": 3, "total_output_tokens": 7, "total_thought_tokens": 2, "total_tokens": 12})
    );
    let (mut streamed, mut read) =
        (interactions::of_stream(stream.as_bytes()), interactions::of_body(whole.as_bytes(), 200));
    assert!(streamed.done && !stream.rsplit_once("interaction.completed").unwrap().1.contains("\"steps\""));
    assert_eq!(streamed.calls[0].arguments, "{\"q\": \"x\"}", "as the model wrote them");
    for answer in [&mut streamed, &mut read] {
        answer.done = false;
        answer.calls[0].arguments = "{\"q\":\"x\"}".to_owned();
    }
    assert_eq!(streamed, read);
    let (unstored, none) = written(json!({"stream": true, "store": false}), &events());
    assert_eq!((unstored, none), (stream, None));
    let (quiet, _) = written(json!({"generation_config": {"thinking_summaries": "none"}}), &events());
    assert!(!quiet.contains("Hm") && quiet.contains("c2ln"), "{quiet}");
}

#[test]
fn broken_calls_are_said_to_be_broken() {
    for (end, arguments) in
        [(CallEnd::Cut, "{\"q\": 1"), (CallEnd::Broken, "{\"q\": x"), (CallEnd::Complete, "[1]")]
    {
        let start = |index: u32, id: &'static str| CallStart {
            index,
            id: id.into(),
            name: "f".into(),
            runner: Runner::Client,
            source: Source::Native,
            signature: None,
        };
        let events = [
            Event::CallStart(start(0, "c1")),
            Event::CallArguments { index: 0, piece: arguments.into() },
            Event::CallEnd { index: 0, end },
            Event::CallStart(start(1, "c2")),
            Event::CallEnd { index: 1, end: CallEnd::Complete },
            Event::Finish(Finish::Calls),
        ];
        let (stream, _) = written(json!({"stream": true}), &events);
        let (whole, _) = written(json!({}), &events);
        let stops = stream.matches("event: step.stop").count();
        assert_eq!(stops, 1, "{stream}");
        let whole_json: Value = serde_json::from_str(&whole).unwrap();
        assert_eq!(whole_json["status"], "incomplete");
        assert_eq!(whole_json["errors"][0]["code"], "malformed_function_call");
        assert_eq!(whole_json["toolwire"]["broken_calls"][0]["arguments"], arguments);
        assert_eq!(whole_json["steps"].as_array().unwrap().len(), 1);
        let answers =
            [interactions::of_stream(stream.as_bytes()), interactions::of_body(whole.as_bytes(), 200)];
        assert_eq!(answers[0].calls, answers[1].calls);
    }
}

#[test]
fn failed_stream_ends_with_an_error() {
    let conversation = decoded(json!({"stream": true})).unwrap();
    for begun in [false, true] {
        let mut writer = CLIENT.side().writer(&Answering::new(&conversation, STAMP));
        let mut out = BytesMut::new();
        if begun {
            writer.event(&Event::Text("Hel".into()), &mut out);
        }
        writer.fail(&Failure::new(Kind::Truncated, "the upstream ended early"), &mut out);
        let text = String::from_utf8(out.to_vec()).unwrap();
        assert!(
            !text.contains("completed") && !text.contains("[DONE]") && !text.contains("step.stop"),
            "{text}"
        );
        assert_eq!(interactions::of_stream(&out).error.unwrap()["code"], "upstream_truncated");
        assert_eq!(writer.take_response(), None);
    }
}

#[test]
fn history_of_a_stored_interaction_precedes_the_input() {
    let side = CLIENT.side();
    let body = |members: Value| Bytes::from(request(members).to_string());
    let (_, response) = written(json!({}), &events());
    let response = response.unwrap();
    let record =
        |members: Value| side.record(&side.record_input(&body(members)).unwrap(), &response).unwrap();
    let first = record(json!({"input": "one"}));
    let id = serde_json::from_str::<Value>(&response).unwrap()["id"].clone();
    assert_eq!(id, first.id);
    let joined = |members: Value, records: &[Option<Bytes>]| {
        let body = body(members);
        side.with_history(&body, &side.references(&body), records)
    };
    let result = json!([{"type": "function_result", "call_id": "c1", "result": "r1"}]);
    let records = [Some(first.value.clone())];
    let whole = joined(json!({"previous_interaction_id": id, "input": result}), &records).unwrap();
    let conversation = side.decode(&whole).unwrap();
    let roles: Vec<_> = conversation.turns.iter().map(|turn| turn.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool]);
    // The history is stored with the next interaction, too, and its response names this one.
    let input: Value = serde_json::from_slice(&side.record_input(&whole).unwrap()).unwrap();
    assert_eq!(input["steps"].as_array().unwrap().len(), 6);
    let mut writer = side.writer(&Answering::new(&conversation, STAMP));
    let mut out = BytesMut::new();
    writer.event(&Event::Finish(Finish::Stop), &mut out);
    writer.finish(&mut out);
    assert_eq!(serde_json::from_slice::<Value>(&out).unwrap()["previous_interaction_id"], id);
    // Without input, and with hostile members that name a history.
    assert!(joined(json!({"previous_interaction_id": id, "input": null}), &records).is_ok());
    let hostile = json!({"previous_interaction_id": id, "toolwire_previous_interaction_id": "v1_evil"});
    assert!(!joined(hostile, &records).unwrap().windows(7).any(|part| part == b"v1_evil"));
    // Records of other dialects, and none.
    for other in [None, Some(Bytes::from(r#"{"input":[],"response":{"steps":[]}}"#)), Some(Bytes::from("{"))]
    {
        let failure = joined(json!({"previous_interaction_id": id}), &[other]).unwrap_err();
        assert_eq!(failure.kind(), Kind::NotFound);
    }
    let shown =
        |query| serde_json::from_slice::<Value>(&side.stored_response(&first.value, query).unwrap()).unwrap();
    assert_eq!(shown(None), serde_json::from_str::<Value>(&response).unwrap());
    assert_eq!(shown(Some("include_input=true"))["input"], json!([{"type": "text", "text": "one"}]));
    assert!(side.stored_response(br#"{"input":[],"response":{"output":[]}}"#, None).is_none());
}

#[test]
fn truncated_stream_never_looks_complete() {
    let bytes = Speech::Chat
        .says(&["Ok. <tool_call>", "{\"name\":\"a\",\"argu", "ments\":{\"x\":1}}</tool_call> é"], "stop");
    let fields = json!({"tools": tools(["a"], &Value::Null)});
    let mut exchange = Exchange::new(chat_request(&fields), Rules::default(), Speech::Chat);
    exchange.client = CLIENT;
    let (whole, _) = exchange.at_every_cut("a call", &bytes);
    assert_eq!((whole.calls.len(), whole.error.as_ref()), (1, None));
    let end = bytes.windows(6).position(|part| part == b"\"stop\"").unwrap();
    for at in 0..end {
        let (answer, _) = exchange.run([&bytes[..at]]);
        assert!(answer.error.is_some() && answer.finish.is_none(), "{at}");
    }
}

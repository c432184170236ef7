//! Tests Messages clients: how their requests are decoded, and exactly which events they get. [`reader`] and
//! [`requests`] test Messages upstreams, [`threads`] what toolwire holds for clients.

mod built_in;
mod reader;
mod requests;
mod threads;

use bytes::BytesMut;
use serde_json::{Value, json};
use toolwire::{
    conversation::{Call, CallOutput, Conversation, Part, Role, ToolChoice},
    dialect::{Answering, ClientDialect, Stamp},
    event::{
        Annotation, CallEnd, CallStart, Event, Finish, Opaque, Reasoning, Runner, ServerCall, Source, Start,
        Usage, Warning,
    },
    failure::{Failure, Kind},
};

fn decode(fields: Value) -> Result<Conversation, Failure> {
    let mut body = json!({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "?"}]});
    for (key, value) in fields.as_object().unwrap() {
        body[key] = value.clone();
    }
    ClientDialect::Messages.side().decode(body.to_string().as_bytes())
}

fn turns(messages: Value) -> Vec<(Role, Vec<Part>)> {
    let conversation = decode(json!({ "messages": messages })).unwrap();
    conversation.turns.into_iter().map(|turn| (turn.role, turn.parts)).collect()
}

fn text(text: &str) -> Part {
    Part::Text(text.into())
}

fn result(id: &str, content: &str, is_error: bool) -> Part {
    Part::Result(CallOutput { id: id.to_owned(), name: String::new(), content: content.to_owned(), is_error })
}

#[test]
fn a_tool_loop_is_decoded_to_turns() {
    let loop_ = turns(json!([
        {"role": "user", "content": "weather?"},
        {"role": "system", "content": "be brief"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s1"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Oslo", "n": 1.50}},
            {"type": "tool_use", "id": "t2", "name": "now", "input": {}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": [
                {"type": "text", "text": "sunny"}, {"type": "text", "text": "warm"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
            ]},
            {"type": "tool_result", "tool_use_id": "t2", "is_error": true, "content": "no clock"},
            {"type": "text", "text": "and now?"},
            {"type": "image", "source": {"type": "url", "url": "https://a/b.png"}},
        ]},
    ]));
    let image = |url: &str| Part::Image { url: url.to_owned(), detail: None };
    let call = |id: &str, name: &str, arguments: &str| Part::Call(Call::new(id, name, arguments));
    let thinking = Part::Reasoning {
        text: "hm".to_owned(),
        signature: Some(Opaque::new("messages", "s1")),
        redacted: false,
    };
    assert_eq!(
        loop_,
        [
            (Role::User, vec![text("weather?")]),
            (Role::System, vec![text("be brief")]),
            (
                Role::Assistant,
                vec![
                    thinking,
                    text("I look."),
                    call("t1", "get_weather", r#"{"city":"Oslo","n":1.5}"#),
                    call("t2", "now", "{}"),
                ]
            ),
            (Role::Tool, vec![result("t1", "sunny\nwarm", false), image("data:image/png;base64,AAAA")]),
            (Role::Tool, vec![result("t2", "no clock", true)]),
            (Role::User, vec![text("and now?"), image("https://a/b.png")]),
        ]
    );
}

#[test]
fn blocks_of_other_kinds_are_kept_for_upstreams_of_this_dialect() {
    let document = json!({"type": "document", "source": {"type": "text", "data": "x"}});
    let conversation =
        decode(json!({"messages": [{"role": "user", "content": [document, {"type": "text", "text": "?",
            "cache_control": {"type": "ephemeral"}}]}]}))
        .unwrap();
    let [turn] = conversation.turns.as_slice() else { panic!("{:?}", conversation.turns) };
    let [Part::Other(other), Part::Text(_)] = turn.parts.as_slice() else { panic!("{:?}", turn.parts) };
    assert_eq!((other.from_dialect("messages"), other.from_dialect("chat")), (Some(&document), None));
    let kept = turn.rest.from_dialect("messages").unwrap();
    assert_eq!(kept["content"][1]["cache_control"]["type"], "ephemeral");
}

#[test]
fn settings_and_tools_are_decoded() {
    let conversation = decode(json!({
        "system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "b"}],
        "stream": true,
        "stop_sequences": ["END"],
        "temperature": 0.2,
        "top_k": 5,
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        "metadata": {"user_id": "u"},
        "tools": [
            {"name": "a", "description": "d", "input_schema": {"type": "object"}, "strict": true},
            {"type": "custom", "name": "b", "input_schema": {"type": "object"}},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
        ],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
    }))
    .unwrap();
    assert_eq!(conversation.turns[0].parts, [text("a"), text("b")]);
    assert_eq!(conversation.turns[0].role, Role::System);
    let names: Vec<_> = conversation.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!((names.as_slice(), conversation.tools[0].strict), (["a", "b"].as_slice(), Some(true)));
    assert_eq!((&conversation.tool_choice, conversation.parallel_calls), (&ToolChoice::Required, false));
    let sampling = &conversation.sampling;
    assert_eq!((sampling.max_tokens, sampling.stop.as_slice()), (Some(5), ["END".to_owned()].as_slice()));
    assert_eq!(sampling.reasoning_effort.as_deref(), Some("high"));
    assert_eq!(sampling.response_format.as_ref().unwrap()["json_schema"]["schema"]["type"], "object");
    assert!(conversation.stream && conversation.include_usage);
    let rest = conversation.rest.from_dialect("messages").unwrap();
    let keys: Vec<_> = rest.keys().map(String::as_str).collect();
    assert_eq!(keys, ["top_k", "thinking", "metadata", "tools"]);
    assert_eq!(rest["tools"].as_array().unwrap().len(), 1, "a tool that only this API has");
    let named = decode(json!({"tools": [{"name": "a", "input_schema": {}}],
        "tool_choice": {"type": "tool", "name": "a"}}));
    assert_eq!(named.unwrap().tool_choice, ToolChoice::Named("a".to_owned()));
}

#[test]
fn errors_name_the_field() {
    for (fields, param, part) in [
        (json!({"messages": []}), "messages", "at least one message"),
        (json!({"messages": [{"role": "tool", "content": "x"}]}), "messages[0].role", "`tool`"),
        (json!({"messages": [{"role": "user"}]}), "messages[0].content", "missing"),
        (json!({"messages": [{"role": "user", "content": 1}]}), "messages[0].content", "the number 1"),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "text"}]}]}),
            "messages[0].content[0].text",
            "missing",
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}),
            "messages[0].content[0].tool_use_id",
            "missing",
        ),
        (
            json!({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "a", "input": "{}"}]}]}),
            "messages[0].content[0].input",
            "an object",
        ),
        (json!({"max_tokens": 0}), "max_tokens", "at least 1"),
        (json!({"max_tokens": "5"}), "max_tokens", "a string"),
        (json!({"system": [{"type": "image", "source": {"type": "url", "url": "u"}}]}), "system[0]", "text"),
        (json!({"tools": [{"name": "a\nb", "input_schema": {}}]}), "tools[0].name", "control"),
        (json!({"tools": [{"name": "a", "input_schema": []}]}), "tools[0].input_schema", "an array"),
        (json!({"tools": [{"name": "a"}, {"name": "a"}]}), "tools", "twice"),
        (json!({"tool_choice": {"type": "any"}}), "tool_choice", "no tools"),
        (json!({"tool_choice": {"type": "required"}}), "tool_choice.type", "`required`"),
        (json!({"tool_choice": "auto"}), "tool_choice", "an object"),
        (
            json!({"tools": [{"name": "a"}], "tool_choice": {"type": "tool", "name": "b"}}),
            "tool_choice",
            "`b`",
        ),
        (json!({"stop_sequences": [1]}), "stop_sequences[0]", "a string"),
    ] {
        let failure = decode(fields.clone()).expect_err(&fields.to_string());
        assert_eq!((failure.kind(), failure.param()), (Kind::Request, Some(param)), "{fields}");
        assert!(failure.message().contains(part), "{}", failure.message());
    }
}

fn written(stream: bool, events: &[Event<'_>]) -> String {
    let conversation = Conversation { model: "m".to_owned(), stream, ..Conversation::default() };
    let answering = Answering::new(&conversation, Stamp { seed: 1, created: 2 });
    let mut writer = ClientDialect::Messages.side().writer(&answering);
    let mut out = BytesMut::new();
    events.iter().for_each(|event| writer.event(event, &mut out));
    writer.finish(&mut out);
    String::from_utf8(out.to_vec()).unwrap()
}

fn call(index: u32, id: &'static str, name: &'static str, runner: Runner) -> Event<'static> {
    let (id, name) = (id.into(), name.into());
    Event::CallStart(CallStart { index, id, name, runner, source: Source::Native, signature: None })
}

fn arguments(index: u32, piece: &'static str) -> Event<'static> {
    Event::CallArguments { index, piece: piece.into() }
}

fn end(index: u32) -> Event<'static> {
    Event::CallEnd { index, end: CallEnd::Complete }
}

/// A response with every kind of content that a Messages client can receive.
fn response() -> Vec<Event<'static>> {
    let search = ServerCall {
        id: "s1".into(),
        name: "web_search".into(),
        runner: Runner::Upstream,
        server: "".into(),
        arguments: Some(r#"{"query":"q"}"#.into()),
        content: Some(r#"{"results":[{"url":"https://a","title":"A","snippet":"x"}]}"#.into()),
        details: None,
        is_error: false,
        approval: "".into(),
    };
    let weather = ServerCall {
        id: "s2".into(),
        name: "weather".into(),
        runner: Runner::Upstream,
        server: "".into(),
        arguments: None,
        content: Some("rain".into()),
        details: None,
        is_error: true,
        approval: "".into(),
    };
    vec![
        Event::Start(Start { id: "msg_u".into(), model: "claude".into(), created: None }),
        Event::Ping("".into()),
        Event::Reasoning(Reasoning::text("h\nm")),
        Event::Reasoning(Reasoning {
            signature: Some(Opaque::new("messages", "sig")),
            ..Reasoning::text("")
        }),
        Event::Text("a\"".into()),
        Event::Text("b".into()),
        Event::Annotation(Annotation { url: "https://a".into(), title: "A".into(), span: (0, 1) }),
        Event::from(search),
        Event::from(weather),
        call(0, "t0", "f", Runner::Client),
        arguments(0, "{\"x\""),
        call(1, "t1", "g", Runner::Client),
        arguments(0, ":1}"),
        end(0),
        end(1),
        Event::Warning(Warning { code: "required_call_missing", message: "w".into() }),
        Event::Finish(Finish::Calls),
        Event::Usage(Usage {
            input: Some(10),
            output: Some(3),
            cached: Some(4),
            cache_written: Some(1),
            ..Usage::default()
        }),
    ]
}

#[test]
fn the_events_of_a_response() {
    let expected = [
        r#"message_start {"type":"message_start","message":{"id":"msg_u","type":"message","role":"assistant","model":"claude","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"output_tokens":0}}}"#,
        r#"content_block_start {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        r#"content_block_delta {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"h\nm"}}"#,
        r#"content_block_delta {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig"}}"#,
        r#"content_block_stop {"type":"content_block_stop","index":0}"#,
        r#"content_block_start {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
        r#"content_block_delta {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a\""}}"#,
        r#"content_block_delta {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"b"}}"#,
        r#"content_block_delta {"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"type":"web_search_result_location","url":"https://a","title":"A","cited_text":"","encrypted_index":""}}}"#,
        r#"content_block_stop {"type":"content_block_stop","index":1}"#,
        r#"content_block_start {"type":"content_block_start","index":2,"content_block":{"type":"server_tool_use","id":"srvtoolu_toolwire_s1","name":"web_search","input":{"query":"q"}}}"#,
        r#"content_block_stop {"type":"content_block_stop","index":2}"#,
        r#"content_block_start {"type":"content_block_start","index":3,"content_block":{"type":"web_search_tool_result","tool_use_id":"srvtoolu_toolwire_s1","content":[{"type":"web_search_result","url":"https://a","title":"A","encrypted_content":"","page_age":null}]}}"#,
        r#"content_block_stop {"type":"content_block_stop","index":3}"#,
        r#"content_block_start {"type":"content_block_start","index":4,"content_block":{"type":"mcp_tool_result","tool_use_id":"mcptoolu_toolwire_s2","is_error":true,"content":[{"type":"text","text":"rain"}]}}"#,
        r#"content_block_stop {"type":"content_block_stop","index":4}"#,
        r#"content_block_start {"type":"content_block_start","index":5,"content_block":{"type":"tool_use","id":"t0","name":"f","input":{}}}"#,
        r#"content_block_delta {"type":"content_block_delta","index":5,"delta":{"type":"input_json_delta","partial_json":"{\"x\""}}"#,
        r#"content_block_delta {"type":"content_block_delta","index":5,"delta":{"type":"input_json_delta","partial_json":":1}"}}"#,
        r#"content_block_stop {"type":"content_block_stop","index":5}"#,
        r#"content_block_start {"type":"content_block_start","index":6,"content_block":{"type":"tool_use","id":"t1","name":"g","input":{}}}"#,
        r#"content_block_stop {"type":"content_block_stop","index":6}"#,
        r#"message_delta {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":5,"output_tokens":3,"cache_read_input_tokens":4,"cache_creation_input_tokens":1,"server_tool_use":{"web_search_requests":1}},"toolwire":{"warnings":[{"code":"required_call_missing","message":"w"}]}}"#,
        r#"message_stop {"type":"message_stop"}"#,
    ];
    let expected = expected.map(|event| format!("event: {}\n\n", event.replacen(' ', "\ndata: ", 1)));
    assert_eq!(written(true, &response()), expected.concat());
}

#[test]
fn a_whole_response() {
    let message: Value = serde_json::from_str(&written(false, &response())).unwrap();
    let kinds: Vec<_> = message["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(
        kinds,
        [
            "thinking",
            "text",
            "server_tool_use",
            "web_search_tool_result",
            "mcp_tool_result",
            "tool_use",
            "tool_use"
        ]
    );
    assert_eq!(message["content"][0], json!({"type": "thinking", "thinking": "h\nm", "signature": "sig"}));
    assert_eq!(
        message["content"][5],
        json!({"type": "tool_use", "id": "t0", "name": "f", "input": {"x": 1}})
    );
    assert_eq!(message["content"][6]["input"], json!({}));
    assert_eq!((&message["id"], &message["model"]), (&json!("msg_u"), &json!("claude")));
    assert_eq!((&message["stop_reason"], &message["usage"]["input_tokens"]), (&json!("tool_use"), &json!(5)));
    assert_eq!(message["toolwire"]["warnings"][0]["code"], "required_call_missing");
}

/// Law 7: clients run calls without checking the stop reason.
#[test]
fn a_call_that_was_cut_off_has_no_object_as_input() {
    let events = [
        call(0, "t0", "f", Runner::Client),
        arguments(0, "{\"x\":\"ab"),
        Event::CallEnd { index: 0, end: CallEnd::Cut },
        Event::Finish(Finish::Length),
    ];
    let message: Value = serde_json::from_str(&written(false, &events)).unwrap();
    assert_eq!(message["content"][0]["input"], "{\"x\":\"ab");
    assert_eq!(message["stop_reason"], "max_tokens");
}

#[test]
fn errors_have_the_types_of_the_api() {
    for (kind, name) in [
        (Kind::Request, "invalid_request_error"),
        (Kind::Unauthorized, "authentication_error"),
        (Kind::Forbidden, "permission_error"),
        (Kind::NotFound, "not_found_error"),
        (Kind::TooLarge, "request_too_large"),
        (Kind::RateLimit, "rate_limit_error"),
        (Kind::Overloaded, "overloaded_error"),
        (Kind::Timeout, "timeout_error"),
        (Kind::Truncated, "api_error"),
    ] {
        let body = ClientDialect::Messages.side().error_body(&Failure::new(kind, "why"));
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body, json!({"type": "error", "error": {"type": name, "message": "why"}}));
    }
}

//! Tests how conversations become requests, with the conformance cases and some others.

use serde_json::{Map, Value, json};
use toolwire::{
    conversation::{
        Call, CallOutput, Conversation, Part, Received, Rest, Role, Sampling, Tool, ToolChoice, Turn,
    },
    dialect::lumo::{Options, Version, encode},
};

use crate::lumo::cases::cases;

fn conversation(case: &Value) -> Conversation {
    let request = &case["req"];
    let tools = request["tools"].as_array().into_iter().flatten().map(|name| Tool {
        name: name.as_str().expect("a name").to_owned(),
        description: String::new(),
        parameters: None,
        strict: None,
        declared: None,
    });
    let number = |key: &str| request[key].as_number().cloned();
    Conversation {
        model: "lumo".to_owned(),
        turns: case["messages"].as_array().into_iter().flatten().map(turn).collect(),
        tools: tools.collect(),
        parallel_calls: true,
        sampling: Sampling {
            max_tokens: request["max_tokens"].as_u64(),
            temperature: number("temperature"),
            seed: number("seed"),
            reasoning_effort: request["reasoning_effort"].as_str().map(str::to_owned),
            ..Sampling::default()
        },
        ..Conversation::default()
    }
}

fn turn(message: &Value) -> Turn {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let role = match message["role"].as_str() {
        Some("system") => Role::System,
        Some("developer") => Role::Developer,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        _ => Role::User,
    };
    let mut parts = Vec::new();
    if role == Role::Tool {
        let id = text(&message["tool_call_id"]);
        let content = text(&message["content"]);
        parts.push(Part::Result(CallOutput { id, name: String::new(), content, is_error: false }));
    } else if message["content"].is_string() {
        parts.push(Part::Text(text(&message["content"]).into()));
    }
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let function = &call["function"];
        parts.push(Part::Call(Call::new(
            text(&call["id"]),
            text(&function["name"]),
            text(&function["arguments"]),
        )));
    }
    Turn { role, parts, rest: Rest::default() }
}

fn options(version: Version) -> Options {
    Options { version, native_tools: vec!["proton_info".to_owned()], ..Options::default() }
}

fn encoded(conversation: &Conversation, version: Version) -> (Value, Vec<String>) {
    let request = encode(conversation, &conversation.model, &options(version));
    (serde_json::from_slice(&request.body).expect("a JSON body"), request.dropped)
}

fn turns_of(body: &Value) -> Value {
    let messages = body["messages"].as_array().into_iter().flatten();
    messages.map(|message| json!([message["role"], message["content"]])).collect()
}

#[test]
fn conversations_are_encoded_as_in_the_cases() {
    let mut run = 0;
    for case in cases() {
        let id = case["id"].as_str().expect("an id");
        let other_stage =
            case["u2l"] == true || case["mode"].as_str().is_some_and(|it| it.starts_with("text"));
        if !id.starts_with('C') || other_stage || case["messages"].is_null() {
            continue;
        }
        println!("{id}");
        let (body, _) = encoded(&conversation(&case), Version::V2);
        if !case["upstream_turns"].is_null() {
            assert_eq!(turns_of(&body), case["upstream_turns"], "turns of {id}");
        }
        for (key, value) in case["upstream_has"].as_object().into_iter().flatten() {
            assert_eq!(&body[key], value, "{key} of {id}");
        }
        run += 1;
    }
    assert!(run >= 4, "only {run} cases");
}

fn with_turns(turns: Vec<Turn>) -> Conversation {
    Conversation { model: "lumo-max".to_owned(), turns, parallel_calls: true, ..Conversation::default() }
}

fn call(id: &str, arguments: &str) -> Part {
    Part::Call(Call::new(id, "a", arguments))
}

fn result(id: &str, content: &str) -> Turn {
    let output =
        CallOutput { id: id.to_owned(), name: String::new(), content: content.to_owned(), is_error: false };
    Turn { role: Role::Tool, parts: vec![Part::Result(output)], rest: Rest::default() }
}

fn assistant(parts: Vec<Part>) -> Turn {
    Turn { role: Role::Assistant, parts, rest: Rest::default() }
}

fn tool(name: &str) -> Tool {
    let parameters = json!({"properties": {"x": {"type": "number"}}, "additionalProperties": false});
    Tool {
        name: name.to_owned(),
        description: "d".to_owned(),
        parameters: Some(parameters.into()),
        strict: Some(true),
        declared: None,
    }
}

fn v2_turns(turns: Vec<Turn>) -> Value {
    turns_of(&encoded(&with_turns(turns), Version::V2).0)
}

#[test]
fn v2_request_envelope() {
    let (body, dropped) = encoded(&with_turns(vec![Turn::text(Role::User, "hi")]), Version::V2);
    assert_eq!(
        body,
        json!({
            "model": "lumo-max",
            "messages": [{"role": "user", "content": "hi"}],
            "stream": true,
            "stream_options": {"include_usage": true},
            "tools": [{"name": "proton_info"}],
            "tool_choice": "auto",
            "lumo": {"client_type": "frontend", "target": "message"},
        })
    );
    assert_eq!(dropped, [""; 0]);
}

#[test]
fn v1_request_envelope() {
    let turns = vec![
        Turn::text(Role::System, "S"),
        Turn::text(Role::User, "hi"),
        assistant(vec![call("c1", "{}")]),
        result("c1", "42"),
    ];
    let (body, dropped) = encoded(&with_turns(turns), Version::V1);
    assert_eq!(
        body,
        json!({"Prompt": {
            "type": "generation_request",
            "turns": [
                {"role": "system", "content": "S"},
                {"role": "user", "content": "hi"},
                {"role": "tool_call", "content": r#"{"id":"c1","name":"a","arguments":{}}"#},
                {"role": "tool_result", "content": "42"},
            ],
            "options": {"tools": ["proton_info"]},
            "targets": ["message"],
        }})
    );
    assert_eq!(dropped, [""; 0]);
}

#[test]
fn consecutive_results_name_their_calls() {
    let turns = vec![
        assistant(vec![call("c1", "{}"), call("c2", "{}")]),
        result("c2", "2"),
        result("c1", "1"),
        assistant(vec![call("c3", "{}")]),
        result("c3", "3"),
    ];
    let turns = v2_turns(turns);
    let roles: Vec<_> = turns.as_array().unwrap().iter().map(|turn| turn[0].as_str().unwrap()).collect();
    assert_eq!(roles, ["lumo_tool_call", "lumo_tool_call", "tool", "tool", "lumo_tool_call", "tool"]);
    assert_eq!(turns[2][1], r#"{"call_id":"c2","output":"2"}"#);
    assert_eq!(turns[3][1], r#"{"call_id":"c1","output":"1"}"#);
    assert_eq!(turns[5][1], "3");
}

#[test]
fn every_call_has_a_result_and_every_result_is_sent() {
    let last = v2_turns(vec![Turn::text(Role::User, "w?"), assistant(vec![call("c1", "{}")])]);
    assert_eq!(last[2], json!(["tool", r#"{"error":"no result"}"#]));
    let half = v2_turns(vec![
        assistant(vec![call("c1", "{}"), call("c2", "{}")]),
        result("c1", "1"),
        Turn::text(Role::User, "go on"),
    ]);
    assert_eq!(half[3], json!(["tool", r#"{"call_id":"c2","output":"{\"error\":\"no result\"}"}"#]));
    assert_eq!(half[4], json!(["user", "go on"]));
    let orphan = v2_turns(vec![result("zz", "lost?")]);
    assert_eq!(orphan, json!([["user", r#"{"call_id":"zz","output":"lost?"}"#]]));
}

#[test]
fn arguments_are_sent_unchanged() {
    for (arguments, expected) in [
        (r#"{"x": 2.50, "b":1}"#, r#"{"x": 2.50, "b":1}"#),
        ("", "{}"),
        (" ", "{}"),
        ("null", "{}"),
        ("[1]", r#"{"_raw_arguments":"[1]"}"#),
        (r#"{"x":"#, r#"{"_raw_arguments":"{\"x\":"}"#),
    ] {
        let turns = v2_turns(vec![assistant(vec![call("c", arguments)])]);
        assert_eq!(turns[0][1], format!(r#"{{"id":"c","name":"a","arguments":{expected}}}"#));
    }
}

#[test]
fn images_are_parts_in_v2_and_fields_in_v1() {
    let image = |url: &str| Part::Image { url: url.to_owned(), detail: None };
    let parts =
        vec![Part::Text("what?".into()), image("data:image/png;base64,AAAA"), image("https://e.x/a.png")];
    let conversation = with_turns(vec![Turn { role: Role::User, parts, rest: Rest::default() }]);
    let (body, dropped) = encoded(&conversation, Version::V2);
    assert_eq!(
        body["messages"][0]["content"],
        json!([
            {"type": "text", "text": "what?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "image_url", "image_url": {"url": "https://e.x/a.png"}},
        ])
    );
    assert_eq!(dropped, [""; 0]);
    let (body, dropped) = encoded(&conversation, Version::V1);
    let turn = &body["Prompt"]["turns"][0];
    assert_eq!(turn["content"], "what?");
    assert_eq!(turn["images"], json!([{"encrypted": false, "image_id": "image-0", "data": "AAAA"}]));
    assert_eq!(dropped, ["image_url"]);
}

#[test]
fn text_is_never_lost() {
    let parts = vec![
        Part::Text("a  ] b".into()),
        Part::Other(Received::new("chat", json!({"type": "refusal", "refusal": "I will not."}))),
        Part::Other(Received::new("chat", json!({"type": "input_audio", "input_audio": {}}))),
        Part::Text("c\n".into()),
    ];
    let (body, dropped) = encoded(&with_turns(vec![assistant(parts)]), Version::V2);
    assert_eq!(body["messages"][0]["content"], "a  ] b\nI will not.\nc\n");
    assert_eq!(dropped, ["messages[].content[].input_audio"]);
}

#[test]
fn tool_choice_is_encoded() {
    let offer = |choice: ToolChoice| {
        let tools = vec![tool("a"), tool("web_search")];
        let conversation = Conversation { tools, tool_choice: choice, ..with_turns(Vec::new()) };
        let options = Options {
            native_tools: vec!["proton_info".to_owned(), "web_search".to_owned()],
            ..Options::default()
        };
        let body: Value =
            serde_json::from_slice(&encode(&conversation, &conversation.model, &options).body).unwrap();
        let name =
            |tool: &Value| tool["name"].as_str().or(tool["function"]["name"].as_str()).unwrap().to_owned();
        let names: Vec<_> = body["tools"].as_array().unwrap().iter().map(name).collect();
        (names.join(" "), body["tool_choice"].as_str().unwrap().to_owned())
    };
    let pair = |names: &str, choice: &str| (names.to_owned(), choice.to_owned());
    assert_eq!(offer(ToolChoice::Auto), pair("proton_info a web_search", "auto"));
    assert_eq!(offer(ToolChoice::None), pair("proton_info web_search", "none"));
    assert_eq!(offer(ToolChoice::Required), pair("a web_search", "required"));
    assert_eq!(offer(ToolChoice::Named("a".to_owned())), pair("a", "required"));
    let allowed = ToolChoice::Allowed { names: vec!["a".to_owned()], required: false };
    assert_eq!(offer(allowed), pair("proton_info web_search a", "auto"));
}

#[test]
fn missing_fields_of_a_tool_are_filled_in() {
    let conversation = Conversation { tools: vec![tool("a")], ..with_turns(Vec::new()) };
    let (body, dropped) = encoded(&conversation, Version::V2);
    assert_eq!(
        body["tools"][1]["function"],
        json!({"name": "a", "description": "d", "parameters": {
            "properties": {"x": {"type": "number"}},
            "additionalProperties": false,
            "type": "object",
            "$schema": "https://json-schema.org/draft/2020-12/schema",
        }})
    );
    assert_eq!(dropped, ["tools[].function.strict"]);
    let (body, dropped) = encoded(&conversation, Version::V1);
    assert_eq!(
        (body["Prompt"]["options"]["tools"].clone(), dropped),
        (json!(["proton_info"]), vec!["tools".to_owned()])
    );
}

#[test]
fn reasoning_is_switched_on_or_off() {
    for (asked, sent) in
        [("none", "none"), ("minimal", "none"), ("low", "high"), ("medium", "high"), ("xhigh", "high")]
    {
        let mut conversation = with_turns(Vec::new());
        conversation.sampling.reasoning_effort = Some(asked.to_owned());
        assert_eq!(encoded(&conversation, Version::V2).0["reasoning_effort"], sent);
    }
    assert!(encoded(&with_turns(Vec::new()), Version::V2).0["reasoning_effort"].is_null());
}

#[test]
fn fields_that_lumo_does_not_have_are_reported_as_dropped() {
    let mut conversation = with_turns(vec![Turn::text(Role::User, "hi")]);
    conversation.sampling = Sampling {
        max_tokens: Some(5),
        temperature: Some(0.into()),
        top_p: Some(1.into()),
        stop: vec!["x".to_owned()],
        seed: Some(1.into()),
        response_format: Some(json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {}}})),
        reasoning_effort: None,
    };
    let rest = |key: &str, value: Value| Rest::new("chat", Map::from_iter([(key.to_owned(), value)]));
    conversation.rest = rest("n", json!(2));
    conversation.turns[0].rest = rest("name", json!("me"));
    let (body, dropped) = encoded(&conversation, Version::V2);
    assert_eq!(dropped, ["messages[].name", "max_tokens", "temperature", "top_p", "stop", "seed", "n"]);
    assert_eq!(body["response_format"]["json_schema"]["name"], "n");
}

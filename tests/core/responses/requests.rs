//! Tests how requests from Responses clients are decoded.

use std::collections::HashSet;

use serde_json::{Value, json};
use toolwire::{
    conversation::{Call, CallOutput, Conversation, Namespaced, Part, Role, ToolChoice},
    dialect::ClientDialect,
    event::Opaque,
    failure::{Failure, Kind},
};

fn decode(fields: Value) -> Result<Conversation, Failure> {
    let mut body = json!({"model": "m", "input": "?"});
    for (key, value) in fields.as_object().unwrap() {
        body[key] = value.clone();
    }
    ClientDialect::Responses.side().decode(body.to_string().as_bytes())
}

fn turns(input: Value) -> Vec<(Role, Vec<Part>)> {
    let conversation = decode(json!({ "input": input })).unwrap();
    conversation.turns.into_iter().map(|turn| (turn.role, turn.parts)).collect()
}

fn text(text: &str) -> Part {
    Part::Text(text.into())
}

fn call(id: &str, name: &str, arguments: &str) -> Part {
    Part::Call(Call::new(id, name, arguments))
}

fn result(id: &str, content: &str) -> Part {
    let (id, content) = (id.to_owned(), content.to_owned());
    Part::Result(CallOutput { id, name: String::new(), content, is_error: false })
}

#[test]
fn tool_loop_is_decoded_to_turns() {
    let image = |url: &str, detail: Option<&str>| Part::Image {
        url: url.to_owned(),
        detail: detail.map(str::to_owned),
    };
    let turns = turns(json!([
        {"role": "developer", "content": "be brief"},
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "weather?"},
            {"type": "input_image", "image_url": "https://a/b.png", "detail": "low"},
        ]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "s1"},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "sql", "input": "SELECT \"1\""},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": [
            {"type": "input_text", "text": "a"},
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
            {"type": "input_text", "text": "b"},
        ]},
        {"role": "assistant", "content": "Sunny."},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    ]));
    let thinking = Part::Reasoning {
        text: "hm".to_owned(),
        signature: Some(Opaque::new("responses", "s1")),
        redacted: false,
    };
    assert_eq!(
        turns,
        [
            (Role::Developer, vec![text("be brief")]),
            (Role::User, vec![text("weather?"), image("https://a/b.png", Some("low"))]),
            (
                Role::Assistant,
                vec![
                    thinking,
                    text("I look."),
                    call("c1", "get_weather", r#"{"city": "Oslo"}"#),
                    call("c2", "sql", r#"{"input":"SELECT \"1\""}"#),
                ]
            ),
            (Role::Tool, vec![result("c1", "sunny")]),
            (Role::Tool, vec![result("c2", "a\nb"), image("data:image/png;base64,AAAA", None)]),
            (Role::Assistant, vec![text("Sunny.")]),
            (Role::Assistant, vec![text("No.")]),
        ]
    );
}

#[test]
fn input_can_be_a_string() {
    assert_eq!(turns(json!("hi")), [(Role::User, vec![text("hi")])]);
    let conversation = decode(json!({"instructions": "be brief"})).unwrap();
    assert_eq!((conversation.turns.len(), conversation.turns[0].role), (2, Role::System));
}

#[test]
fn reasoning_without_text_is_redacted() {
    let redacted = |item: Value| match turns(json!([item])).remove(0).1.remove(0) {
        Part::Reasoning { text, signature, redacted } => (text, signature, redacted),
        other => panic!("{other:?}"),
    };
    let state = |dialect: &'static str, text: &'static str| Some(Opaque::new(dialect, text));
    let item = json!({"type": "reasoning", "summary": [], "encrypted_content": "messages:x"});
    assert_eq!(redacted(item), (String::new(), state("messages", "x"), true));
    let item = json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": ""}], "encrypted_content": "x"});
    assert_eq!(redacted(item), (String::new(), state("responses", "x"), false));
    let item =
        json!({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "raw"}]});
    assert_eq!(redacted(item), ("raw".to_owned(), None, false));
}

#[test]
fn items_of_other_kinds_are_kept_for_upstreams_of_this_dialect() {
    let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}});
    let file = json!({"type": "input_file", "file_id": "f"});
    let turns = turns(json!([
        {"role": "user", "content": [file.clone()]},
        search.clone(),
        {"role": "assistant", "content": "Found."},
    ]));
    let other = |part: &Part, dialect: &str| match part {
        Part::Other(other) => other.from_dialect(dialect).cloned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(other(&turns[0].1[0], "responses"), Some(file));
    assert_eq!((turns.len(), other(&turns[1].1[0], "responses")), (2, Some(search)));
    assert_eq!(other(&turns[1].1[0], "chat"), None);
    assert_eq!(turns[1].1[1], text("Found."));
}

#[test]
fn items_with_more_than_their_parts_are_kept_whole() {
    let input = json!([{"role": "assistant", "phase": "commentary", "content": "a"}, {"type": "function_call",
        "call_id": "c", "name": "f", "arguments": "{}"}]);
    let conversation = decode(json!({ "input": input })).unwrap();
    assert_eq!(conversation.turns[0].rest.from_dialect("responses").unwrap()["items"], input);
    let plain =
        decode(json!({"input": [{"type": "message", "id": "x", "role": "user", "content": "a"}]})).unwrap();
    assert_eq!(plain.turns[0].rest.keys().count(), 0);
}

#[test]
fn settings_are_decoded() {
    let conversation = decode(json!({
        "stream": true,
        "store": false,
        "max_output_tokens": 9,
        "temperature": 0.20,
        "reasoning": {"effort": "high", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": true},
            "verbosity": "low"},
        "parallel_tool_calls": false,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "k",
        "client_metadata": {"a": "b"},
        "toolwire_previous_response_id": "resp_1",
    }))
    .unwrap();
    let sampling = &conversation.sampling;
    assert_eq!((sampling.max_tokens, sampling.reasoning_effort.as_deref()), (Some(9), Some("high")));
    assert_eq!(
        sampling.response_format,
        Some(
            json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": true}})
        )
    );
    assert!(conversation.stream && conversation.include_usage && !conversation.stored);
    assert!(!conversation.parallel_calls);
    let rest = conversation.rest.from_dialect("responses").unwrap();
    let keys: Vec<_> = rest.keys().map(String::as_str).collect();
    assert_eq!(keys, ["include", "prompt_cache_key", "client_metadata", "reasoning", "text"]);
    assert_eq!(
        (&rest["reasoning"], &rest["text"]),
        (&json!({"summary": "auto"}), &json!({"verbosity": "low"}))
    );
    let repeated = conversation.repeated.from_dialect("responses").unwrap();
    assert_eq!(repeated["previous_response_id"], "resp_1");
    assert_eq!(repeated["text"]["format"]["name"], "n");
    assert!(decode(json!({})).unwrap().stored);
    let text = decode(json!({"text": {"format": {"type": "text"}}})).unwrap();
    assert_eq!(text.sampling.response_format, None);
}

#[test]
fn tools_of_all_kinds_are_decoded() {
    let conversation = decode(json!({
        "tools": [
            {"type": "function", "name": "a", "description": "d", "parameters": {"type": "object"}, "strict": true},
            {"type": "custom", "name": "sql", "description": "s", "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}},
            {"type": "web_search", "external_web_access": false},
            {"type": "namespace", "name": "files", "description": "n", "tools": [
                {"type": "function", "name": "read", "parameters": {"type": "object"}},
                {"type": "custom", "name": "patch"},
            ]},
        ],
        "tool_choice": "required",
    }))
    .unwrap();
    let names: Vec<_> = conversation.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["a", "sql", "files__read", "files__patch"]);
    assert_eq!(conversation.custom_tools, HashSet::from(["sql", "files__patch"].map(String::from)));
    assert_eq!((&*conversation.server_tools[0].kind, conversation.server_tools.len()), ("web_search", 1));
    let read = Namespaced {
        name: "files__read".to_owned(),
        namespace: "files".to_owned(),
        inner: "read".to_owned(),
    };
    assert_eq!(conversation.namespaced[0], read);
    assert_eq!(
        (conversation.tools[0].strict, &conversation.tool_choice),
        (Some(true), &ToolChoice::Required)
    );
    let schema: Value =
        serde_json::from_str(conversation.tools[1].parameters.as_ref().unwrap().view().raw()).unwrap();
    assert!(schema["properties"]["input"]["description"].as_str().unwrap().contains("start: x"));
    assert_eq!(conversation.rest.from_dialect("responses").unwrap()["tools"][0]["type"], "web_search");
}

#[test]
fn names_in_namespaces_become_legal_and_differ() {
    let function = |name: &str| json!({"type": "function", "name": name});
    let namespace =
        |name: &str, tools: Vec<Value>| json!({"type": "namespace", "name": name, "tools": tools});
    let long = "x".repeat(80);
    let conversation = decode(json!({"tools": [
        namespace("a b", vec![function("c.d"), function("c,d"), function(&long)]),
        namespace("n", vec![function("f")]),
        function("n__f"),
    ]}))
    .unwrap();
    let names: Vec<_> = conversation.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names[0], "n__f");
    assert!(names[1].starts_with("a_b__c_d_") && names[2].starts_with("a_b__c_d_") && names[1] != names[2]);
    assert!(names[4].starts_with("n__f_"), "{names:?}");
    let is_legal = |name: &&str| {
        name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    assert!(names.iter().all(is_legal), "{names:?}");
    // A call in the history gets the same name.
    let call =
        json!([{"type": "function_call", "call_id": "1", "namespace": "n", "name": "f", "arguments": "{}"}]);
    let tools = json!([namespace("n", vec![function("f")]), function("n__f")]);
    let conversation = decode(json!({"tools": tools, "input": call})).unwrap();
    let Part::Call(call) = &conversation.turns[0].parts[0] else { panic!() };
    assert_eq!(call.name, conversation.namespaced[0].name);
}

#[test]
fn choices_are_decoded() {
    let tools =
        json!([{"type": "function", "name": "a"}, {"type": "custom", "name": "b"}, {"type": "file_search"}]);
    let choice = |choice: Value| decode(json!({"tools": tools, "tool_choice": choice})).unwrap();
    for (written, meant) in [
        (json!("auto"), ToolChoice::Auto),
        (json!("none"), ToolChoice::None),
        (json!({"type": "function", "name": "a"}), ToolChoice::Named("a".to_owned())),
        (json!({"type": "custom", "name": "b"}), ToolChoice::Named("b".to_owned())),
        (
            json!({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "a"}, {"type": "file_search"}]}),
            ToolChoice::Allowed { names: vec!["a".to_owned()], required: true },
        ),
        (
            json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "file_search"}]}),
            ToolChoice::None,
        ),
        (json!({"type": "file_search"}), ToolChoice::Auto),
    ] {
        assert_eq!(choice(written.clone()).tool_choice, meant, "{written}");
    }
    let kept = choice(json!({"type": "file_search"}));
    assert_eq!(kept.rest.from_dialect("responses").unwrap()["tool_choice"]["type"], "file_search");
}

#[test]
fn errors_name_the_field() {
    for (fields, param, part) in [
        (json!({"input": null}), "input", "is missing or empty"),
        (json!({"input": []}), "input", "is missing or empty"),
        (json!({"input": 5}), "input", "must be a string or an array of items"),
        (json!({"input": [5]}), "input[0]", "must be an object"),
        (json!({"input": [{"role": "robot", "content": ""}]}), "input[0].role", "`robot`"),
        (json!({"input": [{"role": "user"}]}), "input[0].content", "is missing"),
        (json!({"input": [{"x": 1}]}), "input[0].type", "is missing"),
        (json!({"input": [{"type": "function_call", "name": "f"}]}), "input[0].call_id", "is missing"),
        (
            json!({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}),
            "input[0].content[0].text",
            "is missing",
        ),
        (
            json!({"input": [{"type": "item_reference", "id": "msg_1"}]}),
            "input",
            "there is no stored item `msg_1`",
        ),
        (json!({"max_output_tokens": 0}), "max_output_tokens", "at least 1"),
        (
            json!({"previous_response_id": "resp_1"}),
            "previous_response_id",
            "there is no stored response `resp_1`",
        ),
        (json!({"conversation": "c"}), "conversation", "is not supported"),
        (json!({"prompt": {"id": "p"}}), "prompt", "is not supported"),
        (json!({"background": true}), "background", "is not supported"),
        (json!({"tools": [{"type": "function"}]}), "tools[0].name", "is missing"),
        (json!({"tools": [{"type": "function", "name": "a\nb"}]}), "tools[0].name", "control"),
        (
            json!({"tools": [{"type": "function", "name": "a"}, {"type": "custom", "name": "a"}]}),
            "tools",
            "twice",
        ),
        (
            json!({"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "a"}, {"type": "function", "name": "a"}]}]}),
            "tools[0].tools",
            "twice",
        ),
        (json!({"tool_choice": "required"}), "tool_choice", "no tools are declared"),
        (json!({"tool_choice": {"type": "function", "name": "x"}}), "tool_choice", "`x`"),
        (json!({"text": {"format": {"type": "json_schema", "name": "n"}}}), "text.format", "is missing"),
    ] {
        let failure = decode(fields.clone()).expect_err(&fields.to_string());
        assert!(matches!(failure.kind(), Kind::Request | Kind::NotFound), "{fields}");
        assert_eq!(failure.param(), Some(param), "{fields}: {failure}");
        assert!(failure.message().contains(part), "{fields}: {failure}");
    }
}

#[test]
fn hostile_items_cost_linear_time() {
    let calls = |count: usize| -> Value {
        let call = |n: usize| json!({"type": "function_call", "call_id": n.to_string(), "name": "f", "arguments": "{}"});
        (0..count).map(call).collect()
    };
    let conversation = decode(json!({"input": calls(10_000)})).unwrap();
    assert_eq!((conversation.turns.len(), conversation.turns[0].parts.len()), (1, 10_000));
    let tools: Value = (0..5_000)
        .map(|n: u32| json!({"type": "function", "name": char::from_u32(0x4e00 + n).unwrap().to_string()}))
        .collect();
    let conversation =
        decode(json!({"tools": [{"type": "namespace", "name": "n", "tools": tools}]})).unwrap();
    let mut names: Vec<_> = conversation.tools.iter().map(|tool| &tool.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 5_000);
}

//! Tests which Chat Completions requests are accepted and which of their fields are preserved.

use serde_json::{Map, Value, json};
use toolwire::{
    conversation::{Call, CallOutput, Conversation, Part, Received, Rest, Role, Tool, ToolChoice, Turn},
    dialect::chat::{
        Options, Streaming, error_body, refusal,
        request::{decode, encode},
    },
    event::Opaque,
    failure::{Failure, Kind},
};

#[track_caller]
fn decoded(request: &Value) -> Conversation {
    decode(request.to_string().as_bytes()).unwrap()
}

#[track_caller]
fn refused(request: &str) -> (String, String) {
    let failure = decode(request.as_bytes()).unwrap_err();
    assert_eq!((failure.kind(), failure.status()), (Kind::Request, 400));
    (failure.param().unwrap_or("-").to_owned(), failure.message().to_owned())
}

fn encoded(conversation: &Conversation) -> Value {
    let request = encode(conversation, &conversation.model, &Options::default());
    serde_json::from_slice(&request.body).unwrap()
}

/// Checks that the upstream request contains everything in the client's request.
#[track_caller]
fn is_kept(request: &str) {
    let mut expected: Value = serde_json::from_str(request).unwrap();
    let object = expected.as_object_mut().unwrap();
    object.entry("stream").or_insert(false.into());
    if object["stream"] == true {
        object.entry("stream_options").or_insert(json!({}))["include_usage"] = true.into();
    }
    assert_eq!(encoded(&decode(request.as_bytes()).unwrap()), expected);
}

fn function(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name}})
}

#[test]
fn every_request_field_is_kept() {
    is_kept(
        r#"{
        "model": "m", "messages": [
            {"role": "developer", "content": "d", "name": "n"},
            {"role": "system", "content": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "t"}]},
            {"role": "user", "content": [{"type": "text", "text": "u"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
                {"type": "image_url", "image_url": {"url": "https://x", "detail": "low"}}, {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
                {"type": "file", "file": {"file_id": "f"}}], "name": "bob"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "a", "arguments": "{\"x\":2.50}"}, "extra_content": {"google": {"thought_signature": "s"}}},
                {"id": "c2", "type": "custom", "custom": {"name": "x", "input": "SELECT"}}], "reasoning_content": "", "refusal": null},
            {"role": "tool", "tool_call_id": "c1", "content": "42"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "4"}, {"type": "text", "text": "2"}], "weight": 1.0},
            {"role": "assistant", "content": "A", "audio": {"id": "z"}, "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}
        ],
        "tools": [{"type": "function", "function": {"name": "a", "description": "d", "parameters": {"type": "object", "properties": {"z": {}, "b": {}}}, "strict": true}, "x": 1},
            {"type": "function", "function": {"name": "b"}}, {"type": "custom", "custom": {"name": "x", "format": {"type": "text"}}}, {"type": "web_search"}],
        "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "a"}}, {"type": "custom", "custom": {"name": "x"}}]}},
        "parallel_tool_calls": false, "stream": true, "stream_options": {"include_usage": true, "include_obfuscation": false},
        "max_completion_tokens": 10, "max_tokens": 11, "temperature": 0.10, "top_p": 1.0, "stop": ["a", "b"], "seed": 12345678901234567890123,
        "reasoning_effort": "minimal", "response_format": {"type": "json_object"}, "n": 1, "logit_bias": {"5": -100}, "logprobs": true, "top_logprobs": 2,
        "metadata": {"k": "v"}, "store": false, "user": "u", "verbosity": "low", "web_search_options": {"search_context_size": "low"}, "x_unknown": {"y": [1.50, null]}
    }"#,
    );
    is_kept(
        r#"{"messages":[{"role":"user","content":"u"}],"tools":[{"type":"function","function":{"name":"a"}}],"tool_choice":"auto","parallel_tool_calls":true}"#,
    );
    is_kept(
        r#"{"messages":[{"role":"user","content":"u"},{"role":"assistant","content":null,"function_call":{"name":"a","arguments":"{}"}},{"role":"function","name":"a","content":"1"}],"functions":[{"name":"a","parameters":{}}],"function_call":{"name":"a"}}"#,
    );
    for choice in ["\"none\"", "\"required\"", r#"{"type":"function","function":{"name":"a"}}"#] {
        is_kept(&format!(
            r#"{{"messages":[{{"role":"user","content":"u"}}],"tools":[{{"type":"function","function":{{"name":"a"}}}}],"tool_choice":{choice},"max_tokens":5}}"#
        ));
    }
}

#[test]
fn request_fields_are_decoded() {
    let conversation = decoded(&json!({
        "model": "m", "stream": true, "stream_options": {"include_usage": true},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "u"}, {"type": "image_url", "image_url": {"url": "i", "detail": "low"}}]},
            {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "a", "arguments": "{}"}}], "reasoning_content": "hm"},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "4"}, {"type": "text", "text": "2"}]},
        ],
        "tools": [{"type": "function", "function": {"name": "a", "description": "d", "strict": true, "parameters": {"type": "object"}}}],
        "max_completion_tokens": 10, "stop": "x", "temperature": 1,
    }));
    let parts = |role: Role, parts: Vec<Part>| Turn { parts, ..Turn::text(role, "") };
    let image = Part::Image { url: "i".into(), detail: Some("low".into()) };
    assert_eq!(conversation.turns[0], parts(Role::User, vec![Part::Text("u".into()), image]));
    let call = Call::new("c1", "a", "{}");
    let reasoning = Part::Reasoning { text: "hm".into(), signature: None, redacted: false };
    assert_eq!(conversation.turns[1], parts(Role::Assistant, vec![reasoning, Part::Call(call)]));
    let output = CallOutput { id: "c1".into(), name: String::new(), content: "4\n2".into(), is_error: false };
    assert_eq!(conversation.turns[2].parts, [Part::Result(output)]);
    assert!(conversation.stream && conversation.include_usage && conversation.parallel_calls);
    let tool = &conversation.tools[0];
    assert_eq!((tool.name.as_str(), tool.description.as_str(), tool.strict), ("a", "d", Some(true)));
    assert_eq!(conversation.sampling.max_tokens, Some(10));
    assert_eq!(conversation.sampling.stop, ["x"]);
    assert_eq!(conversation.tool_choice, ToolChoice::Auto);
}

#[test]
fn legacy_functions_are_decoded_as_tools() {
    let conversation = decoded(&json!({
        "messages": [{"role": "user", "content": "u"}],
        "functions": [{"name": "a"}], "function_call": {"name": "a"},
    }));
    assert!(conversation.legacy_functions);
    assert_eq!(conversation.tools[0].name, "a");
    assert_eq!(conversation.tool_choice, ToolChoice::Named("a".into()));
}

#[test]
fn request_with_taught_tools_declares_none() {
    let mut conversation = decoded(&json!({
        "messages": [{"role": "user", "content": "u"}], "tools": [function("a")],
        "tool_choice": "required", "parallel_tool_calls": true,
    }));
    conversation.tools.clear();
    let body = encoded(&conversation);
    let keys: Vec<_> = body.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["messages", "stream"]);
    let quiet = Options { include_usage: false, ..Options::default() };
    let body: Value = serde_json::from_slice(&encode(&conversation, "x", &quiet).body).unwrap();
    assert_eq!(body["model"], "x");
    assert!(body.get("stream_options").is_none());
}

#[test]
fn stream_is_requested_as_the_client_asks_or_always() {
    let of = |stream: bool, always: bool| {
        let conversation =
            decoded(&json!({"messages": [{"role": "user", "content": "u"}], "stream": stream}));
        let mode = if always { Streaming::Always } else { Streaming::AsAsked };
        let request = encode(&conversation, "m", &Options { stream: mode, ..Options::default() });
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(body["stream"], request.stream);
        assert_eq!(body["stream_options"]["include_usage"] == true, request.stream);
        request.stream
    };
    assert_eq!(
        [of(false, false), of(true, false), of(false, true), of(true, true)],
        [false, true, true, true]
    );
}

#[test]
fn changed_message_is_not_sent_in_its_original_form() {
    let mut conversation = decoded(&json!({"messages": [{"role": "system", "content": [
        {"type": "text", "text": "s", "cache_control": {}}, {"type": "text", "text": "t", "cache_control": {}},
    ]}]}));
    conversation.turns[0].parts[1] = Part::Text("new".into());
    assert_eq!(
        encoded(&conversation)["messages"][0]["content"],
        json!([{"type": "text", "text": "s", "cache_control": {}}, {"type": "text", "text": "new"}])
    );
}

#[test]
fn equal_parts_keep_their_own_fields() {
    let call = |extra: &str| json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}, "x": extra});
    let messages = json!([
        {"role": "user", "content": [
            {"type": "text", "text": "s"}, {"type": "text", "text": "s", "cache_control": {}}, {"type": "text", "text": "s", "x": 1},
        ]},
        {"role": "assistant", "content": null, "tool_calls": [call("1"), call("2")]},
    ]);
    assert_eq!(encoded(&decoded(&json!({"messages": messages})))["messages"], messages);
}

#[test]
fn turns_of_other_dialects_become_messages() {
    let output = |id: &str| {
        Part::Result(CallOutput { id: id.into(), name: String::new(), content: id.into(), is_error: true })
    };
    let turn = Turn {
        parts: vec![output("c1"), output("c2"), Part::Text("and".into())],
        ..Turn::text(Role::User, "")
    };
    let tool = Tool {
        name: "a".into(),
        description: "d".into(),
        parameters: Some(json!({"type": "object"}).into()),
        strict: None,
        declared: None,
    };
    let signed =
        Part::Reasoning { text: "hm".into(), signature: Some(Opaque::new("chat", "s")), redacted: false };
    let thought = Turn { parts: vec![signed, Part::Text("A".into())], ..Turn::text(Role::Assistant, "") };
    let conversation = Conversation {
        model: "m".into(),
        turns: vec![turn, thought],
        tools: vec![tool],
        tool_choice: ToolChoice::Named("a".into()),
        stream: true,
        ..Conversation::default()
    };
    let request = encode(&conversation, &conversation.model, &Options::default());
    assert_eq!(request.dropped, ["messages[].reasoning.signature"]);
    assert_eq!(
        serde_json::from_slice::<Value>(&request.body).unwrap(),
        json!({
            "model": "m",
            "messages": [
                {"role": "tool", "tool_call_id": "c1", "content": "c1"},
                {"role": "tool", "tool_call_id": "c2", "content": "c2"},
                {"role": "user", "content": "and"},
                {"role": "assistant", "content": "A", "reasoning_content": "hm"},
            ],
            "tools": [{"type": "function", "function": {"name": "a", "description": "d", "parameters": {"type": "object"}}}],
            "tool_choice": {"type": "function", "function": {"name": "a"}},
            "parallel_tool_calls": false,
            "stream": true, "stream_options": {"include_usage": true},
        })
    );
}

/// A conversation from a client of `dialect`, with a dialect-specific field in every place that may have one.
fn with_received(dialect: &'static str) -> Conversation {
    let own = |key: &str| Rest::new(dialect, Map::from_iter([(key.to_owned(), json!("own"))]));
    let other = |kind: &str| Part::Other(Received::new(dialect, json!({"type": kind})));
    let turn = |role: Role, parts: Vec<Part>| Turn { rest: own("turn_field"), ..Turn::of(role, parts) };
    let output = CallOutput { id: "c".into(), name: String::new(), content: "2".into(), is_error: false };
    Conversation {
        model: "m".into(),
        turns: vec![
            turn(Role::User, vec![Part::Text("u".into()), other("part_1")]),
            turn(Role::Assistant, vec![other("part_2")]),
            turn(Role::Tool, vec![Part::Result(output), other("part_3")]),
        ],
        tools: vec![Tool {
            name: "a".into(),
            description: String::new(),
            parameters: None,
            strict: None,
            declared: Some(Received::new(dialect, json!({"declared": "whole"}).into())),
        }],
        parallel_calls: true,
        rest: own("field"),
        ..Conversation::default()
    }
}

#[test]
fn extensions_of_another_dialect_are_never_sent() {
    for keep_result_images in [false, true] {
        let options = Options { keep_result_images, ..Options::default() };
        let request = encode(&with_received("messages"), "m", &options);
        let body = String::from_utf8(request.body.to_vec()).unwrap();
        for own in ["own", "field", "part_", "declared"] {
            assert!(!body.contains(own), "{own} in {body}");
        }
        assert!(body.contains(r#""function":{"name":"a"}"#), "{body}");
        assert_eq!(request.dropped, ["field", "messages[].content[]", "messages[].turn_field"]);
        let request = encode(&with_received("chat"), "m", &options);
        let body = String::from_utf8(request.body.to_vec()).unwrap();
        for own in [r#""field":"own""#, "turn_field", "part_1", "part_2", "part_3", "declared"] {
            assert!(body.contains(own), "{own} in {body}");
        }
        assert!(request.dropped.is_empty(), "{:?}", request.dropped);
    }
}

#[test]
fn lone_surrogate_in_a_request_is_accepted() {
    let request = r#"{"messages": [{"role": "user", "content": "cut \ud83d", "name": "\ud83d\ude00"}], "user": "\udc00",
        "tools": [{"type": "function", "function": {"name": "a", "description": "\ud83d!"}}]}"#;
    let body = encoded(&decode(request.as_bytes()).unwrap());
    assert_eq!(body["messages"][0], json!({"role": "user", "content": "cut \u{fffd}", "name": "😀"}));
    assert_eq!(body["user"], "\u{fffd}");
    assert_eq!(body["tools"][0]["function"]["description"], "\u{fffd}!");
}

#[test]
fn tool_declarations_are_sent_as_written() {
    let tool = r#"{ "type" : "function", "function" : {"parameters": {"minimum": 1.50, "minimum":2e1,
        "x": "\u00e9"}, "name": "a"}}"#;
    let request = format!(r#"{{"messages":[{{"role":"user","content":"u"}}],"tools":[{tool}]}}"#);
    let body = encode(&decode(request.as_bytes()).unwrap(), "", &Options::default()).body;
    assert!(str::from_utf8(&body).unwrap().contains(tool), "{body:?}");
}

#[test]
fn last_duplicate_field_wins() {
    let request = r#"{"model":"a","messages":[{"role":"user","content":"u"}],"x":1,"model":"b","x":2,"seed":3,"seed":null}"#;
    let conversation = decode(request.as_bytes()).unwrap();
    assert_eq!(
        (conversation.model.as_str(), &conversation.rest.from_dialect("chat").unwrap()["x"]),
        ("b", &json!(2))
    );
    assert_eq!(conversation.sampling.seed, None);
}

#[test]
fn request_errors_name_the_field_and_the_expected_value() {
    let with = |field: &str| format!(r#"{{"messages":[{{"role":"user","content":"u"}}],{field}}}"#);
    let message = |message: &str| format!(r#"{{"messages":[{{"role":"user","content":"u"}},{message}]}}"#);
    let tools = |tools: &str| with(&format!(r#""tools":[{tools}]"#));
    let tool = r#"{"type":"function","function":{"name":"a"}}"#;
    let choice = |choice: &str| with(&format!(r#""tools":[{tool}],"tool_choice":{choice}"#));
    let long = "x".repeat(257);
    for (request, param, words) in [
        (String::new(), "-", "is empty"),
        ("{\"messages\": [,]}".into(), "-", "line 1, column 15"),
        ("[]".into(), "-", "must be an object, but it is an array"),
        ("{}".into(), "messages", "missing or empty"),
        (r#"{"messages":[]}"#.into(), "messages", "missing or empty"),
        (r#"{"messages":"hi"}"#.into(), "messages", "must be an array, but it is a string"),
        (message("5"), "messages[1]", "must be an object"),
        (message("{}"), "messages[1].role", "is missing"),
        (message(r#"{"role":"bot","content":"x"}"#), "messages[1].role", "is `bot`; known are `system`"),
        (message(r#"{"role":"user"}"#), "messages[1].content", "is missing"),
        (message(r#"{"role":"user","content":7}"#), "messages[1].content", "but it is the number 7"),
        (message(r#"{"role":"user","content":[7]}"#), "messages[1].content[0]", "must be an object"),
        (message(r#"{"role":"user","content":[{"text":"x"}]}"#), "messages[1].content[0].type", "is missing"),
        (
            message(r#"{"role":"user","content":[{"type":"text"}]}"#),
            "messages[1].content[0].text",
            "is missing",
        ),
        (
            message(r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":7}}]}"#),
            "messages[1].content[0].image_url.url",
            "must be a string, but it is the number 7",
        ),
        (
            message(r#"{"role":"user","content":[{"type":"image_url","image_url":"x"}]}"#),
            "messages[1].content[0].image_url",
            "must be an object",
        ),
        (message(r#"{"role":"tool","content":"x"}"#), "messages[1].tool_call_id", "the id of the call"),
        (message(r#"{"role":"function","content":"x"}"#), "messages[1].name", "is missing"),
        (
            message(r#"{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{}}]}"#),
            "messages[1].tool_calls[0].function.name",
            "is missing",
        ),
        (
            message(r#"{"role":"assistant","tool_calls":[{"function":{"name":"a"}}]}"#),
            "messages[1].tool_calls[0].id",
            "is missing",
        ),
        (with(r#""tools":{}"#), "tools", "must be an array"),
        (tools(r#"{"type":"function"}"#), "tools[0].function", "is missing"),
        (tools(r#"{"type":"function","function":{}}"#), "tools[0].function.name", "a tool needs a name"),
        (
            tools(r#"{"type":"function","function":{"name":""}}"#),
            "tools[0].function.name",
            "a tool needs a name",
        ),
        (
            tools(r#"{"type":"function","function":{"name":"tab\nopen"}}"#),
            "tools[0].function.name",
            "has the control character '\\n'",
        ),
        (
            tools(&format!(r#"{{"type":"function","function":{{"name":"{long}"}}}}"#)),
            "tools[0].function.name",
            "257 bytes long; 256 are allowed",
        ),
        (
            tools(r#"{"type":"function","function":{"name":"a","parameters":"{}"}}"#),
            "tools[0].function.parameters",
            "must be a JSON Schema object",
        ),
        (tools(&format!("{tool},{tool}")), "tools", "declares `a` twice"),
        (choice("\"maybe\""), "tool_choice", "is `maybe`; known are"),
        (choice("[]"), "tool_choice", "must be a string or an object"),
        (choice(r#"{"type":"x"}"#), "tool_choice.type", "is `x`"),
        (
            choice(r#"{"type":"function","function":{"name":"zz"}}"#),
            "tool_choice",
            "names `zz`, which is not",
        ),
        (with(r#""tool_choice":"required""#), "tool_choice", "no tools are declared"),
        (
            with(&format!(r#""tools":[{tool}],"functions":[{{"name":"b"}}]"#)),
            "functions",
            "together with `tools`",
        ),
        (with(r#""stream":"yes""#), "stream", "must be true or false"),
        (with(r#""max_tokens":-1"#), "max_tokens", "whole number, 0 or more, but it is the number -1"),
        (with(r#""max_tokens":1e999"#), "max_tokens", "but it is the number 1e"),
        (with(r#""temperature":"hot""#), "temperature", "must be a number"),
        (with(r#""stop":[1]"#), "stop[0]", "must be a string"),
        (with(r#""stream_options":{"include_usage":1}"#), "stream_options.include_usage", "true or false"),
    ] {
        let (at, message) = refused(&request);
        assert_eq!(at, param, "{request}");
        assert!(message.contains(words), "{request}: {message}");
    }
    let failure = decode(b"{}").unwrap_err();
    assert_eq!(failure.code(), Some("missing_messages"));
    assert_eq!(decode(b"{").unwrap_err().code(), Some("invalid_json"));
}

fn described(failure: &Failure) -> String {
    let body: Value = serde_json::from_slice(&error_body(failure)).unwrap();
    let error = body.get("error").unwrap();
    let word = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or("-").to_owned();
    format!("{} {} {} | {}", failure.status(), word("type"), word("code"), word("message"))
}

#[test]
fn upstream_error_keeps_status_and_code() {
    for (status, body, expected) in [
        (
            400,
            r#"{"error":{"message":"bad x","type":"invalid_request_error","param":"x","code":null}}"#,
            "400 invalid_request_error - | bad x",
        ),
        (
            422,
            r#"{"detail":[{"loc":["x"],"msg":"field required"}]}"#,
            "422 invalid_request_error - | field required",
        ),
        (
            400,
            r#"{"object":"error","message":"This model's maximum context length is 10 tokens","code":400}"#,
            "400 invalid_request_error context_length_exceeded | This model's maximum context length is 10 tokens",
        ),
        (
            401,
            r#"{"error":{"message":"Incorrect key","code":"invalid_api_key"}}"#,
            "401 authentication_error invalid_api_key | the upstream refused the key it was given: Incorrect key",
        ),
        (403, r#"{"error":"no"}"#, "403 permission_error - | no"),
        (
            404,
            r#"{"error":{"message":"no such model","code":"model_not_found"}}"#,
            "404 invalid_request_error model_not_found | no such model",
        ),
        (
            404,
            "<html><title>404 Not Found</title></html>",
            "502 server_error upstream_not_found | the upstream has no such path (status 404); its `base_url` may be wrong: 404 Not Found",
        ),
        (
            404,
            r#"{"Code":404,"Error":"Path not found"}"#,
            "502 server_error upstream_not_found | the upstream has no such path (status 404); its `base_url` may be wrong: Path not found",
        ),
        (
            413,
            "",
            "413 invalid_request_error request_too_large | the upstream responded with status 413 and no message",
        ),
        (429, r#"{"Code":2028,"Error":"limit"}"#, "429 rate_limit_error rate_limit_exceeded | limit"),
        (
            429,
            r#"{"error":{"message":"pay","code":"insufficient_quota"}}"#,
            "429 rate_limit_error insufficient_quota | pay",
        ),
        (
            500,
            r#"[{"error":{"message":"boom","code":500,"status":"INTERNAL"}}]"#,
            "500 server_error error | boom",
        ),
        (
            502,
            "<html>\n<head><title>502\nBad Gateway</title></head>",
            "502 server_error error | 502 Bad Gateway",
        ),
        (503, "busy", "503 server_error overloaded | busy"),
        (504, "", "504 server_error timeout | the upstream responded with status 504 and no message"),
        (
            301,
            "",
            "502 server_error upstream_error | the upstream responded with status 301; its `base_url` may be wrong",
        ),
    ] {
        assert_eq!(described(&refusal(status, None, body.as_bytes())), expected);
    }
    let failure = refusal(429, Some("9"), b"{}");
    assert_eq!(failure.retry_after(), Some("9"));
    assert_eq!(refusal(400, None, br#"{"error":{"message":"m","param":"x"}}"#).param(), Some("x"));
}

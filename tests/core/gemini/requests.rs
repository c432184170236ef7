//! Tests requests to Gemini (paths, contents, tools, generation settings) and its error responses.

use serde_json::{Value, json};
use toolwire::{
    conversation::{Call, CallOutput, Conversation, Part, Role, Turn},
    dialect::{
        ClientDialect, KeyHeader, UpstreamSide,
        gemini::{Options, Schemas, Thinking},
    },
    event::Opaque,
    failure::Kind,
};

fn conversation(fields: Value) -> Conversation {
    let mut request = json!({"model": "m", "messages": [{"role": "user", "content": "U"}]});
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    ClientDialect::Chat.side().decode(request.to_string().as_bytes()).unwrap()
}

fn encoded(options: &Options, fields: Value) -> (Value, Vec<String>) {
    let request = options.encode(&conversation(fields), "gemini-3-pro");
    (serde_json::from_slice(&request.body).unwrap(), request.dropped)
}

fn contents(turns: Vec<Turn>) -> Value {
    let conversation = Conversation { turns, ..Conversation::default() };
    let request = Options::default().encode(&conversation, "m");
    serde_json::from_slice::<Value>(&request.body).unwrap()["contents"].take()
}

#[test]
fn path_has_the_models_name_and_says_whether_to_stream() {
    let path = |model: &str, stream: bool| {
        Options::default().encode(&conversation(json!({"stream": stream})), model).path.unwrap()
    };
    for (model, stream, expected) in [
        ("gemini-2.5-flash", true, "models/gemini-2.5-flash:streamGenerateContent?alt=sse"),
        ("gemini-2.5-flash", false, "models/gemini-2.5-flash:generateContent"),
        ("models/gemini-2.5-flash", false, "models/gemini-2.5-flash:generateContent"),
        ("tunedModels/a-1", false, "tunedModels/a-1:generateContent"),
        ("../x?y#z", false, "models/..%2Fx%3Fy%23z:generateContent"),
        ("tunedModels/../x", false, "tunedModels/..%2Fx:generateContent"),
        ("é :%\r\n", false, "models/%C3%A9%20%3A%25%0D%0A:generateContent"),
    ] {
        assert_eq!(path(model, stream), expected);
    }
    assert_eq!(Options::default().key_header(), KeyHeader::Named("x-goog-api-key"));
}

#[test]
fn generation_config_has_the_clients_limits() {
    let fields = json!({"stream": true, "temperature": 0.5, "top_p": 0.9, "max_tokens": 7, "stop": ["a"], "seed": 1, "top_k": 3,
        "presence_penalty": 0.1, "metadata": {}, "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}});
    let (body, dropped) = encoded(&Options::default(), fields);
    let expected = json!({"maxOutputTokens": 7, "temperature": 0.5, "topP": 0.9, "seed": 1, "stopSequences": ["a"], "topK": 3,
        "presencePenalty": 0.1, "responseMimeType": "application/json", "responseJsonSchema": {"type": "object"},
        "thinkingConfig": {"thinkingLevel": "low", "includeThoughts": true}});
    assert_eq!(
        body,
        json!({"contents": [{"role": "user", "parts": [{"text": "U"}]}], "generationConfig": expected})
    );
    assert_eq!(dropped, ["metadata"]);
    let (body, _) = encoded(&Options::default(), json!({"response_format": {"type": "json_object"}}));
    assert_eq!(body["generationConfig"], json!({"responseMimeType": "application/json"}));
    let (body, _) = encoded(&Options::default(), json!({}));
    assert_eq!(body.get("generationConfig"), None);
}

#[test]
fn effort_is_a_level_or_a_budget() {
    let thinking = |thinking: Thinking, model: &str, effort: &str| {
        let options = Options { thinking, ..Options::default() };
        let request = options.encode(&conversation(json!({"reasoning_effort": effort})), model);
        serde_json::from_slice::<Value>(&request.body).unwrap()["generationConfig"]["thinkingConfig"].take()
    };
    for (setting, model, effort, expected) in [
        (Thinking::Auto, "gemini-2.5-pro", "high", json!({"thinkingBudget": 24576, "includeThoughts": true})),
        (Thinking::Auto, "gemini-2.5-flash", "none", json!({"thinkingBudget": 0})),
        (
            Thinking::Auto,
            "gemini-3-pro",
            "medium",
            json!({"thinkingLevel": "medium", "includeThoughts": true}),
        ),
        (
            Thinking::Level,
            "gemini-2.5-pro",
            "minimal",
            json!({"thinkingLevel": "minimal", "includeThoughts": true}),
        ),
        (Thinking::Budget, "gemini-3-pro", "low", json!({"thinkingBudget": 1024, "includeThoughts": true})),
        (Thinking::Off, "gemini-3-pro", "high", Value::Null),
    ] {
        assert_eq!(thinking(setting, model, effort), expected, "{setting:?} {model} {effort}");
    }
}

#[test]
fn turns_of_one_role_are_one_content_and_instructions_are_apart() {
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let messages = json!([
        {"role": "system", "content": "S"},
        {"role": "user", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "b"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "image_url", "image_url": {"url": "https://x/y.jpg"}}]},
        {"role": "developer", "content": "D"},
        {"role": "assistant", "content": "c", "tool_calls": [call("1", "f", "{\"b\": 1.0}"), call("2", "g", ""), call("3", "h", "broken")]},
        {"role": "tool", "tool_call_id": "2", "content": "{\"x\": 1}"},
        {"role": "tool", "tool_call_id": "3", "content": "[1, 2]"},
        {"role": "tool", "tool_call_id": "1", "content": "sunny"},
        {"role": "user", "content": "go on"},
    ]);
    let (body, dropped) = encoded(&Options::default(), json!({"messages": messages}));
    assert_eq!(body["systemInstruction"], json!({"parts": [{"text": "S"}, {"text": "D"}]}));
    let expected = json!([
        {"role": "user", "parts": [{"text": "a"}, {"text": "b"}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
            {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://x/y.jpg"}}]},
        {"role": "model", "parts": [{"text": "c"},
            {"functionCall": {"id": "1", "name": "f", "args": {"b": 1.0}}, "thoughtSignature": "skip_thought_signature_validator"},
            {"functionCall": {"id": "2", "name": "g", "args": {}}},
            {"functionCall": {"id": "3", "name": "h", "args": {"arguments": "broken"}}}]},
        {"role": "user", "parts": [
            {"functionResponse": {"id": "1", "name": "f", "response": {"output": "sunny"}}},
            {"functionResponse": {"id": "2", "name": "g", "response": {"x": 1}}},
            {"functionResponse": {"id": "3", "name": "h", "response": {"output": [1, 2]}}},
            {"text": "go on"}]},
    ]);
    assert_eq!(body["contents"], expected);
    assert_eq!(dropped, Vec::<String>::new());
}

#[test]
fn contents_are_never_empty() {
    let (body, _) = encoded(&Options::default(), json!({"messages": [{"role": "system", "content": "S"}]}));
    assert_eq!(body, json!({"contents": [{"role": "user", "parts": [{"text": "S"}]}]}));
    let (body, _) = encoded(&Options::default(), json!({"messages": [{"role": "user", "content": ""}]}));
    assert_eq!(body["contents"], json!([{"role": "user", "parts": [{"text": ""}]}]));
}

#[test]
fn failed_results_are_errors() {
    let output = |content: &str, is_error| {
        let output = CallOutput { id: "1".into(), name: String::new(), content: content.into(), is_error };
        let turns = vec![Turn::of(Role::Tool, vec![Part::Result(output)])];
        contents(turns)[0]["parts"][0]["functionResponse"].take()
    };
    assert_eq!(output("no", true), json!({"id": "1", "name": "unknown", "response": {"error": "no"}}));
    assert_eq!(output("{\"a\":1}", true)["response"], json!({"error": {"a": 1}}));
    assert_eq!(output("12", false)["response"], json!({"output": "12"}));
    assert_eq!(output("", false)["response"], json!({"output": ""}));
}

#[test]
fn signatures_go_back_to_their_parts() {
    let own = |text: &'static str| Some(Opaque::new("gemini", text));
    let call = |signature| {
        let call = Call { signature, ..Call::new("1", "f", "{}") };
        Part::Call(call)
    };
    let thought = |text: &str, signature| Part::Reasoning { text: text.into(), signature, redacted: false };
    let called = json!({"id": "1", "name": "f", "args": {}});
    for (parts, expected) in [
        (
            vec![call(own("s")), call(None)],
            json!([{"functionCall": called, "thoughtSignature": "s"}, {"functionCall": called}]),
        ),
        (vec![call(Some(Opaque::new("messages", "s")))], json!([{"functionCall": called}])),
        (
            vec![thought("t", own("s")), Part::Text("a".into()), call(own("r"))],
            json!([{"text": "t", "thought": true}, {"text": "a", "thoughtSignature": "s"},
                {"functionCall": called, "thoughtSignature": "r"}]),
        ),
        (vec![thought("", own("s")), call(None)], json!([{"functionCall": called, "thoughtSignature": "s"}])),
        (
            vec![Part::Text("a".into()), thought("", own("s"))],
            json!([{"text": "a"}, {"text": "", "thoughtSignature": "s"}]),
        ),
        (
            vec![thought("t", Some(Opaque::new("messages", "s"))), Part::Text("a".into())],
            json!([{"text": "t", "thought": true}, {"text": "a"}]),
        ),
    ] {
        let turns = vec![Turn::of(Role::Assistant, parts)];
        assert_eq!(contents(turns.clone())[0]["parts"], expected, "{turns:?}");
    }
}

#[test]
fn tools_and_their_choice_are_functions() {
    let tools: Vec<_> = ["f", "g"].iter().map(|name| {
        json!({"type": "function", "function": {"name": name, "description": "D", "parameters": {"type": ["object", "null"], "properties": {"a": {"type": "string"}}}}})
    }).collect();
    let with =
        |options: &Options, choice: Value| encoded(options, json!({"tools": tools, "tool_choice": choice})).0;
    let declared = |name: &str| {
        json!({"name": name, "description": "D",
        "parametersJsonSchema": {"type": ["object", "null"], "properties": {"a": {"type": "string"}}}})
    };
    let auto = with(&Options::default(), json!("auto"));
    assert_eq!(auto["tools"], json!([{"functionDeclarations": [declared("f"), declared("g")]}]));
    assert_eq!(auto.get("toolConfig"), None);
    let allowed = |mode: &str| json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [{"type": "function", "function": {"name": "g"}}]}});
    for (choice, config) in [
        (json!("none"), json!({"mode": "NONE"})),
        (json!("required"), json!({"mode": "ANY"})),
        (
            json!({"type": "function", "function": {"name": "g"}}),
            json!({"mode": "ANY", "allowedFunctionNames": ["g"]}),
        ),
        (allowed("required"), json!({"mode": "ANY", "allowedFunctionNames": ["g"]})),
    ] {
        let body = with(&Options::default(), choice);
        assert_eq!(body["toolConfig"], json!({"functionCallingConfig": config}));
        assert_eq!(body["tools"], auto["tools"]);
    }
    let limited = with(&Options::default(), allowed("auto"));
    assert_eq!(limited["tools"], json!([{"functionDeclarations": [declared("g")]}]));
    let options = Options {
        native_tools: vec!["googleSearch".into()],
        schemas: Schemas::OpenApi,
        ..Options::default()
    };
    let body = with(&options, json!("auto"));
    assert_eq!(body["tools"][1], json!({"googleSearch": {}}));
    let reduced = json!({"nullable": true, "type": "object", "properties": {"a": {"type": "string"}}});
    assert_eq!(body["tools"][0]["functionDeclarations"][0]["parameters"], reduced);
    let bare = json!({"tools": [{"type": "function", "function": {"name": "h", "parameters": {"type": "object", "properties": {}}}}]});
    assert_eq!(encoded(&options, bare).0["tools"][0]["functionDeclarations"], json!([{"name": "h"}]));
}

#[test]
fn errors_are_read_with_their_details() {
    let error = |code: u16, status: &str, message: &str, details: Value| {
        json!({"error": {"code": code, "message": message, "status": status, "details": details}}).to_string()
    };
    let refusal = |status: u16, body: &str| Options::default().refusal(status, None, body.as_bytes());
    let key = error(400, "INVALID_ARGUMENT", "API key not valid.", json!([{"reason": "API_KEY_INVALID"}]));
    assert_eq!(refusal(400, &key).kind(), Kind::Unauthorized);
    let missing = refusal(404, &error(404, "NOT_FOUND", "models/x is not found", json!([])));
    assert_eq!(
        (missing.kind(), missing.status(), missing.code()),
        (Kind::NotFound, 404, Some("model_not_found"))
    );
    assert_eq!(refusal(404, "<html>404</html>").status(), 502);
    let slow = error(429, "RESOURCE_EXHAUSTED", "Quota", json!([{"retryDelay": "34.07s"}]));
    let slow = refusal(429, &format!("[{slow}]"));
    assert_eq!((slow.kind(), slow.retry_after(), slow.message()), (Kind::RateLimit, Some("35"), "Quota"));
    let long = error(
        400,
        "INVALID_ARGUMENT",
        "The input token count (9) exceeds the maximum number of tokens allowed (8).",
        json!([]),
    );
    assert_eq!(refusal(400, &long).kind(), Kind::ContextLength);
    assert_eq!(refusal(503, &error(503, "UNAVAILABLE", "Busy", json!([]))).kind(), Kind::Overloaded);
}

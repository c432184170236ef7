//! Requests and responses of clients that speak Gemini's API.

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};
use toolwire::{
    conversation::{Conversation, Part, Role, ToolChoice},
    dialect::{Answering, ClientDialect, Dialect, Stamp, Target, UpstreamDialect, fitted},
    event::{CallEnd, CallStart, Event, Finish, Opaque, Reasoning, Runner, Source},
    failure::{Failure, Kind},
};

use crate::support::gemini;

const GEMINI: ClientDialect = ClientDialect::Gemini;

fn decoded(body: &Value) -> Conversation {
    GEMINI.side().decode(body.to_string().as_bytes()).unwrap()
}

/// The body of the request to an upstream of `dialect`.
fn sent(body: &Value, dialect: Dialect) -> Value {
    let conversation = decoded(body);
    let upstream = UpstreamDialect::try_from(dialect).unwrap();
    let fitted = fitted(&conversation, Dialect::Gemini, upstream.side()).unwrap();
    serde_json::from_slice(&upstream.side().encode(&fitted, "m").body).unwrap()
}

fn user(text: &str) -> Value {
    json!({"role": "user", "parts": [{"text": text}]})
}

#[test]
fn path_and_query_say_what_the_body_does_not() {
    let side = GEMINI.side();
    let said = |path: &str, model: &str, query: Option<&str>| {
        let endpoint = side.endpoints().iter().find(|endpoint| endpoint.path == path).unwrap();
        let body =
            Bytes::from(json!({"contents": [user("hi")], "toolwire_path": {"model": "evil"}}).to_string());
        let completed = side.complete(body, &Target { query, ..Target::new(endpoint, model) }).unwrap();
        let conversation = side.decode(&completed).unwrap();
        let array = conversation.repeated.contains("array");
        (conversation.model, conversation.stream, array)
    };
    let answer = |model: &str, stream, array| (model.to_owned(), stream, array);
    assert_eq!(said("/v1beta/models/{model}:generateContent", "a/b", None), answer("a/b", false, false));
    let stream = "/v1/models/{model}:streamGenerateContent";
    assert_eq!(said(stream, "m", Some("key=k&alt=sse")), answer("m", true, false));
    assert_eq!(said(stream, "m", Some("alt=json")), answer("m", true, true));
    assert_eq!(said(stream, "m", None), answer("m", true, true));
    let tuned = "/v1beta/tunedModels/{model}:generateContent";
    assert_eq!(said(tuned, "x", None), answer("tunedModels/x", false, false));
}

#[test]
fn names_in_snake_case_mean_the_same() {
    let camel = json!({
        "contents": [
            {"parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a_b": 1}}}]},
            {"role": "function", "parts": [{"functionResponse": {"name": "f", "response": {"output": "x"}}}]},
        ],
        "systemInstruction": {"parts": [{"text": "Be kind."}]},
        "tools": [{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT", "properties": {"a_b": {"type": "INTEGER"}}}}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
        "generationConfig": {"maxOutputTokens": 5, "topP": 0.5, "stopSequences": ["."], "responseMimeType": "application/json"},
    });
    let snake = camel.to_string();
    let snake = [
        "inlineData",
        "mimeType",
        "functionCall",
        "functionResponse",
        "systemInstruction",
        "functionDeclarations",
        "toolConfig",
        "functionCallingConfig",
        "allowedFunctionNames",
        "generationConfig",
        "maxOutputTokens",
        "topP",
        "stopSequences",
        "responseMimeType",
    ]
    .iter()
    .fold(snake, |text, name| {
        let other: String = name
            .chars()
            .flat_map(|letter| {
                letter.is_ascii_uppercase().then_some('_').into_iter().chain([letter.to_ascii_lowercase()])
            })
            .collect();
        text.replace(&format!("\"{name}\""), &format!("\"{other}\""))
    });
    let snake: Value = serde_json::from_str(&snake).unwrap();
    assert_ne!(snake, camel);
    for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Gemini] {
        assert_eq!(sent(&snake, dialect)["messages"], sent(&camel, dialect)["messages"], "{dialect}");
    }
    let (snake, camel) = (decoded(&snake), decoded(&camel));
    assert_eq!(
        (&snake.turns, &snake.sampling, &snake.tool_choice),
        (&camel.turns, &camel.sampling, &camel.tool_choice)
    );
    assert_eq!(snake.tools[0].parameters, camel.tools[0].parameters);
}

#[test]
fn what_only_google_understands_reaches_it_as_written() {
    let body = json!({
        "contents": [
            {"role": "user", "parts": [
                {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v"}, "videoMetadata": {"fps": 2}},
                {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo=", "displayName": "a.png"}},
                {"text": "What is it?"},
            ]},
            {"role": "model", "parts": [
                {"text": "hm", "thought": true},
                {"functionCall": {"name": "f", "args": {"q": "x"}}, "thoughtSignature": "c2ln"},
                {"executableCode": {"language": "PYTHON", "code": "1"}},
            ]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "{\"a\":1}"}, "scheduling": "SILENT"}}]},
        ],
        "tools": [
            {"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT"}, "behavior": "BLOCKING"}]},
            {"googleSearch": {"timeRangeFilter": {}}},
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}, "retrievalConfig": {"languageCode": "de"}},
        "generationConfig": {
            "responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": ["A"]},
            "thinkingConfig": {"thinkingBudget": 77, "includeThoughts": true}, "speechConfig": {"x": 1},
        },
        "safetySettings": [{"category": "C", "threshold": "T"}],
        "cachedContent": "cachedContents/1",
        "labels": {"a_b": "c"},
    });
    assert_eq!(sent(&body, Dialect::Gemini), body);
}

#[test]
fn other_upstreams_get_the_conversation() {
    let body = json!({
        "systemInstruction": "Be kind.",
        "contents": [
            user("hi"),
            {"role": "model", "parts": [{"text": "Le"}]},
            {"role": "model", "parts": [{"text": "t me look."}, {"text": ""}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"q": "x"}}}, {"functionCall": {"name": "g"}}]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "g", "response": {"error": "no"}}},
                {"functionResponse": {"name": "f", "response": {"result": 5}}},
                {"text": "Go on."},
            ]},
        ],
        "tools": [{"function_declarations": [
            {"name": "f", "description": "F", "parameters": {"type": "OBJECT", "properties": {"q": {"type": "STRING", "nullable": true}}}},
            {"name": "g"},
        ]}, {"googleSearch": {}}],
        "generationConfig": {"responseMimeType": "application/json", "responseSchema": {"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}}},
    });
    let chat = sent(&body, Dialect::Chat);
    let said: Vec<_> = chat["messages"].as_array().unwrap().iter().collect();
    assert_eq!(said[0], &json!({"role": "system", "content": "Be kind."}));
    assert_eq!(said[2]["content"], "Let me look.");
    assert_eq!(said[2]["tool_calls"][0]["function"], json!({"name": "f", "arguments": "{\"q\":\"x\"}"}));
    let ids = [0, 1].map(|call| said[2]["tool_calls"][call]["id"].as_str().unwrap());
    assert_ne!(ids[0], ids[1]);
    let results: Vec<_> = said[3..5]
        .iter()
        .map(|result| (result["tool_call_id"].as_str().unwrap(), result["content"].as_str().unwrap()))
        .collect();
    assert_eq!(results, [(ids[1], "no"), (ids[0], "{\"result\":5}")]);
    assert_eq!(said[5]["content"], "Go on.");
    let tool = &chat["tools"][0]["function"];
    assert_eq!(
        tool["parameters"],
        json!({"type": "object", "properties": {"q": {"type": ["string", "null"]}}})
    );
    assert_eq!(chat["response_format"]["json_schema"]["schema"]["properties"]["a"]["type"], "integer");
    assert_eq!(chat["tools"].as_array().unwrap().len(), 2, "{chat}");
}

#[test]
fn invalid_requests_are_refused_with_the_place() {
    for (body, param) in [
        (json!({}), "contents"),
        (json!({"contents": []}), "contents"),
        (json!({"contents": {}}), "contents"),
        (json!({"contents": [{"role": "system", "parts": []}]}), "contents[0].role"),
        (json!({"contents": [{"parts": [{"text": 1}]}]}), "contents[0].parts[0].text"),
        (
            json!({"contents": [{"parts": [{"functionCall": {"args": {}}}]}]}),
            "contents[0].parts[0].functionCall.name",
        ),
        (
            json!({"contents": [{"parts": [{"functionCall": {"name": "f", "args": []}}]}]}),
            "contents[0].parts[0].functionCall.args",
        ),
        (
            json!({"contents": [{"parts": [{"functionResponse": {"name": "f", "response": "x"}}]}]}),
            "contents[0].parts[0].functionResponse.response",
        ),
        (json!({"contents": [user("a")], "Contents": []}), "Contents"),
        (
            json!({"contents": [user("a")], "generationConfig": {"candidateCount": 2}}),
            "generationConfig.candidateCount",
        ),
        (json!({"contents": [user("a")], "generationConfig": {"topP": "x"}}), "generationConfig.topP"),
        (
            json!({"contents": [user("a")], "toolConfig": {"functionCallingConfig": {"mode": "X"}}}),
            "toolConfig.functionCallingConfig.mode",
        ),
        (
            json!({"contents": [user("a")], "toolConfig": {"functionCallingConfig": {"allowedFunctionNames": ["f"]}}}),
            "toolConfig.functionCallingConfig.allowedFunctionNames",
        ),
        (
            json!({"contents": [user("a")], "tools": [{"functionDeclarations": [{"name": "f", "parameters": {}, "parametersJsonSchema": {}}]}]}),
            "tools[0].functionDeclarations[0].parametersJsonSchema",
        ),
        (
            json!({"contents": [user("a")], "tools": [{"functionDeclarations": [{"name": "f"}, {"name": "f"}]}]}),
            "tools",
        ),
        (
            json!({"contents": [user("a")], "systemInstruction": {"parts": [{"functionCall": {"name": "f"}}]}}),
            "systemInstruction.parts[0]",
        ),
    ] {
        let failure = GEMINI.side().decode(body.to_string().as_bytes()).unwrap_err();
        assert_eq!((failure.kind(), failure.param()), (Kind::Request, Some(param)), "{body}: {failure}");
    }
}

#[test]
fn what_relies_on_googles_servers_is_refused_elsewhere() {
    for (body, member) in [
        (json!({"contents": [user("a")], "cachedContent": "c"}), "cachedContent"),
        (
            json!({"contents": [user("a")], "generationConfig": {"responseModalities": ["IMAGE"]}}),
            "generationConfig",
        ),
    ] {
        let (conversation, upstream) = (decoded(&body), UpstreamDialect::try_from(Dialect::Chat).unwrap());
        let failure = fitted(&conversation, Dialect::Gemini, upstream.side()).unwrap_err().failure(None);
        assert_eq!(failure.param(), Some(member), "{failure}");
    }
    let file =
        json!({"contents": [{"parts": [{"fileData": {"mimeType": "image/png", "fileUri": "gs://b/i"}}]}]});
    let (conversation, upstream) = (decoded(&file), UpstreamDialect::try_from(Dialect::Chat).unwrap());
    let failure = fitted(&conversation, Dialect::Gemini, upstream.side()).unwrap_err();
    let failure = failure.failure(Some(file.to_string().as_bytes()));
    assert_eq!(failure.param(), Some("contents[0].parts[0]"), "{failure}");
}

#[test]
fn tool_choices_are_read() {
    let tools = json!([{"functionDeclarations": [{"name": "f"}, {"name": "g"}]}]);
    let names = || vec!["f".to_owned(), "g".to_owned()];
    for (config, choice) in [
        (json!({"mode": "AUTO"}), ToolChoice::Auto),
        (json!({}), ToolChoice::Auto),
        (json!({"mode": "validated"}), ToolChoice::Auto),
        (json!({"mode": "NONE"}), ToolChoice::None),
        (json!({"mode": "ANY"}), ToolChoice::Required),
        (json!({"mode": "ANY", "allowedFunctionNames": ["f"]}), ToolChoice::Named("f".to_owned())),
        (
            json!({"mode": "ANY", "allowedFunctionNames": names()}),
            ToolChoice::Allowed { names: names(), required: true },
        ),
        (
            json!({"mode": "VALIDATED", "allowedFunctionNames": names()}),
            ToolChoice::Allowed { names: names(), required: false },
        ),
    ] {
        let body =
            json!({"contents": [user("a")], "tools": tools, "toolConfig": {"functionCallingConfig": config}});
        assert_eq!(decoded(&body).tool_choice, choice, "{config}");
    }
}

/// Writes events for a client whose request had these flags.
fn written(events: &[Event<'static>], stream: bool, config: &Value, failure: Option<&Failure>) -> String {
    let body = json!({"contents": [user("a")], "generationConfig": config, "toolwirePath": {"stream": stream, "array": config["array"]}});
    let mut writer = GEMINI.side().writer(&Answering::new(&decoded(&body), Stamp { seed: 5, created: 1 }));
    let mut out = BytesMut::new();
    events.iter().for_each(|event| writer.event(event, &mut out));
    match failure {
        Some(failure) => writer.fail(failure, &mut out),
        None => writer.finish(&mut out),
    }
    String::from_utf8(out.to_vec()).unwrap()
}

fn thought(text: &'static str, state: Option<(&'static str, &'static str)>) -> Event<'static> {
    let signature = state.map(|(dialect, text)| Opaque::new(dialect, text));
    Event::Reasoning(Reasoning { signature, ..Reasoning::text(text) })
}

fn call(index: u32, arguments: &'static str, end: CallEnd) -> [Event<'static>; 3] {
    let start = CallStart {
        index,
        id: format!("c{index}").into(),
        name: "f".into(),
        runner: Runner::Client,
        source: Source::Native,
        signature: None,
    };
    [
        Event::CallStart(start),
        Event::CallArguments { index, piece: arguments.into() },
        Event::CallEnd { index, end },
    ]
}

#[test]
fn thoughts_are_written_only_on_request() {
    let events =
        [thought("hm", Some(("messages", "s"))), Event::Text("hi".into()), Event::Finish(Finish::Stop)];
    for stream in [true, false] {
        let shown = written(&events, stream, &json!({"thinkingConfig": {"includeThoughts": true}}), None);
        assert!(shown.contains(r#"{"text":"hm","thought":true"#), "{shown}");
        let hidden = written(&events, stream, &json!({}), None);
        assert!(!hidden.contains("thought") && hidden.contains(r#"{"text":"hi"}"#), "{hidden}");
    }
}

#[test]
fn state_of_every_dialect_comes_back() {
    for (dialect, state) in [("messages", "s:1"), ("gemini", "c2ln"), ("responses", "gAAAA")] {
        let events =
            [thought("hm", Some((dialect, state))), Event::Text("hi".into()), Event::Finish(Finish::Stop)];
        for stream in [true, false] {
            let shown = written(&events, stream, &json!({"thinkingConfig": {"includeThoughts": true}}), None);
            let bodies: Vec<Value> = match stream {
                true => shown
                    .lines()
                    .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
                    .collect(),
                false => vec![serde_json::from_str(&shown).unwrap()],
            };
            let contents: Vec<_> =
                bodies.iter().map(|body| body["candidates"][0]["content"].clone()).collect();
            let mut history = vec![user("a")];
            history.extend(contents);
            history.push(user("b"));
            let conversation = decoded(&json!({ "contents": history }));
            let [_, model, _] = conversation.turns.as_slice() else { panic!("{:?}", conversation.turns) };
            assert_eq!(model.role, Role::Assistant);
            let [Part::Reasoning { text, signature, .. }, Part::Text(said)] = model.parts.as_slice() else {
                panic!("{:?}", model.parts)
            };
            assert_eq!((text.as_str(), said.as_str()), ("hm", "hi"));
            assert_eq!(signature, &Some(Opaque::new(dialect, state)), "{shown}");
        }
    }
}

#[test]
fn stream_without_sse_is_an_array_whatever_happens() {
    let failure = Failure::new(Kind::Truncated, "cut");
    let said = [Event::Text("a".into()), Event::Text("b".into())];
    let ended = [said.to_vec(), vec![Event::Finish(Finish::Stop)]].concat();
    let array = json!({"array": true});
    let whole = gemini::of_array(written(&ended, true, &array, None).as_bytes());
    assert_eq!((whole.text.as_str(), whole.finish.as_deref()), ("ab", Some("stop")));
    for events in [&said[..], &[]] {
        let cut = gemini::of_array(written(events, true, &array, Some(&failure)).as_bytes());
        assert_eq!((cut.finish, cut.error.unwrap()["code"].as_u64()), (None, Some(502)));
    }
}

#[test]
fn calls_that_are_not_whole_never_look_whole() {
    for (arguments, end, finish, reason) in [
        ("{\"a\": 1, \"s\": \"San", CallEnd::Cut, Finish::Length, "MAX_TOKENS"),
        ("{\"a\": oops", CallEnd::Broken, Finish::Calls, "MALFORMED_FUNCTION_CALL"),
        ("[1]", CallEnd::Complete, Finish::Calls, "MALFORMED_FUNCTION_CALL"),
    ] {
        let events = [
            call(0, "{}", CallEnd::Complete).to_vec(),
            call(1, arguments, end).to_vec(),
            vec![Event::Finish(finish)],
        ]
        .concat();
        for stream in [true, false] {
            let shown = written(&events, stream, &json!({}), None);
            assert_eq!(shown.matches("\"functionCall\"").count(), 1, "{shown}");
            assert!(shown.contains(&format!("\"finishReason\":\"{reason}\"")), "{shown}");
            let told = serde_json::to_string(arguments).unwrap();
            assert!(shown.contains(told.trim_matches('"')), "{shown}");
        }
    }
}

#[test]
fn arguments_on_several_lines_fit_in_an_event() {
    let events =
        [call(0, "{\n  \"a\": \"x y\"\r\n}", CallEnd::Complete).to_vec(), vec![Event::Finish(Finish::Calls)]]
            .concat();
    let shown = written(&events, true, &json!({}), None);
    assert_eq!(gemini::of_stream(shown.as_bytes()).calls[0].arguments, r#"{"a":"x y"}"#);
}

//! Tests upstreams with Ollama's own API: requests, and responses split at arbitrary points.

mod clients;

use serde_json::{Value, json};
use toolwire::{
    conversation::Conversation,
    dialect::{
        ClientDialect, UpstreamSide,
        ollama::{Options, ReaderSettings, Think},
    },
    failure::Kind,
};

use crate::read::{read_in, read_splits};

const SETTINGS: ReaderSettings = ReaderSettings { max_frame: 1 << 16, tolerate_truncation: false };

/// Summarizes a body. Asserts that no split changes the result.
#[track_caller]
fn read(body: &str) -> String {
    read_splits(SETTINGS, body.as_bytes()).summary()
}

fn line(message: &str) -> String {
    let head = r#""model":"qwen3","created_at":"2026-11-22T10:00:00.000123Z""#;
    format!("{{{head},\"message\":{{\"role\":\"assistant\",{message}}},\"done\":false}}\n")
}

/// The final line, with the finish reason.
fn done(reason: &str) -> String {
    let message = r#""message":{"role":"assistant","content":""}"#;
    format!("{{\"model\":\"qwen3\",{message},\"done_reason\":\"{reason}\",\"done\":true}}\n")
}

#[test]
fn stream_is_read_however_it_is_cut() {
    let text = line(r#""content":"a""#) + &line(r#""content":"é\n""#) + &line(r#""content":"b""#);
    let thinking = line(r#""content":"","thinking":"Hm""#) + &line(r#""content":"","thinking":".""#);
    for (body, expected) in [
        (text.clone() + &done("stop"), "aé\nb | stop"),
        (text.clone() + &done("length"), "aé\nb | length"),
        (text.replace('\n', "\r\n\r\n") + done("stop").trim_end(), "aé\nb | stop"),
        (thinking.clone() + &text + &done("stop"), "(Hm.) | aé\nb | stop"),
        (line(r#""content":"\ud83d""#) + &line(r#""content":"\ude00""#) + &done("stop"), "😀 | stop"),
        (line(r#""content":"a\ud83d""#) + &done("stop"), "a\u{fffd} | stop"),
        (line(r#""content":"a\ud83d""#) + &done("length"), "a | length"),
        (line(r#""content":"a","thinking":"t""#) + &done("stop"), "(t) | a | stop"),
        (
            line(r#""content":null,"images":["iVBORw0KGgoA"]"#) + &done("stop"),
            "media image/png iVBORw0KGgoA | stop",
        ),
        (done("stop"), "stop"),
        (format!("data: {}\ndata: [DONE]\n\n", line(r#""content":"a""#)), "a | stop"),
        (line(r#""content":"a""#) + "[DONE]\n" + &line(r#""content":"late""#), "a | stop"),
    ] {
        assert_eq!(read(&body), expected, "{body}");
    }
}

#[test]
fn calls_are_passed_on_as_they_were_written() {
    let call =
        |function: &str| line(&format!(r#""content":"","tool_calls":[{{"function":{{{function}}}}}]"#));
    for (body, expected) in [
        (
            call(r#""name":"f","arguments":{"b": 1.0,"a":"x"}"#) + &done("stop"),
            r#" f {"b": 1.0,"a":"x"} | calls"#,
        ),
        (
            call(r#""index":0,"name":"f","arguments":{}"#)
                + &call(r#""index":0,"name":"f","arguments":{"a":1}"#)
                + &done("stop"),
            r#" f {} |  f {"a":1} | calls"#,
        ),
        (
            line(
                r#""content":"x","tool_calls":[{"id":"c1","function":{"name":"f","arguments":{}}},{"id":"c2","function":{"name":"g"}}]"#,
            ) + &done("stop"),
            "x | c1 f {} | c2 g {} | calls",
        ),
        (call(r#""name":"f","arguments":"{\"a\":1}""#) + &done("stop"), r#" f {"a":1} | calls"#),
        (call(r#""name":"f","arguments":null"#) + &done("tool_calls"), " f {} | calls"),
        (call(r#""name":"f","arguments":{}"#) + &done("length"), " f {} | length"),
        (call(r#""name":"f","arguments":[1]"#) + &done("stop"), " f [1] cut | calls"),
        (call(r#""name":"","arguments":{}"#) + &line(r#""content":"a""#) + &done("stop"), "a | stop"),
    ] {
        assert_eq!(read(&body), expected, "{body}");
    }
}

#[test]
fn last_line_gives_the_token_counts() {
    let last = r#"{"message":{"role":"assistant","content":"b"},"done":true,"done_reason":"stop","total_duration":5,"prompt_eval_count":9,"eval_count":4}"#;
    assert_eq!(read(&(line(r#""content":"a""#) + last)), "ab | stop | usage 9 4 13");
    assert_eq!(read(last), "b | stop | usage 9 4 13");
    assert_eq!(read(&last.replace(r#""prompt_eval_count":9,"#, "")), "b | stop | usage - 4 -");
    let pretty = "{\n \"message\": {\"content\": \"a\"},\n \"done\": true\n}\n";
    assert_eq!(read(pretty), "a | stop");
}

#[test]
fn failures_are_reported_and_truncated_responses_never_look_complete() {
    let begun = line(r#""content":"a""#);
    let called = line(r#""content":"","tool_calls":[{"function":{"name":"f","arguments":{}}}]"#);
    for (body, kind) in [
        (String::new(), Kind::Truncated),
        (begun.clone(), Kind::Truncated),
        (called, Kind::Truncated),
        (begun.trim_end().to_owned(), Kind::Truncated),
        (begun.clone() + &line(r#""content":"b""#)[..30], Kind::Truncated),
        (line(r#""content":"","thinking":"Hm""#), Kind::Truncated),
        (
            begun.clone() + "{\"error\":\"an error was encountered while running the model\"}\n",
            Kind::Upstream,
        ),
        ("{\"error\":\"model 'x' not found\"}".to_owned(), Kind::Upstream),
        (begun.clone() + "garbage\n", Kind::Protocol),
        (begun.clone() + &done("abort"), Kind::Upstream),
        (done("load"), Kind::Upstream),
        (done("unload"), Kind::Upstream),
        ("{\"models\":[]}".to_owned(), Kind::Protocol),
        ("[]".to_owned(), Kind::Protocol),
        ("<html>no</html>".to_owned(), Kind::Protocol),
    ] {
        let read = read(&body);
        assert!(read.contains(&format!("error {kind:?} ")) && !read.contains("stop"), "{body}: {read}");
    }
    let tolerant = ReaderSettings { tolerate_truncation: true, ..SETTINGS };
    assert_eq!(read_splits(tolerant, begun.as_bytes()).summary(), "a | stop");
}

#[test]
fn what_follows_the_end_is_not_read() {
    assert_eq!(
        read(&(line(r#""content":"a""#) + &done("stop") + &line(r#""content":"b""#) + "garbage\n")),
        "a | stop"
    );
}

#[test]
fn unknown_members_and_lines_are_left_out_and_counted() {
    let body = "{\"status\":\"loading\"}\n".to_owned()
        + &line(r#""content":{"x":1}"#)
        + &line(r#""content":"a""#)
        + &done("eh");
    let read = read_splits(SETTINGS, body.as_bytes());
    assert_eq!(read.summary(), "a | stop");
    assert_eq!(read.skipped.to_string(), "not_a_chunk=1 unknown_part=1 unknown_finish=1");
}

/// The fast path must not misread lines with escapes, an unusual time or extra members.
#[test]
fn lines_that_look_alike_mean_what_they_say() {
    let odd = line(r#""content":"a\u00e9\"""#);
    let late = line(r#""content":"c""#).replace("2026-11-22T10:00:00.000123Z", "");
    let extra = line(r#""content":"d""#).replace("\"done\":false", "\"done\":false,\"error\":\"x\"");
    let body = line(r#""content":"1""#) + &odd + &late + &line(r#""content":"","thinking":"t""#);
    assert_eq!(read(&(body.clone() + &done("stop"))), "1aé\"c | (t) | stop");
    assert!(read(&(body + &extra)).ends_with("error Upstream error"));
}

#[test]
fn million_tiny_lines_are_read_as_they_arrive() {
    let body = line(r#""content":"x""#).repeat(20_000) + &done("stop");
    let summary = read_in(SETTINGS, body.as_bytes().chunks(7), true).summary();
    assert_eq!(summary.len(), 20_000 + " | stop".len());
}

fn conversation(fields: Value) -> Conversation {
    let mut request = json!({"model": "m", "messages": [{"role": "user", "content": "U"}]});
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    ClientDialect::Chat.side().decode(request.to_string().as_bytes()).unwrap()
}

fn encoded(options: &Options, fields: Value) -> (Value, Vec<String>) {
    let request = options.encode(&conversation(fields), "up");
    (serde_json::from_slice(&request.body).unwrap(), request.dropped)
}

#[test]
fn request_has_the_models_options_and_the_clients_tools() {
    let tool = json!({"type": "function", "function": {"name": "f", "description": "D", "strict": true,
        "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}});
    let fields = json!({"stream": true, "temperature": 0.5, "top_p": 0.9, "max_completion_tokens": 7, "stop": ["a"], "seed": 1,
        "top_k": 3, "options": {"num_ctx": 1000}, "reasoning_effort": "high", "logprobs": true, "parallel_tool_calls": false,
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}, "tools": [tool],
        "tool_choice": "required"});
    let options = Options {
        options: vec!["num_ctx=32768".into(), "num_gpu = 1".into(), "x=y".into(), "odd".into()],
        keep_alive: Some("10m".into()),
        ..Options::default()
    };
    let (body, dropped) = encoded(&options, fields);
    let expected = json!({
        "model": "up", "messages": [{"role": "user", "content": "U"}],
        "tools": [{"type": "function", "function": {"name": "f", "description": "D",
            "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}}],
        "format": {"type": "object"}, "think": true,
        "options": {"num_predict": 7, "temperature": 0.5, "top_p": 0.9, "seed": 1, "stop": ["a"], "top_k": 3, "num_ctx": 1000,
            "num_gpu": 1, "x": "y"},
        "keep_alive": "10m", "stream": true,
    });
    assert_eq!(body, expected);
    assert_eq!(dropped, ["logprobs", "parallel_tool_calls", "tool_choice", "tools[].function.strict"]);
}

#[test]
fn history_has_no_ids_and_results_are_in_the_order_of_their_calls() {
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let messages = json!([
        {"role": "developer", "content": "S"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "image_url", "image_url": {"url": "https://x/y.png"}}]},
        {"role": "assistant", "content": null, "reasoning_content": "Hm", "tool_calls": [
            call("1", "f", "{\"b\": 1.0, \"a\": 2}"), call("2", "g", ""), call("3", "h", "broken")]},
        {"role": "tool", "tool_call_id": "3", "content": "three"},
        {"role": "tool", "tool_call_id": "1", "content": "one"},
        {"role": "tool", "tool_call_id": "9", "content": "nine"},
        {"role": "tool", "tool_call_id": "2", "content": "two"},
        {"role": "user", "content": "go on"},
    ]);
    let request = Options::default().encode(&conversation(json!({"messages": messages})), "up");
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let expected = json!([
        {"role": "system", "content": "S"},
        {"role": "user", "content": "a\nb", "images": ["AAAA"]},
        {"role": "assistant", "content": "", "thinking": "Hm", "tool_calls": [
            {"function": {"name": "f", "arguments": {"b": 1.0, "a": 2}}},
            {"function": {"name": "g", "arguments": {}}},
            {"function": {"name": "h", "arguments": {"arguments": "broken"}}}]},
        {"role": "tool", "content": "one", "tool_name": "f"},
        {"role": "tool", "content": "two", "tool_name": "g"},
        {"role": "tool", "content": "three", "tool_name": "h"},
        {"role": "tool", "content": "nine"},
        {"role": "user", "content": "go on"},
    ]);
    assert_eq!(body["messages"], expected);
    assert_eq!(request.dropped, ["messages[].content[].image_url"]);
    let text = std::str::from_utf8(&request.body).unwrap();
    assert!(text.contains(r#"{"b": 1.0, "a": 2}"#), "arguments as written");
}

#[test]
fn tool_choice_limits_the_declared_tools() {
    let tools: Vec<_> =
        ["f", "g"].iter().map(|name| json!({"type": "function", "function": {"name": name}})).collect();
    let named = |body: &Value| {
        let tools = body["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for (choice, expected) in [
        (json!("auto"), vec!["f", "g"]),
        (json!("none"), vec![]),
        (json!({"type": "function", "function": {"name": "g"}}), vec!["g"]),
    ] {
        let (body, _) = encoded(&Options::default(), json!({"tools": tools, "tool_choice": choice}));
        assert_eq!(named(&body), expected, "{choice}");
    }
    let (body, _) = encoded(&Options::default(), json!({"tools": tools}));
    assert_eq!(body["tools"][0]["function"]["parameters"], json!({"type": "object", "properties": {}}));
}

#[test]
fn effort_is_a_switch_or_a_level() {
    let think = |think: Think, model: &str, effort: &str| {
        let request = Options { think, ..Options::default() }
            .encode(&conversation(json!({"reasoning_effort": effort})), model);
        serde_json::from_slice::<Value>(&request.body).unwrap().get("think").cloned()
    };
    for (setting, model, effort, expected) in [
        (Think::Auto, "qwen3", "low", Some(json!(true))),
        (Think::Auto, "qwen3", "none", Some(json!(false))),
        (Think::Auto, "gpt-oss:20b", "minimal", Some(json!("low"))),
        (Think::Auto, "gpt-oss:20b", "xhigh", Some(json!("high"))),
        (Think::Level, "qwen3", "medium", Some(json!("medium"))),
        (Think::Level, "qwen3", "none", Some(json!(false))),
        (Think::Switch, "gpt-oss", "high", Some(json!(true))),
        (Think::Off, "qwen3", "none", None),
    ] {
        assert_eq!(think(setting, model, effort), expected, "{setting:?} {model} {effort}");
    }
    let (body, _) = encoded(&Options::default(), json!({"think": "low", "keep_alive": 0}));
    assert_eq!((&body["think"], &body["keep_alive"]), (&json!("low"), &json!(0)));
}

#[test]
fn error_with_status_404_is_about_the_model_if_it_is_json() {
    let options = Options::default();
    let missing = options.refusal(404, None, b"{\"error\":\"model 'x' not found\"}");
    assert_eq!(
        (missing.kind(), missing.status(), missing.code()),
        (Kind::NotFound, 404, Some("model_not_found"))
    );
    assert_eq!(options.refusal(404, None, b"404 page not found").status(), 502);
    let refused = options.refusal(400, None, b"{\"error\":\"gemma does not support tools\"}");
    assert_eq!((refused.kind(), refused.message()), (Kind::Request, "gemma does not support tools"));
}

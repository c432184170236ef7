//! Tests upstreams that send malformed data: the response must end as the client's API requires, and the next
//! request must be served.
//!
//! `tests/core/hostile.rs` tests malformed frames in every dialect without sockets.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use toolwire::{
    config::ToolStyle,
    dialect::{Dialect, UpstreamDialect, lumo},
    format::HERMES,
};

use crate::{
    independent::{
        client::Answer,
        hostile::{SPEECHES, changed, frames, is_end, json_of, whole},
        messages, responses,
        upstream::Speech,
    },
    support::{
        client::{Client, weather},
        proxy::{Proxy, Setup},
        upstream::{END, Upstream, answer, text},
    },
};

/// Data of events that are not valid chunks.
const CHUNKS: &[&str] = &[
    "",
    "null",
    "5",
    "\"x\"",
    "[]",
    "{}",
    "{",
    "}{",
    "nonsense",
    "[DONE]",
    r#"{"choices":null}"#,
    r#"{"choices":{}}"#,
    r#"{"choices":[null,5,"x",[]]}"#,
    r#"{"choices":[{"index":-1,"delta":{"content":"x"}}]}"#,
    r#"{"choices":[{"index":1e300,"delta":{"content":"x"}}]}"#,
    r#"{"choices":[{"index":"0","delta":{"content":"x"}}]}"#,
    r#"{"choices":[{"delta":null}]}"#,
    r#"{"choices":[{"delta":[]}]}"#,
    r#"{"choices":[{"delta":{"content":5}}]}"#,
    r#"{"choices":[{"delta":{"content":{"a":1}}}]}"#,
    r#"{"choices":[{"delta":{"content":[null,5,{"type":"text"},{"type":"text","text":5}]}}]}"#,
    r#"{"choices":[{"delta":{"content":"\ud800"}}]}"#,
    r#"{"choices":[{"delta":{"content":"\u0000\u001b[31m\u202e"}}]}"#,
    r#"{"choices":[{"delta":{"role":5,"refusal":[],"reasoning_content":{}}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":null}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":{}}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[null,5,"x",[]]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":null}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":null,"arguments":null}}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":5,"function":{"name":5,"arguments":5}}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"","function":{"name":"","arguments":""}}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":-1,"id":"a","function":{"name":"weather","arguments":"{}"}}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":18446744073709551615,"id":"a","function":{"name":"weather","arguments":"{}"}}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"weather","arguments":{"city":["x"]}}}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"weather","arguments":"}}}{{{"}}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a\r\nx: y","function":{"name":"we\r\nather","arguments":"\ud800"}}]}}]}"#,
    r#"{"choices":[{"delta":{"function_call":{"name":[],"arguments":{}}}}]}"#,
    r#"{"choices":[{"delta":{},"finish_reason":5}]}"#,
    r#"{"choices":[{"delta":{},"finish_reason":"nonsense"}]}"#,
    r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
    r#"{"choices":[{"delta":{"content":"x"},"delta":{"content":"y"}}]}"#,
    r#"{"choices":[],"usage":"x"}"#,
    r#"{"choices":[],"usage":{"prompt_tokens":-5,"completion_tokens":1e300,"total_tokens":18446744073709551615}}"#,
    r#"{"choices":[],"usage":{"prompt_tokens":18446744073709551615,"completion_tokens":18446744073709551615}}"#,
    r#"{"choices":[],"usage":{"prompt_tokens":{"a":1},"prompt_tokens_details":[],"cached_tokens":"x"}}"#,
    r#"{"error":null}"#,
    r#"{"error":"x"}"#,
    r#"{"error":5}"#,
    r#"{"error":{}}"#,
    r#"{"error":{"message":5,"code":{},"type":[]}}"#,
    r#"{"error":{"message":"a\r\nx: y","code":"\u0000","type":"\u001b[31m"}}"#,
    r#"{"id":5,"model":{},"created":"x","object":null,"choices":[{"delta":{"content":"x"}}]}"#,
];

/// Complete streams, most of them malformed.
fn streams() -> Vec<String> {
    let deep = format!("data: {{\"choices\":{}\n\n", "[".repeat(100_000));
    let long = format!("data: {{\"id\":\"{}\",\"choices\":[]}}\n\n", "i".repeat(200_000));
    let good = answer();
    let mut streams = vec![
        String::new(),
        "\n\n\n\n".to_owned(),
        ": comment\n\n".repeat(1000),
        "event: error\ndata: x\n\n".to_owned(),
        "event: error\ndata: {\"message\":\"x\"}\n\n".to_owned(),
        "id: 1\nretry: 0\nevent\n\n".to_owned(),
        "data\n\ndata:\n\ndata: \n\n".to_owned(),
        "\0\u{1}\u{7f}\n\n".to_owned(),
        "<html><body>502</body></html>".to_owned(),
        "{\"error\":{\"message\":\"x\"}}".to_owned(),
        format!("\u{feff}{good}"),
        good.replace('\n', "\r\n"),
        good.replace('\n', "\r"),
        format!("{good}{good}"),
        format!("{good}data: nonsense\n\n"),
        "data: [DONE]\n\n".repeat(100),
        text("x"),
        format!("{}data: [DONE]\n\n", text("x")),
        format!("{deep}{good}"),
        format!("{long}{good}"),
        "<tool_call>".repeat(20_000),
    ];
    for chunk in CHUNKS {
        let event = format!("data: {chunk}\n\n");
        streams.extend([event.clone(), format!("{event}{good}"), format!("{}{event}{END}", text("x"))]);
    }
    streams
}

/// Complete JSON bodies, most of them malformed.
fn wholes() -> Vec<String> {
    let mut wholes = vec!["[".repeat(100_000), "\u{feff}{}".to_owned(), " ".repeat(10_000), answer()];
    wholes.extend(CHUNKS.iter().map(|chunk| chunk.replace("\"delta\"", "\"message\"")));
    wholes
}

/// Returns a request for each client API.
fn requests(stream: bool) -> [(&'static str, Value); 3] {
    let chat = weather(json!({"stream": stream}));
    let function = chat["tools"][0]["function"].clone();
    let schema = function["parameters"].clone();
    let message = json!([{"role": "user", "content": "weather?"}]);
    let flat = json!([{"type": "function", "name": "weather", "parameters": schema}]);
    let tools = json!([{"name": "weather", "input_schema": schema}]);
    [
        ("/v1/chat/completions", chat),
        ("/v1/responses", json!({"model": "m", "stream": stream, "input": "weather?", "tools": flat})),
        (
            "/v1/messages",
            json!({"model": "m", "stream": stream, "max_tokens": 9, "messages": message, "tools": tools}),
        ),
    ]
}

async fn ask(client: &Client, proxy: &Proxy, path: &str, body: &Value) -> (u16, String) {
    let request = Request::post(proxy.url(path)).header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    let reply = client.send(request).await.unwrap();
    (reply.status().as_u16(), reply.rest().await)
}

/// Whether a stream ends, with success or an error, as the API at `path` requires.
fn has_end(path: &str, stream: &str) -> bool {
    let last = |names: &[&str]| {
        let name = stream.lines().rev().find_map(|line| line.strip_prefix("event: "));
        names.contains(&name.unwrap_or_default())
    };
    stream.ends_with("\n\n")
        && match path {
            "/v1/chat/completions" => stream.ends_with("data: [DONE]\n\n"),
            "/v1/messages" => last(&["message_stop", "error"]),
            _ => last(&["response.completed", "response.incomplete", "response.failed", "error"]),
        }
}

/// A proxy whose upstream answers each request with the content type and the body in the mutex.
async fn start(speech: Speech) -> (Proxy, Upstream, Arc<Mutex<(&'static str, String)>>) {
    let said = Arc::new(Mutex::new(("", String::new())));
    let upstream = Upstream::start_sharing(Arc::clone(&said), |mut exchange, said| async move {
        let (kind, body) = said.lock().unwrap().clone();
        exchange.whole("200 OK", &format!("content-type: {kind}\r\n"), &body).await;
        exchange
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    let of = |dialect| UpstreamDialect::try_from(dialect).unwrap();
    setup.upstream.options = match speech {
        Speech::Messages => of(Dialect::Messages),
        Speech::Responses => of(Dialect::Responses),
        Speech::Gemini => of(Dialect::Gemini),
        Speech::Interactions => of(Dialect::Interactions),
        Speech::OllamaChat => of(Dialect::Ollama),
        Speech::Completions => of(Dialect::Completions),
        Speech::LumoV1 | Speech::LumoV2 => {
            let version = if speech == Speech::LumoV1 { lumo::Version::V1 } else { lumo::Version::V2 };
            UpstreamDialect::Lumo(lumo::Options { version, ..lumo::Options::default() })
        }
        _ => setup.upstream.options,
    };
    match speech {
        Speech::LumoV1 | Speech::LumoV2 => setup.tools = ToolStyle::Format(&HERMES),
        Speech::Completions => {
            setup.chat_template = Some("{% for m in messages %}{{ m.content }}{% endfor %}".to_owned());
        }
        _ => {}
    }
    (setup.start().await, upstream, said)
}

/// Tries each of `answers`. After each, checks that a valid answer still reaches the client.
async fn plays(kind: &'static str, answers: Vec<String>, stream: bool) {
    let ((proxy, _upstream, said), client) = (start(Speech::Chat).await, Client::new());
    for hostile in answers {
        let shown: String = hostile.chars().take(200).collect();
        for (path, request) in requests(stream) {
            *said.lock().unwrap() = (kind, hostile.clone());
            let (status, body) = ask(&client, &proxy, path, &request).await;
            if status == 200 && stream {
                assert!(has_end(path, &body), "{path} {shown:?}: {body}");
            } else {
                let body: Value = serde_json::from_str(&body)
                    .unwrap_or_else(|error| panic!("{path} {shown:?}: {error}: {body}"));
                assert!(status == 200 || body["error"]["message"].is_string(), "{path} {shown:?}: {body}");
            }
        }
        *said.lock().unwrap() = ("text/event-stream", answer());
        let (path, request) = &requests(true)[0];
        let (status, body) = ask(&client, &proxy, path, request).await;
        assert!(status == 200 && body.contains("hello"), "after {shown:?}: {status} {body}");
    }
}

#[tokio::test]
async fn every_stream_ends_in_the_form_of_the_clients_api() {
    plays("text/event-stream", streams(), true).await;
}

#[tokio::test]
async fn every_stream_for_a_whole_response_is_json() {
    plays("text/event-stream", streams(), false).await;
}

#[tokio::test]
async fn every_whole_answer_is_json_or_an_error() {
    plays("application/json", wholes(), false).await;
}

#[tokio::test]
async fn every_whole_answer_to_a_stream_ends_it() {
    plays("application/json", wholes(), true).await;
}

/// Returns bodies in the upstream's dialect, each with whether it is truncated. Some are cut off after or within an
/// event or value, some have parts of another type, and some continue after the end.
fn spoken(speech: Speech) -> Vec<(&'static str, String, bool)> {
    let frames = frames(speech);
    let end = frames.iter().position(|frame| is_end(frame)).unwrap();
    let kind = if speech == Speech::OllamaChat { "application/x-ndjson" } else { "text/event-stream" };
    let mut bodies =
        vec![(kind, frames.concat() + &frames.concat(), false), (kind, frames.concat() + "\0{", false)];
    for at in 0..=end {
        let (before, next) = (frames[..at].concat(), &frames[at]);
        bodies.push((kind, before.clone(), true));
        bodies.push((kind, before + &next[..next.find('{').unwrap_or(2) + 1], true));
    }
    for (at, frame) in frames.iter().enumerate() {
        let Some((text, value)) = json_of(frame) else { continue };
        for (_, changed) in changed(&value).into_iter().skip(at).step_by(29) {
            let changed = frame.replace(text, &changed.to_string());
            bodies.push((kind, [&frames[..at], &[changed], &frames[at + 1..]].concat().concat(), false));
        }
    }
    if let Some(whole) = whole(speech) {
        let text = whole.to_string();
        let cuts = [1, text.len() / 3, text.len() - 1];
        bodies.extend(cuts.map(|at| ("application/json", text[..at].to_owned(), true)));
        let changed = changed(&whole).into_iter().step_by(17);
        bodies.extend(changed.map(|(_, changed)| ("application/json", changed.to_string(), false)));
    }
    bodies
}

/// Reads the answer like a client of the API at `path`. Panics on anything that the API does not allow.
fn read(path: &str, (status, body): (u16, String), stream: bool) -> Answer {
    let body = body.as_bytes();
    match (path, stream && status == 200) {
        ("/v1/chat/completions", true) => Answer::of_stream(body),
        ("/v1/chat/completions", false) => Answer::of_body(body, status),
        ("/v1/messages", true) => messages::of_stream(body),
        ("/v1/messages", false) => messages::of_body(body, status),
        (_, true) => responses::of_stream(body),
        (_, false) => responses::of_body(body, status),
    }
}

#[tokio::test]
async fn every_dialects_hostile_bodies_end_in_the_form_of_the_clients_api() {
    for speech in SPEECHES {
        let ((proxy, _upstream, said), client) = (start(speech).await, Client::new());
        let kind = if speech == Speech::OllamaChat { "application/x-ndjson" } else { "text/event-stream" };
        let good = (kind, frames(speech).concat(), false);
        for (number, (kind, body, breaks_off)) in spoken(speech).into_iter().chain([good]).enumerate() {
            *said.lock().unwrap() = (kind, body.clone());
            let stream = number % 2 == 0;
            for (path, request) in requests(stream) {
                let answer = read(path, ask(&client, &proxy, path, &request).await, stream);
                let is_failed = answer.error.is_some();
                assert_ne!(is_failed, answer.finish.is_some(), "{speech:?} {path} {body}: {answer:?}");
                assert!(is_failed || !breaks_off, "{speech:?} {path} {body}: {answer:?}");
                assert_eq!(
                    answer.status >= 400,
                    is_failed && (!stream || answer.status != 200),
                    "{answer:?}"
                );
            }
        }
    }
}

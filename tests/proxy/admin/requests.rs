//! Tests what the log of exchanges shows of requests and hosted calls, and what else would be read in a response.

use std::{
    process::Command,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use toolwire::{config::ToolStyle, format::HERMES, rules::Detect};

use super::{
    Ask, KEY, TOOLS, WITH_KEY,
    exchanges::{CAPTURED, get, rows, unpacked},
    proxy,
};
use crate::support::{
    client::{Client, STREAM, WHOLE},
    proxy::{Proxy, Setup},
    upstream::{END, Exchange, Upstream, at_once, text},
};

/// The path of the only exchange that has ended, and its requests.
async fn requests(proxy: &Proxy) -> (String, Value) {
    let row = rows(proxy, "/admin/exchanges?q=-state:running", 1).await.remove(0);
    let path = format!("/admin/exchanges/{}", row["id"].as_str().unwrap());
    let requests = get(proxy, &format!("{path}/requests")).await;
    (path, requests)
}

/// An upstream that responds at once, and the bodies that it gets.
async fn recorded() -> (Upstream, Arc<Mutex<Vec<String>>>) {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let upstream = Upstream::start_sharing(Arc::clone(&bodies), |exchange, bodies| async move {
        bodies.lock().unwrap().push(String::from_utf8(exchange.body.clone()).unwrap());
        at_once(exchange).await
    });
    (upstream.await, bodies)
}

#[tokio::test]
async fn request_is_shown_as_the_client_and_as_toolwire_sent_it() {
    let (upstream, bodies) = recorded().await;
    let mut setup = Setup { execution: CAPTURED.to_owned(), ..Setup::new(upstream.address) };
    setup.tools = ToolStyle::Format(&HERMES);
    let proxy = setup.start().await;
    let request = json!({
        "model": "m", "stream": true,
        "messages": [{"role": "user", "content": "my key is sk-proj-abcdefghijklmnop"}],
        "tools": [{"type": "function", "function": {"name": "get_weather", "description": "The weather"}}],
    });
    Client::new().chat(&proxy, request.to_string()).await.rest().await;
    let (_, shown) = requests(&proxy).await;
    let secret = "sk-proj-abcdefghijklmnop";
    let masked = |text: &str| text.replace(secret, &"x".repeat(secret.len()));
    assert_eq!(shown["client"]["body"], masked(&request.to_string()), "{shown}");
    let sent = bodies.lock().unwrap().first().cloned().unwrap();
    assert!(sent.contains("get_weather") && sent.contains("<tool_call>") && !sent.contains("\"tools\""));
    let expected =
        json!([{"hop": 1, "t_ms": 0, "dialect": "chat", "bytes": sent.len(), "body": masked(&sent)}]);
    assert_eq!(shown["requests"], expected);
    assert_eq!((&shown["captured"], &shown["hosted"]), (&json!("redacted"), &json!([])));
    let options = shown["rewrite"]["options"].to_string();
    assert!(options.starts_with(r#"["--from","chat","--to","chat""#), "{options}");
}

#[tokio::test]
async fn hosted_calls_have_their_arguments_and_results() {
    let upstream = Upstream::start(|exchange: Exchange| async move {
        if exchange.body.windows(13).any(|part| part == b"\"tool_call_id") {
            return exchange.stream(text("done") + END).await;
        }
        let arguments = r#"{"text":"sk-proj-abcdefghijklmnop"}"#;
        let call = json!({"choices": [{"index": 0, "delta": {"tool_calls": [
            {"index": 0, "id": "call_1", "type": "function", "function": {"name": "echo", "arguments": arguments}}]}}]});
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
        exchange.stream(format!("data: {call}\n\ndata: {end}\n\ndata: [DONE]\n\n")).await
    })
    .await;
    let setup = Setup { execution: format!("{TOOLS}{CAPTURED}"), ..Setup::new(upstream.address) };
    let proxy = setup.start().await;
    Client::new().chat(&proxy, STREAM).await.rest().await;
    let row = rows(&proxy, "/admin/exchanges?q=state:done+tool:echo", 1).await.remove(0);
    assert_eq!(
        (&row["calls"], &row["client_calls"], &row["hosted_calls"], &row["tools"]),
        (&json!(1), &json!(0), &json!(1), &json!(["echo"]))
    );
    let (path, shown) = requests(&proxy).await;
    let call = &shown["hosted"][0];
    let covered = format!("{{\"text\":\"{}\"}}", "x".repeat(24));
    for (field, value) in
        [("name", json!("echo")), ("hop", json!(1)), ("ok", json!(true)), ("arguments", json!(covered))]
    {
        assert_eq!(call[field], value, "{field}: {shown}");
    }
    assert_eq!(call["result"], covered, "the tool repeats its arguments: {shown}");
    let hops: Vec<_> = shown["requests"].as_array().unwrap().iter().map(|own| own["hop"].as_u64()).collect();
    assert_eq!(hops, [Some(1), Some(2)], "{shown}");
    assert!(shown["requests"][1]["body"].as_str().unwrap().contains("tool_call_id"), "{shown}");
    assert!(!shown.to_string().contains("sk-proj"), "{shown}");
    let traced = get(&proxy, &format!("{path}/events")).await;
    let rows = traced["rows"].as_array().unwrap().iter();
    let read: Vec<_> = rows.flat_map(|row| row["read"].as_array().unwrap()).collect();
    let expected = json!([
        {"kind": "call_start", "call": 1, "name": "echo"},
        {"kind": "arguments", "call": 1, "text": covered},
        {"kind": "finish", "text": "calls"},
        {"kind": "text", "text": "done"},
        {"kind": "finish", "text": "stop"},
    ]);
    assert_eq!(json!(read), expected, "{traced}");
}

#[tokio::test]
async fn without_capture_only_names_and_sizes_of_hosted_calls_are_shown() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    Client::new().chat(&proxy, STREAM).await.rest().await;
    let (path, shown) = requests(&proxy).await;
    let id = path.rsplit('/').next().unwrap();
    let nothing = json!({
        "exchange": id, "captured": "off", "client": null, "requests": [], "hosted": [], "rewrite": null,
    });
    assert_eq!(shown, nothing);
    let body = json!({"detect": "auto"});
    let (status, error) =
        Ask::new(&proxy, "POST", &format!("{path}/read")).key(KEY).json(&body).answer().await;
    assert_eq!((status, &error["error"]["code"]), (409, &json!("not_captured")));
}

/// What is sent in the client's API is mostly what the client wrote, so that it takes hardly any room.
#[tokio::test]
async fn requests_are_kept_up_to_a_limit() {
    let body = |length: usize| {
        let body =
            |text: &str| format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{text}"}}]}}"#);
        body(&"x".repeat(length - body("").len()))
    };
    for (length, is_kept) in [((512 << 10) - 1, true), (512 << 10, true), ((512 << 10) + 1, false)] {
        let (upstream, bodies) = recorded().await;
        let proxy = Setup { execution: CAPTURED.to_owned(), ..Setup::new(upstream.address) }.start().await;
        Client::new().chat(&proxy, body(length)).await.rest().await;
        let (_, shown) = requests(&proxy).await;
        let sent = bodies.lock().unwrap().first().cloned().unwrap();
        assert_eq!(shown["requests"][0]["bytes"], sent.len(), "{length}");
        assert_eq!(shown["client"].is_null(), !is_kept, "{length}");
        assert_eq!(shown["requests"][0]["body"].as_str(), is_kept.then_some(&*sent), "{length}");
    }
}

#[tokio::test]
async fn response_is_read_again_with_other_formats() {
    let events = text("Look: ") + &text(r#"[get_weather(city=\"Oslo\")]"#) + END;
    let upstream = Upstream::start_sharing(events, |exchange, events| exchange.stream(events)).await;
    let proxy = Setup { execution: CAPTURED.to_owned(), ..Setup::new(upstream.address) }.start().await;
    let request = json!({
        "model": "m", "stream": true, "messages": [{"role": "user", "content": "weather?"}],
        "tools": [{"type": "function", "function": {"name": "get_weather"}}],
    });
    Client::new().chat(&proxy, request.to_string()).await.rest().await;
    let (path, _) = requests(&proxy).await;
    let before = get(&proxy, &format!("{path}/events")).await;
    let read = async |body: Value| {
        Ask::new(&proxy, "POST", &format!("{path}/read")).key(KEY).json(&body).answer().await
    };
    for (detect, calls) in [("off", 0), ("pythonic", 1), ("hermes,pythonic", 1), ("hermes", 0)] {
        let (status, again) = read(json!({"detect": detect})).await;
        let kinds: Vec<_> = again["rows"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|row| row["out"].as_array().unwrap())
            .collect();
        let found = kinds.iter().filter(|event| event["kind"] == "call_start").count();
        assert_eq!(
            (status, found, again["calls"].as_array().map(Vec::len)),
            (200, calls, Some(calls)),
            "{detect}: {again}"
        );
    }
    assert_eq!(get(&proxy, &format!("{path}/events")).await, before, "the exchange stays as it was");
    for body in [json!({"detect": "hermse"}), json!({"detect": ""}), json!({"detect": 1}), json!({})] {
        let (status, error) = read(body).await;
        assert_eq!((status, &error["error"]["path"]), (400, &json!("detect")), "{error}");
    }
    let long = |length: usize| json!({"detect": format!("hermes,{}", " ".repeat(length - 7))});
    assert_eq!(
        (read(long(1024)).await.0, read(long(1025)).await.0),
        (400, 400),
        "an empty name is no format"
    );
    assert!(read(long(1024)).await.1.to_string().contains("unknown value"));
    assert!(read(long(1025)).await.1.to_string().contains("at most 1024 bytes"));
    assert!(read(json!({"detect": "hermse"})).await.1.to_string().contains("hermes"));
    let gone =
        Ask::new(&proxy, "POST", "/admin/exchanges/ex_gone/read").key(KEY).json(&json!({"detect": "off"}));
    assert_eq!(gone.answer().await.0, 404);
}

#[tokio::test]
async fn only_the_first_hop_is_read_again() {
    let upstream = Upstream::start(|exchange: Exchange| async move {
        if exchange.body.windows(13).any(|part| part == b"\"tool_call_id") {
            return exchange.stream(text("done") + END).await;
        }
        exchange.stream(text(r#"<tool_call>{\"name\": \"echo\", \"arguments\": {}}</tool_call>"#) + END).await
    })
    .await;
    let setup = Setup { execution: format!("{TOOLS}{CAPTURED}"), ..Setup::new(upstream.address) };
    let proxy = setup.start().await;
    let said = Client::new().chat(&proxy, STREAM).await.rest().await;
    assert!(said.contains("done") && !said.contains("tool_call"), "{said}");
    let (path, _) = requests(&proxy).await;
    for (detect, is_text) in [("off", true), ("auto", false)] {
        let body = json!({"detect": detect});
        let ask = Ask::new(&proxy, "POST", &format!("{path}/read")).key(KEY).json(&body);
        let (_, again) = ask.answer().await;
        let rows = again["rows"].as_array().unwrap();
        assert!(!rows.is_empty() && rows.iter().all(|row| row["hop"] == 1), "{detect}: {again}");
        let got: String = rows
            .iter()
            .flat_map(|row| row["out"].as_array().unwrap())
            .map(|own| own["frame"].to_string())
            .collect();
        assert_eq!(got.contains("tool_call>"), is_text, "{detect}: {got}");
        assert!(!got.contains("done"), "{got}");
    }
}

#[tokio::test]
async fn rewrite_options_read_the_fixture_as_the_exchange_did() {
    let events = text(r#"[get_weather(city=\"Oslo\")]"#) + END;
    let upstream = Upstream::start_sharing(events, |exchange, events| exchange.stream(events)).await;
    let mut setup = Setup { execution: CAPTURED.to_owned(), ..Setup::new(upstream.address) };
    setup.settings.detect = Detect::Formats(vec!["hermes", "pythonic"]);
    setup.settings.limits.max_calls = 7;
    let proxy = setup.start().await;
    let request = json!({
        "model": "m", "stream": true, "messages": [{"role": "user", "content": "weather?"}],
        "tools": [{"type": "function", "function": {"name": "get_weather"}}],
    });
    Client::new().chat(&proxy, request.to_string()).await.rest().await;
    let (path, shown) = requests(&proxy).await;
    let options = json!(["--from", "chat", "--to", "chat", "--detect", "hermes,pythonic"]);
    assert_eq!(shown["rewrite"], json!({"options": options, "others": ["max_calls"]}));
    let desk = tempfile::tempdir().unwrap();
    let fixture = unpacked(&proxy, path.rsplit('/').next().unwrap(), desk.path()).await;
    let mut rewrite = Command::new(env!("CARGO_BIN_EXE_toolwire"));
    rewrite.arg("rewrite").args(options.as_array().unwrap().iter().filter_map(Value::as_str));
    let output = rewrite.arg("--request").arg(fixture.join("request.json")).arg(fixture.join("upstream.sse"));
    let output = output.output().unwrap();
    let rewritten = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && rewritten.contains("\"name\":\"get_weather\""), "{rewritten}");
}

/// A request that is not streamed has one frame.
#[tokio::test]
async fn whole_response_is_read_again() {
    let (_upstream, proxy) = proxy(CAPTURED).await;
    Client::new().chat(&proxy, WHOLE).await.rest().await;
    let (path, shown) = requests(&proxy).await;
    assert_eq!(shown["client"]["body"], WHOLE);
    let ask = Ask::new(&proxy, "POST", &format!("{path}/read")).key(KEY).json(&json!({"detect": "off"}));
    let (status, again) = ask.answer().await;
    assert!(status == 200 && again["rows"].to_string().contains("hello"), "{again}");
}

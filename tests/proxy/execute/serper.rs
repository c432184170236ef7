//! Tests what a model sees of Serper's failures.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};

use super::script::{Scripted, added, call, end, text, upstream};
use crate::support::{
    client::{Client, WHOLE},
    proxy::Setup,
    upstream::{Exchange, Upstream},
};

const KEY: &str = "serper-secret-key";

/// A stand-in for Serper that sends these responses, and then closes connections without a response.
async fn serper(responses: Vec<Scripted>) -> Upstream {
    let shared = (Arc::<AtomicUsize>::default(), Arc::new(responses));
    Upstream::start_sharing(shared, |exchange: Exchange, (count, responses)| async move {
        let response = responses.get(count.fetch_add(1, Ordering::SeqCst)).cloned();
        response.unwrap_or(Scripted::Close).play(exchange).await
    })
    .await
}

fn found() -> Value {
    json!({"organic": [{"title": "Forecast", "link": "https://weather.example/lyon", "snippet": "Rain", "position": 1}], "credits": 1})
}

/// Returns the result that the model gets if Serper sends these responses, and the number of requests to Serper.
async fn told(responses: Vec<Scripted>, settings: &str, rules: &str) -> (Value, usize) {
    let search = call(0, "call_0", "web_search", r#"{"query":"rain"}"#) + &end("tool_calls");
    let (upstream, asked) = upstream([search, text("Done.") + &end("stop")]).await;
    let serper = serper(responses).await;
    let mut setup = Setup::new(upstream.address);
    setup.execution = format!(
        "[execution]\n{settings}\n[[providers]]\nname = \"serper\"\nkind = \"serper\"\napi_key = \"{KEY}\"\n\
         base_url = \"http://{}\"\n[[tools]]\nname = \"web_search\"\n{rules}",
        serper.address
    );
    let proxy = setup.start().await;
    let response = Client::new().chat(&proxy, WHOLE).await.json().await;
    assert_eq!(response["choices"][0]["message"]["content"], "Done.", "{response}");
    let asked = asked.lock().unwrap();
    let content = added(&asked[1], 1)[1]["content"].as_str().unwrap().to_owned();
    assert!(!content.contains(KEY) && !content.contains("RAW"), "{content}");
    (serde_json::from_str(&content).unwrap(), serper.requests())
}

fn refused(status: &str, headers: &str, message: &str) -> Scripted {
    let body = json!({"message": message, "statusCode": 400}).to_string();
    Scripted::Whole(status.to_owned(), format!("content-type: application/json\r\n{headers}"), body.into())
}

#[tokio::test]
async fn failure_of_serper_is_an_error_for_the_model() {
    let page = |status: &str, body: &[u8]| {
        Scripted::Whole(status.to_owned(), "content-type: text/html\r\n".to_owned(), body.to_vec())
    };
    let cut = found().to_string();
    let huge = format!("{{\"organic\": [], \"x\": \"{}\"}}", "x".repeat(6 << 20));
    for (response, code, is_retryable) in [
        (refused("400 Bad Request", "", "RAW"), "provider_error", false),
        (refused("400 Bad Request", "", "Not enough credits"), "rate_limited", false),
        (refused("401 Unauthorized", "", "RAW"), "auth_failed", false),
        (refused("403 Forbidden", "", "RAW"), "auth_failed", false),
        (refused("429 Too Many Requests", "", "RAW"), "rate_limited", false),
        (refused("429 Too Many Requests", "retry-after: 7\r\n", "RAW"), "rate_limited", true),
        (refused("500 Internal Server Error", "", "RAW"), "provider_error", true),
        (page("502 Bad Gateway", b"<html>RAW</html>"), "provider_error", true),
        (page("200 OK", b"<html>RAW</html>"), "provider_error", true),
        (page("200 OK", b""), "provider_error", true),
        (page("200 OK", b"[]"), "provider_error", true),
        (page("200 OK", b"{\"organic\": \"RAW\"}"), "provider_error", true),
        (page("200 OK", &cut.as_bytes()[..cut.len() / 2]), "provider_error", true),
        (page("200 OK", huge.as_bytes()), "too_large", false),
        (page("301 Moved Permanently", b""), "provider_error", false),
    ] {
        let shown = format!("{response:.200?}");
        let (told, asked) = told(vec![response], "retries = 0", "").await;
        let error = &told["error"];
        assert_eq!((&told["ok"], &error["code"]), (&json!(false), &json!(code)), "{shown}: {told}");
        assert_eq!(error["retryable"], is_retryable, "{shown}: {told}");
        assert_eq!(asked, 1, "{shown}");
    }
}

#[tokio::test]
async fn failure_that_may_pass_is_tried_again_up_to_the_limit() {
    let found = || Scripted::whole("200 OK", &found().to_string());
    let failing = || refused("500 Internal Server Error", "", "RAW");
    let later = || refused("429 Too Many Requests", "retry-after: 1\r\n", "RAW");
    for (responses, retries, is_ok, expected) in [
        (vec![failing(), found()], 1, true, 2),
        (vec![later(), found()], 1, true, 2),
        (vec![failing(), failing(), found()], 1, false, 2),
        (vec![refused("401 Unauthorized", "", "RAW"), found()], 1, false, 1),
        (vec![refused("429 Too Many Requests", "", "RAW"), found()], 1, false, 1),
        // Serper would only accept requests after the deadline of the response.
        (vec![refused("429 Too Many Requests", "retry-after: 600\r\n", "RAW"), found()], 1, false, 1),
    ] {
        let (told, asked) = told(responses, &format!("retries = {retries}"), "").await;
        assert_eq!((&told["ok"], asked), (&json!(is_ok), expected), "{told}");
    }
}

#[tokio::test]
async fn serper_that_does_not_answer_in_time_is_a_timeout() {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{\"organic\": [";
    for silent in [Scripted::Silent, Scripted::Raw(head.to_owned())] {
        let (told, _) = told(vec![silent], "retries = 0", "timeout = \"200ms\"").await;
        assert_eq!(
            (&told["error"]["code"], &told["error"]["retryable"]),
            (&json!("timeout"), &json!(true)),
            "{told}"
        );
    }
}

#[tokio::test]
async fn answer_of_serper_in_pieces_is_read() {
    let body = found().to_string();
    let chunks = body
        .as_bytes()
        .chunks(3)
        .map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), std::str::from_utf8(chunk).unwrap()));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let raw = format!("{head}{}0\r\n\r\n", chunks.collect::<String>());
    let (told, _) = told(vec![Scripted::Raw(raw)], "", "").await;
    assert_eq!(told["results"][0]["url"], "https://weather.example/lyon", "{told}");
}

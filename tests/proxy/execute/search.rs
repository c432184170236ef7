//! Tests models that search, read a page and answer, with a stand-in for Serper and with another model's search.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use super::script::{added, call, end, text, upstream};
use crate::support::{
    client::Client,
    proxy::{Proxy, Setup},
    upstream::Upstream,
};

const KEY: &str = "serper-secret-key";

/// A stand-in for Serper: every search finds the same page, and every page has the same text.
async fn serper() -> Upstream {
    Upstream::start(|mut exchange| async move {
        let asked: Value = serde_json::from_slice(&exchange.body).unwrap();
        let head = exchange.head.to_ascii_lowercase();
        let body = if !head.contains(&format!("x-api-key: {KEY}")) {
            json!({"message": "Unauthorized.", "statusCode": 403})
        } else if head.starts_with("post /search ") {
            json!({
                "searchParameters": asked,
                "organic": [{"title": "Forecast", "link": "https://weather.example/lyon", "snippet": "Rain", "position": 1}],
                "credits": 1,
            })
        } else {
            json!({"text": "Rain until noon.", "metadata": {"title": "Lyon"}, "credits": 2})
        };
        let status = if body.get("message").is_some() { "403 Forbidden" } else { "200 OK" };
        exchange.whole(status, "content-type: application/json\r\n", &body.to_string()).await;
        exchange
    })
    .await
}

/// A proxy that searches through `serper`, with additional tables.
fn setup(upstream: &Upstream, serper: &Upstream, more: &str) -> Setup {
    let mut setup = Setup::new(upstream.address);
    let address = serper.address;
    setup.execution = format!(
        "[execution]\n[[providers]]\nname = \"serper\"\nkind = \"serper\"\napi_key = \"{KEY}\"\n\
         base_url = \"http://{address}\"\nscrape_url = \"http://{address}/scrape\"\n{more}"
    );
    setup
}

async fn ask(proxy: &Proxy, path: &str, stream: bool) -> String {
    let body = match path {
        "/v1/responses" => json!({"model": "m", "stream": stream, "input": "Rain in Lyon?"}),
        _ => json!({"model": "m", "stream": stream, "max_tokens": 99,
            "messages": [{"role": "user", "content": "Rain in Lyon?"}]}),
    };
    let request = Request::post(proxy.url(path)).header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    Client::new().send(request).await.unwrap().rest().await
}

fn result(message: &Value) -> Value {
    serde_json::from_str(message["content"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn search_scrape_answer_in_every_dialect() {
    for path in ["/v1/chat/completions", "/v1/messages", "/v1/responses"] {
        for stream in [true, false] {
            let hops = [
                call(0, "call_0", "web_search", r#"{"query":"rain Lyon"}"#) + &end("tool_calls"),
                call(0, "call_1", "scrape", r#"{"url":"https://weather.example/lyon"}"#) + &end("tool_calls"),
                text("Rain until noon, says the forecast.") + &end("stop"),
            ];
            let ((upstream, asked), serper) = (upstream(hops).await, serper().await);
            let proxy = setup(&upstream, &serper, "").start().await;
            let body = ask(&proxy, path, stream).await;
            assert!(body.contains("Rain until noon, says the forecast."), "{path} {body}");
            assert!(!body.contains("\"web_search\"") && !body.contains("scrape"), "{path} {body}");
            assert!(body.contains("https://weather.example/lyon"), "{path} cites nothing: {body}");
            assert!(!body.contains(KEY), "{body}");
            let asked = asked.lock().unwrap();
            let names: Vec<_> =
                asked[0]["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
            assert_eq!(names, ["web_search", "scrape"]);
            let messages = added(&asked[2], 1);
            let (found, page) = (result(&messages[1]), result(&messages[3]));
            assert_eq!(found["ok"], true);
            assert_eq!(found["engine"], "serper");
            assert_eq!(found["results"][0]["url"], "https://weather.example/lyon");
            assert_eq!(page["content"], "Rain until noon.");
            assert_eq!(page["title"], "Lyon");
            assert!(!json!(*asked).to_string().contains(KEY));
            assert_eq!(serper.requests(), 2);
        }
    }
}

#[tokio::test]
async fn internal_address_is_refused_and_the_model_is_told() {
    let hops = [
        call(0, "call_0", "scrape", r#"{"url":"http://169.254.169.254/latest/meta-data/"}"#)
            + &end("tool_calls"),
        text("I cannot read that.") + &end("stop"),
    ];
    let ((upstream, asked), serper) = (upstream(hops).await, serper().await);
    let proxy = setup(&upstream, &serper, "").start().await;
    let body = ask(&proxy, "/v1/chat/completions", true).await;
    assert!(body.contains("I cannot read that."), "{body}");
    let told = result(&added(&asked.lock().unwrap()[1], 1)[1]);
    assert_eq!(told["error"]["code"], "blocked_url");
    assert_eq!(serper.requests(), 0);
}

/// Serper rejects the key, so the second engine takes over: it sends the search to the same upstream, which uses
/// its own search tool.
#[tokio::test]
async fn a_model_answers_a_search_when_the_first_engine_fails() {
    let answer = json!({"id": "c2", "object": "chat.completion", "created": 1, "model": "up", "choices": [{
        "index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "It rains in Lyon.", "annotations": [
            {"type": "url_citation", "url_citation": {"url": "https://weather.example/", "title": "Weather", "start_index": 0, "end_index": 2}},
        ]},
    }]});
    let asked = super::script::Asked::default();
    let upstream = Upstream::start_sharing(
        (asked.clone(), answer.to_string()),
        |mut exchange, (asked, answer)| async move {
            let number = {
                let mut asked = asked.lock().unwrap();
                asked.push(serde_json::from_slice(&exchange.body).unwrap());
                asked.len()
            };
            match number {
                1 => {
                    exchange
                        .stream(
                            call(0, "call_0", "web_search", r#"{"query":"rain Lyon","recency":"oneDay"}"#)
                                + &end("tool_calls"),
                        )
                        .await
                }
                2 => {
                    exchange.whole("200 OK", "content-type: application/json\r\n", &answer).await;
                    exchange
                }
                _ => exchange.stream(text("Rain.") + &end("stop")).await,
            }
        },
    )
    .await;
    let serper = serper().await;
    let more = "[[providers]]\nname = \"own\"\nkind = \"search\"\nmodel = \"m\"\n";
    let mut setup = setup(&upstream, &serper, more);
    setup.execution = setup.execution.replace(KEY, "another-key");
    let proxy = setup.start().await;
    let body = ask(&proxy, "/v1/chat/completions", true).await;
    assert!(body.contains("Rain."), "{body}");
    let asked = asked.lock().unwrap();
    let tool = &asked[0]["tools"][0]["function"];
    assert_eq!(tool["parameters"]["properties"]["engine"]["enum"], json!(["serper", "own"]));
    assert_eq!(asked[1]["tools"][0]["type"], "web_search");
    let question = asked[1]["messages"][1]["content"].as_str().unwrap();
    assert!(question.starts_with("rain Lyon") && question.contains("last day"), "{question}");
    assert_eq!(asked[1]["tools"].as_array().unwrap().len(), 1);
    let told = result(&added(&asked[2], 1)[1]);
    let page = json!({"title": "Weather", "url": "https://weather.example/"});
    let expected = json!({"ok": true, "engine": "own", "query": "rain Lyon", "summary": "It rains in Lyon.", "results": [page]});
    assert_eq!(told, expected);
}

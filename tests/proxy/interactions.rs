//! Tests clients of Google's Interactions API over sockets: stored interactions, whose they are, paths, keys and errors.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};
use toolwire::config::StoreKind;

use crate::support::{
    client::{Client, Reply},
    proxy::{Proxy, Setup},
    upstream::{END, Exchange, Upstream, at_once, text},
};

/// The bodies of the requests that an upstream has received.
type Asked = Arc<Mutex<Vec<Value>>>;

async fn upstream() -> (Upstream, Asked) {
    let asked = Asked::default();
    let kept = Arc::clone(&asked);
    let upstream = Upstream::start(move |exchange: Exchange| {
        kept.lock().unwrap().push(serde_json::from_slice(&exchange.body).unwrap());
        at_once(exchange)
    });
    (upstream.await, asked)
}

fn keys(upstream: &Upstream) -> Setup {
    let execution =
        "[[keys]]\nname = \"a\"\nkey = \"key-a\"\n\n[[keys]]\nname = \"b\"\nkey = \"key-b\"\n".to_owned();
    Setup { execution, ..Setup::new(upstream.address) }
}

async fn send(proxy: &Proxy, method: Method, path: &str, key: &str, body: &Value) -> Reply {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let mut request =
        Request::builder().method(method).uri(proxy.url(path)).header("content-type", "application/json");
    if !key.is_empty() {
        request = request.header("x-goog-api-key", key);
    }
    Client::new().send(request.body(Full::new(body)).unwrap()).await.unwrap()
}

async fn create(proxy: &Proxy, key: &str, members: Value) -> Value {
    let mut body = json!({"model": "m"});
    for (key, value) in members.as_object().unwrap() {
        body[key] = value.clone();
    }
    let reply = send(proxy, Method::POST, "/v1beta/interactions", key, &body).await;
    if reply.status() != 200 || body["stream"] != true {
        return reply.json().await;
    }
    let stream = reply.rest().await;
    let (events, done) = stream.rsplit_once("event: done\ndata: ").unwrap();
    assert_eq!(done, "[DONE]\n\n");
    let last: Value = serde_json::from_str(events.trim_end().rsplit_once("\ndata: ").unwrap().1).unwrap();
    assert_eq!(last["event_type"], "interaction.completed");
    last["interaction"].clone()
}

fn id(interaction: &Value) -> String {
    interaction["id"].as_str().unwrap_or_else(|| panic!("{interaction}")).to_owned()
}

/// The roles of the messages of the last request to the upstream.
fn roles(asked: &Asked) -> Vec<String> {
    let asked = asked.lock().unwrap();
    let messages = asked.last().unwrap()["messages"].as_array().unwrap();
    messages.iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn interaction_is_stored_continued_shown_and_deleted() {
    let (upstream, asked) = upstream().await;
    let proxy = keys(&upstream).start().await;
    for stream in [false, true] {
        let first = create(
            &proxy,
            "key-a",
            json!({"input": "one", "system_instruction": "be brief", "stream": stream}),
        )
        .await;
        assert_eq!(roles(&asked), ["system", "user"]);
        let more = json!({"input": "two", "previous_interaction_id": id(&first), "stream": stream});
        let second = create(&proxy, "key-a", more.clone()).await;
        // The instructions of the first request do not carry over to the second.
        assert_eq!(roles(&asked), ["user", "assistant", "user"]);
        assert_eq!(second["previous_interaction_id"], id(&first));
        let path = format!("/v1/interactions/{}", id(&second));
        let shown = send(&proxy, Method::GET, &path, "key-a", &Value::Null).await.json().await;
        assert_eq!((&shown["id"], &shown["status"]), (&second["id"], &json!("completed")));
        assert!(shown["steps"][0]["content"][0]["text"].is_string() && shown["input"].is_null(), "{shown}");
        let with_input = format!("{path}?include_input=true");
        let shown = send(&proxy, Method::GET, &with_input, "key-a", &Value::Null).await.json().await;
        assert_eq!(shown["input"].as_array().map(Vec::len), Some(3), "{shown}");
        // Another client's key finds nothing.
        for (method, path) in [
            (Method::GET, path.clone()),
            (Method::DELETE, path.clone()),
            (Method::POST, format!("{path}/cancel")),
        ] {
            let reply = send(&proxy, method, &path, "key-b", &Value::Null).await;
            assert_eq!(reply.json().await["error"]["status"], "NOT_FOUND");
        }
        assert_eq!(create(&proxy, "key-b", more.clone()).await["error"]["code"], 404);
        let refused = send(&proxy, Method::POST, &format!("{path}/cancel"), "key-a", &json!({})).await;
        assert_eq!(refused.status(), 400);
        let deleted = send(&proxy, Method::DELETE, &path, "key-a", &Value::Null).await;
        assert_eq!((deleted.status().as_u16(), deleted.json().await), (200, json!({})));
        let gone = send(&proxy, Method::GET, &path, "key-a", &Value::Null).await;
        assert_eq!(gone.status(), 404);
        // What was deleted breaks no other.
        assert!(create(&proxy, "key-a", more).await["steps"].is_array() != stream);
    }
    let unstored = create(&proxy, "key-a", json!({"input": "x", "store": false})).await;
    let path = format!("/v1beta/interactions/{}", id(&unstored));
    assert_eq!(send(&proxy, Method::GET, &path, "key-a", &Value::Null).await.status(), 404);
}

#[tokio::test]
async fn hostile_paths_ids_and_bodies_are_refused() {
    let (upstream, _) = upstream().await;
    let proxy = keys(&upstream).start().await;
    let long = format!("/v1beta/interactions/{}", "x".repeat(4_000));
    for (method, path, status) in [
        (Method::GET, "/v1beta/interactions/v1_%2e%2e%2fx", 404),
        (Method::GET, "/v1beta/interactions/%00", 404),
        (Method::GET, "/v1beta/interactions/%ff", 404),
        (Method::GET, "/v1beta/interactions/a/b", 404),
        (Method::GET, "/v1beta/interactions/", 404),
        (Method::GET, &long, 404),
        (Method::GET, "/v1beta/interactions", 405),
        (Method::POST, "/v1beta/interactions/x", 405),
        (Method::GET, "/v1beta/interactions/x/cancel", 405),
        (Method::GET, "/v1beta/interactions/x?stream=true", 400),
    ] {
        let reply = send(&proxy, method.clone(), path, "key-a", &Value::Null).await;
        assert_eq!(reply.status(), status, "{method} {path}");
        let body = reply.json().await;
        assert!(body["error"]["status"].is_string() && body.to_string().len() < 1_000, "{path}: {body}");
    }
    let unknown = json!({"input": "?", "previous_interaction_id": "../../x\u{0}"});
    assert_eq!(create(&proxy, "key-a", unknown).await["error"]["status"], "NOT_FOUND");
    assert_eq!(create(&proxy, "", json!({"input": "?"})).await["error"]["status"], "UNAUTHENTICATED");
    assert_eq!(
        create(&proxy, "key-a", json!({"input": "?", "model": "n"})).await["error"]["status"],
        "NOT_FOUND"
    );
    let by_query =
        send(&proxy, Method::POST, "/v1/interactions?key=key-a", "", &json!({"model": "m", "input": "?"}))
            .await;
    assert_eq!(by_query.status(), 200);
}

#[tokio::test]
async fn nothing_is_continued_without_a_store() {
    let (upstream, _) = upstream().await;
    let proxy = Setup { store: StoreKind::Off, ..Setup::new(upstream.address) }.start().await;
    let first = create(&proxy, "", json!({"input": "one"})).await;
    let more = json!({"input": "two", "previous_interaction_id": id(&first)});
    assert_eq!(create(&proxy, "", more).await["error"]["status"], "NOT_FOUND");
}

/// An upstream that dies in the middle of its text, and one that ends as it should.
#[tokio::test]
async fn truncated_stream_does_not_complete_and_is_not_stored() {
    for is_cut in [true, false] {
        let upstream = Upstream::start(move |mut exchange: Exchange| async move {
            exchange.begin().await;
            exchange.piece(text("hello, this is the beginning")).await;
            if !is_cut {
                exchange.piece(END).await;
            }
            exchange.end().await;
            exchange
        });
        let upstream = upstream.await;
        let proxy = Setup::new(upstream.address).start().await;
        let body = json!({"model": "m", "input": "?", "stream": true});
        let stream = send(&proxy, Method::POST, "/v1beta/interactions", "", &body).await.rest().await;
        assert_eq!(stream.contains("\"interaction.completed\""), !is_cut, "{stream}");
        assert_eq!(stream.contains("event: error"), is_cut, "{stream}");
        let id = stream.split_once("\"id\":\"").unwrap().1.split_once('"').unwrap().0;
        let kept = send(&proxy, Method::GET, &format!("/v1beta/interactions/{id}"), "", &Value::Null).await;
        assert_eq!(kept.status(), if is_cut { 404 } else { 200 });
        let whole =
            send(&proxy, Method::POST, "/v1beta/interactions", "", &json!({"model": "m", "input": "?"}))
                .await;
        assert_eq!(whole.status(), if is_cut { 502 } else { 200 });
    }
}

//! Tests stored responses over sockets, and conversations that continue them.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};
use toolwire::config::StoreKind;

use crate::support::{
    client::{Client, Reply},
    proxy::{Proxy, Setup},
    upstream::{Exchange, Upstream, answer, at_once},
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

fn messages(asked: &Asked) -> Vec<(String, String)> {
    let asked = asked.lock().unwrap();
    let messages = asked.last().unwrap()["messages"].as_array().unwrap().clone();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    messages.iter().map(|message| (text(&message["role"]), text(&message["content"]))).collect()
}

async fn send(proxy: &Proxy, method: Method, path: &str, key: &str, body: &Value) -> Reply {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request = Request::builder()
        .method(method)
        .uri(proxy.url(path))
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {key}"));
    Client::new().send(request.body(Full::new(body)).unwrap()).await.unwrap()
}

/// Sends a request with these fields. Returns the status and the response.
async fn create(proxy: &Proxy, key: &str, fields: Value) -> (StatusCode, Value) {
    let mut body = json!({"model": "m"});
    for (key, value) in fields.as_object().unwrap() {
        body[key] = value.clone();
    }
    let reply = send(proxy, Method::POST, "/v1/responses", key, &body).await;
    let status = reply.status();
    if body["stream"] != true {
        return (status, reply.json().await);
    }
    let stream = reply.rest().await;
    let last = stream.trim_end().rsplit_once("\ndata: ").unwrap().1;
    let last: Value = serde_json::from_str(last).unwrap();
    (status, last["response"].clone())
}

async fn get(proxy: &Proxy, path: &str, key: &str) -> (StatusCode, Value) {
    let reply = send(proxy, Method::GET, path, key, &Value::Null).await;
    (reply.status(), reply.json().await)
}

fn id(response: &Value) -> String {
    response["id"].as_str().unwrap_or_else(|| panic!("{response}")).to_owned()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect()
}

fn said(response: &Value) -> String {
    assert!(!answer().is_empty());
    response["output"][0]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}")).to_owned()
}

#[tokio::test]
async fn request_continues_a_stored_response() {
    let (upstream, asked) = upstream().await;
    let proxy = Setup::new(upstream.address).start().await;
    for stream in [false, true] {
        let (_, first) =
            create(&proxy, "", json!({"input": "one", "instructions": "be brief", "stream": stream})).await;
        let text = said(&first);
        assert_eq!((&first["status"], &first["store"]), (&json!("completed"), &json!(true)));
        let (_, second) =
            create(&proxy, "", json!({"input": "two", "previous_response_id": id(&first), "stream": stream}))
                .await;
        assert_eq!(second["previous_response_id"], id(&first));
        // The instructions of the first request do not carry over to the second.
        assert_eq!(messages(&asked), pairs(&[("user", "one"), ("assistant", &text), ("user", "two")]));
        let (status, _) = create(
            &proxy,
            "",
            json!({"input": [{"role": "user", "content": "three"}], "previous_response_id": id(&second)}),
        )
        .await;
        assert_eq!(status, 200);
        let all =
            [("user", "one"), ("assistant", &text), ("user", "two"), ("assistant", &text), ("user", "three")];
        assert_eq!(messages(&asked), pairs(&all));
        // Another request can continue the first response again.
        create(&proxy, "", json!({"input": "other", "previous_response_id": id(&first)})).await;
        assert_eq!(messages(&asked), pairs(&[("user", "one"), ("assistant", &text), ("user", "other")]));
    }
}

#[tokio::test]
async fn references_to_stored_items_are_replaced_by_the_items() {
    let (upstream, asked) = upstream().await;
    let proxy = Setup::new(upstream.address).start().await;
    let (_, first) = create(&proxy, "", json!({"input": "one"})).await;
    let item = first["output"][0]["id"].as_str().unwrap();
    let input = json!([
        {"role": "user", "content": "one"},
        {"type": "item_reference", "id": item},
        {"role": "user", "content": "two"},
    ]);
    let (status, _) = create(&proxy, "", json!({ "input": input })).await;
    assert_eq!(status, 200);
    assert_eq!(messages(&asked), pairs(&[("user", "one"), ("assistant", &said(&first)), ("user", "two")]));
    for unknown in ["msg_x_0", "nonsense", "", "_", "\u{0}__"] {
        let input = json!([{"type": "item_reference", "id": unknown}]);
        let (status, body) = create(&proxy, "", json!({ "input": input })).await;
        assert_eq!((status.as_u16(), &body["error"]["code"]), (404, &json!("item_not_found")), "{unknown:?}");
    }
}

#[tokio::test]
async fn unknown_foreign_and_unstored_responses_are_not_found() {
    let (upstream, _) = upstream().await;
    let mut setup = Setup::new(upstream.address);
    setup.keys = vec!["alpha", "beta"];
    let proxy = setup.start().await;
    let (_, own) = create(&proxy, "alpha", json!({"input": "one"})).await;
    let (_, unstored) = create(&proxy, "alpha", json!({"input": "one", "store": false})).await;
    assert_eq!(unstored["store"], false);
    let requests = upstream.requests();
    for (key, id) in [
        ("beta", id(&own)),
        ("alpha", id(&unstored)),
        ("alpha", "resp_x".to_owned()),
        ("alpha", "\u{0}é/".to_owned()),
    ] {
        let (status, body) = create(&proxy, key, json!({"input": "two", "previous_response_id": id})).await;
        let error = &body["error"];
        assert_eq!((status.as_u16(), &error["code"]), (404, &json!("previous_response_not_found")), "{body}");
        assert_eq!(
            (&error["param"], &error["type"]),
            (&json!("previous_response_id"), &json!("invalid_request_error"))
        );
    }
    assert_eq!(upstream.requests(), requests, "nothing was asked without the history");
    let path = format!("/v1/responses/{}", id(&own));
    assert_eq!(get(&proxy, &path, "beta").await.0, 404);
    assert_eq!(get(&proxy, &path, "alpha").await.1["id"], own["id"]);
    assert_eq!(get(&proxy, &path, "wrong").await.0, 401);
}

#[tokio::test]
async fn stored_response_is_read_and_deleted() {
    let (upstream, _) = upstream().await;
    let proxy = Setup::new(upstream.address).start().await;
    let (_, response) =
        create(&proxy, "", json!({"input": "one", "metadata": {"a": "b"}, "stream": true})).await;
    let path = format!("/v1/responses/{}", id(&response));
    assert_eq!(get(&proxy, &path, "").await, (StatusCode::OK, response.clone()));
    let (_, items) = get(&proxy, &format!("{path}/input_items"), "").await;
    assert_eq!((&items["object"], &items["data"][0]["content"]), (&json!("list"), &json!("one")));
    let deleted = send(&proxy, Method::DELETE, &path, "", &Value::Null).await;
    assert_eq!(deleted.json().await, json!({"id": response["id"], "object": "response", "deleted": true}));
    for method in [Method::GET, Method::DELETE] {
        let reply = send(&proxy, method, &path, "", &Value::Null).await;
        assert_eq!(reply.status(), 404);
        assert_eq!(reply.json().await["error"]["type"], "invalid_request_error");
    }
    assert_eq!(send(&proxy, Method::POST, &path, "", &json!({})).await.status(), 405);
}

#[tokio::test]
async fn history_survives_a_restart() {
    let (upstream, asked) = upstream().await;
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let start = async || {
        let mut setup = Setup::new(upstream.address);
        setup.state_dir = Some(state.clone());
        setup.start().await
    };
    let mut proxy = start().await;
    let (_, unstored) = create(&proxy, "", json!({"input": "zero", "store": false})).await;
    assert!(!state.exists(), "nothing was stored: {unstored}");
    let (_, first) = create(&proxy, "", json!({"input": "one"})).await;
    proxy.stop();
    proxy.ended().await;
    drop(proxy);
    let proxy = start().await;
    let (status, _) = create(&proxy, "", json!({"input": "two", "previous_response_id": id(&first)})).await;
    assert_eq!(status, 200);
    assert_eq!(messages(&asked), pairs(&[("user", "one"), ("assistant", &said(&first)), ("user", "two")]));
}

/// The second server cannot know whether the response exists.
#[tokio::test]
async fn second_server_on_one_state_dir_says_that_another_process_has_the_responses() {
    let (upstream, _) = upstream().await;
    let folder = tempfile::tempdir().unwrap();
    let start = async || {
        let mut setup = Setup::new(upstream.address);
        setup.state_dir = Some(folder.path().to_owned());
        setup.start().await
    };
    let (first, second) = (start().await, start().await);
    let (_, response) = create(&first, "", json!({"input": "one"})).await;
    let path = format!("/v1/responses/{}", id(&response));
    while std::fs::read_dir(folder.path()).unwrap().next().is_none() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    for _ in 0..3 {
        let continued = json!({"input": "two", "previous_response_id": id(&response)});
        for (status, body) in [get(&second, &path, "").await, create(&second, "", continued).await] {
            let message = body["error"]["message"].as_str().unwrap();
            assert!(status == 503 && message.contains("another process"), "{body}");
        }
    }
    assert_eq!(get(&first, &path, "").await.0, 200);
}

#[tokio::test]
async fn nothing_is_stored_if_the_store_is_off() {
    let (upstream, _) = upstream().await;
    let folder = tempfile::tempdir().unwrap();
    let mut setup = Setup::new(upstream.address);
    setup.store = StoreKind::Off;
    setup.state_dir = Some(folder.path().join("state"));
    let proxy = setup.start().await;
    let (_, response) = create(&proxy, "", json!({"input": "one"})).await;
    assert_eq!(response["store"], false);
    let (status, _) =
        create(&proxy, "", json!({"input": "two", "previous_response_id": id(&response)})).await;
    assert_eq!(status, 404);
    assert!(!folder.path().join("state").exists());
}

#[tokio::test]
async fn history_that_is_too_large_is_refused() {
    let (upstream, _) = upstream().await;
    let mut setup = Setup::new(upstream.address);
    setup.limits.max_body = 4096;
    let proxy = setup.start().await;
    let (_, first) = create(&proxy, "", json!({"input": "x".repeat(3000)})).await;
    let (status, body) =
        create(&proxy, "", json!({"input": "y".repeat(2000), "previous_response_id": id(&first)})).await;
    assert_eq!((status.as_u16(), &body["error"]["code"]), (413, &json!("request_too_large")), "{body}");
}

#[tokio::test]
async fn large_input_is_stored_with_its_response() {
    let (upstream, asked) = upstream().await;
    let proxy = Setup::new(upstream.address).start().await;
    let long = "x".repeat(1 << 20);
    for (input, stream) in [(json!(long), false), (json!([{"role": "user", "content": long}]), true)] {
        let (_, first) = create(&proxy, "", json!({"input": input, "stream": stream})).await;
        create(&proxy, "", json!({"input": "two", "previous_response_id": id(&first)})).await;
        let text = said(&first);
        assert_eq!(messages(&asked), pairs(&[("user", &long), ("assistant", &text), ("user", "two")]));
        let path = format!("/v1/responses/{}/input_items", id(&first));
        let (status, items) = get(&proxy, &path, "").await;
        assert_eq!((status.as_u16(), items["data"].as_array().unwrap().len()), (200, 1));
    }
}

#[tokio::test]
async fn truncated_response_is_not_stored() {
    let upstream = Upstream::start(async |mut exchange: Exchange| {
        exchange.begin().await;
        exchange.piece(crate::support::upstream::text("half")).await;
        exchange.close().await;
        exchange
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    let (_, failed) = create(&proxy, "", json!({"input": "one", "stream": true})).await;
    assert_eq!(failed["status"], "failed");
    assert_eq!(get(&proxy, &format!("/v1/responses/{}", id(&failed)), "").await.0, 404);
}

#[tokio::test]
async fn left_out_tools_are_named_in_metadata() {
    let (upstream, asked) = upstream().await;
    let proxy = Setup::new(upstream.address).start().await;
    let tools = json!([{"type": "file_search"}, {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]}]);
    let (_, response) = create(&proxy, "", json!({"input": "one", "tools": tools})).await;
    assert_eq!(response["metadata"]["toolwire_ignored_tools"], "file_search");
    let asked = asked.lock().unwrap();
    assert_eq!(asked[0]["tools"].as_array().unwrap().len(), 1);
    assert_eq!(asked[0]["tools"][0]["function"]["name"], "n__f");
}

/// The closing events repeat the long text. They are written in pieces but must be complete, and so must the stored
/// response.
#[tokio::test]
async fn last_events_of_a_long_stream_are_whole() {
    const PIECES: usize = 40;
    let piece = "a long 'text' ".repeat(1000);
    let text = piece.clone();
    let upstream = Upstream::start(move |mut exchange: Exchange| {
        let piece = text.clone();
        async move {
            exchange.begin().await;
            for _ in 0..PIECES {
                exchange.piece(crate::support::upstream::text(&piece)).await;
            }
            exchange.finished().await
        }
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    let reply = send(
        &proxy,
        Method::POST,
        "/v1/responses",
        "key",
        &json!({"model": "m", "stream": true, "input": "?"}),
    )
    .await;
    let stream = reply.rest().await;
    let events: Vec<Value> = stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], at);
    }
    let whole = piece.repeat(PIECES);
    let [.., text, part, item, completed] = &events[..] else { panic!("too few events") };
    assert_eq!((&text["type"], &text["text"]), (&json!("response.output_text.done"), &json!(whole)));
    assert_eq!(part["part"]["text"], whole);
    assert_eq!(item["item"]["content"][0]["text"], whole);
    assert_eq!(completed["type"], "response.completed");
    assert_eq!(completed["response"]["output"][0]["content"][0]["text"], whole);
    let id = completed["response"]["id"].as_str().unwrap();
    let stored = send(&proxy, Method::GET, &format!("/v1/responses/{id}"), "key", &Value::Null).await;
    assert_eq!(stored.json().await["output"][0]["content"][0]["text"], whole);
}

//! Tests requests that continue a response of their connection.

use serde_json::json;
use toolwire::config::StoreKind;

use super::{messages, upstream};
use crate::support::{client::Client, proxy::Setup, websocket::WebSocket};

#[tokio::test]
async fn response_that_is_not_stored_is_continued_on_its_connection() {
    for store in [StoreKind::Embedded, StoreKind::Off] {
        let (upstream, asked) = upstream().await;
        let proxy = Setup { store, ..Setup::new(upstream.address) }.start().await;
        let mut socket = WebSocket::connect(&proxy, "").await;
        socket.create(json!({"input": "one", "store": false})).await;
        let first = socket.response().await;
        assert_eq!(first["store"], false);
        socket.create(json!({"input": "two", "store": false, "previous_response_id": first["id"]})).await;
        let second = socket.response().await;
        assert_eq!(second["previous_response_id"], first["id"]);
        assert_eq!(messages(&asked), ["user: one", "assistant: hello", "user: two"]);
        let three = json!([{"role": "user", "content": "three"}]);
        socket.create(json!({"input": three, "store": false, "previous_response_id": second["id"]})).await;
        socket.response().await;
        assert_eq!(messages(&asked).len(), 5);
        // Only the latest response of the lane is known, and neither another connection nor HTTP knows it.
        let mut other = WebSocket::connect(&proxy, "").await;
        for (socket, id) in [(&mut socket, &first["id"]), (&mut other, &second["id"])] {
            socket.create(json!({"input": "x", "previous_response_id": id})).await;
            let event = socket.event().await;
            assert_eq!((&event["type"], &event["status"]), (&json!("error"), &json!(400)), "{event}");
            assert_eq!(event["error"]["code"], "previous_response_not_found");
            assert_eq!(event["error"]["param"], "previous_response_id");
            assert!(event["headers"]["x-request-id"].as_str().unwrap().starts_with("req_"), "{event}");
        }
        assert_eq!(
            Client::new()
                .get(&proxy, &format!("/v1/responses/{}", second["id"].as_str().unwrap()))
                .await
                .status(),
            404
        );
        socket.create(json!({"input": "again"})).await;
        socket.response().await;
    }
}

#[tokio::test]
async fn stored_response_is_continued_on_any_connection() {
    let (upstream, asked) = upstream().await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut socket = WebSocket::connect(&proxy, "").await;
    socket.create(json!({"input": "one"})).await;
    let first = socket.response().await;
    assert_eq!(first["store"], true);
    drop(socket);
    let mut socket = WebSocket::connect(&proxy, "").await;
    socket.create(json!({"input": "two", "previous_response_id": first["id"]})).await;
    socket.response().await;
    assert_eq!(messages(&asked), ["user: one", "assistant: hello", "user: two"]);
}

#[tokio::test]
async fn failed_continuation_forgets_the_response() {
    let (upstream, _) = upstream().await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut socket = WebSocket::connect(&proxy, "").await;
    for (lane, is_known) in [(json!(null), false), (json!("fork"), true)] {
        socket.create(json!({"input": "one", "store": false})).await;
        let first = socket.response().await;
        let failing = json!({"model": "no such model", "input": "two", "stream_id": lane, "previous_response_id": first["id"]});
        socket.create(failing).await;
        assert_eq!(socket.event().await["status"], 404);
        socket.create(json!({"input": "two", "store": false, "previous_response_id": first["id"]})).await;
        if is_known {
            socket.response().await;
        } else {
            assert_eq!(socket.event().await["error"]["code"], "previous_response_not_found");
        }
    }
}

#[tokio::test]
async fn request_that_generates_nothing_is_continued() {
    let (upstream, asked) = upstream().await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut socket = WebSocket::connect(&proxy, "").await;
    socket.create(json!({"input": "context", "instructions": "be brief", "generate": false})).await;
    let events = socket.until("response.completed").await;
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["response.created", "response.in_progress", "response.completed"]);
    let made = &events[2]["response"];
    assert_eq!(
        (&made["output"], &made["status"], &made["store"]),
        (&json!([]), &json!("completed"), &json!(false))
    );
    assert_eq!((upstream.requests(), &made["instructions"]), (0, &json!("be brief")));
    socket.create(json!({"input": "question", "previous_response_id": made["id"]})).await;
    socket.response().await;
    assert_eq!(messages(&asked), ["user: context", "user: question"]);
    socket.create(json!({"model": "no such model", "input": "x", "generate": false})).await;
    assert_eq!(socket.event().await["error"]["code"], "model_not_found");
}

#[tokio::test]
async fn lane_continues_the_response_of_another_one() {
    let (upstream, asked) = upstream().await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut socket = WebSocket::connect(&proxy, "").await;
    socket.create(json!({"input": "one", "store": false, "stream_id": "main"})).await;
    let first = socket.response().await;
    for lane in ["fork", "main"] {
        socket.create(json!({"input": lane, "store": false, "stream_id": lane, "previous_response_id": first["id"]})).await;
        let events = socket.until("response.completed").await;
        assert!(events.iter().all(|event| event["stream_id"] == lane));
        assert_eq!(messages(&asked)[2], format!("user: {lane}"));
    }
}

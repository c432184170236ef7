//! Tests images for models without vision, which another model describes before the first hop.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use super::script::{TOOLS, call, end, text};
use crate::support::{
    client::Client,
    proxy::{Proxy, Setup},
    upstream::{Exchange, Upstream},
};

const IMAGE: &str = "data:image/png;base64,iVBORw0KGgphYmM=";

/// The requests to each of the two models.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) describer: Vec<Value>,
    pub(super) model: Vec<Value>,
}

/// An upstream for both models. The one without vision answers with the next of `streams`. The other one describes
/// images, or fails if `fails` is set.
pub(super) async fn upstream(streams: &[String], fails: bool) -> (Upstream, Arc<Mutex<Asked>>) {
    let asked = Arc::<Mutex<Asked>>::default();
    let shared = (Arc::clone(&asked), streams.to_vec());
    let upstream =
        Upstream::start_sharing(shared, move |mut exchange: Exchange, (asked, streams)| async move {
            let body: Value = serde_json::from_slice(&exchange.body).unwrap();
            let number = {
                let mut asked = asked.lock().unwrap();
                let of_model =
                    if body["model"] == "theirs" { &mut asked.describer } else { &mut asked.model };
                of_model.push(body.clone());
                of_model.len() - 1
            };
            if body["model"] != "theirs" {
                return exchange.stream(streams.get(number).cloned().unwrap_or_default()).await;
            }
            if fails {
                exchange.whole("500 Internal Server Error", "", "RAW").await;
                return exchange;
            }
            exchange.stream(text("a red fox") + &end("stop")).await
        });
    (upstream.await, asked)
}

pub(super) async fn start(upstream: &Upstream, execution: &str) -> Proxy {
    let mut setup = Setup::new(upstream.address);
    setup.vision = Some("org/other");
    setup.execution = execution.to_owned();
    setup.start().await
}

fn request(fields: Value) -> Value {
    let content =
        json!([{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": IMAGE}}]);
    let mut request = json!({"model": "m", "messages": [{"role": "user", "content": content}]});
    let fields = if let Value::Object(fields) = fields { fields } else { serde_json::Map::new() };
    request.as_object_mut().unwrap().extend(fields);
    request
}

async fn post(proxy: &Proxy, path: &str, body: &Value) -> Value {
    let request = Request::post(proxy.url(path)).header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    Client::new().send(request).await.unwrap().json().await
}

fn hello() -> String {
    text("A fox.") + &end("stop")
}

#[tokio::test]
async fn image_is_described_once_for_clients_of_every_dialect() {
    let (upstream, asked) = upstream(&[hello(), hello(), hello(), hello()], false).await;
    let proxy = start(&upstream, "").await;
    let source = json!({"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgphYmM="});
    let messages = json!([{"type": "text", "text": "What is it?"}, {"type": "image", "source": source}]);
    let responses =
        json!([{"type": "input_text", "text": "What is it?"}, {"type": "input_image", "image_url": IMAGE}]);
    for (path, body) in [
        ("/v1/chat/completions", request(json!({}))),
        ("/v1/chat/completions", request(json!({}))),
        (
            "/v1/messages",
            json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": messages}]}),
        ),
        ("/v1/responses", json!({"model": "m", "input": [{"role": "user", "content": responses}]})),
    ] {
        let response = post(&proxy, path, &body).await;
        assert!(response.to_string().contains("A fox."), "{path}: {response}");
    }
    let asked = asked.lock().unwrap();
    assert_eq!(asked.model.len(), 4);
    for body in &asked.model {
        let messages = body["messages"].to_string();
        assert!(messages.contains("[image 1: a red fox]") && messages.contains("What is it?"), "{messages}");
        assert!(!messages.contains("iVBOR"), "{messages}");
    }
    assert_eq!(asked.describer.len(), 1, "the description was not kept");
    let question = asked.describer[0]["messages"].to_string();
    assert!(question.contains(IMAGE) && question.contains("What is it?"), "{question}");
}

#[tokio::test]
async fn later_hops_have_the_description_too_and_ask_for_none() {
    let first = call(0, "call_0", "search", r#"{"query":"fox"}"#) + &end("tool_calls");
    let (upstream, asked) = upstream(&[first, hello()], false).await;
    let proxy = start(&upstream, &format!("[execution]\n{TOOLS}")).await;
    let response = post(&proxy, "/v1/chat/completions", &request(json!({}))).await;
    assert_eq!(response["choices"][0]["message"]["content"], "A fox.");
    let asked = asked.lock().unwrap();
    assert_eq!((asked.describer.len(), asked.model.len()), (1, 2));
    for body in &asked.model {
        let messages = body["messages"].to_string();
        assert!(messages.contains("[image 1: a red fox]") && !messages.contains("iVBOR"), "{messages}");
    }
}

#[tokio::test]
async fn describing_model_gets_no_hosted_tools() {
    let (upstream, asked) = upstream(&[hello()], false).await;
    let proxy = start(&upstream, &format!("[execution]\n{TOOLS}")).await;
    post(&proxy, "/v1/chat/completions", &request(json!({}))).await;
    let asked = asked.lock().unwrap();
    assert!(asked.describer[0].get("tools").is_none(), "{:?}", asked.describer);
}

#[tokio::test]
async fn image_that_cannot_be_described_is_a_note() {
    let (upstream, asked) = upstream(&[hello(), hello()], true).await;
    let proxy = start(&upstream, "").await;
    for _ in 0..2 {
        let response = post(&proxy, "/v1/chat/completions", &request(json!({}))).await;
        assert_eq!(response["choices"][0]["message"]["content"], "A fox.");
    }
    let asked = asked.lock().unwrap();
    let messages = asked.model[1]["messages"].to_string();
    assert!(messages.contains("[image 1: it could not be described]"), "{messages}");
    assert!(!messages.contains("RAW") && !messages.contains("iVBOR"), "{messages}");
    assert_eq!(asked.describer.len(), 2, "a failure was kept");
}

#[tokio::test]
async fn model_that_sees_and_requests_without_images_need_no_description() {
    let (upstream, asked) = upstream(&[hello()], false).await;
    let proxy = start(&upstream, "").await;
    let plain = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    post(&proxy, "/v1/chat/completions", &plain).await;
    post(&proxy, "/v1/chat/completions", &request(json!({"model": "org/other"}))).await;
    let asked = asked.lock().unwrap();
    assert_eq!((asked.describer.len(), asked.model.len()), (1, 1));
    assert!(asked.describer[0]["messages"].to_string().contains(IMAGE));
    assert_eq!(
        asked.describer[0]["messages"].as_array().unwrap().len(),
        1,
        "the client's own request was changed"
    );
}

//! Tests requests that must wait for something before the upstream is called: images must be described, or hosted
//! tools of the previous turn are still running. Until then, the client gets keep-alives as it would with a slow
//! upstream, and the status is not decided.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::{sync::Notify, time::sleep};

use super::script::{call, end, text};
use crate::support::{
    client::{Client, Reply, chat_request, stream_error},
    proxy::{Proxy, Setup},
    soon,
    upstream::{Exchange, Upstream},
};

const IMAGE: &str = "data:image/png;base64,iVBORw0KGgphYmM=";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// A model describes an image.
    Vision,
    /// A hosted call of the previous turn is still running.
    Deferred,
}

const CAUSES: [Cause; 2] = [Cause::Vision, Cause::Deferred];

struct Waiting {
    proxy: Proxy,
    upstream: Upstream,
    client: Client,
    request: Value,
    /// How many requests the upstream had received before.
    before: usize,
    /// Notified when the request to the describing model is cancelled.
    left: Arc<Notify>,
    go: PathBuf,
    _folder: tempfile::TempDir,
}

async fn gone_on(go: &Path) {
    while !go.exists() {
        sleep(Duration::from_millis(5)).await;
    }
}

async fn upstream(go: PathBuf, left: Arc<Notify>) -> Upstream {
    let script = |mut exchange: Exchange, (go, left): (PathBuf, Arc<Notify>)| async move {
        let body: Value = serde_json::from_slice(&exchange.body).unwrap();
        let messages = body["messages"].as_array().unwrap();
        if body["model"] == "theirs" {
            tokio::select! {
                () = exchange.gone() => left.notify_one(),
                () = gone_on(&go) => {}
            }
            return exchange.stream(text("a red fox") + &end("stop")).await;
        }
        if body["user"] == "refused" {
            exchange.whole("400 Bad Request", "", r#"{"error":{"message":"no"}}"#).await;
            return exchange;
        }
        let is_first = messages.len() == 1 && !body.to_string().contains("[image 1");
        let stream = match is_first {
            true => call(0, "c0", "late", "{}") + &call(1, "c1", "weather", "{}") + &end("tool_calls"),
            false => text("A fox.") + &end("stop"),
        };
        exchange.stream(stream).await
    };
    Upstream::start_sharing((go, left), script).await
}

/// A client whose next request waits for `cause` until [`Waiting::go_on`] is called.
async fn waiting(cause: Cause, client: Client, change: impl FnOnce(&mut Setup)) -> Waiting {
    let folder = tempfile::tempdir().unwrap();
    let (go, left) = (folder.path().join("go"), Arc::<Notify>::default());
    let upstream = upstream(go.clone(), Arc::clone(&left)).await;
    let mut setup = Setup::new(upstream.address);
    setup.vision = Some("org/other").filter(|_| cause == Cause::Vision);
    setup.execution = format!(
        "[execution]\n[[providers]]\nname = \"late\"\nkind = \"command\"\n\
         command = [\"sh\", \"-c\", \"until test -e {}; do sleep 0.02; done; printf found\"]\n",
        go.display()
    );
    change(&mut setup);
    let proxy = setup.start().await;
    let tools =
        json!([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]);
    let mut request = json!({"model": "m", "stream": true, "tools": tools});
    request["messages"] = match cause {
        Cause::Vision => {
            let image = json!({"type": "image_url", "image_url": {"url": IMAGE}});
            json!([{"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]}])
        }
        Cause::Deferred => {
            let user = json!({"role": "user", "content": "weather?"});
            let first = json!({"model": "m", "tools": request["tools"], "messages": [user]});
            let response = client.chat(&proxy, first.to_string()).await.json().await;
            let message = &response["choices"][0]["message"];
            let id = &message["tool_calls"][0]["id"];
            json!([user, message, {"role": "tool", "tool_call_id": id, "content": "rain"}])
        }
    };
    let before = upstream.requests();
    Waiting { proxy, upstream, client, request, before, left, go, _folder: folder }
}

impl Waiting {
    fn go_on(&self) {
        std::fs::write(&self.go, "").unwrap();
    }

    async fn ask(&self) -> Reply {
        self.client.chat(&self.proxy, self.request.to_string()).await
    }

    /// Waits until the request has arrived, which only the metrics show.
    async fn arrived(&self) {
        let arrived = async {
            while !self.metrics().await.contains("toolwire_streams_in_flight 1\n") {
                sleep(Duration::from_millis(5)).await;
            }
        };
        soon("the request to arrive", arrived).await;
    }

    async fn metrics(&self) -> String {
        Client::new().get(&self.proxy, "/metrics").await.rest().await
    }
}

fn often(setup: &mut Setup) {
    setup.limits.keep_alive = Duration::from_millis(40);
}

#[tokio::test]
async fn stream_gets_keep_alives_while_its_request_is_prepared() {
    for cause in CAUSES {
        for client in [Client::new(), Client::http2()] {
            let waiting = waiting(cause, client, often).await;
            let mut reply = waiting.ask().await;
            assert_eq!(
                (reply.status().as_u16(), reply.header("content-type")),
                (200, Some("text/event-stream; charset=utf-8"))
            );
            reply.until(": keep-alive\n\n").await;
            reply.until(": keep-alive\n\n").await;
            let described = usize::from(cause == Cause::Vision);
            assert_eq!(waiting.upstream.requests(), waiting.before + described, "{cause:?}");
            waiting.go_on();
            let rest = reply.rest().await;
            assert!(rest.contains("A fox.") && rest.ends_with("data: [DONE]\n\n"), "{cause:?}: {rest}");
        }
    }
}

#[tokio::test]
async fn keep_alives_before_the_response_suit_clients_of_every_dialect() {
    let image = json!({"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgphYmM="});
    let messages = json!([{"role": "user", "content": [{"type": "image", "source": image}]}]);
    let input = json!([{"role": "user", "content": [{"type": "input_image", "image_url": IMAGE}]}]);
    for (path, body) in [
        ("/v1/messages", json!({"model": "m", "max_tokens": 9, "stream": true, "messages": messages})),
        ("/v1/responses", json!({"model": "m", "stream": true, "input": input})),
    ] {
        let waiting = waiting(Cause::Vision, Client::new(), often).await;
        let request = Request::post(waiting.proxy.url(path)).header("content-type", "application/json");
        let request = request.body(Full::new(body.to_string().into())).unwrap();
        let mut reply = waiting.client.send(request).await.unwrap();
        let begin = reply.until(": keep-alive\n\n").await;
        assert!(!begin.contains("event:"), "{path}: {begin}");
        waiting.go_on();
        let rest = reply.rest().await;
        assert!(rest.contains("A fox."), "{path}: {rest}");
        let is_whole = rest.contains("event: message_stop") || rest.contains("event: response.completed");
        assert!(is_whole, "{path}: {rest}");
    }
}

#[tokio::test]
async fn whole_response_waits_until_its_request_is_prepared() {
    for cause in CAUSES {
        let mut waiting = waiting(cause, Client::new(), often).await;
        waiting.request["stream"] = false.into();
        let go_on = async {
            waiting.arrived().await;
            sleep(Duration::from_millis(100)).await;
            waiting.go_on();
        };
        let (reply, ()) = tokio::join!(waiting.ask(), go_on);
        assert_eq!(reply.status(), 200);
        let message = reply.json().await["choices"][0]["message"]["content"].clone();
        assert_eq!(message, "A fox.", "{cause:?}");
    }
}

#[tokio::test]
async fn client_that_leaves_ends_the_preparation() {
    for cause in CAUSES {
        for client in [Client::new(), Client::http2()] {
            for has_head in [true, false] {
                let waiting = waiting(cause, client.clone(), |setup| {
                    if has_head {
                        often(setup)
                    }
                })
                .await;
                if has_head {
                    let mut reply = waiting.ask().await;
                    reply.until(": keep-alive").await;
                } else {
                    tokio::select! {
                        _ = waiting.ask() => panic!("a response while the request is prepared"),
                        () = waiting.arrived() => {}
                    }
                }
                if cause == Cause::Vision {
                    soon("the describing model to be left alone", waiting.left.notified()).await;
                }
                let left = async {
                    while !waiting.metrics().await.contains("toolwire_streams_in_flight 0\n") {
                        sleep(Duration::from_millis(5)).await;
                    }
                };
                soon("the response to end", left).await;
                assert!(waiting.metrics().await.contains("toolwire_client_disconnects_total 1\n"));
                waiting.go_on();
                // The next request still gets the result, and the model has not been asked in between.
                let described = 2 * usize::from(cause == Cause::Vision);
                let rest = waiting.ask().await.rest().await;
                assert!(rest.contains("A fox."), "{rest}");
                assert_eq!(waiting.upstream.requests(), waiting.before + described + 1, "{cause:?}");
            }
        }
    }
}

/// The choice can only be checked once the hosted tools are known.
#[tokio::test]
async fn request_that_cannot_be_prepared_is_refused() {
    for cause in CAUSES {
        for (is_late, is_refused_upstream) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut waiting = waiting(cause, Client::new(), |setup| {
                if is_late {
                    often(setup)
                }
            })
            .await;
            match is_refused_upstream {
                true => waiting.request["user"] = "refused".into(),
                false => {
                    waiting.request["tool_choice"] =
                        json!({"type": "function", "function": {"name": "no_such"}});
                }
            }
            if is_late {
                let mut reply = waiting.ask().await;
                assert_eq!(reply.status(), 200);
                reply.until(": keep-alive\n\n").await;
                waiting.go_on();
                let error = stream_error(&reply.rest().await);
                assert_eq!(error["type"], "invalid_request_error", "{cause:?}: {error}");
            } else {
                waiting.go_on();
                let reply = waiting.ask().await;
                assert_eq!(reply.status(), 400);
                assert_eq!(reply.header("content-type"), Some("application/json"));
                assert_eq!(reply.json().await["error"]["type"], "invalid_request_error", "{cause:?}");
            }
        }
    }
}

#[tokio::test]
async fn drain_deadline_ends_the_preparation() {
    for cause in CAUSES {
        for has_head in [true, false] {
            let mut waiting = waiting(cause, Client::new(), |setup| {
                setup.drain_timeout = Duration::from_millis(100);
                if has_head {
                    often(setup);
                }
            })
            .await;
            let request = chat_request(&waiting.proxy, waiting.request.to_string());
            let mut reply = std::pin::pin!(waiting.client.send(request));
            if has_head {
                let mut reply = reply.await.unwrap();
                reply.until(": keep-alive").await;
                waiting.proxy.stop();
                assert_eq!(stream_error(&reply.rest().await)["code"], "shutting_down", "{cause:?}");
            } else {
                tokio::select! {
                    _ = &mut reply => panic!("a response while the request is prepared"),
                    () = waiting.arrived() => {}
                }
                waiting.proxy.stop();
                let reply = reply.await.unwrap();
                assert_eq!(
                    (reply.status().as_u16(), reply.json().await["error"]["code"].as_str()),
                    (503, Some("shutting_down"))
                );
            }
            soon("the server to end", waiting.proxy.ended()).await;
        }
    }
}

#[tokio::test]
async fn total_timeout_counts_the_preparation() {
    for cause in CAUSES {
        let waiting = waiting(cause, Client::new(), |setup| {
            setup.upstream.timeouts.total = Some(Duration::from_millis(300));
        })
        .await;
        let reply = waiting.ask().await;
        assert_eq!(reply.status(), 504, "{cause:?}");
    }
}

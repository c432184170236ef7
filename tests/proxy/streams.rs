//! Tests successful responses and how they are streamed.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::sync::{Mutex, Notify, mpsc};
use toolwire::dialect::{Dialect, UpstreamDialect};

use crate::{
    independent::upstream::Speech,
    support::{
        client::{Client, STREAM, WHOLE},
        proxy::Setup,
        soon,
        upstream::{END, Upstream, text},
    },
};

/// The upstream sends its next piece only after the client has received the previous one.
#[tokio::test]
async fn pieces_are_forwarded_as_they_arrive() {
    let (next, turns) = mpsc::channel::<()>(1);
    let turns = Arc::new(Mutex::new(turns));
    let upstream = Upstream::start(move |mut exchange| {
        let turns = turns.clone();
        async move {
            exchange.begin().await;
            for n in 0..3 {
                exchange.piece(text(&format!("token-{n}"))).await;
                turns.lock().await.recv().await.unwrap();
            }
            exchange.finished().await
        }
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut reply = Client::new().chat(&proxy, STREAM).await;
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(reply.header("cache-control"), Some("no-cache"));
    assert_eq!(reply.header("x-accel-buffering"), Some("no"));
    for n in 0..3 {
        reply.until(&format!("token-{n}")).await;
        next.send(()).await.unwrap();
    }
    assert!(reply.rest().await.ends_with("data: [DONE]\n\n"));
}

/// A stream faster than any real model is polled less often, but nothing is lost.
#[tokio::test]
async fn flooding_upstream_is_forwarded_completely_and_in_order() {
    const PIECES: usize = 5000;
    let upstream = Upstream::start(|mut exchange| async move {
        exchange.begin().await;
        for n in 0..PIECES {
            exchange.piece(text(&format!("token-{n};"))).await;
        }
        exchange.finished().await
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    for client in [Client::new(), Client::http2()] {
        let body = client.chat(&proxy, STREAM).await.rest().await;
        let numbers =
            body.split("token-").skip(1).map(|rest| rest.split(';').next().unwrap().parse().unwrap());
        assert_eq!(numbers.collect::<Vec<usize>>(), (0..PIECES).collect::<Vec<_>>());
        assert!(body.ends_with("data: [DONE]\n\n"));
    }
}

#[tokio::test]
async fn http2_clients_are_served_on_the_same_port() {
    let upstream = answering().await;
    let proxy = Setup::new(upstream.address).start().await;
    let reply = Client::http2().chat(&proxy, STREAM).await;
    assert_eq!(reply.status(), 200);
    assert!(reply.rest().await.ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn unstreamed_response_is_json_with_content_length() {
    let upstream = answering().await;
    let proxy = Setup::new(upstream.address).start().await;
    let reply = Client::new().chat(&proxy, WHOLE).await;
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let length: usize = reply.header("content-length").unwrap().parse().unwrap();
    let body = reply.rest().await;
    assert_eq!(body.len(), length);
    serde_json::from_str::<serde_json::Value>(&body).unwrap();
}

/// If an upstream ends its body soon after the end marker, its connection is reused, with and without streaming.
#[tokio::test]
async fn upstream_connections_are_reused() {
    let upstream = Upstream::start(|mut exchange| async move {
        exchange.begin().await;
        exchange.piece(text("hello")).await;
        exchange.piece(END).await;
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        exchange.end().await;
        exchange
    })
    .await;
    for body in [STREAM, WHOLE] {
        let proxy = Setup::new(upstream.address).start().await;
        let (requests, connections) = (upstream.requests(), upstream.connections());
        let client = Client::new();
        for _ in 0..8 {
            client.chat(&proxy, body).await.rest().await;
        }
        assert_eq!(upstream.requests() - requests, 8);
        // One connection should suffice, but a busy machine may miss the end of the body.
        assert!(upstream.connections() - connections < 8);
    }
}

/// If the upstream closes an idle connection just as it is being reused, the client does not notice.
#[tokio::test]
async fn stale_upstream_connection_is_replaced() {
    let upstream = Upstream::start(|mut exchange| async move {
        if exchange.earlier == 0 {
            exchange.begin().await;
            exchange.piece(text("hello")).await;
            exchange.piece(END).await;
            exchange.end().await;
        }
        exchange
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    let client = Client::new();
    for body in [STREAM, WHOLE, STREAM, WHOLE] {
        let reply = client.chat(&proxy, body).await;
        assert_eq!(reply.status(), 200);
        reply.rest().await;
    }
    assert!(upstream.requests() > 4, "no connection was used again");
}

/// The response ends with the end marker, even if the upstream leaves its connection open.
#[tokio::test]
async fn upstream_that_never_closes_does_not_delay_the_end() {
    let upstream = Upstream::start(|mut exchange| async move {
        exchange.begin().await;
        exchange.piece(text("all")).await;
        exchange.piece(END).await;
        exchange.gone().await;
        exchange
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    let client = Client::new();
    assert!(client.chat(&proxy, STREAM).await.rest().await.ends_with("data: [DONE]\n\n"));
    assert_eq!(client.chat(&proxy, WHOLE).await.status(), 200);
}

/// Without an end marker, the response ends with the finish reason, even if the upstream leaves its connection open
/// or sends garbage. More content shows that the finish reason was not the end.
#[tokio::test]
async fn finished_response_whose_body_stays_open_is_complete() {
    let stream = |speech: Speech, events: Value| speech.stream(events.as_array().unwrap());
    let finished = json!([["m", "all"], ["fin", "stop"]]);
    for (speech, dialect) in [
        (Speech::Chat, Dialect::Chat),
        (Speech::Gemini, Dialect::Gemini),
        (Speech::Messages, Dialect::Messages),
        (Speech::LumoV2, Dialect::Lumo),
        (Speech::Completions, Dialect::Completions),
    ] {
        for is_silent in [true, false] {
            let bytes = String::from_utf8(stream(speech, finished.clone())).unwrap();
            let upstream = Upstream::start_sharing(Arc::new(bytes), move |mut exchange, bytes| async move {
                exchange.begin().await;
                exchange.piece(&*bytes).await;
                while !is_silent && exchange.piece(": busy\n\n").await {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                exchange.gone().await;
                exchange
            })
            .await;
            let mut setup = Setup::new(upstream.address);
            setup.upstream.options = UpstreamDialect::try_from(dialect).unwrap();
            if is_silent {
                setup.upstream.timeouts.idle = Duration::from_millis(300);
            }
            let proxy = setup.start().await;
            let client = Client::new();
            let body = client.chat(&proxy, STREAM).await.rest().await;
            assert!(
                body.contains("all") && body.contains(r#""finish_reason":"stop""#),
                "{dialect:?}: {body}"
            );
            assert!(body.ends_with("data: [DONE]\n\n") && !body.contains("error"), "{dialect:?}: {body}");
        }
    }
}

/// Older Gemini models send the reason `STOP` with every frame.
#[tokio::test]
async fn content_after_a_finish_reason_is_awaited_again() {
    let frame = |text: &str| {
        let part = json!({"content": {"parts": [{"text": text}]}, "finishReason": "STOP"});
        format!("data: {}\n\n", json!({"candidates": [part]}))
    };
    let frames = Arc::new([frame("one"), frame("two")]);
    let upstream = Upstream::start_sharing(frames, |mut exchange, frames| async move {
        exchange.begin().await;
        for frame in &*frames {
            exchange.piece(frame).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        exchange.end().await;
        exchange
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.options = UpstreamDialect::try_from(Dialect::Gemini).unwrap();
    let proxy = setup.start().await;
    let body = Client::new().chat(&proxy, STREAM).await.rest().await;
    assert!(body.contains("one") && body.contains("two") && body.ends_with("data: [DONE]\n\n"), "{body}");
}

/// If a client does not read, the upstream is stopped long before memory is exhausted. When the client resumes,
/// nothing is missing.
#[tokio::test]
async fn slow_client_applies_backpressure_to_the_upstream() {
    const PIECES: usize = 2048;
    const PIECE: usize = 32 << 10;
    let blocked = Arc::new(Notify::new());
    let seen = blocked.clone();
    let upstream = Upstream::start(move |mut exchange| {
        let blocked = blocked.clone();
        async move {
            exchange.begin().await;
            let piece = text(&"x".repeat(PIECE));
            let mut told = false;
            for _ in 0..PIECES {
                let mut writing = std::pin::pin!(exchange.piece(&piece));
                let pause = std::time::Duration::from_millis(300);
                if tokio::time::timeout(pause, &mut writing).await.is_err() {
                    if !std::mem::replace(&mut told, true) {
                        blocked.notify_one();
                    }
                    writing.await;
                }
            }
            exchange.finished().await
        }
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut reply = Client::new().chat(&proxy, STREAM).await;
    reply.until("xxx").await;
    soon("the upstream to be stopped", seen.notified()).await;
    let rest = reply.rest().await;
    assert!(rest.len() > (PIECES - 64) * PIECE, "{}", rest.len());
    assert!(rest.ends_with("data: [DONE]\n\n"));
}

async fn answering() -> Upstream {
    Upstream::start(|mut exchange| async move {
        exchange.begin().await;
        exchange.piece(text("hello")).await;
        exchange.finished().await
    })
    .await
}

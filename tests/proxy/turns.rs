//! Tests that a stream which takes a lot of work yields to other streams. Client, proxy and upstream share one
//! thread, so the order of events is the order of their turns on it.

use std::cell::RefCell;

use tokio::sync::mpsc;
use toolwire::rules::Detect;

use crate::support::{
    client::{STREAM, WHOLE},
    proxy::Setup,
    raw::{Raw, post},
    soon,
    upstream::{Exchange, Upstream, at_once, text},
};

/// Reasoning without content keeps the detector busy without any output, so the client's socket never delays the
/// response.
const HOSTILE: &str = "<think></think>";

/// The length of the response in bytes. Processing it takes the proxy 24 turns.
const LENGTH: usize = 768 << 10;

/// How the upstream splits the text into frames.
#[derive(Clone, Copy, Debug)]
enum Frames {
    One,
    Many,
}

/// Sends the long response if the request asks for it, and reports when the proxy has read it. Otherwise sends a
/// short response.
async fn answer(mut exchange: Exchange, frames: Frames, taken: mpsc::UnboundedSender<()>) -> Exchange {
    if !exchange.body.windows(7).any(|part| part == b"hostile") {
        return at_once(exchange).await;
    }
    exchange.begin().await;
    let events = match frames {
        Frames::One => text(&HOSTILE.repeat(LENGTH / HOSTILE.len())),
        Frames::Many => {
            let event = text(HOSTILE);
            event.repeat(LENGTH / event.len())
        }
    };
    exchange.piece(events).await;
    let _ = taken.send(());
    exchange.finished().await
}

#[tokio::test]
async fn other_requests_are_answered_during_a_hostile_answer() {
    for (request, frames) in
        [(STREAM, Frames::One), (STREAM, Frames::Many), (WHOLE, Frames::One), (WHOLE, Frames::Many)]
    {
        let (taken, mut is_taken) = mpsc::unbounded_channel();
        let upstream = Upstream::start(move |exchange| answer(exchange, frames, taken.clone())).await;
        let mut setup = Setup::new(upstream.address);
        setup.settings.detect = Detect::Formats(vec!["think"]);
        let proxy = setup.start().await;
        let (mut hostile, mut other) = (Raw::connect(&proxy).await, Raw::connect(&proxy).await);
        // Opens a client connection and an upstream connection that can be reused.
        other.send(post(STREAM, "")).await;
        assert!(other.response().await.is_stream());
        let order = RefCell::new(Vec::new());
        let long = async {
            hostile.send(post(&request.replace("hi", "hostile"), "")).await;
            assert_eq!(hostile.response().await.status, 200);
            order.borrow_mut().push("hostile");
        };
        let short = async {
            soon("the hostile answer to be read", is_taken.recv()).await;
            other.send(post(STREAM, "")).await;
            assert!(other.response().await.is_stream());
            order.borrow_mut().push("other");
        };
        tokio::join!(long, short);
        assert_eq!(order.into_inner(), ["other", "hostile"], "{request}, {frames:?}");
    }
}

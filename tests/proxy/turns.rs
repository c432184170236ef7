//! A stream that takes much work yields the thread to other streams in between. Client, proxy and upstream share one
//! thread here, so the order of events is that of their turns on this thread.

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

/// Reasoning without content: work for the detector, but no output for the client, so the client's socket never
/// delays the answer.
const HOSTILE: &str = "<think></think>";

/// Length of the answer in bytes: processing it takes the proxy 24 turns on the thread.
const LENGTH: usize = 768 << 10;

/// How an upstream writes the text.
#[derive(Clone, Copy, Debug)]
enum Frames {
    One,
    Many,
}

/// Sends the hostile answer if the request asks for it, and reports when the proxy has read it; otherwise a short
/// answer.
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
        // A connection of the client, and one to the upstream, are ready for reuse.
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

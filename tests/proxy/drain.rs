//! Stopping: no new requests, open answers go on, and what is left at the deadline is told so.

use std::{sync::Arc, time::Duration};

use tokio::sync::Notify;

use crate::support::{
    client::{Client, STREAM, chat_request, stream_error},
    proxy::Setup,
    soon,
    upstream::{Upstream, text},
};

async fn held(go_on: Arc<Notify>) -> Upstream {
    Upstream::start(move |mut exchange| {
        let go_on = go_on.clone();
        async move {
            exchange.begin().await;
            exchange.piece(text("first")).await;
            go_on.notified().await;
            exchange.finished().await
        }
    })
    .await
}

#[tokio::test]
async fn open_answers_finish_and_nothing_new_begins() {
    for client in [Client::new(), Client::http2()] {
        let go_on = Arc::new(Notify::new());
        let upstream = held(go_on.clone()).await;
        let mut proxy = Setup::new(upstream.address).start().await;
        let mut open = client.chat(&proxy, STREAM).await;
        open.until("first").await;
        proxy.stop();
        // The listeners close at once.
        let refused = async {
            while Client::new()
                .send(chat_request(&proxy, STREAM))
                .await
                .is_ok_and(|reply| reply.status() == 200)
            {}
        };
        soon("new requests to be refused", refused).await;
        go_on.notify_one();
        assert!(open.rest().await.ends_with("data: [DONE]\n\n"));
        soon("the server to end", proxy.ended()).await;
    }
}

#[tokio::test]
async fn what_is_open_at_the_deadline_is_told_so() {
    let upstream = held(Arc::new(Notify::new())).await;
    for client in [Client::new(), Client::http2()] {
        let mut setup = Setup::new(upstream.address);
        setup.drain_timeout = Duration::from_millis(100);
        let mut proxy = setup.start().await;
        let mut open = client.chat(&proxy, STREAM).await;
        open.until("first").await;
        proxy.stop();
        let body = open.rest().await;
        assert_eq!(stream_error(&body)["code"], "shutting_down", "{body}");
        soon("the server to end", proxy.ended()).await;
    }
}

/// An answer that has not begun gets a real status.
#[tokio::test]
async fn what_has_not_begun_at_the_deadline_is_refused() {
    let asked = Arc::new(Notify::new());
    let tell = asked.clone();
    let upstream = Upstream::start(move |mut exchange| {
        let tell = tell.clone();
        async move {
            tell.notify_one();
            exchange.gone().await;
            exchange
        }
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.drain_timeout = Duration::from_millis(100);
    let mut proxy = setup.start().await;
    let client = Client::new();
    let mut reply = std::pin::pin!(client.send(chat_request(&proxy, STREAM)));
    tokio::select! {
        _ = &mut reply => panic!("nobody has answered"),
        () = soon("the upstream to be asked", asked.notified()) => {}
    }
    proxy.stop();
    let reply = reply.await.unwrap();
    assert_eq!(reply.status(), 503);
    assert_eq!(reply.json().await["error"]["code"], "shutting_down");
    soon("the server to end", proxy.ended()).await;
}

#[tokio::test]
async fn an_idle_server_ends_at_once() {
    let upstream = held(Arc::new(Notify::new())).await;
    let mut proxy = Setup::new(upstream.address).start().await;
    let client = Client::new();
    // Kept alive, idle.
    client.get(&proxy, "/healthz").await.rest().await;
    let _silent = tokio::net::TcpStream::connect(proxy.addresses[0]).await.unwrap();
    proxy.stop();
    soon("the server to end", proxy.ended()).await;
}

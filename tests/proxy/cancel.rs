//! Tests that a client which disconnects cancels its upstream request at every stage, even if the upstream is
//! silent.

use std::{pin::pin, sync::Arc};

use tokio::sync::Notify;

use crate::support::{
    client::{Client, STREAM, WHOLE, chat_request},
    proxy::Setup,
    soon,
    upstream::{Exchange, Upstream, text},
};

/// Starts an upstream that runs `before` and then waits until its connection is closed. Also returns notifications
/// of both steps.
async fn waiting<F>(before: fn(Exchange) -> F) -> (Upstream, Arc<Notify>, Arc<Notify>)
where
    F: Future<Output = Exchange> + Send + 'static,
{
    let (asked, gone) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell_asked, tell_gone) = (asked.clone(), gone.clone());
    let upstream = Upstream::start(move |exchange| {
        let (asked, gone) = (tell_asked.clone(), tell_gone.clone());
        async move {
            let mut exchange = before(exchange).await;
            asked.notify_one();
            exchange.gone().await;
            gone.notify_one();
            exchange
        }
    })
    .await;
    (upstream, asked, gone)
}

#[tokio::test]
async fn client_disconnect_before_the_response_cancels_the_upstream_request() {
    for (client, body) in [(Client::new(), STREAM), (Client::new(), WHOLE), (Client::http2(), STREAM)] {
        let (upstream, asked, gone) = waiting(|exchange| async { exchange }).await;
        let proxy = Setup::new(upstream.address).start().await;
        {
            let mut reply = pin!(client.send(chat_request(&proxy, body)));
            tokio::select! {
                _ = &mut reply => panic!("nobody has answered"),
                () = soon("the upstream to be asked", asked.notified()) => {}
            }
        }
        drop(client);
        soon("the upstream to be left alone", gone.notified()).await;
    }
}

#[tokio::test]
async fn client_disconnect_during_a_stream_cancels_the_upstream_request() {
    for client in [Client::new(), Client::http2()] {
        let (upstream, _asked, gone) = waiting(|mut exchange| async {
            exchange.begin().await;
            exchange.piece(text("first")).await;
            exchange
        })
        .await;
        let proxy = Setup::new(upstream.address).start().await;
        let mut reply = client.chat(&proxy, STREAM).await;
        reply.until("first").await;
        drop(reply);
        soon("the upstream to be left alone", gone.notified()).await;
    }
}

#[tokio::test]
async fn client_disconnect_during_an_unstreamed_response_cancels_the_upstream_request() {
    let (upstream, asked, gone) = waiting(|mut exchange| async {
        exchange.begin().await;
        exchange.piece(text("first")).await;
        exchange
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    let client = Client::new();
    {
        let mut reply = pin!(client.send(chat_request(&proxy, WHOLE)));
        tokio::select! {
            _ = &mut reply => panic!("the answer is not whole"),
            () = soon("the upstream to be asked", asked.notified()) => {}
        }
    }
    soon("the upstream to be left alone", gone.notified()).await;
    let metrics = client.get(&proxy, "/metrics").await.rest().await;
    assert!(metrics.contains("toolwire_client_disconnects_total 1\n"), "{metrics}");
    assert!(metrics.contains("toolwire_streams_in_flight 0\n"), "{metrics}");
}

#[tokio::test]
async fn client_disconnect_frees_the_slot() {
    let (upstream, _asked, gone) = waiting(|mut exchange| async {
        exchange.begin().await;
        exchange.piece(text("first")).await;
        exchange
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.queue.max_concurrent = 1;
    let proxy = setup.start().await;
    for _ in 0..3 {
        let mut reply = Client::new().chat(&proxy, STREAM).await;
        reply.until("first").await;
        drop(reply);
        soon("the upstream to be left alone", gone.notified()).await;
    }
}

//! Tests several threads: all of them serve and stop, and clients see a single server.

use std::{io::ErrorKind, net::TcpListener, sync::Arc};

use toolwire::proxy::{ServeError, Server};

use crate::support::{
    client::STREAM,
    proxy::{Proxy, Setup},
    raw::{Raw, post},
    soon,
    upstream::{Upstream, at_once, text},
};

/// Connects `count` clients one after the other. Each gets a response and keeps its connection open.
async fn answered(proxy: &Proxy, count: usize) -> Vec<Raw> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = Raw::connect(proxy).await;
        client.send(post(STREAM, "")).await;
        assert!(client.response().await.is_stream());
        clients.push(client);
    }
    clients
}

#[tokio::test]
async fn all_threads_serve_and_all_stop() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup::new(upstream.address);
    setup.threads = 3;
    let mut proxy = setup.start().await;
    // Each thread has its own connection to the upstream and reuses it.
    let clients = answered(&proxy, 64).await;
    assert_eq!(upstream.connections(), 3);
    proxy.stop();
    for mut client in clients {
        client.closed().await;
    }
    soon("the server to end", proxy.ended()).await;
}

#[tokio::test]
async fn streams_of_all_threads_end_at_the_drain_deadline() {
    let upstream = Upstream::start(|mut exchange| async {
        exchange.begin().await;
        exchange.piece(text("first")).await;
        exchange.gone().await;
        exchange
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.threads = 3;
    setup.upstream.queue.max_concurrent = 16;
    setup.drain_timeout = std::time::Duration::from_millis(100);
    let mut proxy = setup.start().await;
    let mut clients = Vec::new();
    for _ in 0..16 {
        let mut client = Raw::connect(&proxy).await;
        client.send(post(STREAM, "")).await;
        client.until("first").await;
        clients.push(client);
    }
    proxy.stop();
    for mut client in clients {
        let rest = client.rest().await;
        assert!(rest.contains("shutting_down") && rest.ends_with("0\r\n\r\n"), "{rest}");
    }
    soon("the server to end", proxy.ended()).await;
}

#[tokio::test]
async fn dropped_server_stops_on_all_threads() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup::new(upstream.address);
    setup.threads = 3;
    let proxy = setup.start().await;
    let clients = answered(&proxy, 16).await;
    drop(proxy);
    for mut client in clients {
        client.closed().await;
    }
}

/// Threads share a port, but servers do not, no matter which of them has several threads.
#[tokio::test]
async fn second_server_on_a_port_is_an_error() {
    let upstream = Upstream::start(at_once).await;
    for (here, there) in [(1, 1), (1, 3), (3, 1), (3, 3)] {
        let bind = |threads, listen: Option<_>| {
            let mut setup = Setup::new(upstream.address);
            setup.threads = threads;
            if let Some(address) = listen {
                setup.listen = vec![address];
            }
            Server::bind(Arc::new(setup.config().0), None)
        };
        let first = bind(here, None).unwrap();
        let addresses = first.addresses().to_vec();
        assert_eq!(addresses.len(), 2, "an address has one port, however many threads there are");
        assert!(addresses.iter().all(|address| address.port() != 0) && addresses[0] != addresses[1]);
        let Err(ServeError::Bind { address, error }) = bind(there, Some(addresses[1])) else {
            panic!("{here} and {there} threads listen on one port")
        };
        assert_eq!((address, error.kind()), (addresses[1], ErrorKind::AddrInUse));
        drop(first);
        bind(there, Some(addresses[1])).unwrap();
    }
}

#[tokio::test]
async fn inherited_socket_that_others_can_reach_needs_keys() {
    let upstream = Upstream::start(at_once).await;
    for (address, keys, is_open) in
        [("0.0.0.0:0", vec![], true), ("0.0.0.0:0", vec!["key"], false), ("127.0.0.1:0", vec![], false)]
    {
        let mut setup = Setup::new(upstream.address);
        setup.keys = keys;
        let socket = TcpListener::bind(address).unwrap();
        let bound = socket.local_addr().unwrap();
        match Server::bind_or_inherit(Arc::new(setup.config().0), None, vec![socket]) {
            Ok(server) => assert_eq!((server.addresses(), is_open), (&[bound][..], false)),
            Err(error) => {
                assert!(matches!(error, ServeError::Open(open) if open == bound && is_open), "{error}")
            }
        }
    }
}

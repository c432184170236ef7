//! Tests listeners with TLS.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http::Version;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    sync::{Notify, Semaphore},
};
use tokio_rustls::rustls::HandshakeKind;

use crate::support::{
    client::{Client, STREAM, WHOLE},
    proxy::{Proxy, Setup},
    raw::{Raw, get, post},
    soon,
    tls::{Authority, Bytewise, Files, connect, handshake, records},
    upstream::{Exchange, Upstream, at_once, held_once, text},
};

/// A proxy with TLS and additional settings, its certificate authority, and the files with its certificate.
async fn proxy(upstream: &Upstream, more: impl FnOnce(&Files) -> String) -> (Proxy, Authority, Files) {
    let authority = Authority::new();
    let files = Files::new(&authority.sign());
    let execution = files.table(&more(&files));
    let proxy = Setup { execution, ..Setup::new(upstream.address) }.start().await;
    (proxy, authority, files)
}

fn nothing(_: &Files) -> String {
    String::new()
}

#[tokio::test]
async fn both_versions_of_http_are_served_by_alpn() {
    let upstream = Upstream::start(at_once).await;
    let (proxy, authority, _files) = proxy(&upstream, nothing).await;
    let mut http1 = authority.client();
    http1.alpn_protocols = vec![b"http/1.1".to_vec()];
    let mut http2 = authority.client();
    http2.alpn_protocols = vec![b"h2".to_vec()];
    for (config, version) in
        [(authority.client(), Version::HTTP_11), (http1, Version::HTTP_11), (http2, Version::HTTP_2)]
    {
        let offers = config.alpn_protocols.clone();
        for body in [STREAM, WHOLE, STREAM] {
            let mut stream = connect(&proxy, config.clone(), |socket| socket).await.unwrap();
            let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
            assert_eq!(agreed.as_ref(), offers.first());
            if version == Version::HTTP_11 {
                stream.write_all(post(body, "").as_bytes()).await.unwrap();
                let response = Raw::on(stream).response().await;
                assert_eq!(response.status, 200);
                assert!(response.body.contains("hello"));
            }
        }
    }
    // The client offers both HTTP versions.
    let client = Client::tls(authority.client());
    for _ in 0..3 {
        let reply = client.chat(&proxy, STREAM).await;
        assert_eq!((reply.status().as_u16(), reply.version()), (200, Version::HTTP_2));
        assert!(reply.rest().await.ends_with("data: [DONE]\n\n"));
    }
    let mut other = authority.client();
    other.alpn_protocols = vec![b"spdy/1".to_vec()];
    connect(&proxy, other, |socket| socket).await.expect_err("no protocol in common");
}

#[tokio::test]
async fn connection_serves_one_request_after_another() {
    let upstream = Upstream::start(at_once).await;
    let (proxy, authority, _files) = proxy(&upstream, nothing).await;
    let mut client = Raw::on(connect(&proxy, authority.client(), |socket| socket).await.unwrap());
    // The responses alternate between hyper and toolwire's own code.
    client.send([post(STREAM, ""), get("/healthz"), post(WHOLE, ""), post(STREAM, "")].concat()).await;
    assert!(client.response().await.is_stream());
    assert_eq!(client.response().await.body, "ok\n");
    assert_eq!(client.response().await.status, 200);
    assert!(client.response().await.is_stream());
    client.send(post(STREAM, "connection: close\r\n")).await;
    assert!(client.response().await.is_stream());
    // TLS must announce the end: without that, the read fails.
    let mut rest = Vec::new();
    assert_eq!(soon("the end", client.stream().read_to_end(&mut rest)).await.unwrap(), 0);
}

#[tokio::test]
async fn token_leaves_in_one_record() {
    let next = Arc::new(Semaphore::new(0));
    let script = |mut exchange: Exchange, next: Arc<Semaphore>| async move {
        exchange.begin().await;
        exchange.piece(text("first")).await;
        for token in 0..5 {
            next.acquire().await.unwrap().forget();
            exchange.piece(text(&format!("token {token}"))).await;
        }
        exchange.finished().await
    };
    let upstream = Upstream::start_sharing(next.clone(), script).await;
    let (proxy, authority, _files) = proxy(&upstream, nothing).await;
    let read = Arc::<Mutex<Vec<u8>>>::default();
    let stream =
        connect(&proxy, authority.client(), |socket| Bytewise::new(socket, read.clone())).await.unwrap();
    let mut client = Raw::on(stream);
    client.send(post(STREAM, "")).await;
    client.until("first").await;
    for token in 0..5 {
        client.until("\r\n").await;
        let before = records(&read.lock().unwrap()).len();
        next.add_permits(1);
        client.until(&format!("token {token}")).await;
        assert_eq!(records(&read.lock().unwrap()).len(), before + 1, "token {token}");
    }
}

#[tokio::test]
async fn records_are_read_in_any_pieces() {
    let upstream = Upstream::start(at_once).await;
    let (proxy, authority, _files) = proxy(&upstream, nothing).await;
    let stream =
        connect(&proxy, authority.client(), |socket| Bytewise::new(socket, Arc::default())).await.unwrap();
    let mut client = Raw::on(stream);
    for _ in 0..2 {
        client.send(post(STREAM, "")).await;
        assert!(client.response().await.is_stream());
    }
}

/// A record that has been read in part remains in the TLS session during a response, with nothing left in the
/// socket.
#[tokio::test]
async fn requests_pipelined_during_a_stream_are_not_lost() {
    let (upstream, go_on) = held_once().await;
    let (proxy, authority, _files) = proxy(&upstream, nothing).await;
    let mut client = Raw::on(connect(&proxy, authority.client(), |socket| socket).await.unwrap());
    client.send(post(STREAM, "")).await;
    client.until("first").await;
    let long = WHOLE.replace("hi", &"x".repeat(10_000));
    client.send(post(&long, "").repeat(8)).await;
    go_on.notify_one();
    client.until("0\r\n\r\n").await;
    for _ in 0..8 {
        assert_eq!(client.response().await.status, 200);
    }
}

#[tokio::test]
async fn large_response_arrives_whole() {
    let upstream = Upstream::start(|exchange: Exchange| async move {
        let events = text(&"x".repeat(50_000)).repeat(60) + crate::support::upstream::END;
        exchange.stream(events).await
    })
    .await;
    let (proxy, authority, _files) = proxy(&upstream, nothing).await;
    let mut client = Raw::on(connect(&proxy, authority.client(), |socket| socket).await.unwrap());
    client.send(post(STREAM, "").repeat(2)).await;
    for _ in 0..2 {
        let response = client.response().await;
        assert!(response.is_stream());
        assert_eq!(response.body.matches(&"x".repeat(50_000)).count(), 60);
    }
    let http2 = Client::tls(authority.client()).chat(&proxy, STREAM).await;
    assert_eq!(http2.rest().await.matches(&"x".repeat(50_000)).count(), 60);
}

#[tokio::test]
async fn client_certificate_is_checked() {
    let upstream = Upstream::start(at_once).await;
    let (clients, strangers) = (Authority::new(), Authority::new());
    for (mode, without_one) in [("required", false), ("optional", true)] {
        let more = |files: &Files| {
            let path = files.put("clients.pem", &clients.pem);
            format!("client_ca = \"{path}\"\nclient_auth = \"{mode}\"")
        };
        let (proxy, authority, _files) = proxy(&upstream, more).await;
        let is_served = async |config| {
            let Ok(stream) = connect(&proxy, config, |socket| socket).await else { return false };
            let mut client = Raw::on(stream);
            // In TLS 1.3, the client only notices that its certificate was rejected when it reads.
            client.send_lossy(get("/healthz")).await && client.rest_lossy().await.contains("200 OK")
        };
        assert_eq!(is_served(authority.client()).await, without_one, "{mode}");
        assert!(is_served(authority.client_with(&clients.sign())).await, "{mode}");
        assert!(!is_served(authority.client_with(&strangers.sign())).await, "{mode}");
    }
}

#[tokio::test]
async fn old_versions_are_refused() {
    let upstream = Upstream::start(at_once).await;
    for (min_version, is_served) in [("1.2", true), ("1.3", false)] {
        let more = |_: &Files| format!("min_version = \"{min_version}\"");
        let (proxy, authority, _files) = proxy(&upstream, more).await;
        let config = authority.client_of_version_1_2();
        assert_eq!(connect(&proxy, config, |socket| socket).await.is_ok(), is_served, "{min_version}");
    }
}

#[tokio::test]
async fn plain_http_on_a_tls_port_is_told_so() {
    let upstream = Upstream::start(at_once).await;
    let (proxy, _authority, _files) = proxy(&upstream, nothing).await;
    for request in
        [get("/healthz"), post(STREAM, ""), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), "\0".to_owned()]
    {
        let mut client = Raw::connect(&proxy).await;
        client.send(request).await;
        let response = client.response().await;
        assert_eq!(
            (response.status, response.body.as_str()),
            (400, "This port speaks TLS: the URL is https://.\n")
        );
        client.closed().await;
    }
}

/// Records that look like the start of a handshake but are not valid.
#[tokio::test]
async fn bad_handshakes_are_closed_and_others_are_served() {
    let upstream = Upstream::start(at_once).await;
    let (proxy, authority, _files) = proxy(&upstream, nothing).await;
    let record = |version: u16, length: u16, body: &[u8]| {
        [&[22][..], &version.to_be_bytes(), &length.to_be_bytes(), body].concat()
    };
    let hello = |kind: u8, length: u32, body: &[u8]| {
        let [_, length @ ..] = length.to_be_bytes();
        let message = [&[kind][..], &length, body].concat();
        record(0x0301, u16::try_from(message.len()).unwrap(), &message)
    };
    for bytes in [
        record(0x0301, 0, b""),
        record(0x0301, 5, b"nonsense"),
        record(0xffff, 5, b"\x01\0\0\x01\0"),
        record(0x0301, u16::MAX, &[0; 20_000]),
        [22; 9000].to_vec(),
        hello(1, 0, b""),
        hello(1, 40, &[0; 40]),
        hello(1, 0x00ff_ffff, &[3; 9000]),
        hello(0, 0, b""),
        hello(2, 40, &[3; 40]),
        hello(20, 12, &[0; 12]),
        record(0x0301, 1, b"\x01").repeat(5000),
    ] {
        let mut client = Raw::connect(&proxy).await;
        client.send_lossy(bytes).await;
        client.half_close().await;
        assert!(!client.rest_lossy().await.contains("HTTP"));
        let mut stream = connect(&proxy, authority.client(), |socket| socket).await.unwrap();
        stream.write_all(post(WHOLE, "").as_bytes()).await.unwrap();
        assert_eq!(Raw::on(stream).response().await.status, 200);
    }
}

#[tokio::test]
async fn tls_on_a_plain_port_is_closed() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let error = connect(&proxy, Authority::new().client(), |socket| socket).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
}

/// Begins a stream, waits until the client disconnects, and then notifies `gone`.
async fn endless(mut exchange: Exchange, gone: Arc<Notify>) -> Exchange {
    exchange.begin().await;
    exchange.piece(text("first")).await;
    exchange.gone().await;
    gone.notify_one();
    exchange
}

#[tokio::test]
async fn upstream_is_left_when_the_client_goes() {
    let gone = Arc::new(Notify::new());
    let upstream = Upstream::start_sharing(gone.clone(), endless).await;
    let (proxy, authority, _files) = proxy(&upstream, nothing).await;
    for is_announced in [false, true] {
        let mut client = Raw::on(connect(&proxy, authority.client(), |socket| socket).await.unwrap());
        client.send(post(STREAM, "")).await;
        client.until("first").await;
        if is_announced {
            // Only the TLS session is closed; the socket stays open.
            client.stream().get_mut().1.send_close_notify();
            client.stream().flush().await.unwrap();
            soon("the upstream to be left alone", gone.notified()).await;
        } else {
            drop(client);
            soon("the upstream to be left alone", gone.notified()).await;
        }
    }
}

#[tokio::test]
async fn client_that_stops_reading_is_disconnected() {
    let gone = Arc::new(Notify::new());
    let script = |mut exchange: Exchange, gone: Arc<Notify>| async move {
        exchange.begin().await;
        while exchange.piece(text(&"x".repeat(30_000))).await {}
        gone.notify_one();
        exchange
    };
    let upstream = Upstream::start_sharing(gone.clone(), script).await;
    let authority = Authority::new();
    let files = Files::new(&authority.sign());
    let mut setup = Setup { execution: files.table(""), ..Setup::new(upstream.address) };
    setup.limits.write_timeout = Duration::from_millis(200);
    let proxy = setup.start().await;
    let mut client = Raw::on(handshake(Arc::new(authority.client()), narrow(&proxy).await).await.unwrap());
    client.send(post(STREAM, "")).await;
    soon("the upstream to be left alone", gone.notified()).await;
    Client::tls(authority.client()).metrics_with(&proxy, "toolwire_client_stalls_total 1\n").await;
}

/// TLS buffers data while the socket is full, and must send it even if nothing else happens. The sizes are close to
/// the capacity of a Linux socket. They increase in steps smaller than TLS's own buffer, so that one of the pieces
/// ends inside that buffer.
#[tokio::test]
async fn slow_client_gets_all_that_the_upstream_has_sent() {
    let next = Arc::new(Semaphore::new(0));
    let script = |mut exchange: Exchange, next: Arc<Semaphore>| async move {
        exchange.begin().await;
        for number in 0..12 {
            exchange.piece(text(&("x".repeat(2_700_000 + number * 40_000) + "the last so far"))).await;
            next.acquire().await.unwrap().forget();
        }
        exchange.finished().await
    };
    let upstream = Upstream::start_sharing(next.clone(), script).await;
    let (proxy, authority, _files) = proxy(&upstream, nothing).await;
    let mut client = Raw::on(handshake(Arc::new(authority.client()), narrow(&proxy).await).await.unwrap());
    client.send(post(STREAM, "")).await;
    let mut read = [0; 64 << 10];
    for _ in 0..12 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut tail = Vec::new();
        while !tail.windows(15).any(|window| window == b"the last so far") {
            let length = soon("the rest", client.stream().read(&mut read)).await.unwrap();
            assert_ne!(length, 0);
            tail.drain(..tail.len().saturating_sub(14));
            tail.extend_from_slice(&read[..length]);
        }
        next.add_permits(1);
    }
}

/// Connects with a small receive buffer.
async fn narrow(proxy: &Proxy) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(proxy.addresses[0]).await.unwrap()
}

#[tokio::test]
async fn slow_handshake_is_ended() {
    let upstream = Upstream::start(at_once).await;
    let (proxy, authority, _files) = proxy(&upstream, nothing).await;
    let mut client = TcpStream::connect(proxy.addresses[0]).await.unwrap();
    // The start of a 16 KiB ClientHello, one byte at a time.
    let sent = async {
        let hello = [22, 3, 1, 64, 0, 1, 0, 63, 252].into_iter().chain(std::iter::repeat(0));
        for byte in hello {
            if client.write_all(&[byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    soon("the end of the connection", sent).await;
    Client::tls(authority.client()).metrics_with(&proxy, "toolwire_tls_handshake_failures_total 1\n").await;
}

#[tokio::test]
async fn half_open_handshakes_do_not_keep_others_out() {
    let upstream = Upstream::start(at_once).await;
    let (proxy, authority, _files) = proxy(&upstream, nothing).await;
    let mut half_open = Vec::new();
    for number in 0..1000 {
        let mut client = TcpStream::connect(proxy.addresses[0]).await.unwrap();
        let begun = [22, 3, 1, 1, 0].get(..number % 6).unwrap_or_default();
        client.write_all(begun).await.unwrap();
        half_open.push(client);
    }
    let reply = Client::tls(authority.client()).chat(&proxy, STREAM).await;
    assert!(reply.rest().await.ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn certificate_is_exchanged_while_a_stream_runs() {
    let next = Arc::new(Semaphore::new(0));
    let script = |mut exchange: Exchange, next: Arc<Semaphore>| async move {
        exchange.begin().await;
        exchange.piece(text("first")).await;
        next.acquire().await.unwrap().forget();
        exchange.finished().await
    };
    let upstream = Upstream::start_sharing(next.clone(), script).await;
    let (proxy, authority, files) = proxy(&upstream, nothing).await;
    // Session tickets are stored in the configuration, so all connections share it.
    let config = Arc::new(authority.client());
    let open = async || {
        let socket = TcpStream::connect(proxy.addresses[0]).await.unwrap();
        Raw::on(handshake(config.clone(), socket).await.unwrap())
    };
    let mut streaming = open().await;
    streaming.send(post(STREAM, "")).await;
    streaming.until("first").await;
    let mut second = open().await;
    assert_eq!(second.stream().get_ref().1.handshake_kind(), Some(HandshakeKind::Resumed));

    let new = Authority::new();
    files.write(&new.sign());
    let exchanged = async {
        while connect(&proxy, new.client(), |socket| socket).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    soon("the new certificate", exchanged).await;
    connect(&proxy, authority.client(), |socket| socket).await.expect_err("the old certificate is gone");
    // Session tickets and connections survive a reload of the certificate.
    second.send(get("/healthz")).await;
    assert_eq!(second.response().await.body, "ok\n");
    let mut third = open().await;
    assert_eq!(third.stream().get_ref().1.handshake_kind(), Some(HandshakeKind::Resumed));
    next.add_permits(1);
    streaming.until("data: [DONE]").await;

    // A key that does not match the certificate is not used.
    files.put("key.pem", &new.sign().key);
    let client = Client::tls(new.client());
    client.metrics_with(&proxy, "toolwire_tls_reload_failures_total 1\n").await;
    connect(&proxy, new.client(), |socket| socket).await.unwrap();
    // 1 January 4096, the default of `rcgen`.
    let metrics = client.get(&proxy, "/metrics").await.rest().await;
    assert!(metrics.contains("toolwire_tls_certificate_expiry_seconds{} 67090118400\n"), "{metrics}");
}

//! Tests exchanges with an upstream: every framing of a response, and when a connection is reused.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use http::HeaderValue;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Mutex, Notify},
    task::JoinSet,
};

use crate::support::{
    client::{Client, STREAM, WHOLE, chat_request, stream_error},
    proxy::{Proxy, Setup},
    soon,
    upstream::{END, Exchange, Upstream, answer, at_once, text},
};

async fn asked(proxy: &Proxy, times: usize) {
    let client = Client::new();
    for time in 0..times {
        let reply = client.chat(proxy, if time % 2 == 0 { STREAM } else { WHOLE }).await;
        assert_eq!(reply.status(), 200);
        let body = reply.rest().await;
        assert!(body.contains("hello") && !body.contains("error"), "{body}");
    }
}

/// Sends four requests to an upstream that always responds with `bytes` and keeps its connections open. Returns how
/// many connections it gets.
async fn connections_for(bytes: String, one_by_one: bool) -> usize {
    let bytes = Arc::new(bytes);
    let upstream = Upstream::start(move |mut exchange| {
        let bytes = bytes.clone();
        async move {
            let size = if one_by_one { 1 } else { bytes.len() };
            for piece in bytes.as_bytes().chunks(size) {
                exchange.raw(piece).await;
                tokio::task::yield_now().await;
            }
            exchange.keep();
            exchange
        }
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    asked(&proxy, 4).await;
    assert_eq!(upstream.requests(), 4);
    upstream.connections()
}

fn with_length(lines: &str) -> String {
    let answer = answer();
    format!("HTTP/1.1 200 OK\r\n{lines}content-length: {}\r\n\r\n{answer}", answer.len())
}

fn chunked(lines: &str, extension: &str, trailers: &str) -> String {
    let mut bytes = format!("HTTP/1.1 200 OK\r\n{lines}transfer-encoding: chunked\r\n\r\n");
    for chunk in answer().as_bytes().chunks(50) {
        bytes += &format!("{:X}{extension}\r\n{}\r\n", chunk.len(), std::str::from_utf8(chunk).unwrap());
    }
    bytes + &format!("0{extension}\r\n{trailers}\r\n")
}

#[tokio::test]
async fn well_framed_responses_keep_their_connection_in_any_split() {
    for bytes in [
        with_length(""),
        with_length("connection: keep-alive\r\n"),
        with_length("").replace("HTTP/1.1", "HTTP/1.0").replace("OK\r\n", "OK\r\nconnection: Keep-Alive\r\n"),
        format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nlink: x\r\n\r\n{}", with_length("")),
    ] {
        for one_by_one in [false, true] {
            assert_eq!(connections_for(bytes.clone(), one_by_one).await, 1, "{bytes}");
        }
    }
    // The last chunk follows the end marker. If it arrives byte by byte, the proxy may already have closed the
    // connection, so the number of connections is not checked.
    for bytes in [
        chunked("", "", ""),
        chunked("", ";a=\"b\";c", ""),
        chunked("", "  ", "x: y\r\nz: \r\n"),
        chunked("", "", "").replace(": chunked", ": , Chunked ,"),
    ] {
        assert_eq!(connections_for(bytes.clone(), false).await, 1, "{bytes}");
        connections_for(bytes, true).await;
    }
}

#[tokio::test]
async fn connection_with_doubtful_framing_is_not_reused() {
    for bytes in [
        with_length("connection: close\r\n"),
        with_length("connection: x, Close\r\n"),
        with_length("").replace("HTTP/1.1", "HTTP/1.0"),
        with_length("") + "more",
        chunked("", "", "") + "HTTP/1.1 200 OK\r\n",
        chunked("content-length: 5\r\n", "", ""),
        chunked("connection: keep-alive\r\n", "", "").replace("HTTP/1.1", "HTTP/1.0"),
    ] {
        assert_eq!(connections_for(bytes.clone(), false).await, 4, "{bytes}");
    }
}

#[tokio::test]
async fn response_without_framing_ends_with_the_connection() {
    let upstream = Upstream::start(|mut exchange| async {
        exchange.raw("HTTP/1.1 200 OK\r\n\r\n").await;
        exchange.raw(answer()).await;
        exchange
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    asked(&proxy, 4).await;
    assert_eq!(upstream.connections(), 4);
}

/// The size of each chunk extension is limited, but not the total size of all extensions in a response.
#[tokio::test]
async fn long_response_may_have_an_extension_with_each_chunk() {
    let upstream = Upstream::start(|mut exchange| async {
        exchange.begin().await;
        let text = text("hello");
        for _ in 0..200 {
            exchange.raw(format!("{:x};sig={}\r\n{text}\r\n", text.len(), "f".repeat(100))).await;
        }
        exchange.finished().await
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    let body = Client::new().chat(&proxy, STREAM).await.rest().await;
    assert_eq!(body.matches("hello").count(), 200, "{body}");
}

#[tokio::test]
async fn malformed_chunk_ends_a_stream_with_an_error() {
    for bytes in [
        "5 5\r\nhello\r\n",
        "zz\r\n",
        "-1\r\n",
        "10000000000000000\r\n",
        "\r\n",
        "ff\r\ndata: {",
        "f",
        "2\r\n::x\r\n",
    ] {
        let upstream = Upstream::start(move |mut exchange| async move {
            exchange.begin().await;
            exchange.piece(text("first")).await;
            exchange.raw(bytes).await;
            exchange
        })
        .await;
        let proxy = Setup::new(upstream.address).start().await;
        let body = Client::new().chat(&proxy, STREAM).await.rest().await;
        assert!(body.contains("first"), "{body}");
        assert_eq!(stream_error(&body)["code"], "upstream_truncated", "{bytes:?}");
    }
}

#[tokio::test]
async fn malformed_response_heads_are_rejected() {
    for head in [
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx",
        "HTTP/1.1 200 OK\r\ncontent-length: 1,2\r\n\r\nxx",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nxx",
        "HTTP/1.1 200 OK\r\nx: y\r\n folded\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx : y\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: a\rb\r\n\r\n",
        "HTTP/1.1 099 Low\r\n\r\n",
        "HTTP/1.1 101 Switching\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "HTTP/1.1 600 Odd\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 204 No\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length:\r\n\r\nxx",
        "HTTP/1.1 200 OK\r\ntransfer-encoding:\r\ncontent-length: 2\r\n\r\nxx",
        "\rHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nxx",
        "HTTP/1.1 200 OK\r\n x: y\r\n\r\n",
    ] {
        let upstream = Upstream::start(move |mut exchange| async move {
            exchange.raw(head).await;
            exchange.gone().await;
            exchange
        })
        .await;
        let proxy = Setup::new(upstream.address).start().await;
        let reply = Client::new().chat(&proxy, STREAM).await;
        assert_eq!(reply.status(), 502, "{head:?}");
        assert_eq!(reply.json().await["error"]["code"], "upstream_protocol", "{head:?}");
    }
}

#[tokio::test]
async fn transfer_codings_that_were_not_offered_are_rejected() {
    for coding in ["gzip", "gzip, chunked", "chunked, chunked", "chunked, x"] {
        let upstream = Upstream::start(move |mut exchange| async move {
            exchange.raw(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: {coding}\r\n\r\n")).await;
            exchange.piece(text("first")).await;
            exchange.finished().await
        })
        .await;
        let proxy = Setup::new(upstream.address).start().await;
        let error = Client::new().chat(&proxy, STREAM).await.json().await["error"].clone();
        assert_eq!(error["code"], "upstream_protocol", "{coding}: {error}");
    }
}

#[tokio::test]
async fn endless_interim_responses_are_rejected() {
    let upstream = Upstream::start(|mut exchange| async {
        for _ in 0..10_000 {
            if !exchange.raw("HTTP/1.1 102 Wait\r\n\r\n").await {
                break;
            }
        }
        exchange.whole("200 OK", "", &answer()).await;
        exchange
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    let error = Client::new().chat(&proxy, STREAM).await.json().await["error"].clone();
    assert_eq!(error["code"], "upstream_protocol");
    assert!(error["message"].as_str().unwrap().contains("65536"), "{error}");
}

#[tokio::test]
async fn endless_response_head_is_rejected() {
    let upstream = Upstream::start(|mut exchange| async {
        exchange.raw("HTTP/1.1 200 OK\r\nx: ").await;
        while exchange.raw("x".repeat(4096)).await {}
        exchange
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    let error = Client::new().chat(&proxy, STREAM).await.json().await["error"].clone();
    assert_eq!(error["code"], "upstream_protocol");
    assert!(error["message"].as_str().unwrap().contains("65536"), "{error}");
}

/// If a reused connection closes without a response, the request is sent again once, on a new connection, unless
/// the configuration forbids it.
#[tokio::test]
async fn request_is_retried_on_a_reused_connection_unless_forbidden() {
    // `plan` says which requests the upstream answers, in the order in which they arrive.
    for (retry_unanswered, plan, requests, connections, statuses) in [
        (true, vec![true, false, true], 3, 2, [200, 200]),
        (true, vec![true, false, false, true], 3, 2, [200, 502]),
        (true, vec![false, true], 2, 2, [502, 200]),
        (false, vec![true, false], 2, 1, [200, 502]),
        (false, vec![false, true], 2, 2, [502, 200]),
    ] {
        let plan = Arc::new(Mutex::new(plan.into_iter()));
        let upstream = Upstream::start(move |exchange| {
            let plan = plan.clone();
            async move {
                let answers = plan.lock().await.next().unwrap();
                if answers { at_once(exchange).await } else { exchange }
            }
        })
        .await;
        let mut setup = Setup::new(upstream.address);
        setup.upstream.retry_unanswered = retry_unanswered;
        let proxy = setup.start().await;
        for status in statuses {
            let reply = Client::new().chat(&proxy, STREAM).await;
            assert_eq!(reply.status(), status);
            reply.rest().await;
        }
        assert_eq!((upstream.requests(), upstream.connections()), (requests, connections));
    }
}

/// llama-server closes its connection right after a streaming response although its header says keep-alive.
#[tokio::test]
async fn upstream_that_closes_behind_each_response_fails_no_request() {
    for pause in [0, 0, 1, 2, 5] {
        let upstream = Upstream::start(|exchange| async move {
            let mut exchange = at_once(exchange).await;
            exchange.close().await;
            exchange
        })
        .await;
        let proxy = Setup::new(upstream.address).start().await;
        let client = Client::new();
        for request in 0..100 {
            let reply = client.chat(&proxy, STREAM).await;
            assert_eq!(reply.status(), 200, "request {request}, with a pause of {pause} ms");
            reply.rest().await;
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }
}

/// Half a status line counts as the beginning of a response, so the request is not sent again.
#[tokio::test]
async fn request_whose_response_has_begun_is_not_retried() {
    let upstream = Upstream::start(|mut exchange| async move {
        if exchange.earlier == 0 {
            return at_once(exchange).await;
        }
        exchange.raw("HTTP/1.1 2").await;
        exchange
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    asked(&proxy, 1).await;
    assert_eq!(Client::new().chat(&proxy, STREAM).await.status(), 502);
    assert_eq!(upstream.requests(), 2);
}

#[tokio::test]
async fn idle_connections_that_close_or_send_bytes_are_not_reused() {
    for closes in [false, true] {
        let stirred = Arc::new(Notify::new());
        let stir = stirred.clone();
        let upstream = Upstream::start(move |exchange| {
            let stir = stir.clone();
            async move {
                let mut exchange = at_once(exchange).await;
                tokio::time::sleep(Duration::from_millis(50)).await;
                if closes {
                    exchange.close().await;
                } else {
                    exchange.raw("HTTP/1.1 408 Late\r\ncontent-length: 0\r\n\r\n").await;
                }
                stir.notify_one();
                exchange
            }
        })
        .await;
        let proxy = Setup::new(upstream.address).start().await;
        for n in 1..4 {
            asked(&proxy, 1).await;
            soon("the connection to stir", stirred.notified()).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_eq!((upstream.requests(), upstream.connections()), (n, n));
        }
    }
}

/// Starts an upstream that handles connections by itself, so that it can answer before it has read the request.
async fn by_hand<F>(answering: fn(TcpStream) -> F) -> (SocketAddr, JoinSet<()>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut task = JoinSet::new();
    task.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        answering(stream).await;
    });
    (address, task)
}

/// Larger than the socket buffers.
const LARGE: usize = 9 << 20;

fn large() -> String {
    STREAM.replace("hi", &"x".repeat(LARGE))
}

/// Reads until all `x` of the request have arrived.
async fn read_large(stream: &mut TcpStream) {
    let (mut buffer, mut seen) = (vec![0; 64 << 10], 0);
    while seen < LARGE {
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "the request broke off after {seen} bytes");
        seen += buffer[..read].iter().filter(|&&byte| byte == b'x').count();
    }
}

#[tokio::test]
async fn refusal_before_the_request_is_sent_reaches_the_client() {
    let (address, mut upstream) = by_hand(|mut stream| async move {
        let mut some = [0; 1000];
        stream.read_exact(&mut some).await.unwrap();
        let refusal = "HTTP/1.1 413 Large\r\nconnection: close\r\ncontent-length: 31\r\n\r\n\
            {\"error\":{\"message\":\"too much\"}}";
        stream.write_all(refusal.as_bytes()).await.unwrap();
        // Closing the connection now would reset it and discard the response.
        tokio::time::sleep(Duration::from_millis(100)).await;
    })
    .await;
    let mut setup = Setup::new(address);
    setup.limits.max_body = 2 * LARGE;
    let proxy = setup.start().await;
    let reply = Client::new().send(chat_request(&proxy, large())).await.unwrap();
    assert_eq!(reply.status(), 413);
    assert!(reply.rest().await.contains("too much"));
    upstream.join_next().await.unwrap().unwrap();
}

/// An upstream may begin its response while it is still reading the request, which must then be sent completely.
#[tokio::test]
async fn response_that_begins_early_does_not_cut_off_the_request() {
    let (address, mut upstream) = by_hand(|mut stream| async move {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let first = text("hello");
        stream.write_all(format!("{head}{:x}\r\n{first}\r\n", first.len()).as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        read_large(&mut stream).await;
        stream.write_all(format!("{:x}\r\n{END}\r\n0\r\n\r\n", END.len()).as_bytes()).await.unwrap();
        // The connection is still open, and the next request arrives on it.
        let mut next = vec![0; 5];
        soon("the next request", read_past(&mut stream, &mut next)).await;
        assert_eq!(next, b"POST ");
    })
    .await;
    let mut setup = Setup::new(address);
    setup.limits.max_body = 2 * LARGE;
    let proxy = setup.start().await;
    let reply = Client::new().send(chat_request(&proxy, large())).await.unwrap();
    let body = reply.rest().await;
    assert!(body.contains("hello") && body.ends_with("data: [DONE]\n\n"), "{body}");
    let client = Client::new();
    tokio::select! {
        _ = client.send(chat_request(&proxy, STREAM)) => panic!("nobody has answered"),
        ended = upstream.join_next() => ended.unwrap().unwrap(),
    }
}

/// Skips the remainder of the first request and reads the beginning of the second one.
async fn read_past(stream: &mut TcpStream, next: &mut [u8]) {
    loop {
        stream.read_exact(&mut next[..1]).await.unwrap();
        if next[0] == b'P' {
            break;
        }
    }
    stream.read_exact(&mut next[1..]).await.unwrap();
}

/// Returns the head of the request that an upstream gets if its address is configured like this.
async fn head_for(listen: &str, base: &str, host: Option<&'static str>) -> String {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = heads.clone();
    let upstream = Upstream::start_at(listen, move |exchange: Exchange| {
        let seen = seen.clone();
        async move {
            seen.lock().await.push(exchange.head.clone());
            at_once(exchange).await
        }
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    let port = upstream.address.port().to_string();
    setup.upstream.base_url = base.replace("PORT", &port).parse().unwrap();
    if let Some(host) = host {
        setup.upstream.headers.insert("host", HeaderValue::from_static(host));
    }
    let proxy = setup.start().await;
    asked(&proxy, 2).await;
    assert_eq!(upstream.connections(), 1);
    let head = heads.lock().await[1].replace(&port, "PORT");
    assert_eq!(head.matches("\r\nhost:").count(), 1, "{head}");
    assert_eq!(head.matches("\r\ncontent-length:").count(), 1, "{head}");
    head
}

#[tokio::test]
async fn host_sent_upstream_follows_the_configured_address() {
    const V4: &str = "127.0.0.1:0";
    for (listen, base, host, line, named) in [
        (V4, "http://127.0.0.1:PORT/base", None, "/base/chat/completions", "127.0.0.1:PORT"),
        (V4, "http://127.0.0.1:PORT", None, "/chat/completions", "127.0.0.1:PORT"),
        (
            V4,
            "http://127.0.0.1:PORT/base",
            Some("models.example"),
            "/base/chat/completions",
            "models.example",
        ),
        (V4, "http://me:secret@127.0.0.1:PORT/base", None, "/base/chat/completions", "127.0.0.1:PORT"),
        ("[::1]:0", "http://[::1]:PORT/base/", None, "/base/chat/completions", "[::1]:PORT"),
    ] {
        let head = head_for(listen, base, host).await;
        assert!(head.starts_with(&format!("post {line} http/1.1\r\n")), "{base}: {head}");
        assert!(head.contains(&format!("\r\nhost: {named}\r\n")), "{base}: {head}");
        assert!(!head.contains("secret"), "{head}");
    }
}

#[tokio::test]
async fn header_value_of_the_upstream_cannot_split_the_response() {
    for value in ["1\rset-cookie: a=b", "1\tset-cookie: a=b", "\u{e9}", "1\n set-cookie: a=b"] {
        let upstream = Upstream::start(move |mut exchange| async move {
            exchange.whole("429 Too Many", &format!("retry-after: {value}\r\n"), "{}").await;
            exchange
        })
        .await;
        let proxy = Setup::new(upstream.address).start().await;
        let reply = Client::new().chat(&proxy, STREAM).await;
        assert!(reply.status().as_u16() >= 400);
        assert_eq!(reply.header("set-cookie"), None);
    }
}

//! Tests upstreams with private TLS certificates, and upstreams behind HTTP proxies.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use crate::support::{
    client::{Client, STREAM},
    proxy::{Proxy, Setup, upstream_with},
    tls::{Authority, Files},
    upstream::{Exchange, Upstream, answer, at_once},
};

/// A listener that stops when it is dropped.
struct Listening {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Listening {
    async fn start<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                open.spawn(serve(stream));
            }
        });
        Self { address, _tasks: tasks }
    }

    /// Starts a TLS listener in front of `upstream`. If `clients` is given, it requires client certificates from
    /// that authority.
    async fn tls(upstream: &Upstream, authority: &Authority, clients: Option<&Authority>) -> Self {
        let (config, to) = (Arc::new(authority.server(clients)), upstream.address);
        Self::start(move |stream| {
            let accepting = TlsAcceptor::from(config.clone()).accept(stream);
            async move {
                let Ok(mut stream) = accepting.await else { return };
                let mut upstream = TcpStream::connect(to).await.unwrap();
                let _ = copy_bidirectional(&mut stream, &mut upstream).await;
            }
        })
        .await
    }
}

/// An HTTP proxy's answer to a CONNECT request.
#[derive(Debug, Clone)]
enum Answer {
    /// Opens a tunnel to this address after sending this head.
    Tunnel(SocketAddr, &'static str),
    /// Sends this head and then nothing.
    Head(String),
    Silence,
}

/// A stand-in for an HTTP proxy, and the heads of the requests that it has received.
struct ProxyDouble {
    listening: Listening,
    heads: Arc<Mutex<Vec<String>>>,
}

impl ProxyDouble {
    async fn start(answer: Answer) -> Self {
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let seen = heads.clone();
        let listening = Listening::start(move |mut stream| {
            let (seen, answer) = (seen.clone(), answer.clone());
            async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                seen.lock().unwrap().push(String::from_utf8(head).unwrap());
                match answer {
                    Answer::Tunnel(to, head) => {
                        stream.write_all(head.as_bytes()).await.unwrap();
                        let mut upstream = TcpStream::connect(to).await.unwrap();
                        let _ = copy_bidirectional(&mut stream, &mut upstream).await;
                    }
                    Answer::Head(head) => {
                        let _ = stream.write_all(head.as_bytes()).await;
                        let _ = stream.read_to_end(&mut Vec::new()).await;
                    }
                    Answer::Silence => {
                        let _ = stream.read_to_end(&mut Vec::new()).await;
                    }
                }
            }
        })
        .await;
        Self { listening, heads }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

async fn proxy_to(keys: &str) -> Proxy {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    Setup { upstream: upstream_with(keys), ..Setup::new(nowhere) }.start().await
}

async fn ask(proxy: &Proxy) -> (u16, String) {
    let reply = Client::new().chat(proxy, STREAM).await;
    (reply.status().as_u16(), reply.rest().await)
}

#[tokio::test]
async fn upstream_is_trusted_by_its_own_authority() {
    let upstream = Upstream::start(at_once).await;
    let (authority, other) = (Authority::new(), Authority::new());
    let server = Listening::tls(&upstream, &authority, None).await;
    let files = Files::new(&authority.sign());
    let base = format!("base_url = \"https://{}\"", server.address);
    for (ca, is_trusted) in [(Some(&authority), true), (Some(&other), false), (None, false)] {
        let tls = ca.map(|ca| format!("[upstreams.tls]\nca = \"{}\"", files.put("ca.pem", &ca.pem)));
        let proxy = proxy_to(&format!("{base}\n{}", tls.unwrap_or_default())).await;
        let (status, body) = ask(&proxy).await;
        assert_eq!(status, if is_trusted { 200 } else { 502 }, "{body}");
        assert_eq!(body.contains("hello"), is_trusted);
        assert_eq!(body.contains("invalid peer certificate"), !is_trusted, "{body}");
    }
    assert_eq!(upstream.requests(), 1);
}

#[tokio::test]
async fn upstream_gets_the_configured_certificate() {
    let upstream = Upstream::start(at_once).await;
    let (authority, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    let server = Listening::tls(&upstream, &authority, Some(&clients)).await;
    let files = Files::new(&authority.sign());
    let ca = files.put("ca.pem", &authority.pem);
    for (signer, is_served) in [(Some(&clients), true), (Some(&strangers), false), (None, false)] {
        let own = signer.map(|signer| {
            let own = signer.sign();
            let (cert, key) = (files.put("own.pem", &own.cert), files.put("own-key.pem", &own.key));
            format!("client_cert = \"{cert}\"\nclient_key = \"file:{key}\"")
        });
        let own = own.unwrap_or_default();
        let proxy = proxy_to(&format!(
            "base_url = \"https://{}\"\n[upstreams.tls]\nca = \"{ca}\"\n{own}",
            server.address
        ))
        .await;
        let (status, body) = ask(&proxy).await;
        assert_eq!(status == 200, is_served, "{body}");
    }
}

/// An HTTP proxy between toolwire and a TLS upstream whose name only the HTTP proxy can resolve.
async fn tunnelled(
    answer: impl FnOnce(SocketAddr) -> Answer,
    more: &str,
) -> (ProxyDouble, (u16, String), Upstream) {
    let upstream = Upstream::start(at_once).await;
    let authority = Authority::new();
    let server = Listening::tls(&upstream, &authority, None).await;
    let double = ProxyDouble::start(answer(server.address)).await;
    let files = Files::new(&authority.sign());
    let ca = files.put("ca.pem", &authority.pem);
    let url = format!("http://us%20er:p%40ss@{}", double.listening.address);
    let keys = format!(
        "base_url = \"https://up.example/v1\"\nproxy = \"{url}\"\n{more}\n[upstreams.tls]\nca = \"{ca}\""
    );
    let proxy = proxy_to(&keys).await;
    let first = ask(&proxy).await;
    if first.0 == 200 {
        assert_eq!(ask(&proxy).await, first);
    }
    (double, first, upstream)
}

#[tokio::test]
async fn tunnel_is_opened_once_for_a_connection() {
    let established = "HTTP/1.1 200 Connection established\r\nVia: 1.1 proxy\r\n\r\n";
    let (double, (status, body), upstream) = tunnelled(|to| Answer::Tunnel(to, established), "").await;
    assert_eq!((status, body.contains("hello")), (200, true));
    assert_eq!((upstream.requests(), upstream.connections()), (2, 1));
    let heads = double.heads();
    assert_eq!(heads.len(), 1);
    assert!(heads[0].starts_with("CONNECT up.example:443 HTTP/1.1\r\nHost: up.example:443\r\n"), "{heads:?}");
    assert!(heads[0].contains("\r\nProxy-Authorization: Basic dXMgZXI6cEBzcw==\r\n"), "{heads:?}");
}

#[tokio::test]
async fn proxy_that_opens_no_tunnel_is_an_error() {
    let head = |head: &str| Answer::Head(head.to_owned());
    let (many, long) = ("x-header: y\r\n".repeat(10 << 16), "y".repeat(10 << 20));
    for (answer, status, words) in [
        (head("HTTP/1.1 403 Forbidden\r\n\r\n"), 502, "refused the tunnel with status 403 Forbidden"),
        (head("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"), 502, "answered CONNECT with 407"),
        (head("HTTP/1.1 302 Found\r\nlocation: http://x/\r\n\r\n"), 502, "status 302 Found"),
        (head("SSH-2.0-OpenSSH\r\n\r\n"), 502, "not HTTP"),
        (head(&format!("HTTP/1.1 200 OK\r\n{many}")), 502, "not HTTP"),
        (head(&format!("HTTP/1.1 200 OK\r\nx-header: {long}")), 502, "too long"),
        (Answer::Silence, 504, "connection"),
    ] {
        let (double, (got, body), upstream) = tunnelled(|_| answer, "connect_timeout = \"2s\"").await;
        assert_eq!(got, status, "{body}");
        assert!(body.contains(words), "{body}");
        assert!(!body.contains("dXMg") && !body.contains("p%40ss") && !body.contains("p@ss"), "{body}");
        assert_eq!(upstream.requests(), 0);
        assert_eq!(double.heads().len(), 1);
    }
}

#[tokio::test]
async fn plain_requests_are_forwarded_by_the_proxy() {
    let heads = Arc::<Mutex<Vec<String>>>::default();
    let script = |mut exchange: Exchange, heads: Arc<Mutex<Vec<String>>>| async move {
        heads.lock().unwrap().push(exchange.head.clone());
        if exchange.head.starts_with("get ") {
            let models = r#"{"object":"list","data":[{"id":"theirs","object":"model"}]}"#;
            exchange.whole("200 OK", "content-type: application/json\r\n", models).await;
        } else {
            exchange.whole("200 OK", "content-type: text/event-stream\r\n", &answer()).await;
        }
        exchange
    };
    let double = Upstream::start_sharing(heads.clone(), script).await;
    let keys =
        format!("base_url = \"http://up.example:81/v1\"\nproxy = \"http://user:pass@{}\"", double.address);
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    let proxy = Setup { upstream: upstream_with(&keys), wildcard: true, ..Setup::new(nowhere) }.start().await;
    assert_eq!(ask(&proxy).await.0, 200);
    assert!(Client::new().get(&proxy, "/v1/models").await.rest().await.contains("theirs"));
    let heads = heads.lock().unwrap().clone();
    for (head, line) in heads.iter().zip([
        "post http://up.example:81/v1/chat/completions http/1.1\r\n",
        "get http://up.example:81/v1/models http/1.1\r\n",
    ]) {
        assert!(head.starts_with(line), "{head}");
        assert!(head.contains("\r\nhost: up.example:81\r\n"), "{head}");
        assert!(head.contains("\r\nproxy-authorization: basic dxnlcjpwyxnz\r\n"), "{head}");
    }
    assert_eq!(heads.len(), 2);
}

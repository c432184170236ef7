//! A scripted upstream on real sockets. It writes HTTP/1.1 by hand, so that it can break any rule.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinSet,
};

/// Writes one chunk of a chat stream as an event.
pub(crate) fn text(text: &str) -> String {
    format!(
        "data: {{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"up\",\
         \"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n"
    )
}

/// The chunk with the finish reason, and the end marker.
pub(crate) const END: &str = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"up\",\
    \"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// The events of a short, complete response.
pub(crate) fn answer() -> String {
    text("hello") + END
}

/// Sends a short response with a content length at once, and keeps the connection.
pub(crate) async fn at_once(mut exchange: Exchange) -> Exchange {
    exchange.whole("200 OK", "content-type: text/event-stream\r\n", &answer()).await;
    exchange
}

/// An upstream that sends some text, and the remainder of its response once it is notified.
pub(crate) async fn held(go_on: &Arc<Notify>) -> Upstream {
    Upstream::start_sharing(Arc::clone(go_on), |mut exchange, go_on| async move {
        exchange.begin().await;
        exchange.piece(text("first")).await;
        go_on.notified().await;
        exchange.finished().await
    })
    .await
}

/// Like [`held`], but only the first response on a connection waits.
pub(crate) async fn held_once() -> (Upstream, Arc<Notify>) {
    let go_on = Arc::new(Notify::new());
    let upstream = Upstream::start_sharing(Arc::clone(&go_on), |mut exchange, go_on| async move {
        if exchange.earlier > 0 {
            return at_once(exchange).await;
        }
        exchange.begin().await;
        exchange.piece(text("first")).await;
        go_on.notified().await;
        exchange.finished().await
    })
    .await;
    (upstream, go_on)
}

/// A server that runs a script for each request.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Upstream {
    /// Runs `script` for every request. The connection is kept for another request if the script has completed the
    /// response (with [`Exchange::end`] or [`Exchange::whole`]), and closed otherwise.
    pub(crate) async fn start<F, S>(script: S) -> Self
    where
        S: Fn(Exchange) -> F + Clone + Send + 'static,
        F: Future<Output = Exchange> + Send + 'static,
    {
        Self::start_at("127.0.0.1:0", script).await
    }

    /// Like [`Upstream::start`], but each run of the script gets a clone of `shared`.
    pub(crate) async fn start_sharing<T, F, S>(shared: T, script: S) -> Self
    where
        T: Clone + Send + 'static,
        S: Fn(Exchange, T) -> F + Clone + Send + 'static,
        F: Future<Output = Exchange> + Send + 'static,
    {
        Self::start(move |exchange| script(exchange, shared.clone())).await
    }

    /// Like [`Upstream::start`], but listens on `address`.
    pub(crate) async fn start_at<F, S>(address: &str, script: S) -> Self
    where
        S: Fn(Exchange) -> F + Clone + Send + 'static,
        F: Future<Output = Exchange> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let requests = Arc::new(AtomicUsize::new(0));
        let (seen_connections, seen_requests) = (connections.clone(), requests.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                seen_connections.fetch_add(1, Ordering::SeqCst);
                let (script, seen_requests) = (script.clone(), seen_requests.clone());
                open.spawn(async move {
                    let mut stream = Some(stream);
                    for earlier in 0.. {
                        let Some(open) = stream.take() else { return };
                        let Some(exchange) = Exchange::read(open, earlier).await else { return };
                        seen_requests.fetch_add(1, Ordering::SeqCst);
                        let exchange = script(exchange).await;
                        stream = exchange.ended.then_some(exchange.stream);
                    }
                });
            }
        });
        Self { address, connections, requests, _tasks: tasks }
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

pub(crate) struct Exchange {
    stream: TcpStream,
    /// The request line and the headers, in lower case.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// How many requests preceded this one on the connection.
    pub(crate) earlier: usize,
    ended: bool,
}

impl Exchange {
    async fn read(mut stream: TcpStream, earlier: usize) -> Option<Self> {
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if stream.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
        };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
        let mut body = bytes.split_off(end);
        while body.len() < length {
            if stream.read_buf(&mut body).await.ok()? == 0 {
                return None;
            }
        }
        Some(Self { stream, head, body, earlier, ended: false })
    }

    /// Returns the value of a request header. `name` must be in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(key, _)| *key == name).map(|(_, value)| value.trim())
    }

    /// Writes raw bytes. Returns `false` if the client has disconnected, which is not an error here.
    pub(crate) async fn raw(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).await.is_ok()
    }

    pub(crate) async fn begin(&mut self) {
        self.raw("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            .await;
    }

    /// Sends a piece of the stream as one HTTP chunk.
    pub(crate) async fn piece(&mut self, piece: impl AsRef<[u8]>) -> bool {
        let piece = piece.as_ref();
        let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
        chunk.extend_from_slice(piece);
        chunk.extend_from_slice(b"\r\n");
        self.raw(chunk).await
    }

    pub(crate) async fn stream(mut self, events: impl AsRef<[u8]>) -> Self {
        self.begin().await;
        self.piece(events).await;
        self.end().await;
        self
    }

    /// Sends nothing, and waits until the peer closes the connection.
    pub(crate) async fn silent(mut self) -> Self {
        self.gone().await;
        self
    }

    /// Sends the finish reason, the end marker and the end of the body.
    pub(crate) async fn finished(mut self) -> Self {
        self.piece(END).await;
        self.end().await;
        self
    }

    /// Ends the body, so that the connection can be reused.
    pub(crate) async fn end(&mut self) {
        self.raw("0\r\n\r\n").await;
        self.ended = true;
    }

    pub(crate) async fn whole(&mut self, status: &str, headers: &str, body: &str) {
        self.raw(format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())).await;
        self.ended = true;
    }

    /// Allows reuse of the connection after the script has written a complete response by itself.
    pub(crate) fn keep(&mut self) {
        self.ended = true;
    }

    pub(crate) async fn gone(&mut self) {
        let mut rest = [0; 64];
        while matches!(self.stream.read(&mut rest).await, Ok(1..)) {}
    }

    pub(crate) async fn close(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    pub(crate) fn reset(&mut self) {
        self.stream.set_zero_linger().unwrap();
    }
}

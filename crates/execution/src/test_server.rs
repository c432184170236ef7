//! A server for tests of HTTP requests.

use parking_lot::Mutex;
use std::{net::SocketAddr, sync::Arc};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// Sends one response per connection, in order, and repeats the last one. `PORT` in a response is replaced with the
/// server's port.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Server {
    pub(super) async fn start(responses: &[&str]) -> Self {
        Self::start_after("", responses).await
    }

    /// A proxy that also acts as the target server. On each connection, the first request is answered with
    /// `established`, and the second with the response.
    pub(super) async fn start_tunnels(established: &str, response: &str) -> Self {
        Self::start_after(established, &[response]).await
    }

    /// Answers the first request on each connection with `established`, unless that is empty.
    async fn start_after(established: &str, responses: &[&str]) -> Self {
        let established = established.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let own = |text: &&str| text.replace("PORT", &address.port().to_string());
        let responses: Vec<_> = responses.iter().map(own).collect();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, mut tasks) = (Arc::clone(&requests), JoinSet::new());
        tasks.spawn(async move {
            for turn in 0.. {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = read(&mut stream).await;
                if !established.is_empty() {
                    seen.lock().push(request);
                    stream.write_all(established.as_bytes()).await.unwrap();
                    request = read(&mut stream).await;
                }
                seen.lock().push(request);
                let response = responses.get(turn).or(responses.last()).unwrap();
                // The client may have closed the connection.
                let _ = stream.write_all(response.as_bytes()).await;
            }
        });
        Self { address, requests, _tasks: tasks }
    }

    /// A URL of this server that uses the host name `host`.
    pub(super) fn url(&self, host: &str) -> String {
        format!("http://{host}:{}/start", self.address.port())
    }

    /// The requests so far, with header names in lower case.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }
}

async fn read(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let length = stream.read(&mut piece).await.unwrap();
        request.extend_from_slice(&piece[..length]);
        let text = String::from_utf8(request.clone()).unwrap();
        if length == 0 {
            return text;
        }
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let line = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= line.map_or(0, |length| length.parse().unwrap()) {
                return format!("{head}\r\n\r\n{body}");
            }
        }
    }
}

pub(super) fn response(status: &str, fields: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

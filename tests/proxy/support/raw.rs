//! A client that writes raw bytes and reads raw responses.

use std::time::Duration;

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

use super::{proxy::Proxy, soon};

pub(crate) struct Raw<S = TcpStream> {
    stream: S,
    unread: Vec<u8>,
}

pub(crate) struct RawResponse {
    pub(crate) status: u16,
    /// The status line and the headers, in lower case.
    head: String,
    pub(crate) body: String,
}

impl RawResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }

    /// Whether this is a complete stream, with its end marker.
    pub(crate) fn is_stream(&self) -> bool {
        self.status == 200 && self.body.ends_with("data: [DONE]\n\n")
    }
}

/// Writes a POST to the chat endpoint with additional header lines.
pub(crate) fn post(body: &str, headers: &str) -> String {
    let length = body.len();
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")
}

impl Raw {
    pub(crate) async fn connect(proxy: &Proxy) -> Self {
        let stream = TcpStream::connect(proxy.addresses[0]).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, unread: Vec::new() }
    }

    /// Connects with a small receive buffer.
    pub(crate) async fn connect_narrow(proxy: &Proxy) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        Self { stream: socket.connect(proxy.addresses[0]).await.unwrap(), unread: Vec::new() }
    }

    pub(crate) fn has_data(&mut self) -> bool {
        self.stream.try_read_buf(&mut self.unread).is_ok_and(|read| read > 0)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Raw<S> {
    pub(crate) fn on(stream: S) -> Self {
        Self { stream, unread: Vec::new() }
    }

    pub(crate) fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        soon("to be read", self.stream.write_all(bytes.as_ref())).await.unwrap();
        // The TLS session may have accepted more bytes than the socket.
        soon("to be read", self.stream.flush()).await.unwrap();
    }

    /// Sends `bytes`. Returns `false` if the connection is closed.
    pub(crate) async fn send_lossy(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        soon("to be read", self.stream.write_all(bytes.as_ref())).await.is_ok()
    }

    pub(crate) async fn send_pieces<'b>(&mut self, pieces: impl IntoIterator<Item = &'b [u8]>) {
        for piece in pieces {
            self.send(piece).await;
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn half_close(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Reads more bytes. Returns `false` if the connection is closed.
    async fn more(&mut self) -> bool {
        soon("a response", self.stream.read_buf(&mut self.unread)).await.unwrap_or(0) > 0
    }

    /// Reads up to and including `mark`.
    pub(crate) async fn until(&mut self, mark: &str) -> String {
        loop {
            let at = self.unread.windows(mark.len()).position(|window| window == mark.as_bytes());
            if let Some(at) = at {
                return self.take(at + mark.len());
            }
            assert!(
                self.more().await,
                "closed before {mark:?}: {:?}",
                self.unread.escape_ascii().to_string()
            );
        }
    }

    fn take(&mut self, length: usize) -> String {
        let rest = self.unread.split_off(length);
        String::from_utf8(std::mem::replace(&mut self.unread, rest)).unwrap()
    }

    /// Reads `length` bytes in steps of `piece` bytes, with a pause after each step.
    pub(crate) async fn read_slowly(&mut self, length: usize, piece: usize, pause: Duration) {
        let mut read = 0;
        while read < length {
            let until = (read + piece).min(length);
            while self.unread.len() < until {
                assert!(self.more().await, "closed after {} bytes", self.unread.len());
            }
            read = until;
            tokio::time::sleep(pause).await;
        }
    }

    async fn exactly(&mut self, length: usize) -> String {
        while self.unread.len() < length {
            assert!(self.more().await, "closed inside a body");
        }
        self.take(length)
    }

    /// Reads the next response. Panics if its framing is not exact.
    pub(crate) async fn response(&mut self) -> RawResponse {
        let head = self.until("\r\n\r\n").await.to_ascii_lowercase();
        self.body_of(head).await
    }

    /// Reads the next response, which answers a HEAD request.
    pub(crate) async fn response_without_body(&mut self) -> RawResponse {
        let head = self.until("\r\n\r\n").await.to_ascii_lowercase();
        RawResponse { status: status(&head), head, body: String::new() }
    }

    async fn body_of(&mut self, head: String) -> RawResponse {
        let body = match (field(&head, "content-length"), field(&head, "transfer-encoding")) {
            (Some(length), None) => self.exactly(length.parse().unwrap()).await,
            (None, Some("chunked")) => self.chunks().await,
            (None, None) if status(&head) == 204 => String::new(),
            (None, None) => self.rest().await,
            both => panic!("framed twice: {both:?}"),
        };
        RawResponse { status: status(&head), head, body }
    }

    async fn chunks(&mut self) -> String {
        let mut body = String::new();
        loop {
            let line = self.until("\r\n").await;
            let size = usize::from_str_radix(line.trim_end(), 16).unwrap_or_else(|_| panic!("{line:?}"));
            body += &self.exactly(size).await;
            assert_eq!(self.exactly(2).await, "\r\n");
            if size == 0 {
                return body;
            }
        }
    }

    pub(crate) async fn rest(&mut self) -> String {
        while self.more().await {}
        self.take(self.unread.len())
    }

    /// Reads up to the end of a line or of the connection, and escapes what is not text.
    pub(crate) async fn rest_lossy(&mut self) -> String {
        while self.more().await && !self.unread.ends_with(b"\n") {}
        self.unread.escape_ascii().to_string()
    }

    /// Asserts that the connection is closed without further bytes.
    pub(crate) async fn closed(&mut self) {
        assert_eq!(self.rest().await, "");
    }

    /// Reads until the connection is closed. Has no timeout, which a paused clock would trigger.
    pub(crate) async fn rest_without_timeout(&mut self) {
        while self.stream.read_buf(&mut self.unread).await.unwrap_or(0) > 0 {}
    }

    /// Like [`Raw::closed`], but without a timeout, which a paused clock would trigger.
    pub(crate) async fn closed_without_timeout(&mut self) {
        assert_eq!(self.stream.read_buf(&mut self.unread).await.unwrap_or(0), 0, "{:?}", self.unread);
    }
}

fn status(head: &str) -> u16 {
    let status = head.strip_prefix("http/1.1 ").and_then(|rest| rest.get(..3));
    status.and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{head:?}"))
}

fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(key, _)| *key == name).map(|(_, value)| value.trim())
}

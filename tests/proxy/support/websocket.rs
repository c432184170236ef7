//! A WebSocket client that shares no code with the server, and can violate the protocol.

use base64::{Engine, prelude::BASE64_STANDARD};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

use super::{
    proxy::Proxy,
    raw::{Raw, RawResponse},
    soon,
};

/// The head of a handshake with additional header lines.
pub(crate) fn handshake(path: &str, headers: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: {KEY}\r\n{headers}\r\n"
    )
}

const KEY: &str = "AAECAwQFBgcICQoLDA0ODw==";

/// Returns the response to a handshake that is refused.
pub(crate) async fn refused(proxy: &Proxy, head: &str) -> RawResponse {
    let mut client = Raw::connect(proxy).await;
    client.send(head).await;
    client.response().await
}

/// What the server has sent.
#[derive(Debug, PartialEq)]
pub(crate) enum Received {
    Text(String),
    Ping,
    Pong(Vec<u8>),
    /// The code, and the end of the connection.
    Close(u16),
    /// The connection has ended without a close.
    Gone,
}

pub(crate) struct WebSocket {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl WebSocket {
    pub(crate) async fn connect(proxy: &Proxy, headers: &str) -> Self {
        let stream = TcpStream::connect(proxy.addresses[0]).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self::open(stream, headers).await
    }

    /// Connects with a small receive buffer.
    pub(crate) async fn connect_narrow(proxy: &Proxy) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        Self::open(socket.connect(proxy.addresses[0]).await.unwrap(), "").await
    }

    async fn open(stream: TcpStream, headers: &str) -> Self {
        let mut socket = Self { stream, unread: Vec::new() };
        socket.raw(handshake("/v1/responses", headers)).await;
        let end = loop {
            if let Some(at) = socket.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(socket.more().await, "closed during the handshake");
        };
        let rest = socket.unread.split_off(end);
        let head = String::from_utf8(std::mem::replace(&mut socket.unread, rest)).unwrap();
        let guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
        let accept =
            BASE64_STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, [KEY, guid].concat().as_bytes()));
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        for line in [
            format!("sec-websocket-accept: {accept}"),
            "upgrade: websocket".into(),
            "connection: Upgrade".into(),
        ] {
            assert!(head.contains(&format!("\r\n{line}\r\n")), "{line}: {head}");
        }
        assert!(head.contains("\r\nx-request-id: req_"), "{head}");
        socket
    }

    pub(crate) async fn raw(&mut self, bytes: impl AsRef<[u8]>) {
        soon("to be read", self.stream.write_all(bytes.as_ref())).await.unwrap();
    }

    /// Like [`WebSocket::raw`], but returns `false` if the connection is closed.
    pub(crate) async fn raw_lossy(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        soon("to be read", self.stream.write_all(bytes.as_ref())).await.is_ok()
    }

    pub(crate) async fn text(&mut self, text: &str) {
        self.raw(frame(0x81, text.as_bytes())).await;
    }

    /// Sends `response.create` for the model `m` with these members.
    pub(crate) async fn create(&mut self, members: Value) {
        self.text(&create(members)).await;
    }

    async fn more(&mut self) -> bool {
        soon("a message", self.stream.read_buf(&mut self.unread)).await.unwrap_or(0) > 0
    }

    async fn exactly(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.unread.len() < length {
            if !self.more().await {
                return None;
            }
        }
        let rest = self.unread.split_off(length);
        Some(std::mem::replace(&mut self.unread, rest))
    }

    /// Returns the next frame: its first byte and its payload.
    async fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let head = self.exactly(2).await?;
        assert_eq!(head[1] & 0x80, 0, "servers do not mask");
        let length = match head[1] {
            126 => self.exactly(2).await?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)),
            127 => self.exactly(8).await?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)),
            length => usize::from(length),
        };
        Some((head[0], self.exactly(length).await?))
    }

    pub(crate) async fn next(&mut self) -> Received {
        let mut message = Vec::new();
        loop {
            let Some((first, payload)) = self.frame().await else { return Received::Gone };
            match first & 0x0f {
                0x0 | 0x1 => {
                    message.extend(payload);
                    if first & 0x80 != 0 {
                        return Received::Text(String::from_utf8(message).unwrap());
                    }
                }
                0x8 if payload.is_empty() => return Received::Close(1005),
                0x8 => return Received::Close(u16::from_be_bytes([payload[0], payload[1]])),
                0x9 => return Received::Ping,
                0xa => return Received::Pong(payload),
                other => panic!("opcode {other}"),
            }
        }
    }

    /// Returns the next event.
    pub(crate) async fn event(&mut self) -> Value {
        match self.next().await {
            Received::Text(text) => serde_json::from_str(&text).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the events up to the next one of this type.
    pub(crate) async fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.event().await;
            let is_last = event["type"] == kind;
            assert!(is_last || event["type"] != "error", "{event}");
            events.push(event);
            if is_last {
                return events;
            }
        }
    }

    /// Returns the next complete response.
    pub(crate) async fn response(&mut self) -> Value {
        self.until("response.completed").await.pop().unwrap()["response"].clone()
    }

    /// Asserts that the connection is closed with this code, and then ends.
    pub(crate) async fn closed(&mut self, code: u16) {
        assert_eq!(self.next().await, Received::Close(code));
        assert_eq!(self.next().await, Received::Gone);
    }
}

/// The text of `response.create` for the model `m` with these members.
pub(crate) fn create(members: Value) -> String {
    let mut message = json!({"type": "response.create", "model": "m"});
    for (key, value) in members.as_object().unwrap() {
        message[key] = value.clone();
    }
    message.to_string()
}

/// A client's frame with this first byte.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..=125 => frame.push(0x80 | u8::try_from(length).unwrap()),
        length @ 126..=0xffff => {
            frame.push(0x80 | 126);
            frame.extend(u16::try_from(length).unwrap().to_be_bytes());
        }
        length => {
            frame.push(0x80 | 127);
            frame.extend(u64::try_from(length).unwrap().to_be_bytes());
        }
    }
    let mask = [7, 77, 177, 250];
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

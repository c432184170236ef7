//! A client that writes HTTP/2 frames by hand and parses only what the tests need.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

use super::{proxy::Proxy, soon};

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;

pub(crate) const JSON_POST: [(&str, &str); 2] =
    [(":authority", "localhost"), ("content-type", "application/json")];

/// A connection on which the preface has been sent.
pub(crate) struct Http2 {
    stream: TcpStream,
}

impl Http2 {
    /// Connects with the largest flow-control window and a small receive buffer.
    pub(crate) async fn connect(proxy: &Proxy) -> Self {
        const LARGEST: u32 = i32::MAX as u32;
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let stream = socket.connect(proxy.addresses[0]).await.unwrap();
        let mut client = Self { stream };
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        let window = [&[0, 4][..], &LARGEST.to_be_bytes()].concat();
        client.frame(SETTINGS, 0, 0, &window).await;
        client.frame(WINDOW_UPDATE, 0, 0, &(LARGEST - 65_535).to_be_bytes()).await;
        client
    }

    async fn send(&mut self, bytes: &[u8]) {
        soon("to be read", self.stream.write_all(bytes)).await.unwrap();
    }

    async fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.send(&frame(kind, flags, stream, payload)).await;
    }

    /// Sends the head of a request with additional `fields`. In `flags`, 4 ends the head and 1 ends the request.
    pub(crate) async fn request(
        &mut self,
        stream: u32,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        flags: u8,
    ) {
        self.frame(HEADERS, flags, stream, &head(method, path, fields)).await;
    }

    /// Sends a POST, and then a window that is larger than allowed, for which the server must reset the stream
    /// (RFC 9113, section 6.9.1). Returns `false` if the connection is closed.
    pub(crate) async fn post_to_be_reset(
        &mut self,
        stream: u32,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> bool {
        // If nobody reads, the server cannot write that it resets a stream.
        while self.stream.try_read(&mut [0; 4096]).is_ok_and(|read| read > 0) {}
        let frames = [
            frame(HEADERS, 4, stream, &head("POST", path, fields)),
            frame(0, 1, stream, body),
            frame(WINDOW_UPDATE, 0, stream, &0x7fff_ffff_u32.to_be_bytes()),
        ];
        soon("to be read", self.stream.write_all(&frames.concat())).await.is_ok()
    }

    pub(crate) async fn data(&mut self, stream: u32, data: &[u8], flags: u8) {
        self.frame(0, flags, stream, data).await;
    }

    pub(crate) async fn ping(&mut self) -> bool {
        let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        soon("a ping to be read", self.stream.write_all(&ping)).await.is_ok()
    }

    /// Reads up to the next response and returns its status.
    pub(crate) async fn status(&mut self) -> u16 {
        loop {
            let mut head = [0; 9];
            soon("a frame", self.stream.read_exact(&mut head)).await.unwrap();
            let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
            soon("a frame's payload", self.stream.read_exact(&mut payload)).await.unwrap();
            if head[3] == HEADERS {
                return status(&payload);
            }
        }
    }

    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let _ = soon("the end of the connection", self.stream.read_to_end(&mut rest)).await;
        rest
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn head(method: &str, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let pseudo = [(":method", method), (":path", path), (":scheme", "http")];
    let mut block = Vec::new();
    for (name, value) in pseudo.iter().chain(fields) {
        // Literal header fields without indexing (RFC 7541, section 6.2.2).
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// Parses the status at the start of a head: an entry of the static table or a Huffman-coded literal
/// (RFC 7541, section 6).
fn status(head: &[u8]) -> u16 {
    let table = [200, 204, 206, 304, 400, 404, 500];
    if (0x88..=0x8e).contains(&head[0]) {
        return table[usize::from(head[0] - 0x88)];
    }
    assert!(head[0] == 0x48 && head[1] & 0x80 != 0, "{head:x?}");
    let code = &head[2..][..usize::from(head[1] & 0x7f)];
    let bits: Vec<u16> =
        code.iter().flat_map(|byte| (0..8).rev().map(move |at| u16::from(byte >> at & 1))).collect();
    let number = |bits: &[u16]| bits.iter().fold(0, |number, bit| number << 1 | bit);
    let (mut at, mut status) = (0, 0);
    for _ in 0..3 {
        let short = number(&bits[at..at + 5]);
        let (digit, length) = if short < 3 { (short, 5) } else { (number(&bits[at..at + 6]) - 0x16, 6) };
        status = status * 10 + digit;
        at += length;
    }
    status
}

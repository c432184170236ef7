//! [`run`]: an upstream's answer on its way to a client that speaks HTTP/1.
//!
//! What an answer has at one moment leaves in one write: the chunk's size, the data, and where it is the last, the end.

use std::{
    cell::RefCell,
    future::poll_fn,
    io::{self, ErrorKind},
    pin::Pin,
    sync::atomic::Ordering,
    task::{Context, Poll},
    time::SystemTime,
};

use bytes::{Buf, Bytes, BytesMut};
use http::{header, response::Parts};
use http_body::Body as _;
use tokio::io::AsyncWrite;

use super::{flood_throttle::FloodThrottle, rewind::Rewind};
use crate::proxy::{
    answer::AnswerBody,
    drain::Drain,
    heads::{put_line, put_lines},
    reply, turn,
};

/// The end of a body in chunks.
const LAST: &[u8] = b"0\r\n\r\n";

/// How the client is told where an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Framing {
    /// By chunks, unless its length is known. Else by the end of the connection.
    chunked: bool,
    /// Another request may follow.
    keeps: bool,
}

/// Frames that leave before other connections get a turn, while there is always one more.
const TURN: usize = 8;

/// Bytes that a thread keeps for putting writes together.
const KEPT: usize = 128 << 10;

/// Header fields that hyper writes of itself, and more.
const FIELDS: usize = 8;

/// Bytes that a response's head is expected to have at most.
const HEAD: usize = 512;

/// See the module.
#[derive(Debug)]
pub(super) struct Streaming {
    client: Rewind,
    answer: Pin<Box<AnswerBody>>,
    framing: Framing,
    /// The response's head, until it leaves with the first data.
    head: Vec<u8>,
    /// What the socket has not taken yet.
    unsent: Bytes,
    /// All of the answer is sent, or in `unsent`.
    is_over: bool,
    flood_throttle: FloodThrottle,
}

thread_local! {
    /// In which a write is put together; nothing stays in it.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Framing {
    /// The framing that hyper chose in this head of a response of unknown length.
    pub(super) fn of(head: &[u8]) -> Self {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let is_read = response.parse(head).is_ok_and(|parsed| parsed.is_complete());
        let says = |name: &str, word: &[u8]| {
            let mut fields = response.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
            fields.any(|field| field.value.eq_ignore_ascii_case(word))
        };
        let chunked = is_read && says("transfer-encoding", b"chunked");
        // A body that is not in chunks may end with the connection only.
        Self { chunked, keeps: chunked && !says("connection", b"close") }
    }
}

/// Waits for `answer` and sends it. Gives the connection back, and whether another request may follow on it.
///
/// # Errors
/// If the client goes away before the end, or takes nothing for too long.
pub(super) async fn run(
    mut client: Rewind,
    mut answer: Pin<Box<AnswerBody>>,
    mut framing: Framing,
    drain: &Drain,
) -> io::Result<(Rewind, bool)> {
    let committed = poll_fn(|cx| match answer.as_mut().poll_commit(cx) {
        Poll::Ready(committed) => Poll::Ready(Ok(committed)),
        Poll::Pending => client.poll_gone(cx).map(Err),
    });
    let committed = committed.await?;
    let (mut head, answer) = reply::answer(answer, committed);
    if let Some(length) = answer.size_hint().exact() {
        framing.chunked = false;
        head.headers.insert(header::CONTENT_LENGTH, length.into());
    }
    framing.keeps &= drain.is_serving();
    let head = written(&head, framing);
    let mut streaming = Streaming {
        client,
        answer,
        framing,
        head,
        unsent: Bytes::new(),
        is_over: false,
        flood_throttle: FloodThrottle::default(),
    };
    let sent = poll_fn(|cx| streaming.poll_sent(cx)).await;
    if sent.is_err() && streaming.client.stalled().load(Ordering::Relaxed) {
        streaming.answer.as_mut().stalled();
    }
    sent.map(|()| (streaming.client, framing.keeps))
}

impl Streaming {
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        for _ in 0..TURN {
            while !self.unsent.is_empty() {
                match Pin::new(&mut self.client).poll_write(cx, &self.unsent) {
                    Poll::Ready(written) => self.unsent.advance(some(written?)?),
                    Poll::Pending => {
                        self.answer.as_mut().poll_overdue(cx);
                        return self.client.poll_gone(cx).map(Err);
                    }
                }
            }
            if self.is_over {
                return Poll::Ready(Ok(()));
            }
            if self.flood_throttle.poll_rest(cx).is_pending() {
                return self.client.poll_gone(cx).map(Err);
            }
            let data = match self.answer.as_mut().poll_some(cx) {
                Poll::Ready(true) => self.answer.as_mut().take(),
                Poll::Ready(false) => BytesMut::new(),
                Poll::Pending if self.head.is_empty() => return self.client.poll_gone(cx).map(Err),
                // A stream is begun with its first data, so that this does not come; it would do no harm.
                Poll::Pending => {
                    self.unsent = std::mem::take(&mut self.head).into();
                    continue;
                }
            };
            self.is_over = data.is_empty() || self.answer.is_end_stream();
            self.send(cx, &data)?;
            self.flood_throttle.sent();
            self.answer.as_mut().put_back(data);
        }
        turn::yield_now(cx);
        Poll::Pending
    }

    /// Sends `data`, and what belongs before and behind it, as far as the socket takes it.
    fn send(&mut self, cx: &mut Context<'_>, data: &[u8]) -> io::Result<()> {
        BUFFER.with_borrow_mut(|buffer| {
            buffer.clear();
            buffer.append(&mut self.head);
            let chunked = self.framing.chunked;
            if chunked && !data.is_empty() {
                put_hex(buffer, data.len());
                buffer.extend_from_slice(b"\r\n");
            }
            buffer.extend_from_slice(data);
            if chunked && !data.is_empty() {
                buffer.extend_from_slice(b"\r\n");
            }
            if chunked && self.is_over {
                buffer.extend_from_slice(LAST);
            }
            if !buffer.is_empty() {
                let written = match Pin::new(&mut self.client).poll_write(cx, buffer) {
                    Poll::Ready(written) => some(written?)?,
                    Poll::Pending => 0,
                };
                if let Some(unsent @ [_, ..]) = buffer.get(written..) {
                    self.unsent = Bytes::copy_from_slice(unsent);
                }
            }
            buffer.shrink_to(KEPT);
            Ok(())
        })
    }
}

fn some(written: usize) -> io::Result<usize> {
    if written == 0 { Err(ErrorKind::WriteZero.into()) } else { Ok(written) }
}

/// A chunk's size. It is written for each token, and formatting takes ten times as long.
fn put_hex(bytes: &mut Vec<u8>, number: usize) {
    let digits = (usize::BITS - number.leading_zeros()).div_ceil(4);
    for digit in (0..digits).rev() {
        bytes.extend(b"0123456789abcdef".get((number >> (4 * digit)) & 0xf));
    }
}

/// The head of a response.
fn written(head: &Parts, framing: Framing) -> Vec<u8> {
    let reason = head.status.canonical_reason().unwrap_or_default();
    let mut bytes = Vec::with_capacity(HEAD);
    for part in ["HTTP/1.1 ", head.status.as_str(), " ", reason, "\r\n"] {
        bytes.extend_from_slice(part.as_bytes());
    }
    put_lines(&mut bytes, &head.headers);
    if framing.chunked {
        put_line(&mut bytes, b"transfer-encoding", b"chunked");
    }
    if !framing.keeps {
        put_line(&mut bytes, b"connection", b"close");
    }
    put_line(&mut bytes, b"date", httpdate::fmt_http_date(SystemTime::now()).as_bytes());
    bytes.extend_from_slice(b"\r\n");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framing_follows_the_head_that_hyper_writes() {
        let framing = |lines: &str| {
            let Framing { chunked, keeps } =
                Framing::of(format!("HTTP/1.1 200 OK\r\n{lines}\r\n").as_bytes());
            (chunked, keeps)
        };
        assert_eq!(framing("transfer-encoding: chunked\r\ndate: x\r\n"), (true, true));
        assert_eq!(framing("connection: close\r\ntransfer-encoding: chunked\r\n"), (true, false));
        assert_eq!(framing("date: x\r\n"), (false, false));
        assert_eq!(framing("content-length"), (false, false));
    }

    #[test]
    fn sizes_are_written_as_hexadecimals() {
        for number in [1, 9, 10, 15, 16, 255, 256, 0xa0b, 32 << 10, usize::MAX] {
            let mut bytes = Vec::new();
            put_hex(&mut bytes, number);
            assert_eq!(String::from_utf8(bytes).unwrap(), format!("{number:x}"));
        }
    }
}

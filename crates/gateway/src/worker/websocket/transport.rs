//! [`Transport`]: reads and writes the messages of a connection.
//!
//! tungstenite reads and writes frames, and answers pings and closes. It is sans-IO: it sees the client's connection as
//! a socket that does not block. A long message is sent in several frames, so that tungstenite never buffers much more
//! than [`PIECE`].

use std::{
    collections::VecDeque,
    io::{self, ErrorKind, Read, Write},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tungstenite::{
    Error, Message, Utf8Bytes,
    error::CapacityError,
    protocol::{
        CloseFrame, Role, WebSocketConfig, WebSocketContext,
        frame::{
            Frame,
            coding::{CloseCode, Data, OpCode},
        },
    },
};

/// Number of bytes to read at once, which each connection has allocated.
const READ: usize = 4 << 10;

/// Number of bytes to buffer before they are written, and maximum size in bytes of a frame.
const PIECE: usize = 16 << 10;

/// Maximum number of bytes in the protocol's write buffer. Beyond it, only the latest ping is answered.
const BUFFER: usize = 4 * PIECE;

/// Number of bytes that wait to be sent, above which no message of the client is read.
const CROWD: usize = 256 << 10;

/// Size in bytes of a message whose buffer does not stay allocated.
const LARGE: usize = 64 << 10;

/// What the client has sent.
#[derive(Debug)]
pub(super) enum Incoming {
    Text(Utf8Bytes),
    /// A ping or a pong.
    Control,
    /// The client closes the connection. The response is sent by [`Transport::poll_flush`].
    Close,
}

/// Why nothing more can be read, or written.
#[derive(Debug)]
pub(super) enum Broken {
    /// The connection is closed or lost.
    Gone(io::Error),
    /// The client's message is larger than the limit.
    TooLarge,
    /// The client violates the protocol. The connection must be closed with this code.
    Protocol(CloseCode),
}

#[derive(Debug)]
pub(super) struct Transport<S> {
    stream: S,
    protocol: WebSocketContext,
    config: WebSocketConfig,
    /// The messages to send.
    outbox: VecDeque<Bytes>,
    /// The size of all of them in bytes.
    waiting: usize,
    /// Whether a part of the first message has been sent.
    has_begun: bool,
    /// Whether nothing is in the protocol's write buffer.
    is_flushed: bool,
    /// Number of bytes read since the last message.
    partial: usize,
    /// Number of bytes in the protocol's read buffer that belong to no message yet. Too high after fragmented messages.
    buffered: usize,
    /// Size in bytes of the largest message whose buffer may still be allocated.
    retained: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Transport<S> {
    /// Messages on `stream`, of up to `max` bytes from the client.
    pub(super) fn new(stream: S, max: usize) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ)
            .write_buffer_size(PIECE)
            .max_write_buffer_size(BUFFER)
            .max_message_size(Some(max))
            .max_frame_size(Some(max));
        let protocol = WebSocketContext::new(Role::Server, Some(config));
        let outbox = VecDeque::new();
        let (has_begun, is_flushed) = (false, true);
        let (waiting, partial, buffered, retained) = (0, 0, 0, 0);
        Self { stream, protocol, config, outbox, waiting, has_begun, is_flushed, partial, buffered, retained }
    }

    pub(super) fn into_inner(self) -> S {
        self.stream
    }

    /// Sends `text` after the messages that wait.
    pub(super) fn push(&mut self, text: String) {
        self.waiting += text.len();
        self.outbox.push_back(text.into());
    }

    /// Whether so much waits to be sent that nothing should be read.
    pub(super) fn is_crowded(&self) -> bool {
        self.waiting >= CROWD
    }

    /// Number of bytes of a message that is not complete.
    pub(super) fn partial(&self) -> usize {
        self.partial
    }

    /// Number of bytes that may stay allocated for earlier messages.
    pub(super) fn retained(&self) -> usize {
        self.retained
    }

    /// Sends a ping, unless something else waits to be sent.
    pub(super) fn ping(&mut self, cx: &mut Context<'_>) {
        if self.outbox.is_empty() && self.is_flushed {
            // An error recurs at the next flush.
            let _ = self.write(cx, Message::Ping(Bytes::new()));
        }
    }

    /// Sends everything. Ready when the socket has taken it.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        loop {
            match self.protocol.flush(&mut Polled { stream: &mut self.stream, cx, read: &mut 0 }) {
                Ok(()) => self.is_flushed = true,
                Err(error) if is_pending(&error) => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(Broken::of(error))),
            }
            if self.outbox.is_empty() {
                return Poll::Ready(Ok(()));
            }
            // The buffer is empty, so these frames fit.
            let mut buffered = 0;
            while buffered < PIECE
                && let Some(frame) = self.next_frame()
            {
                buffered += frame.len();
                if let Err(broken) = self.write(cx, Message::Frame(frame)) {
                    return Poll::Ready(Err(broken));
                }
            }
        }
    }

    /// Releases the memory of buffers that are empty.
    pub(super) fn release(&mut self) {
        if self.is_flushed && self.buffered == 0 && self.outbox.is_empty() {
            self.protocol = WebSocketContext::new(Role::Server, Some(self.config));
            self.retained = 0;
        }
    }

    /// Closes the connection. Must be called when everything has been flushed. [`Transport::poll_flush`] sends the close.
    pub(super) fn close(&mut self, cx: &mut Context<'_>, code: CloseCode, reason: &'static str) {
        let frame = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
        let closed =
            self.protocol.close(&mut Polled { stream: &mut self.stream, cx, read: &mut 0 }, Some(frame));
        if let Err(error) = closed {
            tracing::trace!(%error, "the close of a WebSocket waits or fails");
        }
    }

    /// Reads what the client sends next.
    pub(super) fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Incoming, Broken>> {
        let mut read = 0;
        let message = self.protocol.read(&mut Polled { stream: &mut self.stream, cx, read: &mut read });
        self.partial += read;
        self.buffered += read;
        let incoming = match message {
            Ok(Message::Text(text)) => {
                self.took(text.len());
                Incoming::Text(text)
            }
            Ok(Message::Ping(payload) | Message::Pong(payload)) => {
                let frame = payload.len() + header_length(payload.len());
                self.partial = self.partial.saturating_sub(frame);
                self.buffered = self.buffered.saturating_sub(frame);
                // The protocol has a pong to send.
                self.is_flushed = false;
                Incoming::Control
            }
            Ok(Message::Close(_)) => Incoming::Close,
            // Not in the form of messages: only text is JSON. The protocol never returns raw frames.
            Ok(Message::Binary(_) | Message::Frame(_)) => {
                return Poll::Ready(Err(Broken::Protocol(CloseCode::Unsupported)));
            }
            Err(error) if is_pending(&error) => return Poll::Pending,
            Err(error) => return Poll::Ready(Err(Broken::of(error))),
        };
        Poll::Ready(Ok(incoming))
    }

    /// Handles the end of a message of `length` bytes, to whose size the protocol's buffer has grown. Unless it contains
    /// more, its memory is released with the message.
    fn took(&mut self, length: usize) {
        self.partial = 0;
        self.buffered = self.buffered.saturating_sub(length + header_length(length));
        if length >= LARGE {
            self.retained = self.retained.max(length);
            self.release();
        }
    }

    /// The next frame to send. Long messages are split, possibly inside a character.
    fn next_frame(&mut self) -> Option<Frame> {
        let message = self.outbox.front_mut()?;
        let opcode = if self.has_begun { Data::Continue } else { Data::Text };
        let is_last = message.len() <= PIECE;
        let piece = message.split_to(message.len().min(PIECE));
        self.waiting -= piece.len();
        self.has_begun = !is_last;
        if is_last {
            self.outbox.pop_front();
        }
        Some(Frame::message(piece, OpCode::Data(opcode), is_last))
    }

    fn write(&mut self, cx: &mut Context<'_>, message: Message) -> Result<(), Broken> {
        self.is_flushed = false;
        match self.protocol.write(&mut Polled { stream: &mut self.stream, cx, read: &mut 0 }, message) {
            // The message is in the buffer.
            Err(error) if is_pending(&error) => Ok(()),
            written => written.map_err(Broken::of),
        }
    }
}

impl Broken {
    fn of(error: Error) -> Self {
        match error {
            Error::ConnectionClosed | Error::AlreadyClosed => Self::Gone(ErrorKind::ConnectionAborted.into()),
            Error::Io(error) => Self::Gone(error),
            Error::Capacity(CapacityError::MessageTooLong { .. }) => Self::TooLarge,
            Error::Utf8(_) => Self::Protocol(CloseCode::Invalid),
            Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake) => {
                Self::Gone(ErrorKind::UnexpectedEof.into())
            }
            error => {
                tracing::debug!(%error, "a WebSocket client violates the protocol");
                Self::Protocol(CloseCode::Protocol)
            }
        }
    }
}

/// Length in bytes of the header of a client's frame, in its shortest form (RFC 6455, section 5.2).
fn header_length(payload: usize) -> usize {
    const MASK: usize = 4;
    MASK + match payload {
        0..=125 => 2,
        126..=0xffff => 4,
        _ => 10,
    }
}

fn is_pending(error: &Error) -> bool {
    matches!(error, Error::Io(error) if error.kind() == ErrorKind::WouldBlock)
}

/// The client's connection as a socket that does not block. The task is woken when it is ready again.
struct Polled<'p, 'c, S> {
    stream: &'p mut S,
    cx: &'p mut Context<'c>,
    /// Counts the bytes that are read.
    read: &'p mut usize,
}

impl<S: AsyncRead + Unpin> Read for Polled<'_, '_, S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(bytes);
        match Pin::new(&mut *self.stream).poll_read(self.cx, &mut buffer) {
            Poll::Ready(Ok(())) => {
                *self.read += buffer.filled().len();
                Ok(buffer.filled().len())
            }
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Err(ErrorKind::WouldBlock.into()),
        }
    }
}

impl<S: AsyncWrite + Unpin> Write for Polled<'_, '_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        pending_is_an_error(Pin::new(&mut *self.stream).poll_write(self.cx, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        pending_is_an_error(Pin::new(&mut *self.stream).poll_flush(self.cx))
    }
}

fn pending_is_an_error<T>(polled: Poll<io::Result<T>>) -> io::Result<T> {
    match polled {
        Poll::Ready(result) => result,
        Poll::Pending => Err(ErrorKind::WouldBlock.into()),
    }
}

#[cfg(test)]
mod tests;

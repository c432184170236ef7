//! [`SocketSide`]: how a dialect serves clients over a WebSocket.
//!
//! ```text
//! client's message ─read─▶ SocketMessage: a request as over HTTP, a cancellation, …
//! event of a stream ─event─▶ server's message
//! ```
//!
//! A connection has *lanes*. Responses of one lane do not overlap, and the messages of a named lane carry its name.

use bytes::Bytes;

use crate::failure::Failure;

/// How a dialect serves its clients over a WebSocket.
pub trait SocketSide: Sync {
    /// Reads a client's message.
    ///
    /// # Errors
    /// The message is not one that clients may send.
    fn read(&self, text: &str) -> Result<SocketMessage, SocketFailure>;

    /// The message for an event of a stream with this `data`. `None` if the event only ends a stream.
    fn event(&self, data: &str, lane: Option<&str>) -> Option<String>;

    /// The complete response in an event of the type `kind`, if the response ends with this event and can be
    /// continued.
    fn response<'d>(&self, kind: &str, data: &'d str) -> Option<&'d str>;

    /// The message that stands for an HTTP response with an error.
    fn error(&self, error: &HttpError<'_>, lane: Option<&str>) -> String;
}

/// A client's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketMessage {
    /// Starts a response.
    Create(SocketCreate),
    /// Cancels the response that is running in this lane.
    Cancel(Option<String>),
    /// Needs nothing but this message in return.
    Reply(String),
}

/// A request for a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketCreate {
    /// The name of the lane. `None` is a lane as well.
    pub lane: Option<String>,
    /// The id of the response that the request continues.
    pub previous: Option<String>,
    /// Whether the model is asked. If not, the response is empty, and exists so that a later request can continue it.
    pub generates: bool,
    /// The body of the same request over HTTP, which asks for a stream.
    pub body: Bytes,
}

/// Why a message is not accepted.
#[derive(Debug, Clone)]
pub struct SocketFailure {
    /// What is wrong with the message.
    pub failure: Failure,
    /// The lane of the message, if it names one.
    pub lane: Option<String>,
}

impl From<Failure> for SocketFailure {
    fn from(failure: Failure) -> Self {
        Self { failure, lane: None }
    }
}

/// An error as an HTTP response.
#[derive(Debug, Clone, Copy)]
pub struct HttpError<'a> {
    /// The status.
    pub status: u16,
    /// The headers that the client should see.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body, from [`ClientSide::error_body`](crate::ClientSide::error_body).
    pub body: &'a [u8],
}

//! [`NoResponse`]: the reason why a request has no response, and whether it may be sent again.

use std::{error::Error, fmt, io, iter};

use h2::Reason;

use super::innermost;
use toolwire_http1::HeadError;
use toolwire_pipeline::failure::{Failure, Kind};

/// The reason why a request has no response.
#[derive(Debug)]
pub(super) enum NoResponse {
    /// The connection failed before a byte of the request was written.
    Unsent(io::Error),
    /// The connection was closed, or failed. `is_silent`: whether no byte of a response had arrived.
    Closed { error: io::Error, is_silent: bool },
    /// A response arrived on a used connection while the request was still being sent. The response is assumed to
    /// belong to an earlier exchange.
    Unsolicited,
    /// The head of the response cannot be read, or is too long.
    Head(HeadError),
    /// The exchange failed over HTTP/2. `is_unsent`: whether the request was not passed to the connection.
    Http2 { error: hyper::Error, is_unsent: bool },
}

impl NoResponse {
    /// Whether the upstream cannot have acted on the request: it was not sent completely, or the upstream says so
    /// (RFC 9113, section 8.7). Such a request may always be sent again.
    pub(super) fn is_unprocessed(&self) -> bool {
        match self {
            Self::Unsent(_) | Self::Unsolicited => true,
            Self::Closed { .. } | Self::Head(_) => false,
            Self::Http2 { error, is_unsent } => *is_unsent || h2_error(error).is_some_and(was_refused),
        }
    }

    /// Whether no byte of a response arrived; the upstream may or may not have acted on the request.
    pub(super) fn is_silent(&self) -> bool {
        match self {
            Self::Unsent(_) => true,
            Self::Closed { is_silent, .. } => *is_silent,
            Self::Unsolicited | Self::Head(_) => false,
            // Resetting the stream, or closing the connection with a reason, is a kind of response.
            Self::Http2 { error, .. } => h2_error(error).is_none_or(h2::Error::is_io),
        }
    }

    /// The failure that the client gets.
    pub(super) fn failure(&self, upstream: &str) -> Failure {
        let (kind, what) = match self {
            Self::Head(_) => (Kind::Protocol, "sent a response that is not valid HTTP"),
            Self::Unsolicited => (Kind::Protocol, "responded before it had the request"),
            Self::Unsent(_) | Self::Closed { .. } => (Kind::Connect, CLOSED),
            Self::Http2 { error, .. } => match h2_error(error) {
                _ if error.is_timeout() => (Kind::Timeout, "did not answer a ping on its connection"),
                Some(error) if was_refused(error) => (Kind::Overloaded, "refused the request"),
                Some(error) if error.is_library() => {
                    (Kind::Protocol, "sent what is not valid HTTP/2, or headers that are too long")
                }
                Some(error) if error.is_reset() => (Kind::Connect, "reset the request"),
                _ => (Kind::Connect, CLOSED),
            },
        };
        Failure::new(kind, format!("upstream `{upstream}` {what}: {self}"))
    }
}

const CLOSED: &str = "closed the connection before it responded";

impl fmt::Display for NoResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsent(error) | Self::Closed { error, .. } => error.fmt(f),
            Self::Unsolicited => f.write_str("its response began before the request was sent"),
            Self::Head(error) => error.fmt(f),
            Self::Http2 { error, .. } => write!(f, "{}", innermost(error)),
        }
    }
}

/// Whether the server says that it has not processed the stream: it refused the stream, or closed the connection before
/// processing it.
fn was_refused(error: &h2::Error) -> bool {
    let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    error.is_remote() && (is_refused || error.is_go_away())
}

fn h2_error(error: &hyper::Error) -> Option<&h2::Error> {
    let first: &(dyn Error + 'static) = error;
    iter::successors(Some(first), |&error| error.source()).find_map(|error| error.downcast_ref())
}

//! [`Unanswered`]: why a request has no answer, and whether it may be sent once more.

use std::{error::Error, fmt, io, iter};

use h2::Reason;

use super::{head::NoHttp, innermost};
use crate::failure::{Failure, Kind};

/// Why a request has no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The connection failed before a byte of the request was written.
    Unsent(io::Error),
    /// The connection closed, or failed; `silent` if not a byte of an answer had come.
    Closed { error: io::Error, silent: bool },
    /// On a connection that was used before, an answer came while the request was still being sent. It is taken for
    /// what is left of an earlier exchange.
    Unsolicited,
    /// What came is no HTTP.
    NoHttp(NoHttp),
    /// The same over HTTP/2; `unsent` if the request was not given to the connection.
    Http2 { error: hyper::Error, unsent: bool },
}

impl Unanswered {
    /// The upstream has not acted on the request, which may always be sent once more: all of it has not left, or the
    /// upstream says so (RFC 9113, section 8.7).
    pub(super) fn is_unprocessed(&self) -> bool {
        match self {
            Self::Unsent(_) | Self::Unsolicited => true,
            Self::Closed { .. } | Self::NoHttp(_) => false,
            Self::Http2 { error, unsent } => *unsent || h2_error(error).is_some_and(was_refused),
        }
    }

    /// Not a byte of an answer came. Whether the upstream has acted on the request is not known.
    pub(super) fn is_silent(&self) -> bool {
        match self {
            Self::Unsent(_) => true,
            Self::Closed { silent, .. } => *silent,
            Self::Unsolicited | Self::NoHttp(_) => false,
            // A reset stream, or a connection that ends for a reason, is an answer of a kind.
            Self::Http2 { error, .. } => h2_error(error).is_none_or(h2::Error::is_io),
        }
    }

    /// What a client is told.
    pub(super) fn failure(&self, upstream: &str) -> Failure {
        let (kind, what) = match self {
            Self::NoHttp(_) => (Kind::Protocol, "answered what is no HTTP"),
            Self::Unsolicited => (Kind::Protocol, "answered before it was asked"),
            Self::Unsent(_) | Self::Closed { .. } => (Kind::Connect, CLOSED),
            Self::Http2 { error, .. } => match h2_error(error) {
                _ if error.is_timeout() => (Kind::Timeout, "did not answer a ping on its connection"),
                Some(error) if was_refused(error) => (Kind::Overloaded, "refused the request"),
                Some(error) if error.is_library() => {
                    (Kind::Protocol, "answered what is no HTTP/2, or with headers that are too long")
                }
                Some(error) if error.is_reset() => (Kind::Connect, "reset the request"),
                _ => (Kind::Connect, CLOSED),
            },
        };
        Failure::new(kind, format!("upstream `{upstream}` {what}: {self}"))
    }
}

const CLOSED: &str = "closed the connection before it answered";

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsent(error) | Self::Closed { error, .. } => error.fmt(f),
            Self::Unsolicited => f.write_str("its answer began before the request was sent"),
            Self::NoHttp(bad) => bad.fmt(f),
            Self::Http2 { error, .. } => write!(f, "{}", innermost(error)),
        }
    }
}

/// A stream that the server says it has not looked at: refused, or beyond the last one that it still serves.
fn was_refused(error: &h2::Error) -> bool {
    let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    error.is_remote() && (is_refused || error.is_go_away())
}

fn h2_error(error: &hyper::Error) -> Option<&h2::Error> {
    let first: &(dyn Error + 'static) = error;
    iter::successors(Some(first), |&error| error.source()).find_map(|error| error.downcast_ref())
}

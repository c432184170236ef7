//! [`NoResponse`]: why a request has no response, and whether it may be sent again.

use std::{error::Error, io, iter};

use h2::Reason;

use super::innermost;
use toolwire_http1::HeadError;
use toolwire_pipeline::failure::{Failure, Kind};

#[derive(Debug, thiserror::Error)]
pub(super) enum NoResponse {
    /// The connection failed before any byte of the request was written.
    #[error("{0}")]
    Unsent(#[source] io::Error),
    /// The connection was closed or failed. `is_silent` is true if no byte of a response had arrived.
    #[error("{error}")]
    Closed {
        #[source]
        error: io::Error,
        is_silent: bool,
    },
    /// A response arrived on a reused connection while the request was still being sent. It is assumed to belong to an
    /// earlier exchange.
    #[error("its response began before the request was sent")]
    Unsolicited,
    /// The head of the response is invalid or too long.
    #[error("{0}")]
    Head(#[source] HeadError),
    /// An HTTP/2 exchange failed. `is_unsent` is true if the request never reached the connection.
    #[error("{}", innermost(error))]
    Http2 {
        #[source]
        error: hyper::Error,
        is_unsent: bool,
    },
}

impl NoResponse {
    /// Whether the upstream cannot have acted on the request, because the request was not sent completely, or because
    /// the upstream says that it was not processed (RFC 9113, section 8.7). Such a request may always be sent again.
    pub(super) fn is_unprocessed(&self) -> bool {
        match self {
            Self::Unsent(_) | Self::Unsolicited => true,
            Self::Closed { .. } | Self::Head(_) => false,
            Self::Http2 { error, is_unsent } => *is_unsent || h2_error(error).is_some_and(was_refused),
        }
    }

    /// Whether no byte of a response arrived. The upstream may or may not have acted on the request.
    pub(super) fn is_silent(&self) -> bool {
        match self {
            Self::Unsent(_) => true,
            Self::Closed { is_silent, .. } => *is_silent,
            Self::Unsolicited | Self::Head(_) => false,
            // Resetting the stream or closing the connection with a reason is a kind of response.
            Self::Http2 { error, .. } => h2_error(error).is_none_or(h2::Error::is_io),
        }
    }

    pub(super) fn into_failure(self, upstream: &str) -> Failure {
        let (kind, what) = match &self {
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
        Failure::new(kind, format!("upstream `{upstream}` {what}: {self}")).with_cause(self)
    }
}

const CLOSED: &str = "closed the connection before it responded";

/// Whether the server says that it has not processed the stream, by refusing the stream or by closing the connection
/// first.
fn was_refused(error: &h2::Error) -> bool {
    let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    error.is_remote() && (is_refused || error.is_go_away())
}

fn h2_error(error: &hyper::Error) -> Option<&h2::Error> {
    let first: &(dyn Error + 'static) = error;
    iter::successors(Some(first), |&error| error.source()).find_map(|error| error.downcast_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_keeps_the_error_of_the_connection() {
        let error = io::Error::from(io::ErrorKind::ConnectionReset);
        let text = format!("upstream `up` {CLOSED}: {error}");
        let failure = NoResponse::Closed { error, is_silent: true }.into_failure("up");
        assert_eq!((failure.kind(), failure.message()), (Kind::Connect, text.as_str()));
        let mut causes = iter::successors(failure.source(), |&error| error.source());
        assert!(causes.any(|cause| cause.is::<io::Error>()));
    }
}

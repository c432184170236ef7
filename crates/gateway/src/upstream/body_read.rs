//! [`BodyRead`] and [`BodyError`]: the outcomes of reading an upstream's body.

use std::io;

use super::innermost;
use toolwire_http1 as http1;
use toolwire_pipeline::failure::{Failure, Kind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyRead {
    Data,
    End,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("{0}")]
    Connection(#[source] io::Error),
    #[error("{0}")]
    Framing(#[source] http1::BodyError),
    #[error("{}", innermost(.0))]
    Http2(#[source] hyper::Error),
}

impl From<BodyError> for Failure {
    fn from(error: BodyError) -> Self {
        let message = format!("the upstream broke off inside its response: {error}");
        Self::new(Kind::Truncated, message).with_cause(error)
    }
}

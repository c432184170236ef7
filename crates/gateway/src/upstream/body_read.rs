//! [`BodyRead`]: the result of reading an upstream's body, and [`BodyError`]: the failure of a read.

use std::{fmt, io};

use super::innermost;
use toolwire_http1 as http1;

/// The result of reading a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyRead {
    /// Some data.
    Data,
    /// The end of the body.
    End,
}

/// The reason why a body was cut off.
#[derive(Debug)]
pub(crate) enum BodyError {
    Connection(io::Error),
    Framing(http1::BodyError),
    Http2(hyper::Error),
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) => error.fmt(f),
            Self::Framing(error) => error.fmt(f),
            Self::Http2(error) => write!(f, "{}", innermost(error)),
        }
    }
}

//! [`Walker`]: one call, read from behind its opener to its end, whatever its body is made of.
//!
//! All bodies keep one contract. `feed` takes text cut anywhere and tells pieces in order: `Start` when the call is
//! certain, `Arguments` as they come (JSON text), `End` when they are whole. It stops at the first byte that cannot go
//! on the call. `finish` ends a call whose text stops: whole if only what is provably missing is missing, else cut.

use super::{
    envelope::{Parsed, Piece, Rules},
    header::HeaderWalk,
};
use crate::{
    event::CallEnd,
    format::{CallBody, Calls},
};

/// A call being read.
#[derive(Debug)]
pub(super) enum Walker {
    Header(HeaderWalk),
}

impl Walker {
    /// Begins behind `open`.
    pub(super) fn new(calls: &'static Calls, _open: &'static str, rules: &Rules<'_>) -> Self {
        match &calls.body {
            CallBody::Header(header) => Self::Header(HeaderWalk::new(header, rules)),
        }
    }

    /// Reads on.
    pub(super) fn feed(&mut self, text: &str, rules: &Rules<'_>, out: &mut impl FnMut(Piece<'_>)) -> Parsed {
        match self {
            Self::Header(walk) => walk.feed(text, rules, out),
        }
    }

    /// The text stops here; `None` if no call was open.
    pub(super) fn finish(&mut self, stopped: bool, out: &mut impl FnMut(Piece<'_>)) -> Option<CallEnd> {
        match self {
            Self::Header(walk) => walk.finish(stopped, out),
        }
    }

    /// A call has started and has not ended.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Header(walk) => walk.is_open(),
        }
    }

    /// A call has started.
    pub(super) fn found(&self) -> bool {
        match self {
            Self::Header(walk) => walk.found(),
        }
    }

    /// Bytes kept back besides the source.
    pub(super) fn kept(&self) -> usize {
        0
    }
}

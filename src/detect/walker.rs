//! [`Walker`]: one call, read from behind its opener to its end, whatever its body is made of.
//!
//! All bodies keep one contract. `feed` takes text cut anywhere and tells pieces in order: `Start` when the call is
//! certain, `Arguments` as they come (JSON text), `End` when they are whole. It stops at the first byte that cannot go
//! on the call. `finish` ends a call whose text stops: whole if only what is provably missing is missing, else cut.

use super::{
    envelope::{Parsed, Piece, Rules},
    header::HeaderWalk,
    params::ParamsWalk,
};
use crate::{
    event::CallEnd,
    format::{CallBody, Calls},
};

/// A call being read.
#[derive(Debug)]
pub(super) enum Walker {
    Header(HeaderWalk),
    Params(ParamsWalk),
}

impl Walker {
    /// Begins behind `open`.
    pub(super) fn new(calls: &'static Calls, _open: &'static str, rules: &Rules<'_>) -> Self {
        match &calls.body {
            CallBody::Header(header) => Self::Header(HeaderWalk::new(header, rules)),
            CallBody::Params(params) => Self::Params(ParamsWalk::new(calls, params, rules)),
        }
    }

    /// Reads on.
    pub(super) fn feed(&mut self, text: &str, rules: &Rules<'_>, out: &mut impl FnMut(Piece<'_>)) -> Parsed {
        match self {
            Self::Header(walk) => walk.feed(text, rules, out),
            Self::Params(walk) => walk.feed(text, rules, out),
        }
    }

    /// The text stops here; `None` if no call was open.
    pub(super) fn finish(&mut self, stopped: bool, out: &mut impl FnMut(Piece<'_>)) -> Option<CallEnd> {
        match self {
            Self::Header(walk) => walk.finish(stopped, out),
            Self::Params(walk) => walk.finish(stopped, out),
        }
    }

    /// A call has started and has not ended.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Header(walk) => walk.is_open(),
            Self::Params(walk) => walk.is_open(),
        }
    }

    /// A call has started.
    pub(super) fn found(&self) -> bool {
        match self {
            Self::Header(walk) => walk.found(),
            Self::Params(walk) => walk.found(),
        }
    }

    /// Bytes kept back besides the source.
    pub(super) fn kept(&self) -> usize {
        if let Self::Params(walk) = self { walk.kept() } else { 0 }
    }

    /// How many of the last bytes of what was fed may still be no part of the call.
    pub(super) fn unsure(&self) -> usize {
        self.rest().len()
    }

    /// The last bytes of what was fed: after `End` and `Stop` those before its place that are no part of the call.
    pub(super) fn rest(&self) -> &str {
        if let Self::Params(walk) = self { walk.rest() } else { "" }
    }

    /// Takes them.
    pub(super) fn take_rest(&mut self) -> String {
        if let Self::Params(walk) = self { walk.take_rest() } else { String::new() }
    }
}

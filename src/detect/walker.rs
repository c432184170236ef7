//! [`Walker`]: one call, read from behind its opener to its end, whatever its body is made of.
//!
//! All bodies keep one contract. `feed` takes text cut anywhere and tells pieces in order: `Start` when the call is
//! certain, `Arguments` as they come (JSON text), `End` when they are whole. It stops at the first byte that cannot go
//! on the call. `finish` ends a call whose text stops: whole if only what is provably missing is missing, else cut.

use super::{
    dsl::DslWalk,
    elements::ElementsWalk,
    envelope::{CallRules, Envelope, Parsed, Piece},
    header::HeaderWalk,
    params::ParamsWalk,
    pythonic::PythonWalk,
    react::ReactWalk,
    string_fast_path::StringFastPath,
    tag::Scan,
};
use crate::{
    event::CallEnd,
    format::{CallBody, Calls},
};

/// A call being read.
#[derive(Debug)]
pub(super) enum Walker {
    Json(Envelope),
    Header(HeaderWalk),
    Python(PythonWalk),
    Dsl(DslWalk),
    React(ReactWalk),
    Params(ParamsWalk),
    Elements(ElementsWalk),
}

impl Walker {
    /// Begins behind `open`, as it was written.
    pub(super) fn new(calls: &'static Calls, open: &str, rules: &CallRules<'_>) -> Self {
        match &calls.body {
            CallBody::Header(header) => Self::Header(HeaderWalk::new(header, rules)),
            CallBody::Python(python) => Self::Python(PythonWalk::new(python, rules)),
            CallBody::Dsl { quote } => Self::Dsl(DslWalk::new(quote, rules)),
            CallBody::React => Self::React(ReactWalk::new(rules)),
            CallBody::Params(params) => Self::Params(ParamsWalk::new(calls, params, rules)),
            CallBody::Elements(elements) => Self::Elements(ElementsWalk::new(calls, elements, open, rules)),
        }
    }

    /// Reads on.
    pub(super) fn feed(
        &mut self,
        text: &str,
        rules: &CallRules<'_>,
        out: &mut impl FnMut(Piece<'_>),
    ) -> Parsed {
        match self {
            Self::Json(walk) => walk.feed(text, rules, out),
            Self::Header(walk) => walk.feed(text, rules, out),
            Self::Python(walk) => walk.feed(text, rules, out),
            Self::Dsl(walk) => walk.feed(text, rules, out),
            Self::React(walk) => walk.feed(text, rules, out),
            Self::Params(walk) => walk.feed(text, rules, out),
            Self::Elements(walk) => walk.feed(text, rules, out),
        }
    }

    /// The text stops here; `None` if no call was open.
    pub(super) fn finish(&mut self, stopped: bool, out: &mut impl FnMut(Piece<'_>)) -> Option<CallEnd> {
        match self {
            Self::Json(walk) => walk.finish(stopped, out),
            Self::Header(walk) => walk.finish(stopped, out),
            Self::Python(walk) => walk.finish(stopped, out),
            Self::Dsl(walk) => walk.finish(stopped, out),
            Self::React(walk) => walk.finish(stopped, out),
            Self::Params(walk) => walk.finish(stopped, out),
            Self::Elements(walk) => walk.finish(stopped, out),
        }
    }

    /// A call has started and has not ended.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Json(walk) => walk.is_open(),
            Self::Header(walk) => walk.is_open(),
            Self::Python(walk) => walk.is_open(),
            Self::Dsl(walk) => walk.is_open(),
            Self::React(walk) => walk.is_open(),
            Self::Params(walk) => walk.is_open(),
            Self::Elements(walk) => walk.is_open(),
        }
    }

    /// A call has started.
    pub(super) fn found(&self) -> bool {
        match self {
            Self::Json(walk) => walk.found(),
            Self::Header(walk) => walk.found(),
            Self::Python(walk) => walk.found(),
            Self::Dsl(walk) => walk.found(),
            Self::React(walk) => walk.found(),
            Self::Params(walk) => walk.found(),
            Self::Elements(walk) => walk.found(),
        }
    }

    /// What was read last belongs to a call that was found, not to an object that may become one.
    pub(super) fn is_in_call(&self) -> bool {
        if let Self::Json(walk) = self { walk.is_in_call() } else { self.found() }
    }

    /// As above where the text stops.
    pub(super) fn stops_in_call(&self) -> bool {
        if let Self::Json(walk) = self { walk.stops_in_call() } else { self.found() }
    }

    /// In a string of arguments that goes out as it comes.
    pub(super) fn flow(&self) -> Option<StringFastPath> {
        match self {
            Self::Json(walk) => walk.flow(),
            Self::Header(walk) => walk.flow(),
            Self::Python(walk) => walk.flow(),
            Self::Dsl(walk) => walk.flow(),
            Self::React(walk) => walk.flow(),
            Self::Params(walk) => walk.flow(),
            Self::Elements(walk) => walk.flow(),
        }
    }

    /// Bytes kept back besides the source.
    pub(super) fn kept(&self) -> usize {
        match self {
            Self::Json(walk) => walk.kept(),
            Self::Header(_) => 0,
            Self::React(walk) => walk.kept(),
            Self::Python(walk) => walk.kept(),
            Self::Dsl(walk) => walk.kept(),
            Self::Params(walk) => walk.kept(),
            Self::Elements(walk) => walk.kept(),
        }
    }

    /// What follows the call is no part of the message.
    pub(super) fn drops_rest(&self) -> bool {
        matches!(self, Self::React(walk) if walk.drops_rest())
    }

    /// How many of the last bytes of what was fed may still be no part of the call.
    pub(super) fn unsure(&self) -> usize {
        match self {
            Self::Header(walk) => walk.unsure(),
            Self::Params(walk) => walk.unsure(),
            Self::Elements(walk) => walk.unsure(),
            _ => self.rest().len(),
        }
    }

    /// The last bytes of what was fed: after `End` and `Stop` those before its place that are no part of the call.
    pub(super) fn rest(&self) -> &str {
        match self {
            Self::Header(walk) => walk.rest(),
            Self::Params(walk) => walk.rest(),
            Self::Elements(walk) => walk.rest(),
            Self::React(walk) => walk.rest(),
            _ => "",
        }
    }
}

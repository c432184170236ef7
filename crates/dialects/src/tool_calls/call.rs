//! A call whose pieces are still arriving.

use std::borrow::Cow;

use super::{
    arguments::Arguments,
    piece::{Key, Piece},
};
use crate::{
    event::{CallEnd, Event, Opaque, Sink},
    failure::Failure,
    opaque::call_state,
    rules::Limits,
    tools::DeclaredTools,
    wire::json::Unescaper,
};

#[derive(Debug)]
pub(super) struct StreamedCall {
    pub(super) key: Key,
    pub(super) id: String,
    pub(super) name: String,
    /// The upstream's state for the call, until the call is announced.
    pub(super) signature: Option<Opaque<'static>>,
    pub(super) state: State,
    pub(super) early: String,
    /// Whether the call was already complete as a `function_call`, so that its pieces in `tool_calls` only
    /// repeat it.
    pub(super) is_repeat: bool,
    pub(super) arguments: Arguments,
    pub(super) unescaper: Unescaper,
    /// The number of the last delta that contained a piece of this call.
    pub(super) delta: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum State {
    /// The name has not arrived, or may still grow.
    Unnamed,
    /// Announced under this index.
    Open(u32),
    Ended,
}

impl StreamedCall {
    pub(super) fn new(key: Key, arguments: Arguments) -> Self {
        Self {
            key,
            id: String::new(),
            name: String::new(),
            signature: None,
            state: State::Unnamed,
            early: String::new(),
            is_repeat: false,
            arguments,
            unescaper: Unescaper::default(),
            delta: 0,
        }
    }

    /// Whether `piece`, although addressed to this call, starts the next one: some servers send index 0 or
    /// the same id for all calls. `same_delta` is set if this call has already received a piece from the same
    /// delta, and `is_only` is set if no other call follows this one yet.
    pub(super) fn is_over_by(&self, piece: &Piece<'_>, same_delta: bool, is_only: bool) -> bool {
        let other_id = !piece.id.is_empty() && !self.id.is_empty() && piece.id != self.id;
        if self.is_repeat {
            return other_id || (piece.is_named() && piece.name != self.name);
        }
        let extent = &self.arguments.extent;
        if !piece.is_named() {
            // Some servers generate a new id for every delta. A new id without a name therefore starts a call
            // only if the piece has no arguments or this call is complete.
            let is_whole = extent.is_whole() && !self.arguments.is_placeholder();
            return other_id && (is_whole || !piece.has_arguments());
        }
        let same_name = piece.name == self.name;
        let same_id = !piece.id.is_empty() && piece.id == self.id;
        // Without any ids, equal calls are separate calls. With an id, `Arguments` decides.
        let may_repeat = same_name && (is_only || same_id || (piece.id.is_empty() && !self.id.is_empty()));
        other_id
            || (same_delta && self.is_headed() && !(same_name && same_id))
            || (extent.is_begun() && !same_name && self.is_headed())
            || (extent.is_whole() && piece.has_arguments() && !may_repeat)
    }

    fn is_headed(&self) -> bool {
        !self.name.is_empty()
    }

    pub(super) fn note(&mut self, piece: &Piece<'_>) {
        let is_unnamed = matches!(self.state, State::Unnamed);
        if self.id.is_empty() && (is_unnamed || self.is_repeat) {
            self.id.push_str(&piece.id);
        }
        // Pieces of a name are joined until the arguments start. Servers that repeat the name send all of it
        // each time.
        if is_unnamed && self.signature.is_none() {
            self.signature = piece.extra.and_then(call_state);
        }
        if is_unnamed && piece.name != self.name {
            self.name.push_str(&piece.name);
        }
    }

    /// Checks the size of what is stored for a call that has not been announced.
    ///
    /// # Errors
    /// The name is too long and not a prefix of a declared name, or the id or the early arguments are too
    /// long.
    pub(super) fn check(&self, tools: &DeclaredTools, limits: &Limits) -> Result<(), Failure> {
        if self.name.len() > limits.max_name && !tools.may_become(&self.name) {
            return Err(limits.name_too_long());
        }
        if self.id.len() > limits.max_arguments {
            return Err(limits.id_too_long());
        }
        let state = self.signature.as_ref().map_or(0, |signature| signature.text.len());
        if self.early.len() > limits.max_arguments || state > limits.max_arguments {
            return Err(limits.arguments_too_long());
        }
        Ok(())
    }

    /// Passes on a piece of arguments that `extent` has already scanned.
    pub(super) fn pass(&mut self, index: u32, text: Cow<'_, str>, out: &mut impl Sink) {
        self.arguments.pass(text, give(index, out));
    }

    pub(super) fn end(&mut self, index: u32, cut: bool, out: &mut impl Sink) {
        let mut give = give(index, out);
        self.arguments.settle(&mut give);
        if let Some(half) = self.unescaper.finish().filter(|_| !cut) {
            self.arguments.force(half.encode_utf8(&mut [0; 4]), &mut give);
        }
        self.arguments.finish(cut, &mut give);
        let extent = &self.arguments.extent;
        let end = match extent.is_broken() && !cut {
            _ if extent.is_whole() => CallEnd::Complete,
            // The model continued after the arguments, so they were not cut off.
            true => CallEnd::Broken,
            false => CallEnd::Cut,
        };
        self.arguments.forget();
        drop(give);
        out.event(Event::CallEnd { index, end });
        self.state = State::Ended;
    }
}

/// Emits pieces of the arguments of the call `index`.
pub(super) fn give(index: u32, out: &mut impl Sink) -> impl FnMut(Cow<'_, str>) {
    move |piece| out.event(Event::CallArguments { index, piece })
}

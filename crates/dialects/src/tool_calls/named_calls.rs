//! [`NamedCalls`]: native calls in dialects in which a call starts with its id and its complete name.
//!
//! Each call has a key by which the upstream addresses it. Its arguments are passed on as they arrive, and
//! retained until the call ends, so that repetitions can be recognised ([`Arguments`]).

use std::{
    borrow::Cow,
    hash::{DefaultHasher, Hasher},
};

use super::{arguments::Arguments, call::give};
use crate::{
    Skip, Skipped,
    channel::emit,
    event::{CallEnd, CallStart, Event, Finish, Runner, Sink, Source},
    failure::{Failure, Kind},
    rules::Limits,
    tools::DeclaredTools,
    wire::json::{MAX_DEPTH, Unescaper},
};

#[derive(Debug, Default)]
pub(crate) struct NamedCalls {
    /// All calls in order, at most `max_calls` of them.
    calls: Vec<NamedCall>,
    tools: DeclaredTools,
    limits: Limits,
    /// Whether arguments that are not JSON are repaired.
    repairs: bool,
    skipped: Skipped,
    scratch: String,
    has_client_call: bool,
    has_cut_call: bool,
}

#[derive(Debug)]
struct NamedCall {
    key: u64,
    index: u32,
    id: String,
    name: String,
    runner: Runner,
    state: State,
    is_text: bool,
    unescaper: Unescaper,
    arguments: Arguments,
    frame: Option<String>,
    /// Arguments from the start of the call, which are used only if no pieces of arguments follow.
    given: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The upstream has ended the call without arguments. The next event shows whether the call has none or
    /// was cut off.
    Blank,
    Ended,
}

impl NamedCalls {
    pub(crate) fn expect(&mut self, tools: DeclaredTools, limits: Limits) {
        self.tools = tools;
        self.limits = limits;
    }

    /// The declared tools.
    pub(crate) fn tools(&self) -> &DeclaredTools {
        &self.tools
    }

    pub(crate) fn mend(&mut self, repairs: bool) {
        self.repairs = repairs;
    }

    /// Starts a call with `key`, which ends an open call with the same key. `start.index` is set here.
    ///
    /// # Errors
    /// [`Kind::Limit`]: there are too many calls, or the name or the id is too long.
    pub(crate) fn begin(
        &mut self,
        key: u64,
        mut start: CallStart<'_>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        self.end(key, out);
        self.settle(out);
        if self.calls.len() >= self.limits.max_calls {
            return Err(self.limits.too_many_calls());
        }
        if start.name.len() > self.limits.max_name && !self.tools.may_become(&start.name) {
            return Err(self.limits.name_too_long());
        }
        if start.id.len() > self.limits.max_arguments {
            return Err(self.limits.id_too_long());
        }
        let index = u32::try_from(self.calls.len()).unwrap_or(u32::MAX);
        start.index = index;
        self.has_client_call |= start.runner == Runner::Client;
        self.calls.push(NamedCall {
            key,
            index,
            id: start.id.to_string(),
            name: start.name.to_string(),
            runner: start.runner,
            state: State::Open,
            is_text: start.source == Source::NativeCustom,
            unescaper: Unescaper::default(),
            arguments: Arguments::new(MAX_DEPTH, self.limits.max_arguments, self.repairs),
            frame: None,
            given: String::new(),
        });
        out.event(Event::CallStart(start));
        Ok(())
    }

    /// Whether a call with this id and name is already open under `key`.
    pub(crate) fn repeats(&self, key: u64, id: &str, name: &str) -> bool {
        let open = self.calls.iter().rfind(|call| call.key == key && call.state != State::Ended);
        !id.is_empty() && open.is_some_and(|call| call.id == id && call.name == name)
    }

    /// Sets the arguments of a call that has just started. They are used only if no pieces of arguments
    /// follow.
    ///
    /// # Errors
    /// [`Kind::Limit`]: the arguments are too long.
    pub(crate) fn give(&mut self, key: u64, arguments: &str) -> Result<(), Failure> {
        if arguments.len() > self.limits.max_arguments {
            return Err(self.limits.arguments_too_long());
        }
        if let Some(call) = find(&mut self.calls, key) {
            arguments.clone_into(&mut call.given);
        }
        Ok(())
    }

    /// Handles a piece of a call's arguments, which is the raw body of a JSON string. `frame` is the piece's
    /// frame, if it contains nothing else.
    pub(crate) fn piece(&mut self, key: u64, body: &str, frame: Option<&str>, out: &mut impl Sink) {
        if body.is_empty() {
            return;
        }
        match find(&mut self.calls, key) {
            Some(call) if call.state == State::Ended => self.skipped.add(Skip::LateArguments),
            Some(call) => {
                call.state = State::Open;
                let text = call.unescaper.decode(body, &mut self.scratch);
                call.pass(text, frame, out);
            }
            None => self.skipped.add(Skip::NamelessCall),
        }
    }

    /// Handles the complete text of a call's arguments: passes on what the pieces lacked. An empty text has
    /// no effect.
    ///
    /// # Errors
    /// [`Kind::Protocol`]: the text neither starts with the pieces nor means the same.
    pub(crate) fn complete(&mut self, key: u64, whole: &str, out: &mut impl Sink) -> Result<(), Failure> {
        let call = find(&mut self.calls, key).filter(|call| call.state != State::Ended);
        let Some(call) = call.filter(|_| !whole.is_empty()) else { return Ok(()) };
        call.flush(out);
        if !call.complete(whole, out) {
            let message = "the upstream reports other arguments for a call than it has streamed";
            return Err(Failure::new(Kind::Protocol, message));
        }
        call.state = State::Open;
        Ok(())
    }

    /// Ends the call with `key`. Returns whether there was such a call.
    pub(crate) fn end(&mut self, key: u64, out: &mut impl Sink) -> bool {
        let Some(call) = find(&mut self.calls, key).filter(|call| call.state != State::Ended) else {
            return false;
        };
        call.flush(out);
        call.pass_given(out);
        if !call.is_text && call.arguments.extent.is_blank() {
            call.state = State::Blank;
        } else {
            self.has_cut_call |= call.end(false, out);
        }
        true
    }

    /// Called when the response continues, which shows that calls that ended without arguments really have
    /// none.
    pub(crate) fn settle(&mut self, out: &mut impl Sink) {
        for call in self.calls.iter_mut().filter(|call| call.state == State::Blank) {
            self.has_cut_call |= call.end(false, out);
        }
    }

    /// Ends the response. `cut` is set if the model was interrupted.
    pub(crate) fn finish(&mut self, cut: bool, out: &mut impl Sink) {
        for call in self.calls.iter_mut().filter(|call| call.state != State::Ended) {
            if !cut {
                call.flush(out);
            }
            call.pass_given(out);
            self.has_cut_call |= call.end(cut, out);
        }
    }

    /// Ends a response that has no finish reason. Returns the one that its calls show.
    pub(crate) fn end_of_body(&mut self, out: &mut impl Sink) -> Finish {
        self.finish(false, out);
        if self.has_cut_call { Finish::Length } else { Finish::Stop }
    }

    pub(crate) fn open_key(&self) -> Option<u64> {
        self.calls.iter().rfind(|call| call.state == State::Open).map(|call| call.key)
    }

    /// The index of the latest call with `key`, see [`CallStart::index`].
    pub(crate) fn index(&self, key: u64) -> Option<u32> {
        self.calls.iter().rfind(|call| call.key == key).map(|call| call.index)
    }

    /// The index of the latest call with this id.
    #[cfg(feature = "bedrock")]
    pub(crate) fn number_of(&self, id: &str) -> Option<u32> {
        self.calls.iter().rfind(|call| call.id == id).map(|call| call.index)
    }

    pub(crate) fn has_client_call(&self) -> bool {
        self.has_client_call
    }

    pub(crate) fn skipped(&self) -> &Skipped {
        &self.skipped
    }
}

fn find(calls: &mut [NamedCall], key: u64) -> Option<&mut NamedCall> {
    calls.iter_mut().rfind(|call| call.key == key)
}

impl NamedCall {
    fn pass(&mut self, text: &str, frame: Option<&str>, out: &mut impl Sink) {
        let index = self.index;
        let mut frame = frame.filter(|_| !self.arguments.is_holding());
        let give = |piece: Cow<'_, str>| {
            // If the text was repaired, the frame does not match it.
            let frame = frame.take().filter(|_| piece == text);
            emit(out, frame, Event::CallArguments { index, piece });
        };
        if self.is_text {
            return self.arguments.text(text, give);
        }
        self.arguments.push(text, false, give);
        self.frame = frame.filter(|_| self.arguments.holds(text)).map(str::to_owned);
    }

    /// Handles the complete arguments. Returns whether they agree with the pieces.
    fn complete(&mut self, whole: &str, out: &mut impl Sink) -> bool {
        if self.is_text {
            let rest = self.arguments.rest_of(whole).map(str::to_owned);
            rest.as_deref().inspect(|rest| self.pass(rest, None, out)).is_some()
        } else {
            self.frame = None;
            self.arguments.complete(whole, give(self.index, out))
        }
    }

    /// Handles half of a surrogate pair whose other half did not arrive.
    fn flush(&mut self, out: &mut impl Sink) {
        if let Some(half) = self.unescaper.finish() {
            self.pass(half.encode_utf8(&mut [0; 4]), None, out);
        }
    }

    fn pass_given(&mut self, out: &mut impl Sink) {
        let given = std::mem::take(&mut self.given);
        if self.arguments.is_empty() {
            self.pass(&given, None, out);
        }
    }

    /// Ends the call. Returns whether it was a call for the client and was cut off.
    fn end(&mut self, cut: bool, out: &mut impl Sink) -> bool {
        let (index, frame) = (self.index, self.frame.take());
        let mut frame = frame.as_deref();
        self.arguments.settle(|piece| {
            emit(out, frame.take(), Event::CallArguments { index, piece });
        });
        if !self.is_text {
            self.arguments.finish(cut, give(index, out));
        }
        self.arguments.forget();
        let extent = &self.arguments.extent;
        let end = match (self.is_text, cut) {
            (true, true) => CallEnd::Cut,
            (true, false) => CallEnd::Complete,
            (false, _) if extent.is_whole() => CallEnd::Complete,
            (false, false) if extent.is_broken() => CallEnd::Broken,
            (false, _) => CallEnd::Cut,
        };
        self.state = State::Ended;
        out.event(Event::CallEnd { index: self.index, end });
        end == CallEnd::Cut && self.runner == Runner::Client
    }
}

/// The length and the digest of text that has been passed on in pieces.
#[derive(Debug, Default, Clone)]
pub(crate) struct Streamed {
    length: usize,
    hasher: DefaultHasher,
}

impl Streamed {
    pub(crate) fn push(&mut self, piece: &str) {
        self.length += piece.len();
        self.hasher.write(piece.as_bytes());
    }

    /// The part of `whole` that follows the pieces. `None` if it does not start with them.
    pub(crate) fn rest_of<'w>(&self, whole: &'w str) -> Option<&'w str> {
        let (begun, rest) = whole.split_at_checked(self.length)?;
        let mut hasher = DefaultHasher::new();
        hasher.write(begun.as_bytes());
        (hasher.finish() == self.hasher.finish()).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_text_is_what_its_pieces_lacked() {
        let mut streamed = Streamed::default();
        assert_eq!(streamed.rest_of("abc"), Some("abc"));
        for piece in ["a", "é", "", "bcdefghij", "k"] {
            streamed.push(piece);
        }
        assert_eq!(streamed.rest_of("aébcdefghijk"), Some(""));
        assert_eq!(streamed.rest_of("aébcdefghijklm"), Some("lm"));
        for other in ["", "a", "aébcdefghij", "aebcdefghijkl", "bébcdefghijk"] {
            assert_eq!(streamed.rest_of(other), None, "{other}");
        }
    }
}

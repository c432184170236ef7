//! [`CallDeltas`]: assembles native calls from OpenAI's `tool_calls` deltas and similar formats.
//!
//! A delta is a list of pieces. Each piece says, more or less precisely, which call it belongs to (by
//! `index`, by `id`, or not at all), and contributes something to it: an id, a name or part of one, or part
//! of the arguments. Every piece takes the same path: [`CallDeltas::address`] finds the call that it is
//! addressed to, [`StreamedCall::is_over_by`] decides whether it belongs to that call or starts the next one,
//! and then its contents are added.
//!
//! A call is announced as soon as its name is certain. The name is certain at once if the call has an id and the
//! name is declared and not a prefix of another declared name. Otherwise, since names may arrive in pieces, it
//! becomes certain at the first byte of the arguments, at the start of another call, or at the end. From then
//! on, the arguments are streamed.
//!
//! The size of each call is limited: the name by `max_name`, and the id and the arguments that arrive before
//! the name by `max_arguments`. There are at most `max_calls` calls. A response that exceeds a limit fails,
//! and the call that is too large is not announced. [`arguments`] recognises arguments that are sent more
//! than once.
//!
//! `function_call`, used before November 2023, carries a single call. If a server sends both formats,
//! `tool_calls` takes precedence, and a call that started as a `function_call` becomes the first call in
//! `tool_calls` ([`CallDeltas::adopt`]).
//!
//! For the deviations that are accepted, see docs/protocols/lumo.md#deviations and
//! docs/protocols/chat.md#upstream-deviations.

mod arguments;
mod call;
mod extent;
mod named_calls;
mod piece;
#[cfg(test)]
#[allow(clippy::string_slice, reason = "tests cut texts at known places")]
mod tests;

use std::borrow::Cow;

use arguments::Arguments;
use call::{State, StreamedCall, give};
pub(crate) use named_calls::{NamedCalls, Streamed};
pub(crate) use piece::arguments_only;
use piece::{Address, ArgumentsPiece, Key, Piece};

use crate::{
    Skip, Skipped,
    event::{CallStart, Event, Runner, Sink, Source},
    failure::Failure,
    rules::Limits,
    tools::DeclaredTools,
    wire::json::{Json, MAX_DEPTH},
};

/// Repairs complete arguments that are not an object, in the same way as in calls written as text. `None` if
/// that is impossible.
pub(crate) fn mended(arguments: &str, limits: &Limits) -> Option<String> {
    arguments::mended(arguments, MAX_DEPTH, limits.max_arguments)
}

#[derive(Debug)]
pub(crate) struct CallDeltas {
    calls: Vec<StreamedCall>,
    tools: DeclaredTools,
    next: u32,
    /// The number of the current delta, which distinguishes its pieces from those of other deltas.
    delta: u64,
    max_depth: usize,
    /// Whether arguments that are not JSON are repaired.
    repairs: bool,
    limits: Limits,
    has_open: bool,
    form: Option<Form>,
    skipped: Skipped,
    scratch: String,
    is_holding: bool,
    /// The index of the choice that the deltas belong to. Each choice numbers its calls from 0.
    choice: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Legacy,
    Listed,
}

impl CallDeltas {
    /// Creates an empty list of calls. Arguments nested deeper than `max_depth` end as
    /// [`CallEnd::Broken`](crate::event::CallEnd::Broken).
    pub(crate) fn new(max_depth: usize) -> Self {
        Self {
            calls: Vec::new(),
            tools: DeclaredTools::default(),
            next: 0,
            delta: 0,
            max_depth,
            repairs: false,
            limits: Limits::default(),
            has_open: false,
            form: None,
            skipped: Skipped::default(),
            scratch: String::new(),
            is_holding: false,
            choice: 0,
        }
    }

    pub(crate) fn expect(&mut self, tools: DeclaredTools, limits: Limits) {
        self.tools = tools;
        self.limits = limits;
    }

    /// Sets the choice that the next deltas belong to.
    pub(crate) fn of_choice(&mut self, number: u64) {
        self.choice = number;
    }

    pub(crate) fn mend(&mut self, repairs: bool) {
        self.repairs = repairs;
    }

    /// Handles the `tool_calls` of a delta. A value that is not a list is ignored.
    ///
    /// # Errors
    /// [`Kind::Limit`](crate::failure::Kind::Limit): a call is too large, or there are too many calls.
    pub(crate) fn delta(&mut self, tool_calls: Json<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        self.delta += 1;
        let several = tool_calls.elements().nth(1).is_some();
        // Calls to custom tools have a different format and are read elsewhere.
        let functions = |(_, element): &(usize, Json<'_>)| element.get("custom").is_none();
        for (position, element) in tool_calls.elements().enumerate().filter(functions) {
            let index = element.get("index").and_then(|index| index.as_u64());
            let index = index.map(|index| index ^ self.choice.wrapping_shl(32));
            let piece = Piece::read(element.get("function").unwrap_or(element), element.get("id"))
                .with_extra(element.get("extra_content"));
            self.take(Form::Listed, Address { index, position, several }, &piece, out)?;
        }
        Ok(())
    }

    /// Handles a delta that [`arguments_only`] has parsed. `body` belongs to the call `index`.
    ///
    /// # Errors
    /// The same as for [`CallDeltas::delta`].
    pub(crate) fn arguments_delta(
        &mut self,
        index: u64,
        body: &str,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        self.delta += 1;
        let address = Address { index: Some(index), position: 0, several: false };
        self.take(Form::Listed, address, &Piece::arguments(body), out)
    }

    /// Handles the `function_call` of a delta, used before November 2023, when a response could have only one
    /// call. After `tool_calls`, it is a repetition and is ignored.
    ///
    /// # Errors
    /// The same as for [`CallDeltas::delta`].
    pub(crate) fn legacy(&mut self, function_call: Json<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        if self.form == Some(Form::Listed) {
            return Ok(());
        }
        self.delta += 1;
        let address = Address { index: None, position: 0, several: false };
        self.take(Form::Legacy, address, &Piece::read(function_call, None), out)
    }

    /// Ends the response. A call whose arguments are a prefix of an object is cut off, and so is every
    /// incomplete call if `cut` is set because the response itself was cut short. Otherwise, a call without
    /// arguments gets `{}`, and a call whose arguments cannot become an object is broken.
    pub(crate) fn finish(&mut self, cut: bool, out: &mut impl Sink) {
        self.announce(out);
        for mut call in self.calls.drain(..) {
            match call.state {
                State::Unnamed => self.skipped.add(Skip::NamelessCall),
                State::Open(index) => call.end(index, cut, out),
                State::Ended => {}
            }
        }
    }

    /// Reserves an index for a call that is read elsewhere, since all calls in a response share one sequence
    /// of indexes.
    pub(crate) fn next_index(&mut self) -> u32 {
        let index = self.next;
        self.next += 1;
        index
    }

    pub(crate) fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    fn take(
        &mut self,
        form: Form,
        address: Address,
        piece: &Piece<'_>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        if piece.is_empty() {
            return Ok(());
        }
        if self.form != Some(form) {
            self.adopt(address.key());
            self.form = Some(form);
        }
        let found = self.address(address, piece);
        let known = found.filter(|&at| {
            self.calls
                .get(at)
                .is_some_and(|call| !call.is_over_by(piece, call.delta == self.delta, form == Form::Legacy))
        });
        let at = match known {
            Some(at) => at,
            None => self.open(address.key(), out)?,
        };
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        call.delta = self.delta;
        call.note(piece);
        if call.is_repeat { Ok(()) } else { self.grow(at, address.key(), piece, out) }
    }

    /// Merges a `function_call` with the `tool_calls` that follow it: the call `key` in `tool_calls` is the same
    /// call. If its arguments were already complete, further pieces only repeat it.
    fn adopt(&mut self, key: Key) {
        if let Some(call) = self.calls.last_mut() {
            call.key = key;
            call.is_repeat = call.arguments.extent.is_whole();
        }
    }

    /// The call that a piece most likely belongs to: the one with its index, or else with its id, or else at
    /// its position if the delta contains several pieces, or else the latest call.
    fn address(&self, address: Address, piece: &Piece<'_>) -> Option<usize> {
        let last = |wanted: &dyn Fn(&StreamedCall) -> bool| self.calls.iter().rposition(wanted);
        if address.index.is_some() {
            return last(&|call| call.key == address.key());
        }
        let by_id = if piece.id.is_empty() { None } else { last(&|call| call.id == piece.id) };
        let by_place = || if address.several { last(&|call| call.key == address.key()) } else { None };
        let latest = || if address.several && piece.is_named() { None } else { last(&|_| true) };
        by_id.or_else(by_place).or_else(latest)
    }

    /// Starts a call. This makes the names of earlier calls certain and ends those whose arguments are
    /// complete.
    fn open(&mut self, key: Key, out: &mut impl Sink) -> Result<usize, Failure> {
        self.announce(out);
        self.settle(out);
        if self.calls.len() >= self.limits.max_calls {
            return Err(self.limits.too_many_calls());
        }
        let arguments = Arguments::new(self.max_depth, self.limits.max_arguments, self.repairs);
        self.calls.push(StreamedCall::new(key, arguments));
        Ok(self.calls.len() - 1)
    }

    /// Whether a call has started that may not have ended yet.
    pub(crate) fn has_open(&self) -> bool {
        self.has_open
    }

    /// Ends the calls whose arguments are complete, because the next event does not belong to a call.
    pub(crate) fn settle(&mut self, out: &mut impl Sink) {
        self.has_open = false;
        for call in &mut self.calls {
            if let State::Open(index) = call.state {
                match call.arguments.extent.is_whole() {
                    true => call.end(index, false, out),
                    false => self.has_open = true,
                }
            }
        }
        self.note_holding();
    }

    /// Announces every call that has a name and has not been announced yet.
    fn announce(&mut self, out: &mut impl Sink) {
        for at in 0..self.calls.len() {
            self.start(at, out);
        }
    }

    /// Announces a call if it has a name.
    fn start(&mut self, at: usize, out: &mut impl Sink) {
        let Some((before, rest)) = self.calls.split_at_mut_checked(at) else { return };
        let Some((call, after)) = rest.split_first_mut() else { return };
        if !matches!(call.state, State::Unnamed) || call.name.is_empty() {
            return;
        }
        // Some servers give all calls the same id. Only the first of them keeps it, and the other calls get
        // generated ids later. A call to the same tool, however, may repeat the first call.
        let taken = |other: &StreamedCall| {
            !matches!(other.state, State::Unnamed) && other.id == call.id && other.name != call.name
        };
        let id = if before.iter().chain(after.iter()).any(taken) { "" } else { call.id.as_str() };
        let index = self.next;
        self.next += 1;
        call.state = State::Open(index);
        self.has_open = true;
        let signature = call.signature.take();
        out.event(Event::CallStart(CallStart {
            index,
            id: Cow::Borrowed(id),
            name: Cow::Borrowed(&call.name),
            runner: Runner::Client,
            source: Source::Native,
            signature,
        }));
        let early = std::mem::take(&mut call.early);
        call.pass(index, early.into(), out);
        self.is_holding |= call.arguments.is_holding();
    }

    /// Adds the remaining contents of a piece to the call at `at`, whose id and name have been recorded:
    /// checks the size of the call, and passes the arguments on.
    fn grow(&mut self, at: usize, key: Key, piece: &Piece<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        let mut scratch = std::mem::take(&mut self.scratch);
        let text = match piece.arguments {
            ArgumentsPiece::None => "",
            ArgumentsPiece::Text(body) => call.unescaper.decode(body, &mut scratch),
            ArgumentsPiece::Raw(json) => json,
        };
        let other = match call.state {
            State::Open(index) => {
                let other = call.arguments.push(text, piece.is_named(), give(index, out));
                if call.arguments.is_holding() != self.is_holding {
                    self.note_holding();
                }
                Ok(other)
            }
            State::Ended => {
                if !text.trim_ascii().is_empty() {
                    self.skipped.add(Skip::LateArguments);
                }
                Ok(None)
            }
            State::Unnamed => self.grow_unnamed(at, text, out).map(|()| None),
        };
        self.scratch = scratch;
        match other? {
            Some(text) => self.begin_next(key, &text, piece, out),
            None => Ok(()),
        }
    }

    fn grow_unnamed(&mut self, at: usize, text: &str, out: &mut impl Sink) -> Result<(), Failure> {
        let Self { calls, tools, limits, .. } = self;
        let Some(call) = calls.get_mut(at) else { return Ok(()) };
        let text = call.arguments.extent.push(text);
        let is_certain = !call.id.is_empty() && tools.is_whole(&call.name);
        let starts = is_certain || (call.arguments.extent.is_begun() && !call.name.is_empty());
        let mut checked = call.check(tools, limits);
        if checked.is_ok() && !starts {
            call.early.push_str(&text);
            checked = call.check(tools, limits);
        }
        if checked.is_err() {
            // The call is not emitted at all, not even as truncated.
            calls.remove(at);
        }
        if checked.is_err() || !starts {
            return checked;
        }
        self.start(at, out);
        if let Some(call) = self.calls.get_mut(at)
            && let State::Open(index) = call.state
        {
            call.pass(index, text, out);
            self.is_holding |= call.arguments.is_holding();
        }
        Ok(())
    }

    /// Starts the next call, because what looked like a repetition turned out to be another call to the same
    /// tool with the same id.
    fn begin_next(
        &mut self,
        key: Key,
        text: &str,
        piece: &Piece<'_>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        let at = self.open(key, out)?;
        if let Some(call) = self.calls.get_mut(at) {
            call.delta = self.delta;
            call.note(piece);
        }
        self.grow_unnamed(at, text, out)
    }

    fn note_holding(&mut self) {
        self.is_holding = self.calls.iter().any(|call| call.arguments.is_holding());
    }

    /// Whether a call may hold arguments. If so, the next events need not come from the next delta.
    pub(crate) fn is_holding(&self) -> bool {
        self.is_holding
    }
}

//! [`CallDeltas`]: assembles native function calls from OpenAI's `tool_calls` deltas and from similar forms.
//!
//! A delta is a list of pieces. Each piece says, more or less precisely, to which call it belongs (`index`,
//! `id`, or neither) and adds a part to that call: an id, a name or a part of a name, a part of the
//! arguments. Every piece takes the same path: find the call that the piece addresses
//! ([`CallDeltas::address`]), decide whether the piece belongs to that call or begins the next one
//! ([`StreamedCall::is_over_by`]), then add the piece to the call. A call is announced when its name is
//! certain: at once, if it has an id and its name is that of a declared tool and not a prefix of another
//! tool's name. Otherwise, since names may arrive in pieces, it is announced at the first byte of its
//! arguments, at the beginning of another call, or at the end. From then on its arguments are streamed.
//!
//! The kept data is limited for each call: the name by `max_name`, and the id and the arguments that arrive
//! before the name by `max_arguments`; and there are at most `max_calls` calls. A response that exceeds a
//! limit fails, and the call that is too large is not announced. [`arguments`] recognises arguments that are
//! sent more than once.
//!
//! The form from before November 2023, `function_call`, is one call. If a server sends both forms,
//! `tool_calls` takes precedence, and a call that began in the older form is the first call of `tool_calls`
//! ([`CallDeltas::adopt`]).
//!
//! The accepted deviations are those of docs/protocols/lumo.md#deviations and
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

/// Repairs complete arguments that are not an object, in the same way as for text calls; `None` if that is
/// impossible.
pub(crate) fn mended(arguments: &str, limits: &Limits) -> Option<String> {
    arguments::mended(arguments, MAX_DEPTH, limits.max_arguments)
}

/// The native calls of one response.
#[derive(Debug)]
pub(crate) struct CallDeltas {
    calls: Vec<StreamedCall>,
    /// The declared tools, if there are any.
    tools: DeclaredTools,
    /// The number of the next call, see [`CallStart::index`].
    next: u32,
    /// The number of the current delta. It distinguishes the delta's pieces from those of the next delta.
    delta: u64,
    max_depth: usize,
    /// Whether arguments that are not JSON are repaired.
    repairs: bool,
    limits: Limits,
    /// Whether a call may be open.
    has_open: bool,
    form: Option<Form>,
    skipped: Skipped,
    scratch: String,
    /// Whether a call may hold arguments, see [`arguments`].
    is_holding: bool,
    /// The choice to which the deltas belong, since each choice numbers its calls from 0.
    choice: u64,
}

/// The two ways in which OpenAI's API carries calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `function_call`
    Legacy,
    /// `tool_calls`
    Listed,
}

impl CallDeltas {
    /// Creates the calls of one response; arguments nested deeper than `max_depth` end as
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

    /// Sets the declared tools and the limits of the response.
    pub(crate) fn expect(&mut self, tools: DeclaredTools, limits: Limits) {
        self.tools = tools;
        self.limits = limits;
    }

    /// Sets the choice to which the next deltas belong.
    pub(crate) fn of_choice(&mut self, number: u64) {
        self.choice = number;
    }

    /// Sets whether arguments that are not JSON are repaired.
    pub(crate) fn mend(&mut self, repairs: bool) {
        self.repairs = repairs;
    }

    /// Takes the `tool_calls` of one delta; a value that is not a list is ignored.
    ///
    /// # Errors
    /// [`Kind::Limit`](crate::failure::Kind::Limit): a call is larger than allowed, or there are too many.
    pub(crate) fn delta(&mut self, tool_calls: Json<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        self.delta += 1;
        let several = tool_calls.elements().nth(1).is_some();
        // Calls to custom tools have a different form and are read elsewhere.
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

    /// Takes a delta that [`arguments_only`] has read. `body` is for call number `index`.
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

    /// Takes the `function_call` of one delta, OpenAI's form from before November 2023, in which a response
    /// has only one call. After `tool_calls`, it is a repetition and is left out.
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

    /// Ends the response. A call whose arguments are the beginning of an object is cut off, and so is every
    /// incomplete call if the response itself was `cut` short. Otherwise a call that received no arguments
    /// gets `{}`, and a call whose arguments cannot become an object is broken.
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

    /// The number for a call that the dialect carries in another form, since all calls of a reader share one
    /// sequence of numbers.
    pub(crate) fn next_index(&mut self) -> u32 {
        let index = self.next;
        self.next += 1;
        index
    }

    /// The parts that were left out.
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

    /// Adopts a `function_call` that is followed by `tool_calls`: the first piece, of the call `key`, belongs
    /// to the same call. If the call's arguments were already complete, all its further pieces are
    /// repetitions.
    fn adopt(&mut self, key: Key) {
        if let Some(call) = self.calls.last_mut() {
            call.key = key;
            call.is_repeat = call.arguments.extent.is_whole();
        }
    }

    /// The call to which a piece most likely belongs: found by index, otherwise by a known id, otherwise by
    /// the piece's position in a list of several, otherwise the last call.
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

    /// Begins a call. This makes the names of earlier calls certain, and ends those calls whose arguments are
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

    /// Whether a call has begun that may not have ended yet.
    pub(crate) fn has_open(&self) -> bool {
        self.has_open
    }

    /// Ends the calls whose arguments are complete, because the next event is not a piece of a call.
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

    /// Announces every call that has a name and is not announced yet.
    fn announce(&mut self, out: &mut impl Sink) {
        for at in 0..self.calls.len() {
            self.start(at, out);
        }
    }

    /// Announces one call, if it has a name.
    fn start(&mut self, at: usize, out: &mut impl Sink) {
        let Some((before, rest)) = self.calls.split_at_mut_checked(at) else { return };
        let Some((call, after)) = rest.split_first_mut() else { return };
        if !matches!(call.state, State::Unnamed) || call.name.is_empty() {
            return;
        }
        // Some servers give all calls the same id: only the first call keeps it, and the other calls get
        // generated ids later. A call to the same tool may be a repetition of the first call.
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

    /// Adds the rest of a piece to the call at `at`, whose id and name have been recorded: checks the size of
    /// the kept parts of the call, and passes its arguments on.
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

    /// Adds arguments to a call that has not been announced.
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
            // The call is not emitted at all, not even as one that was cut off.
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

    /// Begins the next call, because pieces that looked like a repetition turned out to belong to another
    /// call to the same tool with the same id.
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

//! [`ServerCalls`]: tools that Lumo runs itself, or believes to.
//!
//! One call may be told several times: v2 announces it without arguments and then dispatches it with them; v1 repeats
//! it, some copies without arguments (docs/protocols/lumo.md#v1-stream, docs/protocols/lumo.md#v2-stream). A dispatch may
//! come in several pieces. All of them are one call.
//!
//! A call goes out when it is dispatched: when its arguments are whole, when its result comes, when another call takes
//! its id, or when the answer has ended well. Until then it waits, and nothing else does. What an answer that fails or
//! is cut off leaves waiting was never dispatched and does not go out.

use std::borrow::Cow;

use super::partial::{Extent, Partial};
use crate::{
    dialect::tool_calls::CallDeltas,
    digest::Digest,
    event::{CallEnd, CallResult, CallStart, Event, Runner, Sink, Source},
    failure::Failure,
    rules::Limits,
    wire::json::{Json, Kind as JsonKind},
};

/// The server-tool calls of one answer.
#[derive(Debug)]
pub(super) struct ServerCalls {
    limits: Limits,
    /// Calls that wait or have no result yet, in the order in which they were first told.
    calls: Vec<Call>,
    /// Calls told so far, also those that are over.
    told: usize,
    undispatched: u64,
    orphans: u64,
}

#[derive(Debug)]
struct Call {
    id: String,
    /// Empty until it is told.
    name: String,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Not dispatched yet; what has come of its arguments.
    Waiting(Partial),
    /// It has gone out under this index. Its arguments are not kept, only what a repetition is known by.
    Sent { index: u32, arguments: Digest },
}

/// What one telling gives as arguments.
#[derive(Debug, Clone, Copy)]
enum Given<'a> {
    Nothing,
    /// A string: the arguments' JSON text, or a piece of it.
    Text(Json<'a>),
    /// JSON where a string belongs: it is the arguments.
    Value(Json<'a>),
}

/// How an answer ended, as far as its calls are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The model was done.
    Well,
    /// It was interrupted, or the stream broke off.
    Cut,
}

impl ServerCalls {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, calls: Vec::new(), told: 0, undispatched: 0, orphans: 0 }
    }

    /// Sets the limits of the answer.
    pub(super) fn expect(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Takes one telling of a call: an object with `name`, `arguments` or `parameters`, and maybe `id`, or with these in
    /// a `function`. `false`: it is not a call.
    ///
    /// # Errors
    /// A limit is passed.
    pub(super) fn call(
        &mut self,
        telling: Json<'_>,
        numbers: &mut CallDeltas,
        out: &mut impl Sink,
    ) -> Result<bool, Failure> {
        let function = telling.get("function").filter(|it| it.kind() == JsonKind::Object).unwrap_or(telling);
        let text = |key| function.get(key).and_then(|value| value.as_str()).unwrap_or_default();
        let id = telling.get("id").and_then(|id| id.as_str()).unwrap_or_else(|| text("id"));
        let name = text("name");
        if id.is_empty() && name.is_empty() {
            return Ok(false);
        }
        let given = given(function, id.is_empty());
        if let Some(at) = self.calls.iter().rposition(|call| call.is(&id, &name) && call.is_waiting()) {
            self.go_on(at, &name, given, numbers, out)?;
        } else if !self.calls.iter().any(|call| call.repeats(&id, &name, given)) {
            self.displace(&id, numbers, out);
            let at = self.begin(&id)?;
            self.go_on(at, &name, given, numbers, out)?;
        }
        Ok(true)
    }

    /// Takes a result. Without an `id` it belongs to the oldest call that has none.
    pub(super) fn result(&mut self, id: &str, content: &str, numbers: &mut CallDeltas, out: &mut impl Sink) {
        let is_meant = |call: &Call| !call.name.is_empty() && (id.is_empty() || call.id == id);
        let Some(at) = self.calls.iter().position(is_meant) else {
            self.orphans += 1;
            return;
        };
        self.dispatch(at, None, numbers, out);
        let call = self.calls.remove(at);
        let State::Sent { index, .. } = call.state else { return };
        out.event(Event::CallResult(CallResult {
            index,
            id: Cow::Borrowed(&call.id),
            content: Cow::Borrowed(content),
            is_error: is_error(content),
        }));
    }

    /// Nothing more will come.
    pub(super) fn finish(&mut self, ending: Ending, numbers: &mut CallDeltas, out: &mut impl Sink) {
        for at in 0..self.calls.len() {
            let Some(call) = self.calls.get(at) else { break };
            if !call.is_waiting() {
                continue;
            }
            if ending == Ending::Well && !call.name.is_empty() {
                self.dispatch(at, None, numbers, out);
            } else {
                self.undispatched += 1;
            }
        }
        self.calls.clear();
    }

    /// Results without a call.
    pub(super) fn orphans(&self) -> u64 {
        self.orphans
    }

    /// Calls that were announced and never dispatched, or never named: they are left out.
    pub(super) fn undispatched(&self) -> u64 {
        self.undispatched
    }

    /// A call that waits for its arguments under `id` gets none any more: another call has that id now.
    fn displace(&mut self, id: &str, numbers: &mut CallDeltas, out: &mut impl Sink) {
        let same = |call: &Call| !id.is_empty() && call.id == id && call.is_waiting();
        if let Some(at) = self.calls.iter().position(same) {
            self.dispatch(at, None, numbers, out);
        }
    }

    fn begin(&mut self, id: &str) -> Result<usize, Failure> {
        if self.told >= self.limits.max_calls {
            return Err(self.limits.too_many_calls());
        }
        self.told += 1;
        let state = State::Waiting(Partial::default());
        self.calls.push(Call { id: id.to_owned(), name: String::new(), state });
        Ok(self.calls.len() - 1)
    }

    /// Adds what a telling says to the call at `at`, which waits, and sends it if that dispatches it.
    fn go_on(
        &mut self,
        at: usize,
        name: &str,
        given: Given<'_>,
        numbers: &mut CallDeltas,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        let State::Waiting(partial) = &mut call.state else { return Ok(()) };
        let is_named = !call.name.is_empty();
        match given {
            Given::Nothing => {}
            Given::Value(value) if is_named => {
                self.dispatch(at, Some(unwrapped(value).raw()), numbers, out);
                return Ok(());
            }
            Given::Value(value) => partial.replace(value.raw()),
            Given::Text(text) => {
                let body = text.as_str().unwrap_or_default();
                if is_named && partial.is_blank() {
                    // The usual case: all of it at once, and nothing to keep.
                    match Extent::of(&body) {
                        Extent::Whole => {
                            let object = Json::parse(&body).map(|object| unwrapped(object).raw());
                            self.dispatch(at, Some(object.unwrap_or(&body)), numbers, out);
                            return Ok(());
                        }
                        Extent::Foreign => {
                            self.dispatch(at, Some(text.raw()), numbers, out);
                            return Ok(());
                        }
                        Extent::Open => {}
                    }
                }
                partial.push(&body, text.raw());
            }
        }
        // What waits is kept, so it is limited here; what goes out at once, by the stage behind the reader.
        if partial.len() + call.id.len() + call.name.len() > self.limits.max_arguments {
            return Err(self.limits.arguments_too_long());
        }
        if is_named && partial.is_complete() {
            self.dispatch(at, None, numbers, out);
        }
        Ok(())
    }

    /// Sends the call at `at`, if it has not gone out: with `arguments`, or with what has come of them; `{}` if nothing
    /// has.
    fn dispatch(
        &mut self,
        at: usize,
        arguments: Option<&str>,
        numbers: &mut CallDeltas,
        out: &mut impl Sink,
    ) {
        let Some(call) = self.calls.get_mut(at) else { return };
        let State::Waiting(partial) = &call.state else { return };
        let arguments = arguments.unwrap_or_else(|| partial.text());
        let index = numbers.next_index();
        out.event(Event::CallStart(CallStart {
            index,
            id: Cow::Borrowed(&call.id),
            name: Cow::Borrowed(&call.name),
            runner: Runner::Upstream,
            source: Source::Native,
        }));
        out.event(Event::CallArguments { index, piece: Cow::Borrowed(arguments) });
        let is_whole = Extent::of(arguments) == Extent::Whole;
        out.event(Event::CallEnd { index, end: if is_whole { CallEnd::Complete } else { CallEnd::Cut } });
        call.state = State::Sent { index, arguments: Digest::of(arguments) };
    }
}

impl Call {
    fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting(_))
    }

    /// Whether a telling of `id` and `name` is of this call. Where both have an id that decides, unless the names
    /// differ; else the name does.
    fn is(&self, id: &str, name: &str) -> bool {
        if id.is_empty() || self.id.is_empty() {
            return self.name == name && !name.is_empty();
        }
        self.id == id && (name.is_empty() || self.name.is_empty() || self.name == name)
    }

    /// Whether a telling says nothing that this call, which has gone out, did not say.
    fn repeats(&self, id: &str, name: &str, given: Given<'_>) -> bool {
        let State::Sent { arguments, .. } = self.state else { return false };
        self.is(id, name)
            && match given {
                Given::Nothing => true,
                Given::Value(value) => Digest::of(unwrapped(value).raw()) == arguments,
                Given::Text(text) => {
                    let body = text.as_str().unwrap_or_default();
                    let object = Json::parse(&body).map(|object| Digest::of(unwrapped(object).raw()));
                    object == Ok(arguments) || Digest::of(text.raw()) == arguments
                }
            }
    }
}

/// What a telling gives as arguments. One without an id may be a copy that lacks them: an empty object says nothing.
fn given(function: Json<'_>, without_id: bool) -> Given<'_> {
    let member = |key| function.get(key).filter(|value| !value.is_null());
    let Some(value) = member("arguments").or_else(|| member("parameters")) else { return Given::Nothing };
    let is_empty = |json: Json<'_>| {
        json.is_null() || (without_id && json.kind() == JsonKind::Object && json.members().next().is_none())
    };
    let Some(text) = value.as_str() else {
        return if is_empty(value) { Given::Nothing } else { Given::Value(value) };
    };
    let says_nothing = text.trim_ascii().is_empty() || Json::parse(&text).is_ok_and(is_empty);
    if says_nothing { Given::Nothing } else { Given::Text(value) }
}

/// Lumo sometimes wraps the arguments in a call that says nothing else:
/// `{"arguments":null,"name":null,"parameters":{..}}` (docs/protocols/lumo.md#server-tools). Anything more in it, and it
/// is no wrapper.
fn unwrapped(object: Json<'_>) -> Json<'_> {
    let mut inner = None;
    let mut empty = 0;
    for (key, value) in object.members() {
        match key.as_ref() {
            "arguments" | "name" if value.is_null() => empty += 1,
            "parameters" if value.kind() == JsonKind::Object => inner = Some(value),
            _ => return object,
        }
    }
    inner.filter(|_| empty == 2).unwrap_or(object)
}

/// A tool that failed gives `{"error":true}` (docs/protocols/lumo.md#server-tools), or says there what went wrong.
fn is_error(content: &str) -> bool {
    let error = Json::parse(content).ok().and_then(|result| result.get("error"));
    error.is_some_and(|error| !error.is_null() && error.as_bool() != Some(false))
}

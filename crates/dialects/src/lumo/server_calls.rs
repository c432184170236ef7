//! [`ServerCalls`]: calls to tools that Lumo runs itself, or tries to run.
//!
//! A call may be reported several times. In v2, it is announced without arguments and then dispatched with
//! them, possibly in several pieces. In v1, it is repeated, and some copies lack the arguments
//! (docs/protocols/lumo.md#v1-stream, docs/protocols/lumo.md#v2-stream).
//!
//! A call is emitted when it is dispatched: when its arguments are complete, its result arrives, another call
//! takes over its id, or the response ends successfully. Until then it waits, without delaying anything else.
//! If a response fails or is cut off, the calls still waiting were never dispatched, and are not emitted.

use std::borrow::Cow;

use super::partial::{Extent, Partial};
use crate::{
    digest::Digest,
    event::{CallEnd, CallResult, CallStart, Event, Runner, Sink, Source},
    failure::Failure,
    rules::Limits,
    tool_calls::CallDeltas,
    wire::json::{Json, Kind as JsonKind},
};

#[derive(Debug)]
pub(super) struct ServerCalls {
    limits: Limits,
    /// The calls that are waiting or have no result yet, in the order of their first reports.
    calls: Vec<Call>,
    /// Number of calls reported so far, including completed ones.
    told: usize,
    undispatched: u64,
    orphans: u64,
}

#[derive(Debug)]
struct Call {
    id: String,
    /// Empty until a report gives the name.
    name: String,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Not dispatched yet. Contains the arguments received so far.
    Waiting(Partial),
    /// Emitted as `index`. Only a digest of the arguments is retained, to recognise repeated reports.
    Sent { index: u32, arguments: Digest },
}

#[derive(Debug, Clone, Copy)]
enum ReportedArguments<'a> {
    Nothing,
    /// A string that contains the JSON of the arguments, or a piece of it.
    Text(Json<'a>),
    /// Any other JSON, which is the arguments object itself.
    Value(Json<'a>),
}

/// How a response ended. This decides whether the calls that are still waiting are emitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Well,
    /// The model was interrupted, or the stream was cut off.
    Cut,
}

impl ServerCalls {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, calls: Vec::new(), told: 0, undispatched: 0, orphans: 0 }
    }

    pub(super) fn expect(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Handles one report of a call: an object with `name`, with `arguments` or `parameters`, and optionally
    /// with `id`, either directly or inside a `function`. Returns `false` if the object is not a call.
    ///
    /// # Errors
    /// A limit is exceeded.
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
        let reported = reported_arguments(function, id.is_empty());
        if let Some(at) = self.calls.iter().rposition(|call| call.is(&id, &name) && call.is_waiting()) {
            self.go_on(at, &name, reported, numbers, out)?;
        } else if !self.calls.iter().any(|call| call.repeats(&id, &name, reported)) {
            self.displace(&id, numbers, out);
            let at = self.begin(&id)?;
            self.go_on(at, &name, reported, numbers, out)?;
        }
        Ok(true)
    }

    /// Handles a result. A result without an `id` belongs to the oldest call that has no result.
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

    pub(super) fn orphans(&self) -> u64 {
        self.orphans
    }

    /// Number of calls that were announced but never dispatched or never named. They are left out.
    pub(super) fn undispatched(&self) -> u64 {
        self.undispatched
    }

    /// Dispatches the call that is waiting under `id`. Another call now uses the id, so no more arguments can
    /// arrive.
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

    /// Adds a report to the waiting call at `at` and emits the call if the report dispatches it.
    fn go_on(
        &mut self,
        at: usize,
        name: &str,
        reported: ReportedArguments<'_>,
        numbers: &mut CallDeltas,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        let State::Waiting(partial) = &mut call.state else { return Ok(()) };
        let is_named = !call.name.is_empty();
        match reported {
            ReportedArguments::Nothing => {}
            ReportedArguments::Value(value) if is_named => {
                self.dispatch(at, Some(unwrapped(value).raw()), numbers, out);
                return Ok(());
            }
            ReportedArguments::Value(value) => partial.replace(value.raw()),
            ReportedArguments::Text(text) => {
                let body = text.as_str().unwrap_or_default();
                if is_named && partial.is_blank() {
                    // Usually all arguments arrive at once, so there is nothing to collect.
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
        // Limited here because the call stays in memory. For calls that are emitted at once, the stage after
        // the reader enforces the limit.
        if partial.len() + call.id.len() + call.name.len() > self.limits.max_arguments {
            return Err(self.limits.arguments_too_long());
        }
        if is_named && partial.is_complete() {
            self.dispatch(at, None, numbers, out);
        }
        Ok(())
    }

    /// Emits the call at `at`, unless that has already been done. Its arguments are the given ones, or else
    /// what has been received so far, or else `{}`.
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
            signature: None,
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

    /// Whether a report with `id` and `name` belongs to this call. If both have an id, the ids must be equal
    /// and the names must not contradict each other; otherwise, the names must be equal.
    fn is(&self, id: &str, name: &str) -> bool {
        if id.is_empty() || self.id.is_empty() {
            return self.name == name && !name.is_empty();
        }
        self.id == id && (name.is_empty() || self.name.is_empty() || self.name == name)
    }

    /// Whether this call has been emitted and a report adds nothing to it.
    fn repeats(&self, id: &str, name: &str, reported: ReportedArguments<'_>) -> bool {
        let State::Sent { arguments, .. } = self.state else { return false };
        self.is(id, name)
            && match reported {
                ReportedArguments::Nothing => true,
                ReportedArguments::Value(value) => Digest::of(unwrapped(value).raw()) == arguments,
                ReportedArguments::Text(text) => {
                    let body = text.as_str().unwrap_or_default();
                    let object = Json::parse(&body).map(|object| Digest::of(unwrapped(object).raw()));
                    object == Ok(arguments) || Digest::of(text.raw()) == arguments
                }
            }
    }
}

/// The arguments in a report. If a report has no id, it may be a copy that lacks the arguments, so `{}`
/// counts as absent.
fn reported_arguments(function: Json<'_>, without_id: bool) -> ReportedArguments<'_> {
    let member = |key| function.get(key).filter(|value| !value.is_null());
    let Some(value) = member("arguments").or_else(|| member("parameters")) else {
        return ReportedArguments::Nothing;
    };
    let is_empty = |json: Json<'_>| {
        json.is_null() || (without_id && json.kind() == JsonKind::Object && json.members().next().is_none())
    };
    let Some(text) = value.as_str() else {
        return if is_empty(value) { ReportedArguments::Nothing } else { ReportedArguments::Value(value) };
    };
    let says_nothing = text.trim_ascii().is_empty() || Json::parse(&text).is_ok_and(is_empty);
    if says_nothing { ReportedArguments::Nothing } else { ReportedArguments::Text(value) }
}

/// Unwraps arguments that Lumo has wrapped in another call:
/// `{"arguments":null,"name":null,"parameters":{..}}` (docs/protocols/lumo.md#server-tools). An object with
/// other members is not such a wrapper.
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

/// Whether a result reports that the tool failed: `{"error":true}` (docs/protocols/lumo.md#server-tools), or
/// a description as the value of `error`.
fn is_error(content: &str) -> bool {
    let error = Json::parse(content).ok().and_then(|result| result.get("error"));
    error.is_some_and(|error| !error.is_null() && error.as_bool() != Some(false))
}

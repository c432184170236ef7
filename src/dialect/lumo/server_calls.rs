//! [`ServerCalls`]: tools that Lumo runs itself, or believes to.
//!
//! One call may be told several times: v2 announces it without arguments and then dispatches it with them; v1 repeats
//! it, some copies without arguments (Lumo 1.2, 1.4). All of them are one call with the best arguments. A call that has
//! got none waits for a better copy until text, its result or the end of the answer shows that none will come.

use std::borrow::Cow;

use crate::{
    dialect::tool_calls::CallDeltas,
    event::{CallEnd, CallResult, CallStart, Event, Runner, Sink, Source},
    wire::json::{Json, Kind},
};

/// Announced calls that may wait at once. One more, and none waits any longer.
const MAX_ANNOUNCED: usize = 128;

/// The server-tool calls of one answer.
#[derive(Debug, Default)]
pub(super) struct ServerCalls {
    announced: Vec<Announced>,
    made: Vec<Made>,
    orphans: u64,
}

/// A call that waits for its arguments.
#[derive(Debug)]
struct Announced {
    id: String,
    name: String,
}

/// A call that has gone out.
#[derive(Debug)]
struct Made {
    id: String,
    name: String,
    /// Of a call without an id: by them a repeated telling is known.
    arguments: String,
    index: u32,
    answered: bool,
}

impl ServerCalls {
    /// Takes one telling of a call, an object with `name`, `arguments` or `parameters`, and maybe `id`. `false`: it is
    /// no call.
    pub(super) fn call(&mut self, call: Json<'_>, numbers: &mut CallDeltas, out: &mut impl Sink) -> bool {
        let text = |key| call.get(key).and_then(|value| value.as_str()).unwrap_or_default();
        let (id, name) = (text("id"), text("name"));
        if !id.is_empty() && self.made.iter().any(|made| made.id == id) {
            return true;
        }
        let waiting = self.announced.iter().position(|call| call.is(&id, &name));
        let given = arguments(call).filter(|arguments| !(id.is_empty() && arguments.is_empty()));
        let Some(given) = given else {
            self.announce(waiting, &id, &name, numbers, out);
            return waiting.is_some() || !name.is_empty();
        };
        let same = |made: &Made| {
            id.is_empty() && !made.answered && made.name == name && made.arguments == given.text
        };
        if self.made.iter().any(same) {
            return true;
        }
        let Announced { id, name } = match waiting {
            Some(at) => self.announced.remove(at),
            None => Announced { id: id.into_owned(), name: name.into_owned() },
        };
        if !name.is_empty() {
            self.make(Announced { id, name }, &given, numbers, out);
            return true;
        }
        false
    }

    /// Takes a result. Without an `id` it belongs to the oldest call that has none. `is_error`s are told by content.
    pub(super) fn result(&mut self, id: &str, content: &str, numbers: &mut CallDeltas, out: &mut impl Sink) {
        if id.is_empty() {
            self.flush(numbers, out);
        } else if let Some(at) = self.announced.iter().position(|call| call.id == id) {
            let call = self.announced.remove(at);
            self.make(call, &Arguments::none(), numbers, out);
        }
        let call = self.made.iter_mut().find(|made| !made.answered && (id.is_empty() || made.id == id));
        let Some(call) = call else {
            self.orphans += 1;
            return;
        };
        call.answered = true;
        call.arguments = String::new();
        out.event(Event::CallResult(CallResult {
            index: call.index,
            id: Cow::Borrowed(&call.id),
            content: Cow::Borrowed(content),
            is_error: is_error(content),
        }));
    }

    /// No better copy will come: calls that wait go out without arguments.
    pub(super) fn flush(&mut self, numbers: &mut CallDeltas, out: &mut impl Sink) {
        for call in std::mem::take(&mut self.announced) {
            self.make(call, &Arguments::none(), numbers, out);
        }
    }

    /// Results without a call.
    pub(super) fn orphans(&self) -> u64 {
        self.orphans
    }

    fn announce(
        &mut self,
        waiting: Option<usize>,
        id: &str,
        name: &str,
        numbers: &mut CallDeltas,
        out: &mut impl Sink,
    ) {
        // A copy that adds nothing: the call waits already, or is under way with arguments.
        let made = |made: &Made| id.is_empty() && made.name == name && !made.answered;
        if waiting.is_some() || name.is_empty() || self.made.iter().any(made) {
            return;
        }
        if self.announced.len() >= MAX_ANNOUNCED {
            self.flush(numbers, out);
        }
        self.announced.push(Announced { id: id.to_owned(), name: name.to_owned() });
    }

    fn make(
        &mut self,
        call: Announced,
        arguments: &Arguments<'_>,
        numbers: &mut CallDeltas,
        out: &mut impl Sink,
    ) {
        let index = numbers.next_index();
        out.event(Event::CallStart(CallStart {
            index,
            id: Cow::Borrowed(&call.id),
            name: Cow::Borrowed(&call.name),
            runner: Runner::Upstream,
            source: Source::Native,
        }));
        out.event(Event::CallArguments { index, piece: Cow::Borrowed(&arguments.text) });
        let end = if arguments.is_object() { CallEnd::Complete } else { CallEnd::Cut };
        out.event(Event::CallEnd { index, end });
        let arguments = if call.id.is_empty() { arguments.text.to_string() } else { String::new() };
        self.made.push(Made { id: call.id, name: call.name, arguments, index, answered: false });
    }
}

impl Announced {
    /// Whether a telling of `id` and `name` is of this call: by id, and by name where one of both has no id.
    fn is(&self, id: &str, name: &str) -> bool {
        if id.is_empty() || self.id.is_empty() { self.name == name } else { self.id == id }
    }
}

/// The arguments of a call: JSON, as the model wrote it.
#[derive(Debug)]
struct Arguments<'a> {
    text: Cow<'a, str>,
}

impl Arguments<'static> {
    fn none() -> Self {
        Self { text: Cow::Borrowed("{}") }
    }
}

impl Arguments<'_> {
    fn is_object(&self) -> bool {
        self.text.starts_with('{')
    }

    fn is_empty(&self) -> bool {
        Json::parse(&self.text).is_ok_and(|json| self.is_object() && json.members().next().is_none())
    }
}

/// What a telling gives as arguments; `None`: nothing.
fn arguments(call: Json<'_>) -> Option<Arguments<'_>> {
    let given = |key| call.get(key).filter(|value| !value.is_null());
    let value = given("arguments").or_else(|| given("parameters"))?;
    let Some(text) = value.as_str() else {
        return Some(Arguments { text: Cow::Borrowed(unwrapped(value).raw()) });
    };
    if text.trim_ascii().is_empty() {
        return None;
    }
    // A string that holds an object is that object; any other is a value of its own, and stays one.
    let text = match Json::parse(&text) {
        Ok(object) if object.kind() == Kind::Object => Cow::Owned(unwrapped(object).raw().to_owned()),
        Ok(nothing) if nothing.is_null() => return None,
        _ => Cow::Borrowed(value.raw()),
    };
    Some(Arguments { text })
}

/// Lumo sometimes wraps the arguments in a call that says nothing else:
/// `{"arguments":null,"name":null,"parameters":{..}}` (Lumo 1.6). Anything more in it, and it is no wrapper.
fn unwrapped(object: Json<'_>) -> Json<'_> {
    let mut inner = None;
    let mut empty = 0;
    for (key, value) in object.members() {
        match key.as_ref() {
            "arguments" | "name" if value.is_null() => empty += 1,
            "parameters" if value.kind() == Kind::Object => inner = Some(value),
            _ => return object,
        }
    }
    inner.filter(|_| empty == 2).unwrap_or(object)
}

/// A tool that failed gives `{"error":true}` (Lumo 1.6), or says there what went wrong.
fn is_error(content: &str) -> bool {
    let error = Json::parse(content).ok().and_then(|result| result.get("error"));
    error.is_some_and(|error| !error.is_null() && error.as_bool() != Some(false))
}

//! Recovers the model's text from an error: some servers reject a response in which they cannot parse a call,
//! and include the model's text in the error. If the text contains a call, it becomes the response.

use std::borrow::Cow;

use bytes::BytesMut;

use super::{
    Pipeline, State,
    stages::{Stages, ToCalls},
};
use crate::{
    event::{CallEnd, CallStart, Event, Finish, Runner, Sink},
    failure::Failure,
};

/// Maximum size, in bytes, of a model's text inside an error. The text is processed in one go while other
/// responses wait. Servers that send such errors do not produce responses this long.
const MAX_TEXT: usize = 256 << 10;

impl Pipeline {
    /// Processes the text inside `failure` as the hop's response and ends the hop. Returns `false` and
    /// changes nothing if there is no such text, or if it contains no complete call to a declared tool.
    pub fn recover(&mut self, failure: &Failure, out: &mut BytesMut) -> bool {
        let may_read = |text: &&str| self.state == State::Open && !self.is_behind() && text.len() <= MAX_TEXT;
        let Some(text) = failure.generation().filter(may_read) else { return false };
        let is_begun = self.reader.has_content();
        let Some(events) = self.stages.calls_in(&as_known(text), is_begun, out) else { return false };
        let (calls, next) = self.stages.calls_and_writer(out);
        let mut next = ToCalls { calls, next };
        events.into_iter().for_each(|event| next.event(event));
        self.settle(Ok(()), true, out);
        true
    }
}

/// Rewrites `text` in a format that the detector knows. Llama on Groq also writes
/// `<function=NAME{…}</function>`, `<function(NAME){…}`, and Python calls without a marker. In a normal
/// response these would be read as prose, but here the server has rejected them as calls.
fn as_known(text: &str) -> Cow<'_, str> {
    let whole = text.trim();
    let is_list = whole.starts_with('[') && whole.ends_with(")]");
    let is_call = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
    };
    if is_list
        && whole
            .get(1..)
            .and_then(|inner| inner.split_once('('))
            .is_some_and(|(name, _)| is_call(name.trim()))
    {
        return Cow::Owned(format!("<|tool_call_start|>{whole}<|tool_call_end|>"));
    }
    let mut known = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("<function") {
        let inner = behind.strip_prefix(['=', '(']);
        // The search stops at the next tag, so that each byte is examined only once.
        let open =
            |inner: &&str| inner.find(['{', '<']).is_some_and(|at| inner.as_bytes().get(at) == Some(&b'{'));
        let head = inner.filter(open).and_then(|inner| inner.split_once('{'));
        let name = head.map(|(name, _)| name.trim_end_matches([')', ',', ' ', '\n', '>']));
        known.push_str(before);
        match (name.filter(|name| is_call(name)), head) {
            (Some(name), Some((_, arguments))) => {
                known.push_str(&format!("<function={name}>{{"));
                rest = arguments;
            }
            _ => {
                known.push_str("<function");
                rest = behind;
            }
        }
    }
    if known.is_empty() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(known + rest)
}

impl Stages {
    /// The events of a response with this text, or `None` if the text has no complete call to a declared
    /// tool. `is_begun` is set if the client has already received the text before the call.
    fn calls_in(&mut self, text: &str, is_begun: bool, out: &mut BytesMut) -> Option<Vec<Event<'static>>> {
        if self.prefill.is_active() || self.calls.has_calls() || self.detector.is_none() {
            return None;
        }
        let mut events: Vec<Event<'static>> = Vec::new();
        self.end_text(out, |detector, next| {
            detector.next_answer(next);
            detector.event(Event::Text(text.into()), &mut events);
            detector.event(Event::Finish(Finish::Calls), &mut events);
            detector.next_answer(&mut events);
        });
        let is_declared = |start: &CallStart<'_>| {
            start.runner == Runner::Client && self.calls.tools().resolve(&start.name).is_some()
        };
        let is_complete = |index: u32| {
            let end = Event::CallEnd { index, end: CallEnd::Complete };
            events.contains(&end)
        };
        let has_call = events.iter().any(|event| match event {
            Event::CallStart(start) => is_declared(start) && is_complete(start.index),
            _ => false,
        });
        if is_begun {
            let first = events.iter().position(|event| matches!(event, Event::CallStart(_)));
            events.drain(..first.unwrap_or_default());
        }
        has_call.then_some(events)
    }
}

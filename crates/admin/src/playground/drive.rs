//! [`Driven`]: the task of a chat. It reads the response as a client of the chosen dialect would, and passes it on to
//! the chat.

use std::{
    collections::HashMap,
    future::{pending, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::super::error::wait_seconds;
use super::{
    chat::{Chat, Saying},
    request::ChatRequest,
};
use toolwire_execution::{AuditEvent, ExchangeId, Record, Subject, Subscription, audit::unix_millis};
use toolwire_gateway::{
    answer::AnswerBody,
    observe::finish_name,
    reply,
    report::{failed, millis, usage},
};
use toolwire_pipeline::{
    conversation,
    dialect::{Asked, Dialect, Reader, ReaderRules},
    event::{CallStart, Event, Finish, ServerCall, Sink, Usage},
    failure::{Failure, Kind},
    rules::Limits,
    tools::DeclaredTools,
};

/// Maximum size of a frame in bytes. In some dialects, the last frame repeats the entire response.
const MAX_FRAME: usize = 16 << 20;

#[derive(Debug)]
pub(crate) struct Driven {
    answer: Pin<Box<AnswerBody>>,
    /// The source of hosted calls, which responses do not contain. `None` if there are no hosted tools.
    bus: Option<Subscription>,
    exchange: ExchangeId,
    reader: Reader,
    telling: Telling,
    /// Number of bytes of each hosted call's arguments that were passed on, by the call's id. `None` if contents are not
    /// captured.
    inputs: Option<HashMap<String, usize>>,
}

/// What the task waits for.
#[derive(Debug)]
enum Step {
    Committed(Result<(), Failure>),
    Read { has_more: bool },
}

/// The state of a response as it is passed on.
#[derive(Debug)]
struct Telling {
    begun: Instant,
    first_content: Option<Duration>,
    hops: usize,
    calls: HashMap<u32, Call>,
    usage: Usage,
    finish: Option<Finish>,
    warnings: Vec<Value>,
}

#[derive(Debug)]
struct Call {
    saying: Saying,
    arguments: String,
}

impl Driven {
    /// Creates the task that reads `answer`, the response to `request`. If `is_captured`, the arguments of hosted calls
    /// are passed on as the model writes them.
    pub(crate) fn new(
        request: &ChatRequest,
        exchange: ExchangeId,
        answer: Pin<Box<AnswerBody>>,
        bus: Option<Subscription>,
        is_captured: bool,
    ) -> Self {
        // Frames in the client's dialect may be passed through unread. No response is in Lumo, so all frames are read.
        let rules = ReaderRules { max_frame: MAX_FRAME, tolerate_truncation: false, client: Dialect::Lumo };
        let mut reader = request.spoken.side().reader(&rules);
        let limits = Limits { max_frame: MAX_FRAME, ..Limits::default() };
        let tools = DeclaredTools::default();
        reader.expect(Asked { tools, limits, stream: true, several: false, repair: false });
        let inputs = is_captured.then(HashMap::new);
        Self { answer, bus, exchange, reader, telling: Telling::begin(), inputs }
    }

    /// Passes the response on to `chat`, until it ends or the chat is abandoned.
    pub(super) async fn run(self, chat: &Chat) {
        let mut abandoned = pin!(chat.abandoned());
        tokio::select! {
            () = self.tell(chat) => {}
            // Dropping the response cancels the request to the upstream.
            () = &mut abandoned => return chat.end(),
        }
        chat.end();
        abandoned.await;
    }

    async fn tell(mut self, chat: &Chat) {
        let mut is_committed = false;
        loop {
            let Self { answer, bus, inputs, .. } = &mut self;
            let step = poll_fn(|cx| {
                let step = match is_committed {
                    false => answer.as_mut().poll_commit(cx).map(Step::Committed),
                    true => answer.as_mut().poll_some(cx).map(|has_more| Step::Read { has_more }),
                };
                // Otherwise, there is text that comes before the call.
                if let (Poll::Pending, Some(inputs)) = (&step, &mut *inputs) {
                    tell_inputs(chat, inputs, answer.hosted_calls());
                }
                step
            });
            tokio::select! {
                // Polled in order, so that text before a call is passed on before the call.
                biased;
                step = step => match step {
                    Step::Committed(result) => {
                        is_committed = true;
                        let failure = result.as_ref().err().cloned();
                        self.answer = reply::answer(self.answer, result).1;
                        if let Some(failure) = failure {
                            return self.fail(chat, &failure);
                        }
                    }
                    Step::Read { has_more } => {
                        if let Err(failure) = self.read(chat) {
                            return self.fail(chat, &failure);
                        }
                        if !has_more {
                            return self.complete(chat);
                        }
                    }
                },
                record = next(bus) => self.called(chat, &record),
            }
        }
    }

    /// Reads the bytes that are ready for the client.
    fn read(&mut self, chat: &Chat) -> Result<(), Failure> {
        let mut bytes = self.answer.as_mut().take();
        let mut told = Told { chat, telling: &mut self.telling };
        let read = if bytes.is_empty() { Ok(()) } else { self.reader.push(&bytes, &mut told) };
        bytes.clear();
        self.answer.as_mut().put_back(bytes);
        // Returns the failure itself, rather than the error in the dialect's format that the client received.
        self.answer.failure().cloned().map_or(read, Err)
    }

    /// Passes on a hosted call if it belongs to this exchange.
    fn called(&mut self, chat: &Chat, record: &Record) {
        let Some(subject) = record.subject.as_ref().filter(|own| own.exchange.own == self.exchange.own)
        else {
            return;
        };
        self.telling.hops = self.telling.hops.max(subject.hop);
        let is_call = matches!(
            record.event,
            AuditEvent::ToolUse { .. } | AuditEvent::ToolProgress { .. } | AuditEvent::ToolResult { .. }
        );
        if is_call {
            chat.event(record.event.name(), &Value::Object(record.data()));
        }
    }

    /// Passes on the events that are already on the bus.
    fn catch_up(&mut self, chat: &Chat) {
        while let Some(record) = self.bus.as_mut().and_then(|bus| bus.try_recv().ok()) {
            self.called(chat, &record);
        }
    }

    fn complete(mut self, chat: &Chat) {
        self.catch_up(chat);
        let finished = self.reader.finish(&mut Told { chat, telling: &mut self.telling });
        let Telling { begun, first_content, hops, usage: used, finish, warnings, .. } = &self.telling;
        let Some(finish) = finish else {
            let missing = Failure::new(Kind::Truncated, "the response has no end");
            return self.fail(chat, &finished.err().unwrap_or(missing));
        };
        let mut data = json!({
            "t": unix_millis(), "exchange": *self.exchange.own, "request": *self.exchange.request, "hop": hops,
            "finish": finish_name(*finish), "usage": usage(used.input, used.output),
            "ms": millis(begun.elapsed()), "ttft_ms": first_content.map(millis),
        });
        if let (Value::Object(data), false) = (&mut data, warnings.is_empty()) {
            data.insert("warnings".to_owned(), warnings.clone().into());
        }
        chat.event("message_complete", &data);
    }

    fn fail(mut self, chat: &Chat, failure: &Failure) {
        self.catch_up(chat);
        let subject = Subject { exchange: self.exchange.clone(), hop: self.telling.hops };
        let event = failed(failure);
        let record = Record { sequence: 0, t: unix_millis(), subject: Some(subject), event };
        let mut data = Value::Object(record.data());
        if let Some(error) = data.get_mut("error").and_then(Value::as_object_mut) {
            error.insert("status".to_owned(), failure.status().into());
            error.extend(wait_seconds(failure).map(|wait| ("retry_after_s".to_owned(), wait.into())));
        }
        chat.event(record.event.name(), &data);
    }
}

/// Passes on what is new of the arguments of hosted calls. `told` counts the bytes that were passed on of each call.
fn tell_inputs<'c>(
    chat: &Chat,
    told: &mut HashMap<String, usize>,
    calls: impl Iterator<Item = &'c conversation::Call>,
) {
    for conversation::Call { id, name, arguments, .. } in calls {
        let before = told.get(id).copied().unwrap_or(0);
        if let Some(new) = arguments.get(before..).filter(|new| !new.is_empty()) {
            chat.says(&Saying::Input(id.clone(), name.clone()), new);
            told.insert(id.clone(), arguments.len());
        }
    }
}

/// Returns the next event on the bus. Gaps are ignored: they are rare, and the exchange's record has the missed calls.
async fn next(bus: &mut Option<Subscription>) -> Arc<Record> {
    use tokio::sync::broadcast::error::RecvError;
    loop {
        match bus {
            None => pending().await,
            Some(own) => match own.recv().await {
                Ok(record) => return record,
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => *bus = None,
            },
        }
    }
}

struct Told<'c> {
    chat: &'c Chat,
    telling: &'c mut Telling,
}

impl Sink for Told<'_> {
    fn event(&mut self, event: Event<'_>) {
        let Self { chat, telling } = self;
        match event {
            Event::Text(text) | Event::Refusal(text) => telling.says(chat, &Saying::Content, &text),
            Event::Reasoning(reasoning) => telling.says(chat, &Saying::Reasoning, &reasoning.text),
            Event::CallStart(CallStart { index, id, name, .. }) => {
                let data = json!({"toolCall": {"id": id, "name": name, "input_bytes": 0}});
                chat.event("tool_use", &data);
                let saying = Saying::Input(id.into_owned(), name.into_owned());
                telling.calls.insert(index, Call { saying, arguments: String::new() });
            }
            Event::CallArguments { index, piece } => {
                if let Some(call) = telling.calls.get_mut(&index) {
                    call.arguments.push_str(&piece);
                    chat.says(&call.saying, &piece);
                }
            }
            Event::CallEnd { index, .. } => telling.call_complete(chat, index),
            Event::ServerCall(server) => tell_server_call(chat, &server),
            Event::CallResult(result) => {
                // In some dialects, a call is known to be complete only at the end of the response.
                telling.call_complete(chat, result.index);
                let data =
                    json!({"toolCall": {"id": result.id}, "result": result.content, "ok": !result.is_error});
                chat.event("tool_result", &data);
            }
            Event::Usage(usage) => telling.usage = usage,
            Event::Finish(finish) => telling.finish = Some(finish),
            Event::Warning(warning) => {
                telling.warnings.push(json!({"code": warning.code, "message": warning.message}));
            }
            Event::Verbatim { means: Some(event), .. } => self.event(event.clone()),
            Event::Start(_)
            | Event::Annotation(_)
            | Event::Media(_)
            | Event::Mcp(_)
            | Event::Ping(_)
            | Event::Phase { .. }
            | Event::Verbatim { means: None, .. } => {}
        }
    }
}

impl Telling {
    fn begin() -> Self {
        Self {
            begun: Instant::now(),
            first_content: None,
            hops: 1,
            calls: HashMap::new(),
            usage: Usage::default(),
            finish: None,
            warnings: Vec::new(),
        }
    }

    fn says(&mut self, chat: &Chat, saying: &Saying, text: &str) {
        if !text.is_empty() {
            self.first_content.get_or_insert_with(|| self.begun.elapsed());
            chat.says(saying, text);
        }
    }

    /// Passes on the complete call, unless it was passed on before.
    fn call_complete(&mut self, chat: &Chat, index: u32) {
        if let Some(Call { saying: Saying::Input(id, name), arguments }) = self.calls.remove(&index) {
            chat.event("tool_use", &json!({"toolCall": call(&id, &name, &arguments)}));
        }
    }
}

/// Passes on a call that was run by the upstream or by toolwire.
fn tell_server_call(chat: &Chat, server: &ServerCall<'_>) {
    let ServerCall { id, name, arguments, content, is_error, .. } = server;
    if let Some(arguments) = arguments {
        chat.event("tool_use", &json!({"toolCall": call(id, name, arguments)}));
    }
    if let Some(content) = content {
        let data = json!({"toolCall": {"id": id, "name": name}, "result": content, "ok": !is_error});
        chat.event("tool_result", &data);
    }
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    let input = serde_json::from_str(arguments).unwrap_or_else(|_| Value::from(arguments));
    json!({"id": id, "name": name, "input": input, "input_bytes": arguments.len()})
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use toolwire_net::redact::Redactor;
    use toolwire_pipeline::event::{CallEnd, CallResult, Runner, Source};

    #[test]
    fn call_is_complete_before_its_result() {
        let chat = Chat::new("ex_1".into(), None, &Redactor::new([]));
        let mut telling = Telling::begin();
        let mut told = Told { chat: &chat, telling: &mut telling };
        let start = CallStart {
            index: 0,
            id: Cow::Borrowed("n1"),
            name: Cow::Borrowed("web_search"),
            runner: Runner::Upstream,
            source: Source::Native,
            signature: None,
        };
        told.event(Event::CallStart(start));
        told.event(Event::CallArguments { index: 0, piece: Cow::Borrowed("{\"query\":") });
        told.event(Event::CallArguments { index: 0, piece: Cow::Borrowed("\"rain\"}") });
        let result =
            CallResult { index: 0, id: Cow::Borrowed("n1"), content: Cow::Borrowed("wet"), is_error: false };
        told.event(Event::CallResult(result));
        told.event(Event::Text(Cow::Borrowed("It rains.")));
        told.event(Event::CallEnd { index: 0, end: CallEnd::Complete });
        let events = chat.told();
        let names: Vec<_> = events.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["tool_use", "tool_use", "tool_use", "tool_result", "message_update"]);
        assert_eq!(events[1].1["input_text"], "{\"query\":\"rain\"}");
        assert_eq!(events[2].1["toolCall"]["input"], json!({"query": "rain"}));
        assert_eq!(events[3].1["result"], "wet");
    }
}

//! [`Calls`]: the request's rules for calls, wherever they came from.
//!
//! Between detection and the writer every call passes here. It gets its final index (dense, from 0) and a unique id,
//! is counted and limited, and the request's and the model's rules are applied: calls that the upstream ran itself
//! are forwarded, cited or hidden; a declared tool called over the upstream's own channel is rescued; one call only,
//! where the client asked for that; whole arguments, where the configuration does. The finish reason is made to agree
//! with what was sent. Text passes untouched, but for an apology after a rescued call.

use std::borrow::Cow;

use super::{Arguments, CallTally, Misroute, ServerCalls, Settings, Tally};
use crate::{
    conversation::Conversation,
    detect::{
        Tools,
        text::{boundary_upto, head},
    },
    dialect::{Ids, Stamp},
    event::{Annotation, CallEnd, CallResult, CallStart, Event, Finish, Runner, Sink, Source},
    failure::{Failure, Kind},
    wire::json::Json,
};

/// What becomes of a call.
#[derive(Debug)]
enum Fate {
    /// It goes out under this index.
    Sent { index: u32, bytes: usize, runner: Runner },
    /// It waits for its end.
    Waits { start: CallStart<'static>, arguments: String, rescue: bool },
    /// It is left out; its result may still be cited.
    Hidden,
    /// It was the client's, and is out: its result is the upstream's refusal to run it.
    Rescued,
}

/// A call that lacks required arguments, and for which the model is to be asked once more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bounce {
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) missing: Vec<String>,
}

/// The stage that applies the rules.
#[derive(Debug)]
pub(super) struct Calls {
    tools: Tools,
    settings: Settings,
    parallel: bool,
    ids: Ids,
    /// Calls by the reader's or detector's index, in order of appearance.
    fates: Vec<(u32, Fate)>,
    /// Calls that were begun, also those that are left out: each is remembered.
    begun: usize,
    sent_ids: Vec<String>,
    rescued: Vec<(String, String)>,
    client_calls: usize,
    cut: bool,
    /// Characters of text sent: where citations belong.
    characters: u64,
    /// Text sent so far, where a bounce would have to repeat it.
    said: String,
    bounced: bool,
    pub(super) bounce: Option<Bounce>,
    pub(super) failure: Option<Failure>,
    pub(super) tally: Tally,
}

impl Calls {
    pub(super) fn new(conversation: &Conversation, tools: Tools, settings: &Settings, stamp: &Stamp) -> Self {
        Self {
            tools,
            settings: settings.clone(),
            parallel: conversation.parallel_calls,
            ids: Ids::new(stamp.seed, 1),
            fates: Vec::new(),
            begun: 0,
            sent_ids: Vec::new(),
            rescued: Vec::new(),
            client_calls: 0,
            cut: false,
            characters: 0,
            said: String::new(),
            bounced: false,
            bounce: None,
            failure: None,
            tally: Tally::default(),
        }
    }

    /// What the model has said so far, kept only where a bounce may need it.
    pub(super) fn said(&self) -> &str {
        &self.said
    }

    /// Another upstream answer follows: its calls are numbered from 0 again.
    pub(super) fn next_hop(&mut self) {
        self.fates.clear();
        self.bounce = None;
        self.bounced = true;
    }

    /// Takes an event; `frame` is the upstream's frame of it, if that may be forwarded as it is.
    pub(super) fn event(&mut self, event: Event<'_>, out: &mut impl Sink) {
        if self.failure.is_some() || self.bounce.is_some() {
            return;
        }
        match event {
            Event::Verbatim { frame, means: Some(means) } => self.take(means.clone(), Some(frame), out),
            event => self.take(event, None, out),
        }
    }

    fn take(&mut self, event: Event<'_>, frame: Option<&str>, out: &mut impl Sink) {
        match event {
            Event::Text(text) => self.text(text, frame, out),
            Event::CallStart(start) => self.start(start, frame, out),
            Event::CallArguments { index, piece } => self.arguments(index, piece, frame, out),
            Event::CallEnd { index, end } => self.end(index, end, frame, out),
            Event::CallResult(result) => self.result(result, out),
            Event::Finish(finish) => {
                let agreed = self.finish(finish);
                self.tally.finish = Some(agreed);
                send(Event::Finish(agreed), frame.filter(|_| agreed == finish), out);
            }
            Event::Usage(usage) => {
                self.tally.input_tokens = usage.input.or(self.tally.input_tokens);
                self.tally.output_tokens = usage.output.or(self.tally.output_tokens);
                send(Event::Usage(usage), frame, out);
            }
            event => send(event, frame, out),
        }
    }

    fn text(&mut self, text: Cow<'_, str>, frame: Option<&str>, out: &mut impl Sink) {
        if !self.rescued.is_empty() {
            return;
        }
        if self.settings.server_calls == ServerCalls::Annotate {
            self.characters += u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        }
        // What does not fit is left out of the repeat: the model then sees the beginning of what it said.
        let fits = self.said.len() + text.len() <= self.settings.limits.max_hold;
        if self.settings.misroute == Misroute::Bounce && !self.bounced && fits {
            self.said.push_str(&text);
        }
        send(Event::Text(text), frame, out);
    }

    fn start(&mut self, mut start: CallStart<'_>, frame: Option<&str>, out: &mut impl Sink) {
        let limit = self.settings.limits.max_calls;
        if self.begun >= limit {
            let message = format!("the answer has more than {limit} tool calls (limits.max_calls)");
            self.failure = Some(Failure::new(Kind::Limit, message));
            return;
        }
        self.begun += 1;
        let source = start.index;
        let written = start.name.clone();
        let rescue = start.runner == Runner::Upstream && self.is_misrouted(&written);
        if rescue {
            start.runner = Runner::Client;
        }
        if start.runner == Runner::Upstream && self.settings.server_calls != ServerCalls::Forward {
            self.fates.push((source, Fate::Hidden));
            return;
        }
        if start.runner == Runner::Client
            && let Some(declared) = self.tools.resolve(&written)
        {
            start.name = Cow::Owned(declared.to_owned());
        }
        let whole = self.settings.arguments == Arguments::Whole;
        if rescue || (whole && start.runner == Runner::Client) {
            let Event::CallStart(start) = Event::CallStart(start).into_owned() else { return };
            self.fates.push((source, Fate::Waits { start, arguments: String::new(), rescue }));
            return;
        }
        self.fates.push((source, Fate::Hidden));
        if let Some(fate) = self.send_start(start, frame, out) {
            self.settle(source, fate);
        }
    }

    /// A call on the upstream's own channel is the client's if the client declared the name; where tools are taught
    /// with a prefix, an unprefixed name that the upstream has too is the upstream's.
    fn is_misrouted(&self, written: &str) -> bool {
        let prefixed = self.tools.unprefixed(written).is_some_and(|name| self.tools.resolve(name).is_some());
        let theirs =
            self.tools.is_prefixed() && self.settings.server_tools.iter().any(|name| name == written);
        prefixed || (self.tools.resolve(written).is_some() && !theirs)
    }

    /// Sends a call's beginning, with its final index and id; `None` if it is dropped.
    fn send_start(
        &mut self,
        mut start: CallStart<'_>,
        frame: Option<&str>,
        out: &mut impl Sink,
    ) -> Option<Fate> {
        let runner = start.runner;
        if runner == Runner::Client {
            if !self.parallel && self.client_calls > 0 {
                self.tally.dropped_calls += 1;
                return None;
            }
            self.client_calls += 1;
        }
        let index = u32::try_from(self.sent_ids.len()).unwrap_or(u32::MAX);
        let fresh = start.id.is_empty() || self.sent_ids.iter().any(|id| *id == *start.id);
        let same = index == start.index && !fresh;
        if fresh {
            start.id = Cow::Owned(self.ids.next("call_"));
        }
        start.index = index;
        self.sent_ids.push(start.id.clone().into_owned());
        let format = match start.source {
            Source::Native | Source::NativeCustom => "native",
            Source::Format(name) => name,
        };
        let name = self.tools.resolve(&start.name).map(str::to_owned);
        let renamed = name.as_deref().is_some_and(|name| name != start.name);
        self.tally.calls.push(CallTally { format, name });
        send(Event::CallStart(start), frame.filter(|_| same && !renamed), out);
        Some(Fate::Sent { index, bytes: 0, runner })
    }

    fn fate(&mut self, source: u32) -> Option<&mut Fate> {
        self.fates.iter_mut().rev().find(|(index, _)| *index == source).map(|(_, fate)| fate)
    }

    fn settle(&mut self, source: u32, new: Fate) {
        if let Some(fate) = self.fate(source) {
            *fate = new;
        }
    }

    fn arguments(&mut self, source: u32, piece: Cow<'_, str>, frame: Option<&str>, out: &mut impl Sink) {
        let limit = self.settings.limits.max_arguments;
        let (index, room) = match self.fate(source) {
            Some(Fate::Sent { index, bytes, .. }) => {
                let room = limit.saturating_sub(*bytes);
                *bytes += piece.len();
                (Some(*index), room)
            }
            Some(Fate::Waits { arguments, .. }) => {
                let room = limit.saturating_sub(arguments.len());
                arguments.push_str(&piece);
                (None, room)
            }
            _ => return,
        };
        let fits = piece.len() <= room;
        if let Some(index) = index {
            // What fits goes out, so that it does not depend on where the arguments were cut into pieces.
            let piece =
                if fits { piece } else { head(&piece, boundary_upto(&piece, room)).to_owned().into() };
            send(Event::CallArguments { index, piece }, frame.filter(|_| index == source && fits), out);
        }
        if !fits {
            self.failure = Some(Failure::new(
                Kind::Limit,
                format!("a tool call's arguments are longer than {limit} bytes (limits.max_arguments)"),
            ));
        }
    }

    fn end(&mut self, source: u32, end: CallEnd, frame: Option<&str>, out: &mut impl Sink) {
        match self.fate(source) {
            Some(Fate::Sent { index, runner, .. }) => {
                let (index, runner) = (*index, *runner);
                self.cut |= end == CallEnd::Cut && runner == Runner::Client;
                send(Event::CallEnd { index, end }, frame.filter(|_| index == source), out);
            }
            Some(fate @ Fate::Waits { .. }) => {
                let Fate::Waits { start, arguments, rescue } = std::mem::replace(fate, Fate::Hidden) else {
                    return;
                };
                self.end_waiting(source, start, &arguments, rescue, end, out);
            }
            _ => {}
        }
    }

    /// A call that waited is complete, or never will be.
    fn end_waiting(
        &mut self,
        source: u32,
        start: CallStart<'static>,
        arguments: &str,
        rescue: bool,
        end: CallEnd,
        out: &mut impl Sink,
    ) {
        if end == CallEnd::Cut {
            self.cut = true;
            self.tally.dropped_calls += 1;
            return;
        }
        if rescue {
            self.settle(source, Fate::Rescued);
            let call = (start.name.clone().into_owned(), arguments.to_owned());
            // The model repeats a call that the upstream refuses to run; the client must not run it twice.
            if self.rescued.contains(&call) {
                return;
            }
            let missing: Vec<String> =
                self.tools.missing(&call.0, arguments).into_iter().map(str::to_owned).collect();
            if !missing.is_empty() && self.settings.misroute == Misroute::Bounce && !self.bounced {
                let (name, arguments) = call;
                self.bounce = Some(Bounce { name, arguments, missing });
                return;
            }
            self.rescued.push(call);
        }
        let Some(Fate::Sent { index, .. }) = self.send_start(start, None, out) else { return };
        out.event(Event::CallArguments { index, piece: Cow::Borrowed(arguments) });
        out.event(Event::CallEnd { index, end });
    }

    fn result(&mut self, result: CallResult<'_>, out: &mut impl Sink) {
        let cites = self.settings.server_calls == ServerCalls::Annotate;
        match self.fate(result.index) {
            Some(Fate::Sent { index, .. }) => {
                let index = *index;
                let id = usize::try_from(index).ok().and_then(|index| self.sent_ids.get(index)).cloned();
                let id = id.map_or(Cow::Borrowed(""), Cow::Owned);
                out.event(Event::CallResult(CallResult { index, id, ..result }));
            }
            Some(Fate::Hidden) if cites => {
                cite(&result.content, self.characters, out);
            }
            _ => {}
        }
    }

    /// The tools that may be called.
    pub(super) fn tools(&self) -> &Tools {
        &self.tools
    }

    /// The reason that agrees with what was sent: calls promote a plain stop and nothing else, a call that was cut
    /// off makes the answer a cut one, and calls that the upstream ran itself change nothing.
    fn finish(&self, said: Finish) -> Finish {
        match said {
            Finish::Length | Finish::Filter => said,
            Finish::Stop | Finish::Calls if self.cut => Finish::Length,
            Finish::Stop | Finish::Calls if self.client_calls > 0 => Finish::Calls,
            Finish::Stop | Finish::Calls => Finish::Stop,
        }
    }
}

/// Sends an event, as the upstream's frame if that still says the same.
fn send(event: Event<'_>, frame: Option<&str>, out: &mut impl Sink) {
    match frame {
        Some(frame) => out.event(Event::Verbatim { frame, means: Some(&event) }),
        None => out.event(event),
    }
}

/// A web search's results (Lumo 1.6) as citations on the text up to `at` characters.
fn cite(content: &str, at: u64, out: &mut impl Sink) {
    let Ok(content) = Json::parse(content) else { return };
    for page in content.get("results").into_iter().flat_map(|results| results.elements()) {
        let text = |key: &str| page.get(key).and_then(|value| value.as_str());
        if let Some(url) = text("url") {
            let title = text("title").unwrap_or_default();
            out.event(Event::Annotation(Annotation { url, title, span: (at, at) }));
        }
    }
}

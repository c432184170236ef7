//! [`Calls`]: applies the request's rules to calls, whatever their source.
//!
//! Every call passes this stage between detection and the writer. It gets its final index (dense, from 0) and
//! a unique id, and is counted and limited. Then the request's and the model's rules are applied: calls that
//! the upstream ran itself are forwarded, reported separately or hidden; a declared tool called over the
//! upstream's own channel is rescued; only one call is sent if the client asked for that; arguments are
//! delivered complete if so configured. The finish reason is made consistent with what was sent. Text passes
//! unchanged, except for an apology after a rescued call.
//!
//! Limits apply to every call, whether it is sent or not. Nothing of an omitted call is kept.

use std::borrow::Cow;

use super::{
    CallTally, Tally,
    corrections::Corrections,
    hops::{FollowUp, Reason, UsageSum},
    misrouted::{self, Incomplete},
};
use crate::{
    conversation::Conversation,
    dialect::{Ids, Skip, Skipped, Stamp},
    digest::Digest,
    event::{
        Annotation, CallEnd, CallResult, CallStart, Event, Finish, Runner, ServerCall, Sink, Source, Usage,
    },
    failure::Failure,
    rules::{ArgumentDelivery, Misroute, Rules, ServerCalls},
    tools::DeclaredTools,
    wire::{
        json::Json,
        text::{append, boundary_upto, head},
    },
};

/// How a call is handled.
#[derive(Debug)]
enum Fate {
    /// It is sent under this index.
    Sent { index: u32, runner: Runner },
    /// It waits for its end.
    Waits { start: CallStart<'static>, arguments: String, rescue: bool },
    /// It is reported separately, with its result. The arguments are `None` once they have been reported.
    Annotated { id: String, name: String, arguments: Option<String> },
    /// It is omitted.
    Hidden,
    /// It was meant for the client, and has been sent. Its result is the upstream's refusal to run it.
    Rescued,
}

/// A call from the reader or the detector.
#[derive(Debug)]
struct Entry {
    /// Its index in that stage.
    source: u32,
    /// Bytes of its arguments so far.
    bytes: usize,
    fate: Fate,
}

/// A hop that has ended, after which the response is to go on with another one. The hop's finish is withheld.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) follow_up: FollowUp,
    finish: Finish,
    /// The calls that are sent as they are if there is no other hop.
    incomplete: Vec<Incomplete>,
}

/// What had been sent at some point.
#[derive(Debug, Default)]
struct Checkpoint {
    ids: usize,
    client_calls: usize,
    broken_calls: usize,
    rescued: usize,
    calls: usize,
}

/// The stage that applies the rules for calls.
#[derive(Debug)]
pub(super) struct Calls {
    tools: DeclaredTools,
    settings: Rules,
    parallel: bool,
    ids: Ids,
    /// Calls in order of appearance.
    entries: Vec<Entry>,
    /// Number of calls begun, including omitted ones: each of them is remembered.
    begun: usize,
    sent_ids: Vec<String>,
    /// Names and arguments of rescued calls.
    rescued: Vec<(String, Digest)>,
    /// Rescued calls that lack arguments. They are handled when the response ends.
    incomplete: Vec<Incomplete>,
    /// The current text is the model's apology for a call that the upstream refused to run.
    apologises: bool,
    client_calls: usize,
    /// Of these, calls whose arguments are not JSON and after which the model continued.
    broken_calls: usize,
    /// The response was cut off inside a call.
    cut: bool,
    /// The client declared tools.
    has_tools: bool,
    /// Number of characters of text sent, which gives the position of citations. `None`: not counted, because
    /// there cannot be any.
    characters: Option<u64>,
    /// Bytes of arguments kept for calls that are reported separately.
    kept: usize,
    /// The text of this hop, kept only if a follow-up may have to repeat it.
    said: String,
    said_is_cut: bool,
    /// The number of the hop, from 0.
    hop: usize,
    /// Whether another hop may follow this one.
    may_follow_up: bool,
    /// Text sent in earlier hops, in characters; the upstream counts from 0 in each hop.
    earlier_characters: u64,
    usage: UsageSum,
    corrections: Corrections,
    /// Nothing of the response's content has been sent yet, so that another hop may replace this one.
    pub(super) can_replace: bool,
    /// What had been sent when this hop began.
    checkpoint: Checkpoint,
    pub(super) pending: Option<Pending>,
    pub(super) failure: Option<Failure>,
    pub(super) tally: Tally,
    /// What this stage left out.
    pub(super) skipped: Skipped,
}

impl Calls {
    /// `cites`: the upstream may run tools itself, so that text may have citations.
    pub(super) fn new(
        conversation: &Conversation,
        tools: DeclaredTools,
        settings: &Rules,
        cites: bool,
        stamp: &Stamp,
    ) -> Self {
        let has_tools = !conversation.tools.is_empty();
        let corrections = Corrections::new(conversation, &tools, settings);
        let may_cite = match settings.server_calls {
            ServerCalls::Auto => has_tools,
            ServerCalls::Annotate => true,
            ServerCalls::Forward | ServerCalls::Hide => false,
        };
        Self {
            tools,
            settings: settings.clone(),
            parallel: conversation.parallel_calls,
            ids: Ids::new(stamp.seed, 1),
            entries: Vec::new(),
            begun: 0,
            sent_ids: Vec::new(),
            rescued: Vec::new(),
            incomplete: Vec::new(),
            apologises: false,
            client_calls: 0,
            broken_calls: 0,
            cut: false,
            has_tools,
            characters: ((cites && may_cite) || settings.may_follow_up()).then_some(0),
            kept: 0,
            said: String::new(),
            said_is_cut: false,
            hop: 0,
            may_follow_up: settings.may_follow_up(),
            earlier_characters: 0,
            usage: UsageSum::default(),
            corrections,
            can_replace: false,
            checkpoint: Checkpoint::default(),
            pending: None,
            failure: None,
            tally: Tally::default(),
            skipped: Skipped::default(),
        }
    }

    /// Another upstream response follows, whose calls and characters are numbered from 0 again.
    pub(super) fn next_hop(&mut self) {
        if let Some(Pending { follow_up: FollowUp { reason, .. }, .. }) = self.pending.take() {
            self.tally.follow_ups.push(reason);
            if reason.replaces() {
                self.roll_back();
            }
        }
        self.checkpoint = Checkpoint {
            ids: self.sent_ids.len(),
            client_calls: self.client_calls,
            broken_calls: self.broken_calls,
            rescued: self.rescued.len(),
            calls: self.tally.calls.len(),
        };
        self.corrections.next_hop();
        self.entries.clear();
        self.apologises = false;
        self.said = String::new();
        self.said_is_cut = false;
        self.hop += 1;
        self.may_follow_up = self.settings.may_follow_up() && self.hop + 1 < self.settings.limits.max_hops;
        self.earlier_characters = self.characters.unwrap_or(0);
        self.usage.next_hop();
    }

    /// Forgets what this hop gave, since the next one replaces it. Limits count it all the same.
    fn roll_back(&mut self) {
        let Checkpoint { ids, client_calls, broken_calls, rescued, calls } = self.checkpoint;
        self.sent_ids.truncate(ids);
        self.rescued.truncate(rescued);
        self.tally.calls.truncate(calls);
        (self.client_calls, self.broken_calls) = (client_calls, broken_calls);
        self.cut = false;
        if let Some(characters) = &mut self.characters {
            *characters = self.earlier_characters;
        }
    }

    /// The checks of this hop's calls.
    pub(super) fn corrections(&self) -> &Corrections {
        &self.corrections
    }

    /// Handles an event. `frame` is the upstream's frame of it, if that may be forwarded unchanged.
    pub(super) fn event(&mut self, event: Event<'_>, out: &mut impl Sink) {
        if self.failure.is_some() || (self.pending.is_some() && !is_usage(&event)) {
            return;
        }
        match event {
            // The frames of later hops have ids of their own.
            Event::Verbatim { frame, means: Some(means) } => {
                self.take(means.clone(), Some(frame).filter(|_| self.hop == 0), out);
            }
            Event::Verbatim { means: None, .. } if self.hop > 0 => {}
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
            Event::ServerCall(_) if self.settings.server_calls == ServerCalls::Hide => {}
            Event::Finish(finish) => self.finish(finish, frame, out),
            Event::Usage(usage) => self.usage(usage, frame, out),
            Event::Start(_) if self.hop > 0 => {}
            Event::Annotation(annotation) if self.earlier_characters > 0 => {
                let shift = |at: u64| at.saturating_add(self.earlier_characters);
                let span = (shift(annotation.span.0), shift(annotation.span.1));
                out.event(Event::Annotation(Annotation { span, ..annotation }));
            }
            event => send(event, frame, out),
        }
    }

    /// Sends the token counts of all hops together.
    fn usage(&mut self, usage: Usage, frame: Option<&str>, out: &mut impl Sink) {
        let sum = self.usage.take(&usage, self.may_follow_up);
        let frame = frame.filter(|_| sum.is_none());
        let usage = sum.unwrap_or(usage);
        self.tally.input_tokens = usage.input.or(self.tally.input_tokens);
        self.tally.output_tokens = usage.output.or(self.tally.output_tokens);
        send(Event::Usage(usage), frame, out);
    }

    fn text(&mut self, text: Cow<'_, str>, frame: Option<&str>, out: &mut impl Sink) {
        if self.apologises {
            if self.skipped.count(Skip::Apology) == 0 {
                self.skipped.add(Skip::Apology);
            }
            return;
        }
        if let Some(characters) = &mut self.characters {
            *characters += u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        }
        if self.may_follow_up {
            self.note_said(&text);
        }
        send(Event::Text(text), frame, out);
    }

    /// Keeps text for a follow-up, up to a limit: the model then sees the beginning of its text.
    fn note_said(&mut self, text: &str) {
        let room = self.settings.limits.max_hold.saturating_sub(self.said.len());
        if !self.said_is_cut {
            self.said.push_str(head(text, boundary_upto(text, room)));
            self.said_is_cut = text.len() > room;
        }
    }

    fn start(&mut self, mut start: CallStart<'_>, frame: Option<&str>, out: &mut impl Sink) {
        if self.begun >= self.settings.limits.max_calls {
            self.failure = Some(self.settings.limits.too_many_calls());
            return;
        }
        let is_long = start.name.len() > self.settings.limits.max_name;
        if is_long && self.tools.resolve(&start.name).is_none() {
            self.failure = Some(self.settings.limits.name_too_long());
            return;
        }
        self.begun += 1;
        let written = start.name.clone();
        let rescue = start.runner == Runner::Upstream && self.is_misrouted(&written);
        if rescue {
            start.runner = Runner::Client;
        }
        if start.runner == Runner::Client
            && let Some(declared) = self.tools.resolve(&written)
        {
            start.name = Cow::Owned(declared.to_owned());
        }
        let source = start.index;
        if start.runner == Runner::Client {
            self.corrections.begins(&written, self.tools.resolve(&written).is_some());
        }
        let checks = self.corrections.checks_arguments();
        let whole = checks || self.settings.arguments == ArgumentDelivery::Whole;
        let fate = if start.runner == Runner::Upstream && !self.forwards(&written) {
            self.left_out(&start)
        } else if rescue || (whole && start.runner == Runner::Client) {
            let Event::CallStart(start) = Event::CallStart(start).into_owned() else { return };
            Fate::Waits { start, arguments: String::new(), rescue }
        } else {
            self.send_start(start, frame, out).unwrap_or(Fate::Hidden)
        };
        self.entries.push(Entry { source, bytes: 0, fate });
    }

    /// Whether a call that the upstream ran itself is sent to the client as one of the response's calls. Many
    /// clients try to run every call, and fail on a name that they did not declare.
    fn forwards(&self, written: &str) -> bool {
        match self.settings.server_calls {
            ServerCalls::Forward => true,
            ServerCalls::Auto => !self.has_tools || self.tools.resolve(written).is_some(),
            ServerCalls::Annotate | ServerCalls::Hide => false,
        }
    }

    /// How to handle a server call that is not forwarded.
    fn left_out(&self, start: &CallStart<'_>) -> Fate {
        if self.settings.server_calls == ServerCalls::Hide {
            return Fate::Hidden;
        }
        let (id, name) = (start.id.clone().into_owned(), start.name.clone().into_owned());
        Fate::Annotated { id, name, arguments: Some(String::new()) }
    }

    /// Whether a call on the upstream's own channel is meant for the client, because the client declared the
    /// name. If tools are taught with a prefix, an unprefixed name that the upstream also has is the
    /// upstream's.
    fn is_misrouted(&self, written: &str) -> bool {
        let prefixed = self.tools.unprefixed(written).is_some_and(|name| self.tools.resolve(name).is_some());
        let theirs =
            self.tools.is_prefixed() && self.settings.server_tools.iter().any(|name| name == written);
        prefixed || (self.tools.resolve(written).is_some() && !theirs)
    }

    /// Sends a call's beginning, with its final index and id. `None` if it is dropped.
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
        Some(Fate::Sent { index, runner })
    }

    fn entry(&mut self, source: u32) -> Option<&mut Entry> {
        self.entries.iter_mut().rev().find(|entry| entry.source == source)
    }

    fn arguments(&mut self, source: u32, piece: Cow<'_, str>, frame: Option<&str>, out: &mut impl Sink) {
        let limit = self.settings.limits.max_arguments;
        let Some(entry) = self.entry(source) else { return };
        let room = limit.saturating_sub(entry.bytes);
        let fits = piece.len() <= room;
        entry.bytes += piece.len();
        match &mut entry.fate {
            Fate::Sent { index, .. } => {
                let index = *index;
                // The part within the limit is sent, so that the output does not depend on how the arguments
                // were cut.
                let piece =
                    if fits { piece } else { head(&piece, boundary_upto(&piece, room)).to_owned().into() };
                send(Event::CallArguments { index, piece }, frame.filter(|_| index == source && fits), out);
            }
            Fate::Waits { arguments, .. } if fits => match piece {
                // The arguments already waited in full in an earlier stage, so they are not copied.
                Cow::Owned(all) if arguments.is_empty() => *arguments = all,
                piece => append(arguments, &piece),
            },
            Fate::Annotated { arguments: Some(arguments), .. } if fits => {
                append(arguments, &piece);
                self.kept += piece.len();
            }
            _ => {}
        }
        if !fits {
            self.failure = Some(self.settings.limits.arguments_too_long());
        }
    }

    fn end(&mut self, source: u32, end: CallEnd, frame: Option<&str>, out: &mut impl Sink) {
        let is_too_much = self.kept > self.settings.limits.max_hold;
        let Some(entry) = self.entry(source) else { return };
        match &mut entry.fate {
            Fate::Sent { index, runner } => {
                let (index, runner) = (*index, *runner);
                if runner == Runner::Client {
                    self.cut |= end == CallEnd::Cut;
                    self.broken_calls += usize::from(end == CallEnd::Broken);
                    if end == CallEnd::Complete {
                        self.supersede(index);
                    }
                }
                send(Event::CallEnd { index, end }, frame.filter(|_| index == source), out);
            }
            fate @ Fate::Waits { .. } => {
                let Fate::Waits { start, arguments, rescue } = std::mem::replace(fate, Fate::Hidden) else {
                    return;
                };
                self.end_waiting(source, start, arguments, rescue, end, out);
            }
            Fate::Annotated { .. } if is_too_much => {
                // More than may be kept until a result arrives: it is reported without one.
                self.annotate(source, None, out);
            }
            _ => {}
        }
    }

    /// A waiting call is complete, or will never be.
    fn end_waiting(
        &mut self,
        source: u32,
        start: CallStart<'static>,
        arguments: String,
        rescue: bool,
        end: CallEnd,
        out: &mut impl Sink,
    ) {
        if end != CallEnd::Cut {
            let arguments = Some(arguments.as_str()).filter(|_| end == CallEnd::Complete);
            self.corrections.ends(&start.name, arguments);
        }
        if end != CallEnd::Complete {
            self.cut |= end == CallEnd::Cut;
            self.tally.dropped_calls += 1;
            return;
        }
        let index = if rescue {
            self.settle(source, Fate::Rescued);
            self.rescue(start, &arguments, out)
        } else {
            let sent = self.send_start(start, None, out);
            sent.and_then(|fate| if let Fate::Sent { index, .. } = fate { Some(index) } else { None })
        };
        let Some(index) = index else { return };
        self.supersede(index);
        out.event(Event::CallArguments { index, piece: Cow::Owned(arguments) });
        out.event(Event::CallEnd { index, end });
    }

    /// Sends the beginning of a call that the upstream cannot run, unless the model is to be asked for it
    /// again.
    fn rescue(&mut self, start: CallStart<'static>, arguments: &str, out: &mut impl Sink) -> Option<u32> {
        self.apologises = true;
        // The model repeats a call that the upstream refuses to run; the client must not run it twice.
        let call = (start.name.clone().into_owned(), Digest::of(arguments));
        let waits =
            self.incomplete.iter().any(|other| other.name() == call.0 && other.arguments == arguments);
        if waits || self.rescued.contains(&call) {
            return None;
        }
        if self.settings.misroute == Misroute::Bounce && self.may_follow_up {
            let missing: Vec<String> =
                self.tools.missing(&call.0, arguments).into_iter().map(str::to_owned).collect();
            if !missing.is_empty() {
                self.incomplete.push(Incomplete { start, arguments: arguments.to_owned(), missing });
                return None;
            }
        }
        self.rescued.push(call);
        match self.send_start(start, None, out)? {
            Fate::Sent { index, .. } => Some(index),
            _ => None,
        }
    }

    /// The call sent under `index` is complete. It replaces one to the same tool that lacks arguments.
    fn supersede(&mut self, index: u32) {
        if self.incomplete.is_empty() {
            return;
        }
        let call = usize::try_from(index).ok().and_then(|index| self.tally.calls.get(index));
        let Some(name) = call.and_then(|call| call.name.as_deref()) else { return };
        let before = self.incomplete.len();
        self.incomplete.retain(|call| call.name() != name);
        let superseded = before - self.incomplete.len();
        self.tally.dropped_calls += u64::try_from(superseded).unwrap_or(u64::MAX);
    }

    fn settle(&mut self, source: u32, new: Fate) {
        if let Some(entry) = self.entry(source) {
            entry.fate = new;
        }
    }

    fn result(&mut self, result: CallResult<'_>, out: &mut impl Sink) {
        let Some(entry) = self.entry(result.index) else { return };
        match &entry.fate {
            Fate::Sent { index, .. } => {
                let index = *index;
                let id = usize::try_from(index).ok().and_then(|index| self.sent_ids.get(index)).cloned();
                let id = id.map_or(Cow::Borrowed(""), Cow::Owned);
                out.event(Event::CallResult(CallResult { index, id, ..result }));
            }
            Fate::Annotated { .. } => {
                cite(&result.content, self.characters.unwrap_or(0), out);
                self.annotate(result.index, Some(&result), out);
                self.settle(result.index, Fate::Hidden);
            }
            _ => {}
        }
    }

    /// Reports a call that the upstream ran, separately from the response's own calls.
    fn annotate(&mut self, source: u32, result: Option<&CallResult<'_>>, out: &mut impl Sink) {
        let Some(Entry { fate: Fate::Annotated { id, name, arguments }, .. }) = self.entry(source) else {
            return;
        };
        let told = arguments.take();
        let call = ServerCall {
            id: Cow::Borrowed(id),
            name: Cow::Borrowed(name),
            arguments: told.as_deref().map(Cow::Borrowed),
            content: result.map(|result| Cow::Borrowed(&*result.content)),
            is_error: result.is_some_and(|result| result.is_error),
        };
        out.event(Event::ServerCall(call));
        self.kept -= told.map_or(0, |told| told.len());
    }

    /// The hop has ended: decides whether another one follows.
    fn finish(&mut self, said: Finish, frame: Option<&str>, out: &mut impl Sink) {
        let incomplete = std::mem::take(&mut self.incomplete);
        let untold = |entry: &Entry| matches!(entry.fate, Fate::Annotated { arguments: Some(_), .. });
        let untold: Vec<u32> = self.entries.iter().filter(|it| untold(it)).map(|it| it.source).collect();
        untold.into_iter().for_each(|source| self.annotate(source, None, out));
        // The model is not asked again after a response that was cut off.
        let follow_up = match said {
            Finish::Length | Finish::Filter => None,
            Finish::Stop | Finish::Calls if !incomplete.is_empty() => {
                let turns = misrouted::turns(&self.said, &incomplete);
                Some(FollowUp { reason: Reason::Misrouted, turns })
            }
            Finish::Stop | Finish::Calls if self.cut || !self.can_replace || !self.may_follow_up => None,
            Finish::Stop | Finish::Calls => self.corrections.follow_up(&self.said, &self.tools),
        };
        if let Some(follow_up) = follow_up {
            self.pending = Some(Pending { follow_up, finish: said, incomplete });
            return;
        }
        self.conclude(said, incomplete, frame, out);
    }

    /// The response ends with this hop, although it was to go on.
    pub(super) fn end_response(&mut self, out: &mut impl Sink) {
        let Some(Pending { finish, incomplete, .. }) = self.pending.take() else { return };
        self.conclude(finish, incomplete, None, out);
    }

    /// Sends what was withheld, and the finish.
    fn conclude(
        &mut self,
        said: Finish,
        incomplete: Vec<Incomplete>,
        frame: Option<&str>,
        out: &mut impl Sink,
    ) {
        for Incomplete { start, arguments, .. } in incomplete {
            let Some(Fate::Sent { index, .. }) = self.send_start(start, None, out) else { continue };
            out.event(Event::CallArguments { index, piece: Cow::Owned(arguments) });
            out.event(Event::CallEnd { index, end: CallEnd::Complete });
        }
        let agreed = self.agreed(said);
        self.tally.finish = Some(agreed);
        let warnings = self.corrections.warnings();
        let frame = frame.filter(|_| agreed == said && warnings.is_empty());
        for warning in warnings {
            self.tally.warnings.push(warning.code);
            out.event(Event::Warning(warning));
        }
        send(Event::Finish(agreed), frame, out);
    }

    /// The tools that may be called.
    pub(super) fn tools(&self) -> &DeclaredTools {
        &self.tools
    }

    /// The finish reason that is consistent with what was sent: complete calls change only a plain stop, a
    /// response that ends inside a call was cut off, and neither broken calls nor calls that the upstream ran
    /// itself change it.
    fn agreed(&self, said: Finish) -> Finish {
        match said {
            Finish::Length | Finish::Filter => said,
            Finish::Stop | Finish::Calls if self.cut => Finish::Length,
            Finish::Stop | Finish::Calls if self.client_calls > self.broken_calls => Finish::Calls,
            Finish::Stop | Finish::Calls => Finish::Stop,
        }
    }
}

fn is_usage(event: &Event<'_>) -> bool {
    matches!(event, Event::Usage(_) | Event::Verbatim { means: Some(Event::Usage(_)), .. })
}

/// Sends an event, as the upstream's frame if that still has the same meaning.
fn send(event: Event<'_>, frame: Option<&str>, out: &mut impl Sink) {
    match frame {
        Some(frame) => out.event(Event::Verbatim { frame, means: Some(&event) }),
        None => out.event(event),
    }
}

/// Sends a web search's results (docs/protocols/lumo.md#server-tools) as citations for the text up to `at`
/// characters.
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

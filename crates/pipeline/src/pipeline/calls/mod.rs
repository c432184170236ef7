//! [`Calls`]: applies the request's rules to calls, whatever their source.
//!
//! Every call passes through this stage between detection and the writer. It gets its final index (dense,
//! from 0) and a unique id, and is counted and limited. Then the request's and the model's rules are applied:
//! calls that the upstream ran itself are forwarded, reported separately or hidden; a call to a declared tool
//! over the upstream's own channel is rescued; only one call is sent if the client asked for that; arguments
//! are delivered complete if so configured. The finish reason is made consistent with what was sent. Text
//! passes unchanged, except for an apology after a rescued call.
//!
//! This file follows a call from its arguments to its end; `begin` decides how it is handled, `server` and
//! `misrouted` handle the calls of the upstream's own tools, `hosted` handles those of hosted tools, and
//! `hop` decides what follows the end of a hop.
//!
//! Limits apply to every call, whether it is sent or not. No part of an omitted call is kept.

mod begin;
mod doubles;
mod hop;
mod hosted_calls;
mod misrouted_calls;
mod server;

use std::borrow::Cow;

pub use self::hosted_calls::DeferredTurn;
use self::{
    doubles::{Doubles, Held},
    hop::{Checkpoint, Pending},
    hosted_calls::HostedCalls,
    misrouted_calls::Incomplete,
};
use super::{Tally, corrections::Corrections, hops::UsageSum, turn_state::StateCollector};
use crate::{
    conversation::{Conversation, Part},
    dialect::{Ids, Skip, Skipped, Stamp},
    digest::Digest,
    event::{Annotation, CallEnd, CallStart, Event, Runner, Sink, Usage, Warning},
    failure::Failure,
    rules::{HostedRules, Rules, ServerCalls},
    tools::DeclaredTools,
    wire::text::{append, boundary_upto, head},
};

/// How a call is handled.
#[derive(Debug)]
enum Fate {
    /// Sent under this index.
    Sent { index: u32, runner: Runner },
    /// Held, and sent once it has ended.
    Waits { start: CallStart<'static>, arguments: String, rescue: bool },
    /// Reported separately, with its result. The arguments are `None` once they have been reported.
    Annotated { id: String, name: String, arguments: Option<String> },
    /// Omitted.
    Hidden,
    /// Meant for the client, and already sent. The upstream's result for it is only a refusal to run it.
    Rescued,
    /// A call to a hosted tool, kept until the hop ends. `rescue`: the upstream refuses to run it.
    Hosted { rescue: bool },
}

/// A call from an earlier stage: the reader or the detector.
#[derive(Debug)]
struct Entry {
    /// The call's index in that stage.
    source: u32,
    /// Bytes of its arguments so far.
    bytes: usize,
    fate: Fate,
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
    /// Calls that may have arrived twice.
    doubles: Doubles,
    /// Number of calls that have begun. Omitted calls count, since each call is remembered.
    begun: usize,
    sent_ids: Vec<String>,
    /// The ids of calls that are reported separately.
    annotated_ids: Vec<String>,
    /// The ids of calls in the request's history.
    past_ids: Vec<String>,
    /// Names and arguments of rescued calls.
    rescued: Vec<(String, Digest)>,
    /// Rescued calls that lack arguments. They are handled when the response ends.
    incomplete: Vec<Incomplete>,
    /// The current text is the model's apology for a call that the upstream refused to run.
    apologises: bool,
    client_calls: usize,
    /// The names of sent calls whose arguments are not JSON although the model continued after them.
    broken: Vec<String>,
    /// The response was cut off in the middle of a call.
    cut: bool,
    /// The client declared tools.
    has_tools: bool,
    /// The tools that toolwire runs, if there are any.
    hosted: Option<Box<HostedCalls>>,
    /// The turn that contains calls of hosted tools for which the client does not wait.
    pub(super) deferred: Option<DeferredTurn>,
    /// The model has written reasoning since other content was last shown as reasoning.
    is_reasoning_open: bool,
    /// Earlier hops have sent text, and this hop has not sent any yet.
    is_separator_due: bool,
    /// Number of characters of text sent, from which the positions of citations follow. `None`: not counted,
    /// because the text cannot have citations.
    characters: Option<u64>,
    /// Bytes of arguments that are kept for calls to be reported separately.
    kept: usize,
    /// The text of this hop, kept only if a follow-up may have to repeat it.
    said: String,
    said_is_cut: bool,
    /// Whether the text and token counts of this hop are kept.
    keeps_text: bool,
    /// The index of the hop, from 0.
    hop: usize,
    /// Number of times that the model was asked again because of what it wrote.
    asked_again: usize,
    /// Whether another hop may follow this one.
    may_follow_up: bool,
    /// Number of characters of text sent in earlier hops; the upstream counts from 0 in each hop.
    earlier_characters: u64,
    usage: UsageSum,
    /// The state that the upstream wants back.
    pub(super) state: StateCollector,
    corrections: Corrections,
    /// Warnings about the request.
    notices: Vec<Warning<'static>>,
    /// No content of the response has been sent yet, so another hop may replace this one.
    pub(super) can_replace: bool,
    /// The state of what had been sent when this hop began.
    checkpoint: Checkpoint,
    pub(super) pending: Option<Pending>,
    pub(super) failure: Option<Failure>,
    pub(super) tally: Tally,
    /// The parts that this stage left out.
    pub(super) skipped: Skipped,
}

/// The ids of the calls in a request's history.
fn past_ids(conversation: &Conversation) -> Vec<String> {
    let parts = conversation.turns.iter().flat_map(|turn| &turn.parts);
    let ids = parts.filter_map(|part| match part {
        Part::Call(call) => Some(call.id.clone()),
        _ => None,
    });
    ids.collect()
}

impl Calls {
    /// `cites`: the upstream may run tools itself, so the text may contain citations.
    pub(super) fn new(
        conversation: &Conversation,
        tools: DeclaredTools,
        settings: &Rules,
        cites: bool,
        stamp: &Stamp,
    ) -> Self {
        let is_hosted = |name: &String| conversation.hosted_tools.contains(name);
        let has_tools = conversation.tools.iter().any(|tool| !is_hosted(&tool.name));
        let hosted = HostedCalls::new(conversation).map(Box::new);
        let corrections = Corrections::new(conversation, &tools, settings);
        let may_cite = match settings.server_calls {
            ServerCalls::Auto => has_tools || hosted.is_some(),
            ServerCalls::Annotate => true,
            ServerCalls::Forward | ServerCalls::Hide => false,
        };
        let goes_on = settings.may_follow_up() || hosted.is_some();
        Self {
            tools,
            settings: settings.clone(),
            parallel: conversation.parallel_calls,
            ids: Ids::new(stamp.seed, 1),
            entries: Vec::new(),
            doubles: Doubles::default(),
            begun: 0,
            sent_ids: Vec::new(),
            annotated_ids: Vec::new(),
            past_ids: past_ids(conversation),
            rescued: Vec::new(),
            incomplete: Vec::new(),
            apologises: false,
            client_calls: 0,
            broken: Vec::new(),
            cut: false,
            has_tools,
            keeps_text: goes_on,
            hosted,
            deferred: None,
            is_reasoning_open: false,
            is_separator_due: false,
            characters: ((cites && may_cite) || goes_on).then_some(0),
            kept: 0,
            said: String::new(),
            said_is_cut: false,
            hop: 0,
            asked_again: 0,
            may_follow_up: settings.may_follow_up(),
            earlier_characters: 0,
            usage: UsageSum::default(),
            state: StateCollector::default(),
            corrections,
            notices: Vec::new(),
            can_replace: false,
            checkpoint: Checkpoint::default(),
            pending: None,
            failure: None,
            tally: Tally::default(),
            skipped: Skipped::default(),
        }
    }

    /// Handles the calls of hosted tools by these rules.
    pub(super) fn set_hosted_rules(&mut self, rules: HostedRules) {
        if let Some(hosted) = &mut self.hosted {
            hosted.set_rules(rules);
        }
    }

    /// Prepares for showing reasoning that is not the model's. Returns whether the model's reasoning is still
    /// open.
    pub(super) fn ends_reasoning(&mut self) -> bool {
        std::mem::take(&mut self.is_reasoning_open)
    }

    /// Adds a warning to the response.
    pub(super) fn warn(&mut self, warning: Warning<'static>) {
        self.notices.push(warning);
    }

    /// The checks of this hop's calls.
    pub(super) fn corrections(&self) -> &Corrections {
        &self.corrections
    }

    /// Whether this hop has calls.
    pub(super) fn has_calls(&self) -> bool {
        !self.entries.is_empty() || self.doubles.is_holding()
    }

    /// The tools that may be called.
    pub(super) fn tools(&self) -> &DeclaredTools {
        &self.tools
    }

    /// Handles an event. `frame` is the event's frame from the upstream if that frame may be forwarded
    /// unchanged.
    pub(super) fn event(&mut self, event: Event<'_>, out: &mut impl Sink) {
        if self.failure.is_some() || (self.pending.is_some() && !is_usage(&event)) {
            return;
        }
        match event {
            // In later hops, frames have the ids of another response. Frames of server tools do not contain
            // the response's id.
            Event::Verbatim { frame, means: Some(means) } => {
                let may_forward = self.hop == 0 || is_of_server_call(means);
                self.take(means.clone(), Some(frame).filter(|_| may_forward), out);
            }
            Event::Verbatim { means: None, .. } if self.hop > 0 => {}
            event => self.take(event, None, out),
        }
    }

    fn take(&mut self, event: Event<'_>, frame: Option<&str>, out: &mut impl Sink) {
        match event {
            Event::Text(text) => self.text(text, frame, out),
            Event::CallStart(start) => {
                if !self.is_held_double(&start) {
                    self.start(start, frame, out);
                }
            }
            Event::CallArguments { index, piece } => {
                if !self.doubles.piece(index, &piece, &self.settings.limits) {
                    self.arguments(index, piece, frame, out);
                } else {
                    self.settle_doubles(false, out);
                }
            }
            Event::CallEnd { index, end } => {
                if !self.doubles.ends(index, end) {
                    self.end(index, end, frame, out);
                }
                self.settle_doubles(false, out);
            }
            Event::CallResult(result) => self.result(result, frame, out),
            Event::ServerCall(_) if self.settings.server_calls == ServerCalls::Hide => {}
            Event::Finish(finish) => {
                self.settle_doubles(true, out);
                self.finish(finish, frame, out);
            }
            Event::Usage(usage) => self.usage(usage, frame, out),
            Event::Start(_) if self.hop > 0 => {}
            Event::Reasoning(reasoning) => {
                self.is_reasoning_open = true;
                if self.state.is_active() {
                    self.state.reasoning(&reasoning);
                }
                send(Event::Reasoning(reasoning), frame, out);
            }
            Event::Refusal(_) => {
                self.tally.is_refusal = true;
                send(event, frame, out);
            }
            Event::Annotation(annotation) if self.earlier_characters > 0 => {
                let shift = |at: u64| at.saturating_add(self.earlier_characters);
                let span = (shift(annotation.span.0), shift(annotation.span.1));
                out.event(Event::Annotation(Annotation { span, ..annotation }));
            }
            event => send(event, frame, out),
        }
    }

    /// Whether a new call is held because it may repeat an earlier one.
    fn is_held_double(&mut self, start: &CallStart<'_>) -> bool {
        let declared = self.tools.resolve(&start.name).map(|name| self.tools.declared(name));
        self.doubles.begins(start, declared.unwrap_or(&start.name))
    }

    /// Passes on the held calls that are not duplicates. `is_last`: the hop ends.
    fn settle_doubles(&mut self, is_last: bool, out: &mut impl Sink) {
        if !self.doubles.is_holding() {
            return;
        }
        for Held { start, arguments, end, .. } in self.doubles.settled(is_last, &self.settings.limits) {
            let source = start.index;
            self.start(start, None, out);
            if !arguments.is_empty() && self.failure.is_none() {
                self.arguments(source, Cow::Owned(arguments), None, out);
            }
            if let (Some(end), true) = (end, self.failure.is_none()) {
                self.end(source, end, None, out);
            }
        }
    }

    /// Sends the sum of the token counts of all hops.
    fn usage(&mut self, usage: Usage, frame: Option<&str>, out: &mut impl Sink) {
        let sum = self.usage.take(&usage, self.keeps_text);
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
        if self.keeps_text {
            self.note_said(&text);
            if self.is_separator_due && !text.is_empty() {
                self.separate(out);
            }
        }
        send(Event::Text(text), frame, out);
    }

    /// Keeps the beginning of the text, up to a limit, for a follow-up that repeats it to the model.
    fn note_said(&mut self, text: &str) {
        let room = self.settings.limits.max_hold.saturating_sub(self.said.len());
        if !self.said_is_cut {
            self.said.push_str(head(text, boundary_upto(text, room)));
            self.said_is_cut = text.len() > room;
        }
    }

    fn arguments(&mut self, source: u32, piece: Cow<'_, str>, frame: Option<&str>, out: &mut impl Sink) {
        let limit = self.settings.limits.max_arguments;
        if let Some(hosted) = &mut self.hosted {
            hosted.piece(source, &piece);
            self.failure = hosted.failure(&self.settings.limits);
        }
        let Some(entry) = self.entry(source) else { return };
        let room = limit.saturating_sub(entry.bytes);
        let fits = piece.len() <= room;
        entry.bytes += piece.len();
        match &mut entry.fate {
            Fate::Sent { index, .. } => {
                let index = *index;
                // The part within the limit is still sent, so the output does not depend on how the arguments
                // were split.
                let piece =
                    if fits { piece } else { head(&piece, boundary_upto(&piece, room)).to_owned().into() };
                send(Event::CallArguments { index, piece }, frame.filter(|_| index == source && fits), out);
            }
            Fate::Waits { arguments, .. } if fits => match piece {
                // All arguments already waited in an earlier stage, so they are not copied.
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
                    if end == CallEnd::Broken {
                        self.note_broken(index);
                    }
                    if end == CallEnd::Complete {
                        self.supersede(index);
                        self.note_end(source);
                    }
                }
                send(Event::CallEnd { index, end }, frame.filter(|_| index == source), out);
            }
            Fate::Hosted { rescue } => {
                let rescue = *rescue;
                self.settle(source, Fate::Hidden);
                self.end_hosted(source, end, rescue);
            }
            fate @ Fate::Waits { .. } => {
                let Fate::Waits { start, arguments, rescue } = std::mem::replace(fate, Fate::Hidden) else {
                    return;
                };
                self.end_waiting(source, start, arguments, rescue, end, out);
            }
            Fate::Annotated { .. } if is_too_much => {
                // The arguments are too long to be kept until a result arrives, so the call is reported
                // without a result.
                self.annotate(source, None, out);
            }
            _ => {}
        }
    }

    /// Ends a waiting call that is complete or will never be complete.
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
        // The finish reason tells the client that the response was cut off inside a call.
        if end == CallEnd::Cut {
            self.cut = true;
            self.tally.dropped_calls += 1;
            return;
        }
        if rescue {
            self.settle(source, Fate::Rescued);
        }
        if self.hosted.as_ref().is_some_and(|hosted| hosted.holds_client_calls()) {
            return self.hold(start, (arguments, end), rescue);
        }
        let index = match rescue && end == CallEnd::Complete {
            true => self.rescue(start, &arguments, out),
            false => self.send_start(start, None, out),
        };
        let Some(index) = index else { return };
        self.note_sent(source);
        if end == CallEnd::Complete {
            self.note_end(source);
            self.supersede(index);
        }
        self.send_whole(index, arguments, end, out);
    }

    /// Sends the rest of a call whose beginning has been sent.
    fn send_whole(&mut self, index: u32, arguments: String, end: CallEnd, out: &mut impl Sink) {
        if end == CallEnd::Broken {
            self.note_broken(index);
        }
        out.event(Event::CallArguments { index, piece: Cow::Owned(arguments) });
        out.event(Event::CallEnd { index, end });
    }

    /// Notes that the arguments of the call sent under `index` are not JSON and that the model has continued.
    fn note_broken(&mut self, index: u32) {
        let call = usize::try_from(index).ok().and_then(|index| self.tally.calls.get(index));
        self.broken.push(call.and_then(|call| call.name.clone()).unwrap_or_default());
    }

    /// Notes that the client has received the beginning of a call.
    fn note_sent(&mut self, source: u32) {
        if let (Some(hosted), Some(id)) = (&mut self.hosted, self.sent_ids.last()) {
            hosted.sent(source, id);
        }
    }

    /// Notes that a call of the client is complete.
    fn note_end(&mut self, source: u32) {
        if let Some(hosted) = &mut self.hosted {
            hosted.ends(source);
        }
    }

    fn entry(&mut self, source: u32) -> Option<&mut Entry> {
        self.entries.iter_mut().rev().find(|entry| entry.source == source)
    }

    fn settle(&mut self, source: u32, new: Fate) {
        if let Some(entry) = self.entry(source) {
            entry.fate = new;
        }
    }
}

fn is_of_server_call(event: &Event<'_>) -> bool {
    match event {
        Event::CallStart(start) => start.runner == Runner::Upstream,
        Event::CallResult(_) => true,
        _ => false,
    }
}

fn is_usage(event: &Event<'_>) -> bool {
    matches!(event, Event::Usage(_) | Event::Verbatim { means: Some(Event::Usage(_)), .. })
}

/// Sends an event, in the form of the upstream's frame if the frame still has the same meaning.
fn send(event: Event<'_>, frame: Option<&str>, out: &mut impl Sink) {
    match frame {
        Some(frame) => out.event(Event::Verbatim { frame, means: Some(&event) }),
        None => out.event(event),
    }
}

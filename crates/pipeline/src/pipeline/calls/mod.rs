//! [`Calls`]: applies the request's rules to calls from any source.
//!
//! Every call passes through this stage on its way from the detector to the writer. The stage assigns the
//! final index (counted from 0 without gaps) and a unique id, enforces the limits, and applies the rules of
//! the request and of the model:
//!
//! - Calls that the upstream ran itself are forwarded, reported separately, or hidden.
//! - Calls to declared tools on the upstream's own channel are rescued.
//! - Only one call is sent if the client asked for that.
//! - Arguments are delivered in one piece if so configured.
//!
//! The finish reason is made consistent with what was sent. Text passes unchanged, except that the model's
//! apology after a rescued call is left out.
//!
//! This file follows a call from its arguments to its end. `begin` decides how a call is handled, `server`
//! and `misrouted_calls` handle the upstream's own tools, `hosted_calls` handles hosted tools, and `hop`
//! decides what follows the end of a hop.
//!
//! Limits also apply to calls that are not sent. No part of an omitted call is retained.

mod begin;
mod doubles;
mod end;
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
    event::{Annotation, CallStart, Event, Runner, Sink, Usage, Warning},
    failure::Failure,
    rules::{HostedRules, Rules, ServerCalls},
    tools::DeclaredTools,
    wire::text::{boundary_upto, head},
};

#[derive(Debug)]
enum Fate {
    /// Sent with this index.
    Sent { index: u32, runner: Runner },
    /// Held until it has ended, then sent.
    Waits { start: CallStart<'static>, arguments: String, rescue: bool },
    /// Reported separately, with its result. `arguments` is `None` once the call has been reported.
    Annotated { id: String, name: String, arguments: Option<String> },
    /// Left out of the response.
    Hidden,
    /// Meant for the client and already sent. The upstream's result only says that the upstream refused to
    /// run the call.
    Rescued,
    /// A call to a hosted tool, collected until the hop ends. `rescue` is set if the upstream refuses to run
    /// it.
    Hosted { rescue: bool },
}

/// A call from the previous stage, which is the reader or the detector.
#[derive(Debug)]
struct Entry {
    /// The call's index in that stage.
    source: u32,
    bytes: usize,
    fate: Fate,
}

#[derive(Debug)]
pub(super) struct Calls {
    tools: DeclaredTools,
    settings: Rules,
    parallel: bool,
    ids: Ids,
    entries: Vec<Entry>,
    doubles: Doubles,
    /// Number of calls that have started. Omitted calls count as well, since each takes up memory.
    begun: usize,
    sent_ids: Vec<String>,
    annotated_ids: Vec<String>,
    /// The URLs and titles of pages that searches have found since the last text. The text that follows cites them.
    sources: Vec<(String, String)>,
    source_bytes: usize,
    past_ids: Vec<String>,
    /// Names and arguments of rescued calls.
    rescued: Vec<(String, Digest)>,
    /// Rescued calls that lack arguments, to be handled when the response ends.
    incomplete: Vec<Incomplete>,
    /// Whether the current text is the model's apology for a call that the upstream refused to run.
    apologises: bool,
    client_calls: usize,
    /// The names of the sent calls whose arguments turned out not to be JSON.
    broken: Vec<String>,
    /// Whether the response was cut off inside a call.
    cut: bool,
    /// The calls that ended before their arguments did, held until the hop ends.
    cut_calls: Vec<(CallStart<'static>, String)>,
    has_tools: bool,
    hosted: Option<Box<HostedCalls>>,
    /// The turn whose hosted calls run only when the client sends its next request.
    pub(super) deferred: Option<DeferredTurn>,
    /// Whether the model's reasoning is the last thing that was shown as reasoning.
    is_reasoning_open: bool,
    /// Whether an earlier hop has sent text and this hop has not.
    is_separator_due: bool,
    /// Number of characters of text sent, from which the positions of citations are calculated. `None` if
    /// the text cannot have citations.
    characters: Option<u64>,
    /// Bytes of arguments retained for calls that will be reported separately.
    kept: usize,
    /// The text of this hop, retained only if a follow-up may have to repeat it.
    said: String,
    said_is_cut: bool,
    /// Whether this hop's text and token counts are retained.
    keeps_text: bool,
    hop: usize,
    /// Whether hosted tools have run in earlier hops.
    has_run: bool,
    /// Number of times the model was asked again because its response was unacceptable.
    asked_again: usize,
    may_follow_up: bool,
    /// Number of characters of text sent in earlier hops; the upstream starts from 0 in each hop.
    earlier_characters: u64,
    usage: UsageSum,
    /// State to return to the upstream in later requests.
    pub(super) state: StateCollector,
    corrections: Corrections,
    /// Warnings for the end of the response.
    notices: Vec<Warning<'static>>,
    /// How many of them stay if another hop replaces this one.
    lasting_notices: usize,
    /// Whether no part of this hop's calls has been sent yet, so that another hop can replace them.
    pub(super) can_replace: bool,
    /// Whether everything so far has been sent, and content is withheld from the first call on.
    pub(super) awaits_call: bool,
    /// What had been sent when content was first withheld.
    checkpoint: Checkpoint,
    /// Whether this hop has reasoned.
    has_reasoned: bool,
    follows: Follows,
    pub(super) pending: Option<Pending>,
    pub(super) failure: Option<Failure>,
    pub(super) tally: Tally,
    /// The parts that this stage left out of the response.
    pub(super) skipped: Skipped,
}

/// What the client has received before the calls that this hop replaces.
#[derive(Debug, Clone, Copy, Default)]
struct Follows {
    text: bool,
    /// Text or reasoning.
    content: bool,
}

fn past_ids(conversation: &Conversation) -> Vec<String> {
    let parts = conversation.turns.iter().flat_map(|turn| &turn.parts);
    let ids = parts.filter_map(|part| match part {
        Part::Call(call) => Some(call.id.clone()),
        _ => None,
    });
    ids.collect()
}

impl Calls {
    /// `cites` is set if the text may contain citations, because the upstream may run tools itself.
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
        let mut calls = Self {
            tools,
            settings: settings.clone(),
            parallel: conversation.parallel_calls,
            ids: Ids::new(stamp.seed, 1),
            entries: Vec::new(),
            doubles: Doubles::default(),
            begun: 0,
            sent_ids: Vec::new(),
            annotated_ids: Vec::new(),
            sources: Vec::new(),
            source_bytes: 0,
            past_ids: past_ids(conversation),
            rescued: Vec::new(),
            incomplete: Vec::new(),
            apologises: false,
            client_calls: 0,
            broken: Vec::new(),
            cut: false,
            cut_calls: Vec::new(),
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
            has_run: false,
            asked_again: 0,
            may_follow_up: settings.may_follow_up(),
            earlier_characters: 0,
            usage: UsageSum::default(),
            state: StateCollector::default(),
            corrections,
            notices: Vec::new(),
            lasting_notices: 0,
            can_replace: false,
            awaits_call: false,
            checkpoint: Checkpoint::default(),
            has_reasoned: false,
            follows: Follows::default(),
            pending: None,
            failure: None,
            tally: Tally::default(),
            skipped: Skipped::default(),
        };
        calls.checkpoint = calls.mark();
        calls
    }

    pub(super) fn set_hosted_rules(&mut self, rules: HostedRules) {
        if let Some(hosted) = &mut self.hosted {
            hosted.set_rules(rules);
        }
    }

    /// Prepares to show reasoning that is not the model's own. Returns whether the model's reasoning was
    /// still open.
    pub(super) fn ends_reasoning(&mut self) -> bool {
        std::mem::take(&mut self.is_reasoning_open)
    }

    /// Adds a warning that stays even if another hop replaces this one.
    pub(super) fn warn_in_any_case(&mut self, warning: Warning<'static>) {
        self.warn(warning);
        self.lasting_notices = self.notices.len();
    }

    fn warn(&mut self, warning: Warning<'static>) {
        self.notices.push(warning);
    }

    pub(super) fn corrections(&self) -> &Corrections {
        &self.corrections
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.entries.is_empty() || self.doubles.is_holding()
    }

    /// Whether this hop has reasoned.
    pub(super) fn has_reasoned(&self) -> bool {
        self.has_reasoned
    }

    pub(super) fn tools(&self) -> &DeclaredTools {
        &self.tools
    }

    /// Handles an event. `frame` is the upstream's frame for it, if that frame may be forwarded unchanged.
    pub(super) fn event(&mut self, event: Event<'_>, out: &mut impl Sink) {
        if self.failure.is_some() || (self.pending.is_some() && !is_usage(&event)) {
            return;
        }
        match event {
            // After the first hop, frames contain the id of another response, except those of server tools,
            // which do not contain a response id.
            Event::Verbatim { frame, means: Some(means) } => {
                let may_forward = self.hop == 0 || has_no_response_id(means);
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
                if self.state.is_active() {
                    self.state.reasoning(&reasoning);
                }
                if self.follows.content {
                    return;
                }
                (self.is_reasoning_open, self.has_reasoned) = (true, true);
                send(Event::Reasoning(reasoning), frame, out);
            }
            Event::Warning(Warning { code, message }) => {
                self.warn(Warning { code, message: Cow::Owned(message.into_owned()) });
            }
            Event::Refusal(_) => {
                self.tally.is_refusal = true;
                send(event, frame, out);
            }
            Event::Annotation(annotation) if frame.is_none() && self.earlier_characters > 0 => {
                let shift = |at: u64| at.saturating_add(self.earlier_characters);
                let span = (shift(annotation.span.0), shift(annotation.span.1));
                out.event(Event::Annotation(Annotation { span, ..annotation }));
            }
            event => send(event, frame, out),
        }
    }

    fn is_held_double(&mut self, start: &CallStart<'_>) -> bool {
        let declared = self.tools.resolve(&start.name).map(|name| self.tools.declared(name));
        self.doubles.begins(start, declared.unwrap_or(&start.name))
    }

    /// Called before the hop's finish is handled: passes on the calls that are held as possible duplicates.
    pub(super) fn before_finish(&mut self, out: &mut impl Sink) {
        if self.failure.is_none() && self.pending.is_none() {
            self.settle_doubles(true, out);
        }
    }

    /// Passes on the held calls that turned out not to be duplicates. `is_last` is set if the hop has ended.
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
        if !self.sources.is_empty() && !text.is_empty() {
            self.send_sources(out);
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

    /// Records the text for a follow-up that repeats it to the model, up to a limit.
    fn note_said(&mut self, text: &str) {
        let room = self.settings.limits.max_hold.saturating_sub(self.said.len());
        if !self.said_is_cut {
            self.said.push_str(head(text, boundary_upto(text, room)));
            self.said_is_cut = text.len() > room;
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

/// Whether frames of this event contain neither the id of a response nor a place in it.
fn has_no_response_id(event: &Event<'_>) -> bool {
    match event {
        Event::CallStart(start) => start.runner == Runner::Upstream,
        Event::CallResult(_) | Event::ServerCall(_) => true,
        // Only Responses have annotations without a URL, with places in their part of the text.
        Event::Annotation(annotation) => annotation.url.is_empty(),
        _ => false,
    }
}

fn is_usage(event: &Event<'_>) -> bool {
    matches!(event.meaning(), Event::Usage(_))
}

/// Sends an event, as the upstream's frame if there is one.
fn send(event: Event<'_>, frame: Option<&str>, out: &mut impl Sink) {
    match frame {
        Some(frame) => out.event(Event::Verbatim { frame, means: Some(&event) }),
        None => out.event(event),
    }
}

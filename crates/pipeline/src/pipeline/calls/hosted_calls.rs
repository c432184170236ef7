//! Calls of hosted tools, which the client does not receive. They are collected, and the shell runs them when
//! the hop has ended.
//!
//! | calls of the hop | what follows |
//! |---|---|
//! | hosted ones only | they run, and another hop gets the results |
//! | hosted ones and the client's | as [`MixedTurns`] says |
//! | one was cut off, or the response ended early | the response ends; none of them runs |
//!
//! A hop's turn is collected as the model wrote it, since the next request repeats it: its text, and both
//! kinds of calls in order.

use std::borrow::Cow;

use super::{
    super::hops::{FollowUp, Reason},
    Calls, Fate,
};
use crate::{
    conversation::{Call, Conversation, Part, Role, Turn},
    digest::Digest,
    event::{CallEnd, CallStart, Event, Runner, Sink},
    failure::Failure,
    rules::{HostedRules, Limits, MixedTurns},
    tools::is_spelling_of,
};

/// The hosted tools of a request, and the calls of the current hop.
#[derive(Debug, Default)]
pub(super) struct HostedCalls {
    /// The names under which they may be called.
    names: Vec<String>,
    rules: HostedRules,
    /// The calls of this hop in order, both the client's and those of hosted tools.
    calls: Vec<HopCall>,
    /// Bytes of the names, ids and arguments of these calls.
    kept: usize,
    /// Calls for the client that wait for the end of the hop.
    held: Vec<(CallStart<'static>, String, CallEnd)>,
    /// The client's API has no call ids by which results could be matched to calls later.
    lacks_ids: bool,
}

/// A call of the current hop.
#[derive(Debug)]
struct HopCall {
    /// The call's index in the stage from which the call comes.
    source: u32,
    runner: Runner,
    /// The call; its id is empty until the client gets it.
    call: Call,
    has_ended: bool,
}

/// A turn with both kinds of calls. The client has received its calls; the hosted calls will be run for its
/// next request.
#[derive(Debug, Clone, PartialEq)]
pub struct DeferredTurn {
    /// The turn as the model wrote it, with all calls under their final ids.
    pub turn: Turn,
    /// The calls of hosted tools. May be empty if earlier hops had such calls.
    pub hosted: Vec<Call>,
}

impl HostedCalls {
    pub(super) fn new(conversation: &Conversation) -> Option<Self> {
        let (names, lacks_ids) = (&conversation.hosted_tools, conversation.legacy_functions);
        let hosted = (!names.is_empty()).then(|| Self { names: names.clone(), lacks_ids, ..Self::default() });
        hosted.map(|mut hosted| {
            hosted.set_rules(HostedRules::default());
            hosted
        })
    }

    pub(super) fn set_rules(&mut self, mut rules: HostedRules) {
        if self.lacks_ids && rules.mixed_turns == MixedTurns::Defer {
            rules.mixed_turns = MixedTurns::ServerFirst;
        }
        self.rules = rules;
    }

    /// The hosted tool that a model means by `written`: the tool of this name, or the only tool whose name
    /// differs just in its spelling.
    pub(super) fn named(&self, written: &str) -> Option<&str> {
        let own = self.names.iter().find(|own| *own == written);
        let own = own.or_else(|| self.names.iter().find(|own| is_spelling_of(written, own)));
        own.map(String::as_str)
    }

    /// Whether `name` is the name of a hosted tool.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|own| own == name)
    }

    /// The text between the texts of two hops.
    pub(super) fn separator(&self) -> &str {
        &self.rules.separator
    }

    /// Whether the client's calls wait until it is known that the hop has no hosted calls.
    pub(super) fn holds_client_calls(&self) -> bool {
        self.rules.mixed_turns == MixedTurns::ServerFirst
    }

    /// Records the beginning of a call. `id` is empty if the client gets the call later, or not at all.
    pub(super) fn begins(&mut self, source: u32, start: &CallStart<'_>, id: &str) {
        self.kept += id.len() + start.name.len();
        let signature = start.signature.clone().map(crate::event::Opaque::into_owned);
        let call = Call { signature, ..Call::new(id, &*start.name, "") };
        self.calls.push(HopCall { source, runner: start.runner, call, has_ended: false });
    }

    /// Records the next piece of a call's arguments.
    pub(super) fn piece(&mut self, source: u32, piece: &str) {
        let Some(call) = self.call(source) else { return };
        call.call.arguments.push_str(piece);
        self.kept += piece.len();
    }

    /// Records that the client got the call under this id.
    pub(super) fn sent(&mut self, source: u32, id: &str) {
        if let Some(call) = self.call(source) {
            id.clone_into(&mut call.call.id);
        }
    }

    /// Records the end of a call.
    pub(super) fn ends(&mut self, source: u32) {
        if let Some(call) = self.call(source) {
            call.has_ended = true;
        }
    }

    /// The failure if more bytes have been collected than may be kept.
    pub(super) fn failure(&self, limits: &Limits) -> Option<Failure> {
        (self.kept > limits.max_hold.max(limits.max_arguments)).then(|| limits.hosted_calls_too_long())
    }

    /// Whether a call of this hop has this id.
    pub(super) fn has_id(&self, id: &str) -> bool {
        self.calls.iter().any(|call| call.call.id == id)
    }

    /// Forgets the calls of the hop. Returns their ids.
    pub(super) fn next_hop(&mut self) -> impl Iterator<Item = String> + use<> {
        (self.kept, self.held) = (0, Vec::new());
        let calls = std::mem::take(&mut self.calls);
        calls.into_iter().map(|call| call.call.id).filter(|id| !id.is_empty())
    }

    fn call(&mut self, source: u32) -> Option<&mut HopCall> {
        self.calls.iter_mut().rev().find(|call| call.source == source)
    }

    /// The complete calls, and whether toolwire runs each of them.
    fn whole(&self) -> impl Iterator<Item = (&Call, bool)> {
        let whole = self.calls.iter().filter(|call| call.has_ended && !call.call.id.is_empty());
        whole.map(|call| (&call.call, call.runner == Runner::Toolwire))
    }

    /// The calls that toolwire must run.
    fn to_run(&self) -> Vec<Call> {
        self.whole().filter(|(_, is_hosted)| *is_hosted).map(|(call, _)| call.clone()).collect()
    }

    /// The model's turn in this hop, in which it wrote `text`. If `dropped`, the calls of hosted tools are
    /// left out.
    fn turn(&self, text: &str, dropped: bool) -> Turn {
        let text = (!text.is_empty()).then(|| Part::Text(text.into()));
        let calls = self.whole().filter(|(_, is_hosted)| !(dropped && *is_hosted));
        let calls = calls.map(|(call, _)| Part::Call(call.clone()));
        Turn::of(Role::Assistant, text.into_iter().chain(calls).collect())
    }
}

/// What follows a hop because of its calls of hosted tools.
pub(super) enum After {
    /// They run, and another hop follows.
    Hop(FollowUp),
    /// The response ends.
    End {
        /// The turn that the client's next request lacks, if it contains results of the client's calls.
        deferred: Option<DeferredTurn>,
        /// Number of calls that are not run.
        dropped: usize,
    },
}

impl After {
    /// There are no hosted calls, so nothing follows from them.
    pub(super) const NOTHING: Self = Self::End { deferred: None, dropped: 0 };
}

impl Calls {
    /// The hosted tool that the model means by `written`, which is not a declared name.
    pub(super) fn hosted_name(&self, written: &str) -> Option<String> {
        self.hosted.as_ref()?.named(written).map(str::to_owned)
    }

    /// Whether toolwire handles calls to `name`, which is the tool's declared name or the name as written. A
    /// client without tools cannot be given a call, so toolwire reports calls to unknown tools to the model.
    pub(super) fn is_hosted(&self, name: &str) -> bool {
        self.hosted.as_ref().is_some_and(|hosted| hosted.has(name) || !self.has_tools)
    }

    /// Begins a call of a hosted tool.
    pub(super) fn begin_hosted(&mut self, mut start: CallStart<'_>, rescue: bool) -> Fate {
        start.runner = Runner::Toolwire;
        let id = match start.id.is_empty() || self.is_used(&start.id) {
            true => self.unused_id(),
            false => start.id.clone().into_owned(),
        };
        if let Some(hosted) = &mut self.hosted {
            hosted.begins(start.index, &start, &id);
        }
        Fate::Hosted { rescue }
    }

    /// Ends a call of a hosted tool, which is complete or will never be.
    pub(super) fn end_hosted(&mut self, source: u32, end: CallEnd, rescue: bool) {
        if end == CallEnd::Cut {
            self.cut = true;
            self.tally.dropped_calls += 1;
            return;
        }
        let call = self.hosted.as_mut().and_then(|hosted| hosted.call(source));
        let call = call.map(|call| (call.call.name.clone(), Digest::of(&call.call.arguments)));
        if rescue && call.is_none_or(|call| self.is_repeated(call)) {
            return;
        }
        if let Some(hosted) = &mut self.hosted {
            hosted.ends(source);
        }
    }

    /// Whether the model repeats a call that the upstream refused to run. The call must not run twice.
    fn is_repeated(&mut self, call: (String, Digest)) -> bool {
        self.apologises = true;
        let is_repeated = self.rescued.contains(&call);
        if !is_repeated {
            self.rescued.push(call);
        }
        is_repeated
    }

    /// Holds a call for the client until the hop ends.
    pub(super) fn hold(
        &mut self,
        mut start: CallStart<'static>,
        (arguments, end): (String, CallEnd),
        rescue: bool,
    ) {
        let source = start.index;
        if rescue && self.is_repeated((start.name.clone().into_owned(), Digest::of(&arguments))) {
            return;
        }
        if start.id.is_empty() || self.is_used(&start.id) || is_guessable(&start.id, &start.name) {
            start.id = Cow::Owned(self.unused_id());
        }
        let Some(hosted) = &mut self.hosted else { return };
        hosted.sent(source, &start.id);
        hosted.ends(source);
        hosted.held.push((start, arguments, end));
    }

    /// Sends the calls that were held until the end of the hop.
    pub(super) fn send_held(&mut self, out: &mut impl Sink) {
        let Some(hosted) = &mut self.hosted else { return };
        let mut held = std::mem::take(&mut hosted.held);
        // The model may end its calls in an order other than that in which it began them.
        held.sort_by_key(|(start, ..)| hosted.calls.iter().position(|call| call.call.id == start.id));
        // The held calls keep these ids, which must no longer count as used.
        hosted.calls.clear();
        for (start, arguments, end) in held {
            if let Some(index) = self.send_start(start, None, out) {
                self.send_whole(index, arguments, end, out);
            }
        }
    }

    /// Whether the hop has calls that toolwire must run.
    pub(super) fn has_hosted_calls(&self) -> bool {
        self.hosted.as_ref().is_some_and(|hosted| hosted.whole().any(|(_, is_hosted)| is_hosted))
    }

    /// The names of the hop's calls that are not wrong, without duplicates. The client's calls are included
    /// only if there are hosted tools.
    pub(super) fn others_not_run(&self) -> Vec<String> {
        let calls = self.hosted.iter().flat_map(|hosted| &hosted.calls).filter(|call| call.has_ended);
        let mut names = Vec::new();
        for HopCall { call, .. } in calls {
            if !self.corrections.is_wrong(&call.name, &call.arguments) && !names.contains(&call.name) {
                names.push(call.name.clone());
            }
        }
        names
    }

    /// Whether another client could guess the id of a client's call, by which its result is found later. Held
    /// calls already have safe ids.
    pub(super) fn has_guessable_id(&self, start: &CallStart<'_>) -> bool {
        let gives_ids = self.hosted.as_ref().is_some_and(|hosted| !hosted.holds_client_calls());
        gives_ids && start.runner == Runner::Client && is_guessable(&start.id, &start.name)
    }

    /// Decides what follows the hop because of its calls of hosted tools.
    pub(super) fn after_hosted(&self) -> After {
        let Some(hosted) = &self.hosted else { return After::NOTHING };
        let calls = hosted.to_run();
        let has_sent = self.client_calls > self.checkpoint.client_calls;
        let drops = hosted.rules.mixed_turns == MixedTurns::ClientOnly && has_sent;
        let turn = || {
            let mut turn = hosted.turn(&self.said, drops);
            turn.parts.splice(0..0, self.state.reasoning_so_far());
            turn
        };
        if !calls.is_empty() && !has_sent {
            return After::Hop(FollowUp { reason: Reason::Hosted, turns: vec![turn()], hosted: calls });
        }
        let dropped = if drops { calls.len() } else { 0 };
        let runs = if drops { Vec::new() } else { calls };
        // The client's next request also lacks the earlier hops, if those had hosted calls.
        let has_run = self.tally.follow_ups.contains(&Reason::Hosted);
        let lacks_hops = has_run && (has_sent || !hosted.held.is_empty());
        let deferred = (!runs.is_empty() || lacks_hops).then(|| DeferredTurn { turn: turn(), hosted: runs });
        After::End { deferred, dropped }
    }

    /// Sends the text between the texts of two hops, before the first text of the later hop.
    pub(super) fn separate(&mut self, out: &mut impl Sink) {
        self.is_separator_due = false;
        let separator = self.hosted.as_ref().map(|hosted| hosted.separator().to_owned()).unwrap_or_default();
        if separator.is_empty() {
            return;
        }
        let length = u64::try_from(separator.chars().count()).unwrap_or(u64::MAX);
        self.earlier_characters = self.earlier_characters.saturating_add(length);
        if let Some(characters) = &mut self.characters {
            *characters += length;
        }
        out.event(Event::Text(Cow::Owned(separator)));
    }
}

/// Whether the id of a call to the tool `name` could be guessed because it is not long or random enough.
fn is_guessable(id: &str, name: &str) -> bool {
    const LENGTH: usize = 20;
    const OF_EACH: usize = 3;
    let own = if name.is_empty() { Cow::Borrowed(id) } else { Cow::Owned(id.replace(name, "")) };
    let digits = own.bytes().filter(u8::is_ascii_digit).count();
    let letters = own.bytes().filter(u8::is_ascii_alphabetic).count();
    digits < OF_EACH || letters < OF_EACH || digits + letters < LENGTH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_ids_are_kept_and_counted_ones_replaced() {
        for id in [
            "call_abc123DEF456ghi789JKL012",
            "toolu_01A09q90qw90lq917835lq9",
            "chatcmpl-tool-8d2bf6f0a3c14e2f9b7a6c5d4e3f2a1b",
            "call_550e8400-e29b-41d4-a716-446655440000",
        ] {
            assert!(!is_guessable(id, "weather"), "{id}");
        }
        for id in [
            "",
            "call_0",
            "0",
            "functions.weather:12",
            "n1",
            "00000000000000000000000001",
            "call_weather_1234",
        ] {
            assert!(is_guessable(id, "weather"), "{id}");
        }
        assert!(is_guessable("functions.get_weather_v2000_europe:0", "get_weather_v2000_europe"));
    }
}

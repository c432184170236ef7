//! Calls to hosted tools. The client does not receive them; they are collected, and the shell runs them when
//! the hop has ended.
//!
//! | calls in the hop | what follows |
//! |---|---|
//! | only hosted calls | they run, and another hop gets the results |
//! | hosted calls and client calls | depends on [`MixedTurns`] |
//! | searches that the client sees, and client calls | the searches run, and the response ends |
//! | a call was cut off, or the response ended early | the response ends; no hosted call runs |
//!
//! The model's turn is recorded as the model wrote it, with its text and all calls in order, because the next
//! request repeats it.

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

#[derive(Debug, Default)]
pub(super) struct HostedCalls {
    /// The names under which the model may call the hosted tools.
    names: Vec<String>,
    /// The names of those that search other tools.
    searches: Vec<String>,
    /// Whether the client sees the searches, and sends them back.
    shows_searches: bool,
    /// The names of those whose calls need the client's approval.
    asks: Vec<String>,
    rules: HostedRules,
    /// All calls in this hop, in order: those to hosted tools and those for the client.
    calls: Vec<HopCall>,
    /// Total bytes of the names, ids and arguments of these calls.
    kept: usize,
    /// Calls for the client that are held until the hop ends.
    held: Vec<(CallStart<'static>, String, CallEnd)>,
    /// Whether the client's API has no call ids, so results could not be matched to calls later.
    lacks_ids: bool,
}

#[derive(Debug)]
struct HopCall {
    /// The call's index in the stage that produced it.
    source: u32,
    runner: Runner,
    /// The call, with an empty id until the client receives it.
    call: Call,
    has_ended: bool,
}

/// A turn with hosted calls and client calls. The client has received its own calls, and the hosted calls run
/// when it sends its next request.
#[derive(Debug, Clone, PartialEq)]
pub struct DeferredTurn {
    /// The turn as the model wrote it, with all calls under their final ids.
    pub turn: Turn,
    /// The calls to hosted tools. Empty if only earlier hops contained such calls.
    pub hosted: Vec<Call>,
}

impl HostedCalls {
    pub(super) fn new(conversation: &Conversation) -> Option<Self> {
        let (names, lacks_ids) = (&conversation.hosted_tools, conversation.legacy_functions);
        let hosted = (!names.is_empty()).then(|| Self {
            names: names.clone(),
            searches: conversation.deferral.searches.clone(),
            shows_searches: !conversation.deferral.deferred.is_empty(),
            asks: conversation.mcp.asks.clone(),
            lacks_ids,
            ..Self::default()
        });
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

    /// The hosted tool called `written`, or, failing that, the tool whose name differs from it only in
    /// spelling.
    pub(super) fn named(&self, written: &str) -> Option<&str> {
        let own = self.names.iter().find(|own| *own == written);
        let own = own.or_else(|| self.names.iter().find(|own| is_spelling_of(written, own)));
        own.map(String::as_str)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|own| own == name)
    }

    /// The separator between the text of two hops.
    pub(super) fn separator(&self) -> &str {
        &self.rules.separator
    }

    /// Whether the client's calls are held until it is known whether the hop has hosted calls.
    pub(super) fn holds_client_calls(&self) -> bool {
        self.rules.mixed_turns == MixedTurns::ServerFirst
    }

    /// Records the start of a call. `id` is empty if the client receives the call later or never.
    pub(super) fn begins(&mut self, source: u32, start: &CallStart<'_>, id: &str) {
        self.kept += id.len() + start.name.len();
        let signature = start.signature.clone().map(crate::event::Opaque::into_owned);
        let call = Call { signature, ..Call::new(id, &*start.name, "") };
        self.calls.push(HopCall { source, runner: start.runner, call, has_ended: false });
    }

    pub(super) fn piece(&mut self, source: u32, piece: &str) {
        let Some(call) = self.call(source) else { return };
        call.call.arguments.push_str(piece);
        self.kept += piece.len();
    }

    /// Records the id under which the client received the call.
    pub(super) fn sent(&mut self, source: u32, id: &str) {
        if let Some(call) = self.call(source) {
            id.clone_into(&mut call.call.id);
        }
    }

    pub(super) fn ends(&mut self, source: u32) {
        if let Some(call) = self.call(source) {
            call.has_ended = true;
        }
    }

    /// The failure to report if the collected calls exceed the limit.
    pub(super) fn failure(&self, limits: &Limits) -> Option<Failure> {
        (self.kept > limits.max_hold.max(limits.max_arguments)).then(|| limits.hosted_calls_too_long())
    }

    pub(super) fn has_id(&self, id: &str) -> bool {
        self.calls.iter().any(|call| call.call.id == id)
    }

    /// Removes the calls of this hop and returns their ids.
    pub(super) fn next_hop(&mut self) -> impl Iterator<Item = String> + use<> {
        (self.kept, self.held) = (0, Vec::new());
        let calls = std::mem::take(&mut self.calls);
        calls.into_iter().map(|call| call.call.id).filter(|id| !id.is_empty())
    }

    fn call(&mut self, source: u32) -> Option<&mut HopCall> {
        self.calls.iter_mut().rev().find(|call| call.source == source)
    }

    /// The complete calls. The flag is set if toolwire runs the call.
    fn whole(&self) -> impl Iterator<Item = (&Call, bool)> {
        let whole = self.calls.iter().filter(|call| call.has_ended && !call.call.id.is_empty());
        whole.map(|call| (&call.call, call.runner == Runner::Toolwire))
    }

    /// The calls that toolwire runs, with their arguments so far. Searches for tools are left out.
    fn begun(&self) -> impl Iterator<Item = &Call> {
        let own = self.calls.iter().filter(|call| call.runner == Runner::Toolwire);
        own.map(|call| &call.call).filter(|call| !self.is_search(call))
    }

    fn to_run(&self) -> Vec<Call> {
        self.whole().filter(|(_, is_hosted)| *is_hosted).map(|(call, _)| call.clone()).collect()
    }

    fn is_search(&self, call: &Call) -> bool {
        self.searches.contains(&call.name)
    }

    fn needs_approval(&self, call: &Call) -> bool {
        self.asks.contains(&call.name)
    }

    /// The model's turn in this hop, with the text `text`. Hosted calls that `is_dropped` are left out.
    fn turn(&self, text: &str, is_dropped: &dyn Fn(&Call) -> bool) -> Turn {
        let text = (!text.is_empty()).then(|| Part::Text(text.into()));
        let calls = self.whole().filter(|(call, is_hosted)| !(*is_hosted && is_dropped(call)));
        let calls = calls.map(|(call, _)| Part::Call(call.clone()));
        Turn::of(Role::Assistant, text.into_iter().chain(calls).collect())
    }
}

/// What follows a hop, judging by its hosted calls.
#[derive(Default)]
pub(super) struct After {
    /// The hop, or the end of the response, that comes next. `None` if the response ends at once.
    pub(super) follow_up: Option<FollowUp>,
    /// The turn to add to the client's next request if that request contains results of the client's calls.
    pub(super) deferred: Option<DeferredTurn>,
    /// Number of calls that are not run.
    pub(super) dropped: usize,
}

impl After {
    fn hop(follow_up: FollowUp) -> Self {
        Self { follow_up: Some(follow_up), ..Self::default() }
    }
}

impl Calls {
    /// The hosted tool that the model meant by the undeclared name `written`.
    pub(super) fn hosted_name(&self, written: &str) -> Option<String> {
        self.hosted.as_ref()?.named(written).map(str::to_owned)
    }

    /// Whether toolwire handles calls to `name` (the declared name, or the name as written). If the client
    /// declared no tools, it cannot be given a call at all, so toolwire also handles calls to unknown tools
    /// and reports them to the model.
    pub(super) fn is_hosted(&self, name: &str) -> bool {
        self.hosted.as_ref().is_some_and(|hosted| hosted.has(name) || !self.has_tools)
    }

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

    pub(super) fn end_hosted(&mut self, source: u32, end: CallEnd, rescue: bool) {
        if end == CallEnd::Cut {
            self.cut = true;
            self.tally.dropped_calls += 1;
            return;
        }
        self.corrections.completes();
        let call = self.hosted.as_mut().and_then(|hosted| hosted.call(source));
        let call = call.map(|call| (call.call.name.clone(), Digest::of(&call.call.arguments)));
        if rescue && call.is_none_or(|call| self.is_repeated(call)) {
            return;
        }
        if let Some(hosted) = &mut self.hosted {
            hosted.ends(source);
        }
    }

    /// Whether this call repeats one that the upstream refused to run, in which case it must not run again.
    /// Records the call.
    fn is_repeated(&mut self, call: (String, Digest)) -> bool {
        self.apologises = true;
        let is_repeated = self.rescued.contains(&call);
        if !is_repeated {
            self.rescued.push(call);
        }
        is_repeated
    }

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

    pub(super) fn send_held(&mut self, out: &mut impl Sink) {
        let Some(hosted) = &mut self.hosted else { return };
        let mut held = std::mem::take(&mut hosted.held);
        // The model may have ended its calls in a different order from that in which it started them.
        held.sort_by_key(|(start, ..)| hosted.calls.iter().position(|call| call.call.id == start.id));
        // The held calls use these ids, which must therefore no longer count as used.
        hosted.calls.clear();
        for (start, arguments, end) in held {
            if let Some(index) = self.send_start(start, None, out) {
                self.send_whole(index, arguments, end, out);
            }
        }
    }

    pub(in crate::pipeline) fn begun_hosted_calls(&self) -> impl Iterator<Item = &Call> {
        self.hosted.iter().flat_map(|hosted| hosted.begun())
    }

    pub(super) fn has_hosted_calls(&self) -> bool {
        self.hosted.as_ref().is_some_and(|hosted| hosted.whole().any(|(_, is_hosted)| is_hosted))
    }

    /// The names of the hop's valid calls, without duplicates.
    pub(super) fn others_not_run(&self) -> Vec<String> {
        let calls = self.hosted.iter().flat_map(|hosted| &hosted.calls).filter(|call| call.has_ended);
        let mut names = Vec::new();
        for HopCall { call, .. } in calls {
            if !self.corrections.is_wrong(&call.name, &call.arguments) && !names.contains(&call.name) {
                names.push(call.name.clone());
            }
        }
        if self.hosted.is_none() {
            names.extend_from_slice(self.corrections.valid());
        }
        names
    }

    /// Whether another client could guess this client call's id, which is later used to look up the deferred
    /// turn. Held calls already have safe ids.
    pub(super) fn has_guessable_id(&self, start: &CallStart<'_>) -> bool {
        let gives_ids = self.hosted.as_ref().is_some_and(|hosted| !hosted.holds_client_calls());
        gives_ids && start.runner == Runner::Client && is_guessable(&start.id, &start.name)
    }

    pub(super) fn after_hosted(&self) -> After {
        let Some(hosted) = &self.hosted else { return After::default() };
        let calls = hosted.to_run();
        let has_sent = self.client_calls > self.checkpoint.client_calls;
        // The client's next request cannot contain the result of a search that it does not see, and the model can search
        // again.
        let drops_all = hosted.rules.mixed_turns == MixedTurns::ClientOnly;
        let is_dropped = |call: &Call| has_sent && (drops_all || hosted.is_search(call));
        let turn = |is_dropped: &dyn Fn(&Call) -> bool| {
            let mut turn = hosted.turn(&self.said, is_dropped);
            turn.parts.splice(0..0, self.state.reasoning_so_far());
            turn
        };
        if !calls.is_empty() && !has_sent {
            let only_searches = calls.iter().all(|call| hosted.is_search(call));
            let reason = if only_searches { Reason::ToolSearch } else { Reason::Hosted };
            // The client must first approve some of them.
            let is_last = calls.iter().any(|call| hosted.needs_approval(call));
            return After::hop(FollowUp { reason, turns: vec![turn(&is_dropped)], hosted: calls, is_last });
        }
        let (mut dropped, runs): (Vec<_>, Vec<_>) = calls.into_iter().partition(is_dropped);
        let (asks, runs): (Vec<_>, Vec<_>) = runs.into_iter().partition(|call| hosted.needs_approval(call));
        // If earlier hops had hosted calls, the client's next request does not contain those hops either.
        let lacks_hops = self.has_run && (has_sent || !hosted.held.is_empty());
        let is_deferred = !runs.is_empty() || lacks_hops;
        if hosted.shows_searches && has_sent && !is_deferred {
            let searches: Vec<_> = dropped.extract_if(.., |call| hosted.is_search(call)).collect();
            if !searches.is_empty() {
                let turns = vec![turn(&|call| !hosted.is_search(call))];
                let (reason, hosted) = (Reason::ToolSearch, [searches, asks].concat());
                return After::hop(FollowUp { reason, turns, hosted, is_last: true });
            }
        }
        let is_left_out = |call: &Call| is_dropped(call) || hosted.needs_approval(call);
        let deferred = is_deferred.then(|| DeferredTurn { turn: turn(&is_left_out), hosted: runs });
        let follow_up = (!asks.is_empty()).then(|| {
            let turns = vec![turn(&|call| !hosted.needs_approval(call))];
            FollowUp { reason: Reason::Hosted, turns, hosted: asks, is_last: true }
        });
        After { follow_up, deferred, dropped: dropped.len() }
    }

    /// Sends the separator between the text of two hops. Called before the first text of the later hop.
    pub(super) fn separate(&mut self, out: &mut impl Sink) {
        self.is_separator_due = false;
        let hosted = self.hosted.as_ref();
        let separator =
            hosted.map_or_else(|| HostedRules::default().separator, |it| it.separator().to_owned());
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

/// Whether the id of a call to the tool `name` is too short or not random enough to be unguessable.
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

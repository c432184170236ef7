//! The end of a hop: decides whether another hop follows, and otherwise what the finish reason is.

use super::{
    super::{
        hops::{FollowUp, Reason},
        turn_state::StateMark,
        withheld_events::NextHop,
    },
    Calls, Entry, Fate, Follows,
    doubles::Doubles,
    hosted_calls::After,
    misrouted_calls::{self, Incomplete},
    send,
};
use crate::{
    event::{CallEnd, Event, Finish, Sink},
    rules::ArgumentDelivery,
};

/// A hop that has ended and should be followed by another one. Its finish is withheld.
#[derive(Debug)]
pub(in crate::pipeline) struct Pending {
    pub(in crate::pipeline) follow_up: FollowUp,
    pub(in crate::pipeline) finish: Finish,
    /// The calls to send unchanged if no other hop follows.
    incomplete: Vec<Incomplete>,
}

/// A snapshot of what had been sent when content was first withheld in a hop. It is restored if another hop
/// replaces the withheld content.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Checkpoint {
    ids: usize,
    pub(super) client_calls: usize,
    broken: usize,
    rescued: usize,
    calls: usize,
    characters: Option<u64>,
    /// Number of sources that the hop's text is to cite.
    sources: usize,
    state: StateMark,
    is_separator_due: bool,
    /// What had been sent of this hop.
    sent: Follows,
}

impl Calls {
    /// Begins the response with the calls of `follow_up`, which run before the model is asked.
    pub(in crate::pipeline) fn begin_with(&mut self, follow_up: FollowUp) {
        self.pending = Some(Pending { follow_up, finish: Finish::Calls, incomplete: Vec::new() });
    }

    /// Prepares for the next upstream response, which numbers its calls and characters from 0 again.
    pub(in crate::pipeline) fn next_hop(&mut self) -> NextHop {
        if let Some(Pending { follow_up: FollowUp { reason, .. }, .. }) = self.pending.take() {
            self.tally.follow_ups.push(reason);
            match reason {
                Reason::Hosted | Reason::ToolSearch => self.after_hosted_calls(reason),
                _ => self.asked_again += 1,
            }
            if reason.replaces() {
                self.roll_back();
            } else {
                self.follows = Follows::default();
            }
        }
        let past_ids = self.hosted.as_mut().map(|hosted| hosted.next_hop());
        self.past_ids.extend(past_ids.into_iter().flatten());
        self.state.next_hop();
        self.usage.next_hop();
        self.hop += 1;
        self.begin_hop()
    }

    /// Forgets what belongs to one upstream response.
    fn begin_hop(&mut self) -> NextHop {
        self.corrections.next_hop();
        self.entries.clear();
        self.cut_calls.clear();
        self.doubles = Doubles::default();
        self.apologises = false;
        self.said = String::new();
        self.said_is_cut = false;
        (self.has_reasoned, self.awaits_call) = (false, false);
        self.checkpoint = self.mark();
        self.lasting_notices = self.notices.len();
        let may_ask_again = self.asked_again + 1 < self.settings.limits.max_hops;
        self.may_follow_up = self.settings.may_follow_up() && may_ask_again;
        self.keeps_text = self.may_follow_up || self.hosted.is_some() || self.follows.text;
        self.earlier_characters = self.characters.unwrap_or(0);
        NextHop { may_be_replaced: self.may_follow_up, follows_text: self.follows.text }
    }

    /// Continues the response of `earlier`, whose last hop begins again, with the rules and tools of this stage.
    pub(in crate::pipeline) fn continues(&mut self, earlier: Self) -> NextHop {
        let Self { tools, settings, has_tools, hosted, state, corrections, .. } =
            std::mem::replace(self, earlier);
        self.roll_back();
        (self.tools, self.settings, self.has_tools, self.hosted) = (tools, settings, has_tools, hosted);
        (self.state, self.corrections) = (state, corrections);
        if self.has_run {
            self.corrections.waive_required();
        }
        (self.pending, self.failure, self.deferred) = (None, None, None);
        self.incomplete.clear();
        self.usage.begin_again();
        self.begin_hop()
    }

    /// Called before the first hop of a response to a request with results that the client has not seen.
    pub(in crate::pipeline) fn follows_hosted_calls(&mut self) {
        self.has_run = true;
        self.corrections.waive_required();
    }

    /// Prepares for a hop that continues after the results of hosted tools, which the client does not see.
    fn after_hosted_calls(&mut self, reason: Reason) {
        self.is_separator_due |= !self.said.is_empty();
        // The next request repeats the reasoning of this hop. The client's later requests contain none of
        // this hop's calls, so no state has to be retained for them.
        self.state.clear();
        // The call that the client requires may be what the model searches for.
        if reason != Reason::ToolSearch {
            self.follows_hosted_calls();
        }
    }

    /// What has been sent so far.
    pub(super) fn mark(&self) -> Checkpoint {
        // White space alone is no reason to leave out the text of the next hop.
        let text = !self.said.trim_ascii().is_empty();
        Checkpoint {
            ids: self.sent_ids.len(),
            client_calls: self.client_calls,
            broken: self.broken.len(),
            rescued: self.rescued.len(),
            calls: self.tally.calls.len(),
            characters: self.characters,
            sources: self.sources.len(),
            state: self.state.mark(),
            is_separator_due: self.is_separator_due,
            sent: Follows { text, content: text || self.has_reasoned },
        }
    }

    /// Discards the withheld output of this hop, because the next hop replaces it. The output still counts
    /// towards the limits.
    fn roll_back(&mut self) {
        let Checkpoint { ids, client_calls, broken, rescued, calls, characters, .. } = self.checkpoint;
        let Checkpoint { sources, state, is_separator_due, sent, .. } = self.checkpoint;
        self.sent_ids.truncate(ids);
        self.rescued.truncate(rescued);
        self.tally.calls.truncate(calls);
        self.client_calls = client_calls;
        self.broken.truncate(broken);
        self.cut = false;
        self.notices.truncate(self.lasting_notices);
        self.state.roll_back(state);
        self.sources.truncate(sources);
        self.characters = characters;
        // In a hop that follows text, the text before its own calls is not sent either.
        self.follows.text |= sent.text;
        self.follows.content |= sent.content;
        self.is_separator_due |= self.follows.text || is_separator_due;
    }

    /// Called before the first call of a hop that follows text: the text before the call is not sent.
    fn leave_out_text(&mut self) {
        self.characters = self.checkpoint.characters;
        self.earlier_characters = self.characters.unwrap_or(0);
        self.is_separator_due = true;
    }

    /// Called before a call for the client is sent.
    pub(super) fn before_call(&mut self) {
        if self.awaits_call {
            self.checkpoint = self.mark();
            self.awaits_call = false;
        } else if self.can_replace && self.follows.text && self.client_calls == self.checkpoint.client_calls {
            self.leave_out_text();
        }
    }

    pub(super) fn finish(&mut self, said: Finish, frame: Option<&str>, out: &mut impl Sink) {
        let incomplete = std::mem::take(&mut self.incomplete);
        let untold = |entry: &Entry| matches!(entry.fate, Fate::Annotated { arguments: Some(_), .. });
        let untold: Vec<u32> = self.entries.iter().filter(|it| untold(it)).map(|it| it.source).collect();
        untold.into_iter().for_each(|source| self.annotate(source, None, out));
        // If hosted calls run next, the client's incomplete calls are sent unchanged.
        let incomplete = match self.has_hosted_calls() {
            true => self.send_incomplete(incomplete, out),
            false => incomplete,
        };
        // A response that was cut off is not retried.
        let follow_up = match said {
            Finish::Length | Finish::Filter => None,
            Finish::Stop | Finish::Calls if !incomplete.is_empty() => {
                Some(misrouted_calls::follow_up(&self.said, &incomplete))
            }
            Finish::Stop | Finish::Calls => self.correction(),
        };
        if let Some(mut follow_up) = follow_up {
            if self.awaits_call {
                self.checkpoint = self.mark();
            }
            follow_up.remember(self.state.reasoning_so_far());
            self.pending = Some(Pending { follow_up, finish: said, incomplete });
            return;
        }
        let After { follow_up, deferred, dropped } = match said {
            Finish::Stop | Finish::Calls if !self.cut => self.after_hosted(),
            _ => After::default(),
        };
        self.deferred = deferred;
        self.tally.dropped_calls += u64::try_from(dropped).unwrap_or(u64::MAX);
        match follow_up {
            Some(follow_up) => self.pending = Some(Pending { follow_up, finish: said, incomplete }),
            None => self.conclude(said, incomplete, frame, out),
        }
    }

    /// The follow-up that asks the model to make its wrong calls again. The upstream did not say that it cut
    /// off the response.
    fn correction(&mut self) -> Option<FollowUp> {
        for (start, arguments) in &self.cut_calls {
            if self.tools.resolve(&start.name).is_some() {
                self.corrections.ends(&start.name, arguments, CallEnd::Cut);
            }
        }
        if !self.can_replace || !self.may_follow_up {
            return None;
        }
        self.corrections.follow_up(&self.said, &self.tools, &self.others_not_run())
    }

    /// Ends the response with this hop, even though another one was due.
    pub(in crate::pipeline) fn end_response(&mut self, out: &mut impl Sink) {
        let Some(Pending { finish, incomplete, .. }) = self.pending.take() else { return };
        self.conclude(finish, incomplete, None, out);
    }

    fn conclude(
        &mut self,
        said: Finish,
        incomplete: Vec<Incomplete>,
        frame: Option<&str>,
        out: &mut impl Sink,
    ) {
        self.send_incomplete(incomplete, out);
        self.send_held(out);
        self.send_cut(out);
        self.send_sources(out);
        let agreed = self.agreed(said);
        self.tally.finish = Some(agreed);
        let mut warnings = std::mem::take(&mut self.notices);
        warnings.extend(self.corrections.warnings());
        warnings.extend(self.corrections.broken_warning(&self.broken));
        let frame = frame.filter(|_| agreed == said && warnings.is_empty());
        for warning in warnings {
            self.tally.warnings.push(warning.code);
            out.event(Event::Warning(warning));
        }
        send(Event::Finish(agreed), frame, out);
    }

    /// Sends calls that lack arguments as they are. Returns an empty list.
    fn send_incomplete(&mut self, incomplete: Vec<Incomplete>, out: &mut impl Sink) -> Vec<Incomplete> {
        for Incomplete { start, arguments, .. } in incomplete {
            let source = start.index;
            if let Some(index) = self.send_start(start, None, out) {
                self.note_sent(source);
                self.note_end(source);
                self.send_whole(index, arguments, CallEnd::Complete, out);
            }
        }
        Vec::new()
    }

    /// Sends the calls whose arguments did not end. With [`ArgumentDelivery::Whole`], such calls are dropped.
    fn send_cut(&mut self, out: &mut impl Sink) {
        for (start, arguments) in std::mem::take(&mut self.cut_calls) {
            if self.settings.arguments == ArgumentDelivery::Whole {
                self.tally.dropped_calls += 1;
            } else if let Some(index) = self.send_start(start, None, out) {
                self.send_whole(index, arguments, CallEnd::Cut, out);
            }
        }
    }

    /// The finish reason that is consistent with what was sent. If the client received calls, a plain stop
    /// becomes [`Finish::Calls`], even if the calls are broken. If the response ended inside a call, it was cut
    /// off. Calls that the upstream ran itself change nothing.
    fn agreed(&self, said: Finish) -> Finish {
        match said {
            Finish::Stop | Finish::Calls if self.cut => Finish::Length,
            said => said.of_calls(self.client_calls > 0),
        }
    }
}

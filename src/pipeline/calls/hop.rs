//! The end of a hop: whether another one follows, and the finish reason if none does.

use std::borrow::Cow;

use super::{
    super::hops::FollowUp,
    Calls, Entry, Fate,
    misrouted::{self, Incomplete},
    send,
};
use crate::event::{CallEnd, Event, Finish, Sink};

/// A hop that has ended, after which the response is to go on with another one. The hop's finish is withheld.
#[derive(Debug)]
pub(in crate::pipeline) struct Pending {
    pub(in crate::pipeline) follow_up: FollowUp,
    finish: Finish,
    /// The calls that are sent as they are if there is no other hop.
    incomplete: Vec<Incomplete>,
}

/// What had been sent at some point.
#[derive(Debug, Default)]
pub(super) struct Checkpoint {
    ids: usize,
    client_calls: usize,
    broken_calls: usize,
    rescued: usize,
    calls: usize,
}

impl Calls {
    /// Another upstream response follows, whose calls and characters are numbered from 0 again.
    pub(in crate::pipeline) fn next_hop(&mut self) {
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
        self.state.clear();
        if let Some(characters) = &mut self.characters {
            *characters = self.earlier_characters;
        }
    }

    /// The hop has ended: decides whether another one follows.
    pub(super) fn finish(&mut self, said: Finish, frame: Option<&str>, out: &mut impl Sink) {
        let incomplete = std::mem::take(&mut self.incomplete);
        let untold = |entry: &Entry| matches!(entry.fate, Fate::Annotated { arguments: Some(_), .. });
        let untold: Vec<u32> = self.entries.iter().filter(|it| untold(it)).map(|it| it.source).collect();
        untold.into_iter().for_each(|source| self.annotate(source, None, out));
        // The model is not asked again after a response that was cut off.
        let follow_up = match said {
            Finish::Length | Finish::Filter => None,
            Finish::Stop | Finish::Calls if !incomplete.is_empty() => {
                Some(misrouted::follow_up(&self.said, &incomplete))
            }
            Finish::Stop | Finish::Calls if self.cut || !self.can_replace || !self.may_follow_up => None,
            Finish::Stop | Finish::Calls => self.corrections.follow_up(&self.said, &self.tools),
        };
        if let Some(mut follow_up) = follow_up {
            follow_up.remember(self.state.reasoning_so_far());
            self.pending = Some(Pending { follow_up, finish: said, incomplete });
            return;
        }
        self.conclude(said, incomplete, frame, out);
    }

    /// The response ends with this hop, although it was to go on.
    pub(in crate::pipeline) fn end_response(&mut self, out: &mut impl Sink) {
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
            let Some(index) = self.send_start(start, None, out) else { continue };
            out.event(Event::CallArguments { index, piece: Cow::Owned(arguments) });
            out.event(Event::CallEnd { index, end: CallEnd::Complete });
        }
        let agreed = self.agreed(said);
        self.tally.finish = Some(agreed);
        let mut warnings = std::mem::take(&mut self.notices);
        warnings.extend(self.corrections.warnings());
        let frame = frame.filter(|_| agreed == said && warnings.is_empty());
        for warning in warnings {
            self.tally.warnings.push(warning.code);
            out.event(Event::Warning(warning));
        }
        send(Event::Finish(agreed), frame, out);
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

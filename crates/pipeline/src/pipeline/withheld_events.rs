//! [`WithheldEvents`]: content of a hop that is withheld from the client because the model may be asked
//! again. The client must not see content that is later replaced.
//!
//! Content is withheld only if `enforce`, `unknown_calls` or `invalid_arguments` is `"retry"`. The text and the
//! reasoning before a hop's first call may be sent: as long as nothing of the call itself has been sent,
//! another hop can replace it. If the client has text from before the replaced call, the next hop's text before
//! its own first call is left out.

use std::collections::VecDeque;

use super::backlog::Waiting;
use crate::event::{CallStart, Event, Runner};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Withhold {
    Never,
    FromFirstCall,
    Everything,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WithheldState {
    /// Nothing is withheld for the rest of the hop.
    Passing,
    /// Content is withheld from the first call on.
    AwaitingCall,
    Holding,
}

/// What is known of a hop before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NextHop {
    /// Whether another hop may replace this one.
    pub(super) may_be_replaced: bool,
    /// Whether the client has received the text before a call that this hop replaces.
    pub(super) follows_text: bool,
}

#[derive(Debug)]
pub(super) struct WithheldEvents {
    rule: Withhold,
    state: WithheldState,
    hop: NextHop,
    /// Whether a call for the client is among the events.
    has_call: bool,
    events: VecDeque<Waiting>,
    bytes: usize,
    /// Maximum bytes that are withheld; if there are more, everything is released.
    limit: usize,
    peak: usize,
}

/// Bytes counted for each event in addition to its text, to bound the number of events.
const OVERHEAD: usize = 64;

impl WithheldEvents {
    pub(super) fn new(rule: Withhold, limit: usize) -> Self {
        let hop = NextHop { may_be_replaced: true, follows_text: false };
        let (state, events) = (WithheldState::Passing, VecDeque::new());
        let mut withheld = Self { rule, state, hop, has_call: false, events, bytes: 0, limit, peak: 0 };
        withheld.next_hop(hop);
        withheld
    }

    /// Prepares for another hop and discards the content withheld from the previous one.
    pub(super) fn next_hop(&mut self, hop: NextHop) {
        self.events = VecDeque::new();
        self.bytes = 0;
        (self.hop, self.has_call) = (hop, false);
        self.state = match self.rule {
            _ if hop.follows_text => WithheldState::Holding,
            _ if !hop.may_be_replaced => WithheldState::Passing,
            Withhold::Never => WithheldState::Passing,
            Withhold::FromFirstCall => WithheldState::AwaitingCall,
            Withhold::Everything => WithheldState::Holding,
        };
    }

    /// Whether events may still be withheld, so that nothing of this hop's calls has been sent.
    pub(super) fn is_active(&self) -> bool {
        self.state != WithheldState::Passing
    }

    /// Whether everything before the first call is sent.
    pub(super) fn awaits_call(&self) -> bool {
        self.state == WithheldState::AwaitingCall
    }

    pub(super) fn is_holding(&self) -> bool {
        self.state == WithheldState::Holding
    }

    pub(super) fn peak(&self) -> usize {
        self.peak
    }

    /// Withholds `event` if it is content and content is being withheld. Returns `false` if it must be passed
    /// on.
    pub(super) fn takes(&mut self, event: &Event<'_>, is_content: bool) -> bool {
        if self.is_active() && !self.has_call && is_call(event) {
            self.has_call = true;
            self.state = WithheldState::Holding;
            if self.hop.follows_text {
                self.leave_out_text();
            }
        }
        let takes = self.is_holding() && is_content;
        if takes {
            self.put(event);
        }
        takes
    }

    /// Drops the text so far and what belongs to it.
    fn leave_out_text(&mut self) {
        let is_of_text = |waiting: &Waiting| {
            matches!(
                waiting.means(),
                Some(Event::Text(_) | Event::Reasoning(_) | Event::Annotation(_) | Event::Phase { .. })
            )
        };
        self.events.retain(|waiting| !is_of_text(waiting));
        self.bytes = self.events.iter().filter_map(Waiting::means).map(weight).sum();
    }

    fn put(&mut self, event: &Event<'_>) {
        self.bytes = self.bytes.saturating_add(weight(event));
        self.peak = self.peak.max(self.bytes);
        if !self.events.back_mut().is_some_and(|last| last.continues(event)) {
            self.events.push_back(Waiting::new(event.clone()));
        }
    }

    /// Whether the withheld content must be released: because there is too much of it, or because the hop has
    /// made a call and cannot be replaced.
    pub(super) fn is_due(&self) -> bool {
        self.bytes > self.limit || (self.has_call && !self.hop.may_be_replaced)
    }

    /// Passes on the withheld content. If it contains no call, the hop's calls are still withheld.
    pub(super) fn release(&mut self, mut pass_on: impl FnMut(Event<'_>)) {
        let awaits_call = !self.has_call && self.hop.may_be_replaced && self.rule != Withhold::Never;
        self.state = if awaits_call { WithheldState::AwaitingCall } else { WithheldState::Passing };
        self.bytes = 0;
        for waiting in std::mem::take(&mut self.events) {
            waiting.pass(&mut pass_on);
        }
    }
}

fn is_call(event: &Event<'_>) -> bool {
    matches!(event.meaning(), Event::CallStart(CallStart { runner: Runner::Client, .. }))
}

/// The number of bytes that an event counts towards the limit. Text counts the same whether it arrives in one
/// piece or in many.
fn weight(event: &Event<'_>) -> usize {
    match event {
        Event::Text(text) | Event::Refusal(text) => text.len(),
        Event::Reasoning(reasoning) => reasoning.text.len(),
        Event::CallArguments { piece, .. } => piece.len(),
        Event::CallStart(start) => OVERHEAD + start.id.len() + start.name.len(),
        Event::CallResult(result) => OVERHEAD + result.id.len() + result.content.len(),
        Event::ServerCall(call) => {
            let len = |text: &Option<std::borrow::Cow<'_, str>>| text.as_ref().map_or(0, |text| text.len());
            let texts = [&call.arguments, &call.content, &call.details].into_iter().map(len).sum::<usize>();
            OVERHEAD + call.id.len() + call.name.len() + texts
        }
        Event::Mcp(item) => OVERHEAD + item.size(),
        Event::Annotation(annotation) => OVERHEAD + annotation.url.len() + annotation.title.len(),
        Event::Media(media) => OVERHEAD + media.id.len() + media.data.len(),
        Event::Verbatim { frame, .. } => frame.len(),
        _ => OVERHEAD,
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::event::{Opaque, Reasoning, Source};

    fn holding() -> WithheldEvents {
        WithheldEvents::new(Withhold::Everything, 1 << 20)
    }

    fn call() -> Event<'static> {
        let (id, name, signature) = ("".into(), "f".into(), None);
        let (runner, source) = (Runner::Client, Source::Native);
        Event::CallStart(CallStart { index: 0, id, name, runner, source, signature })
    }

    /// A million tiny pieces take up the memory of their text, not that of a million events.
    #[test]
    fn pieces_of_one_text_are_joined() {
        let pieces: [fn() -> Event<'static>; 3] = [
            || Event::Text(Cow::Borrowed("x")),
            || Event::Reasoning(Reasoning::text(Cow::Borrowed("x"))),
            || Event::CallArguments { index: 1, piece: Cow::Borrowed("x") },
        ];
        for piece in pieces {
            let mut withheld = holding();
            for _ in 0..100_000 {
                assert!(withheld.takes(&piece(), true));
            }
            assert_eq!((withheld.events.len(), withheld.bytes), (1, 100_000));
        }
    }

    #[test]
    fn other_events_are_not_joined() {
        let mut withheld = holding();
        let signature = Some(Opaque::new("chat", "s"));
        let signed = Reasoning { signature, ..Reasoning::text("x") };
        let text = Event::Text(Cow::Borrowed("x"));
        for event in [
            text.clone(),
            Event::Verbatim { frame: "{}", means: Some(&text) },
            text.clone(),
            Event::Reasoning(signed.clone()),
            Event::Reasoning(signed),
            Event::CallArguments { index: 1, piece: Cow::Borrowed("x") },
            Event::CallArguments { index: 2, piece: Cow::Borrowed("x") },
        ] {
            assert!(withheld.takes(&event, true));
        }
        assert_eq!(withheld.events.len(), 7);
        let mut released = 0;
        withheld.release(|_| released += 1);
        assert_eq!((released, withheld.awaits_call()), (7, true));
    }

    #[test]
    fn text_before_a_call_is_sent_and_the_call_is_withheld() {
        let mut withheld = WithheldEvents::new(Withhold::FromFirstCall, 100);
        assert!(!withheld.takes(&Event::Ping(Cow::Borrowed("")), false));
        assert!(!withheld.takes(&Event::Text(Cow::Borrowed("x")), true));
        assert!(withheld.is_active() && withheld.takes(&call(), true));
        assert!(withheld.takes(&Event::Text(Cow::Borrowed("x")), true));
    }

    /// In the last hop, only the text before the first call is withheld.
    #[test]
    fn text_that_the_client_already_has_is_left_out() {
        for may_be_replaced in [true, false] {
            let mut withheld = WithheldEvents::new(Withhold::FromFirstCall, 100);
            withheld.next_hop(NextHop { may_be_replaced, follows_text: true });
            assert!(withheld.takes(&Event::Text(Cow::Borrowed("x")), true));
            assert!(withheld.takes(&call(), true));
            assert_eq!((withheld.events.len(), withheld.bytes, withheld.is_due()), (1, 65, !may_be_replaced));
            withheld.release(|event| assert!(is_call(&event)));
            assert!(!withheld.is_active());
        }
    }

    #[test]
    fn calls_after_too_much_text_are_still_withheld() {
        let mut withheld = holding();
        withheld.limit = 1;
        assert!(withheld.takes(&Event::Text(Cow::Borrowed("xx")), true) && withheld.is_due());
        withheld.release(|_| {});
        assert!(!withheld.takes(&Event::Text(Cow::Borrowed("xx")), true));
        assert!(withheld.takes(&call(), true) && withheld.is_due());
        withheld.release(|_| {});
        assert!(!withheld.is_active());
    }
}

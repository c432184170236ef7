//! [`WithheldEvents`]: content of a hop that is withheld from the client because the model may be asked
//! again. The client must not see content that is later replaced.
//!
//! Content is withheld only if `enforce`, `unknown_calls` or `invalid_arguments` is `"retry"`, and only until
//! the client has received content: from then on, the hop cannot be replaced.

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
    Passing,
    AwaitingCall,
    Holding,
}

#[derive(Debug)]
pub(super) struct WithheldEvents {
    rule: Withhold,
    state: WithheldState,
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
        let mut withheld =
            Self { rule, state: WithheldState::Passing, events: VecDeque::new(), bytes: 0, limit, peak: 0 };
        withheld.next_hop(false);
        withheld
    }

    /// Prepares for another hop and discards the content withheld from the previous one.
    pub(super) fn next_hop(&mut self, has_sent_content: bool) {
        self.events = VecDeque::new();
        self.bytes = 0;
        self.state = match self.rule {
            _ if has_sent_content => WithheldState::Passing,
            Withhold::Never => WithheldState::Passing,
            Withhold::FromFirstCall => WithheldState::AwaitingCall,
            Withhold::Everything => WithheldState::Holding,
        };
    }

    /// Whether events may still be withheld.
    pub(super) fn is_active(&self) -> bool {
        self.state != WithheldState::Passing
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
        if self.state == WithheldState::AwaitingCall && is_content {
            self.state = if is_call(event) { WithheldState::Holding } else { WithheldState::Passing };
        }
        let takes = self.is_holding() && is_content;
        if takes {
            self.put(event);
        }
        takes
    }

    fn put(&mut self, event: &Event<'_>) {
        self.bytes = self.bytes.saturating_add(weight(event));
        self.peak = self.peak.max(self.bytes);
        if !self.events.back_mut().is_some_and(|last| last.continues(event)) {
            self.events.push_back(Waiting::new(event.clone()));
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes > self.limit
    }

    /// Passes on the withheld content and withholds nothing from now on.
    pub(super) fn release(&mut self, mut pass_on: impl FnMut(Event<'_>)) {
        self.state = WithheldState::Passing;
        self.bytes = 0;
        for waiting in std::mem::take(&mut self.events) {
            waiting.pass(&mut pass_on);
        }
    }
}

fn is_call(event: &Event<'_>) -> bool {
    match event {
        Event::CallStart(CallStart { runner, .. }) => *runner == Runner::Client,
        Event::Verbatim { means: Some(means), .. } => is_call(means),
        _ => false,
    }
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
            OVERHEAD + call.id.len() + call.name.len() + len(&call.arguments) + len(&call.content)
        }
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
    use crate::event::{Opaque, Reasoning};

    fn holding() -> WithheldEvents {
        WithheldEvents::new(Withhold::Everything, 1 << 20)
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
        assert_eq!((released, withheld.is_active()), (7, false));
    }

    #[test]
    fn text_before_a_call_is_sent_unless_everything_is_kept_back() {
        let mut withheld = WithheldEvents::new(Withhold::FromFirstCall, 10);
        assert!(!withheld.takes(&Event::Ping(Cow::Borrowed("")), false));
        assert!(withheld.is_active());
        assert!(!withheld.takes(&Event::Text(Cow::Borrowed("x")), true));
        assert!(!withheld.is_active());
    }
}

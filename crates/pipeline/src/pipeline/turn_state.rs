//! [`StateCollector`]: collects the state that the upstream needs when the client replays the response's
//! calls.

use crate::{
    conversation::{Part, TurnState, WantsBack},
    event::{Opaque, Reasoning},
};

#[derive(Debug, Default)]
pub(super) struct StateCollector {
    wants: WantsBack,
    /// Maximum bytes of state. If a response has more, none of its state is kept.
    limit: usize,
    kept: usize,
    state: TurnState,
    /// Number of parts of reasoning from earlier hops.
    earlier: usize,
    /// Reasoning that has no signature yet.
    open: String,
}

/// What had been collected at some point of a hop.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StateMark {
    reasoning: usize,
    calls: usize,
    open: usize,
    kept: usize,
}

impl StateCollector {
    pub(super) fn new(wants: WantsBack, limit: usize) -> Self {
        Self { wants, limit, ..Self::default() }
    }

    pub(super) fn is_active(&self) -> bool {
        self.wants != WantsBack::Nothing
    }

    pub(super) fn reasoning(&mut self, piece: &Reasoning<'_>) {
        let signature = piece.signature.as_ref();
        if !self.has_room(piece.text.len() + signature.map_or(0, |signature| signature.text.len())) {
            return;
        }
        self.open.push_str(&piece.text);
        if signature.is_some() || piece.redacted {
            let signature = signature.map(|signature| signature.clone().into_owned());
            let text = std::mem::take(&mut self.open);
            self.state.reasoning.push(Part::Reasoning { text, signature, redacted: piece.redacted });
        }
    }

    pub(super) fn call(&mut self, id: &str, signature: Option<&Opaque<'_>>) {
        if self.is_active() && self.has_room(id.len() + signature.map_or(0, |signature| signature.text.len()))
        {
            let signature = signature.map(|signature| signature.clone().into_owned());
            self.state.calls.push((id.to_owned(), signature));
        }
    }

    /// Discards everything, since no later request repeats the response so far.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.wants, self.limit);
    }

    pub(super) fn mark(&self) -> StateMark {
        let TurnState { reasoning, calls, .. } = &self.state;
        StateMark { reasoning: reasoning.len(), calls: calls.len(), open: self.open.len(), kept: self.kept }
    }

    /// Discards what has been collected since `mark`, since another hop replaces it.
    pub(super) fn roll_back(&mut self, mark: StateMark) {
        if self.kept > self.limit {
            return;
        }
        let was_open = self.state.reasoning.len() == mark.reasoning;
        self.open.truncate(if was_open { mark.open } else { 0 });
        self.state.reasoning.truncate(mark.reasoning);
        self.state.calls.truncate(mark.calls);
        self.kept = mark.kept;
    }

    /// Prepares for another hop that continues the response.
    pub(super) fn next_hop(&mut self) {
        let rest = self.rest();
        self.state.reasoning.extend(rest);
        self.open.clear();
        self.earlier = self.state.reasoning.len();
    }

    /// The reasoning of this hop so far, for a request that continues the response.
    pub(super) fn reasoning_so_far(&self) -> Vec<Part> {
        self.state.reasoning.iter().skip(self.earlier).cloned().chain(self.rest()).collect()
    }

    pub(super) fn take(&mut self) -> Option<TurnState> {
        let rest = self.rest();
        let mut state = std::mem::take(&mut self.state);
        state.reasoning.extend(rest);
        let is_complete = self.kept <= self.limit;
        self.clear();
        (is_complete && !state.is_empty()).then_some(state)
    }

    /// The unsigned reasoning at the end, if the upstream wants it back.
    fn rest(&self) -> Option<Part> {
        let is_wanted = self.wants == WantsBack::Reasoning && !self.open.is_empty();
        is_wanted.then(|| Part::Reasoning { text: self.open.clone(), signature: None, redacted: false })
    }

    /// Counts `more` bytes and returns whether the total is within the limit.
    fn has_room(&mut self, more: usize) -> bool {
        self.kept = self.kept.saturating_add(more);
        if self.kept > self.limit {
            self.state = TurnState::default();
            self.open = String::new();
        }
        self.kept <= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece<'a>(text: &'a str, signature: Option<&'a str>) -> Reasoning<'a> {
        let signature = signature.map(|signature| Opaque::new("messages", signature));
        Reasoning { signature, ..Reasoning::text(text) }
    }

    fn collected(wants: WantsBack, limit: usize) -> Option<TurnState> {
        let mut collector = StateCollector::new(wants, limit);
        if collector.is_active() {
            collector.reasoning(&piece("ab", None));
            collector.reasoning(&piece("c", Some("s1")));
            collector.reasoning(&piece("de", None));
        }
        collector.call("id", None);
        collector.take()
    }

    #[test]
    fn reasoning_is_cut_at_signatures() {
        let signed = Part::Reasoning {
            text: "abc".to_owned(),
            signature: Some(Opaque::new("messages", "s1")),
            redacted: false,
        };
        let plain = Part::Reasoning { text: "de".to_owned(), signature: None, redacted: false };
        let state = collected(WantsBack::Reasoning, 9).expect("a state");
        assert_eq!(state.reasoning, [signed.clone(), plain]);
        assert_eq!(state.calls, [("id".to_owned(), None)]);
        assert_eq!(collected(WantsBack::Signatures, 9).expect("a state").reasoning, [signed]);
        assert_eq!(collected(WantsBack::Nothing, 9), None);
    }

    #[test]
    fn state_beyond_the_limit_is_dropped_as_a_whole() {
        assert!(collected(WantsBack::Reasoning, 9).is_some());
        assert_eq!(collected(WantsBack::Reasoning, 8), None);
        let mut collector = StateCollector::new(WantsBack::Reasoning, 3);
        collector.reasoning(&piece("abcd", None));
        collector.reasoning(&piece("a", None));
        collector.call("i", Some(&Opaque::new("gemini", "s")));
        assert_eq!((collector.reasoning_so_far(), collector.take()), (Vec::new(), None));
    }

    #[test]
    fn calls_without_state_need_none() {
        let mut collector = StateCollector::new(WantsBack::Reasoning, 100);
        collector.call("id", None);
        assert_eq!(collector.take(), None);
        collector.call("id", Some(&Opaque::new("gemini", "s")));
        assert!(collector.take().is_some());
        collector.reasoning(&piece("hm", None));
        assert_eq!(collector.take(), None, "without a call there is no id to keep it by");
    }
}

//! [`TurnState`]: the state of a turn that its upstream needs when a client replays that turn's calls.
//!
//! Most clients replay calls without the state that came with them, because their API has no field for it.
//! Some upstreams then reject the request or lose their train of thought. The state is therefore stored under
//! the ids of the calls, and restored when these ids are replayed.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use super::{Conversation, Part, Role, Turn};
use crate::event::Opaque;

/// Which state of the model's turns an upstream needs back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum WantsBack {
    /// No state.
    #[default]
    Nothing,
    /// Signatures of calls, and reasoning that is signed or withheld.
    Signatures,
    /// Like `Signatures`, but with all other reasoning as well.
    Reasoning,
}

/// Which state of a response is stored for later requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptState {
    /// What the upstream needs back.
    WantedBack(WantsBack),
    /// What the model wrote, if its calls are text.
    AsWritten,
}

/// The state of a turn of the model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TurnState {
    /// The reasoning, as [`Part::Reasoning`].
    pub reasoning: Vec<Part>,
    /// The ids that the client received for the calls, each with the call's state.
    pub calls: Vec<(String, Option<Opaque<'static>>)>,
}

impl TurnState {
    /// Whether there is nothing to restore.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
            || (self.reasoning.is_empty() && self.calls.iter().all(|(_, signature)| signature.is_none()))
    }

    /// Approximate memory in bytes. Short strings take more than their own length.
    pub fn size(&self) -> usize {
        const ALLOCATIONS: usize = 32;
        let size = |opaque: &Option<Opaque<'_>>| opaque.as_ref().map_or(0, |opaque| opaque.text.len());
        let reasoning = self.reasoning.iter().map(|part| {
            size_of::<Part>()
                + ALLOCATIONS
                + match part {
                    Part::Reasoning { text, signature, .. } => text.len() + size(signature),
                    _ => 0,
                }
        });
        let own = size_of::<(String, Option<Opaque<'_>>)>() + ALLOCATIONS;
        let calls = self.calls.iter().map(|(id, signature)| own + id.len() + size(signature));
        reasoning.chain(calls).sum()
    }

    fn is_signed(&self) -> bool {
        self.reasoning.iter().any(is_signed)
    }
}

fn is_signed(part: &Part) -> bool {
    matches!(part, Part::Reasoning { signature: Some(_), .. })
}

fn is_reasoning(part: &Part) -> bool {
    matches!(part, Part::Reasoning { .. })
}

impl Conversation {
    /// A hash of the latest turn that the model did not write, which is the turn that a response answers.
    ///
    /// Some upstreams number their calls from 0 in every conversation. The hash distinguishes turns of
    /// different conversations whose calls have the same ids.
    pub fn answered_turn(&self) -> u64 {
        answered_turn(&self.turns)
    }

    /// Restores the state of replayed calls. Given the id of a call and a hash, `find` returns the state from
    /// a response to the turn with that hash (see [`Conversation::answered_turn`]). State that the client
    /// sends is left as it is, unless the upstream signed its reasoning and the client's copy lacks the
    /// signature.
    pub fn restore(&mut self, mut find: impl FnMut(&str, u64) -> Option<Arc<TurnState>>) {
        let (mut begin, mut restored) = (0, Restored::default());
        while let Some(run) = next_run(&self.turns, begin) {
            begin = run.end;
            let has_calls = |turn: &Turn| turn.parts.iter().any(|part| matches!(part, Part::Call(_)));
            if !self.turns.get(run.clone()).is_some_and(|turns| turns.iter().any(has_calls)) {
                continue;
            }
            let answered = answered_turn(self.turns.get(..run.start).unwrap_or_default());
            if let Some(turns) = self.turns.get_mut(run) {
                restored.run(turns, |id| find(id, answered));
            }
        }
    }
}

fn answered_turn(turns: &[Turn]) -> u64 {
    let turn = turns.iter().rfind(|turn| turn.role != Role::Assistant);
    let mut hasher = DefaultHasher::new();
    for part in turn.into_iter().flat_map(|turn| &turn.parts) {
        match part {
            Part::Text(text) => text.hash(&mut hasher),
            Part::Result(output) => (&output.id, &output.content).hash(&mut hasher),
            Part::Image { url, .. } => url.hash(&mut hasher),
            Part::Call(_) | Part::Reasoning { .. } | Part::Other(_) => {}
        }
    }
    hasher.finish()
}

/// The next group of consecutive turns by the model.
fn next_run(turns: &[Turn], begin: usize) -> Option<std::ops::Range<usize>> {
    let is_model = |turn: &Turn| turn.role == Role::Assistant;
    let start = begin + turns.get(begin..)?.iter().position(is_model)?;
    let length = turns.get(start..)?.iter().take_while(|turn| is_model(turn)).count();
    Some(start..start + length)
}

/// The state that has been restored in one request. Nothing is restored twice, so that a client cannot
/// inflate a request by replaying an id repeatedly.
#[derive(Debug, Default)]
struct Restored {
    reasoning: HashSet<*const TurnState>,
    calls: HashSet<(*const TurnState, String)>,
}

impl Restored {
    /// Restores the state of consecutive turns by the model. They form one response, which some clients
    /// replay in pieces.
    fn run(&mut self, turns: &mut [Turn], mut find: impl FnMut(&str) -> Option<Arc<TurnState>>) {
        let mut found: Vec<(usize, Arc<TurnState>)> = Vec::new();
        for (place, turn) in turns.iter_mut().enumerate() {
            for part in &mut turn.parts {
                let Part::Call(call) = part else { continue };
                let Some(state) = find(&call.id) else { continue };
                if call.signature.is_none() && self.calls.insert((Arc::as_ptr(&state), call.id.clone())) {
                    let own = state.calls.iter().find(|(id, _)| *id == call.id);
                    call.signature = own.and_then(|(_, signature)| signature.clone());
                }
                if self.reasoning.insert(Arc::as_ptr(&state)) {
                    found.push((place, state));
                }
            }
        }
        let has = |turns: &[Turn], is: fn(&Part) -> bool| turns.iter().flat_map(|turn| &turn.parts).any(is);
        let (is_shown, is_kept) = (has(turns, is_reasoning), has(turns, is_signed));
        found.retain(|(_, state)| !is_kept && (!is_shown || state.is_signed()));
        if !found.is_empty() && is_shown {
            turns.iter_mut().for_each(|turn| turn.parts.retain(|part| !is_reasoning(part)));
        }
        for (place, state) in found.into_iter().rev() {
            if let Some(turn) = turns.get_mut(place) {
                turn.parts.splice(0..0, state.reasoning.iter().cloned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{Call, CallOutput};

    fn reasoning(text: &str, signature: Option<&str>) -> Part {
        let signature = signature.map(|signature| Opaque::new("messages", signature.to_owned()));
        Part::Reasoning { text: text.to_owned(), signature, redacted: false }
    }

    fn call(id: &str) -> Part {
        Part::Call(Call::new(id, "f", "{}"))
    }

    fn result(id: &str) -> Turn {
        let output =
            CallOutput { id: id.to_owned(), name: String::new(), content: "1".to_owned(), is_error: false };
        Turn::of(Role::Tool, vec![Part::Result(output)])
    }

    fn conversation(turns: Vec<Turn>) -> Conversation {
        Conversation { turns, ..Conversation::default() }
    }

    fn state(reasoning: Vec<Part>, calls: &[(&str, Option<&str>)]) -> Arc<TurnState> {
        let signature = |text: &&str| Opaque::new("gemini", (*text).to_owned());
        let calls = calls.iter().map(|(id, text)| ((*id).to_owned(), text.as_ref().map(signature)));
        Arc::new(TurnState { reasoning, calls: calls.collect() })
    }

    fn restored(mut conversation: Conversation, known: &Arc<TurnState>) -> Vec<Turn> {
        conversation.restore(|id, _| known.calls.iter().any(|(own, _)| own == id).then(|| Arc::clone(known)));
        conversation.turns
    }

    #[test]
    fn reasoning_and_signatures_return_to_the_turn_with_the_calls() {
        let user = || Turn::text(Role::User, "hi");
        let known = state(vec![reasoning("hm", None)], &[("a", Some("s")), ("b", None)]);
        let said = Part::Text("ok".into());
        let turn = Turn::of(Role::Assistant, vec![said.clone(), call("a"), call("b")]);
        let turns = restored(conversation(vec![user(), turn, result("a"), result("b")]), &known);
        let signed = Call { signature: Some(Opaque::new("gemini", "s")), ..Call::new("a", "f", "{}") };
        assert_eq!(turns[1].parts, [reasoning("hm", None), said, Part::Call(signed), call("b")]);
        assert_eq!(turns.len(), 4);
    }

    #[test]
    fn a_response_that_is_replayed_in_pieces_gets_its_reasoning_once() {
        let known = state(vec![reasoning("hm", None)], &[("a", None), ("b", None)]);
        let turn = |id| Turn::of(Role::Assistant, vec![call(id)]);
        let turns = restored(conversation(vec![turn("a"), turn("b"), result("a"), turn("b")]), &known);
        let count = |turn: &Turn| turn.parts.iter().filter(|part| is_reasoning(part)).count();
        assert_eq!(turns.iter().map(count).collect::<Vec<_>>(), [1, 0, 0, 0]);
    }

    #[test]
    fn what_the_client_sends_is_kept_unless_it_lost_a_signature() {
        let plain = state(vec![reasoning("hm", None)], &[("a", None)]);
        let signed = state(vec![reasoning("hm", Some("s"))], &[("a", None)]);
        let own = |part| conversation(vec![Turn::of(Role::Assistant, vec![part, call("a")])]);
        let first = |turns: Vec<Turn>| turns[0].parts[0].clone();
        assert_eq!(first(restored(own(reasoning("mine", None)), &plain)), reasoning("mine", None));
        assert_eq!(first(restored(own(reasoning("mine", None)), &signed)), reasoning("hm", Some("s")));
        assert_eq!(first(restored(own(reasoning("mine", Some("t"))), &signed)), reasoning("mine", Some("t")));
        let turns = restored(own(reasoning("mine", None)), &signed);
        assert_eq!(turns[0].parts.len(), 2, "it replaces the client's copy");
    }

    #[test]
    fn turns_without_calls_are_not_looked_up() {
        let mut said = conversation(vec![Turn::text(Role::User, "a"), Turn::text(Role::Assistant, "b")]);
        said.restore(|_, _| panic!("there is no call"));
    }

    #[test]
    fn answered_turn_is_the_same_when_the_answer_is_replayed() {
        let asked = conversation(vec![Turn::text(Role::System, "s"), Turn::text(Role::User, "hi")]);
        let mut replayed = asked.clone();
        replayed.turns.extend([Turn::of(Role::Assistant, vec![call("a")]), result("a")]);
        let mut seen = Vec::new();
        replayed.restore(|_, answered| {
            seen.push(answered);
            None
        });
        assert_eq!(seen, [asked.answered_turn()]);
        assert_ne!(replayed.answered_turn(), asked.answered_turn());
    }
}

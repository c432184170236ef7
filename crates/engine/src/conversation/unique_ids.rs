//! Makes call ids unique within a conversation.
//!
//! Some models number their calls from 0 in every response, and some clients renumber them in every turn.
//! Several upstreams reject a request in which two calls, or two results, have the same id.

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use super::{Conversation, IdForm, Part, Role, Turn};

/// Maximum length of an id with an appended number, which is the limit of OpenAI's APIs.
const LONGEST: usize = 40;

pub(super) fn has_repeated_ids(conversation: &Conversation) -> bool {
    let (mut calls, mut results) = (HashSet::new(), HashSet::new());
    let mut parts = conversation.turns.iter().flat_map(|turn| &turn.parts);
    parts.any(|part| match part {
        Part::Call(call) => !call.id.is_empty() && !calls.insert(&*call.id),
        Part::Result(output) => !output.id.is_empty() && !results.insert(&*output.id),
        _ => false,
    })
}

/// Gives a call and its result a new id if an earlier call has the same id. A new id depends only on what
/// precedes it, so it is the same in the next request of the dialogue. A second result of the same call is
/// merged into the first one.
pub(super) fn with_unique_ids(conversation: &mut Conversation, form: IdForm) {
    let mut ids = UniqueIds { form, ..UniqueIds::default() };
    let mut turns: Vec<Turn> = Vec::with_capacity(conversation.turns.len());
    for mut turn in mem::take(&mut conversation.turns) {
        let previous = turns.last().map(|turn| turn.role);
        if turn.role == Role::Assistant && previous != Some(Role::Assistant) {
            ids.run += 1;
        }
        if turn.role != Role::Tool {
            ids.results_begin = turns.len() + 1;
        }
        match ids.rename(&mut turn, turns.len()).and_then(|place| turns.get_mut(place)) {
            Some(first) => join(first, turn),
            None => turns.push(turn),
        }
    }
    conversation.turns = turns;
}

#[derive(Debug, Default)]
struct UniqueIds {
    form: IdForm,
    /// The ids of all calls so far.
    used: HashSet<String>,
    calls: HashMap<String, SameId>,
    /// Number of responses so far. Consecutive turns by the model form one response.
    run: usize,
    /// The index of the first turn in the current group of result turns.
    results_begin: usize,
}

#[derive(Debug, Default)]
struct SameId {
    /// The number in the latest generated id.
    last: u64,
    /// The response that contains the latest of these calls.
    run: usize,
    /// The new ids of the calls in that response.
    ids: Vec<String>,
    /// Number of these ids that have a result.
    answered: usize,
    /// The index of the turn with the latest result.
    result: Option<usize>,
}

impl UniqueIds {
    /// Replaces the ids in `turn`, whose index will be `place`. If it repeats a result, returns the index of
    /// that result's turn.
    fn rename(&mut self, turn: &mut Turn, place: usize) -> Option<usize> {
        let is_result = turn.role == Role::Tool && matches!(turn.parts.first(), Some(Part::Result(_)));
        let mut repeated = None;
        for part in &mut turn.parts {
            match part {
                Part::Call(call) if !call.id.is_empty() => self.call(&mut call.id),
                Part::Result(output) => repeated = self.result(&mut output.id, place),
                _ => {}
            }
        }
        repeated.filter(|place| is_result && *place >= self.results_begin)
    }

    fn call(&mut self, id: &mut String) {
        let same = self.calls.entry(id.clone()).or_default();
        if same.run != self.run {
            (same.run, same.answered, same.result) = (self.run, 0, None);
            same.ids.clear();
        }
        if self.used.contains(id) {
            *id = another(self.form, id, &mut same.last, &self.used);
        }
        self.used.insert(id.clone());
        same.ids.push(id.clone());
    }

    /// Replaces the id of a result. Results of calls that share an id are in the order of the calls.
    fn result(&mut self, id: &mut String, place: usize) -> Option<usize> {
        let same = self.calls.get_mut(id)?;
        let is_repeated = same.answered >= same.ids.len();
        let new = if is_repeated { same.ids.last() } else { same.ids.get(same.answered) };
        if let Some(new) = new {
            id.clone_from(new);
        }
        if is_repeated {
            return same.result;
        }
        same.answered += 1;
        same.result = Some(place);
        None
    }
}

/// An id that no earlier call has, as similar to `id` as possible. `last` is the latest number tried.
fn another(form: IdForm, id: &str, last: &mut u64, used: &HashSet<String>) -> String {
    let form = if form == IdForm::Any { IdForm::AtMost(LONGEST) } else { form };
    loop {
        *last = (*last).max(1) + 1;
        let plain = format!("{id}_{last}");
        let new = if form.accepts(&plain) && plain.len() <= LONGEST { plain } else { form.hashed(id, *last) };
        if !used.contains(&new) {
            return new;
        }
    }
}

/// Adds the result in `repeated` to the one in `first`, unless the text is the same.
fn join(first: &mut Turn, repeated: Turn) {
    // The original content includes only one of the results.
    first.rest.remove("content");
    let mut parts = repeated.parts.into_iter();
    if let (Some(Part::Result(output)), Some(Part::Result(more))) = (first.parts.first_mut(), parts.next())
        && output.content != more.content
    {
        output.content.reserve(1 + more.content.len());
        output.content.push('\n');
        output.content.push_str(&more.content);
        output.is_error |= more.is_error;
    }
    first.parts.extend(parts);
}

#[cfg(test)]
#[allow(clippy::string_slice, reason = "tests cut texts at known places")]
mod tests {
    use super::*;
    use crate::conversation::{Call, CallOutput, NameForm};

    /// The conversation described by `turns`, in which `a b` means calls in one response, `=a` a result, and
    /// `.` a user turn.
    fn conversation(turns: &str) -> Conversation {
        let turns = turns.split(',').map(|turn| match turn.trim() {
            "." => Turn::text(Role::User, "?"),
            result if result.starts_with('=') => {
                let (id, content) = result[1..].split_once(':').unwrap_or((&result[1..], ""));
                let (id, content, name) = (id.to_owned(), content.to_owned(), String::new());
                Turn::of(Role::Tool, vec![Part::Result(CallOutput { id, name, content, is_error: false })])
            }
            calls => {
                let calls = calls.split(' ').map(|id| Part::Call(Call::new(id, "f", "{}")));
                Turn::of(Role::Assistant, calls.collect())
            }
        });
        Conversation { turns: turns.collect(), ..Conversation::default() }
    }

    fn unique(turns: &str, form: IdForm) -> String {
        let shown = |part: &Part| match part {
            Part::Call(call) => call.id.clone(),
            Part::Result(output) if output.content.is_empty() => format!("={}", output.id),
            Part::Result(output) => format!("={}:{}", output.id, output.content),
            _ => ".".to_owned(),
        };
        let sent = conversation(turns).in_forms(NameForm::Any, form).into_owned();
        let turns = sent.turns.iter().map(|turn| turn.parts.iter().map(shown).collect::<Vec<_>>().join(" "));
        turns.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn repeated_ids_are_replaced_and_results_follow_their_calls() {
        for (turns, expected) in [
            ("a, =a, b, =b", "a, =a, b, =b"),
            ("., a, =a, a, =a, a, =a", "., a, =a, a_2, =a_2, a_3, =a_3"),
            ("a a, =a, =a", "a a_2, =a, =a_2"),
            ("a a, =a, =a, ., a, =a", "a a_2, =a, =a_2, ., a_3, =a_3"),
            ("a b, =b, =a, a, =a", "a b, =b, =a, a_2, =a_2"),
            // The first call has no result, but the second one does.
            ("a, ., a, =a", "a, ., a_2, =a_2"),
            // An id that equals another id's replacement.
            ("a, =a, a_2, =a_2, a, =a", "a, =a, a_2, =a_2, a_3, =a_3"),
            ("a, =a, a, =a, a_2, =a_2", "a, =a, a_2, =a_2, a_2_2, =a_2_2"),
            // Repeated results.
            ("a b, =a:x, =b, =a:y", "a b, =a:x\ny, =b"),
            ("a, =a:x, =a:x", "a, =a:x"),
            ("a, =a:x, =a:y, =a:z", "a, =a:x\ny\nz"),
            ("a, =a:x, ., =a:y", "a, =a:x, ., =a:y"),
            // The call of this result is unknown.
            ("., =z, =z", "., =z, =z"),
        ] {
            assert_eq!(unique(turns, IdForm::Any), expected, "{turns}");
        }
    }

    #[test]
    fn new_ids_do_not_depend_on_what_follows() {
        let turns = "a a, =a, =a, a, =a, a_3, =a_3, a, =a, a a a_2, =a_2, =a, =a";
        let whole = unique(turns, IdForm::Any);
        for (at, _) in turns.match_indices(", ") {
            let head = unique(&turns[..at], IdForm::Any);
            assert!(whole.starts_with(&head), "{whole}\n{head}");
        }
    }

    #[test]
    fn new_ids_have_the_form_that_the_upstream_accepts() {
        let long = "x".repeat(40);
        let turns = format!("{long}, ={long}, {long}, ={long}");
        for form in [IdForm::Any, IdForm::AtMost(40), IdForm::Word, IdForm::Alphanumeric(9)] {
            let sent = unique(&turns, form);
            let ids: Vec<&str> = sent.split(", ").collect();
            assert_ne!(ids[0], ids[2]);
            assert_eq!((format!("={}", ids[0]), format!("={}", ids[2])), (ids[1].into(), ids[3].into()));
            assert!(form.accepts(ids[2]) && ids[2].len() <= 40, "{form:?}: {sent}");
        }
    }
}

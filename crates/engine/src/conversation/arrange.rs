//! Rearranges turns for upstreams with restrictions on the order and contents of turns.

use std::{borrow::Cow, collections::HashMap, mem};

use super::{CallOutput, Part, Role, Turn};

/// Moves the media in tool results to a user turn after the results, since most servers accept only text in a
/// result. If several results follow one another, the media come after all of them, because calls and results
/// must be adjacent.
pub fn media_behind_results(turns: &[Turn]) -> Cow<'_, [Turn]> {
    if !turns.iter().any(has_media) {
        return Cow::Borrowed(turns);
    }
    let mut arranged = Vec::with_capacity(turns.len() + 1);
    let (mut media, mut calls) = (Vec::new(), CallsById::default());
    turns.iter().for_each(|turn| calls.add(turn));
    for turn in turns {
        if turn.role != Role::Tool && !media.is_empty() {
            arranged.push(Turn::of(Role::User, mem::take(&mut media)));
        }
        let mut turn = turn.clone();
        if has_media(&turn) {
            let name = turn.parts.iter().find_map(|part| match part {
                Part::Result(output) => Some(calls.tool_of(output).to_owned()),
                _ => None,
            });
            media.extend(take_media(&mut turn, &name.unwrap_or_default()));
        }
        arranged.push(turn);
    }
    if !media.is_empty() {
        arranged.push(Turn::of(Role::User, media));
    }
    Cow::Owned(arranged)
}

/// Removes the media from a turn that contains a tool's result. Returns them, preceded by a text part that says
/// which result they belong to. `name` is the tool's name, if it is known.
pub(crate) fn take_media(turn: &mut Turn, name: &str) -> Vec<Part> {
    if !has_media(turn) {
        return Vec::new();
    }
    let (media, kept): (Vec<_>, Vec<_>) = mem::take(&mut turn.parts).into_iter().partition(is_media);
    turn.parts = kept;
    // The original content would bring the media back.
    turn.rest.remove("content");
    let id = turn.parts.iter().find_map(|part| match part {
        Part::Result(output) => Some(output.id.as_str()),
        _ => None,
    });
    let whose = match (name, id.unwrap_or_default()) {
        ("", "") => "a tool call".to_owned(),
        (name, "") => format!("a call of {name}"),
        ("", id) => format!("the tool call {id}"),
        (name, id) => format!("the call {id} of {name}"),
    };
    std::iter::once(Part::Text(format!("Attached to the result of {whose}:").into())).chain(media).collect()
}

/// The calls in a conversation, by id. Calls must be added in order. A result is matched to the latest call
/// with its id.
#[derive(Debug, Default)]
pub struct CallsById<'t>(HashMap<&'t str, (usize, &'t str)>);

impl<'t> CallsById<'t> {
    /// Adds the calls in `turn`.
    pub fn add(&mut self, turn: &'t Turn) {
        for part in &turn.parts {
            if let Part::Call(call) = part {
                self.0.insert(&call.id, (self.0.len(), &call.name));
            }
        }
    }

    /// The name of the tool that produced `output`, taken from the output or else from its call.
    pub fn tool_of(&self, output: &'t CallOutput) -> &'t str {
        let called = || self.0.get(output.id.as_str()).map(|(_, name)| *name).unwrap_or_default();
        if output.name.is_empty() { called() } else { &output.name }
    }

    /// The position of the call that the first result in `turn` belongs to. If there is no such call, the
    /// position after all calls.
    fn place_of(&self, turn: &Turn) -> usize {
        let id = turn.parts.iter().find_map(|part| match part {
            Part::Result(output) => Some(output.id.as_str()),
            _ => None,
        });
        id.and_then(|id| self.0.get(id)).map_or(usize::MAX, |(place, _)| *place)
    }
}

/// Sorts adjacent results by the order of their calls, for upstreams that match them by position.
pub fn results_in_call_order(turns: &[Turn]) -> Cow<'_, [Turn]> {
    let mut calls = CallsById::default();
    let mut arranged = Cow::Borrowed(turns);
    let mut at = 0;
    for run in turns.chunk_by(|one, next| one.role == Role::Tool && next.role == Role::Tool) {
        run.iter().for_each(|turn| calls.add(turn));
        if run.len() > 1 && !run.is_sorted_by_key(|turn| calls.place_of(turn)) {
            let mut sorted = run.to_vec();
            sorted.sort_by_key(|turn| calls.place_of(turn));
            if let Some(place) = arranged.to_mut().get_mut(at..at + run.len()) {
                place.clone_from_slice(&sorted);
            }
        }
        at += run.len();
    }
    arranged
}

/// Whether a turn is empty for an upstream of `dialect`. Reasoning counts as content only if
/// `reasoning_counts` is set and its state came from this dialect.
pub fn is_empty_turn(turn: &Turn, dialect: &str, reasoning_counts: bool) -> bool {
    turn.parts.iter().all(|part| match part {
        Part::Text(text) => text.is_empty(),
        Part::Reasoning { signature, .. } => {
            let state = signature.as_ref().and_then(|state| state.from_dialect(dialect));
            !reasoning_counts || state.is_none_or(str::is_empty)
        }
        Part::Other(other) => other.from_dialect(dialect).is_none(),
        Part::Image { .. } | Part::Call(_) | Part::Result(_) => false,
    })
}

/// Joins adjacent user turns, for chat templates in which user and assistant must alternate.
pub fn joined_user_turns(turns: &[Turn]) -> Cow<'_, [Turn]> {
    let are_joined = |pair: &[Turn]| pair.iter().all(is_users);
    if !turns.windows(2).any(are_joined) {
        return Cow::Borrowed(turns);
    }
    let mut joined: Vec<Turn> = Vec::with_capacity(turns.len());
    for turn in turns {
        match joined.last_mut() {
            Some(last) if is_users(last) && is_users(turn) => append(last, turn),
            _ => joined.push(turn.clone()),
        }
    }
    Cow::Owned(joined)
}

/// Joins system turns at the start, for chat templates that accept a system turn only there. Joins all of
/// them if `all` returns true, or else only the leading ones if `leading` is set. `all` is called only if
/// there is anything to join.
pub fn joined_system_turns(turns: &[Turn], all: impl FnOnce() -> bool, leading: bool) -> Cow<'_, [Turn]> {
    let leads = turns.iter().take_while(|turn| is_systems(turn)).count();
    let has_later = turns.iter().skip(leads.max(1)).any(is_systems);
    let all = (leads > 1 || has_later) && all();
    let joined = |turn: &Turn, place: usize| is_systems(turn) && (all || place < leads);
    if !(all || leading && leads > 1) {
        return Cow::Borrowed(turns);
    }
    let mut systems = turns.iter().enumerate().filter(|(place, turn)| joined(turn, *place));
    let mut first = systems.next().map(|(_, turn)| Turn { role: Role::System, ..turn.clone() });
    for (_, next) in systems {
        if let Some(first) = &mut first {
            append(first, next);
        }
    }
    let others = turns.iter().enumerate().filter(|(place, turn)| !joined(turn, *place));
    Cow::Owned(first.into_iter().chain(others.map(|(_, turn)| turn.clone())).collect())
}

/// Whether there are system turns or adjacent user turns to join. Media in tool results will become user
/// turns.
pub fn has_joinable_turns(turns: &[Turn]) -> bool {
    turns.iter().skip(1).any(|turn| is_systems(turn) || has_media(turn))
        || turns.windows(2).any(|pair| pair.iter().all(is_users))
}

/// Appends the content of `next` to `turn`. If both are text, they become one text.
fn append(turn: &mut Turn, next: &Turn) {
    let mut next = next.clone();
    match (turn.collapse_text(), next.collapse_text(), next.parts.as_slice()) {
        (true, true, [Part::Text(text)]) => turn.add_text("\n\n", text),
        _ => turn.parts.append(&mut next.parts),
    }
    turn.rest.merge(next.rest);
}

fn is_systems(turn: &Turn) -> bool {
    matches!(turn.role, Role::System | Role::Developer)
}

fn is_users(turn: &Turn) -> bool {
    turn.role == Role::User && !turn.parts.iter().any(|part| matches!(part, Part::Result(_)))
}

fn is_media(part: &Part) -> bool {
    matches!(part, Part::Image { .. } | Part::Other(_))
}

fn has_media(turn: &Turn) -> bool {
    turn.role == Role::Tool && turn.parts.iter().any(is_media)
}

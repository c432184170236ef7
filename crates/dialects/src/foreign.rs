//! The names of what clients of other dialects sent and a dialect cannot express, for the log and a counter.

use crate::conversation::{Part, Turn};

/// The fields of turns, except `repeated`. An original in another dialect only repeats the parts, so nothing is lost.
pub(super) fn turn_fields(
    turns: &[Turn],
    own: &'static str,
    repeated: &'static [&'static str],
) -> impl Iterator<Item = String> {
    let keys = turns.iter().flat_map(move |turn| turn.rest.foreign_keys(own));
    keys.filter(|key| !repeated.contains(&key.as_str())).map(|key| format!("messages[].{key}"))
}

/// The parts of turns.
pub(super) fn parts(turns: &[Turn], own: &'static str) -> impl Iterator<Item = String> {
    let parts = turns.iter().flat_map(|turn| &turn.parts);
    let foreign =
        parts.filter(move |part| matches!(part, Part::Other(other) if other.from_dialect(own).is_none()));
    foreign.map(|_| "messages[].content[]".to_owned())
}

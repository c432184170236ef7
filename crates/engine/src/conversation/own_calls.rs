//! Finds calls that toolwire or the upstream ran and that toolwire showed to the client, in a history that the client
//! sends back.
//!
//! Upstreams do not know these calls by the ids and types that the client saw. Their ids therefore contain a
//! marker by which decoders recognise them, and which no upstream uses in its own ids. In a [`Conversation`],
//! they are like any other calls with results, except for their marked ids, until
//! [`Conversation::settle_own_calls`] decides which of them the model receives:
//!
//! ```text
//! Assistant [text, call, text]  ─▶  Assistant [text, call], Tool [result], Assistant [text]     if its tool is offered
//!                               ─▶  Assistant [text, text]                                      if it is not
//! ```

use std::{collections::HashSet, mem::take};

use super::{Conversation, Part, Role, Turn};
use crate::wire::hex;

/// Prefixes that dialects put before the marker.
const PREFIXES: [&str; 3] = ["srvtoolu", "mcptoolu", "call"];

/// The marker before an id that consists of letters, digits and `_`.
const PLAIN: &str = "toolwire_";

/// The marker before any other id, which is encoded in hexadecimal.
const HEX: &str = "toolwirehex_";

/// The marked form of `id`, the id of a call that the client did not run. It consists of letters, digits and `_`.
pub fn own_id(prefix: &str, id: &str) -> String {
    let is_plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match is_plain {
        true => format!("{prefix}_{PLAIN}{id}"),
        false => format!("{prefix}_{HEX}{}", hex::encode(id.as_bytes())),
    }
}

/// The id whose marked form is `id`. `None` if `id` has no marker.
pub(super) fn unmarked(id: &str) -> Option<String> {
    let (prefix, rest) = id.split_once('_')?;
    if !PREFIXES.contains(&prefix) {
        return None;
    }
    if let Some(id) = rest.strip_prefix(PLAIN) {
        return Some(id.to_owned());
    }
    let digits = rest.strip_prefix(HEX)?.as_bytes();
    if digits.len() % 2 != 0 {
        return None;
    }
    let byte = |pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    String::from_utf8(digits.chunks_exact(2).map(byte).collect::<Option<_>>()?).ok()
}

/// Whether `id` belongs to a call that toolwire or the upstream ran.
pub fn is_own_id(id: &str) -> bool {
    unmarked(id).is_some()
}

/// Whether a part is a call that toolwire ran, or the result of one.
pub fn is_own(part: &Part) -> bool {
    match part {
        Part::Call(call) => is_own_id(&call.id),
        Part::Result(output) => is_own_id(&output.id),
        _ => false,
    }
}

impl Turn {
    /// Whether a turn contains only results of calls that toolwire ran.
    pub fn is_own_result(&self) -> bool {
        self.role == Role::Tool && !self.parts.is_empty() && self.parts.iter().all(is_own)
    }
}

impl Conversation {
    /// Keeps only those calls run by toolwire or the upstream that have a result and whose tool the model has.
    /// `offered` maps the name of a tool to the name by which the model knows it. All other such calls are
    /// removed, but the text around them stays.
    pub fn settle_own_calls(&mut self, offered: impl Fn(&str) -> Option<String>) {
        let parts = || self.turns.iter().flat_map(|turn| &turn.parts);
        if !parts().any(is_own) {
            return;
        }
        let answered: HashSet<&str> = parts()
            .filter_map(|part| match part {
                Part::Result(output) if !output.content.is_empty() => Some(output.id.as_str()),
                _ => None,
            })
            .collect();
        let kept: HashSet<String> = parts()
            .filter_map(|part| match part {
                Part::Call(call) if answered.contains(&*call.id) => {
                    offered(&call.name).map(|_| call.id.clone())
                }
                _ => None,
            })
            .collect();
        let mut is_cut = false;
        for mut turn in take(&mut self.turns) {
            let had_parts = !turn.parts.is_empty();
            let goes_on = turn.begins_with_approval();
            turn.parts.retain_mut(|part| settle(part, &kept, &offered));
            if turn.parts.is_empty() && had_parts {
                is_cut = true;
                continue;
            }
            match self.turns.last_mut() {
                // Both turns belong to the same message.
                Some(last)
                    if (is_cut || goes_on)
                        && last.role == Role::Assistant
                        && turn.role == Role::Assistant =>
                {
                    last.parts.append(&mut turn.parts);
                    last.rest.merge(turn.rest);
                }
                _ => self.turns.push(turn),
            }
            is_cut = false;
        }
    }
}

/// Replaces the id and the name of a call or result with those that the model receives. Returns `false` if
/// the part must be removed.
fn settle(part: &mut Part, kept: &HashSet<String>, offered: &impl Fn(&str) -> Option<String>) -> bool {
    let (id, name) = match part {
        Part::Call(call) => (&mut call.id, Some(&mut call.name)),
        Part::Result(output) => (&mut output.id, None),
        _ => return true,
    };
    let Some(plain) = unmarked(id) else { return true };
    if !kept.contains(id) {
        return false;
    }
    *id = plain;
    if let Some(name) = name
        && let Some(given) = offered(name)
    {
        *name = given;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{Call, CallOutput};

    #[test]
    fn marked_ids_have_the_form_that_apis_want_and_come_back_as_they_were() {
        for id in ["toolu_01A", "call_1", "functions.calc:0", "é\n", "a-b", "", "toolwire_x"] {
            let marked = own_id("srvtoolu", id);
            let rest = marked.strip_prefix("srvtoolu_").unwrap();
            assert!(rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{marked}");
            assert_eq!(unmarked(&marked).as_deref(), Some(id));
        }
        for id in [
            "",
            "srvtoolu_01A09q90qw90lq917835lq9",
            "mcptoolu_1",
            "toolu_toolwire_1",
            "call_toolwirehex_1",
            "call_x",
        ] {
            assert!(!is_own_id(id), "{id}");
        }
    }

    fn conversation(name: &str, content: &str) -> Conversation {
        let id = own_id("call", "a");
        let output =
            CallOutput { id: id.clone(), name: String::new(), content: content.to_owned(), is_error: false };
        let turns = vec![
            Turn::text(Role::User, "hi"),
            Turn::of(Role::Assistant, vec![Part::Text("one".into()), Part::Call(Call::new(id, name, "{}"))]),
            Turn::of(Role::Tool, vec![Part::Result(output)]),
            Turn::text(Role::Assistant, "two"),
        ];
        Conversation { turns, ..Conversation::default() }
    }

    #[test]
    fn calls_of_offered_tools_stay_and_others_leave_their_text() {
        let offered = |name: &str| (name == "calc").then(|| "own_calc".to_owned());
        let mut known = conversation("calc", "4");
        known.settle_own_calls(offered);
        let call = Part::Call(Call::new("a", "own_calc", "{}"));
        assert_eq!(known.turns[1].parts, [Part::Text("one".into()), call]);
        assert!(matches!(&known.turns[2].parts[..], [Part::Result(output)] if output.id == "a"));
        assert_eq!(known.turns.len(), 4);
        for mut unknown in [conversation("other", "4"), conversation("calc", "")] {
            unknown.settle_own_calls(offered);
            let both = Turn::of(Role::Assistant, vec![Part::Text("one".into()), Part::Text("two".into())]);
            assert_eq!(unknown.turns, [Turn::text(Role::User, "hi"), both]);
        }
    }
}

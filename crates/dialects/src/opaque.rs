//! How clients carry an upstream's opaque state, which is a signature or encrypted reasoning.
//!
//! A client's API has a field for state of its own dialect, which is carried unchanged. State of another
//! dialect gets that dialect's name as a prefix, so that it is sent back only to an upstream of that dialect.

use std::borrow::Cow;

use super::Dialect;
use crate::{
    event::Opaque,
    wire::json::{Json, Kind},
};

/// Separates the dialect's name from the state, which is base64 and thus never contains this character.
const MARK: char = ':';

/// Converts `state` to what a client of `dialect` carries.
pub(crate) fn carried<'a>(state: &'a Opaque<'_>, dialect: Dialect) -> Cow<'a, str> {
    if state.dialect == dialect.name() && foreign(&state.text).is_none() {
        return Cow::Borrowed(&state.text);
    }
    Cow::Owned(format!("{}{MARK}{}", state.dialect, state.text))
}

/// Recovers the original state from `text`, which a client of `dialect` has sent back.
pub(crate) fn carried_back(text: &str, dialect: Dialect) -> Opaque<'static> {
    let (dialect, text) = foreign(text).unwrap_or((dialect, text));
    Opaque::new(dialect.name(), text.to_owned())
}

/// The dialect that prefixes `text` and the text after the prefix.
fn foreign(text: &str) -> Option<(Dialect, &str)> {
    let (name, text) = text.split_once(MARK)?;
    Some((name.parse().ok()?, text))
}

/// The state that a Chat Completions upstream sends with a call, in `extra_content`.
pub(crate) fn call_state(extra: Json<'_>) -> Option<Opaque<'static>> {
    if extra.kind() != Kind::Object || extra.members().next().is_none() {
        return None;
    }
    let mut members = extra.members();
    let google = members.next().filter(|(key, _)| key == "google" && members.next().is_none());
    let signature = google.and_then(|(_, google)| google.get("thought_signature")?.as_str());
    let state = match signature {
        // This state belongs to Gemini, whichever of Google's APIs it came through.
        Some(signature) => Opaque::new(Dialect::Gemini.name(), signature.into_owned()),
        None => Opaque::new(Dialect::Chat.name(), extra.raw().to_owned()),
    };
    (!state.text.is_empty()).then_some(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_comes_back_as_it_was() {
        for dialect in Dialect::ALL {
            for text in ["c2ln", "", "chat:c2ln", "a:b", "messages:lumo:x"] {
                let state = Opaque::new(dialect.name(), text);
                for client in Dialect::ALL {
                    assert_eq!(carried_back(&carried(&state, *client), *client), state);
                }
            }
        }
    }

    #[test]
    fn state_of_the_clients_own_dialect_is_carried_as_it_is() {
        assert_eq!(carried(&Opaque::new("messages", "c2ln"), Dialect::Messages), "c2ln");
        assert_eq!(carried(&Opaque::new("chat", "c2ln"), Dialect::Messages), "chat:c2ln");
    }
}

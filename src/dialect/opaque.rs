//! How clients carry an upstream's opaque state: a signature, encrypted reasoning.
//!
//! A client's API has a place for state of its own dialect, and that is carried as it is. State of another dialect is
//! marked with the dialect's name, so that it goes back to an upstream of that dialect only.

use std::borrow::Cow;

use super::Dialect;
use crate::event::Opaque;

/// Stands between the dialect's name and the state. Not in base64, of which such state consists.
const MARK: char = ':';

/// `state` as a client of `dialect` carries it.
pub(crate) fn carried<'a>(state: &'a Opaque<'_>, dialect: Dialect) -> Cow<'a, str> {
    if state.dialect == dialect.name() && foreign(&state.text).is_none() {
        return Cow::Borrowed(&state.text);
    }
    Cow::Owned(format!("{}{MARK}{}", state.dialect, state.text))
}

/// The state that a client of `dialect` sends back as `text`.
pub(crate) fn carried_back(text: &str, dialect: Dialect) -> Opaque<'static> {
    let (dialect, text) = foreign(text).unwrap_or((dialect, text));
    Opaque::new(dialect.name(), text.to_owned())
}

/// The dialect that marks `text`, and what follows the mark.
fn foreign(text: &str) -> Option<(Dialect, &str)> {
    let (name, text) = text.split_once(MARK)?;
    Some((name.parse().ok()?, text))
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

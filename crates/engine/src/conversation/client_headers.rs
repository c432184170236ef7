//! Headers that Anthropic's clients write into `system`, and that only Anthropic's servers understand.
//!
//! Claude Code starts its instructions with `x-anthropic-billing-header: …`, whose value changes with every
//! request. Other servers would take it for instructions, and could never reuse a cached prompt.

use super::{Conversation, Part, Role, Text, Turn};

const PREFIX: &str = "x-anthropic-";

impl Conversation {
    /// Whether the instructions start with such a header.
    pub fn has_client_headers(&self) -> bool {
        self.turns.iter().filter(|turn| is_system(turn)).flat_map(|turn| &turn.parts).any(begins_with_header)
    }

    /// A copy of the conversation without these headers. Texts and messages that contain nothing else are
    /// dropped.
    pub fn without_client_headers(&self) -> Self {
        let mut sent = self.clone();
        sent.turns.retain_mut(|turn| {
            if !is_system(turn) || !turn.parts.iter().any(begins_with_header) {
                return true;
            }
            turn.parts.retain_mut(|part| match part {
                Part::Text(text) if text.begins_with(PREFIX) => is_left(text),
                _ => true,
            });
            !turn.parts.is_empty()
        });
        sent
    }
}

fn is_system(turn: &Turn) -> bool {
    matches!(turn.role, Role::System | Role::Developer)
}

fn begins_with_header(part: &Part) -> bool {
    matches!(part, Part::Text(text) if text.begins_with(PREFIX) && behind_header(text).is_some())
}

/// Removes the headers from the start of `text`. Returns whether any text is left.
fn is_left(text: &mut Text) -> bool {
    let mut rest = text.as_str();
    while let Some(behind) = behind_header(rest) {
        rest = behind;
    }
    if rest.len() < text.len() {
        *text = rest.into();
    }
    !text.is_empty()
}

/// The text after the header in the first line, without leading empty lines.
fn behind_header(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let (line, behind) = text.split_once('\n').unwrap_or((text, ""));
    let (prefix, line) = line.split_at_checked(PREFIX.len())?;
    let (name, _) = line.split_once(':').filter(|_| prefix.eq_ignore_ascii_case(PREFIX))?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_name.then(|| behind.trim_start_matches(['\n', '\r']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(texts: &[&str]) -> Option<Vec<String>> {
        let parts = texts.iter().map(|text| Part::Text((*text).into())).collect();
        let turns = vec![Turn::of(Role::System, parts), Turn::text(Role::User, "x-anthropic-a: b")];
        let conversation = Conversation { turns, ..Conversation::default() };
        let sent = conversation.without_client_headers();
        assert_eq!(conversation.has_client_headers(), sent != conversation);
        assert_eq!(sent.turns.last(), conversation.turns.last(), "only instructions are read");
        let system = sent.turns.first().filter(|turn| is_system(turn))?;
        let texts = system.parts.iter().map(|part| match part {
            Part::Text(text) => text.to_string(),
            other => panic!("{other:?}"),
        });
        Some(texts.collect())
    }

    #[test]
    fn headers_of_the_client_are_removed() {
        let header = "x-anthropic-billing-header: cc_version=2.1; cch=1;";
        assert_eq!(left(&[header]), None);
        assert_eq!(left(&[header, "You are."]), Some(vec!["You are.".into()]));
        assert_eq!(left(&["You are.", header]), Some(vec!["You are.".into()]));
        for (before, after) in [
            (format!("{header}\nYou are.\n{header}"), format!("You are.\n{header}")),
            (format!("{header}\r\n\r\nYou are."), "You are.".into()),
            (format!("\n {header}\nYou are."), "You are.".into()),
            (format!("{}\nYou are.", header.to_ascii_uppercase()), "You are.".into()),
            ("\n You are.".into(), "\n You are.".into()),
            (format!("{header}\nx-anthropic-other: 1\n\nYou are."), "You are.".into()),
            (
                "x-anthropic- is a prefix of names: yes".into(),
                "x-anthropic- is a prefix of names: yes".into(),
            ),
            ("x-anthropic-version must be sent".into(), "x-anthropic-version must be sent".into()),
            (format!("See {header}"), format!("See {header}")),
            (String::new(), String::new()),
        ] {
            assert_eq!(left(&[&before]), Some(vec![after]), "{before}");
        }
    }
}

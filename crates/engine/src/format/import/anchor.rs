//! [`Anchor`]: a regular expression that is literal text except for blanks and named groups.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Literal(String),
    /// A named group. What it matches is up to the engine, which has its own rules for names and keys.
    Group(String),
    Any,
}

/// The parts of an expression. Blanks between them are dropped, because the engine ignores blanks around
/// markers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Anchor(pub(super) Vec<Part>);

impl Anchor {
    /// Parses an expression.
    ///
    /// # Errors
    /// The first part of the expression that is not supported.
    pub(super) fn read(pattern: &str) -> Result<Self, NotLiteral> {
        let mut anchor = Self(Vec::new());
        let mut rest = pattern;
        while let Some(first) = rest.chars().next() {
            rest = if let Some(behind) = BLANKS.iter().find_map(|blank| rest.strip_prefix(blank)) {
                anchor.space();
                behind
            } else if let Some(behind) = [".*?", ".*"].iter().find_map(|any| rest.strip_prefix(any)) {
                anchor.0.push(Part::Any);
                behind
            } else if let Some(group) = rest.strip_prefix("(?P<") {
                let Some((name, behind)) = group_of(group) else { return Err(refusal(rest)) };
                anchor.0.push(Part::Group(name.to_owned()));
                behind
            } else if let Some(escaped) = rest.strip_prefix('\\') {
                match escaped.chars().next() {
                    Some(character) if character.is_ascii_punctuation() => anchor.text(character),
                    Some('n') => anchor.text('\n'),
                    _ => return Err(refusal(rest)),
                }
                escaped.char_indices().nth(1).map_or("", |(at, _)| escaped.split_at(at).1)
            } else if ".^$*+?()[]{}|".contains(first) {
                return Err(refusal(rest));
            } else {
                anchor.text(first);
                rest.split_at(first.len_utf8()).1
            };
            // A character with a quantifier is not literal.
            if rest.starts_with(['*', '+', '?', '{']) {
                return Err(refusal(rest));
            }
        }
        anchor.trim();
        Ok(anchor)
    }

    fn text(&mut self, character: char) {
        match self.0.last_mut() {
            Some(Part::Literal(literal)) => literal.push(character),
            _ => self.0.push(Part::Literal(character.to_string())),
        }
    }

    /// Allows blanks here and starts a new literal.
    fn space(&mut self) {
        self.0.push(Part::Literal(String::new()));
    }

    fn trim(&mut self) {
        for part in &mut self.0 {
            if let Part::Literal(literal) = part {
                *literal = literal.trim_matches(['\n', '\r']).to_owned();
            }
        }
        self.0.retain(|part| *part != Part::Literal(String::new()));
    }
}

const BLANKS: [&str; 6] = [r"\s*", r"\s+", r"\n*", r"\n?", r"\n+", r"\s?"];

/// The name of a group, and the text after the group, which must not contain a nested group.
fn group_of(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once('>')?;
    let (inside, rest) = rest.split_once(')')?;
    (!inside.contains('(') && !inside.ends_with('\\')).then_some((name, rest))
}

/// Contains the first characters of what is not literal.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a regular expression that is not literal from `{0}` on; markers are literal text here, with a name or blanks between them"
)]
pub(super) struct NotLiteral(String);

fn refusal(rest: &str) -> NotLiteral {
    NotLiteral(rest.chars().take(12).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> Part {
        Part::Literal(text.to_owned())
    }

    fn group(name: &str) -> Part {
        Part::Group(name.to_owned())
    }

    #[test]
    fn literals_with_groups_and_blanks_are_read() {
        for (pattern, parts) in [
            (r"<\|tool\|>", vec![literal("<|tool|>")]),
            (r"\n?</response>", vec![literal("</response>")]),
            (
                r"<call>\s*<fn=(?P<name>\w+)>",
                vec![literal("<call>"), literal("<fn="), group("name"), literal(">")],
            ),
            (r"to=(?P<name>[^<]+).*?<m>", vec![literal("to="), group("name"), Part::Any, literal("<m>")]),
        ] {
            assert_eq!(Anchor::read(pattern), Ok(Anchor(parts)), "{pattern}");
        }
    }

    #[test]
    fn non_literal_parts_are_reported() {
        for (pattern, shown) in [
            ("(?:^|<think>)", "`(?:^|<think>"),
            ("<a+>", "`+>`"),
            (r"<\w>", r"`\w>`"),
            ("<a>|<b>", "`|<b>`"),
            ("(?P<x>(a|b))", "`(?P<x>(a|b)"),
            ("[ab]", "`[ab]`"),
        ] {
            let error = Anchor::read(pattern).unwrap_err().to_string();
            assert!(error.contains(shown), "{pattern}: {error}");
        }
    }
}

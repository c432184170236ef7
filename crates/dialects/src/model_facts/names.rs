//! [`Models`]: the models that a fact is about, by the names under which servers have them.

use std::iter::once;

/// A version: its major and minor number.
pub(super) type Version = (u32, u32);

/// Models of one family.
///
/// Servers put words before a name (`us.anthropic.claude-opus-4-7`, `openai/gpt-5`) and behind it (`-20260416`,
/// `@20260416`, `[1m]`, `:free`), and separate the numbers of a version with a point, a hyphen, an underscore or `p`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Models {
    /// The beginning of the name, in lower case. Before it there is nothing, or one of [`BEFORE`].
    family: &'static str,
    /// Whether other words may precede the family, as in the names of models that were trained further.
    is_anywhere: bool,
    since: Option<Version>,
    before: Option<Version>,
    /// Words of which the name contains at least one, if there are any.
    with: &'static [&'static str],
    /// Words of which the name contains none.
    without: &'static [&'static str],
}

/// Maximum bytes of the name of a model with facts.
const MAX_NAME: usize = 256;

/// Characters that separate a name from what servers put before it. A hyphen is not one of them: the name of a model
/// that was trained on another one's output may end with that one's name.
const BEFORE: &[u8] = b"/.:@~|";

/// The name under which a server has a model.
#[derive(Debug)]
pub(super) struct Name {
    /// In lower case. Empty if no server could have a model with this name: clients may invent names.
    text: String,
    /// The places at which a family's name may begin, with the byte there. There are many more facts than such places,
    /// and few begin with that byte.
    starts: Vec<(usize, Option<u8>)>,
}

impl Name {
    pub(super) fn new(name: &str) -> Self {
        let text = if name.len() <= MAX_NAME { name.to_ascii_lowercase() } else { String::new() };
        let before = text.bytes().enumerate().filter(|(_, byte)| BEFORE.contains(byte));
        let starts = once(0).chain(before.map(|(at, _)| at + 1));
        let starts = starts.map(|at| (at, text.as_bytes().get(at).copied())).collect();
        Self { starts, text }
    }
}

impl Models {
    /// All models of a family.
    pub(super) const fn of(family: &'static str) -> Self {
        Self { family, is_anywhere: false, since: None, before: None, with: &[], without: &[] }
    }

    /// All models.
    pub(super) const fn all() -> Self {
        Self { is_anywhere: true, ..Self::of("") }
    }

    /// Those of this version or a later one.
    pub(super) const fn since(self, major: u32, minor: u32) -> Self {
        Self { since: Some((major, minor)), ..self }
    }

    /// Those of a version before this one.
    pub(super) const fn before(self, major: u32, minor: u32) -> Self {
        Self { before: Some((major, minor)), ..self }
    }

    /// Those with one of these words in their names.
    pub(super) const fn with(self, words: &'static [&'static str]) -> Self {
        Self { with: words, ..self }
    }

    /// Those with none of these words in their names.
    pub(super) const fn without(self, words: &'static [&'static str]) -> Self {
        Self { without: words, ..self }
    }

    /// Also those whose names have other words before the family's.
    pub(super) const fn anywhere(self) -> Self {
        Self { is_anywhere: true, ..self }
    }

    /// Whether the model with this name is one of these.
    pub(super) fn are(&self, name: &Name) -> bool {
        let is_at = |at: usize| {
            let behind = name.text.get(at..).and_then(|text| text.strip_prefix(self.family));
            behind.is_some_and(|behind| self.is_before(behind))
        };
        let is_of_family = match self.is_anywhere {
            true => (0..=name.text.len()).any(is_at),
            false => {
                let first = self.family.as_bytes().first().copied();
                name.starts.iter().any(|&(at, byte)| byte == first && is_at(at))
            }
        };
        let has = |word: &&str| name.text.contains(*word);
        // Names of models that imitate others contain the others' names.
        is_of_family
            && (self.is_anywhere || !name.text.contains("distill"))
            && (self.with.is_empty() || self.with.iter().any(has))
            && !self.without.iter().any(has)
    }

    /// Whether the family's name with this text behind it is that of such a model.
    fn is_before(&self, behind: &str) -> bool {
        if self.since.is_none() && self.before.is_none() {
            return self.is_anywhere || !behind.starts_with(|next: char| next.is_ascii_alphanumeric());
        }
        version(behind).is_some_and(|version| {
            self.since.is_none_or(|since| version >= since)
                && self.before.is_none_or(|before| version < before)
        })
    }

    /// The models in the words of the documentation.
    pub(super) fn about(&self) -> String {
        let mut about = if self.family.is_empty() { "all".to_owned() } else { format!("`{}`", self.family) };
        let number = |(major, minor): Version| format!("{major}.{minor}");
        match (self.since, self.before) {
            (Some(since), Some(before)) => {
                about.push_str(&format!(" {} to before {}", number(since), number(before)));
            }
            (Some(since), None) => about.push_str(&format!(" {} and later", number(since))),
            (None, Some(before)) => about.push_str(&format!(" before {}", number(before))),
            (None, None) => {}
        }
        for (words, word) in [(self.with, "with"), (self.without, "without")] {
            if !words.is_empty() {
                about.push_str(&format!(" {word} {}", words.join(", ")));
            }
        }
        about
    }
}

/// The version that follows a family's name. Words may precede it (`-opus-4-7`). A number that continues with letters is
/// a size or another name (`-72b`, `-4o`), and one of more than two digits a date.
fn version(behind: &str) -> Option<Version> {
    const SEPARATORS: [char; 4] = ['-', '_', '.', ' '];
    let mut rest = behind;
    loop {
        rest = rest.trim_start_matches(SEPARATORS);
        if rest.starts_with(|next: char| next.is_ascii_digit()) {
            break;
        }
        let word = rest.find(|next: char| !next.is_ascii_alphabetic()).filter(|length| *length > 0)?;
        rest = rest.get(word..)?;
        if !rest.starts_with(SEPARATORS) {
            return None;
        }
    }
    let (major, behind) = number(rest)?;
    let minor = behind.strip_prefix(['.', '_', '-', 'p']).and_then(number).filter(|(_, behind)| ends(behind));
    match minor {
        Some((minor, _)) => Some((major, minor)),
        None => ends(behind).then_some((major, 0)),
    }
}

/// A number of at most two digits, and what follows it.
fn number(text: &str) -> Option<(u32, &str)> {
    let digits = text.len() - text.trim_start_matches(|next: char| next.is_ascii_digit()).len();
    let (number, behind) = text.split_at_checked(digits).filter(|_| matches!(digits, 1 | 2))?;
    Some((number.parse().ok()?, behind))
}

fn ends(behind: &str) -> bool {
    !behind.starts_with(|next: char| next.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, family: &str) -> Option<Version> {
        version(name.strip_prefix(family).unwrap())
    }

    #[test]
    fn versions_are_read_as_servers_write_them() {
        for (name, family, expected) in [
            ("claude-opus-4-7", "claude", Some((4, 7))),
            ("claude-opus-4-7-20260416", "claude", Some((4, 7))),
            ("claude-opus-4-7@20260416", "claude", Some((4, 7))),
            ("claude-opus-4.7", "claude", Some((4, 7))),
            ("claude-4.7-opus-20260416", "claude", Some((4, 7))),
            ("claude-fable-5-1[1m]", "claude", Some((5, 1))),
            ("claude-opus-4-6-v1:0", "claude", Some((4, 6))),
            ("claude-opus-4-20250514", "claude", Some((4, 0))),
            ("claude-3-5-sonnet-20241022", "claude", Some((3, 5))),
            ("claude-opus-latest", "claude", None),
            ("claude", "claude", None),
            ("gpt-5", "gpt", Some((5, 0))),
            ("gpt-5-mini-2025-08-07", "gpt", Some((5, 0))),
            ("gpt-5-2025-08-07", "gpt", Some((5, 0))),
            ("gpt-5.6-terra", "gpt", Some((5, 6))),
            ("gpt-4-0613", "gpt", Some((4, 0))),
            ("gpt-4-32k", "gpt", Some((4, 0))),
            ("gpt-4o-2024-11-20", "gpt", None),
            ("gpt-oss-120b", "gpt", None),
            ("gpt-realtime-2025-08-28", "gpt", None),
            ("kimi-k2p5", "kimi-k", Some((2, 5))),
            ("kimi-k2-0905-preview", "kimi-k", Some((2, 0))),
            ("grok-4.20-0309-reasoning", "grok", Some((4, 20))),
            ("grok-4-1-fast", "grok", Some((4, 1))),
            ("qwen3_6-27b", "qwen", Some((3, 6))),
            ("qwen3-8b", "qwen", Some((3, 0))),
            ("qwen-72b", "qwen", None),
            ("qwen-plus-2025", "qwen", None),
            ("qwen3.8:27b", "qwen", Some((3, 8))),
            ("gpt-5\u{301}", "gpt", Some((5, 0))),
            ("gpt-é5", "gpt", None),
            ("gpt-99999999999999999999", "gpt", None),
        ] {
            assert_eq!(read(name, family), expected, "{name}");
        }
    }

    #[test]
    fn families_are_known_behind_what_servers_put_before_them() {
        let claude = Models::of("claude").since(4, 7);
        for name in [
            "claude-opus-4-7",
            "anthropic/claude-opus-4.8",
            "us.anthropic.claude-fable-5-1",
            "vertex_ai/claude-opus-5@default",
            "~anthropic/claude-opus-5",
            "projects/p/models/claude-sonnet-5",
        ] {
            assert!(claude.are(&Name::new(name)), "{name}");
        }
        for name in [
            "claude-opus-4-6",
            "claude-sonnet-4-6[1m]",
            "qwen3.5-27b-claude-4.7-opus",
            "claude-5-distill-8b",
            "myclaude-5",
            "",
        ] {
            assert!(!claude.are(&Name::new(name)), "{name}");
        }
        let are = |models: Models, name: &str| models.are(&Name::new(name));
        assert!(are(Models::of("o3"), "openai/o3-mini") && !are(Models::of("o3"), "o3x"));
        assert!(!are(Models::of("o1"), "marco-o1") && are(Models::all(), "") && are(Models::all(), "m"));
        assert!(are(Models::of("qwen").since(3, 5).anywhere(), "unsloth/my-qwen3.6-27b-distill"));
    }
}

//! [`Intent`]: configured words in a user's text that ask for a tool. [`Needs`] has the words that are built in.
//!
//! A rule consists of alternatives on each side of `+`: `find|look up + news|article` matches a text that contains
//! `find` or `look up`, and also `news` or `article`. Words in Latin script match only as whole words, regardless of
//! case. Other words match anywhere, since Chinese has no spaces between words.

mod fold;
mod lexicon;

pub(crate) use lexicon::Needs;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    written: String,
    /// A text matches if it contains at least one word or phrase of each group. The words are in lower case, with
    /// single spaces.
    groups: Vec<Vec<String>>,
}

impl Intent {
    /// Parses a rule. Returns `None` if a side contains no words.
    pub fn parse(written: &str) -> Option<Self> {
        let group = |side: &str| -> Option<Vec<String>> {
            let words: Vec<_> = side.split('|').map(plain).filter(|word| !word.is_empty()).collect();
            (!words.is_empty()).then_some(words)
        };
        let groups = written.split('+').map(group).collect::<Option<_>>()?;
        Some(Self { written: written.to_owned(), groups })
    }

    /// The rule for a tool without configured ones: its name or label. A web search has none, since [`Needs`] decides.
    pub(crate) fn default_for(tool: &str, label: &str) -> Option<Self> {
        if tool == "web_search" {
            return None;
        }
        Self::parse(&format!("{tool}|{}|{}", tool.replace(['_', '-'], " "), label.replace('+', " ")))
    }

    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Whether `text`, in the form that [`plain`] returns, asks for the tool.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.groups.iter().all(|words| words.iter().any(|word| mentions(text, word)))
    }
}

/// Converts text to lower case, and each run of whitespace to one space.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !plain.is_empty() {
            plain.push(' ');
        }
        plain.extend(word.chars().flat_map(char::to_lowercase));
    }
    plain
}

/// Whether `text` contains `word`. A word in Latin script must not be part of a longer word.
pub(super) fn mentions(text: &str, word: &str) -> bool {
    let is_latin = |character: Option<char>| character.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    let (opens, closes) = (is_latin(word.chars().next()), is_latin(word.chars().next_back()));
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|after| after.chars().next());
        !((opens && is_latin(before)) || (closes && is_latin(after)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_need_words_on_each_side() {
        for written in ["", " ", "+", "a +", "| + b", "a + + b"] {
            assert_eq!(Intent::parse(written), None, "{written}");
        }
        let rule = Intent::parse(" Draw|paint me + picture ").unwrap();
        assert!(rule.matches("paint me a picture"));
        assert!(!rule.matches("paint a picture"));
    }

    #[test]
    fn other_tools_are_asked_for_by_their_names() {
        let rule = Intent::default_for("generate_images", "Image Generation").unwrap();
        let asks = |text: &str| rule.matches(&plain(text));
        assert!(asks("Use generate_images now"));
        assert!(asks("generate images of cats"));
        assert!(asks("try image generation"));
        assert!(!asks("images"));
    }
}

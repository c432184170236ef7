//! [`KnownPages`]: the pages that a conversation names, which are the only ones that a hosted tool fetches for a model.
//!
//! A model that reads a hostile page could otherwise be made to put what it knows into an address. So an address counts
//! only if it comes from the user, from the instructions or from a result. One that a result only repeats from the
//! arguments of its call comes from the model.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;
use serde_json::Value;
use url::Url;

use toolwire_pipeline::{
    conversation::{Part, Role, Turn},
    wire::digest::Digest,
};

/// Maximum length of an address, in bytes.
const MAX_URL: usize = 2048;

/// Maximum number of pages of one conversation. Further ones do not count.
const MAX_PAGES: usize = 20_000;

/// Characters at the end of an address that may belong to the text around it.
const PUNCTUATION: &str = ".,;:!?)]}'\"*_~|";

/// Maximum number of them that are left out.
const MAX_TRIMMED: usize = 4;

/// The pages that a conversation names.
#[derive(Debug, Default)]
pub(crate) struct KnownPages(Mutex<HashSet<Digest>>);

impl KnownPages {
    /// The pages that these turns name.
    pub(super) fn of(turns: &[Turn]) -> Self {
        let pages = Self::default();
        let mut calls: HashMap<&str, &str> = HashMap::new();
        for turn in turns {
            for part in &turn.parts {
                match part {
                    Part::Text(text) if turn.role != Role::Assistant => pages.add(text.as_str(), "", true),
                    Part::Call(call) => _ = calls.insert(&call.id, &call.arguments),
                    Part::Result(output) if !output.is_error => {
                        let arguments = calls.get(output.id.as_str()).copied().unwrap_or_default();
                        pages.add_result(&output.content, arguments);
                    }
                    _ => {}
                }
            }
        }
        pages
    }

    /// Adds the pages that the result of a call with these arguments names.
    pub(super) fn add_result(&self, content: &str, arguments: &str) {
        self.add(content, &texts_of(arguments), false);
    }

    /// Whether the conversation names this page, with any scheme and fragment.
    pub(super) fn has(&self, url: &str) -> bool {
        Url::parse(url).is_ok_and(|url| self.0.lock().contains(&page(&url)))
    }

    /// Adds the pages in `text` that `written` does not contain. If `takes_bare` is set, an address may lack its scheme.
    fn add(&self, text: &str, written: &str, takes_bare: bool) {
        let mut pages = self.0.lock();
        for word in text.split(is_outside) {
            let lower = word.get(..8).unwrap_or(word).to_ascii_lowercase();
            let is_whole = lower.starts_with("http://") || lower.starts_with("https://");
            let is_bare = takes_bare && !is_whole && is_like_a_host(word);
            if !is_whole && !is_bare {
                // What precedes an address, as in `(https://a.example)` and `url=https://a.example`, is skipped.
                let begin = [word.find("https://"), word.find("http://")].into_iter().flatten().min();
                let Some(inner) = begin.and_then(|begin| word.get(begin..)) else { continue };
                add_spellings(&mut pages, inner, "", written);
                continue;
            }
            add_spellings(&mut pages, word, if is_bare { "https://" } else { "" }, written);
        }
    }
}

/// Adds the address `word`, also without the punctuation at its end.
fn add_spellings(pages: &mut HashSet<Digest>, word: &str, scheme: &str, written: &str) {
    let mut word = word;
    for _ in 0..=MAX_TRIMMED {
        let is_written = !written.is_empty() && written.contains(word);
        if pages.len() < MAX_PAGES
            && word.len() <= MAX_URL
            && !is_written
            && let Ok(url) = Url::parse(&format!("{scheme}{word}"))
            && url.has_host()
        {
            pages.insert(page(&url));
        }
        let Some(shorter) = word.strip_suffix(|end| PUNCTUATION.contains(end)) else { return };
        word = shorter;
    }
}

/// Whether a character cannot be part of an address in a text.
fn is_outside(char: char) -> bool {
    char.is_whitespace()
        || char.is_control()
        || matches!(char, '<' | '>' | '"' | '`' | '\\' | '^' | '{' | '}')
}

/// Whether a word begins like `example.com/page`.
fn is_like_a_host(word: &str) -> bool {
    let host = word.split(['/', '?', '#', ':']).next().unwrap_or_default();
    let host = host.trim_end_matches(|end| PUNCTUATION.contains(end));
    let is_label =
        |label: &str| !label.is_empty() && label.chars().all(|char| char.is_alphanumeric() || char == '-');
    host.len() <= 253 && host.contains('.') && host.split('.').all(is_label)
}

/// The texts in the arguments of a call.
fn texts_of(arguments: &str) -> String {
    fn collect(value: &Value, texts: &mut String) {
        match value {
            Value::String(text) => texts.extend([text, "\n"]),
            Value::Array(elements) => elements.iter().for_each(|element| collect(element, texts)),
            Value::Object(members) => members.iter().for_each(|(key, value)| {
                texts.extend([key, "\n"]);
                collect(value, texts);
            }),
            _ => {}
        }
    }
    match serde_json::from_str(arguments) {
        Ok(value) => {
            let mut texts = String::new();
            collect(&value, &mut texts);
            texts
        }
        Err(_) => arguments.to_owned(),
    }
}

/// What identifies a page: its address without the scheme and the fragment.
fn page(url: &Url) -> Digest {
    let mut url = url.clone();
    url.set_fragment(None);
    Digest::of(url.as_str().split_once(':').map_or(url.as_str(), |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolwire_pipeline::conversation::{Call, CallOutput};

    fn result(content: &str) -> Turn {
        let output = CallOutput {
            id: "c".to_owned(),
            name: "web_search".to_owned(),
            content: content.to_owned(),
            is_error: false,
        };
        Turn::of(Role::Tool, vec![Part::Result(output)])
    }

    fn calling(arguments: &str) -> Turn {
        Turn::of(Role::Assistant, vec![Part::Call(Call::new("c", "web_search", arguments))])
    }

    #[test]
    fn addresses_of_users_and_results_are_known_in_every_spelling() {
        for (text, url) in [
            ("Read https://a.example/x.", "https://a.example/x"),
            ("(see HTTPS://A.example/x)", "http://a.example/x#part"),
            ("[a](https://a.example/b_(c)), and", "https://a.example/b_(c)"),
            ("what does a.example/x say?", "https://a.example/x"),
            ("what does a.example say?", "https://a.example/"),
            ("https://a.example/?q=1&r=%C3%A9", "https://a.example/?q=1&r=%C3%A9"),
            ("lies https://bücher.example/ä", "https://xn--bcher-kva.example/%C3%A4"),
        ] {
            assert!(KnownPages::of(&[Turn::text(Role::User, text)]).has(url), "{text}");
        }
        let found =
            result(r#"{"results":[{"url":"https://a.example/x","snippet":"a\nhttps://b.example/y\\"}]}"#);
        let pages = KnownPages::of(&[found]);
        assert!(pages.has("https://a.example/x") && pages.has("https://b.example/y"));
    }

    #[test]
    fn addresses_that_the_model_made_are_not_known() {
        let evil = "https://evil.example/?d=secret";
        let echo = format!(r#"{{"ok":true,"query":"{evil}","results":[]}}"#);
        for turns in [
            vec![Turn::text(Role::Assistant, evil)],
            vec![calling(&format!(r#"{{"query":"{evil}"}}"#)), result(&echo)],
            // An escape, and a result that repeats only the beginning.
            vec![calling(r#"{"query":"https:\/\/evil.example\/?d=secret-more"}"#), result(&echo)],
            vec![
                calling(&format!(r#"{{"query":["a {evil} b"]}}"#)),
                result(&format!("no pages for ({evil})")),
            ],
            vec![Turn::text(Role::User, "https://evil.example/")],
            vec![Turn::text(Role::User, "https://evil.example/?d=secret2")],
        ] {
            assert!(!KnownPages::of(&turns).has(evil), "{turns:?}");
        }
        // What the user said before stays known.
        let turns = [Turn::text(Role::User, evil), calling(&format!(r#"{{"url":"{evil}"}}"#)), result(&echo)];
        assert!(KnownPages::of(&turns).has(evil));
    }
}

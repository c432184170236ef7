//! [`Needs`]: which tools a user's text needs, judged by weighted words in many languages.
//!
//! Each sentence scores the weights of the classes whose words it contains, once per class. What speaks against a tool
//! also counts in the first and the last sentence, which say what is to be done with a long text. Only the words of one
//! language count, since `ai` is `who` in Vietnamese and `have` in French.

use std::{collections::HashMap, ops::Range, sync::LazyLock};

use super::fold::{FENCE, Prose, is_arabic, is_joined, is_open, word};

/// Number of bytes at each end of a text that are read.
const MAX_END: usize = 2 << 10;

/// A sentence with this score needs a search.
const ENOUGH: i32 = 4;

/// Number of characters that may be between a negation and the word for the web after it, or the one before it.
const MAX_NOT_BEFORE: usize = 16;
const MAX_NOT_AFTER: usize = 2;

/// The first sections of `words.txt`.
const ANY: u8 = 0;
const ENGLISH: u8 = 1;

const ASK: u32 = 1;
const VERB: u32 = 1 << 1;
const WEB: u32 = 1 << 2;
const NOW: u32 = 1 << 3;
const TOPIC: u32 = 1 << 4;
const LIVE: u32 = 1 << 5;
const WHAT: u32 = 1 << 6;
const URL: u32 = 1 << 7;
const STILL: u32 = 1 << 8;
const CODE: u32 = 1 << 9;
const EDIT: u32 = 1 << 10;
const TASK: u32 = 1 << 11;
const NOT: u32 = 1 << 12;
const NEVER: u32 = 1 << 13;
const DRAW: u32 = 1 << 14;
const MAKE: u32 = 1 << 15;
const PICTURE: u32 = 1 << 16;

/// The classes in `words.txt`, with what they add to the score of a sentence.
const CLASSES: [(&str, u32, i32); 18] = [
    ("ask", ASK, 8),
    ("verb", VERB, 2),
    ("web", WEB, 3),
    ("now", NOW, 3),
    ("topic", TOPIC, 3),
    ("live", LIVE, 4),
    ("what", WHAT, 1),
    ("url", URL, 12),
    ("still", STILL, -4),
    ("code", CODE, -4),
    ("edit", EDIT, -20),
    ("task", TASK, -6),
    ("never", NEVER, -100),
    ("not", NOT, 0),
    ("draw", DRAW, 0),
    ("make", MAKE, 0),
    ("picture", PICTURE, 0),
    ("word", 0, 0),
];

/// The tools that a text needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    search: bool,
    page: bool,
    image: bool,
}

impl Needs {
    pub(crate) fn of(text: &str) -> Self {
        let mut prose = Prose::default();
        for part in ends(text) {
            prose.push(part);
            prose.text.push('\n');
        }
        let sentences = LEXICON.sentences(&prose.text);
        let sides = [sentences.first(), sentences.last()];
        let around =
            sides.into_iter().flatten().fold(0, |all, classes| all | (classes & (CODE | EDIT | TASK)));
        let is_forbidden = sentences.iter().any(|classes| classes & NEVER != 0);
        let url = if prose.has_url { URL } else { 0 };
        let needs_search = |classes: u32| score(classes | url) >= ENOUGH;
        Self {
            search: !is_forbidden && sentences.iter().any(|classes| needs_search(classes | around)),
            page: prose.has_url && around & CODE == 0,
            image: sentences.iter().any(|classes| needs_image(classes | around)),
        }
    }

    /// Reads the words, which takes some milliseconds. Otherwise the first text does.
    pub(crate) fn load() {
        LazyLock::force(&LEXICON);
    }

    /// What at least one of two texts needs.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            search: self.search || other.search,
            page: self.page || other.page,
            image: self.image || other.image,
        }
    }

    pub(crate) fn include(self, tool: &str) -> bool {
        match tool {
            "web_search" => self.search,
            "scrape" | "web_fetch" => self.page,
            "generate_images" => self.image,
            _ => false,
        }
    }
}

/// The text, or its start and its end if it is long. An end that begins within a code block is read from behind it.
fn ends(text: &str) -> impl Iterator<Item = &str> {
    let is_long = text.len() > 2 * MAX_END;
    let start = text.get(..text.floor_char_boundary(if is_long { MAX_END } else { text.len() }));
    let end = text.get(text.ceil_char_boundary(text.len().saturating_sub(MAX_END))..);
    let behind_code = |end| match str::matches(end, FENCE).count() % 2 {
        0 => end,
        _ => end.split_once(FENCE).map_or(end, |(_, rest)| rest),
    };
    start.into_iter().chain(end.filter(|_| is_long).map(behind_code))
}

fn score(classes: u32) -> i32 {
    // A question about what changes contains its topic.
    let counted = if classes & LIVE == 0 { classes } else { classes & !TOPIC };
    CLASSES.iter().filter(|(_, class, _)| counted & class != 0).map(|(_, _, weight)| weight).sum()
}

fn needs_image(classes: u32) -> bool {
    let is_drawn = classes & DRAW != 0 || (classes & MAKE != 0 && classes & PICTURE != 0);
    is_drawn && classes & (CODE | EDIT | STILL) == 0
}

/// A word or phrase of the table.
struct Word {
    /// Where its text begins in [`Lexicon::texts`].
    start: usize,
    bytes: u8,
    /// In characters.
    length: u8,
    language: u8,
    edges: u8,
    class: u32,
}

/// Edges of words: what they match in spite of their surroundings, and where they must be.
const SUFFIX: u8 = 1;
const PREFIX: u8 = 1 << 1;
const FIRST: u8 = 1 << 2;

/// A word in a text.
struct Found<'a> {
    sentence: usize,
    /// Where it starts, in characters.
    at: usize,
    /// `None` is a question mark.
    word: Option<&'a Word>,
}

#[derive(Default)]
struct Lexicon {
    /// The folded texts of all words.
    texts: String,
    words: Vec<Word>,
    /// The words by their first characters.
    starts: HashMap<Key, Range<usize>>,
    languages: u8,
}

static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| Lexicon::parse(include_str!("words.txt")));

impl Lexicon {
    fn parse(table: &str) -> Self {
        let mut lexicon = Self::default();
        let mut words = Vec::new();
        for line in table.lines() {
            lexicon.languages += u8::from(line.starts_with("## "));
            let Some((name, line)) = line.split_once(": ") else { continue };
            let Some((_, class, _)) = CLASSES.iter().find(|(own, _, _)| *own == name) else { continue };
            for written in line.split(" | ") {
                let text = word(written.trim_matches(['*', '^']));
                let Some(key) = key(&text) else { continue };
                let edge = |has: bool, edge| if has { edge } else { 0 };
                let word = Word {
                    start: lexicon.texts.len(),
                    bytes: text.len().try_into().unwrap_or_default(),
                    length: text.chars().count().try_into().unwrap_or_default(),
                    language: lexicon.languages.saturating_sub(1),
                    edges: edge(written.starts_with('*'), SUFFIX)
                        | edge(written.ends_with('*'), PREFIX)
                        | edge(written.starts_with('^'), FIRST),
                    class: *class,
                };
                lexicon.texts.push_str(&text);
                words.push((key, word));
            }
        }
        words.sort_by_key(|(key, _)| *key);
        for (at, (key, word)) in words.into_iter().enumerate() {
            lexicon.starts.entry(key).or_insert(at..at).end = at + 1;
            lexicon.words.push(word);
        }
        lexicon
    }

    /// The classes of the words in each sentence of folded text.
    fn sentences(&self, text: &str) -> Vec<u32> {
        let mut found = self.found(text);
        let language = self.language(&found);
        // English words are also used in languages of other scripts.
        let is_mixed = text.chars().any(|character| character >= '\u{370}' && character.is_alphabetic());
        found.retain(|found| {
            let is_read = |own: u8| own == ANY || own == language || (own == ENGLISH && is_mixed);
            found.word.is_none_or(|word| is_read(word.language))
        });
        let mut sentences = vec![0];
        let (mut not_end, mut web_end) = (None, None);
        for Found { sentence, at, word } in found {
            if sentences.len() <= sentence {
                sentences.resize(sentence + 1, 0);
                (not_end, web_end) = (None, None);
            }
            let Some(classes) = sentences.last_mut() else { continue };
            let (class, end) = word.map_or((WHAT, at), |word| (word.class, at + usize::from(word.length)));
            *classes |= class;
            let is_near = |end: Option<usize>, gap| end.is_some_and(|end| (end..=end + gap).contains(&at));
            let is_negated = match class {
                WEB => is_near(not_end, MAX_NOT_BEFORE),
                NOT => is_near(web_end, MAX_NOT_AFTER),
                _ => false,
            };
            if is_negated {
                *classes |= NEVER;
            }
            match class {
                WEB => web_end = Some(end),
                NOT => not_end = Some(end),
                _ => {}
            }
        }
        sentences
    }

    /// The language with the longest words in the text.
    fn language(&self, found: &[Found<'_>]) -> u8 {
        let mut lengths = vec![0; usize::from(self.languages)];
        for word in found.iter().filter_map(|found| found.word) {
            if let Some(length) = lengths.get_mut(usize::from(word.language)) {
                *length += u32::from(word.length);
            }
        }
        let lengths = (0..self.languages).zip(lengths).filter(|(language, _)| *language != ANY);
        lengths.rev().max_by_key(|(_, length)| *length).map_or(ENGLISH, |(language, _)| language)
    }

    /// The words in folded text, in the order of their starts.
    fn found<'a>(&'a self, text: &'a str) -> Vec<Found<'a>> {
        let (mut found, mut sentence, mut before) = (Vec::new(), 0, '\n');
        for (at, (offset, character)) in text.char_indices().enumerate() {
            match character {
                '\n' => sentence += 1,
                ' ' => {}
                '?' => found.push(Found { sentence, at, word: None }),
                _ if is_joined(before) && !is_open(character) && !is_arabic(character) => {}
                _ => {
                    let words = self.at(text.get(offset..).unwrap_or_default(), before);
                    found.extend(words.map(|word| Found { sentence, at, word: Some(word) }));
                }
            }
            before = character;
        }
        found
    }

    fn text(&self, word: &Word) -> Option<&str> {
        self.texts.get(word.start..word.start + usize::from(word.bytes))
    }

    /// The words with which `text` begins, after the character `before`.
    fn at<'a>(&'a self, text: &'a str, before: char) -> impl Iterator<Item = &'a Word> {
        let [first, second, third] = key(text).unwrap_or_default();
        let is_inside = is_joined(before) && !is_open(first);
        let keys = [[first, second, third], [first, second, NONE], [first, NONE, NONE]];
        let ranges = keys.into_iter().filter_map(|key| self.starts.get(&key));
        let known = ranges.filter_map(|range| self.words.get(range.clone())).flatten();
        known.filter(move |word| {
            let Some(own) = self.text(word) else { return false };
            let Some(rest) = text.strip_prefix(own) else { return false };
            let may_go_on = word.edges & PREFIX != 0 || own.ends_with(is_open);
            let is_whole = may_go_on || !rest.starts_with(is_joined);
            is_whole
                && (word.edges & FIRST == 0 || before == '\n')
                && (!is_inside || word.edges & SUFFIX != 0)
        })
    }
}

/// The first characters of a word, with [`NONE`] after a shorter one.
type Key = [char; 3];

const NONE: char = '\0';

fn key(text: &str) -> Option<Key> {
    let mut characters = text.chars();
    let first = characters.next()?;
    Some([first, characters.next().unwrap_or(NONE), characters.next().unwrap_or(NONE)])
}

#[cfg(test)]
mod tests;

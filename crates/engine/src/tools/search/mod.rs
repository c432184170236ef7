//! [`ToolIndex`]: ranks tools by how well their names and descriptions fit a text.
//!
//! The ranking is BM25: a word counts more the rarer it is among the tools, and less the longer the tool's texts are.
//! A word in the tool's name counts several times, and words in nested descriptions count less. All that depends on
//! the tools alone is computed in advance, so a query only adds up numbers. Equal scores keep the order of the
//! declarations, so the same tools and the same text always give the same ranking.

mod words;

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, Hasher},
};

use self::words::words;
use crate::{
    conversation::Tool,
    wire::json::{Json, Kind},
};

/// How much a word counts in a tool's name, its description, the names of arguments, and their descriptions.
const WEIGHTS: [f32; 4] = [3.0, 1.0, 1.0, 0.5];

/// How fast a word's repetitions count less, and how much the length of the texts counts: BM25's usual parameters.
const K: f32 = 1.2;
const B: f32 = 0.75;

/// Words of one tool, so that one tool cannot fill the memory. Later words are not indexed.
const MAX_WORDS: usize = 2_000;

/// Depth of the schemas whose texts are indexed.
const MAX_DEPTH: usize = 6;

/// Different words of a query. Later ones do not count.
const MAX_QUERY: usize = 256;

/// The words of the tools of a request.
#[derive(Debug)]
pub struct ToolIndex {
    tools: usize,
    /// For each word, its place in `scores`.
    words: HashMap<Box<str>, (u32, u32)>,
    /// For each word, the tools in which it occurs, and how much it adds to their scores.
    scores: Box<[(u32, f32)]>,
}

impl ToolIndex {
    /// Indexes the names, the descriptions and the arguments of `tools`.
    pub fn new(tools: &[Tool]) -> Self {
        let mut found: HashMap<Box<str>, Vec<(u32, f32)>> = HashMap::new();
        let mut lengths = Vec::with_capacity(tools.len());
        for (place, tool) in (0u32..).zip(tools) {
            lengths.push(Document { place, words: 0, length: 0.0, found: &mut found }.add_tool(tool));
        }
        let count = tools.len().max(1) as f32;
        let average = (lengths.iter().sum::<f32>() / count).max(1.0);
        let mut scores = Vec::with_capacity(found.values().map(Vec::len).sum());
        let mut words = HashMap::with_capacity(found.len());
        for (word, places) in found {
            let in_tools = places.len() as f32;
            let rarity = (1.0 + (count - in_tools + 0.5) / (in_tools + 0.5)).ln();
            let start = scores.len() as u32;
            scores.extend(places.into_iter().map(|(place, times)| {
                let length = lengths.get(place as usize).copied().unwrap_or(average);
                (place, rarity * times * (K + 1.0) / (times + K * (1.0 - B + B * length / average)))
            }));
            words.insert(word, (start, scores.len() as u32));
        }
        words.shrink_to_fit();
        Self { tools: tools.len(), words, scores: scores.into() }
    }

    /// A hash of all that is indexed. Equal tools have equal hashes with the same `hasher`.
    pub fn hash_of(tools: &[Tool], hasher: &impl BuildHasher) -> u64 {
        let mut hash = hasher.build_hasher();
        for tool in tools {
            (&tool.name, &tool.description).hash(&mut hash);
            tool.parameters.as_ref().map(|schema| schema.view().raw()).hash(&mut hash);
        }
        hash.finish()
    }

    /// The places of the tools that fit `text` best, among those that `is_wanted`: at most `most`, and only those with a
    /// word of the text. The best comes first.
    pub fn best(&self, text: &str, most: usize, is_wanted: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut scores = vec![0.0f32; self.tools];
        let mut seen: Vec<(u32, u32)> = Vec::new();
        words(text, |word| {
            if let Some(range) = self.words.get(word)
                && !seen.contains(range)
            {
                seen.push(*range);
            }
            seen.len() < MAX_QUERY
        });
        for (start, end) in seen {
            for (place, score) in self.scores.get(start as usize..end as usize).unwrap_or_default() {
                if let Some(sum) = scores.get_mut(*place as usize) {
                    *sum += score;
                }
            }
        }
        let found = scores.iter().enumerate().filter(|(place, score)| **score > 0.0 && is_wanted(*place));
        let mut found: Vec<(usize, f32)> = found.map(|(place, score)| (place, *score)).collect();
        let order = |one: &(usize, f32), other: &(usize, f32)| {
            other.1.total_cmp(&one.1).then_with(|| one.0.cmp(&other.0))
        };
        if found.len() > most {
            found.select_nth_unstable_by(most, order);
            found.truncate(most);
        }
        found.sort_unstable_by(order);
        found.into_iter().map(|(place, _)| place).collect()
    }

    /// Number of tools.
    pub fn len(&self) -> usize {
        self.tools
    }

    /// Whether there are no tools.
    pub fn is_empty(&self) -> bool {
        self.tools == 0
    }

    /// Approximate size in memory, in bytes.
    pub fn size(&self) -> usize {
        const OF_WORD: usize = 48;
        let words: usize = self.words.keys().map(|word| OF_WORD + word.len()).sum();
        words + self.scores.len() * size_of::<(u32, f32)>()
    }
}

/// The words of one tool.
struct Document<'i> {
    place: u32,
    words: usize,
    /// Number of words, each as often as it counts.
    length: f32,
    found: &'i mut HashMap<Box<str>, Vec<(u32, f32)>>,
}

impl Document<'_> {
    /// Adds the words of `tool`. Returns their weighted number.
    fn add_tool(mut self, tool: &Tool) -> f32 {
        let [name, description, argument, nested] = WEIGHTS;
        self.add(&tool.name, name);
        self.add(&tool.description, description);
        if let Some(schema) = &tool.parameters {
            texts(schema.view(), 0, &mut |text, is_name| {
                self.add(text, if is_name { argument } else { nested })
            });
        }
        self.length
    }

    fn add(&mut self, text: &str, weight: f32) {
        let Self { place, words: count, length, found } = self;
        words(text, |word| {
            if *count >= MAX_WORDS {
                return false;
            }
            *count += 1;
            *length += weight;
            let places = match found.get_mut(word) {
                Some(places) => places,
                None => found.entry(word.into()).or_default(),
            };
            match places.last_mut() {
                Some((last, times)) if last == place => *times += weight,
                _ => places.push((*place, weight)),
            }
            true
        });
    }
}

/// Passes the names of arguments (`true`) and the descriptions (`false`) in `schema` to `take`, in order.
pub fn texts_of_schema(schema: Json<'_>, mut take: impl FnMut(&str, bool)) {
    texts(schema, 0, &mut take);
}

fn texts(schema: Json<'_>, depth: usize, take: &mut impl FnMut(&str, bool)) {
    if depth > MAX_DEPTH {
        return;
    }
    for (key, value) in schema.members() {
        match (&*key, value.kind()) {
            ("description", Kind::String) => take(&value.as_str().unwrap_or_default(), false),
            ("properties", Kind::Object) => {
                for (name, property) in value.members() {
                    take(&name, true);
                    texts(property, depth + 1, take);
                }
            }
            ("enum", Kind::Array) => {
                value.elements().filter_map(|value| value.as_str()).for_each(|value| take(&value, false));
            }
            ("items" | "additionalProperties", Kind::Object) => texts(value, depth + 1, take),
            ("anyOf" | "oneOf" | "allOf", Kind::Array) => {
                value.elements().for_each(|schema| texts(schema, depth + 1, take));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, description: &str, parameters: &str) -> Tool {
        Tool {
            description: description.to_owned(),
            parameters: Json::parse(parameters).ok().map(Into::into),
            ..Tool::named(name)
        }
    }

    fn catalogue() -> Vec<Tool> {
        let city =
            r#"{"type": "object", "properties": {"city": {"type": "string", "description": "A town"}}}"#;
        vec![
            tool("send_email", "Sends a message to somebody.", "{}"),
            tool("getWeatherByCity", "The current conditions.", city),
            tool(
                "stocks.quote",
                "The price of a share.",
                r#"{"properties": {"ticker": {"enum": ["AAPL"]}}}"#,
            ),
            tool("noop", "", "true"),
        ]
    }

    #[test]
    fn names_descriptions_and_arguments_are_found() {
        let index = ToolIndex::new(&catalogue());
        for (text, place) in [
            ("What is the weather like?", 1),
            ("emails", 0),
            ("messages", 0),
            ("cities", 1),
            ("a town", 1),
            ("share prices", 2),
            ("ticker aapl", 2),
        ] {
            assert_eq!(index.best(text, 3, |_| true).first(), Some(&place), "{text}");
        }
        assert_eq!(index.best("the of xyzzy \u{1f600}", 3, |_| true), [0usize; 0]);
        assert_eq!(index.best("weather email", 1, |place| place != 1), [0]);
        assert_eq!(index.best("weather", 0, |_| true), [0usize; 0]);
    }

    #[test]
    fn equal_scores_keep_the_order_of_the_declarations() {
        let tools: Vec<_> = (0..100).map(|number| tool(&format!("find_{number}"), "", "{}")).collect();
        let index = ToolIndex::new(&tools);
        assert_eq!(index.best("find", 5, |_| true), [0, 1, 2, 3, 4]);
        assert_eq!(index.best("find 77", 2, |_| true), [77, 0]);
    }

    #[test]
    fn one_tool_cannot_fill_the_index() {
        let words: String = (0..100_000).map(|number| format!("w{} ", letters(number))).collect();
        let index = ToolIndex::new(&[tool("x", &words, "{}"), tool(&"n".repeat(64 << 10), "", "{}")]);
        assert!(index.size() < MAX_WORDS * 100, "{}", index.size());
        assert_eq!(index.best(&"n".repeat(64 << 10), 1, |_| true), [1]);
        assert!(ToolIndex::new(&[]).best("x", 1, |_| true).is_empty());
    }

    fn letters(mut number: usize) -> String {
        let mut text = String::new();
        while number > 0 {
            text.push(char::from(b'a' + (number % 26) as u8));
            number /= 26;
        }
        text
    }

    #[test]
    fn hashes_depend_on_all_that_is_indexed() {
        let hasher = std::hash::RandomState::new();
        let hash = |tools: &[Tool]| ToolIndex::hash_of(tools, &hasher);
        let first = catalogue();
        assert_eq!(hash(&first), hash(&catalogue()));
        for change in 0..3 {
            let mut changed = catalogue();
            match change {
                0 => changed[0].name.push('x'),
                1 => changed[1].description.push('x'),
                _ => changed[2].parameters = None,
            }
            assert_ne!(hash(&first), hash(&changed));
        }
    }
}

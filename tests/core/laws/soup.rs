//! Generates texts from troublesome fragments in any order: complete and partial markers, JSON, fences, quotes and
//! white space.

use proptest::{prelude::*, sample::Index};
use toolwire::format::ALL;

#[rustfmt::skip]
const FRAGMENTS: &[&str] = &[
    // Markers.
    "<tool_call>", "</tool_call>", "<tool_calls>", "</tool_calls>", "<function_call>", "</function_call>",
    "<pre>", "<PRE>", "<pre class=\"x\">", "</pre>", "</PRE>", "<code>", "<code class='y'>", "</code>",
    "<think>", "</think>", "<Think>", "<", ">", "</", "<tool_", "<pr",
    // Fences and quotes.
    "```", "```json\n", "```json ", "\n```\n", "\n```json\n", "~~~", "~~~\n", "\n~~~json\n", "```python\n", "````",
    "`", "``", "\n`", "'", "\"", "\\\"", "\\",
    // JSON and pieces of it.
    "{", "}", "[", "]", ",", ":", "{\"", "\"}", "{}", "[]", "null", "true", "1", "-1.50e3", "0",
    "\"name\"", "\"name\":", "\"a\"", "\"get_weather\"", "\"zzz\"", "\"user:a\"", "\"arguments\":", "\"arguments\":{",
    "\"x\":1", "\"x\":1}", "\"s\":\"", "\"parameters\":{\"properties\":{", "\"type\":\"function\",", "\"function\":{",
    "\"tool_calls\":[", "\"id\":\"i\",", "{\"name\":\"a\",", "{\"name\":\"a\",\"arguments\":{",
    "{\"name\":\"a\",\"arguments\":{\"x\":1}}", "{\"name\":\"b\",\"arguments\":\"{\\\"y\\\":[2]}\"}",
    "{\"arguments\":{\"x\":\"<pre>`\"},\"name\":\"b\"}", "{\"name\":\"zzz\",\"arguments\":{}}",
    "{\"name\":\"a\",\"arguments\":null}", "[{\"name\":\"a\",\"arguments\":{}},", "{'name':'a','arguments':{'x':None}}",
    "{\"k\":[{\"name\":\"a\",\"arguments\":{}}]}", "\\n", "\\u00e9", "\\ud83d", "\\ude00", "\\u12", "\\q", "/*", "*/", "//",
    // Words and white space.
    "word", " and ", "é", "😀", "日本", "&quot;", " ", "  ", "\n", "\n\n", "\r\n", "\t", "\u{0}", "\u{a0}", ".",
];

/// Texts that end inside a construct, so that the soup continues it.
const BEGINNINGS: &[&str] = &[
    "{\"name\":\"a\",\"arguments\":{",
    "{\"name\":\"a\",\"arguments\":\"",
    "{\"name\":\"a\",\"arguments\":\"{\\\"x\\\":\\\"",
    "{\"arguments\":{\"x\":",
    "[{\"name\":\"a\",\"arguments\":{}},",
    "<tool_call>{\"name\":\"a\",\"arguments\":",
    "<tool_call>{\"arguments\":\"",
    "<tool_call>{\"name\":\"a\",\"arguments\":{\"s\":\"",
    "<tool_call>[{\"name\":\"a\",\"arguments\":{}},",
    "<pre>{\"name\":\"a\",\"arguments\":{\"x\":1}}",
    "`<pre>{\"name\":\"a\",\"arguments\":{\"x\":1}}</pre>",
    "```json\n{\"name\":\"a\",\"arguments\":{\"x\":1}}",
    "word `{\"name\":\"a\",\"arguments\":{",
];

fn fragment() -> impl Strategy<Value = String> {
    let whole = prop::sample::select(FRAGMENTS).prop_map(str::to_owned);
    let half = (prop::sample::select(FRAGMENTS), any::<Index>()).prop_map(|(text, at)| halves(text, at).0);
    prop_oneof![8 => whole, 2 => half, 1 => example()]
}

fn example() -> impl Strategy<Value = String> {
    (prop::sample::select(ALL), any::<Index>(), 0..3).prop_map(|(format, at, part)| {
        let (head, tail) = halves(format.example, at);
        match part {
            0 => head,
            1 => tail,
            _ => head + &tail,
        }
    })
}

fn halves(text: &str, at: Index) -> (String, String) {
    let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let (head, tail) = text.split_at(ends[at.index(ends.len())]);
    (head.to_owned(), tail.to_owned())
}

pub(crate) fn soup(most: usize) -> impl Strategy<Value = String> {
    let beginning = prop_oneof![2 => Just(""), 1 => prop::sample::select(BEGINNINGS)];
    let fragments = prop::collection::vec(fragment(), 0..most);
    (beginning, fragments).prop_map(|(beginning, fragments)| beginning.to_owned() + &fragments.concat())
}

/// Generates text in which no marker can begin.
pub(crate) fn prose() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop::sample::select(&[
            "a", "word", " ", "  ", "\n", "\n\n", "\t", "\r\n", "é", "😀", "日本", ". ", "> ", "}", "]",
            "\"", "'", "1", "name", ":", ",", "\\", "&", "|",
        ] as &[_]),
        0..24,
    )
    .prop_map(|words| words.concat())
}

pub(crate) fn cuts() -> impl Strategy<Value = Vec<Index>> {
    prop::collection::vec(any::<Index>(), 0..6)
}

pub(crate) fn cut_text<'t>(text: &'t str, cuts: &[Index]) -> Vec<&'t str> {
    let mut ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    ends.push(text.len());
    let mut places: Vec<usize> = cuts.iter().map(|cut| ends[cut.index(ends.len())]).collect();
    places.sort_unstable();
    let mut from = 0;
    let mut pieces: Vec<&str> = Vec::new();
    for at in places.into_iter().chain([text.len()]) {
        pieces.push(&text[from..at]);
        from = at;
    }
    pieces
}

pub(crate) fn cut_bytes<'b>(bytes: &'b [u8], cuts: &[Index]) -> Vec<&'b [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    places.sort_unstable();
    let mut from = 0;
    let mut pieces = Vec::new();
    for at in places.into_iter().chain([bytes.len()]) {
        pieces.push(&bytes[from..at]);
        from = at;
    }
    pieces
}

//! Generates the fuzzer's dictionaries: from the strings in the format tables, and from the fields of the APIs.

use std::{collections::BTreeSet, fs};

use toolwire::format;

use super::corpus;
use crate::support::repository::root;

/// Strings that matter in most formats but are not in any table.
const WORDS: [&str; 14] = [
    "{\"name\":\"a\",\"arguments\":{",
    "\"arguments\"",
    "\"parameters\"",
    "\"name\":\"b\"",
    "\"function\":{",
    "```json\n",
    "</",
    "\\u00e9",
    "\\ud83d\\ude00",
    "get_weather",
    "name=\"set\"",
    "true",
    "-1.50e3",
    "Action Input:",
];

/// Returns the markers of all formats. They are taken from the debug output of the tables, so that new kinds of
/// tables are included.
pub(crate) fn markers() -> Vec<String> {
    let tables = format::ALL.iter().flat_map(|format| texts(&format!("{:?}", format.grammars)));
    let markers: BTreeSet<String> = tables.chain(WORDS.map(str::to_owned)).collect();
    markers.into_iter().filter(|marker| !marker.is_empty()).collect()
}

/// Returns the members of requests and responses, and the words that they have as values, as they are written in JSON.
fn fields() -> BTreeSet<String> {
    let is_word = |text: &str| {
        text.len() > 1
            && text.len() < 40
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte))
    };
    let mut fields = BTreeSet::new();
    let seeds = ["exchange", "request"].into_iter().flat_map(corpus::read);
    for (_, stream) in seeds.filter(|(name, _)| !corpus::is_added(name)) {
        let text: String = stream.utf8_chunks().map(|chunk| chunk.valid()).collect();
        let mut parts = text.split('"').peekable();
        while let Some(word) = parts.next() {
            let is_member = parts.peek().is_some_and(|behind| behind.starts_with(':'));
            if is_word(word) && (is_member || word.contains('_')) {
                fields.insert(format!("\"{word}\"{}", if is_member { ":" } else { "" }));
            }
        }
    }
    for dialect in ["chat", "gemini", "messages", "responses"] {
        let types =
            fs::read_to_string(root().join(format!("crates/dialects/src/{dialect}/types.toml"))).unwrap();
        let names = types.lines().filter_map(|line| line.split_once(" = "));
        fields.extend(
            names.map(|(name, _)| name).filter(|name| is_word(name)).map(|name| format!("\"{name}\":")),
        );
    }
    fields
}

/// The dictionaries: their names, and the generated text.
pub(crate) fn texts_of_files() -> [(&'static str, String); 2] {
    let fields: Vec<_> = fields().into_iter().collect();
    let from = "the members of requests and responses";
    [("markers.dict", text("the formats' tables", &markers())), ("fields.dict", text(from, &fields))]
}

fn text(from: &str, words: &[String]) -> String {
    let quoted = |marker: &String| {
        let bytes = marker.bytes().map(|byte| match byte {
            b'"' | b'\\' => format!("\\{}", char::from(byte)),
            0x20..0x7f => char::from(byte).to_string(),
            _ => format!("\\x{byte:02x}"),
        });
        format!("\"{}\"\n", bytes.collect::<String>())
    };
    format!("# Made of {from} by tests/core/fuzz/dictionary.rs.\n")
        + &words.iter().map(quoted).collect::<String>()
}

/// Returns the string literals in debug output.
fn texts(debug: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut rest = debug;
    while let Some(open) = rest.find('"') {
        let mut text = String::new();
        let mut characters = rest[open + 1..].char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    rest = &rest[open + 1 + at + 1..];
                    break;
                }
                '\\' => text.extend(match characters.next().map(|(_, escape)| escape) {
                    Some('n') => Some('\n'),
                    Some('r') => Some('\r'),
                    Some('t') => Some('\t'),
                    Some(same @ ('"' | '\\' | '\'')) => Some(same),
                    other => panic!("an escape that no table has had yet: {other:?} in {debug}"),
                }),
                _ => text.push(character),
            }
        }
        all.push(text);
    }
    all
}

//! Generates the fuzzer's dictionary from the strings in the format tables.

use std::collections::BTreeSet;

use toolwire::format;

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

pub(crate) fn text() -> String {
    let quoted = |marker: &String| {
        let bytes = marker.bytes().map(|byte| match byte {
            b'"' | b'\\' => format!("\\{}", char::from(byte)),
            0x20..0x7f => char::from(byte).to_string(),
            _ => format!("\\x{byte:02x}"),
        });
        format!("\"{}\"\n", bytes.collect::<String>())
    };
    "# Made of the formats' tables by tests/core/fuzz/dictionary.rs.\n".to_owned()
        + &markers().iter().map(quoted).collect::<String>()
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

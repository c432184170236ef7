//! Checks that docs/types.md shows the tables.

use std::{collections::BTreeMap, fmt::Write as _, fs};

use toolwire::dialect::Dialect;

use super::DIALECTS;
use crate::support::{
    repository::root,
    types::{MCP, table},
};

const START: &str = "<!-- generated -->\n";

#[test]
fn types_page_shows_the_tables() {
    let path = root().join("docs/types.md");
    let page = fs::read_to_string(&path).unwrap();
    let (head, _) = page.split_once(START).expect("the mark where the tables start");
    let expected = format!("{head}{START}{}", tables());
    if std::env::var_os("TOOLWIRE_WRITE").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    assert!(
        page == expected || std::env::var_os("TOOLWIRE_WRITE").is_some(),
        "write it anew: TOOLWIRE_WRITE=1"
    );
}

/// A section for each dialect: a row for each claim, with the types that have it. Types that are mapped everywhere are
/// left out.
fn tables() -> String {
    let mut page = String::new();
    let folders = DIALECTS.map(|dialect| (title(dialect), format!("crates/dialects/src/{dialect}")));
    for (title, folder) in folders.into_iter().chain([("MCP", MCP.to_owned())]) {
        _ = writeln!(page, "\n## {title}\n\n| | types | |\n|---|---|---|");
        let path = root().join(&folder).join("types.toml");
        let written: toml::Table = toml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        for kind in table(&folder).keys() {
            let mut rows: BTreeMap<&str, Vec<String>> = BTreeMap::new();
            for (name, text) in written[kind].as_table().unwrap() {
                if text.as_str() == Some("mapped") {
                    continue;
                }
                rows.entry(text.as_str().unwrap()).or_default().push(format!("`{name}`"));
            }
            for (text, names) in rows {
                _ = writeln!(page, "| {kind} | {} | {text} |", names.join(", "));
            }
        }
    }
    page
}

fn title(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Chat => "Chat Completions",
        Dialect::Responses => "Responses",
        Dialect::Messages => "Messages",
        _ => "Gemini",
    }
}

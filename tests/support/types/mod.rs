//! The tables of types, `types.toml`, and an instance of each type, by which they are checked.
//!
//! `clients/types` makes the instances from the SDKs. Their texts are unique, so a test can tell which of them reach the
//! other side.

pub(crate) mod claim;
pub(crate) mod trace;

use std::{collections::BTreeMap, fs};

use serde_json::Value;

use self::claim::Entry;
use super::repository::root;

/// Values by a type's kind and name.
pub(crate) type Types<T> = BTreeMap<String, BTreeMap<String, T>>;

/// The folder of the table of types that MCP servers and their clients exchange.
pub(crate) const MCP: &str = "crates/execution/src/providers/mcp";

/// The table in a folder.
pub(crate) fn table(folder: &str) -> Types<Entry> {
    let written: Types<String> =
        toml::from_str(&fs::read_to_string(root().join(folder).join("types.toml")).unwrap()).unwrap();
    let entries = |(kind, names): (String, BTreeMap<String, String>)| {
        let entry = |(name, text): (String, String)| {
            let entry = Entry::parse(&text).unwrap_or_else(|| panic!("{folder}, {kind} `{name}`: {text}"));
            (name, entry)
        };
        let names = names.into_iter().map(entry).collect();
        (kind, names)
    };
    written.into_iter().map(entries).collect()
}

/// The instances for the table of this name.
pub(crate) fn instances(name: &str) -> Types<Value> {
    let path = root().join("tests/core/types/instances").join(format!("{name}.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

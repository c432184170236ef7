//! `tool_search`: from how many tools on a model is shown only some of them.

use toml::{Value, de::DeValue};

use super::super::{
    keys::{Keys, string},
    table::Cell,
    value::{choice, count},
};
use toolwire_pipeline::settings::Key;

/// From how many tools of a request on the model is shown only some of them, and a search for the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolSearch {
    /// If there are very many tools, or if their declarations are very large.
    #[default]
    Auto,
    /// Never, unless the client declares a search.
    Off,
    /// From this number on.
    From(usize),
}

const ABOUT: &str = "when the model is shown only the likely tools and [a search](tools.md) for the \
     others: `\"auto\"` for more than 128 tools, or tools of more than about 64,000 tokens, if they do not go from \
     Messages to Messages; a number of tools; or `\"off\"`";

/// The key of an entry of `[[models]]`.
pub(super) fn key(keys: &mut impl Keys, search: &mut ToolSearch) {
    keys.special(Key::new("tool_search", ABOUT), search, read, |search| Some(shown(search)));
}

fn read(cell: Cell<'_>) -> Option<ToolSearch> {
    match cell.value {
        DeValue::Integer(_) => count(1)(cell).map(ToolSearch::From),
        _ => choice(&[("auto", ToolSearch::Auto), ("off", ToolSearch::Off)])(cell),
    }
}

fn shown(search: &ToolSearch) -> Value {
    match search {
        ToolSearch::Auto => string("auto"),
        ToolSearch::Off => string("off"),
        ToolSearch::From(least) => Value::Integer(i64::try_from(*least).unwrap_or(i64::MAX)),
    }
}

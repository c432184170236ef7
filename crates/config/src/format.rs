//! `[[formats]]`: text formats defined in the configuration; see [`Definition`].

use super::{
    keys::{Keys, Reading, strings},
    table::{Cell, Table},
    value::{list, text},
};
use toolwire_pipeline::{
    format::{CustomFormat, Definition},
    settings::{Field, Key},
};

/// The keys of `[[formats]]`.
pub(super) fn keys(keys: &mut impl Keys, definition: &mut Definition) {
    keys.special(
        Key::new("name", "must differ from all built-in names").or(Key::REQUIRED),
        &mut definition.name,
        text,
        |_| None,
    );
    keys.special(
        Key::new("open", "the marker that opens a call, neither a prefix of another opener nor the reverse")
            .or(Key::REQUIRED),
        &mut definition.open,
        text,
        |_| None,
    );
    keys.key(
        Key::new("close", "the marker that closes a call; without it the call ends with its JSON").or("none"),
        Field::Text(&mut definition.close),
    );
    keys.key(
        Key::new("models", "globs of model names, or of the part after the last `/`, ignoring case"),
        Field::Texts(&mut definition.models),
    );
    keys.key(Key::new("summary", "a description in one line"), Field::Text(&mut definition.summary));
    keys.key(
        Key::new(
            "line_start",
            "the opener counts only at the start of a line, and only declared names are calls",
        ),
        Field::Switch(&mut definition.line_start),
    );
    keys.key(Key::new("inner", "markers around the JSON to ignore"), Field::Texts(&mut definition.inner));
    keys.key(
        Key::new(
            "name_is_key",
            "a call is `{\"NAME\": {…}}` instead of `{\"name\": \"NAME\", \"arguments\": {…}}`",
        ),
        Field::Switch(&mut definition.name_is_key),
    );
    marker_keys(keys, definition);
    keys.key(
        Key::new("trim", "with `parameter`: remove a line end on each side of a value"),
        Field::Switch(&mut definition.trim),
    );
    keys.key(
        Key::new(
            "reasoning",
            "the marker that opens reasoning, at the start of a line or anywhere with `|`, then those that may \
             close it",
        ),
        Field::Texts(&mut definition.reasoning),
    );
    keys.key(Key::new("frame", "markers around the response to ignore"), Field::Texts(&mut definition.frame));
}

/// The keys for results, and for calls whose name is not part of the JSON.
fn marker_keys(keys: &mut impl Keys, definition: &mut Definition) {
    let two = "two markers: one before, one after";
    let three = "three markers: before the key, after the key, and after the value";
    keys.special(
        Key::new("result", "two markers around a result, required to teach the format").or("none"),
        &mut definition.result,
        |cell| markers(cell, two).map(Some),
        |markers| markers.as_ref().map(|markers| strings(markers.iter().map(String::as_str))),
    );
    keys.key(
        Key::new(
            "name_end",
            "the call is the opener, the name, this marker, and the arguments as JSON. Not with `inner`, \
             `name_is_key` and `result`",
        )
        .or("none"),
        Field::Text(&mut definition.name_end),
    );
    keys.key(
        Key::new("name_first", "with `name_end`: other words may be between the name and that marker"),
        Field::Switch(&mut definition.name_first),
    );
    keys.special(
        Key::new("section", "with `name_end`: two markers around all calls").or("none"),
        &mut definition.section,
        |cell| markers(cell, two).map(Some),
        |markers| markers.as_ref().map(|markers| strings(markers.iter().map(String::as_str))),
    );
    keys.special(
        Key::new(
            "parameter",
            "with `name_end`: each argument has a tag instead of JSON. Three markers: before and after the key, \
             after the value",
        )
        .or("none"),
        &mut definition.parameter,
        |cell| markers(cell, three).map(Some),
        |markers| markers.as_ref().map(|markers| strings(markers.iter().map(String::as_str))),
    );
}

/// The command that lists the formats.
pub(super) const LISTED_BY: &str = "toolwire formats";

/// The error message for a format `name` that is not one of `known`.
pub fn unknown<'f>(name: &str, known: impl Iterator<Item = &'f toolwire_pipeline::format::Format>) -> String {
    let known: Vec<_> = known.map(|format| format.name).collect();
    format!(
        "there is no format `{name}`; {}",
        toolwire_pipeline::wire::suggest::suggest(name, &known, Some(LISTED_BY))
    )
}

/// Reads an entry of `[[formats]]`. `earlier` holds the formats of the preceding entries. Returns `None` if the entry
/// contains a mistake.
pub(super) fn read(table: &mut Table<'_>, earlier: &[CustomFormat]) -> Option<CustomFormat> {
    let mut definition = Definition::default();
    keys(&mut Reading(table), &mut definition);
    let has_name = !definition.name.is_empty();
    let has_open = !definition.open.is_empty();
    let built = definition.build(earlier);
    let wrong = built.as_ref().err().into_iter().flatten();
    for wrong in wrong.filter(|wrong| wrong.key != "open" || has_open) {
        if let Some(cell) = table.cell(wrong.key) {
            cell.wrong::<()>(&wrong.message);
        }
    }
    built.ok().filter(|_| has_name && has_open)
}

fn markers<const N: usize>(cell: Cell<'_>, what: &str) -> Option<[String; N]> {
    match <[String; N]>::try_from(list(text)(cell.clone())?) {
        Ok(markers) => Some(markers),
        Err(_) => cell.wrong(format!("expected {what}")),
    }
}

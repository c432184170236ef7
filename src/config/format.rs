//! `[[formats]]`: text formats of the configuration's own, in the words of [`Definition`].

use super::{
    keys::{Keys, Reading, strings},
    table::{Cell, Table},
    value::{list, text},
};
use crate::{
    format::{CustomFormat, Definition},
    settings::{Field, Key},
};

/// The keys of `[[formats]]`.
pub(super) fn keys(keys: &mut impl Keys, definition: &mut Definition) {
    keys.special(
        Key::new("name", "none of the built-in names").or(Key::NEEDED),
        &mut definition.name,
        text,
        |_| None,
    );
    keys.special(
        Key::new(
            "open",
            "what a call begins with; no other format's opener may begin with it, nor it with one",
        )
        .or(Key::NEEDED),
        &mut definition.open,
        text,
        |_| None,
    );
    keys.key(
        Key::new("close", "what a call ends with; without one it ends with its JSON").or("none"),
        Field::Text(&mut definition.close),
    );
    keys.key(
        Key::new(
            "models",
            "globs over model names: the whole name, or what is behind its last `/`; any case",
        ),
        Field::Texts(&mut definition.models),
    );
    keys.key(Key::new("summary", "what it is, in one line"), Field::Text(&mut definition.summary));
    keys.key(
        Key::new(
            "line_start",
            "the opener counts only at the beginning of a line; between markers, only declared names are calls then",
        ),
        Field::Switch(&mut definition.line_start),
    );
    keys.key(
        Key::new("inner", "markers around the JSON that mean nothing"),
        Field::Texts(&mut definition.inner),
    );
    keys.key(
        Key::new(
            "name_is_key",
            "a call is `{\"NAME\": {…}}` in place of `{\"name\": \"NAME\", \"arguments\": {…}}`",
        ),
        Field::Switch(&mut definition.name_is_key),
    );
    marker_keys(keys, definition);
    keys.key(
        Key::new("trim", "for `parameter`: one line end on each side of a value is framing"),
        Field::Switch(&mut definition.trim),
    );
    keys.key(
        Key::new(
            "reasoning",
            "what reasoning begins with, then what it may end with. It begins a line, or stands anywhere if it \
             contains a `|`",
        ),
        Field::Texts(&mut definition.reasoning),
    );
    keys.key(
        Key::new("frame", "markers around the answer that mean nothing"),
        Field::Texts(&mut definition.frame),
    );
}

/// The keys for results, and for calls whose name stands outside of the JSON.
fn marker_keys(keys: &mut impl Keys, definition: &mut Definition) {
    let two = "two markers: what is before, and what is behind";
    let three = "three markers: before the key, behind it, and behind the value";
    keys.special(
        Key::new(
            "result",
            "two markers around a result: with them the format can be taught, `tools = \"acme\"`",
        )
        .or("none"),
        &mut definition.result,
        |cell| markers(cell, two).map(Some),
        |markers| markers.as_ref().map(|markers| strings(markers.iter().map(String::as_str))),
    );
    keys.key(
        Key::new(
            "name_end",
            "the name stands behind the opener, up to this marker; then the arguments as JSON. `inner`, `name_is_key` \
             and `result` are not for this family",
        )
        .or("none"),
        Field::Text(&mut definition.name_end),
    );
    keys.key(
        Key::new("name_first", "for `name_end`: other words may stand between the name and that marker"),
        Field::Switch(&mut definition.name_first),
    );
    keys.special(
        Key::new("section", "for `name_end`: two markers around all calls").or("none"),
        &mut definition.section,
        |cell| markers(cell, two).map(Some),
        |markers| markers.as_ref().map(|markers| strings(markers.iter().map(String::as_str))),
    );
    keys.special(
        Key::new(
            "parameter",
            "for `name_end`: each argument has a tag of its own in place of the JSON. Three markers: before its key, \
             behind it, and behind its value. Values get the types that the tool declares",
        )
        .or("none"),
        &mut definition.parameter,
        |cell| markers(cell, three).map(Some),
        |markers| markers.as_ref().map(|markers| strings(markers.iter().map(String::as_str))),
    );
}

/// Reads an entry of `[[formats]]`; `earlier` are those before it. `None` if something in it is wrong.
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

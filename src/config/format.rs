//! `[[formats]]`: text formats of the configuration's own, in the words of [`Definition`].

use super::{
    table::{Cell, Table},
    value::{list, switch, text},
};
use crate::format::{CustomFormat, Definition};

/// The command that lists the formats.
pub(super) const LISTED_BY: &str = "toolwire formats";

/// The message for `name`, which none of the `known` formats has.
#[cfg(feature = "bench")]
pub(crate) fn unknown<'f>(name: &str, known: impl Iterator<Item = &'f crate::format::Format>) -> String {
    let known: Vec<_> = known.map(|format| format.name).collect();
    format!("there is no format `{name}`; {}", crate::suggest::suggest(name, &known, Some(LISTED_BY)))
}

/// Reads an entry of `[[formats]]`; `earlier` are those before it. `None` if something in it is wrong.
pub(super) fn read(table: &mut Table<'_>, earlier: &[CustomFormat]) -> Option<CustomFormat> {
    let name = table.require("name", text);
    let open = table.require("open", text);
    let definition = Definition {
        close: table.get_or("close", String::new(), text),
        models: table.get_or("models", Vec::new(), list(text)),
        summary: table.get_or("summary", String::new(), text),
        line_start: table.get_or("line_start", false, switch),
        inner: table.get_or("inner", Vec::new(), list(text)),
        name_is_key: table.get_or("name_is_key", false, switch),
        result: table.get("result", |cell| markers(cell, "two markers: what is before, and what is behind")),
        name_end: table.get_or("name_end", String::new(), text),
        name_first: table.get_or("name_first", false, switch),
        section: table
            .get("section", |cell| markers(cell, "two markers: what is before, and what is behind")),
        parameter: table.get("parameter", |cell| {
            markers(cell, "three markers: before the key, behind it, and behind the value")
        }),
        trim: table.get_or("trim", false, switch),
        reasoning: table.get_or("reasoning", Vec::new(), list(text)),
        frame: table.get_or("frame", Vec::new(), list(text)),
        name: name.clone().unwrap_or_default(),
        open: open.clone().unwrap_or_default(),
    };
    let built = definition.build(earlier);
    let wrong = built.as_ref().err().into_iter().flatten();
    for wrong in wrong.filter(|wrong| wrong.key != "open" || open.is_some()) {
        if let Some(cell) = table.cell(wrong.key) {
            cell.wrong::<()>(&wrong.message);
        }
    }
    built.ok().filter(|_| name.is_some() && open.is_some())
}

fn markers<const N: usize>(cell: Cell<'_>, what: &str) -> Option<[String; N]> {
    match <[String; N]>::try_from(list(text)(cell.clone())?) {
        Ok(markers) => Some(markers),
        Err(_) => cell.wrong(format!("expected {what}")),
    }
}

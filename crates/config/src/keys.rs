//! Visitors of declared keys: [`Reading`] reads a table, [`Showing`] collects the resolved values, and [`Documenting`]
//! lists the keys.

use std::{borrow::Cow, time::Duration};

use secrecy::ExposeSecret;
use toml::Value;

use super::{
    mask::masked,
    table::{Cell, Table},
    value::{
        base_url, choice, count, count_in, count_or_off, duration, duration_in, duration_or_off, json, list,
        path, secret, size, switch, text, text_table,
    },
};
use toolwire_pipeline::settings::{Field, Key, TableText, Visitor};

/// Visits the keys of a table, including keys whose types occur only in configurations.
pub trait Keys: Visitor {
    /// Visits a key of a special type. `read` and `show` convert its value; `show` returns `None` to show nothing.
    fn special<V>(
        &mut self,
        key: Key,
        value: &mut V,
        read: impl FnOnce(Cell<'_>) -> Option<V>,
        show: impl FnOnce(&V) -> Option<Value>,
    );
}

/// Reads the keys of a table into their fields. A field keeps its value if its key is absent or wrong.
pub struct Reading<'t, 'a>(pub(super) &'t mut Table<'a>);

impl<'a> Reading<'_, 'a> {
    /// The value of a key, if present. Reports a value from the admin API if only the file may set the key.
    fn cell(&mut self, key: &Key, is_file_only: bool) -> Option<Cell<'a>> {
        let cell = self.0.cell(key.name)?;
        if is_file_only && let Some(place) = cell.overlaid() {
            let message = format!("`{}` can only be set in the configuration file", key.name);
            Cell { span: place, ..cell.clone() }.wrong::<()>(message);
        }
        Some(cell)
    }
}

impl Visitor for Reading<'_, '_> {
    fn key(&mut self, key: Key, field: Field<'_>) {
        let is_file_only = is_file_only(&key, &field);
        let Some(cell) = self.cell(&key, is_file_only) else { return };
        match field {
            Field::Switch(value) => put(value, switch(cell)),
            Field::OptionalSwitch(value) => put(value, switch(cell).map(Some)),
            Field::OptionalText(value) => put(value, text(cell).map(Some)),
            Field::Text(value) => put(value, text(cell)),
            Field::AnyText(value) => put(value, any_text(cell)),
            Field::Texts(value) => put(value, list(text)(cell)),
            Field::Size(value) => put(value, size(cell)),
            Field::Count(value, least) => put(value, count(least)(cell)),
            Field::CountIn(value, range) => put(value, count_in(range)(cell)),
            Field::CountOrOff(value) => put(value, count_or_off(cell)),
            Field::Duration(value) => put(value, duration(cell)),
            Field::DurationIn(value, range) => put(value, duration_in(range)(cell)),
            Field::DurationOrOff(value) => put(value, duration_or_off(cell)),
            Field::Word(value) => {
                let words: Vec<_> = value.words().into_iter().map(|word| (word, word)).collect();
                if let Some(word) = choice(&words)(cell) {
                    value.choose(word);
                }
            }
            Field::Json(value) => put(value, json(cell).map(Some)),
            Field::Secret(value) => put(value, secret(cell).map(Some)),
            Field::SecretList(value) => put(value, list(secret)(cell)),
            Field::TextTable(value) => put(value, text_table(cell)),
            Field::Address(value) => put(value, base_url(cell).map(Some)),
            Field::Path(value) => put(value, path(cell).map(Some)),
        }
    }
}

impl Keys for Reading<'_, '_> {
    fn special<V>(
        &mut self,
        key: Key,
        value: &mut V,
        read: impl FnOnce(Cell<'_>) -> Option<V>,
        _: impl FnOnce(&V) -> Option<Value>,
    ) {
        match self.cell(&key, key.is_file_only) {
            Some(cell) => put(value, read(cell)),
            None if key.default == Some(Key::REQUIRED) => self.0.report_missing(key.name),
            None => {}
        }
    }
}

/// Whether only the file may set a key. This always holds for addresses and paths, because secrets are sent to
/// addresses, and paths name files.
pub(super) fn is_file_only(key: &Key, field: &Field<'_>) -> bool {
    key.is_file_only || matches!(field, Field::Address(_) | Field::Path(_))
}

fn put<V>(value: &mut V, read: Option<V>) {
    if let Some(read) = read {
        *value = read;
    }
}

fn any_text(cell: Cell<'_>) -> Option<String> {
    match cell.value {
        toml::de::DeValue::String(text) => Some(text.as_ref().to_owned()),
        _ => cell.expected("a string"),
    }
}

#[derive(Debug, Default)]
pub struct Showing(pub(super) toml::Table);

impl Visitor for Showing {
    fn key(&mut self, key: Key, field: Field<'_>) {
        if let Some(value) = shown(field) {
            self.0.insert(key.name.to_owned(), value);
        }
    }
}

impl Keys for Showing {
    fn special<V>(
        &mut self,
        key: Key,
        value: &mut V,
        _: impl FnOnce(Cell<'_>) -> Option<V>,
        show: impl FnOnce(&V) -> Option<Value>,
    ) {
        if let Some(value) = show(value) {
            self.0.insert(key.name.to_owned(), value);
        }
    }
}

fn shown(field: Field<'_>) -> Option<Value> {
    Some(match field {
        Field::Switch(value) => Value::Boolean(*value),
        Field::OptionalSwitch(value) => Value::Boolean((*value)?),
        Field::OptionalText(value) => string(value.as_deref()?),
        Field::Text(value) if value.is_empty() => return None,
        Field::Text(value) | Field::AnyText(value) => string(value),
        Field::Texts(value) => strings(value.iter().map(String::as_str)),
        Field::Size(value) => size_value(*value),
        Field::Count(value, _) | Field::CountIn(value, _) => count_value(*value),
        Field::CountOrOff(value) => value.map_or_else(|| string("off"), count_value),
        Field::Duration(value) | Field::DurationIn(value, _) => duration_value(*value),
        Field::DurationOrOff(value) => value.map_or_else(|| string("off"), duration_value),
        Field::Word(value) => string(value.word()),
        Field::Json(value) => json_value(value.as_ref()?)?,
        Field::Secret(value) => string(&masked(value.as_ref()?.expose_secret())),
        Field::SecretList(value) => {
            Value::Array(value.iter().map(|secret| string(&masked(secret.expose_secret()))).collect())
        }
        Field::TextTable(value) if value.is_empty() => return None,
        Field::TextTable(value) => {
            let shown = |text: &TableText| match text.as_secret() {
                Some(secret) => string(&masked(secret.expose_secret())),
                None => string(text.expose_secret()),
            };
            Value::Table(value.iter().map(|(name, text)| (name.clone(), shown(text))).collect())
        }
        Field::Path(value) => string(&value.as_ref()?.display().to_string()),
        Field::Address(value) => string(value.as_ref()?.to_string().trim_end_matches('/')),
    })
}

/// Converts JSON, whose numbers keep their text and are therefore no numbers for other formats. `None` if it has a
/// `null`, which TOML cannot express.
fn json_value(value: &serde_json::Value) -> Option<Value> {
    use serde_json::Value as Json;
    Some(match value {
        Json::Null => return None,
        Json::Bool(switch) => Value::Boolean(*switch),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::Integer(number),
            None => Value::Float(number.as_f64()?),
        },
        Json::String(text) => string(text),
        Json::Array(elements) => Value::Array(elements.iter().map(json_value).collect::<Option<_>>()?),
        Json::Object(members) => {
            let members = members.iter().map(|(key, value)| Some((key.clone(), json_value(value)?)));
            Value::Table(members.collect::<Option<_>>()?)
        }
    })
}

/// Reads the value of an optional key.
pub(super) fn some<T>(read: impl Fn(Cell<'_>) -> Option<T>) -> impl Fn(Cell<'_>) -> Option<Option<T>> {
    move |cell| read(cell).map(Some)
}

/// Shows a list of strings, or nothing if the list is empty.
pub(super) fn shown_texts(texts: &[String]) -> Option<Value> {
    (!texts.is_empty()).then(|| strings(texts.iter().map(String::as_str)))
}

/// Shows an optional string.
pub(super) fn shown_text(text: &Option<String>) -> Option<Value> {
    text.as_deref().map(string)
}

pub(super) fn string(text: &str) -> Value {
    Value::String(text.to_owned())
}

pub(super) fn strings<'t>(texts: impl IntoIterator<Item = &'t str>) -> Value {
    Value::Array(texts.into_iter().map(string).collect())
}

pub(super) fn count_value(count: usize) -> Value {
    Value::Integer(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Formats a duration in the shortest form: `90s`, `250ms`.
pub(super) fn duration_value(duration: Duration) -> Value {
    string(&match duration.subsec_nanos() {
        0 => format!("{}s", duration.as_secs()),
        _ => humantime::format_duration(duration).to_string(),
    })
}

/// Formats a size in the largest unit that divides it: `10MiB`, `1500B`.
pub(super) fn size_value(size: usize) -> Value {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(bytes, _)| size.is_multiple_of(*bytes));
    let (bytes, name) = unit.unwrap_or((1, "B"));
    string(&format!("{}{name}", size / bytes))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub key: &'static str,
    /// In Markdown.
    pub default: String,
    /// In Markdown.
    pub about: Cow<'static, str>,
}

#[derive(Debug, Default)]
pub(super) struct Documenting(pub(super) Vec<Row>);

impl Documenting {
    fn row(&mut self, key: Key, value: impl FnOnce() -> Option<Value>) {
        let default = match key.default {
            Some(words) => words.to_owned(),
            None => value().map_or_else(String::new, |value| format!("`{value}`")),
        };
        self.0.push(Row { key: key.name, default, about: key.about });
    }
}

impl Visitor for Documenting {
    fn key(&mut self, key: Key, field: Field<'_>) {
        self.row(key, || shown(field));
    }
}

impl Keys for Documenting {
    fn special<V>(
        &mut self,
        key: Key,
        value: &mut V,
        _: impl FnOnce(Cell<'_>) -> Option<V>,
        show: impl FnOnce(&V) -> Option<Value>,
    ) {
        self.row(key, || show(value));
    }
}

/// Returns a table with the values of the fields that `visit` declares.
pub fn table_of(visit: impl FnOnce(&mut Showing)) -> toml::Table {
    let mut showing = Showing::default();
    visit(&mut showing);
    showing.0
}

/// Why a table cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("{0}")]
    Unwritable(#[from] toml::ser::Error),
    #[error("{}", .0.message())]
    Unreadable(#[from] toml::de::Error),
    #[error("{0}")]
    Wrong(String),
}

/// Reads `table`, which does not come from a configuration file, into the fields that `visit` declares.
///
/// # Errors
/// The mistakes in the table, each with its key.
pub fn read_table(table: &toml::Table, visit: impl FnOnce(&mut Reading<'_, '_>)) -> Result<(), TableError> {
    let text = toml::to_string(table)?;
    let root = toml::de::DeTable::parse(&text)?;
    let source = super::source::Source::default();
    let context = super::table::Context {
        source: &source,
        files: Default::default(),
        findings: Default::default(),
        environment: &|_| None,
    };
    Table::root(root.get_ref(), &context, |table| visit(&mut Reading(table)));
    let key_at = |offset: usize| {
        let mut entries = root.get_ref().iter();
        entries.find(|(_, value)| value.span().contains(&offset)).map(|(key, _)| key.get_ref().as_ref())
    };
    let wrong =
        context.findings.into_messages().into_iter().map(|(offset, message)| match offset.and_then(key_at) {
            Some(key) => format!("`{key}`: {message}"),
            None => message,
        });
    let wrong: Vec<_> = wrong.collect();
    if wrong.is_empty() { Ok(()) } else { Err(TableError::Wrong(wrong.join("; "))) }
}

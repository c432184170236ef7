//! [`Cell`] and [`Table`]: a TOML value with its location, and a table that records which keys were read.
//!
//! A value is read by a function `Fn(Cell) -> Option<T>`, which reports a mistake at the cell's location and returns `None`.
//! An absent or wrong key keeps its default, so reading continues and finds the next mistake.

use std::ops::Range;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{problem::Findings, source::Source, watch::NamedFiles};
use toolwire_pipeline::wire::suggest::suggest;

/// The command that lists all keys.
const LIST_KEYS: &str = "toolwire check --keys";

/// The context of reading.
pub(crate) struct Context<'a> {
    pub(super) source: &'a Source,
    /// The files that values name.
    pub(super) files: NamedFiles,
    pub(super) findings: Findings,
    pub(super) environment: super::Environment<'a>,
}

/// A value and its location.
#[derive(Clone)]
pub struct Cell<'a> {
    pub(super) value: &'a DeValue<'a>,
    pub(super) span: Range<usize>,
    pub(super) context: &'a Context<'a>,
}

impl<'a> Cell<'a> {
    /// The cell of `value`.
    pub(super) fn new(value: &'a Spanned<DeValue<'a>>, context: &'a Context<'a>) -> Self {
        Self { value: value.get_ref(), span: value.span(), context }
    }

    /// Reports that the value is wrong.
    pub(super) fn wrong<T>(&self, message: impl Into<String>) -> Option<T> {
        self.context.findings.wrong(self.span.clone(), message);
        None
    }

    /// Reports that the value has the wrong type.
    pub(super) fn expected<T>(&self, what: &str) -> Option<T> {
        self.wrong(format!("expected {what}, found {}", with_article(self.value.type_str())))
    }

    /// Warns that the value is valid, but probably a mistake.
    pub(super) fn warn(&self, message: impl Into<String>) {
        self.context.findings.warning(self.span.clone(), message);
    }

    /// Reads the value as a table; then reports the keys that `read` did not read.
    pub(super) fn table<T>(self, read: impl FnOnce(&mut Table<'a>) -> Option<T>) -> Option<T> {
        let DeValue::Table(entries) = self.value else { return self.expected("a table") };
        let mut table = Table { entries, span: self.span, context: self.context, known: Vec::new() };
        let result = read(&mut table);
        table.report_leftovers();
        result
    }

    /// Whether the value was saved over the admin API.
    pub(super) fn is_overlaid(&self) -> bool {
        self.context.source.is_overlay(self.span.start)
    }

    /// The location of the part of the value that was saved over the admin API, if there is one.
    pub(super) fn overlaid(&self) -> Option<Range<usize>> {
        if self.is_overlaid() {
            return Some(self.span.clone());
        }
        let below = |value| Cell::new(value, self.context).overlaid();
        match self.value {
            DeValue::Table(entries) => entries.iter().find_map(|(_, value)| below(value)),
            DeValue::Array(elements) => elements.iter().find_map(below),
            _ => None,
        }
    }

    /// Whether the value is `[]`.
    pub(super) fn is_empty_array(&self) -> bool {
        matches!(self.value, DeValue::Array(elements) if elements.is_empty())
    }

    /// All entries of the table, each with its key's location. Empty if the value is not a table.
    pub(super) fn entries(&self) -> Vec<(&'a str, Range<usize>, Cell<'a>)> {
        let DeValue::Table(entries) = self.value else {
            self.expected::<()>("a table");
            return Vec::new();
        };
        let entries = entries.iter();
        entries
            .map(|(key, value)| (key.get_ref().as_ref(), key.span(), Cell::new(value, self.context)))
            .collect()
    }
}

/// A table that records which keys were read.
pub(crate) struct Table<'a> {
    entries: &'a DeTable<'a>,
    span: Range<usize>,
    context: &'a Context<'a>,
    known: Vec<&'static str>,
}

impl<'a> Table<'a> {
    /// Reads the root of a document.
    pub(super) fn root<T>(
        entries: &'a DeTable<'a>,
        context: &'a Context<'a>,
        read: impl FnOnce(&mut Table<'a>) -> T,
    ) -> T {
        let mut table = Table { entries, span: 0..0, context, known: Vec::new() };
        let result = read(&mut table);
        table.report_leftovers();
        result
    }

    /// The value of `key`, if it is present.
    pub(super) fn cell(&mut self, key: &'static str) -> Option<Cell<'a>> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.entries.get(key).map(|value| Cell::new(value, self.context))
    }

    /// Reports that `key` is absent, at the table's location.
    pub(super) fn report_missing(&self, key: &str) {
        self.context.findings.missing(Some(self.span.clone()), format!("missing key `{key}`"));
    }

    /// Reports a fault of `key`: at the key's location, or at the table's if the key is absent. Reports nothing if a mistake
    /// in it has been reported already.
    pub(super) fn report_fault(&self, key: &str, message: &str) {
        let findings = &self.context.findings;
        match self.entries.get(key).map(Spanned::span) {
            Some(span) if findings.has_error_in(&span) => {}
            Some(span) => findings.wrong(span, message),
            None => findings.missing(Some(self.span.clone()), message),
        }
    }

    fn report_leftovers(&self) {
        for (key, _) in self.entries.iter() {
            let name = key.get_ref().as_ref();
            if !self.known.contains(&name) {
                let message =
                    format!("unknown key `{name}`; {}", suggest(name, &self.known, Some(LIST_KEYS)));
                self.context.findings.wrong(key.span(), message);
            }
        }
    }
}

/// The tables of `[[key]]`; empty if it is absent or not an array.
pub(super) fn entries<'a>(table: &mut Table<'a>, key: &'static str) -> Vec<Cell<'a>> {
    let Some(cell) = table.cell(key) else { return Vec::new() };
    match cell.value {
        DeValue::Array(entries) => entries.iter().map(|entry| Cell::new(entry, cell.context)).collect(),
        // A table instead of an array is read anyway, to report the mistakes in it.
        DeValue::Table(_) => {
            cell.wrong::<()>(format!("expected `[[{key}]]` with two brackets: there may be several"));
            vec![cell]
        }
        _ => {
            cell.expected::<()>(&format!("tables `[[{key}]]`"));
            Vec::new()
        }
    }
}

fn with_article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'i']) { "an" } else { "a" };
    format!("{article} {noun}")
}

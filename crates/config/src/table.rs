//! [`Cell`]: a TOML value with its location. [`Table`]: a table that records which keys were read.
//!
//! A value is read by a function of type `Fn(Cell) -> Option<T>`, which reports a mistake at the cell's location and
//! returns `None`. A field whose key is absent or wrong keeps its default, so that reading can continue and find
//! further mistakes.

use std::ops::Range;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    problem::{Findings, MISSING_KEY, UNKNOWN_KEY},
    source::Source,
    watch::NamedFiles,
};
use toolwire_pipeline::wire::suggest::suggest;

const LIST_KEYS: &str = "toolwire check --keys";

/// What all readers of a configuration share.
pub(crate) struct Context<'a> {
    pub(super) source: &'a Source,
    /// The files that values refer to.
    pub(super) files: NamedFiles,
    pub(super) findings: Findings,
    pub(super) environment: super::Environment<'a>,
}

#[derive(Clone)]
pub struct Cell<'a> {
    pub(super) value: &'a DeValue<'a>,
    pub(super) span: Range<usize>,
    pub(super) context: &'a Context<'a>,
}

impl<'a> Cell<'a> {
    pub(super) fn new(value: &'a Spanned<DeValue<'a>>, context: &'a Context<'a>) -> Self {
        Self { value: value.get_ref(), span: value.span(), context }
    }

    /// Reports a wrong value.
    pub(super) fn wrong<T>(&self, message: impl Into<String>) -> Option<T> {
        self.context.findings.wrong(self.span.clone(), message);
        None
    }

    /// Reports a value of the wrong type.
    pub(super) fn expected<T>(&self, what: &str) -> Option<T> {
        self.wrong(format!("expected {what}, found {}", with_article(self.value.type_str())))
    }

    /// Warns about a value that is valid but probably a mistake.
    pub(super) fn warn(&self, message: impl Into<String>) {
        self.context.findings.warning(self.span.clone(), message);
    }

    /// Reads the value as a table, then reports all keys that `read` did not look up.
    pub(super) fn table<T>(self, read: impl FnOnce(&mut Table<'a>) -> Option<T>) -> Option<T> {
        let DeValue::Table(entries) = self.value else { return self.expected("a table") };
        let mut table = Table { entries, span: self.span, context: self.context, known: Vec::new() };
        let result = read(&mut table);
        table.report_leftovers();
        result
    }

    /// Whether the value was saved through the admin API.
    pub(super) fn is_overlaid(&self) -> bool {
        self.context.source.is_overlay(self.span.start)
    }

    /// If a part of the value was saved through the admin API, the location of that part.
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

    pub(super) fn is_empty_array(&self) -> bool {
        matches!(self.value, DeValue::Array(elements) if elements.is_empty())
    }

    /// The entries of the table, each with the location of its key. Empty if the value is not a table.
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

    pub(super) fn cell(&mut self, key: &'static str) -> Option<Cell<'a>> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.entries.get(key).map(|value| Cell::new(value, self.context))
    }

    pub(super) fn report_missing(&self, key: &str) {
        self.context.findings.missing(Some(self.span.clone()), format!("{MISSING_KEY} `{key}`"));
    }

    /// Reports a mistake in the value of `key`, at the key's location, or at the table's location if the key is absent.
    /// Does nothing if an error in the value was already reported.
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
                    format!("{UNKNOWN_KEY} `{name}`; {}", suggest(name, &self.known, Some(LIST_KEYS)));
                self.context.findings.wrong(key.span(), message);
            }
        }
    }
}

/// The tables in `[[key]]`. Empty if the key is absent or not an array.
pub(super) fn entries<'a>(table: &mut Table<'a>, key: &'static str) -> Vec<Cell<'a>> {
    let Some(cell) = table.cell(key) else { return Vec::new() };
    match cell.value {
        DeValue::Array(entries) => entries.iter().map(|entry| Cell::new(entry, cell.context)).collect(),
        // A single table is read too, to report the mistakes in it.
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

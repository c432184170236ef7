//! The fields of a line of text, as [`DefaultFields`](tracing_subscriber::fmt::format::DefaultFields) writes them, but
//! every value through [`Cleaner`], and plain ones without the way over styles.

use std::{
    error::Error,
    fmt::{self, Write},
    iter::successors,
};

use tracing::field::{Field, Visit};
use tracing_subscriber::{
    field::RecordFields,
    fmt::{FormatFields, format::Writer},
};

use super::{MESSAGE, USUAL};
use crate::observe::untrusted::{Cleaner, MAX_VALUE, clipped};

/// See the module.
#[derive(Debug)]
pub(super) struct Fields;

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let is_coloured = writer.has_ansi_escapes();
        let text = String::with_capacity(USUAL);
        let mut line = Line { text, first: true, is_coloured, result: Ok(()) };
        fields.record(&mut line);
        line.result.and_then(|()| writer.write_str(&line.text))
    }
}

/// Gathers `name=value` of each field, with spaces between; the message stands without its name.
struct Line {
    text: String,
    first: bool,
    is_coloured: bool,
    result: fmt::Result,
}

impl Line {
    /// Begins the field `name`.
    fn begin(&mut self, name: &str) {
        if !std::mem::take(&mut self.first) {
            self.text.push(' ');
        }
        if name == MESSAGE {
            return;
        }
        self.paint(ITALIC, name.strip_prefix("r#").unwrap_or(name));
        self.paint(DIMMED, "=");
    }

    fn paint(&mut self, style: &str, text: &str) {
        match self.is_coloured {
            true => self.text.extend([style, text, RESET]),
            false => self.text.push_str(text),
        }
    }

    /// Writes a value.
    fn put(&mut self, value: fmt::Arguments<'_>) {
        let mut cleaner = Cleaner::escaping(&mut self.text);
        let written = cleaner.write_fmt(value).and_then(|()| cleaner.finish());
        self.result = self.result.and(written);
    }
}

const ITALIC: &str = "\u{1b}[3m";
const DIMMED: &str = "\u{1b}[2m";
const RESET: &str = "\u{1b}[0m";

impl Visit for Line {
    fn record_str(&mut self, field: &Field, text: &str) {
        if field.name() == MESSAGE {
            return self.record_debug(field, &format_args!("{text}"));
        }
        self.begin(field.name());
        let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
        if text.len() <= MAX_VALUE && text.bytes().all(is_plain) {
            return self.text.extend(["\"", text, "\""]);
        }
        // Clipped before it is quoted, so that the quotes stay a pair.
        let written = write!(self.text, "{:?}", clipped(text, MAX_VALUE));
        self.result = self.result.and(written);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.begin(field.name());
        self.text.push_str(if value { "true" } else { "false" });
    }

    fn record_error(&mut self, field: &Field, error: &(dyn Error + 'static)) {
        self.begin(field.name());
        self.put(format_args!("{error}"));
        let sources: Vec<_> = successors(error.source(), |&error| error.source()).collect();
        if sources.is_empty() {
            return;
        }
        self.text.push(' ');
        self.paint(ITALIC, field.name());
        self.paint(ITALIC, ".sources");
        self.paint(DIMMED, "=");
        let sources = sources.iter().map(ToString::to_string).collect::<Vec<_>>();
        self.put(format_args!("[{}]", sources.join(", ")));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.begin(field.name());
        self.put(format_args!("{value:?}"));
    }
}

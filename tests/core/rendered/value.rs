//! JSON values, and JSON text as models write it.

use std::fmt::Write;

/// A JSON value. Numbers keep their spelling.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Flag(bool),
    Number(&'static str),
    Text(String),
    List(Vec<Json>),
    Object(Members),
}

/// The members of an object in the order in which they are written.
pub(crate) type Members = Vec<(String, Json)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blanks {
    None,
    Usual,
    Lines,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    pub(crate) blanks: Blanks,
    /// Whether all non-ASCII characters are escaped.
    pub(crate) ascii: bool,
}

impl Style {
    pub(crate) const COMPACT: Self = Self { blanks: Blanks::None, ascii: false };

    /// Returns the white space after a comma or an opening bracket at `depth`.
    fn gap(self, depth: usize, comma: bool) -> String {
        match self.blanks {
            Blanks::Lines => format!("\n{}", "  ".repeat(depth)),
            Blanks::Usual if comma => " ".to_owned(),
            Blanks::None | Blanks::Usual => String::new(),
        }
    }

    fn colon(self) -> &'static str {
        if self.blanks == Blanks::None { ":" } else { ": " }
    }
}

impl Json {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    pub(crate) fn written(&self, style: Style) -> String {
        let mut out = String::new();
        self.write(style, 0, &mut out);
        out
    }

    fn write(&self, style: Style, depth: usize, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Flag(flag) => write!(out, "{flag}").unwrap(),
            Self::Number(number) => out.push_str(number),
            Self::Text(text) => quote(text, style, out),
            Self::List(items) => {
                let item = |item: &Self, out: &mut String| item.write(style, depth + 1, out);
                enclosed(items, ('[', ']'), style, depth, out, item);
            }
            Self::Object(members) => {
                let member = |(key, value): &(String, Self), out: &mut String| {
                    quote(key, style, out);
                    out.push_str(style.colon());
                    value.write(style, depth + 1, out);
                };
                enclosed(members, ('{', '}'), style, depth, out, member);
            }
        }
    }
}

fn enclosed<T>(
    items: &[T],
    (open, close): (char, char),
    style: Style,
    depth: usize,
    out: &mut String,
    write: impl Fn(&T, &mut String),
) {
    out.push(open);
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(&style.gap(depth + 1, at > 0));
        write(item, out);
    }
    if !items.is_empty() {
        out.push_str(&style.gap(depth, false));
    }
    out.push(close);
}

fn quote(text: &str, style: Style, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '/' if style.ascii => out.push_str("\\/"),
            c if c < ' ' || (style.ascii && !c.is_ascii()) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}").unwrap();
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

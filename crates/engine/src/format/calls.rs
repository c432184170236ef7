//! Types for formats whose calls have markers: sections, openers, and the form of a call's body.

use super::{elements::Elements, params::Params, place::Place};

/// Calls with markers.
#[derive(Debug)]
pub struct Calls {
    /// Openers and closers of the section around calls. An empty closer means that the section has none.
    pub sections: &'static [(&'static str, &'static str)],
    /// The texts with which a call begins. If empty, a call begins with its first character, inside a
    /// section.
    pub open: &'static [&'static str],
    /// A call may occur outside a section.
    pub naked: bool,
    /// Meaningless text that may occur between calls.
    pub noise: &'static [&'static str],
    /// Where openers count.
    pub place: Place,
    /// How a call is written after its opener.
    pub body: CallBody,
}

/// How a call is written after its opener.
#[derive(Debug)]
pub enum CallBody {
    /// A header with the name, then the arguments as JSON.
    Header(Header),
    /// Calls in Python syntax.
    Python(Python),
    /// A name, then arguments in braces with bare keys; strings are enclosed in `quote`.
    Dsl {
        /// The delimiter on both sides of a string.
        quote: &'static str,
    },
    /// A name on its own line, then `Action Input:` and the arguments, possibly followed by an invented
    /// result.
    React,
    /// A tag for each argument.
    Params(Params),
    /// An element for each argument.
    Elements(Elements),
}

/// Calls in Python syntax, alone or in a list.
#[derive(Debug, PartialEq, Eq)]
pub struct Python {
    /// A call may be the argument of `print`.
    pub prints: bool,
    /// The method name after the tool's name; may be empty.
    pub method: &'static str,
}

impl Calls {
    /// Whether a call outside a section counts only if its name is declared, because its opener also occurs
    /// in other text.
    pub fn naked_must_be_declared(&self) -> bool {
        match &self.body {
            CallBody::Params(params) => params.common,
            CallBody::Elements(elements) => elements.sign.is_empty(),
            CallBody::Header(_) | CallBody::Python(_) | CallBody::Dsl { .. } | CallBody::React => false,
        }
    }
}

/// A call whose name precedes its arguments.
#[derive(Debug)]
pub struct Header {
    /// The end of the header.
    pub end: HeaderEnd,
    /// Returns the id and the name in a header, with surrounding blanks trimmed; `None` if the text is not a
    /// header of this format. The id is empty if the header has none.
    pub read: fn(&str) -> Option<(&str, &str)>,
    /// Characters that a header may contain in addition to the characters of names and blanks.
    pub legal: &'static str,
    /// Literals that may precede the arguments.
    pub before: &'static [&'static str],
    /// Literals that may follow the arguments.
    pub after: &'static [&'static str],
    /// Closers of the call; they may be missing.
    pub close: &'static [&'static str],
}

/// The end of a header.
#[derive(Debug)]
pub enum HeaderEnd {
    /// One of these markers.
    Markers(&'static [&'static str]),
    /// One of these markers, or the arguments' brace.
    MarkersOrBrace(&'static [&'static str]),
    /// One of these markers, if a brace follows it. Needed because other formats have the same header before
    /// a different body.
    MarkersThenBrace(&'static [&'static str]),
}

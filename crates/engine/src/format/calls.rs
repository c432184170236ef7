//! Types for formats whose calls have markers: sections, openers, and the body of a call.

use super::{elements::Elements, params::Params, place::Place};

/// Calls with markers.
#[derive(Debug)]
pub struct Calls {
    /// The openers and closers of a section that contains calls. An empty closer means that sections have
    /// none.
    pub sections: &'static [(&'static str, &'static str)],
    /// The openers of a call. If empty, a call starts with its first character, but only inside a section.
    pub open: &'static [&'static str],
    /// Whether calls may occur outside of sections.
    pub naked: bool,
    /// Meaningless text that may occur between calls.
    pub noise: &'static [&'static str],
    /// Where openers are recognised.
    pub place: Place,
    /// What follows a call's opener.
    pub body: CallBody,
}

/// What follows a call's opener.
#[derive(Debug)]
pub enum CallBody {
    /// A header with the name, and then the arguments as JSON.
    Header(Header),
    /// Calls in Python syntax.
    Python(Python),
    /// A name, and then arguments in braces, with unquoted keys and with strings enclosed in `quote`.
    Dsl {
        /// The delimiter before and after a string.
        quote: &'static str,
    },
    /// A name on its own line, then `Action Input:` and the arguments, possibly followed by a result that the
    /// model invented.
    React,
    /// A list of dictionaries, as Python writes them.
    Dictionaries,
    /// A name and arguments as `key=value`, separated by blanks.
    Attributes {
        /// The closers of the call.
        end: &'static [&'static str],
    },
    /// A name that ends with the first string, and its only argument as text, such as code, or all arguments as JSON.
    /// The second string is the closer.
    Raw(&'static str, &'static str),
    /// A tag for each argument.
    Params(Params),
    /// An element for each argument.
    Elements(Elements),
}

/// Calls in Python syntax, single or in a list.
#[derive(Debug)]
pub struct Python {
    /// Whether a call may be the argument of `print`.
    pub prints: bool,
    /// The method name that follows the tool's name. May be empty.
    pub method: &'static str,
    /// What functions mean that are not tools, if they mean anything.
    pub action: Option<Action>,
}

impl Python {
    /// Calls of tools, and nothing else.
    pub const PLAIN: Self = Self { prints: false, method: "", action: None };
}

/// Functions that are actions of a single tool. The tool must be declared.
#[derive(Debug, Clone, Copy)]
pub struct Action {
    /// The tool's name.
    pub tool: &'static str,
    /// The argument with the function's name.
    pub key: &'static str,
    /// Returns the key under which a function's argument, given by its key, is passed on as a list of
    /// coordinates. `None` if the argument is not a point.
    pub point: fn(&str, &str) -> Option<&'static str>,
}

/// Python calls are equal if they are read in the same way.
impl PartialEq for Python {
    fn eq(&self, other: &Self) -> bool {
        let tool = |python: &Self| python.action.map(|action| action.tool);
        (self.prints, self.method, tool(self)) == (other.prints, other.method, tool(other))
    }
}

impl Eq for Python {}

impl Calls {
    /// Whether a call outside of sections must have a declared name, because its opener also occurs in other
    /// text.
    pub fn naked_must_be_declared(&self) -> bool {
        match &self.body {
            CallBody::Params(params) => params.common,
            CallBody::Elements(elements) => elements.sign.is_empty(),
            CallBody::Header(header) => header.common,
            CallBody::Attributes { .. } | CallBody::Raw(..) => true,
            CallBody::Python(_) | CallBody::Dsl { .. } | CallBody::Dictionaries | CallBody::React => false,
        }
    }
}

/// A call whose name precedes its arguments.
#[derive(Debug)]
pub struct Header {
    /// The end of the header.
    pub end: HeaderEnd,
    /// Returns the id and the name in a header, without surrounding blanks, or `None` if this is not a header
    /// of the format. The id is empty if the header has none.
    pub read: fn(&str) -> Option<(&str, &str)>,
    /// Characters that a header may contain in addition to blanks and to those allowed in names.
    pub legal: &'static str,
    /// Strings that may precede the arguments.
    pub before: &'static [&'static str],
    /// Strings that may follow the arguments.
    pub after: &'static [&'static str],
    /// Closers of the call, which may be missing.
    pub close: &'static [&'static str],
    /// Whether the opener also occurs in ordinary text. If so, only declared tools can be called.
    pub common: bool,
}

/// What ends a header.
#[derive(Debug)]
pub enum HeaderEnd {
    /// One of these markers.
    Markers(&'static [&'static str]),
    /// One of these markers, or the opening brace of the arguments.
    MarkersOrBrace(&'static [&'static str]),
    /// One of these markers, if a brace follows. Needed because other formats have the same header with
    /// another body.
    MarkersThenBrace(&'static [&'static str]),
}

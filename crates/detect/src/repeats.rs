//! [`Repeats`]: the last argument of a call whose arguments are tags, as long as the next tag may repeat it.
//!
//! Models write a list as one tag for each element. Where the schema allows an array, or does not say a type, the
//! first value waits for what follows it: if the same key follows, both are elements of a list. Of other values, the
//! last one counts. A string has been sent by then, and so has a long text without a type: their keys are written
//! again, and JSON readers keep the last.

use super::{
    typed_value::{Mend, TypedValue},
    walk::{Out, Piece},
};
use crate::tools::{Shape, Types};

/// The length of text that waits for a repetition if its type is unknown, in bytes.
const MAX_WAIT: usize = 256;

#[derive(Debug, Default)]
enum Last {
    #[default]
    Sent,
    /// The value's text, none of which has been sent.
    Text(String),
    /// A list that has not been closed.
    List,
}

/// The last argument, and its types.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    last: Last,
    types: Types,
    /// Whether the value may be a list.
    lists: bool,
    /// The types of an element, if the value is a list.
    items: Types,
}

impl Repeats {
    /// Creates the value of an argument that does not repeat the last one. `types` are those of its tag or schema, and
    /// `shape` is its schema.
    pub(super) fn value(&mut self, types: Types, shape: Option<Shape<'_>>, mend: Mend) -> TypedValue {
        let declared = shape.map(Shape::types).unwrap_or_default();
        let items = shape.and_then(|shape| shape.inner(None));
        (self.types, self.items) = (types, items.map(Shape::types).unwrap_or_default());
        self.lists = declared.is_empty() || declared.may_be_array();
        self.waiting(mend)
    }

    /// Values other than strings are held in any case.
    fn waiting(&self, mend: Mend) -> TypedValue {
        let waits = self.lists || !(self.types.is_empty() || self.types.has(Types::STRING));
        TypedValue::new(self.types, mend).waiting(if waits { MAX_WAIT } else { 0 })
    }

    /// Whether the last argument can still be repeated.
    pub(super) fn is_pending(&self) -> bool {
        !matches!(self.last, Last::Sent)
    }

    /// The number of bytes that wait.
    pub(super) fn kept(&self) -> usize {
        if let Last::Text(text) = &self.last { text.len() } else { 0 }
    }

    /// Ends a value.
    pub(super) fn end(&mut self, value: &mut TypedValue, out: &mut Out<'_>) {
        match (&self.last, value.waited()) {
            (Last::List, _) => value.end(out),
            (_, Some(text)) => self.last = Last::Text(text),
            (_, None) => value.end(out),
        }
    }

    /// Begins another value for the last argument.
    pub(super) fn again(&mut self, mend: Mend, out: &mut Out<'_>) -> TypedValue {
        match std::mem::take(&mut self.last) {
            Last::Text(_) if !self.lists => return self.waiting(mend),
            Last::Text(text) => {
                out(Piece::Arguments("["));
                TypedValue::write(self.items, &text, mend, out);
            }
            Last::List | Last::Sent => {}
        }
        out(Piece::Arguments(", "));
        self.last = Last::List;
        let mut value = TypedValue::new(self.items, mend);
        value.begin(out);
        value
    }

    /// Sends what waited, since something else follows.
    pub(super) fn settle(&mut self, mend: Mend, out: &mut Out<'_>) {
        match std::mem::take(&mut self.last) {
            Last::Sent => {}
            Last::Text(text) => TypedValue::write(self.types, &text, mend, out),
            Last::List => out(Piece::Arguments("]")),
        }
    }
}

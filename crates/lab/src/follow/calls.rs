//! The calls in a chat stream: the deltas, and the state of a call.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};

use super::{
    field::{Document, Field, decoded},
    notes::Notes,
};

/// A piece of a call.
#[derive(Debug, Default)]
pub(crate) struct CallDelta<'a> {
    pub(crate) index: Field<'a>,
    id: Field<'a>,
    kind: Field<'a>,
    name: Field<'a>,
    arguments: Field<'a>,
    /// Whether the call is to a custom tool, whose input is text.
    custom: bool,
    /// Whether the delta has unknown keys, which break clients that concatenate unknown members.
    strange: bool,
}

#[derive(Debug, Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Key {
    Index,
    Id,
    Type,
    Function,
    Custom,
    Name,
    Arguments,
    Input,
    /// Signatures that clients send back, in the format of Google's OpenAI compatibility layer.
    ExtraContent,
    #[serde(other)]
    Other,
}

impl<'de: 'a, 'a> Deserialize<'de> for CallDelta<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut delta = Self::default();
        Level { delta: &mut delta, inner: false }.deserialize(deserializer)?;
        Ok(delta)
    }
}

/// A delta's object, or the object inside it that names the function.
struct Level<'d, 'a> {
    delta: &'d mut CallDelta<'a>,
    inner: bool,
}

impl<'de: 'a, 'a> DeserializeSeed<'de> for Level<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de: 'a, 'a> Visitor<'de> for Level<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a tool-call delta")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self { delta, inner } = self;
        while let Some(key) = members.next_key()? {
            match (inner, key) {
                (false, Key::Index) => delta.index = members.next_value()?,
                (false, Key::Id) => delta.id = members.next_value()?,
                (false, Key::Type) => delta.kind = members.next_value()?,
                (false, Key::Function) => members.next_value_seed(Level { delta, inner: true })?,
                (false, Key::Custom) => {
                    delta.custom = true;
                    members.next_value_seed(Level { delta, inner: true })?;
                }
                (true, Key::Name) => delta.name = members.next_value()?,
                (false, Key::ExtraContent) => _ = members.next_value::<IgnoredAny>()?,
                (true, Key::Arguments | Key::Input) => delta.arguments = members.next_value()?,
                _ => {
                    delta.strange = true;
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

impl CallDelta<'_> {
    /// Whether the delta seems to be the first of its call.
    pub(crate) fn begins(&self) -> bool {
        self.id.word().is_some() || self.name.word().is_some()
    }
}

/// The state of a call.
#[derive(Debug, Default)]
pub(crate) struct Call {
    id: String,
    named: bool,
    custom: bool,
    /// Whether the call's result is in the same stream, so that the client must not run the call.
    pub(crate) is_answered: bool,
    arguments: Document,
}

impl Call {
    /// Checks everything in the first delta except the arguments.
    pub(crate) fn begin(delta: &CallDelta<'_>, scratch: &mut String, notes: &mut Notes<'_>) -> Self {
        let id = delta.id.word().unwrap_or_default();
        let kind = if delta.custom { "custom" } else { "function" };
        notes.holds(!id.is_empty(), "a call begins without its id");
        notes.holds(delta.kind.is(kind), "a call begins without its type");
        notes.holds(delta.name.word().is_some(), "a call begins without its name");
        notes.holds(!delta.strange, "a tool-call delta has a key of its own");
        let mut call = Self { id: id.to_owned(), custom: delta.custom, ..Self::default() };
        call.name(delta, notes);
        call.arguments(delta.arguments, scratch, notes);
        notes.holds(delta.arguments.word().is_none(), "a call's first delta has arguments");
        call
    }

    /// Checks a later delta, which may only contain arguments.
    pub(crate) fn go_on(&mut self, delta: &CallDelta<'_>, scratch: &mut String, notes: &mut Notes<'_>) {
        let repeated = |field: Field<'_>| field.word().is_some();
        let others = delta.id.word().is_some_and(|id| id != self.id && !self.id.is_empty());
        notes.holds(!others, "a call has the index of another");
        let again = repeated(delta.id) && !others || repeated(delta.name);
        notes.holds(!again, "a call's id or name is repeated or late");
        notes.holds(!repeated(delta.kind), "a call's type is repeated or late");
        let null = delta.id.is_null() || delta.kind.is_null() || delta.name.is_null();
        notes.holds(!null, "a call's id, type or name is null in a later delta");
        notes.holds(!delta.strange, "a tool-call delta has a key of its own");
        self.name(delta, notes);
        self.arguments(delta.arguments, scratch, notes);
    }

    fn name(&mut self, delta: &CallDelta<'_>, notes: &mut Notes<'_>) {
        if !self.named && delta.name.word().is_some() {
            self.named = true;
            notes.call_begins();
        }
    }

    pub(crate) fn arguments(&mut self, field: Field<'_>, scratch: &mut String, notes: &mut Notes<'_>) {
        let Some(body) = field.text() else {
            return notes.breaks("a call's arguments are not a string");
        };
        let piece = decoded(body, scratch);
        self.arguments.push(piece);
        notes.call_goes_on(piece);
    }

    pub(crate) fn has_id_of(&self, other: &Self) -> bool {
        !self.id.is_empty() && self.id == other.id
    }

    /// Checks the call at the end of the stream.
    pub(crate) fn close(&self, notes: &mut Notes<'_>) {
        if self.custom {
            return;
        }
        notes.holds(!self.arguments.is_empty(), "a call has no arguments, not even {}");
        notes.holds(
            self.arguments.is_empty() || self.arguments.is_whole(),
            "a call's arguments are not JSON when they are joined",
        );
    }
}

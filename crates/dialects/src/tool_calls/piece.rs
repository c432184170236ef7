//! One element of a `tool_calls` delta: the call that it belongs to ([`Address`]), and its contents
//! ([`Piece`]).

use std::borrow::Cow;

use crate::wire::json::Json;

#[derive(Debug, Clone, Copy)]
pub(super) struct Address {
    pub(super) index: Option<u64>,
    pub(super) position: usize,
    pub(super) several: bool,
}

impl Address {
    pub(super) fn key(self) -> Key {
        self.index.map_or(Key::Position(self.position), Key::Index)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Index(u64),
    Position(usize),
}

/// An element of a `tool_calls` delta. Fields that were not sent are empty.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    pub(super) id: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    pub(super) arguments: ArgumentsPiece<'a>,
    /// `extra_content`: the upstream's state for the call.
    pub(super) extra: Option<Json<'a>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum ArgumentsPiece<'a> {
    None,
    /// The raw body of a JSON string that contains a piece of the arguments.
    Text(&'a str),
    /// JSON other than a string, which is the arguments object itself.
    Raw(&'a str),
}

impl<'a> ArgumentsPiece<'a> {
    fn text(body: &'a str) -> Self {
        if body.is_empty() { Self::None } else { Self::Text(body) }
    }
}

/// The index of a call and the raw string body of its arguments, if a `tool_calls` delta contains only a
/// piece of that call's arguments and no other keys.
pub(crate) fn arguments_only(tool_calls: Json<'_>) -> Option<(u64, &str)> {
    let mut elements = tool_calls.elements();
    let element = elements.next().filter(|_| elements.next().is_none())?;
    let function = element.get("function")?;
    let names_itself =
        |(key, _): (Cow<'_, str>, _)| matches!(&*key, "id" | "type" | "name" | "custom" | "extra_content");
    if element.members().any(names_itself) || function.members().any(names_itself) {
        return None;
    }
    Some((element.get("index")?.as_u64()?, function.get("arguments")?.string_body()?))
}

impl<'a> Piece<'a> {
    pub(super) fn arguments(body: &'a str) -> Self {
        let (id, name) = (Cow::Borrowed(""), Cow::Borrowed(""));
        Self { id, name, arguments: ArgumentsPiece::text(body), extra: None }
    }

    pub(super) fn read(function: Json<'a>, id: Option<Json<'a>>) -> Self {
        let text = |json: Option<Json<'a>>| json.and_then(|json| json.as_str()).unwrap_or_default();
        let arguments = match function.get("arguments") {
            None => ArgumentsPiece::None,
            Some(json) => match json.string_body() {
                Some(body) => ArgumentsPiece::text(body),
                None if json.is_null() => ArgumentsPiece::None,
                None => ArgumentsPiece::Raw(json.raw()),
            },
        };
        Self { id: text(id), name: text(function.get("name")), arguments, extra: None }
    }

    pub(super) fn with_extra(self, extra: Option<Json<'a>>) -> Self {
        Self { extra: extra.filter(|extra| !extra.is_null()), ..self }
    }

    pub(super) fn is_named(&self) -> bool {
        !self.name.is_empty()
    }

    pub(super) fn has_arguments(&self) -> bool {
        !matches!(self.arguments, ArgumentsPiece::None)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.id.is_empty() && self.name.is_empty() && !self.has_arguments() && self.extra.is_none()
    }
}

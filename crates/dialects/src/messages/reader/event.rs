//! [`StreamEvent`]: a view of an event in a stream, or of a complete message.

use std::borrow::Cow;

use crate::wire::json::{Invalid, Json};

/// The members of an event. If a member is repeated, its first occurrence counts.
#[derive(Debug, Default)]
pub(super) struct StreamEvent<'a> {
    pub(super) kind: Cow<'a, str>,
    pub(super) index: Option<Json<'a>>,
    pub(super) delta: Option<Json<'a>>,
    pub(super) block: Option<Json<'a>>,
    pub(super) message: Option<Json<'a>>,
    pub(super) usage: Option<Json<'a>>,
    pub(super) error: Option<Json<'a>>,
    /// The blocks of a complete message.
    pub(super) content: Option<Json<'a>>,
    /// Whether a known member occurs twice, so that parsers may disagree about its value.
    pub(super) is_ambiguous: bool,
}

/// A delta that extends a single string.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) kind: PieceKind,
    /// The raw body of the string.
    pub(super) body: &'a str,
    /// Whether the delta contains nothing else.
    pub(super) is_alone: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceKind {
    Text,
    Thinking,
    Arguments,
}

impl<'a> StreamEvent<'a> {
    /// Parses a frame. Returns the event, and the complete JSON, which need not be an object.
    pub(super) fn parse(frame: &'a str) -> Result<(Json<'a>, Self), Invalid> {
        let mut event = Self::default();
        let json = Json::parse_members(frame, |key, value| event.take(&key, value))?;
        Ok((json, event))
    }

    fn take(&mut self, key: &str, value: Json<'a>) {
        let place = match key {
            "type" => {
                self.is_ambiguous |= !self.kind.is_empty();
                if self.kind.is_empty() {
                    self.kind = value.as_str().unwrap_or_default();
                }
                return;
            }
            "index" => &mut self.index,
            "delta" => &mut self.delta,
            "content_block" => &mut self.block,
            "message" => &mut self.message,
            "usage" => &mut self.usage,
            "error" => &mut self.error,
            "content" => &mut self.content,
            _ => return,
        };
        self.is_ambiguous |= place.is_some();
        place.get_or_insert(value);
    }

    pub(super) fn index(&self) -> Option<u64> {
        self.index.and_then(|index| index.as_u64())
    }

    /// The delta, if it extends a single string.
    pub(super) fn piece(&self) -> Option<Piece<'a>> {
        let delta = self.delta?;
        let (kind, key) = match &*delta.get("type")?.as_str()? {
            "text_delta" => (PieceKind::Text, "text"),
            "thinking_delta" => (PieceKind::Thinking, "thinking"),
            "input_json_delta" => (PieceKind::Arguments, "partial_json"),
            _ => return None,
        };
        let body = delta.get(key)?.string_body()?;
        Some(Piece { kind, body, is_alone: delta.members().nth(2).is_none() })
    }
}

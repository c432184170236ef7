//! A view of one event of a stream, or of a complete interaction.

use std::borrow::Cow;

use crate::wire::json::{Invalid, Json};

/// The members of an event or of an interaction. If a member is repeated, its first occurrence counts.
#[derive(Debug, Default)]
pub(super) struct StreamEvent<'a> {
    pub(super) kind: Cow<'a, str>,
    pub(super) index: Option<u64>,
    pub(super) step: Option<Json<'a>>,
    pub(super) delta: Option<Json<'a>>,
    pub(super) interaction: Option<Json<'a>>,
    pub(super) error: Option<Json<'a>>,
    pub(super) status: Option<Json<'a>>,
    pub(super) steps: Option<Json<'a>>,
    pub(super) usage: Option<Json<'a>>,
    /// Whether the event may be compared with others, which its own token would make impossible.
    pub(super) has_token: bool,
}

/// A delta that extends a single string.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) kind: PieceKind,
    /// The raw body of the string.
    pub(super) body: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceKind {
    Text,
    Thought,
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
            "event_type" if self.kind.is_empty() => return self.kind = value.as_str().unwrap_or_default(),
            "index" if self.index.is_none() => return self.index = value.as_u64(),
            "event_id" => return self.has_token = true,
            "step" => &mut self.step,
            "delta" => &mut self.delta,
            "interaction" => &mut self.interaction,
            "error" => &mut self.error,
            "status" => &mut self.status,
            "steps" => &mut self.steps,
            "usage" => &mut self.usage,
            _ => return,
        };
        if !value.is_null() {
            place.get_or_insert(value);
        }
    }

    /// The delta, if it extends a single string.
    pub(super) fn piece(&self) -> Option<Piece<'a>> {
        let delta = self.delta?;
        let (kind, text) = match &*delta.text("type") {
            "text" => (PieceKind::Text, delta.get("text")?),
            "thought_summary" => (PieceKind::Thought, delta.get("content")?.get("text")?),
            "arguments_delta" => (PieceKind::Arguments, delta.get("arguments")?),
            _ => return None,
        };
        Some(Piece { kind, body: text.string_body()? })
    }
}

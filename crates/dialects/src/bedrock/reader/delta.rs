//! [`DeltaEvent`]: a view of the frames that nearly all of a stream consists of.

use crate::wire::json::{FrameTemplate, Invalid, Json};

/// The members of `contentBlockDelta` and the other events about a block.
#[derive(Debug, Default)]
pub(super) struct BlockEvent<'a> {
    pub(super) index: Option<Json<'a>>,
    pub(super) delta: Option<Json<'a>>,
    pub(super) start: Option<Json<'a>>,
    /// Random letters, which hide the length of the frame.
    padding: Option<Json<'a>>,
    /// Whether a member is unknown or occurs twice.
    is_odd: bool,
}

/// A delta that extends a single string.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) kind: PieceKind,
    /// The raw body of the string.
    pub(super) body: &'a str,
    /// Whether the delta contains nothing else.
    is_alone: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceKind {
    Text,
    Reasoning,
    Arguments,
}

/// The template for deltas that contain a string and nothing else.
#[derive(Debug)]
pub(super) struct Plain {
    template: FrameTemplate,
    pub(super) kind: PieceKind,
    pub(super) index: u64,
}

impl<'a> BlockEvent<'a> {
    /// Parses a payload.
    pub(super) fn parse(payload: &'a str) -> Result<Self, Invalid> {
        let mut event = Self::default();
        Json::parse_members(payload, |key, value| event.take(&key, value))?;
        Ok(event)
    }

    fn take(&mut self, key: &str, value: Json<'a>) {
        let place = match key {
            "contentBlockIndex" => &mut self.index,
            "delta" => &mut self.delta,
            "start" => &mut self.start,
            "p" => &mut self.padding,
            _ => return self.is_odd = true,
        };
        self.is_odd |= place.is_some();
        place.get_or_insert(value);
    }

    pub(super) fn index(&self) -> u64 {
        self.index.and_then(|index| index.as_u64()).unwrap_or_default()
    }

    /// The delta, if it extends a single string.
    pub(super) fn piece(&self) -> Option<Piece<'a>> {
        let mut members = self.delta?.members();
        let (key, value) = members.next()?;
        let (kind, value) = match &*key {
            "text" => (PieceKind::Text, value),
            "toolUse" => (PieceKind::Arguments, only(value, "input")?),
            "reasoningContent" => (PieceKind::Reasoning, only(value, "text")?),
            _ => return None,
        };
        Some(Piece { kind, body: value.string_body()?, is_alone: members.next().is_none() })
    }
}

/// The member `key` of an object that has no other.
fn only<'a>(object: Json<'a>, key: &str) -> Option<Json<'a>> {
    let mut members = object.members();
    let (found, value) = members.next()?;
    (found == key && members.next().is_none()).then_some(value)
}

impl Plain {
    /// Learns the template of `payload`, whose event and piece these are.
    pub(super) fn learn(payload: &str, event: &BlockEvent<'_>, piece: &Piece<'_>) -> Option<Self> {
        let index = event.index?.as_u64()?;
        if event.is_odd || event.start.is_some() || !piece.is_alone {
            return None;
        }
        let template = FrameTemplate::learn(payload, piece.body, event.padding)?;
        Some(Self { template, kind: piece.kind, index })
    }

    /// The raw body of the string, if `payload` matches the template.
    pub(super) fn body<'f>(&self, payload: &'f str) -> Option<&'f str> {
        self.template.body(payload)
    }
}

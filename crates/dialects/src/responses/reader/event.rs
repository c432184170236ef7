//! [`StreamEvent`]: a view of an event in a stream, or of a complete response.

use std::borrow::Cow;

use super::items::item_id;
use crate::{
    digest::Digest,
    wire::json::{Invalid, Json},
};

/// The members of an event. If a member is repeated, its first occurrence counts.
#[derive(Debug, Default)]
pub(super) struct StreamEvent<'a> {
    pub(super) kind: Cow<'a, str>,
    pub(super) output_index: Option<Json<'a>>,
    pub(super) item_id: Option<Json<'a>>,
    /// `content_index` or `summary_index`.
    pub(super) part_index: Option<Json<'a>>,
    pub(super) sequence: Option<Json<'a>>,
    pub(super) delta: Option<Json<'a>>,
    /// The complete text of a part: `text`, `refusal`, `arguments` or `input`.
    pub(super) whole: Option<Json<'a>>,
    pub(super) item: Option<Json<'a>>,
    pub(super) annotation: Option<Json<'a>>,
    pub(super) logprobs: Option<Json<'a>>,
    pub(super) response: Option<Json<'a>>,
    pub(super) error: Option<Json<'a>>,
    /// The member `object` of a complete response.
    pub(super) object: Option<Json<'a>>,
}

impl<'a> StreamEvent<'a> {
    /// Parses a frame. Returns the event, and the complete JSON, which need not be an object.
    pub(super) fn parse(frame: &'a str) -> Result<(Json<'a>, Self), Invalid> {
        let mut event = Self::default();
        let json = Json::parse_members(frame, |key, value| {
            let place = match &*key {
                "type" if event.kind.is_empty() => {
                    event.kind = value.as_str().unwrap_or_default();
                    return;
                }
                "output_index" => &mut event.output_index,
                "item_id" => &mut event.item_id,
                "content_index" | "summary_index" => &mut event.part_index,
                "sequence_number" => &mut event.sequence,
                "delta" => &mut event.delta,
                "text" | "refusal" | "arguments" | "input" => &mut event.whole,
                "item" => &mut event.item,
                "annotation" => &mut event.annotation,
                "logprobs" => &mut event.logprobs,
                "response" => &mut event.response,
                "error" => &mut event.error,
                "object" => &mut event.object,
                _ => return,
            };
            place.get_or_insert(value);
        })?;
        Ok((json, event))
    }

    pub(super) fn output_index(&self) -> Option<u64> {
        self.output_index.and_then(|index| index.as_u64())
    }

    /// A digest of the item's id, which is the digest of the empty string if there is no id.
    pub(super) fn item_id(&self) -> Digest {
        let id = self.item_id.and_then(|id| id.as_str()).filter(|id| !id.is_empty());
        let own = || self.item.map_or_else(|| Digest::of(""), item_id);
        id.map_or_else(own, |id| Digest::of(&id))
    }

    pub(super) fn part_index(&self) -> u64 {
        self.part_index.and_then(|index| index.as_u64()).unwrap_or(0)
    }
}

//! [`Held`]: the message that a stream has sent, to be stored.

use super::whole::Whole;
use crate::{Answering, WholeForm, event::Event, wire::json::Json};

/// Maximum size of a held message in bytes, which is far more than models write.
const MAX_SIZE: usize = 8 << 20;

/// Collects a message while it is streamed. A message that is too long, or that has parts which cannot be
/// collected because no event represents them, is not stored: a client that continues it has to send the whole
/// conversation.
#[derive(Debug)]
pub(super) struct Held(Option<Whole>);

impl Held {
    pub(super) fn new(answering: &Answering) -> Self {
        Self(Some(Whole::new(answering)))
    }

    pub(super) fn event(&mut self, event: &Event<'_>) {
        let Some(whole) = &mut self.0 else { return };
        let is_collected = match event {
            Event::Verbatim { frame, means: None } => take_frame(whole, frame, event),
            event => {
                whole.event(event);
                true
            }
        };
        if !is_collected || whole.kept() > MAX_SIZE {
            self.0 = None;
        }
    }

    /// The complete message, after its last event.
    pub(super) fn into_message(self) -> Option<String> {
        self.0.map(|mut whole| whole.message())
    }
}

/// Takes a frame for which there is no event. Returns whether its contents have been collected.
fn take_frame(whole: &mut Whole, frame: &str, event: &Event<'_>) -> bool {
    let Ok(json) = Json::parse(frame) else { return true };
    let delta = json.get("delta");
    let kind = delta.and_then(|delta| delta.get("type")).and_then(|kind| kind.string_body());
    match json.get("type").and_then(|kind| kind.string_body()) {
        Some("content_block_start") => whole.event(event),
        Some("content_block_delta") if kind == Some("citations_delta") => {
            let citation = delta.and_then(|delta| delta.get("citation"));
            whole.cite(citation.unwrap_or_default().to_value());
        }
        Some("content_block_delta") => return false,
        _ => {}
    }
    true
}

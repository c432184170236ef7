//! The member that contains reasoning: servers and clients disagree about its name.

use crate::{event::Event, rules::Reasoning, wire::json::Json};

/// The member's name, if the rules determine it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReasoningField(Option<&'static str>);

impl ReasoningField {
    pub(super) fn new(reasoning: Reasoning) -> Self {
        Self(match reasoning {
            Reasoning::ReasoningContent => Some("reasoning_content"),
            Reasoning::Reasoning => Some("reasoning"),
            Reasoning::Auto | Reasoning::Inline | Reasoning::Drop | Reasoning::Off => None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        self.0.unwrap_or("reasoning_content")
    }

    /// Whether `frame`, which stands for `event`, has its reasoning in a member of another name.
    pub(super) fn differs(self, frame: &str, event: &Event<'_>) -> bool {
        let (Some(name), Event::Reasoning(_)) = (self.0, event) else { return false };
        let delta = || Json::parse(frame).ok()?.get("choices")?.elements().next()?.get("delta");
        delta().and_then(|delta| delta.get(name)?.string_body()).is_none_or(str::is_empty)
    }
}

//! [`Observed`]: properties of a server that its responses reveal, or that are [known](crate::ModelFacts) of its model.
//! They apply unless the settings say otherwise.

/// Properties of a server and of one of its models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Observed {
    /// The field in which the server sends reasoning.
    pub reasoning: Option<ReasoningField>,
    /// Whether the server accepts only alternating roles, or only a single system message at the start.
    pub strict_roles: bool,
    /// Whether the limit of tokens includes reasoning, and is thus `max_completion_tokens` in Chat Completions.
    pub limit_includes_reasoning: bool,
    /// Whether schemas of tools must be as OpenAI's APIs demand.
    pub strict_schemas: bool,
    /// Whether thinking has no budget in Messages.
    pub no_thinking_budget: bool,
}

impl Observed {
    /// The properties in both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            reasoning: self.reasoning.or(other.reasoning),
            strict_roles: self.strict_roles || other.strict_roles,
            limit_includes_reasoning: self.limit_includes_reasoning || other.limit_includes_reasoning,
            strict_schemas: self.strict_schemas || other.strict_schemas,
            no_thinking_budget: self.no_thinking_budget || other.no_thinking_budget,
        }
    }
}

/// The field for reasoning in Chat Completions messages. If a server uses both, the later variant wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReasoningField {
    /// `reasoning` alone.
    Reasoning,
    /// `reasoning_content`, possibly together with `reasoning`.
    ReasoningContent,
}

/// Whether an error means that a chat template accepts only a single system message at the start, or only
/// alternating roles (docs/protocols/chat.md#requests). Most servers report this with status 400, but
/// llama.cpp and LM Studio may also use 500.
pub fn refuses_roles(status: u16, body: &[u8]) -> bool {
    const PLACES: [&str; 9] = [
        "beginning",
        "first",
        "start",
        "only one",
        "single",
        "more than one",
        "multiple",
        "after role",
        "system role",
    ];
    if !matches!(status, 400 | 422 | 500) {
        return false;
    }
    let Ok(text) = str::from_utf8(body) else { return false };
    let text = text.to_ascii_lowercase();
    let names_system = ["system message", "system prompt", "system role", "role 'system'", "role \"system\""]
        .iter()
        .any(|name| text.contains(name));
    let alternates =
        ["alternate", "alternating", "in a row", "consecutive"].iter().any(|word| text.contains(word));
    names_system && PLACES.iter().any(|place| text.contains(place)) || text.contains("role") && alternates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_roles_are_recognised() {
        for message in [
            "System message must be at the beginning.",
            "Error: Jinja Exception: System message must be at the beginning.",
            "Only one system message is allowed",
            "Conversation roles must alternate user/assistant/user/assistant/...",
            "After the optional system message, conversation roles must alternate user and assistant roles except for tool \
             calls and results.",
            "messages: roles must alternate between \\\"user\\\" and \\\"assistant\\\", but found multiple \\\"user\\\" \
             roles in a row",
            "After the (optional) system message(s), user and assistant roles should be alternating.",
            "Unexpected role 'system' after role 'user'",
        ] {
            let body = format!(r#"{{"error":{{"message":"{message}","code":400}}}}"#);
            assert!(refuses_roles(400, body.as_bytes()) && refuses_roles(500, body.as_bytes()), "{message}");
            assert!(!refuses_roles(429, body.as_bytes()));
        }
        for message in
            ["`max_tokens` is too large", "unknown role `developer`", "the first message is empty", ""]
        {
            assert!(!refuses_roles(400, message.as_bytes()), "{message}");
        }
    }
}

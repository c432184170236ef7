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

/// An upstream's refusal of images, recordings or documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaRefusal {
    /// The model takes no such files.
    All,
    /// Something about these files may be wrong.
    These,
}

/// What an error to a request with images, recordings or documents says about them. `None` if it is about something else.
pub fn refuses_media(status: u16, body: &[u8]) -> Option<MediaRefusal> {
    const MEDIA: [&str; 9] =
        ["image", "multimodal", "multi-modal", "modalit", "mmproj", "vision", "audio", "pdf", "media"];
    const ALL: [&str; 15] = [
        "support",
        "not a multimodal",
        "not multimodal",
        "mmproj",
        "unknown variant",
        "expected `text`",
        "must be a string",
        "be a valid string",
        "only accepts text",
        "text-only",
        "text only",
        "at most 0",
        "does not accept",
        "doesn't accept",
        "missing data required for image",
    ];
    let text = str::from_utf8(body).unwrap_or_default().to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let names_media = has(&MEDIA) || text.contains("content") && text.contains("string");
    match status {
        400 | 404 | 422 | 500 | 501 if names_media && has(&ALL) => Some(MediaRefusal::All),
        400 | 413 | 415 | 422 => Some(MediaRefusal::These),
        500 if names_media => Some(MediaRefusal::These),
        _ => None,
    }
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

    #[test]
    fn refused_media_are_recognised_in_the_words_of_many_servers() {
        for (status, message, expected) in [
            (
                400,
                "Invalid content type. image_url is only supported by certain models.",
                Some(MediaRefusal::All),
            ),
            (422, "messages[2]: unknown variant `image_url`, expected `text`", Some(MediaRefusal::All)),
            (404, "No endpoints found that support image input", Some(MediaRefusal::All)),
            (
                500,
                "image input is not supported - hint: you may need to provide the mmproj",
                Some(MediaRefusal::All),
            ),
            (400, "m is not a multimodal model", Some(MediaRefusal::All)),
            (400, "'messages.2' : content must be a string", Some(MediaRefusal::All)),
            (400, "Input should be a valid string: messages.2.content", Some(MediaRefusal::All)),
            (400, "At most 0 image(s) may be provided in one prompt.", Some(MediaRefusal::All)),
            (400, "image exceeds 5 MB maximum", Some(MediaRefusal::These)),
            (400, "Could not process image", Some(MediaRefusal::These)),
            (413, "Request too large", Some(MediaRefusal::These)),
            (500, "cannot decode the image", Some(MediaRefusal::These)),
            (404, "The model does not exist", None),
            (500, "Internal error", None),
            (401, "The key cannot be used for images", None),
            (429, "Too many images", None),
            (503, "image", None),
        ] {
            assert_eq!(refuses_media(status, message.as_bytes()), expected, "{status} {message}");
        }
    }
}

//! [`Target`]: the channel of a stream to which a piece of content belongs.

/// The purpose of a piece of content (docs/protocols/lumo.md#v1-stream).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// The response's text.
    Message,
    /// The model's reasoning.
    Reasoning,
    /// Calls of server tools.
    ToolCall,
    /// Results of server tools.
    ToolResult,
    /// Arguments of the client-tool call with this number. No target has this name: v2 carries calls in
    /// separate deltas.
    Arguments(u64),
    /// Content that Lumo's own client shows next to the response; it is never part of the response.
    Aside,
    /// An unknown target, whose content is left out, as in Lumo's own client.
    Unknown,
}

impl Target {
    /// The target with this name.
    pub(super) fn named(name: &str) -> Self {
        match name {
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "tool_call" => Self::ToolCall,
            "tool_result" => Self::ToolResult,
            "title" | "suggested_questions" => Self::Aside,
            _ => Self::Unknown,
        }
    }
}

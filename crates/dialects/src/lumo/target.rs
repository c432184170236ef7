//! [`Target`]: the channel of a stream that a piece of content belongs to.

/// What a piece of content is (docs/protocols/lumo.md#v1-stream).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Message,
    Reasoning,
    ToolCall,
    ToolResult,
    /// Arguments of the client-tool call with this index. Frames never name this target, because v2 sends
    /// calls in separate deltas.
    Arguments(u64),
    /// Content that Lumo's own client displays beside the response. It is never part of the response.
    Aside,
    /// An unknown target, whose content is ignored, as in Lumo's own client.
    Unknown,
}

impl Target {
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

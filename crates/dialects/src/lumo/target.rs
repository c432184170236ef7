//! [`Target`]: the channel of a stream that a piece of content belongs to.

/// What a piece of content is for (docs/protocols/lumo.md#v1-stream).
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
    /// Arguments of a client tool's call with this number. No target name means it: v2 carries calls in
    /// separate deltas.
    Arguments(u64),
    /// Content that Lumo's own client shows beside the response; it is never part of it.
    Aside,
    /// An unknown target: left out, as Lumo's own client does.
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

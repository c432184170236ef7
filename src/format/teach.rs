//! (to be written)
use super::Format;
use crate::conversation::Conversation;

/// How a model is told of tools in text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Teaching {
    /// Put before every tool's name.
    pub prefix: String,
    /// Replaces the built-in instruction text; empty: the built-in one.
    pub template: String,
    /// Where the instructions go.
    pub in_user_turn: bool,
}

/// Puts the declared tools into words.
#[must_use]
pub fn instruct(conversation: Conversation, _format: &Format, _teaching: &Teaching) -> Conversation {
    conversation
}

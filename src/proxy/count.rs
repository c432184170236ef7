//! [`tokens`]: an estimate of what a request takes, for the APIs that count tokens before they are spent.
//!
//! No tokenizer is asked: which one an upstream's model has is not known. Text is estimated as for `max_instructions`
//! (docs/teaching.md#budget).

use crate::{
    conversation::{Conversation, Part, Tool},
    format::estimated_tokens,
};

/// For the marks around a message.
const PER_TURN: usize = 4;

/// For an image or another file, whose size is not looked at.
const PER_MEDIA: usize = 1_000;

/// The estimated tokens of the request `sent` to an upstream.
pub(super) fn tokens(sent: &Conversation) -> usize {
    let turns = sent.turns.iter().map(|turn| PER_TURN + turn.parts.iter().map(part).sum::<usize>());
    turns.sum::<usize>() + sent.callable_tools().map(tool).sum::<usize>()
}

fn part(part: &Part) -> usize {
    match part {
        Part::Text(text) | Part::Reasoning { text, .. } => estimated_tokens(text),
        Part::Call(call) => estimated_tokens(&call.name) + estimated_tokens(&call.arguments),
        Part::Result(output) => estimated_tokens(&output.content),
        Part::Image { .. } | Part::Other(_) => PER_MEDIA,
    }
}

fn tool(tool: &Tool) -> usize {
    let schema = tool.parameters.as_ref().map_or(0, |schema| estimated_tokens(schema.view().raw()));
    PER_TURN + estimated_tokens(&tool.name) + estimated_tokens(&tool.description) + schema
}

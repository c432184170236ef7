//! [`tokens`]: estimates the tokens of a request, for the APIs that count tokens in advance.
//!
//! No tokenizer is used, since the tokenizer of an upstream's model is not known. Text is estimated as for
//! `max_instructions` (docs/teaching.md#budget).

use toolwire_pipeline::{
    conversation::{Conversation, Part, Text, Tool, Turn},
    format::estimated_tokens,
    pipeline::{Pipeline, Tally},
};

/// Tokens for the markup around a message.
const PER_TURN: usize = 4;

/// Tokens for an image or another file, whose size is not examined.
const PER_MEDIA: usize = 1_000;

/// Bytes per token, for estimates from sizes alone.
const BYTES_PER_TOKEN: usize = 4;

/// The input and output tokens of a response: as the upstream counts them, or estimated if the upstream does not count
/// them or the response was not read to the end. `input` is the estimate for the request.
pub(super) fn spent(pipeline: &Pipeline, tally: &Tally, input: u64) -> (u64, u64) {
    let estimate = estimated_output(pipeline);
    let output = match (tally.output_tokens, tally.finish) {
        (Some(counted), Some(_)) => counted,
        (counted, _) => counted.unwrap_or(0).max(estimate),
    };
    (tally.input_tokens.unwrap_or(input), output)
}

/// The estimated number of tokens that the model has written.
pub(super) fn estimated_output(pipeline: &Pipeline) -> u64 {
    let written = pipeline.emitted_text().map_or(0, |text| text.written);
    written.div_ceil(BYTES_PER_TOKEN as u64)
}

/// The estimated tokens of the request `sent` to an upstream.
pub(super) fn tokens(sent: &Conversation) -> usize {
    measured(sent, |text| estimated_tokens(text), estimated_tokens)
}

/// Estimates the tokens from the lengths of the texts alone. This takes little time, since the texts are not decoded.
pub(super) fn tokens_by_size(sent: &Conversation) -> usize {
    let tokens = |bytes: usize| bytes.div_ceil(BYTES_PER_TOKEN);
    measured(sent, |text| tokens(text.size()), |text| tokens(text.len()))
}

/// Adds up the tokens of the conversation. `texts` and `tokens` return the tokens of a message's text and of any other
/// text.
fn measured(
    sent: &Conversation,
    texts: impl Fn(&Text) -> usize + Copy,
    tokens: impl Fn(&str) -> usize + Copy,
) -> usize {
    let turn = |turn: &Turn| PER_TURN + turn.parts.iter().map(|own| part(own, texts, tokens)).sum::<usize>();
    let tools = sent.callable_tools().map(|own| tool(own, tokens));
    sent.turns.iter().map(turn).chain(tools).sum()
}

fn part(part: &Part, texts: impl Fn(&Text) -> usize, tokens: impl Fn(&str) -> usize) -> usize {
    match part {
        Part::Text(text) => texts(text),
        Part::Reasoning { text, .. } => tokens(text),
        Part::Call(call) => tokens(&call.name) + tokens(&call.arguments),
        Part::Result(output) => tokens(&output.content),
        Part::Image { .. } | Part::Other(_) => PER_MEDIA,
    }
}

fn tool(tool: &Tool, tokens: impl Fn(&str) -> usize) -> usize {
    let schema = tool.parameters.as_ref().map_or(0, |schema| tokens(schema.view().raw()));
    PER_TURN + tokens(&tool.name) + tokens(&tool.description) + schema
}

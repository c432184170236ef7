//! [`tokens`]: estimates the number of tokens in a request, for APIs with which clients count tokens before they send
//! the request.
//!
//! No tokenizer is used, since the tokenizer of the upstream's model is unknown. Text is estimated as described for
//! `max_instructions` (docs/teaching.md#budget).

use serde_json::Value;
use toolwire_pipeline::{
    conversation::{Conversation, Part, Text, Tool, Turn},
    format::estimated_tokens,
    pipeline::{Pipeline, Tally},
};

/// Tokens for the markup around one message.
const PER_TURN: usize = 4;

/// Tokens for an image or another file. Its size is not examined.
const PER_MEDIA: usize = 1_000;

/// Assumed bytes per token, for estimates from sizes alone.
const BYTES_PER_TOKEN: usize = 4;

/// Returns the input and output tokens of a response as counted by the upstream. They are estimated if the upstream
/// does not count them or the response was not read to its end. `input` is the estimate for the request.
pub(super) fn spent(pipeline: &Pipeline, tally: &Tally, input: u64) -> (u64, u64) {
    let estimate = estimated_output(pipeline);
    let output = match (tally.output_tokens, tally.finish) {
        (Some(counted), Some(_)) => counted,
        (counted, _) => counted.unwrap_or(0).max(estimate),
    };
    (tally.input_tokens.unwrap_or(input), output)
}

/// Estimates the number of tokens that the model has written.
pub(super) fn estimated_output(pipeline: &Pipeline) -> u64 {
    let written = pipeline.emitted_text().map_or(0, |text| text.written);
    written.div_ceil(BYTES_PER_TOKEN as u64)
}

/// Estimates the tokens of the request `sent` to an upstream.
pub(super) fn tokens(sent: &Conversation) -> usize {
    measured(sent, |text| estimated_tokens(text), estimated_tokens)
}

/// Like [`tokens`], but based only on the length of the text, which is fast because the text is not decoded.
pub(super) fn tokens_by_size(sent: &Conversation) -> usize {
    let tokens = |bytes: usize| bytes.div_ceil(BYTES_PER_TOKEN);
    measured(sent, |text| tokens(text.size()), |text| tokens(text.len()))
}

/// Adds up the tokens of a conversation. `texts` estimates the text of a message, and `tokens` any other text.
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
        Part::Image { .. } => PER_MEDIA,
        Part::Other(other) => match other.parts().1 {
            // Only the prompts of text completions are a list.
            Value::Array(prompts) => prompts.iter().map(|prompt| of_prompt(prompt, &tokens)).sum(),
            _ => PER_MEDIA,
        },
    }
}

/// The tokens of an element of a list of prompts: a text, the tokens of a prompt, or a token.
fn of_prompt(prompt: &Value, tokens: impl Fn(&str) -> usize) -> usize {
    match prompt {
        Value::String(text) => tokens(text),
        Value::Array(list) => list.len(),
        _ => 1,
    }
}

fn tool(tool: &Tool, tokens: impl Fn(&str) -> usize) -> usize {
    let schema = tool.parameters.as_ref().map_or(0, |schema| tokens(schema.view().raw()));
    PER_TURN + tokens(&tool.name) + tokens(&tool.description) + schema
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolwire_pipeline::dialect::ClientDialect;

    use super::*;

    #[test]
    fn each_prompt_and_each_token_of_a_list_counts() {
        let count = |prompt: Value| {
            let request = json!({"model": "m", "prompt": prompt}).to_string();
            let sent = ClientDialect::Completions.side().decode(request.as_bytes()).unwrap();
            (tokens(&sent) - PER_TURN, tokens_by_size(&sent) - PER_TURN)
        };
        let one = count(json!("a few words"));
        assert_eq!(count(json!(["a few words", "a few words"])), (2 * one.0, 2 * one.1));
        assert_eq!(count(json!([7, 8, 9])), (3, 3));
        assert_eq!(count(json!([[7, 8], [], [9]])), (3, 3));
    }
}

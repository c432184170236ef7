//! A client of text completions.

use serde_json::Value;

use crate::fixture::{
    answer::{Call, CallResult},
    assemble::{Assembled, Assembler, list, text},
};

#[derive(Debug, Default)]
pub(super) struct Client {
    seen: Assembled,
    is_done: bool,
}

impl Assembler for Client {
    fn event(&mut self, _name: &str, chunk: &Value) {
        match chunk.get("error") {
            Some(error) => self.seen.error(error, None),
            None => self.chunk(chunk),
        }
    }

    fn done(&mut self) {
        self.is_done = true;
    }

    fn close(&mut self) {
        let answer = &self.seen.answer;
        if !self.is_done {
            self.seen.fault("the stream ends without [DONE]");
        } else if answer.finish.is_none() && answer.error.is_none() {
            self.seen.fault("the stream has no finish_reason");
        }
    }

    fn whole(&mut self, body: &Value, status: u16) {
        if let Some(error) = body.get("error") {
            return self.seen.error(error, Some(status));
        }
        let is_completion = text(body, "object") == "text_completion";
        self.seen.holds(is_completion, "this is not a completion", body);
        self.chunk(body);
        if self.seen.answer.finish.is_none() {
            self.seen.fault("the completion has no finish_reason");
        }
    }

    fn seen(&mut self) -> &mut Assembled {
        &mut self.seen
    }
}

impl Client {
    /// Reads a chunk, or a complete response, which has the same form.
    fn chunk(&mut self, chunk: &Value) {
        let first = |choice: &&Value| choice.get("index").and_then(Value::as_u64) == Some(0);
        if let Some(choice) = list(chunk.get("choices")).find(first) {
            self.seen.piece("reasoning", text(choice, "reasoning_content"));
            self.seen.piece("text", text(choice, "text"));
            if let Some(finish) = choice.get("finish_reason").and_then(Value::as_str) {
                self.seen.answer.finish = Some(finish.to_owned());
                self.own(chunk);
            }
        }
        let usage = chunk.get("usage").filter(|usage| usage.is_object());
        self.seen.answer.usage = usage.cloned().or_else(|| self.seen.answer.usage.take());
    }

    /// Reads toolwire's own member.
    fn own(&mut self, chunk: &Value) {
        self.seen.warnings(chunk);
        let word = |value: &Value, key: &str| text(value, key).to_owned();
        for call in list(chunk.pointer("/toolwire/calls")) {
            let id = Some(word(call, "id"));
            self.seen.begin_call(Call { id, name: word(call, "name"), arguments: word(call, "arguments") });
        }
        for result in list(chunk.pointer("/toolwire/tool_results")) {
            self.seen.result(CallResult {
                call: result.get("index").and_then(Value::as_u64),
                name: word(result, "name"),
                arguments: word(result, "arguments"),
                content: word(result, "content"),
                is_error: result.get("is_error").and_then(Value::as_bool).unwrap_or(false),
            });
        }
        self.seen.answer.annotations.extend(list(chunk.pointer("/toolwire/annotations")).cloned());
    }
}

//! A client of Google's Interactions API.

use serde_json::Value;

use crate::fixture::{
    answer::{Call, CallResult, ErrorSeen},
    assemble::{Assembled, Assembler, list, text},
};

#[derive(Debug, Default)]
pub(super) struct Client {
    seen: Assembled,
    /// The place in [`Answer::calls`](crate::fixture::Answer::calls) of each step that is a call.
    calls: Vec<Option<usize>>,
    is_done: bool,
}

impl Assembler for Client {
    fn event(&mut self, _name: &str, event: &Value) {
        let nothing = Value::Null;
        let member = |key: &str| event.get(key).unwrap_or(&nothing);
        match text(event, "event_type") {
            "step.start" => self.step(member("step")),
            "step.delta" => self.delta(event.get("index"), member("delta")),
            "interaction.completed" => self.end(member("interaction")),
            "error" => self.error(member("error"), None),
            _ => {}
        }
    }

    fn done(&mut self) {
        self.is_done = true;
    }

    fn close(&mut self) {
        if !self.is_done && self.seen.answer.error.is_none() {
            self.seen.fault("the stream ends without [DONE]");
        }
    }

    fn whole(&mut self, body: &Value, status: u16) {
        if let Some(error) = body.get("error") {
            return self.error(error, Some(status));
        }
        let is_interaction = text(body, "object") == "interaction" && !text(body, "id").is_empty();
        self.seen.holds(is_interaction, "this is not an interaction with an id", body);
        for step in list(body.get("steps")) {
            self.step(step);
        }
        self.end(body);
    }

    fn seen(&mut self) -> &mut Assembled {
        &mut self.seen
    }
}

impl Client {
    fn error(&mut self, error: &Value, status: Option<u16>) {
        if self.seen.answer.finish.is_some() {
            self.seen.fault("an error follows the end");
        }
        let message = text(error, "message").to_owned();
        let reason = list(error.get("details")).find_map(|detail| detail.get("reason")?.as_str());
        let code = error.get("code").and_then(Value::as_str).or(reason).map(str::to_ascii_lowercase);
        let kind = text(error, "status").to_owned();
        let is_whole = !message.is_empty() && (status.is_none() || !kind.is_empty());
        self.seen.holds(is_whole, "the error lacks its status or its message", error);
        self.seen.answer.error = Some(ErrorSeen { status, kind, code, message: Some(message) });
    }

    /// Reads a complete step, or the start of one.
    fn step(&mut self, step: &Value) {
        self.calls.push(None);
        match text(step, "type") {
            "model_output" => list(step.get("content")).for_each(|content| self.content(content)),
            "thought" => {
                for content in list(step.get("summary")) {
                    self.seen.piece("reasoning", text(content, "text"));
                }
            }
            "function_call" => {
                let (id, name) = (text(step, "id"), text(step, "name"));
                self.seen.holds(!id.is_empty() && !name.is_empty(), "a call lacks id or name", step);
                // In a stream, a step starts with an empty object, and the deltas have the arguments.
                let given = step
                    .get("arguments")
                    .filter(|given| given.as_object().is_none_or(|given| !given.is_empty()));
                let arguments = given.map(ToString::to_string).unwrap_or_default();
                self.seen.begin_call(Call { id: Some(id.to_owned()), name: name.to_owned(), arguments });
                self.calls.pop();
                self.calls.push(self.seen.answer.calls.len().checked_sub(1));
            }
            _ => self.seen.fault(format!("the step is unknown: {step}")),
        }
    }

    fn content(&mut self, content: &Value) {
        self.seen.piece("text", text(content, "text"));
        self.seen.answer.annotations.extend(list(content.get("annotations")).cloned());
    }

    fn delta(&mut self, index: Option<&Value>, delta: &Value) {
        let place = index.and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok());
        match text(delta, "type") {
            "thought_summary" => {
                let summary = delta.pointer("/content/text").and_then(Value::as_str).unwrap_or_default();
                self.seen.piece("reasoning", summary);
            }
            "arguments_delta" => {
                let call = place.and_then(|place| *self.calls.get(place)?);
                match call.and_then(|call| self.seen.answer.calls.get_mut(call)) {
                    Some(call) => call.arguments.push_str(text(delta, "arguments")),
                    None => self.seen.fault(format!("arguments belong to no call: {delta}")),
                }
            }
            _ => self.content(delta),
        }
    }

    fn end(&mut self, interaction: &Value) {
        self.seen.warnings(interaction);
        self.seen.answer.usage = interaction.get("usage").cloned();
        let status = text(interaction, "status");
        let code = list(interaction.get("errors")).next().map(|error| text(error, "code"));
        self.seen.answer.finish = Some(match code {
            Some(code) => format!("{status}: {code}"),
            None => status.to_owned(),
        });
        let word = |value: &Value, key: &str| text(value, key).to_owned();
        for call in list(interaction.pointer("/toolwire/broken_calls")) {
            // A stream has had its beginning.
            let id = word(call, "id");
            if !self.seen.answer.calls.iter().any(|known| known.id.as_deref() == Some(&*id)) {
                let (name, arguments) = (word(call, "name"), word(call, "arguments"));
                self.seen.begin_call(Call { id: Some(id), name, arguments });
            }
        }
        for call in list(interaction.pointer("/toolwire/calls")) {
            let id = Some(word(call, "id"));
            self.seen.begin_call(Call { id, name: word(call, "name"), arguments: word(call, "arguments") });
        }
        for result in list(interaction.pointer("/toolwire/tool_results")) {
            self.seen.result(CallResult {
                call: result.get("index").and_then(Value::as_u64),
                name: word(result, "name"),
                arguments: word(result, "arguments"),
                content: word(result, "content"),
                is_error: result.get("is_error").and_then(Value::as_bool).unwrap_or(false),
            });
        }
    }
}

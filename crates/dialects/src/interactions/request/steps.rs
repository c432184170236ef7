//! Writes the turns of a conversation as `input` and `system_instruction`.

use super::super::{DIALECT, decode::is_content};
use crate::{
    Dialect,
    conversation::{
        Arguments, CallOutput, CallsById, Part, Role, Turn, media_behind_results, results_in_call_order,
    },
    event::Opaque,
    fit::kind_of,
    foreign,
    media::{data_url, mime_of_url},
    wire::json::{Encoder, Json, Kind},
};

/// Writes the turns of a request.
pub(super) fn put(body: &mut Encoder, turns: &[Turn], dropped: &mut Vec<String>) {
    dropped.extend(foreign::turn_fields(turns, DIALECT, &["content", "tool_calls", "name"]));
    let media = media_behind_results(turns);
    let turns = results_in_call_order(&media);
    // A request must have an input, so if there are only instructions, they are what the user says.
    let is_spoken = |turn: &&Turn| !matches!(turn.role, Role::System | Role::Developer);
    let has_input = turns.iter().any(|turn| is_spoken(&turn));
    if has_input {
        let instructions: Vec<_> = turns.iter().filter(|turn| !is_spoken(turn)).collect();
        let text = instructions.iter().map(|turn| text_of(turn, dropped)).collect::<Vec<_>>().join("\n\n");
        if !text.is_empty() {
            body.key("system_instruction").string(&text);
        }
    }
    let mut calls = CallsById::default();
    body.key("input").array(|body| {
        let mut steps = Steps { body, dropped };
        for turn in turns.iter().filter(|turn| !has_input || is_spoken(turn)) {
            calls.add(turn);
            let kind = if turn.role == Role::Assistant { "model_output" } else { "user_input" };
            for run in turn.parts.chunk_by(|one, next| is_said(one) && is_said(next)) {
                steps.put(run, kind, &calls);
            }
        }
    });
}

/// Whether the part is a content of a step, and not a step of its own.
fn is_said(part: &Part) -> bool {
    match part {
        Part::Text(_) | Part::Image { .. } => true,
        Part::Other(other) => other.from_dialect(DIALECT).is_some_and(|own| is_content(kind_of(own))),
        Part::Call(_) | Part::Reasoning { .. } | Part::Result(_) => false,
    }
}

/// The text of instructions.
fn text_of(turn: &Turn, dropped: &mut Vec<String>) -> String {
    let mut text = String::new();
    for part in &turn.parts {
        match part {
            Part::Text(piece) => text.push_str(piece),
            _ => dropped.push("messages[].content[]".to_owned()),
        }
    }
    text
}

struct Steps<'b> {
    body: &'b mut Encoder,
    dropped: &'b mut Vec<String>,
}

impl Steps<'_> {
    /// Writes a step of this type with several contents, or a step of another type.
    fn put(&mut self, run: &[Part], kind: &str, calls: &CallsById<'_>) {
        match run {
            [Part::Call(call)] => {
                // In this API, the signature of a call belongs to the thought before it.
                if let Some(state) = &call.signature {
                    self.thought("", Some(state));
                }
                self.body.object(|step| {
                    step.key("type").string("function_call");
                    step.key("id").string(&call.id);
                    step.key("name").string(&call.name);
                    Arguments::of(&call.arguments).put(step.key("arguments"), "arguments");
                });
            }
            [Part::Result(output)] => self.body.object(|step| put_result(step, output, calls)),
            [Part::Reasoning { text, signature, .. }] => self.thought(text, signature.as_ref()),
            [Part::Other(other)] if !run.iter().all(is_said) => match other.from_dialect(DIALECT) {
                Some(own) => self.body.value(own),
                None => self.dropped.push("messages[].content[]".to_owned()),
            },
            [Part::Text(text)] if text.is_empty() => {}
            said => self.body.object(|step| {
                step.key("type").string(kind);
                step.key("content").array(|list| said.iter().for_each(|part| put_content(list, part)));
            }),
        }
    }

    /// Writes a thought. One of another API has neither state nor meaning here unless it has text.
    fn thought(&mut self, text: &str, state: Option<&Opaque<'_>>) {
        let own = state.and_then(|state| state.from_dialect(STATE)).filter(|state| !state.is_empty());
        if state.is_some() && own.is_none() {
            self.dropped.push("messages[].reasoning.signature".to_owned());
        }
        if text.is_empty() && own.is_none() {
            return;
        }
        self.body.object(|step| {
            step.key("type").string("thought");
            own.into_iter().for_each(|signature| step.key("signature").string(signature));
            if !text.is_empty() {
                step.key("summary").array(|list| {
                    list.object(|content| {
                        content.key("type").string("text");
                        content.key("text").string(text);
                    });
                });
            }
        });
    }
}

/// The dialect of signatures, which both of Google's APIs share.
const STATE: &str = Dialect::Gemini.name();

fn put_content(list: &mut Encoder, part: &Part) {
    match part {
        Part::Text(text) => list.object(|content| {
            content.key("type").string("text");
            text.put(content.key("text"));
        }),
        Part::Image { url, .. } => list.object(|content| put_media(content, url)),
        Part::Other(other) => other.from_dialect(DIALECT).into_iter().for_each(|own| list.value(own)),
        Part::Call(_) | Part::Reasoning { .. } | Part::Result(_) => {}
    }
}

/// The type of a content with data of this type.
pub(in super::super) fn kind_of_media(mime: &str) -> &'static str {
    match mime.split_once('/') {
        Some(("audio", _)) => "audio",
        Some(("video", _)) => "video",
        Some(("application" | "text", _)) => "document",
        _ => "image",
    }
}

/// Writes the members of a content with a file. Its type follows from that of the data.
fn put_media(content: &mut Encoder, url: &str) {
    let data = data_url(url);
    let mime = data.map(|(mime, _)| mime).or_else(|| mime_of_url(url)).unwrap_or_default();
    content.key("type").string(kind_of_media(mime));
    match data {
        Some((_, data)) => content.key("data").string(data),
        None => content.key("uri").string(url),
    }
    if !mime.is_empty() {
        content.key("mime_type").string(mime);
    }
}

/// Writes a result: an object as it is, and anything else as text.
fn put_result(step: &mut Encoder, output: &CallOutput, calls: &CallsById<'_>) {
    step.key("type").string("function_result");
    step.key("call_id").string(&output.id);
    let name = calls.tool_of(output);
    if !name.is_empty() {
        step.key("name").string(name);
    }
    match Json::parse(output.content.trim_ascii()).ok().filter(|json| json.kind() == Kind::Object) {
        Some(object) => step.key("result").raw(object),
        None => step.key("result").string(&output.content),
    }
    if output.is_error {
        step.key("is_error").value(&true);
    }
}

//! The ends of items, and content that only they contain.

use std::borrow::Cow;

use memchr::memchr2;

use super::{PartKey, Section, item_id};
use crate::{
    Dialect, Skip,
    digest::Digest,
    event::{Annotation, Event, Media, Opaque, Reasoning, Runner, ServerCall, Sink},
    failure::Failure,
    responses::{
        built_in::BuiltInTool,
        reader::{event::StreamEvent, response::ResponseReader},
    },
    wire::json::{Json, Kind as JsonKind},
};

impl ResponseReader {
    /// Ends an item. `item` is the complete item.
    pub(in crate::responses::reader) fn end_item(
        &mut self,
        output: u64,
        item: Json<'_>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        self.calls.settle(out);
        self.item(output)?;
        match &*item.text("type") {
            "message" => self.end_message(output, item, out)?,
            "function_call" | "custom_tool_call" => {
                if self.begin_call(output, item, out)? {
                    self.calls.complete(output, &arguments(item), out)?;
                    self.calls.end(output, out);
                } else {
                    self.skipped.add(Skip::NamelessCall);
                }
            }
            "reasoning" => self.end_reasoning(output, item, out)?,
            "image_generation_call" => self.image(item, out),
            kind if kind.ends_with("_call") => match BuiltInTool::of_call(kind, item) {
                Some(tool) => self.end_built_in(output, tool, item, out)?,
                None => self.server_call(kind, item, out),
            },
            kind => self.other_item(kind, item, out),
        }
        if let Some(place) = self.open.iter().rposition(|open| open.output == output) {
            let mut name = self.open.remove(place).name;
            if name.id.is_empty() {
                name.id = item_id(item);
            }
            name.call = Digest::of(&item.text("call_id"));
            self.ended.push(name);
        }
        Ok(())
    }

    /// Ends a call to a built-in tool that the client runs.
    fn end_built_in(
        &mut self,
        output: u64,
        tool: BuiltInTool,
        item: Json<'_>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        // The item of a call that was cut off has valid JSON, but not all of its arguments. The call is left open
        // until the response ends.
        if self.begin_call(output, item, out)? && item.text("status") != "incomplete" {
            self.calls.complete(output, &tool.arguments(item, true), out)?;
            self.calls.end(output, out);
        }
        Ok(())
    }

    /// Handles an item for which there is no event: forwards it if possible, and skips it otherwise.
    fn other_item(&mut self, kind: &str, item: Json<'_>, out: &mut impl Sink) {
        if kind.is_empty() || !self.settings.verbatim || !self.has_own_id(item) {
            return self.skipped.add(Skip::UnknownPart);
        }
        self.progress.has_content = true;
        out.event(Event::Verbatim { frame: &on_one_line(item), means: None });
    }

    /// Whether no item that has been forwarded has the id of this one, which counts as forwarded from now on.
    fn has_own_id(&mut self, item: Json<'_>) -> bool {
        let id = item_id(item);
        let is_own = id.is_empty() || !self.forwarded.contains(&id);
        if is_own && !id.is_empty() {
            self.forwarded.push(id);
        }
        is_own
    }

    /// Emits the event for an item. Clients of this API receive the item as it is, if it has what they rely on.
    fn emit_item(&mut self, item: Json<'_>, event: &Event<'_>, out: &mut impl Sink) {
        match self.settings.verbatim && is_usable(item) && self.has_own_id(item) {
            true => self.emit(item, event, out),
            false => out.event(event.clone()),
        }
    }

    /// Emits the event for `value`, an item or an annotation. Clients of this API receive it as it is.
    fn emit(&self, value: Json<'_>, event: &Event<'_>, out: &mut impl Sink) {
        match self.settings.verbatim {
            true => out.event(Event::Verbatim { frame: &on_one_line(value), means: Some(event) }),
            false => out.event(event.clone()),
        }
    }

    fn end_message(&mut self, output: u64, item: Json<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        self.phase(output, item, out)?;
        let parts = item.get("content").into_iter().flat_map(|content| content.elements());
        let mut annotations = Vec::new();
        for (index, part) in (0..).zip(parts) {
            let (section, key) = match &*part.text("type") {
                "output_text" | "text" => (Section::Text, "text"),
                "refusal" => (Section::Refusal, "refusal"),
                _ => {
                    self.skipped.add(Skip::UnknownPart);
                    continue;
                }
            };
            let key_of_part = PartKey { section, index };
            if !self.item(output)?.parts.iter().any(|(known, _)| *known == key_of_part) {
                self.note_logprobs(part.get("logprobs"));
            }
            let result = self.complete(output, key_of_part, &part.text(key), out);
            self.logprobs.clear();
            result?;
            annotations.extend(part.get("annotations").into_iter().flat_map(|list| list.elements()));
        }
        let told = self.item(output)?.annotations;
        annotations.iter().skip(told).for_each(|annotation| self.annotation(*annotation, out));
        Ok(())
    }

    /// Notes the log probabilities of the tokens in the next piece of text, for clients of this API.
    pub(in crate::responses::reader) fn note_logprobs(&mut self, logprobs: Option<Json<'_>>) {
        let logprobs = logprobs.filter(|list| self.settings.verbatim && list.elements().next().is_some());
        if let Some(logprobs) = logprobs {
            self.logprobs.push_str(&on_one_line(logprobs));
        }
    }

    fn end_reasoning(&mut self, output: u64, item: Json<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        for (section, key) in [(Section::Summary, "summary"), (Section::Thought, "content")] {
            let parts = item.get(key).into_iter().flat_map(|list| list.elements());
            for (index, part) in (0..).zip(parts) {
                self.complete(output, PartKey { section, index }, &part.text("text"), out)?;
            }
        }
        let state = item.text("encrypted_content");
        if !state.is_empty() {
            let redacted = self.item(output)?.parts.is_empty();
            let signature = Some(Opaque::new(Dialect::Responses.name(), state));
            out.event(Event::Reasoning(Reasoning { text: Cow::Borrowed(""), signature, redacted }));
        }
        Ok(())
    }

    pub(in crate::responses::reader) fn annotated(
        &mut self,
        event: &StreamEvent<'_>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        let Some(annotation) = event.annotation else { return Ok(()) };
        let Some(output) = self.addressed(event)? else { return Ok(()) };
        self.item(output)?.annotations += 1;
        self.annotation(annotation, out);
        Ok(())
    }

    fn annotation(&mut self, annotation: Json<'_>, out: &mut impl Sink) {
        let place = |key| annotation.get(key).and_then(|place| place.as_u64()).unwrap_or(0);
        let (url, title) = (annotation.text("url"), annotation.text("title"));
        if url.is_empty() && !(self.settings.verbatim && annotation.kind() == JsonKind::Object) {
            return self.skipped.add(Skip::UnknownPart);
        }
        let span = (place("start_index"), place("end_index"));
        self.emit(annotation, &Event::Annotation(Annotation { url, title, span }), out);
    }

    fn image(&mut self, item: Json<'_>, out: &mut impl Sink) {
        let data = item.text("result");
        if data.is_empty() {
            return self.skipped.add(Skip::UndispatchedCall);
        }
        self.progress.has_content = true;
        let mime = match item.text("output_format") {
            format if format.is_empty() => "image/png".into(),
            format => format!("image/{format}").into(),
        };
        self.emit_item(item, &Event::Media(Media { id: item.text("id"), mime, data }), out);
    }

    /// Emits a call that the upstream's servers ran.
    fn server_call(&mut self, kind: &str, item: Json<'_>, out: &mut impl Sink) {
        self.progress.has_content = true;
        let name = match item.text("name") {
            name if name.is_empty() => kind.trim_end_matches("_call").to_owned().into(),
            name => name,
        };
        let given = |keys: &[&str]| {
            let value = keys.iter().find_map(|key| item.get(key).filter(|value| !value.is_null()))?;
            Some(value.as_str().unwrap_or(Cow::Borrowed(value.raw())))
        };
        let error = item.get("error").filter(|error| !error.is_null());
        // The result of a search is its list of pages, which is present if the request asks for it.
        let pages = || Some(Cow::Borrowed(item.get("action")?.get("sources")?.raw()));
        // A call that has ended without a result gets an empty one.
        let is_running = matches!(&*item.text("status"), "in_progress" | "searching" | "incomplete");
        let none = || (!is_running).then_some(Cow::Borrowed(""));
        let content = given(&["error", "output", "results", "outputs"]).or_else(pages).or_else(none);
        let call = ServerCall {
            id: item.text("id"),
            name,
            runner: Runner::Upstream,
            server: Cow::Borrowed(""),
            arguments: given(&["arguments", "action", "queries", "code"]),
            content,
            details: None,
            is_error: error.is_some() || item.text("status") == "failed",
            approval: Cow::Borrowed(""),
        };
        self.emit_item(item, &Event::from(call), out);
    }

    /// Handles halves of surrogate pairs whose other halves did not arrive. They are dropped if the model was
    /// interrupted.
    pub(in crate::responses::reader) fn flush(&mut self, cut: bool, out: &mut impl Sink) {
        for (half, is_text) in [(self.reasoning.finish(), false), (self.text.finish(), true)] {
            if let Some(half) = half.filter(|_| !cut) {
                let half = half.to_string();
                out.event(match is_text {
                    true => Event::Text(half.into()),
                    false => Event::Reasoning(Reasoning::text(half)),
                });
            }
        }
    }
}

/// Whether an item of a call that the upstream ran has the members that clients rely on.
fn is_usable(item: Json<'_>) -> bool {
    let has = |key: &str| !item.text(key).is_empty();
    let is_mcp = &*item.text("type") == "mcp_call";
    let has_all = |keys: &[&str]| keys.iter().all(|key| has(key));
    has_all(&["id", "status"]) && (!is_mcp || has_all(&["server_label", "name", "arguments"]))
}

/// The JSON of a value without line breaks, as frames require.
fn on_one_line(value: Json<'_>) -> Cow<'_, str> {
    match value.raw() {
        raw if memchr2(b'\n', b'\r', raw.as_bytes()).is_none() => Cow::Borrowed(raw),
        _ => value.to_value().to_string().into(),
    }
}

/// The arguments of a call, or the input for a custom tool. Some servers send an object instead of a string.
pub(super) fn arguments(item: Json<'_>) -> Cow<'_, str> {
    let given = item.get("arguments").or_else(|| item.get("input")).filter(|given| !given.is_null());
    match given {
        Some(given) if given.kind() == JsonKind::Object => Cow::Borrowed(given.raw()),
        Some(given) => given.as_str().unwrap_or_default(),
        None => Cow::Borrowed(""),
    }
}

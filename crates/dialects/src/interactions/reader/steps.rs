//! Steps: their starts, ends and deltas, and the contents of output.

use super::{
    answer::AnswerState,
    event::{PieceKind, StreamEvent},
    hosted::Hosted,
};
use crate::{
    Dialect, Skip,
    event::{Annotation, CallStart, Event, Media, Opaque, Reasoning, Runner, Sink, Source},
    failure::{Failure, Kind},
    refusal::reported_json,
    wire::json::{Json, Kind as JsonKind},
};

#[derive(Debug)]
pub(super) struct OpenStep {
    index: u64,
    kind: StepKind,
}

#[derive(Debug)]
enum StepKind {
    Output,
    Thought,
    Call,
    Hosted(Box<Hosted>),
    Unknown,
}

/// Maximum number of open steps. The API itself never has more than one.
const MAX_OPEN: usize = 64;

impl AnswerState {
    /// Begins the step `index`, which ends an open one with the same index. `is_whole` is set if nothing follows it.
    pub(super) fn begin_step(
        &mut self,
        index: Option<u64>,
        step: Json<'_>,
        is_whole: bool,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        let index = index.unwrap_or_else(|| self.open.last().map_or(0, |open| open.index.saturating_add(1)));
        if self.open.iter().any(|open| open.index == index) {
            self.end_step(Some(index), out);
        }
        if self.open.len() >= MAX_OPEN {
            let message = format!("the upstream has more than {MAX_OPEN} steps open at once");
            return Err(Failure::new(Kind::Protocol, message));
        }
        self.calls.settle(out);
        let kind = match &*step.text("type") {
            "model_output" => self.output(step, out)?,
            "thought" => {
                let summary = step.get("summary").into_iter().flat_map(|list| list.elements());
                for content in summary {
                    match content.get("text").and_then(|text| text.string_body()) {
                        Some(body) => self.say(PieceKind::Thought, None, body, out),
                        None => self.skipped.add(Skip::UnknownPart),
                    }
                }
                self.sign(step, out);
                StepKind::Thought
            }
            "function_call" => self.call(index, step, is_whole, out)?,
            // A client's own step, which an interaction repeats.
            "user_input" | "function_result" => StepKind::Unknown,
            _ => match Hosted::new(step, &self.latest) {
                Some(hosted) => {
                    self.latest = hosted.id().to_owned();
                    StepKind::Hosted(Box::new(hosted))
                }
                None => {
                    self.skipped.add(Skip::UnknownPart);
                    StepKind::Unknown
                }
            },
        };
        self.open.push(OpenStep { index, kind });
        Ok(())
    }

    fn output(&mut self, step: Json<'_>, out: &mut impl Sink) -> Result<StepKind, Failure> {
        if let Some(error) = step.get("error").filter(|error| error.kind() == JsonKind::Object) {
            return Err(reported_json(error));
        }
        self.places.next_text();
        let contents = step.get("content").into_iter().flat_map(|list| list.elements());
        contents.for_each(|content| self.content(content, out));
        Ok(StepKind::Output)
    }

    fn call(
        &mut self,
        index: u64,
        step: Json<'_>,
        is_whole: bool,
        out: &mut impl Sink,
    ) -> Result<StepKind, Failure> {
        let (id, name) = (step.text("id"), step.text("name"));
        if name.is_empty() {
            self.skipped.add(Skip::NamelessCall);
            return Ok(StepKind::Unknown);
        }
        self.progress.has_content = true;
        let (runner, source) = (Runner::Client, Source::Native);
        self.calls.begin(index, CallStart { index: 0, id, name, runner, source, signature: None }, out)?;
        // In a stream, the API sends an empty object here and the arguments in deltas.
        let given = step.get("arguments").filter(|given| is_whole || given.members().next().is_some());
        if let Some(given) = given.filter(|given| given.kind() == JsonKind::Object) {
            self.calls.give(index, given.raw())?;
        }
        Ok(StepKind::Call)
    }

    /// Ends the step `index`, or the latest open one if there is no index.
    pub(super) fn end_step(&mut self, index: Option<u64>, out: &mut impl Sink) {
        let place = match index {
            Some(index) => self.open.iter().rposition(|open| open.index == index),
            None => self.open.len().checked_sub(1),
        };
        let Some(place) = place else { return };
        let step = self.open.remove(place);
        match step.kind {
            StepKind::Output => self.end_text(false, out),
            StepKind::Thought => self.end_thought(false, out),
            StepKind::Call => _ = self.calls.end(step.index, out),
            StepKind::Hosted(hosted) => hosted.tell(out),
            StepKind::Unknown => {}
        }
    }

    /// Handles a delta that does not extend a single string.
    pub(super) fn other_delta(&mut self, event: &StreamEvent<'_>, delta: Json<'_>, out: &mut impl Sink) {
        let open = match event.index {
            Some(index) => self.open.iter_mut().rfind(|open| open.index == index),
            None => self.open.last_mut(),
        };
        if let Some(OpenStep { kind: StepKind::Hosted(hosted), .. }) = open {
            return hosted.take(delta);
        }
        match &*delta.text("type") {
            "thought_signature" => self.sign(delta, out),
            "text_annotation_delta" => self.cite(delta, out),
            _ => self.content(delta, out),
        }
    }

    /// Handles a content of output: a text, or a medium.
    fn content(&mut self, content: Json<'_>, out: &mut impl Sink) {
        match &*content.text("type") {
            "text" => {
                if let Some(body) = content.get("text").and_then(|text| text.string_body()) {
                    self.say(PieceKind::Text, None, body, out);
                }
                self.cite(content, out);
                self.end_text(false, out);
            }
            "image" | "audio" | "video" | "document" => {
                self.progress.has_content = true;
                let (mime, data) = (content.text("mime_type"), content.text("data"));
                let id = if data.is_empty() { content.text("uri") } else { "".into() };
                out.event(Event::Media(Media { id, mime, data }));
            }
            _ => self.skipped.add(Skip::UnknownPart),
        }
    }

    /// Emits the citations in `annotations`.
    fn cite(&mut self, object: Json<'_>, out: &mut impl Sink) {
        for citation in object.get("annotations").into_iter().flat_map(|list| list.elements()) {
            let (url, title) = (citation.text("url"), citation.text("title"));
            if url.is_empty() {
                self.skipped.add(Skip::UnknownPart);
                continue;
            }
            let place = |key: &str| citation.get(key).and_then(|place| place.as_u64());
            let span = self.places.span(place("start_index"), place("end_index"));
            out.event(Event::Annotation(Annotation { url, title, span }));
        }
    }

    /// Emits the signature of a thought.
    fn sign(&mut self, object: Json<'_>, out: &mut impl Sink) {
        let signature = object.text("signature");
        if !signature.is_empty() {
            self.end_thought(false, out);
            let signature = Some(Opaque::new(Dialect::Gemini.name(), signature));
            out.event(Event::Reasoning(Reasoning { signature, ..Reasoning::default() }));
        }
    }
}

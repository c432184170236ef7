//! [`Steps`]: assembles the steps of an interaction and writes their events.

use super::{
    events::Events,
    interaction::{Ending, Head, usage},
};
use crate::{
    Answering,
    beside::Beside,
    conversation::Arguments,
    event::{Annotation, CallEnd, CallStart, Event, Media, Reasoning, Runner, Usage},
    google_signatures::signature,
    wire::json::{Encoder, Json},
};

#[derive(Debug)]
pub(super) struct Steps {
    head: Head,
    is_begun: bool,
    /// Whether the steps are collected: for a whole response, and to be stored.
    collects: bool,
    /// The steps that have ended, as JSON.
    ended: Vec<String>,
    /// Number of steps that have started.
    started: usize,
    open: Option<Open>,
    ending: Ending,
    usage: Option<Box<Usage>>,
    beside: Beside,
    /// Size in bytes of the collected steps, or only of the open call.
    kept: usize,
}

/// The step that has started but not ended.
#[derive(Debug)]
enum Open {
    Thought {
        summary: String,
        signature: String,
    },
    /// Its contents that have ended, as JSON, and its last text with its annotations.
    Output {
        contents: Vec<String>,
        text: String,
        annotations: Vec<String>,
    },
    Call {
        index: u32,
        id: String,
        name: String,
        signature: String,
        arguments: String,
    },
}

impl Open {
    fn is_thought(&self) -> bool {
        matches!(self, Self::Thought { .. })
    }

    fn is_output(&self) -> bool {
        matches!(self, Self::Output { .. })
    }
}

impl Steps {
    pub(super) fn new(answering: &Answering, collects: bool) -> Self {
        Self {
            head: Head::new(answering),
            is_begun: false,
            collects,
            ended: Vec::new(),
            started: 0,
            open: None,
            ending: Ending::default(),
            usage: None,
            beside: Beside::default(),
            kept: 0,
        }
    }

    pub(super) fn is_stored(&self) -> bool {
        self.head.stored
    }

    pub(super) fn kept(&self) -> usize {
        self.kept + self.beside.kept()
    }

    pub(super) fn event(&mut self, event: &Event<'_>, events: &mut Events<'_>) {
        match event {
            Event::Start(start) if !self.is_begun => self.head.take(start),
            Event::Text(text) => self.text(text, events),
            // The API has no refusals.
            Event::Refusal(text) => {
                self.ending.is_refused = true;
                self.text(text, events);
            }
            Event::Reasoning(reasoning) => self.reasoning(reasoning, events),
            Event::CallStart(start) if start.runner == Runner::Client => self.call_start(start, events),
            Event::CallArguments { index, piece } if self.is_open_call(*index) => {
                self.arguments(piece, events)
            }
            Event::CallEnd { index, end } if self.is_open_call(*index) => self.call_end(*end, events),
            Event::Media(media) if !media.data.is_empty() => self.media(media, events),
            Event::Annotation(annotation) => self.annotation(annotation, events),
            Event::Finish(finish) => self.ending.finish = Some(*finish),
            Event::Usage(usage) => self.usage = Some(Box::new(usage.clone())),
            Event::Verbatim { means: Some(means), .. } => self.event(means, events),
            event => self.beside.event(event),
        }
    }

    /// Writes the first event, once the upstream's head has arrived or is known to be missing.
    pub(super) fn begin(&mut self, events: &mut Events<'_>) {
        if !std::mem::replace(&mut self.is_begun, true) {
            let head = &self.head;
            events.event("interaction.created", |event| {
                event.key("interaction").object(|interaction| head.put(interaction, "in_progress"));
            });
        }
    }

    /// The index of the open step.
    fn index(&self) -> usize {
        self.started.saturating_sub(1)
    }

    fn start(&mut self, open: Open, events: &mut Events<'_>) {
        self.stop(events);
        self.begin(events);
        let index = self.started;
        self.started += 1;
        events.event("step.start", |event| {
            event.key("index").value(&index);
            event.key("step").object(|step| match &open {
                Open::Thought { .. } => step.key("type").string("thought"),
                Open::Output { .. } => {
                    step.key("type").string("model_output");
                    step.key("content").array(|_| {});
                }
                Open::Call { id, name, signature, .. } => {
                    put_call(step, id, name, signature);
                    step.key("arguments").object(|_| {});
                }
            });
        });
        self.open = Some(open);
    }

    /// Ends the open step.
    fn stop(&mut self, events: &mut Events<'_>) {
        let Some(open) = self.open.take() else { return };
        if self.collects {
            self.ended.push(written(open));
        } else {
            self.kept = 0;
        }
        let index = self.index();
        events.event("step.stop", |event| event.key("index").value(&index));
    }

    fn keep(&mut self, bytes: usize) {
        if self.collects {
            self.kept += bytes;
        }
    }

    fn output(&mut self, events: &mut Events<'_>) {
        if !self.open.as_ref().is_some_and(Open::is_output) {
            let (contents, text, annotations) = Default::default();
            self.start(Open::Output { contents, text, annotations }, events);
        }
    }

    fn text(&mut self, piece: &str, events: &mut Events<'_>) {
        if piece.is_empty() {
            return;
        }
        self.output(events);
        self.keep(piece.len());
        if let Some(Open::Output { text, .. }) = self.open.as_mut().filter(|_| self.collects) {
            text.push_str(piece);
        }
        events.text(self.index(), "\"type\":\"text\",\"text\":", piece, "");
    }

    fn reasoning(&mut self, reasoning: &Reasoning<'_>, events: &mut Events<'_>) {
        let is_open = self.open.as_ref().is_some_and(Open::is_thought);
        if reasoning.is_end() {
            if is_open {
                self.stop(events);
            }
            return;
        }
        let text = if self.head.no_thoughts { "" } else { &*reasoning.text };
        let state = reasoning.signature.as_ref().map(|state| signature(state, reasoning.redacted));
        if text.is_empty() && state.is_none() {
            return;
        }
        if !is_open {
            self.start(Open::Thought { summary: String::new(), signature: String::new() }, events);
        }
        self.keep(text.len() + state.as_ref().map_or(0, |state| state.len()));
        if let Some(Open::Thought { summary, signature }) = self.open.as_mut().filter(|_| self.collects) {
            summary.push_str(text);
            signature.push_str(state.as_deref().unwrap_or_default());
        }
        if !text.is_empty() {
            let before = "\"type\":\"thought_summary\",\"content\":{\"type\":\"text\",\"text\":";
            events.text(self.index(), before, text, "}");
        }
        if let Some(state) = state {
            events.text(self.index(), "\"type\":\"thought_signature\",\"signature\":", &state, "");
            self.stop(events);
        }
    }

    fn is_open_call(&self, wanted: u32) -> bool {
        matches!(&self.open, Some(Open::Call { index, .. }) if *index == wanted)
    }

    fn call_start(&mut self, start: &CallStart<'_>, events: &mut Events<'_>) {
        let state = start.signature.as_ref().map(|state| signature(state, false));
        let (id, name) = (start.id.to_string(), start.name.to_string());
        let (signature, arguments) = (state.unwrap_or_default().into_owned(), String::new());
        let size = id.len() + name.len() + signature.len();
        self.start(Open::Call { index: start.index, id, name, signature, arguments }, events);
        self.kept += size;
    }

    fn arguments(&mut self, piece: &str, events: &mut Events<'_>) {
        self.kept += piece.len();
        if let Some(Open::Call { arguments, .. }) = &mut self.open {
            arguments.push_str(piece);
        }
        if !piece.is_empty() {
            events.text(self.index(), "\"type\":\"arguments_delta\",\"arguments\":", piece, "");
        }
    }

    fn call_end(&mut self, end: CallEnd, events: &mut Events<'_>) {
        let is_object = |arguments: &str| !matches!(Arguments::of(arguments), Arguments::Text(_));
        match self.open.take() {
            Some(Open::Call { index, id, name, arguments, .. })
                if end != CallEnd::Complete || !is_object(&arguments) =>
            {
                // No end is written, so clients do not take the call for complete.
                self.ending.has_broken_calls = true;
                self.beside.broken(index, &id, &name, &arguments);
            }
            open => {
                self.open = open;
                self.stop(events);
            }
        }
    }

    fn media(&mut self, media: &Media<'_>, events: &mut Events<'_>) {
        self.output(events);
        self.keep(media.data.len());
        let put = |content: &mut Encoder| {
            content.key("type").string("image");
            content.key("mime_type").string(if media.mime.is_empty() { "image/png" } else { &media.mime });
            content.key("data").string(&media.data);
        };
        let index = self.index();
        events.event("step.delta", |event| {
            event.key("index").value(&index);
            event.key("delta").object(put);
        });
        if let Some(Open::Output { contents, text, annotations }) =
            self.open.as_mut().filter(|_| self.collects)
        {
            end_text(contents, text, annotations);
            let mut content = Encoder::default();
            content.object(put);
            contents.push(content.finish_text());
        }
    }

    /// A citation, without its range, which this API counts in bytes.
    fn annotation(&mut self, annotation: &Annotation<'_>, events: &mut Events<'_>) {
        let put = |citation: &mut Encoder| {
            citation.object(|citation| {
                citation.key("type").string("url_citation");
                citation.key("url").string(&annotation.url);
                citation.key("title").string(&annotation.title);
            });
        };
        self.output(events);
        self.keep(annotation.url.len() + annotation.title.len());
        let index = self.index();
        events.event("step.delta", |event| {
            event.key("index").value(&index);
            event.key("delta").object(|delta| {
                delta.key("type").string("text_annotation_delta");
                delta.key("annotations").array(put);
            });
        });
        if let Some(Open::Output { annotations, .. }) = self.open.as_mut().filter(|_| self.collects) {
            let mut citation = Encoder::default();
            put(&mut citation);
            annotations.push(citation.finish_text());
        }
    }

    /// Ends the response. Returns the complete interaction, if its steps were collected. A stream has had its steps.
    pub(super) fn finish(&mut self, events: &mut Events<'_>) -> Option<String> {
        self.stop(events);
        self.begin(events);
        events.event("interaction.completed", |event| {
            event.key("interaction").object(|interaction| self.put(interaction, false));
        });
        events.done();
        self.collects.then(|| {
            let mut whole = Encoder::with_capacity(self.kept + 512);
            whole.object(|whole| self.put(whole, true));
            whole.finish_text()
        })
    }

    fn put(&mut self, interaction: &mut Encoder, has_steps: bool) {
        self.head.put(interaction, self.ending.status());
        if has_steps {
            interaction.key("steps").array(|steps| self.ended.iter().for_each(|step| steps.written(step)));
        }
        if let Some(usage) = self.usage.as_deref().map(usage).filter(|usage| !usage.is_empty()) {
            interaction.key("usage").value(&usage);
        }
        self.ending.put(interaction);
        self.beside.put(interaction);
    }
}

/// The JSON of a step that has ended.
fn written(open: Open) -> String {
    let mut step = Encoder::default();
    step.object(|step| match open {
        Open::Thought { summary, signature } => {
            step.key("type").string("thought");
            if !signature.is_empty() {
                step.key("signature").string(&signature);
            }
            if !summary.is_empty() {
                step.key("summary").array(|list| list.object(|content| put_text(content, &summary)));
            }
        }
        Open::Output { mut contents, mut text, mut annotations } => {
            end_text(&mut contents, &mut text, &mut annotations);
            step.key("type").string("model_output");
            step.key("content").array(|list| contents.iter().for_each(|content| list.written(content)));
        }
        Open::Call { id, name, signature, arguments, .. } => {
            put_call(step, &id, &name, &signature);
            match Json::parse(&arguments) {
                Ok(arguments) if !arguments.is_null() => step.key("arguments").raw(arguments),
                _ => step.key("arguments").object(|_| {}),
            }
        }
    });
    step.finish_text()
}

/// Writes what a call begins with. A `signature` is that of the upstream's state, as steps of Google's own tools have it.
fn put_call(step: &mut Encoder, id: &str, name: &str, signature: &str) {
    step.key("type").string("function_call");
    step.key("id").string(id);
    step.key("name").string(name);
    if !signature.is_empty() {
        step.key("signature").string(signature);
    }
}

/// Adds the text so far, with its annotations, to the contents.
fn end_text(contents: &mut Vec<String>, text: &mut String, annotations: &mut Vec<String>) {
    if text.is_empty() && annotations.is_empty() {
        return;
    }
    let mut content = Encoder::with_capacity(text.len() + 64);
    content.object(|content| {
        put_text(content, text);
        if !annotations.is_empty() {
            content.key("annotations").array(|list| annotations.iter().for_each(|one| list.written(one)));
        }
    });
    contents.push(content.finish_text());
    text.clear();
    annotations.clear();
}

fn put_text(content: &mut Encoder, text: &str) {
    content.key("type").string("text");
    content.key("text").string(text);
}

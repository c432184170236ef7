//! Decodes the events of a response.

use super::{
    ReaderSettings,
    event::StreamEvent,
    items::{ItemName, OpenItem, PartKey, Section},
};
use crate::{
    Asked, Dialect, Found, JsonBody, Progress, ResponseState, Skip, Skipped,
    channel::Channel,
    digest::Digest,
    event::{Event, Finish, Sink, Start},
    failure::{Failure, Kind},
    finish::{failure_of, finish_of},
    frame_cache::FrameCache,
    refusal::{reported_json, told},
    tool_calls::NamedCalls,
    usage::{raw_usage, usage_of},
    wire::json::{FrameTemplate, Json, Kind as JsonKind},
};

/// The state of one response.
#[derive(Debug)]
pub struct ResponseReader {
    pub(super) settings: ReaderSettings,
    has_started: bool,
    is_whole: bool,
    pub(super) text: Channel,
    pub(super) reasoning: Channel,
    pub(super) calls: NamedCalls,
    pub(super) open: Vec<OpenItem>,
    pub(super) ended: Vec<ItemName>,
    /// Digests of the ids of items that are forwarded as they are.
    pub(super) forwarded: Vec<Digest>,
    /// Whether two items had the same `output_index`.
    pub(super) has_index_twice: bool,
    /// Whether any message had a phase.
    pub(super) has_phases: bool,
    plain: FrameCache<Plain>,
    /// The log probabilities of the tokens in the next piece of text, as JSON.
    pub(super) logprobs: String,
    pub(super) progress: Progress,
    pub(super) skipped: Skipped,
}

#[derive(Debug)]
struct Plain {
    template: FrameTemplate,
    output: u64,
    target: Target,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Part(PartKey),
    Arguments,
}

impl ResponseState for ResponseReader {
    const JSON: JsonBody = JsonBody::Value;
    const RUNS_TOOLS: bool = true;
    const NONE_OF: Option<&'static str> = Some("events is one of a response");

    fn expect(&mut self, asked: Asked) {
        self.calls.mend(asked.repair);
        self.calls.expect(asked.tools, asked.limits);
    }

    fn known(&mut self, data: &str, out: &mut impl Sink) -> Result<bool, Failure> {
        let Some((plain, body)) = self.plain.find(|plain| plain.template.body(data)) else {
            return Ok(false);
        };
        let (output, target) = (plain.output, plain.target);
        self.piece(output, target, body, out)?;
        Ok(true)
    }

    fn object<'t>(&mut self, text: &'t str, out: &mut impl Sink) -> Result<Found<'t>, Failure> {
        let text = text.trim();
        Found::read(StreamEvent::parse(text), |event, json| self.event(event, json, text, out))
    }

    fn may_end(&self, is_value: bool) -> bool {
        (is_value && self.is_whole) || self.settings.tolerate_truncation
    }

    fn close(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        self.progress.close()?;
        if !self.progress.is_finished {
            let finish = self.calls.end_of_body(out);
            self.finish(finish, out);
        }
        Ok(())
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn notes(&mut self) -> (&mut Progress, &mut Skipped) {
        (&mut self.progress, &mut self.skipped)
    }

    fn skipped(&self) -> Skipped {
        let mut skipped = self.skipped.clone();
        skipped.add_all(self.calls.skipped());
        skipped
    }
}

impl ResponseReader {
    pub(super) fn new(settings: ReaderSettings) -> Self {
        Self {
            settings,
            has_started: false,
            is_whole: false,
            text: Channel::default(),
            reasoning: Channel::default(),
            calls: NamedCalls::default(),
            open: Vec::new(),
            ended: Vec::new(),
            forwarded: Vec::new(),
            has_index_twice: false,
            has_phases: false,
            plain: FrameCache::default(),
            logprobs: String::new(),
            progress: Progress::default(),
            skipped: Skipped::default(),
        }
    }

    fn event(
        &mut self,
        event: &StreamEvent<'_>,
        json: Json<'_>,
        frame: &str,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        let kind = event.kind.strip_prefix("response.").unwrap_or(&event.kind);
        match kind {
            "created" | "in_progress" | "queued" => self.start(event.response.unwrap_or_default(), out),
            "completed" | "incomplete" | "failed" | "cancelled" if event.response.is_some() => {
                return self.whole(event.response.unwrap_or_default(), out);
            }
            "output_item.added" => self.item_added(event, out)?,
            "output_item.done" => self.item_done(event, out)?,
            "output_text.delta" => {
                self.delta(event, Target::Part(PartKey::of(Section::Text, event)), frame, out)?
            }
            "refusal.delta" => {
                self.delta(event, Target::Part(PartKey::of(Section::Refusal, event)), frame, out)?
            }
            "reasoning_summary_text.delta" => {
                self.delta(event, Target::Part(PartKey::of(Section::Summary, event)), frame, out)?;
            }
            "reasoning_text.delta" => {
                self.delta(event, Target::Part(PartKey::of(Section::Thought, event)), frame, out)?;
            }
            "function_call_arguments.delta" | "custom_tool_call_input.delta" => {
                self.delta(event, Target::Arguments, frame, out)?;
            }
            "output_text.done" => self.part_done(event, Section::Text, out)?,
            "refusal.done" => self.part_done(event, Section::Refusal, out)?,
            "reasoning_summary_text.done" => self.part_done(event, Section::Summary, out)?,
            "reasoning_text.done" => self.part_done(event, Section::Thought, out)?,
            "function_call_arguments.done" | "custom_tool_call_input.done" => {
                if let (Some(whole), Some(output)) = (event.whole, self.addressed(event)?) {
                    self.calls.complete(output, &whole.as_str().unwrap_or_default(), out)?;
                }
            }
            "output_text.annotation.added" => self.annotated(event, out)?,
            "error" => {
                return Err(reported_json(event.error.filter(|error| !error.is_null()).unwrap_or(json)));
            }
            _ if event.object.and_then(|object| object.as_str()).as_deref() == Some("response") => {
                self.is_whole = true;
                return self.whole(json, out);
            }
            _ if event.error.is_some_and(|error| !error.is_null()) => {
                return Err(reported_json(event.error.unwrap_or_default()));
            }
            // Progress of hosted tools, and events that the API may add. The end of the item contains their
            // outcome.
            _ if event.kind.starts_with("response.") || kind == "keepalive" => {}
            _ => {
                self.skipped.add(Skip::NotAChunk);
                return told(frame).map_or(Ok(()), Err);
            }
        }
        Ok(())
    }

    /// Emits the head of the response before anything else.
    fn start(&mut self, response: Json<'_>, out: &mut impl Sink) {
        // After content, it is too late for the head.
        let is_first = !std::mem::replace(&mut self.progress.has_choice, true);
        if !std::mem::replace(&mut self.has_started, true) && is_first {
            let created = response.get("created_at").and_then(|created| created.as_u64());
            let (id, model) = (response.text("id"), response.text("model"));
            out.event(Event::Start(Start { id, model, created }));
        }
    }

    fn delta(
        &mut self,
        event: &StreamEvent<'_>,
        target: Target,
        frame: &str,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        self.progress.has_choice = true;
        let Some(body) = event.delta.and_then(|delta| delta.string_body()) else {
            self.skipped.add(Skip::NotAChunk);
            return Ok(());
        };
        let Some(output) = self.addressed(event)? else { return Ok(()) };
        self.note_logprobs(event.logprobs);
        if self.logprobs.is_empty() && self.plain.may_learn() && event.output_index().is_some() {
            let template = FrameTemplate::learn(frame, body, event.sequence);
            self.plain.learn(template.map(|template| Plain { template, output, target }));
        }
        let result = self.piece(output, target, body, out);
        self.logprobs.clear();
        result
    }

    /// Handles a piece of an item. Both paths use this.
    fn piece(&mut self, output: u64, target: Target, body: &str, out: &mut impl Sink) -> Result<(), Failure> {
        if self.progress.is_finished {
            self.skipped.add(Skip::LateContent);
            return Ok(());
        }
        match target {
            Target::Part(key) => self.part_piece(output, key, body, out),
            Target::Arguments => {
                self.calls.piece(output, body, None, out);
                Ok(())
            }
        }
    }

    /// Handles a complete response, which is in the last event or is the body itself.
    fn whole(&mut self, response: Json<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        self.start(response, out);
        self.plain.forget();
        if self.progress.is_finished {
            return Ok(());
        }
        let error = response.get("error").filter(|error| !error.is_null());
        let status = response.text("status");
        if let ("failed", Some(error)) | ("cancelled", Some(error)) = (&*status, error) {
            return Err(reported_json(error));
        }
        if matches!(&*status, "failed" | "cancelled") {
            let message = format!("the upstream reports that the response has {status}");
            return Err(Failure::new(Kind::Upstream, message));
        }
        self.end_items(response.get("output"), out)?;
        let finish = match &*status {
            "incomplete" => self.incomplete(response)?,
            _ => Finish::Stop,
        };
        self.finish(finish, out);
        if let Some(usage) = response.get("usage").filter(|usage| usage.kind() == JsonKind::Object) {
            let raw = raw_usage(usage, Dialect::Responses);
            out.event(Event::Usage(crate::event::Usage { raw, ..usage_of(usage) }));
        }
        self.progress.is_marked = true;
        self.progress.close()
    }

    fn incomplete(&mut self, response: Json<'_>) -> Result<Finish, Failure> {
        let details = response.get("incomplete_details").unwrap_or_default();
        let reason = details.text("reason");
        match (finish_of(&reason), failure_of(&reason)) {
            (Some(finish @ (Finish::Length | Finish::Filter)), _) => Ok(finish),
            (None, Some(failure)) => Err(failure),
            _ => {
                self.skipped.add(Skip::UnknownFinish);
                Ok(Finish::Length)
            }
        }
    }

    /// Forgets the template, because deltas of another item may look the same.
    pub(super) fn forget_template(&mut self) {
        self.plain.forget();
    }

    /// Sets the finish reason and ends everything that is still open.
    fn finish(&mut self, finish: Finish, out: &mut impl Sink) {
        let cut = matches!(finish, Finish::Length | Finish::Filter);
        self.flush(cut, out);
        self.calls.finish(cut, out);
        self.open.clear();
        self.plain.forget();
        self.progress.is_finished = true;
        out.event(Event::Finish(finish.of_calls(self.calls.has_client_call())));
    }
}

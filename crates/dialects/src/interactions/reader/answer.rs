//! [`AnswerState`]: decodes the events of a response into events.
//!
//! A delta takes one of two paths: the fast path recognises it by comparison ([`FrameTemplate`]), and the slow path
//! parses it. Text and thoughts are accepted whatever step they belong to; only calls need their step.

use super::{
    event::{PieceKind, StreamEvent},
    steps::OpenStep,
};
use crate::{
    Asked, Dialect, Found, JsonBody, Progress, ResponseState, Skip, Skipped,
    channel::Channel,
    event::{Event, Finish, Reasoning, Sink, Start, Usage},
    failure::{Failure, Kind},
    finish::finish_of,
    frame_cache::FrameCache,
    google_widths::Widths,
    refusal::{reported_json, told},
    tool_calls::NamedCalls,
    usage::{self, raw_usage},
    wire::json::{FrameTemplate, Json},
};

/// The state of one response.
#[derive(Debug, Default)]
pub struct AnswerState {
    tolerate_truncation: bool,
    text: Channel,
    thought: Channel,
    pub(super) places: Places,
    pub(super) open: Vec<OpenStep>,
    pub(super) calls: NamedCalls,
    /// The id of the latest call that Google's servers ran.
    pub(super) latest: String,
    plain: FrameCache<Plain>,
    /// The latest token counts.
    usage: String,
    has_started: bool,
    pub(super) progress: Progress,
    pub(super) skipped: Skipped,
}

/// The template for deltas of one step that extend a string.
#[derive(Debug)]
struct Plain {
    template: FrameTemplate,
    kind: PieceKind,
    index: Option<u64>,
}

/// Converts places in the current text to places in all text.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The length of the texts before the current one, in characters.
    before: u64,
    widths: Widths,
}

impl Places {
    /// Ends the current text.
    pub(super) fn next_text(&mut self) {
        self.before = self.before.saturating_add(self.widths.characters());
        self.widths = Widths::default();
    }

    /// The range in characters of a range in bytes. One that is not known is the end of the text.
    pub(super) fn span(&self, start: Option<u64>, end: Option<u64>) -> (u64, u64) {
        let place = |place: u64| self.before.saturating_add(self.widths.character(place));
        let last = self.before.saturating_add(self.widths.characters());
        (end.map_or(last, |_| place(start.unwrap_or(0))), end.map_or(last, place))
    }
}

impl ResponseState for AnswerState {
    const JSON: JsonBody = JsonBody::Value;
    const RUNS_TOOLS: bool = true;
    const NONE_OF: Option<&'static str> = Some("events is one of an interaction");

    fn expect(&mut self, asked: Asked) {
        self.calls.mend(asked.repair);
        self.calls.expect(asked.tools, asked.limits);
    }

    fn known(&mut self, frame: &str, out: &mut impl Sink) -> Result<bool, Failure> {
        let Some((plain, body)) = self.plain.find(|plain| plain.template.body(frame)) else {
            return Ok(false);
        };
        let (kind, index) = (plain.kind, plain.index);
        self.say(kind, index, body, out);
        Ok(true)
    }

    fn object<'t>(&mut self, text: &'t str, out: &mut impl Sink) -> Result<Found<'t>, Failure> {
        Found::read(StreamEvent::parse(text.trim()), |event, json| self.event(event, json, text, out))
    }

    fn may_end(&self, _is_value: bool) -> bool {
        self.tolerate_truncation
    }

    fn close(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        self.progress.close()?;
        if !self.progress.is_finished {
            let finish = self.calls.end_of_body(out);
            self.finish(finish, out);
        }
        self.tell_usage(out);
        Ok(())
    }

    fn tell_usage(&mut self, out: &mut impl Sink) {
        if let Ok(usage) = Json::parse(&std::mem::take(&mut self.usage)) {
            out.event(Event::Usage(usage_of(usage)));
        }
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

impl AnswerState {
    pub(super) fn new(tolerate_truncation: bool) -> Self {
        Self { tolerate_truncation, ..Self::default() }
    }

    fn event(
        &mut self,
        event: &StreamEvent<'_>,
        json: Json<'_>,
        frame: &str,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        if let Some(usage) = event.usage {
            self.count(usage);
        }
        match &*event.kind {
            "error" => return Err(reported_json(event.error.unwrap_or_default())),
            "step.start" | "step.delta" | "step.stop" if self.progress.is_finished => {
                self.skipped.add(Skip::LateContent);
            }
            "interaction.created" => self.start(event.interaction.unwrap_or_default(), out),
            "step.start" => {
                self.begin();
                self.begin_step(event.index, event.step.unwrap_or_default(), false, out)?;
            }
            "step.delta" => {
                self.progress.has_choice = true;
                self.delta(event, frame, out);
            }
            "step.stop" => {
                self.begin();
                self.end_step(event.index, out);
            }
            "interaction.status_update" => {
                self.progress.has_choice = true;
                let status = status(event.status);
                // Only the last event ends a response that has not failed.
                if is_failure(&status) {
                    self.status(&status, json, out)?;
                }
            }
            "interaction.completed" => {
                let interaction = event.interaction.unwrap_or_default();
                self.start(interaction, out);
                self.status(&status(interaction.get("status")), interaction, out)?;
            }
            "" if event.steps.is_some() || event.status.is_some() => self.whole(event, json, out)?,
            _ if event.error.is_some() => return Err(reported_json(event.error.unwrap_or_default())),
            "" => {
                self.skipped.add(Skip::NotAChunk);
                return told(frame).map_or(Ok(()), Err);
            }
            // An event that a later version of the API has added.
            _ => self.skipped.add(Skip::UnknownPart),
        }
        Ok(())
    }

    fn begin(&mut self) {
        self.progress.has_choice = true;
        self.plain.forget();
    }

    /// Emits the head of the response before anything else.
    fn start(&mut self, interaction: Json<'_>, out: &mut impl Sink) {
        let is_first = !std::mem::replace(&mut self.progress.has_choice, true);
        if !std::mem::replace(&mut self.has_started, true) && is_first {
            let (id, model) = (interaction.text("id"), interaction.text("model"));
            out.event(Event::Start(Start { id, model, created: None }));
        }
        if let Some(usage) = interaction.get("usage") {
            self.count(usage);
        }
    }

    fn count(&mut self, usage: Json<'_>) {
        if usage.members().next().is_some() {
            self.usage.clear();
            self.usage.push_str(usage.raw());
        }
    }

    /// Reads a complete interaction.
    fn whole(&mut self, event: &StreamEvent<'_>, json: Json<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        self.start(json, out);
        for (index, step) in (0..).zip(event.steps.into_iter().flat_map(|steps| steps.elements())) {
            self.begin_step(Some(index), step, true, out)?;
            self.end_step(Some(index), out);
        }
        self.status(&status(event.status), json, out)
    }

    fn delta(&mut self, event: &StreamEvent<'_>, frame: &str, out: &mut impl Sink) {
        let Some(delta) = event.delta else { return self.skipped.add(Skip::NotAChunk) };
        let Some(piece) = event.piece() else { return self.other_delta(event, delta, out) };
        let is_alone = delta.members().nth(2).is_none();
        if is_alone && !event.has_token && self.plain.may_learn() {
            let template = FrameTemplate::learn(frame, piece.body, None);
            self.plain.learn(template.map(|template| Plain {
                template,
                kind: piece.kind,
                index: event.index,
            }));
        }
        self.say(piece.kind, event.index, piece.body, out);
    }

    /// Emits a piece of text, of a thought or of arguments. Both paths use this.
    pub(super) fn say(&mut self, kind: PieceKind, index: Option<u64>, body: &str, out: &mut impl Sink) {
        match kind {
            PieceKind::Text => {
                let piece = self.text.piece(body);
                if !piece.is_empty() {
                    self.progress.has_content = true;
                    self.places.widths.said(piece);
                    out.event(Event::Text(piece.into()));
                }
            }
            PieceKind::Thought => {
                let piece = self.thought.piece(body);
                if !piece.is_empty() {
                    out.event(Event::Reasoning(Reasoning::text(piece)));
                }
            }
            PieceKind::Arguments => {
                // A piece without an index belongs to the open call.
                let key = index.or_else(|| self.calls.open_key()).unwrap_or_default();
                self.calls.piece(key, body, None, out);
            }
        }
    }

    /// Ends a text. What is left of half a surrogate pair is dropped if the text was cut off.
    pub(super) fn end_text(&mut self, is_cut: bool, out: &mut impl Sink) {
        if let Some(half) = self.text.finish().filter(|_| !is_cut) {
            let half = half.to_string();
            self.places.widths.said(&half);
            out.event(Event::Text(half.into()));
        }
    }

    pub(super) fn end_thought(&mut self, is_cut: bool, out: &mut impl Sink) {
        if let Some(half) = self.thought.finish().filter(|_| !is_cut) {
            out.event(Event::Reasoning(Reasoning::text(half.to_string())));
        }
    }

    /// Acts on the status of the interaction, which `holder` may explain.
    ///
    /// # Errors
    /// The interaction has failed.
    fn status(&mut self, status: &str, holder: Json<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        if self.progress.is_finished {
            return Ok(());
        }
        let finish = match status {
            // It goes on.
            "" | "in_progress" | "queued" | "idle" => return Ok(()),
            "completed" => Finish::Stop,
            "requires_action" => Finish::Calls,
            "incomplete" | "budget_exceeded" | "requires_continuation" => {
                let code = holder.get("errors").and_then(|errors| errors.elements().next());
                let code = code.map(|error| error.text("code")).unwrap_or_default();
                if finish_of(&code) == Some(Finish::Filter) { Finish::Filter } else { Finish::Length }
            }
            failed if is_failure(failed) => {
                let error = holder.get("errors").and_then(|errors| errors.elements().next());
                return Err(error.or_else(|| holder.get("error")).map_or_else(
                    || {
                        Failure::new(
                            Kind::Upstream,
                            format!("the upstream's interaction has the status `{status}`"),
                        )
                    },
                    reported_json,
                ));
            }
            _ => {
                self.skipped.add(Skip::UnknownFinish);
                Finish::Stop
            }
        };
        self.finish(finish, out);
        Ok(())
    }

    /// Sets the finish reason and ends everything that is still open.
    fn finish(&mut self, finish: Finish, out: &mut impl Sink) {
        let is_cut = matches!(finish, Finish::Length | Finish::Filter);
        self.end_thought(is_cut, out);
        self.end_text(is_cut, out);
        self.calls.finish(is_cut, out);
        while !self.open.is_empty() {
            self.end_step(None, out);
        }
        self.plain.forget();
        self.progress.is_finished = true;
        out.event(Event::Finish(finish.of_calls(self.calls.has_client_call())));
    }
}

fn is_failure(status: &str) -> bool {
    matches!(status, "failed" | "cancelled")
}

fn status(given: Option<Json<'_>>) -> std::borrow::Cow<'_, str> {
    given.and_then(|given| given.as_str()).unwrap_or_default()
}

/// The token counts. Those of thoughts are apart from the rest of the output.
fn usage_of(usage: Json<'_>) -> Usage {
    let count = |key: &str| usage::count(usage.get(key)?);
    let input = usage::sum(count("total_input_tokens"), count("total_tool_use_tokens"));
    let reasoning = count("total_thought_tokens");
    let output = usage::sum(count("total_output_tokens"), reasoning);
    let total = count("total_tokens").or_else(|| input?.checked_add(output?));
    let cached = count("total_cached_tokens");
    let raw = raw_usage(usage, Dialect::Interactions);
    Usage { input, output, reasoning, total, cached, cache_written: None, raw }
}

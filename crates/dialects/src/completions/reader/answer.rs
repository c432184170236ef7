//! Decodes the chunks of a response into events.
//!
//! A chunk that differs from an earlier one only in its text, time and counts is recognised by comparison
//! ([`FrameTemplate`]). It means the same as that chunk, apart from the text.

use super::chunk::{Choice, Chunk};
use crate::{
    Asked, Found, JsonBody, Progress, ResponseState, Skip, Skipped,
    event::{Event, Finish, Reasoning, Sink, Start, Usage},
    failure::Failure,
    finish::{failure_of, finish_of},
    frame_cache::FrameCache,
    refusal::{reported_json, told},
    usage::usage_of,
    wire::json::{FrameTemplate, Json, Unescaper},
};

/// The state of one response.
#[derive(Debug, Default)]
pub struct AnswerState {
    tolerate_truncation: bool,
    text: Unescaper,
    scratch: String,
    /// The latest token counts, until they are passed on.
    usage: Option<Usage>,
    /// The latest chunk that matched the template and had token counts, which are newer than `usage`.
    counted: String,
    plain: FrameCache<Plain>,
    started: bool,
    progress: Progress,
    /// Whether the latest chunk said that the response continues.
    goes_on: bool,
    skipped: Skipped,
}

/// The template for chunks that contain a piece of text and, apart from that, only token counts that this
/// reader reads.
#[derive(Debug)]
struct Plain {
    shape: FrameTemplate,
    has_counts: bool,
    /// Whether these chunks say that the response continues.
    goes_on: bool,
}

impl ResponseState for AnswerState {
    const JSON: JsonBody = JsonBody::Lines;

    /// A completion has no calls, so it does not matter what was requested.
    fn expect(&mut self, _asked: Asked) {}

    fn known(&mut self, chunk: &str, out: &mut impl Sink) -> Result<bool, Failure> {
        if self.progress.is_finished {
            return Ok(false);
        }
        let chunk = chunk.strip_suffix('\n').unwrap_or(chunk);
        let Some((plain, body)) = self.plain.find(|plain| plain.shape.body(chunk)) else { return Ok(false) };
        self.goes_on = plain.goes_on;
        if plain.has_counts {
            self.counted.clear();
            self.counted.push_str(chunk);
        }
        self.say(body, out);
        Ok(true)
    }

    fn object<'t>(&mut self, text: &'t str, out: &mut impl Sink) -> Result<Found<'t>, Failure> {
        let text = text.trim();
        Found::read(Chunk::parse(text), |chunk, _| self.chunk(chunk, text, out))
    }

    fn may_end(&self, is_value: bool) -> bool {
        (is_value && !self.goes_on) || self.tolerate_truncation
    }

    fn close(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        self.progress.close()?;
        if !self.progress.is_finished {
            self.end_text(Finish::Stop, out);
            self.progress.is_finished = true;
            out.event(Event::Finish(Finish::Stop));
        }
        self.tell_usage(out);
        Ok(())
    }

    fn tell_usage(&mut self, out: &mut impl Sink) {
        let counted = std::mem::take(&mut self.counted);
        if let Ok((_, chunk)) = Chunk::parse(&counted) {
            self.note_usage(&chunk);
        }
        if let Some(usage) = self.usage.take() {
            out.event(Event::Usage(usage));
        }
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn notes(&mut self) -> (&mut Progress, &mut Skipped) {
        (&mut self.progress, &mut self.skipped)
    }

    fn skipped(&self) -> Skipped {
        self.skipped.clone()
    }
}

impl AnswerState {
    pub(super) fn new(tolerate_truncation: bool) -> Self {
        Self { tolerate_truncation, ..Self::default() }
    }

    fn chunk(&mut self, chunk: &Chunk<'_>, text: &str, out: &mut impl Sink) -> Result<(), Failure> {
        if let Some(error) = chunk.error {
            return Err(reported_json(error));
        }
        if !chunk.is_part() {
            self.skipped.add(Skip::NotAChunk);
            return told(text).map_or(Ok(()), Err);
        }
        self.start(chunk, out);
        let (choice, has_others) = chunk.choice();
        if has_others {
            self.skipped.add(Skip::OtherChoice);
        }
        self.goes_on = chunk.has_done_flag() && !chunk.is_done();
        let thinking = chunk.thinking.and_then(|text| text.as_str()).filter(|text| !text.is_empty());
        match thinking {
            Some(_) if self.progress.is_finished => self.skipped.add(Skip::LateContent),
            Some(thinking) => out.event(Event::Reasoning(Reasoning::text(thinking))),
            None => {}
        }
        if let Some(choice) = &choice {
            self.choice(choice, out)?;
        }
        self.note_usage(chunk);
        if chunk.is_done() {
            self.progress.has_choice = true;
            if !self.progress.is_finished {
                self.finish_by(chunk.reason(), chunk.reached_limit(), out)?;
            }
            return self.close(out);
        }
        if self.progress.is_finished {
            self.tell_usage(out);
        } else if let Some(choice) = choice.filter(|_| !has_others) {
            self.learn(chunk, &choice, text);
        }
        Ok(())
    }

    fn start(&mut self, chunk: &Chunk<'_>, out: &mut impl Sink) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        let text = |json: Option<Json<'_>>| {
            json.and_then(|json| Some(json.as_str()?.into_owned())).unwrap_or_default()
        };
        let created = chunk.created.and_then(|created| created.as_u64());
        let (id, model) = (text(chunk.id), text(chunk.model));
        out.event(Event::Start(Start { id: id.into(), model: model.into(), created }));
    }

    fn choice(&mut self, choice: &Choice<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        self.progress.has_choice = true;
        let body = choice.text.and_then(|text| text.string_body()).unwrap_or_default();
        if !body.is_empty() {
            if self.progress.is_finished {
                self.skipped.add(Skip::LateContent);
                return Ok(());
            }
            self.say(body, out);
        }
        match choice.finish {
            Some(word) if !self.progress.is_finished && word.raw() != "\"\"" => {
                self.finish_by(Some(word), false, out)
            }
            _ => Ok(()),
        }
    }

    /// Emits a piece of text. Both paths use this.
    fn say(&mut self, body: &str, out: &mut impl Sink) {
        self.progress.has_content |= !body.is_empty();
        let text = self.text.decode(body, &mut self.scratch);
        if !text.is_empty() {
            out.event(Event::Text(text.into()));
        }
    }

    /// Learns the template of a chunk that contains a piece of text and, apart from that, only token counts
    /// that this reader reads.
    fn learn(&mut self, chunk: &Chunk<'_>, choice: &Choice<'_>, text: &str) {
        if !self.plain.may_learn() || chunk.thinking.is_some() || chunk.usage.is_some() {
            return;
        }
        let Some(body) = choice.text.and_then(|text| text.string_body()) else { return };
        let numbers: Vec<_> = chunk.numbers().collect();
        let shape = match numbers.as_slice() {
            [] => FrameTemplate::learn(text, body, chunk.time()),
            numbers => FrameTemplate::learn_with(text, body, numbers),
        };
        let has_counts = matches!(chunk.counts(), (Some(_), Some(_)));
        let goes_on = self.goes_on;
        self.plain.learn(shape.map(|shape| Plain { shape, has_counts, goes_on }));
    }

    fn finish_by(
        &mut self,
        word: Option<Json<'_>>,
        reached_limit: bool,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        let word = word.and_then(|word| word.as_str()).unwrap_or_default();
        let finish = match &*word {
            _ if reached_limit => Finish::Length,
            "" => Finish::Stop,
            word => match (self.known_finish(word), failure_of(word)) {
                (Some(finish), _) => finish,
                (None, Some(failure)) => return Err(failure),
                (None, None) => {
                    self.skipped.add(Skip::UnknownFinish);
                    Finish::Stop
                }
            },
        };
        self.end_text(finish, out);
        self.progress.is_finished = true;
        out.event(Event::Finish(finish));
        Ok(())
    }

    /// The finish reason for `word`, including those of llama.cpp. A completion has no calls.
    fn known_finish(&self, word: &str) -> Option<Finish> {
        match word {
            "limit" => Some(Finish::Length),
            "word" | "none" | "load" | "unload" => Some(Finish::Stop),
            word => finish_of(word).map(|finish| if finish == Finish::Calls { Finish::Stop } else { finish }),
        }
    }

    /// Ends the text. If the text was cut off, half of a surrogate pair at its end is dropped.
    fn end_text(&mut self, finish: Finish, out: &mut impl Sink) {
        let is_cut = matches!(finish, Finish::Length | Finish::Filter);
        if let Some(half) = self.text.finish().filter(|_| !is_cut) {
            out.event(Event::Text(half.to_string().into()));
        }
    }

    fn note_usage(&mut self, chunk: &Chunk<'_>) {
        if let Some(usage) = chunk.usage {
            self.counted.clear();
            self.usage = Some(usage_of(usage));
        } else if let (Some(input), Some(output)) = chunk.counts() {
            let total = input.checked_add(output);
            let (input, output) = (Some(input), Some(output));
            self.counted.clear();
            self.usage = Some(Usage { input, output, total, ..Usage::default() });
        }
    }
}

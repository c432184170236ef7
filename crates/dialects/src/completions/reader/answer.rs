//! Decodes the chunks of a response into events.
//!
//! A chunk that differs from an earlier one only in its text, time and counts is recognised by comparison
//! ([`FrameTemplate`]). It means the same as that chunk, apart from the text.

use memchr::memchr2;

use super::{
    ReaderSettings,
    chunk::{Choice, Choices, Chunk},
};
use crate::{
    Asked, Found, JsonBody, Progress, ResponseState, Skip, Skipped,
    channel::{Channel, emit},
    event::{Event, Finish, Reasoning, Sink, Start, Usage},
    failure::Failure,
    finish::{failure_of, finish_of, finish_word},
    frame_cache::FrameCache,
    refusal::{reported_json, told},
    usage::usage_of,
    wire::json::{FrameTemplate, Json, span},
};

/// The state of one response.
#[derive(Debug, Default)]
pub struct AnswerState {
    settings: ReaderSettings,
    /// Whether the client did not ask for a stream.
    wants_whole: bool,
    /// Whether the client asked for several choices.
    several: bool,
    text: Channel,
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
    /// Whether these chunks are forwarded.
    is_canonical: bool,
}

impl ResponseState for AnswerState {
    const JSON: JsonBody = JsonBody::Lines;

    fn expect(&mut self, asked: Asked) {
        self.wants_whole = !asked.stream;
        self.several = asked.several;
    }

    fn known(&mut self, chunk: &str, out: &mut impl Sink) -> Result<bool, Failure> {
        if self.progress.is_finished {
            return Ok(false);
        }
        let chunk = chunk.strip_suffix('\n').unwrap_or(chunk);
        let Some((plain, body)) = self.plain.find(|plain| plain.shape.body(chunk)) else { return Ok(false) };
        let is_canonical = plain.is_canonical;
        self.goes_on = plain.goes_on;
        if plain.has_counts {
            self.counted.clear();
            self.counted.push_str(chunk);
        }
        self.say(body, Some(chunk).filter(|_| is_canonical), out);
        Ok(true)
    }

    fn object<'t>(&mut self, text: &'t str, out: &mut impl Sink) -> Result<Found<'t>, Failure> {
        let text = text.trim();
        Found::read(Chunk::parse(text), |chunk, _| self.chunk(chunk, text, out))
    }

    fn may_end(&self, is_value: bool) -> bool {
        (is_value && !self.goes_on) || self.settings.tolerate_truncation
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
    pub(super) fn new(settings: ReaderSettings) -> Self {
        Self { settings, ..Self::default() }
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
        let choices = chunk.choices();
        let frame = self.forwarded(&choices, text, out);
        let Choices { first: choice, has_others, .. } = choices;
        self.goes_on = chunk.has_done_flag() && !chunk.is_done();
        let thinking = chunk.thinking.and_then(|text| text.as_str()).filter(|text| !text.is_empty());
        match thinking {
            Some(_) if self.progress.is_finished => self.skipped.add(Skip::LateContent),
            Some(thinking) => out.event(Event::Reasoning(Reasoning::text(thinking))),
            None => {}
        }
        if let Some(choice) = &choice {
            self.choice(choice, frame, out)?;
        }
        self.note_usage(chunk);
        if chunk.is_done() {
            self.progress.has_choice = true;
            if !self.progress.is_finished {
                self.finish_by(chunk.reason(), chunk.reached_limit(), None, out)?;
            }
            return self.close(out);
        }
        if self.progress.is_finished {
            self.tell_usage(out);
        } else if let Some(choice) = choice.filter(|_| !has_others) {
            self.learn(chunk, &choice, text, frame.is_some());
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

    /// Forwards a frame that the events of the first choice do not represent, or returns it if they may go with it.
    fn forwarded<'f>(
        &mut self,
        choices: &Choices<'_>,
        text: &'f str,
        out: &mut impl Sink,
    ) -> Option<&'f str> {
        let Choices { first, has_others, is_canonical } = choices;
        let may_forward = self.settings.verbatim && *is_canonical && (self.several || !has_others);
        let frame = Some(text).filter(|_| may_forward);
        let is_split = !self.wants_whole && *has_others && first.is_some();
        match frame.filter(|_| !is_split) {
            Some(frame) if self.wants_whole || *has_others => {
                self.progress.has_choice |= *has_others;
                self.progress.has_content |= *has_others;
                out.event(Event::Verbatim { frame, means: None });
                None
            }
            Some(frame) => Some(frame).filter(|frame| memchr2(b'\n', b'\r', frame.as_bytes()).is_none()),
            None => {
                if *has_others {
                    self.skipped.add(Skip::OtherChoice);
                }
                None
            }
        }
    }

    /// `frame` is the frame of the choice, if it may be forwarded.
    fn choice(
        &mut self,
        choice: &Choice<'_>,
        frame: Option<&str>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        self.progress.has_choice = true;
        let body = choice.text.and_then(|text| text.string_body()).unwrap_or_default();
        let word = choice.finish.filter(|word| word.raw() != "\"\"");
        let has_more = choice.has_more;
        if !body.is_empty() {
            if self.progress.is_finished {
                self.skipped.add(Skip::LateContent);
                return Ok(());
            }
            match (frame.filter(|_| has_more), word) {
                // The finish is an event of its own.
                (Some(frame), Some(word)) => {
                    let unfinished = replaced(frame, word.raw(), "null");
                    self.say(body, unfinished.as_deref(), out);
                }
                (None, Some(_)) => self.say(body, None, out),
                (_, None) => self.say(body, frame, out),
            }
        } else if let Some(frame) = frame.filter(|_| has_more && word.is_none()) {
            out.event(Event::Verbatim { frame, means: None });
        }
        match word {
            Some(word) if !self.progress.is_finished => {
                self.finish_by(Some(word), false, frame.filter(|_| body.is_empty()), out)
            }
            _ => Ok(()),
        }
    }

    /// Emits a piece of text, with its frame if that contains nothing else. Both paths use this.
    fn say(&mut self, body: &str, frame: Option<&str>, out: &mut impl Sink) {
        self.progress.has_content |= !body.is_empty();
        let frame = frame.filter(|_| self.text.may_forward(body));
        let text = self.text.piece(body);
        if !text.is_empty() {
            emit(out, frame, Event::Text(text.into()));
        }
    }

    /// Learns the template of a chunk that contains a piece of text and, apart from that, only token counts
    /// that this reader reads.
    fn learn(&mut self, chunk: &Chunk<'_>, choice: &Choice<'_>, text: &str, is_canonical: bool) {
        let is_collected = self.settings.verbatim && self.wants_whole;
        if is_collected || !self.plain.may_learn() || chunk.thinking.is_some() || chunk.usage.is_some() {
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
        self.plain.learn(shape.map(|shape| Plain { shape, has_counts, goes_on, is_canonical }));
    }

    fn finish_by(
        &mut self,
        word: Option<Json<'_>>,
        reached_limit: bool,
        frame: Option<&str>,
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
        emit(out, frame.filter(|_| word == finish_word(finish)), Event::Finish(finish));
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

/// A copy of `frame` in which its slice `old` is replaced.
fn replaced(frame: &str, old: &str, new: &str) -> Option<String> {
    let place = span(frame, old)?;
    Some([frame.get(..place.start)?, new, frame.get(place.end..)?].concat())
}

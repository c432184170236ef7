//! Decodes the lines of a response into events.
//!
//! As in Chat Completions, a line that differs from an earlier one only in its text and its time is
//! recognised by comparison ([`FrameTemplate`]). It means the same as that line, apart from the text.

use super::line::{Line, Message};
use crate::{
    Asked, Found, JsonBody, Progress, ResponseState, Skip, Skipped,
    event::{Event, Finish, Media, Reasoning, Sink, Start, Usage},
    failure::{Failure, Kind as FailureKind},
    finish::known_finish,
    frame_cache::FrameCache,
    media::mime_of_base64,
    refusal::{reported_json, told},
    usage::count,
    whole_calls::{WholeCall, WholeCalls},
    wire::json::{FrameTemplate, Json, Unescaper},
};

/// The state of one response.
#[derive(Debug, Default)]
pub struct AnswerState {
    tolerate_truncation: bool,
    text: Unescaper,
    thinking: Unescaper,
    scratch: String,
    calls: WholeCalls,
    plain: FrameCache<Plain>,
    started: bool,
    progress: Progress,
    skipped: Skipped,
}

/// The template for lines that contain a piece of text or reasoning and nothing else.
#[derive(Debug)]
struct Plain {
    shape: FrameTemplate,
    channel: Channel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Channel {
    Text,
    Thinking,
}

impl ResponseState for AnswerState {
    const JSON: JsonBody = JsonBody::Lines;

    fn expect(&mut self, asked: Asked) {
        self.calls.expect(&asked);
    }

    fn known(&mut self, line: &str, out: &mut impl Sink) -> Result<bool, Failure> {
        let line = line.strip_suffix('\n').unwrap_or(line);
        let Some((plain, body)) = self.plain.find(|plain| plain.shape.body(line)) else { return Ok(false) };
        let channel = plain.channel;
        self.say(channel, body, out);
        Ok(true)
    }

    fn object<'t>(&mut self, text: &'t str, out: &mut impl Sink) -> Result<Found<'t>, Failure> {
        let text = text.trim();
        Found::read(Line::parse(text), |line, _| self.line(line, text, out))
    }

    /// Even a response without streaming must report that it is done.
    fn may_end(&self, _is_value: bool) -> bool {
        self.tolerate_truncation
    }

    fn close(&mut self, out: &mut impl Sink) -> Result<(), Failure> {
        self.close_with(None, out)
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

    fn line(&mut self, line: &Line<'_>, text: &str, out: &mut impl Sink) -> Result<(), Failure> {
        if let Some(error) = line.error {
            return Err(reported_json(error));
        }
        if !line.is_part() {
            self.skipped.add(Skip::NotAChunk);
            return told(text).map_or(Ok(()), Err);
        }
        self.start(line, out);
        self.progress.has_choice = true;
        let message = line.message();
        self.message(&message, out)?;
        if line.is_done() {
            return self.close_with(Some(line), out);
        }
        self.learn(line, &message, text);
        Ok(())
    }

    fn start(&mut self, line: &Line<'_>, out: &mut impl Sink) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        let model = line.model.and_then(|model| model.as_str()).unwrap_or_default();
        out.event(Event::Start(Start { model, ..Start::default() }));
    }

    fn message(&mut self, message: &Message<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        self.progress.has_content |= message.has_content();
        for (field, channel) in [(message.thinking, Channel::Thinking), (message.content, Channel::Text)] {
            match field.map(|field| field.string_body()) {
                Some(Some(body)) => self.say(channel, body, out),
                Some(None) => self.skipped.add(Skip::UnknownPart),
                None => {}
            }
        }
        for image in message.images.into_iter().flat_map(|images| images.elements()) {
            match image.as_str() {
                Some(data) => {
                    let mime = mime_of_base64(&data).into();
                    out.event(Event::Media(Media { id: "".into(), mime, data }));
                }
                None => self.skipped.add(Skip::UnknownPart),
            }
        }
        message.calls.into_iter().flat_map(|calls| calls.elements()).try_for_each(|call| self.call(call, out))
    }

    fn call(&mut self, element: Json<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        let function = element.get("function").unwrap_or(element);
        let name = function.get("name").and_then(|name| name.as_str()).unwrap_or_default();
        if name.is_empty() {
            self.skipped.add(Skip::NamelessCall);
            return Ok(());
        }
        let id = element.get("id").and_then(|id| id.as_str()).unwrap_or_default();
        let arguments = function.get("arguments");
        self.calls.call(WholeCall { id, name, arguments, ..WholeCall::default() }, out)
    }

    /// Emits a piece of text or reasoning. Both paths use this.
    fn say(&mut self, channel: Channel, body: &str, out: &mut impl Sink) {
        let unescaper = match channel {
            Channel::Text => &mut self.text,
            Channel::Thinking => &mut self.thinking,
        };
        let text = unescaper.decode(body, &mut self.scratch);
        if !text.is_empty() {
            self.calls.release(out);
            out.event(piece(channel, text));
        }
    }

    /// Ends the response. `last` is its last line, if there is one.
    fn close_with(&mut self, last: Option<&Line<'_>>, out: &mut impl Sink) -> Result<(), Failure> {
        let finish = self.finish(last)?;
        self.progress.is_finished = last.is_some();
        self.progress.close()?;
        self.progress.is_finished = true;
        // If the text was cut off, half of a surrogate pair is just an unfinished character, and is dropped.
        let is_cut = matches!(finish, Finish::Length | Finish::Filter);
        let halves = [(self.thinking.finish(), Channel::Thinking), (self.text.finish(), Channel::Text)];
        for (half, channel) in halves {
            if let Some(half) = half.filter(|_| !is_cut) {
                out.event(piece(channel, half.encode_utf8(&mut [0; 4])));
            }
        }
        self.calls.release(out);
        out.event(Event::Finish(finish));
        if let Some(usage) = last.and_then(usage_of) {
            out.event(Event::Usage(usage));
        }
        Ok(())
    }

    fn finish(&mut self, last: Option<&Line<'_>>) -> Result<Finish, Failure> {
        let word = last.and_then(|last| last.done_reason?.as_str()).unwrap_or_default();
        let finish = match &*word {
            "" => Finish::Stop,
            // The server only loaded or unloaded the model. An empty response would look as if the model had
            // written it.
            "load" | "unload" if !self.progress.has_content => {
                let message = format!("the upstream gave no response: it only reports `{word}`");
                return Err(Failure::new(FailureKind::Upstream, message).with_code(word.into_owned()));
            }
            "load" | "unload" => Finish::Stop,
            word => known_finish(word, &mut self.skipped)?,
        };
        Ok(finish.of_calls(self.calls.any()))
    }

    /// Learns the template of a line that contains a piece of text or reasoning and nothing else.
    fn learn(&mut self, line: &Line<'_>, message: &Message<'_>, text: &str) {
        let is_plain = line.has_message_only() && message.images.is_none() && message.calls.is_none();
        if !is_plain || !self.plain.may_learn() {
            return;
        }
        let (channel, piece) = match (message.content, message.thinking) {
            (Some(content), None) => (Channel::Text, content),
            (None, Some(thinking)) => (Channel::Thinking, thinking),
            _ => return,
        };
        let Some(body) = piece.string_body() else { return };
        let shape = FrameTemplate::learn(text, body, line.created_at);
        self.plain.learn(shape.map(|shape| Plain { shape, channel }));
    }
}

fn piece(channel: Channel, text: &str) -> Event<'_> {
    match channel {
        Channel::Text => Event::Text(text.into()),
        Channel::Thinking => Event::Reasoning(Reasoning::text(text)),
    }
}

fn usage_of(line: &Line<'_>) -> Option<Usage> {
    let [input, output] = [line.input, line.output].map(|tokens| count(tokens?));
    let total = input.zip(output).and_then(|(input, output)| input.checked_add(output));
    (input.is_some() || output.is_some()).then(|| Usage { input, output, total, ..Usage::default() })
}

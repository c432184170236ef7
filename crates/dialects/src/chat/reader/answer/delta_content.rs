//! Emits the content of a delta, piece by piece.

use std::borrow::Cow;

use super::{AnswerState, ChannelName};
use crate::{
    Skip,
    channel::{cuts_pair, emit},
    chat::{extra, reader::chunk::Delta},
    event::{Annotation, CallResult, Event, Media, Reasoning, Runner, ServerCall, Sink},
    failure::Failure,
    tool_calls::arguments_only,
    wire::json::{Json, Kind},
};

impl AnswerState {
    /// Emits the content of a delta. `frame` must be `None` if there is more than one piece.
    pub(super) fn say(
        &mut self,
        delta: &Delta<'_>,
        frame: Option<&str>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        self.progress.has_content |= delta.has_content();
        self.reasoning_field = self.reasoning_field.max(delta.reasoning_field);
        self.say_reasoning(delta, frame, out)?;
        match (delta.refusal, delta.refusal.and_then(|refusal| refusal.as_str())) {
            (_, Some(text)) => emit(out, frame, Event::Refusal(text)),
            (Some(_), None) => self.skipped.add(Skip::UnknownPart),
            (None, None) => {}
        }
        if let Some(content) = delta.content {
            self.say_content(content, frame, out)?;
        }
        self.say_each(delta.annotations, annotation, frame, out);
        self.say_each(delta.images, image, frame, out);
        if let Some(calls) = delta.calls {
            self.say_custom(calls, frame, out);
            self.calls.goes_on(|held| calls.elements().any(|call| index_of(call) == Some(held)));
            let is_holding = self.deltas.is_holding();
            let piece = frame.zip(arguments_only(calls));
            let piece = piece.filter(|(_, (_, body))| !cuts_pair(body) && !is_holding);
            let piece = piece.map(|(frame, (index, _))| (frame, index));
            let mut listening = self.calls.listen_for_head(frame, calls, piece, out);
            let read = self.deltas.delta(calls, &mut listening);
            listening.keep(self.deltas.is_holding());
            read?;
        }
        if let Some(call) = delta.legacy_call {
            self.deltas.legacy(call, &mut self.calls.listen(None, out))?;
        }
        self.say_each(delta.results, result, frame, out);
        Ok(())
    }

    fn say_reasoning(
        &mut self,
        delta: &Delta<'_>,
        frame: Option<&str>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        match (delta.reasoning.and_then(|text| text.string_body()), delta.details) {
            (Some(body), None) => return self.say_piece(ChannelName::Reasoning, body, frame, out),
            (body, Some(details)) => self.say_details(body, details, frame, out),
            (None, None) if delta.reasoning.is_some() => self.skipped.add(Skip::UnknownPart),
            (None, None) => {}
        }
        Ok(())
    }

    /// Emits calls to custom tools. OpenAI sends one element per frame.
    fn say_custom(&mut self, calls: Json<'_>, frame: Option<&str>, out: &mut impl Sink) {
        let frame = frame.filter(|_| calls.elements().nth(1).is_none());
        for (position, element) in (0..).zip(calls.elements()) {
            if let Some(custom) = element.get("custom") {
                let deltas = &mut self.deltas;
                self.calls.custom((position, element), custom, frame, || deltas.next_index(), out);
            }
        }
    }

    /// Emits content, which is usually a string. Some servers send a list of parts, as in a message, or a
    /// single part, or a bare number.
    fn say_content(
        &mut self,
        content: Json<'_>,
        frame: Option<&str>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        match content.kind() {
            Kind::Array => content.elements().try_for_each(|part| self.say_part(part, out)),
            Kind::Object => self.say_part(content, out),
            _ => {
                // A value that is not a string has no escapes, so its JSON is the text.
                let body = content.string_body().unwrap_or(content.raw());
                self.say_piece(ChannelName::Text, body, frame, out)
            }
        }
    }

    /// Emits one part of a message: text, a thought, or an image.
    fn say_part(&mut self, part: Json<'_>, out: &mut impl Sink) -> Result<(), Failure> {
        let text = part.string_body().or_else(|| part.get("text")?.string_body());
        if let Some(body) = text {
            return self.say_piece(ChannelName::Text, body, None, out);
        }
        if let Some(image) = image(part) {
            out.event(image);
            return Ok(());
        }
        // How Mistral sends reasoning: `{"type":"thinking","thinking":[{"type":"text","text":"…"}]}`.
        let mut is_known = part.is_null();
        let thinking = part.get("thinking");
        let thoughts = elements(thinking).filter_map(|thought| thought.get("text")?.string_body());
        for body in thinking.and_then(|thinking| thinking.string_body()).into_iter().chain(thoughts) {
            is_known = true;
            self.say_piece(ChannelName::Reasoning, body, None, out)?;
        }
        if !is_known {
            self.skipped.add(Skip::UnknownPart);
        }
        Ok(())
    }

    /// Emits a piece of text or reasoning. Both paths use this.
    pub(super) fn say_piece(
        &mut self,
        name: ChannelName,
        body: &str,
        frame: Option<&str>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        let channel = match name {
            ChannelName::Text => &mut self.text,
            ChannelName::Reasoning => &mut self.reasoning,
            ChannelName::Arguments(index) => return self.say_arguments(index, body, frame, out),
        };
        let frame = frame.filter(|_| channel.may_forward(body));
        let text = if self.settings.cumulative { channel.news(body) } else { channel.piece(body) };
        if text.is_empty() {
            return Ok(());
        }
        if self.deltas.has_open() {
            self.deltas.settle(&mut self.calls.listen(None, out));
        }
        let text = Cow::Borrowed(text);
        emit(
            out,
            frame,
            match name {
                ChannelName::Text => Event::Text(text),
                _ => reasoning(text),
            },
        );
        Ok(())
    }

    /// Emits a piece of the arguments of call number `index`, on the fast path.
    fn say_arguments(
        &mut self,
        index: u64,
        body: &str,
        frame: Option<&str>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        let frame = frame.filter(|_| !cuts_pair(body) && !self.deltas.is_holding());
        self.calls.goes_on(|held| held == index);
        let mut listening = self.calls.listen(frame.map(|frame| (frame, index)), out);
        let read = self.deltas.arguments_delta(index, body, &mut listening);
        listening.keep(self.deltas.is_holding());
        read
    }

    /// Emits each element of a list. An element without a corresponding event is forwarded unchanged if there
    /// is a frame to forward.
    fn say_each<'a>(
        &mut self,
        list: Option<Json<'a>>,
        event: impl Fn(Json<'a>) -> Option<Event<'a>>,
        frame: Option<&str>,
        out: &mut impl Sink,
    ) {
        for element in elements(list) {
            match (event(element), frame) {
                (Some(event), _) => emit(out, frame, event),
                (None, Some(frame)) => out.event(Event::Verbatim { frame, means: None }),
                (None, None) => self.skipped.add(Skip::UnknownPart),
            }
        }
    }

    /// Emits OpenRouter's list of reasoning parts. Often the same text also arrives as a string. A part that
    /// has state ends a piece of reasoning; text that occurs only in the string forms the first piece.
    fn say_details(
        &mut self,
        body: Option<&str>,
        details: Json<'_>,
        frame: Option<&str>,
        out: &mut impl Sink,
    ) {
        let listed = |part: Json<'_>| {
            let text = extra::TEXT_KEYS.iter().find_map(|key| part.get(key)?.as_str());
            text.map(Cow::into_owned).unwrap_or_default()
        };
        let mut pieces: Vec<Reasoning<'static>> = Vec::new();
        for part in details.elements() {
            let signature = extra::detail_state(part);
            let redacted = signature.is_some() && part.get("data").is_some();
            let text = if body.is_some() { String::new() } else { listed(part) };
            match pieces.last_mut().filter(|last| last.signature.is_none()) {
                Some(last) if !redacted => {
                    last.text.to_mut().push_str(&text);
                    last.signature = signature;
                }
                _ => pieces.push(Reasoning { text: text.into(), signature, redacted }),
            }
        }
        if let Some(body) = body {
            let text = self.reasoning.piece(body).to_owned();
            match pieces.first_mut().filter(|first| !first.redacted) {
                Some(first) => first.text = text.into(),
                None => pieces.insert(0, Reasoning::text(text)),
            }
        }
        pieces.retain(|piece| !piece.text.is_empty() || piece.signature.is_some());
        // The frame goes with the only piece that has text. Clients of this API do not get state without
        // text.
        let with_text = pieces.iter().filter(|piece| !piece.text.is_empty()).count();
        let shown = pieces.iter().position(|piece| !piece.text.is_empty()).unwrap_or(0);
        for (place, piece) in pieces.into_iter().enumerate() {
            let frame = frame.filter(|_| with_text <= 1 && place == shown);
            emit(out, frame, Event::Reasoning(piece));
        }
    }
}

pub(super) fn reasoning(text: Cow<'_, str>) -> Event<'_> {
    Event::Reasoning(Reasoning::text(text))
}

fn index_of(call: Json<'_>) -> Option<u64> {
    call.get("index")?.as_u64()
}

fn elements<'a>(list: Option<Json<'a>>) -> impl Iterator<Item = Json<'a>> {
    list.into_iter().flat_map(|list| list.elements())
}

fn annotation(json: Json<'_>) -> Option<Event<'_>> {
    let citation = json.get("url_citation")?;
    let place = |key| citation.get(key).and_then(|place| place.as_u64()).unwrap_or(0);
    let span = (place("start_index"), place("end_index"));
    Some(Event::Annotation(Annotation { url: citation.text("url"), title: citation.text("title"), span }))
}

/// Parses an image that the response contains as a `data:` URL.
fn image(json: Json<'_>) -> Option<Event<'_>> {
    let url = json.get("image_url")?.get("url")?.as_str()?;
    let (mime, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    let (mime, data) = (mime.to_owned().into(), data.to_owned().into());
    Some(Event::Media(Media { id: json.text("id"), mime, data }))
}

/// Parses a call's result as another instance of toolwire writes it.
fn result(json: Json<'_>) -> Option<Event<'_>> {
    let given = |key| json.get(key).and_then(|value| value.as_str());
    let is_error = json.get("is_error").and_then(|flag| flag.as_bool()).unwrap_or(false);
    if let Some(name) = given("name") {
        return Some(Event::from(ServerCall {
            id: json.text("id"),
            name,
            runner: Runner::Upstream,
            server: Cow::Borrowed(""),
            arguments: given("arguments"),
            content: given("content"),
            details: None,
            is_error,
            approval: Cow::Borrowed(""),
        }));
    }
    Some(Event::CallResult(CallResult {
        index: u32::try_from(json.get("index")?.as_u64()?).ok()?,
        id: json.text("id"),
        content: json.text("content"),
        is_error,
    }))
}

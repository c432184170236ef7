//! Interprets the objects of v2: OpenAI's completion chunks, and Lumo's own objects
//! (docs/protocols/lumo.md#v2-stream).

use std::borrow::Cow;

use super::{
    answer::{AnswerState, MAX_PARTS},
    refusal, sealed_payload,
    shapes::Token,
    target::Target,
    v1::Read,
};
use crate::{
    Skip,
    event::{Finish, Media, Sink, Start},
    failure::{Failure, Kind},
    finish::{failure_of, finish_of},
    tool_calls::arguments_only,
    wire::json::{Invalid, Json, Kind as JsonKind},
};

/// Handles the object with the members `frame`.
///
/// # Errors
/// The upstream reports an error, or sends an encrypted piece, or a complete response instead of a stream.
pub(super) fn read<'a>(
    frame: &Frame<'a>,
    answer: &mut AnswerState,
    out: &mut impl Sink,
) -> Result<Read<'a>, Failure> {
    if answer.is_finished() {
        late(frame, answer, out);
        return Ok(Read::Taken);
    }
    if let Some(error) = frame.error {
        return Err(refusal::error_object(error));
    }
    if frame.is_head() {
        answer.start(frame.start.clone(), out);
    }
    match (frame.kind.as_ref(), frame.payload) {
        ("chat.tool_call", Some(call)) => answer.server_call(call, frame.is_sealed, out)?,
        ("chat.tool_result", Some(result)) => tool_result(result, frame.is_sealed, answer, out)?,
        ("lumo.image_data", Some(image)) => self::image(image, frame.is_sealed, answer, out)?,
        _ => return chunk(frame, answer, out),
    }
    Ok(Read::Taken)
}

/// Handles an object after the finish reason. Token counts are accepted, content is too late, and errors are
/// ignored because the response has already finished.
fn late(frame: &Frame<'_>, answer: &mut AnswerState, out: &mut impl Sink) {
    if let Some(usage) = frame.usage {
        answer.usage(usage, out);
    }
    let delta = frame.choice().and_then(|choice| choice.get("delta"));
    if frame.payload.is_some() || delta.is_some_and(|delta| Delta::read(delta).has_content()) {
        answer.skip(Skip::LateContent);
    }
}

#[derive(Default)]
pub(super) struct Frame<'a> {
    /// `type`, which exists only in v1.
    pub(super) v1: Option<Cow<'a, str>>,
    kind: Cow<'a, str>,
    start: Start<'a>,
    /// Whether the object names a model. The name is a hash or a tier and means nothing to clients, so they
    /// get the name that they requested.
    has_model: bool,
    created: Option<Json<'a>>,
    target: Option<Target>,
    choices: Option<Json<'a>>,
    usage: Option<Json<'a>>,
    error: Option<Json<'a>>,
    is_sealed: bool,
    payload: Option<Json<'a>>,
}

impl<'a> Frame<'a> {
    /// Parses a string that should contain an object. Returns its JSON and its members.
    pub(super) fn parse(text: &'a str) -> Result<(Json<'a>, Self), Invalid> {
        let mut frame = Self::default();
        let json = Json::parse_members(text, |key, value| frame.member(&key, value))?;
        Ok((json, frame))
    }

    fn member(&mut self, key: &str, value: Json<'a>) {
        match key {
            "type" => self.v1 = value.as_str(),
            "object" => self.kind = value.as_str().unwrap_or_default(),
            "id" => self.start.id = value.as_str().unwrap_or_default(),
            "model" => self.has_model = true,
            "created" => {
                self.start.created = value.as_u64();
                self.created = self.start.created.map(|_| value);
            }
            "target" => self.target = target(value),
            "choices" => self.choices = Some(value),
            "usage" if value.kind() == JsonKind::Object => self.usage = Some(value),
            "error"
                if matches!(value.kind(), JsonKind::Object)
                    || value.string_body().is_some_and(|it| !it.is_empty()) =>
            {
                self.error = Some(value);
            }
            "encrypted" => self.is_sealed |= sealed_payload::is_set(value),
            "tool_call" | "tool_result" | "image" => self.payload = Some(value),
            _ => {}
        }
    }

    fn is_head(&self) -> bool {
        self.has_model || self.start != Start::default()
    }

    /// The first choice. toolwire never requests more than one.
    fn choice(&self) -> Option<Json<'a>> {
        self.choices.and_then(|choices| choices.elements().next()).filter(|it| it.kind() == JsonKind::Object)
    }
}

fn target(value: Json<'_>) -> Option<Target> {
    value.as_str().filter(|name| !name.is_empty()).map(|name| Target::named(&name))
}

/// Handles a completion chunk: a delta, a finish reason, token counts, or only the head.
fn chunk<'a>(frame: &Frame<'a>, answer: &mut AnswerState, out: &mut impl Sink) -> Result<Read<'a>, Failure> {
    let choice = frame.choice();
    if let Some(usage) = frame.usage {
        answer.usage(usage, out);
    }
    let Some(choice) = choice else {
        let known = frame.usage.is_some() || frame.is_head();
        return Ok(if known { Read::Taken } else { Read::Foreign });
    };
    let has_others = frame.choices.is_some_and(|choices| choices.elements().nth(1).is_some());
    if has_others {
        answer.skip(Skip::OtherChoice);
    }
    let (mut delta, mut message, mut finish, mut is_sealed) = (None, None, None, frame.is_sealed);
    for (key, value) in choice.members().filter(|(_, value)| !value.is_null()) {
        match key.as_ref() {
            "delta" => delta = Some(value),
            // The older Completions API has `text` instead of a delta.
            "text" => delta = delta.or(Some(value)),
            "message" if value.kind() == JsonKind::Object => message = Some(value),
            "finish_reason" => finish = value.as_str(),
            "encrypted" => is_sealed |= sealed_payload::is_set(value),
            _ => {}
        }
    }
    if delta.is_none() && message.is_some() {
        let message = "the upstream responded with one JSON body instead of a stream";
        return Err(Failure::new(Kind::Protocol, message));
    }
    let delta = delta.map(Delta::read);
    let target = delta.as_ref().and_then(|delta| delta.target).or(frame.target).unwrap_or(answer.requested());
    let mut token = match &delta {
        Some(delta) => delta.apply(target, is_sealed, frame.created, answer, out)?,
        None => None,
    };
    if let Some(reason) = finish.filter(|reason| !reason.is_empty()) {
        token = None;
        // If the stream also contains a title, the title ends before the message does.
        if target != Target::Aside {
            finish_by(&reason, answer, out)?;
        }
    }
    let has_more = frame.usage.is_some() || has_others;
    Ok(token.filter(|_| !has_more).map_or(Read::Taken, Read::Token))
}

/// Ends the response with the upstream's finish reason. An unknown reason counts as `stop`.
fn finish_by(reason: &str, answer: &mut AnswerState, out: &mut impl Sink) -> Result<(), Failure> {
    let finish = finish_of(reason);
    if let (None, Some(failure)) = (finish, failure_of(reason)) {
        return Err(failure);
    }
    if finish.is_none() {
        answer.skip(Skip::UnknownFinish);
    }
    answer.finish(finish.unwrap_or(Finish::Stop), out);
    Ok(())
}

/// The members of a delta. `null` and empty values count as missing.
#[derive(Default)]
struct Delta<'a> {
    is_sealed: bool,
    target: Option<Target>,
    content: &'a str,
    reasoning: &'a str,
    /// Whether both reasoning fields have text, so that they are copies of each other.
    reasoning_twice: bool,
    /// Content and reasoning that are not strings.
    content_parts: Option<Json<'a>>,
    reasoning_parts: Option<Json<'a>>,
    tool_calls: Option<Json<'a>>,
    function_call: Option<Json<'a>>,
}

impl<'a> Delta<'a> {
    fn read(json: Json<'a>) -> Self {
        let (mut delta, mut reasoning) = (Self::default(), "");
        if json.kind() != JsonKind::Object {
            delta.put_content(json);
            return delta;
        }
        for (key, value) in json.members().filter(|(_, value)| !value.is_null()) {
            let body = value.string_body().unwrap_or_default();
            let is_text = value.kind() == JsonKind::String;
            match key.as_ref() {
                "content" => delta.put_content(value),
                "reasoning_content" if is_text => delta.reasoning = body,
                "reasoning" if is_text => reasoning = body,
                "reasoning_content" | "reasoning" => delta.reasoning_parts = Some(value),
                "encrypted" => delta.is_sealed |= sealed_payload::is_set(value),
                "target" => delta.target = target(value),
                "tool_calls" if value.elements().next().is_some() => delta.tool_calls = Some(value),
                "function_call" if value.kind() == JsonKind::Object => delta.function_call = Some(value),
                _ => {}
            }
        }
        delta.reasoning_twice = !delta.reasoning.is_empty() && !reasoning.is_empty();
        if delta.reasoning.is_empty() {
            delta.reasoning = reasoning;
        }
        delta
    }

    fn put_content(&mut self, content: Json<'a>) {
        match content.string_body() {
            Some(body) => self.content = body,
            None => self.content_parts = Some(content),
        }
    }

    fn has_content(&self) -> bool {
        !self.content.is_empty()
            || !self.reasoning.is_empty()
            || self.content_parts.is_some()
            || self.tool_calls.is_some()
            || self.function_call.is_some()
    }

    /// Passes the contents of the delta on to the response. Returns the token if the delta contained nothing
    /// else.
    fn apply(
        &self,
        target: Target,
        is_sealed: bool,
        number: Option<Json<'a>>,
        answer: &mut AnswerState,
        out: &mut impl Sink,
    ) -> Result<Option<Token<'a>>, Failure> {
        let is_sealed = is_sealed || self.is_sealed;
        let content = sealed_payload::opened(is_sealed, self.content)?;
        let reasoning = sealed_payload::opened(is_sealed, self.reasoning)?;
        if target != Target::Aside {
            answer.content(Target::Reasoning, reasoning, out)?;
            if let (Some(parts), "") = (self.reasoning_parts, reasoning) {
                answer.parts(Target::Reasoning, parts, is_sealed, MAX_PARTS, out)?;
            }
        }
        answer.content(target, content, out)?;
        if let Some(parts) = self.content_parts {
            answer.parts(target, parts, is_sealed, MAX_PARTS, out)?;
        }
        if let Some(tool_calls) = self.tool_calls {
            tool_calls.elements().try_for_each(|call| sealed_payload::check_call(call, is_sealed))?;
            answer.call_deltas(tool_calls, out)?;
        }
        if let Some(function_call) = self.function_call {
            sealed_payload::check_call(function_call, is_sealed)?;
            answer.legacy_call(function_call, out)?;
        }
        let token = match (self.tool_calls, target, content, reasoning) {
            (Some(calls), _, "", "") => {
                arguments_only(calls).map(|(index, body)| (Target::Arguments(index), body))
            }
            (None, Target::Message | Target::Reasoning, body, "") => Some((target, body)),
            (None, Target::Message | Target::Reasoning, "", body) => Some((Target::Reasoning, body)),
            _ => None,
        };
        let has_parts = self.content_parts.is_some() || self.reasoning_parts.is_some();
        let more = self.function_call.is_some() || self.reasoning_twice || is_sealed || has_parts;
        let token = token.filter(|(_, body)| !more && !body.is_empty());
        Ok(token.map(|(target, body)| Token { target, body, number }))
    }
}

fn tool_result(
    result: Json<'_>,
    is_sealed: bool,
    answer: &mut AnswerState,
    out: &mut impl Sink,
) -> Result<(), Failure> {
    let id = result.get("call_id").and_then(|id| id.as_str()).unwrap_or_default();
    let content = match result.get("content") {
        None => Cow::Borrowed(""),
        Some(content) if content.is_null() => Cow::Borrowed(""),
        // Documented as a string, but objects have been observed. The result is then the object's JSON.
        Some(content) => content.as_str().unwrap_or(Cow::Borrowed(content.raw())),
    };
    let content = sealed_payload::opened(is_sealed || sealed_payload::is_sealed(result), &content)?;
    answer.server_result(&id, content, out);
    Ok(())
}

fn image(
    image: Json<'_>,
    is_sealed: bool,
    answer: &mut AnswerState,
    out: &mut impl Sink,
) -> Result<(), Failure> {
    let text = |key| image.get(key).and_then(|value| value.as_str()).unwrap_or_default();
    let data = text("data");
    sealed_payload::opened(is_sealed || sealed_payload::is_sealed(image), &data)?;
    answer.media(Media { id: text("id"), mime: Cow::Borrowed(""), data }, out);
    Ok(())
}

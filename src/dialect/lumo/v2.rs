//! What the objects of v2 mean (Lumo 1.4): completion chunks as OpenAI has them, and Lumo's own beside them.

use std::borrow::Cow;

use super::{
    answer::{Answer, Target},
    refusal, sealed,
    shapes::Token,
    v1::Read,
};
use crate::{
    dialect::tool_calls::arguments_only,
    event::{Finish, Media, Sink, Start},
    failure::{Failure, Kind},
    wire::json::{Invalid, Json, Kind as JsonKind},
};

/// Reads an object, whose members are `frame`.
///
/// # Errors
/// The upstream reports one, or sent an encrypted piece, or a whole answer in place of a stream.
pub(super) fn read<'a>(
    frame: &Frame<'a>,
    answer: &mut Answer,
    out: &mut impl Sink,
) -> Result<Read<'a>, Failure> {
    if answer.is_finished() && frame.usage.is_none() {
        return Ok(Read::Taken);
    }
    if let Some(error) = frame.error {
        return Err(refusal::error_object(error));
    }
    if frame.start != Start::default() {
        answer.start(frame.start.clone(), out);
    }
    match (frame.kind.as_ref(), frame.payload) {
        ("chat.tool_call", Some(call)) => {
            let arguments = call.get("arguments").filter(|arguments| !arguments.is_null());
            sealed::open(call, arguments.map_or("", |arguments| arguments.raw()))?;
            answer.server_call(call, out);
        }
        ("chat.tool_result", Some(result)) => tool_result(result, answer, out)?,
        ("lumo.image_data", Some(image)) => self::image(image, answer, out)?,
        _ => return chunk(frame, answer, out),
    }
    Ok(Read::Taken)
}

/// The members of an object that mean something.
#[derive(Default)]
pub(super) struct Frame<'a> {
    /// `type`, which only v1 has.
    pub(super) v1: Option<Cow<'a, str>>,
    /// `object`
    kind: Cow<'a, str>,
    start: Start<'a>,
    created: Option<Json<'a>>,
    target: Option<Target>,
    choices: Option<Json<'a>>,
    usage: Option<Json<'a>>,
    error: Option<Json<'a>>,
    /// `tool_call`, `tool_result` or `image`.
    payload: Option<Json<'a>>,
}

impl<'a> Frame<'a> {
    /// Reads a text, if that is an object; and gives what it is.
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
            "model" => self.start.model = value.as_str().unwrap_or_default(),
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
            "tool_call" | "tool_result" | "image" => self.payload = Some(value),
            _ => {}
        }
    }

    /// The first choice: no other is ever asked for.
    fn choice(&self) -> Option<Json<'a>> {
        self.choices.and_then(|choices| choices.elements().next()).filter(|it| it.kind() == JsonKind::Object)
    }
}

fn target(value: Json<'_>) -> Option<Target> {
    value.as_str().filter(|name| !name.is_empty()).map(|name| Target::named(&name))
}

/// A completion chunk: a delta, a finish reason, usage, or only the head.
fn chunk<'a>(frame: &Frame<'a>, answer: &mut Answer, out: &mut impl Sink) -> Result<Read<'a>, Failure> {
    let choice = frame.choice();
    if let Some(usage) = frame.usage {
        answer.usage(usage, out);
    }
    let Some(choice) = choice else {
        let known = frame.usage.is_some() || frame.start != Start::default();
        return Ok(if known { Read::Taken } else { Read::Foreign });
    };
    let (mut delta, mut message, mut finish) = (None, None, None);
    for (key, value) in choice.members() {
        match key.as_ref() {
            "delta" if value.kind() == JsonKind::Object => delta = Some(value),
            "message" if value.kind() == JsonKind::Object => message = Some(value),
            "finish_reason" => finish = value.as_str(),
            _ => {}
        }
    }
    if delta.is_none() && message.is_some() {
        let message = "the upstream answered with one JSON body instead of a stream";
        return Err(Failure::new(Kind::Protocol, message));
    }
    let delta = delta.map(Delta::read);
    let target = delta.as_ref().and_then(|delta| delta.target).or(frame.target).unwrap_or(answer.requested());
    let mut token = match &delta {
        Some(delta) => delta.apply(target, frame.created, answer, out)?,
        None => None,
    };
    if let Some(reason) = finish.filter(|reason| !reason.is_empty()) {
        token = None;
        if reason == "error" {
            return Err(refusal::reported("error", None));
        }
        // A title in the same stream ends before the message does.
        if target != Target::Aside {
            answer.finish(finish_reason(&reason), out);
        }
    }
    Ok(token.filter(|_| frame.usage.is_none()).map_or(Read::Taken, Read::Token))
}

/// The members of a delta that mean something; `null` and empty ones are as good as missing.
#[derive(Default)]
struct Delta<'a> {
    is_sealed: bool,
    target: Option<Target>,
    content: &'a str,
    reasoning: &'a str,
    /// Both reasoning fields have text: copies of one another.
    reasoning_twice: bool,
    tool_calls: Option<Json<'a>>,
    function_call: Option<Json<'a>>,
}

impl<'a> Delta<'a> {
    fn read(object: Json<'a>) -> Self {
        let (mut delta, mut reasoning) = (Self::default(), "");
        for (key, value) in object.members() {
            let body = value.string_body().unwrap_or_default();
            match key.as_ref() {
                "content" => delta.content = body,
                "reasoning_content" => delta.reasoning = body,
                "reasoning" => reasoning = body,
                "encrypted" => delta.is_sealed = value.as_bool().unwrap_or(false),
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

    /// Gives all of it to the answer. `Some`: it was nothing but a token.
    fn apply(
        &self,
        target: Target,
        number: Option<Json<'a>>,
        answer: &mut Answer,
        out: &mut impl Sink,
    ) -> Result<Option<Token<'a>>, Failure> {
        let content = sealed::opened(self.is_sealed, self.content)?;
        let reasoning = sealed::opened(self.is_sealed, self.reasoning)?;
        if target != Target::Aside {
            answer.content(Target::Reasoning, reasoning, out)?;
        }
        answer.content(target, content, out)?;
        if let Some(tool_calls) = self.tool_calls {
            answer.call_deltas(tool_calls, out)?;
        }
        if let Some(function_call) = self.function_call {
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
        let more = self.function_call.is_some() || self.reasoning_twice || self.is_sealed;
        let token = token.filter(|(_, body)| !more && !body.is_empty());
        Ok(token.map(|(target, body)| Token { target, body, number }))
    }
}

/// What a finish reason means: OpenAI's own words and those that other servers behind the same API use.
fn finish_reason(reason: &str) -> Finish {
    match reason {
        "length" | "max_tokens" | "MAX_TOKENS" => Finish::Length,
        "tool_calls" | "function_call" | "tool_use" => Finish::Calls,
        "content_filter" | "harmful" | "SAFETY" => Finish::Filter,
        _ => Finish::Stop,
    }
}

fn tool_result(result: Json<'_>, answer: &mut Answer, out: &mut impl Sink) -> Result<(), Failure> {
    let id = result.get("call_id").and_then(|id| id.as_str()).unwrap_or_default();
    let content = match result.get("content") {
        None => Cow::Borrowed(""),
        Some(content) if content.is_null() => Cow::Borrowed(""),
        // Declared as a string, seen as an object: its text is the result.
        Some(content) => content.as_str().unwrap_or(Cow::Borrowed(content.raw())),
    };
    answer.server_result(&id, sealed::open(result, &content)?, out);
    Ok(())
}

fn image(image: Json<'_>, answer: &mut Answer, out: &mut impl Sink) -> Result<(), Failure> {
    let text = |key| image.get(key).and_then(|value| value.as_str()).unwrap_or_default();
    let data = text("data");
    sealed::open(image, &data)?;
    answer.media(Media { id: text("id"), mime: Cow::Borrowed(""), data }, out);
    Ok(())
}

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
    wire::json::{Json, Kind as JsonKind},
};

/// Reads `object`.
///
/// # Errors
/// The upstream reports one, or sent an encrypted piece, or a whole answer in place of a stream.
pub(super) fn read<'a>(
    object: Json<'a>,
    answer: &mut Answer,
    out: &mut impl Sink,
) -> Result<Read<'a>, Failure> {
    if answer.is_finished() && object.get("usage").is_none() {
        return Ok(Read::Taken);
    }
    let frame = Frame::read(object);
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
        _ => return chunk(&frame, answer, out),
    }
    Ok(Read::Taken)
}

/// The members of a v2 object that mean something.
struct Frame<'a> {
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
    fn read(object: Json<'a>) -> Self {
        let mut frame = Frame {
            kind: Cow::Borrowed(""),
            start: Start::default(),
            created: None,
            target: None,
            choices: None,
            usage: None,
            error: None,
            payload: None,
        };
        for (key, value) in object.members() {
            match key.as_ref() {
                "object" => frame.kind = value.as_str().unwrap_or_default(),
                "id" => frame.start.id = value.as_str().unwrap_or_default(),
                "model" => frame.start.model = value.as_str().unwrap_or_default(),
                "created" => {
                    frame.start.created = value.as_u64();
                    frame.created = value.as_u64().map(|_| value);
                }
                "target" => frame.target = target(value),
                "choices" => frame.choices = Some(value),
                "usage" if value.kind() == JsonKind::Object => frame.usage = Some(value),
                "error"
                    if matches!(value.kind(), JsonKind::Object)
                        || value.string_body().is_some_and(|it| !it.is_empty()) =>
                {
                    frame.error = Some(value);
                }
                "tool_call" | "tool_result" | "image" => frame.payload = Some(value),
                _ => {}
            }
        }
        frame
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
    let delta = choice.get("delta").filter(|delta| delta.kind() == JsonKind::Object);
    if delta.is_none() && choice.get("message").is_some_and(|message| message.kind() == JsonKind::Object) {
        let message = "the upstream answered with one JSON body instead of a stream";
        return Err(Failure::new(Kind::Protocol, message));
    }
    let delta = delta.map(Delta::read);
    let target = delta.as_ref().and_then(|delta| delta.target).or(frame.target).unwrap_or(answer.requested());
    let mut token = match &delta {
        Some(delta) => delta.apply(target, frame.created, answer, out)?,
        None => None,
    };
    let finish = choice.get("finish_reason").and_then(|reason| reason.as_str());
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
struct Delta<'a> {
    object: Json<'a>,
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
        let (mut content, mut reasoning_content, mut reasoning) = ("", "", "");
        let (mut target, mut tool_calls, mut function_call) = (None, None, None);
        for (key, value) in object.members() {
            let body = value.string_body().unwrap_or_default();
            match key.as_ref() {
                "content" => content = body,
                "reasoning_content" => reasoning_content = body,
                "reasoning" => reasoning = body,
                "target" => target = self::target(value),
                "tool_calls" if value.elements().next().is_some() => tool_calls = Some(value),
                "function_call" if value.kind() == JsonKind::Object => function_call = Some(value),
                _ => {}
            }
        }
        Self {
            object,
            target,
            content,
            reasoning: if reasoning_content.is_empty() { reasoning } else { reasoning_content },
            reasoning_twice: !reasoning_content.is_empty() && !reasoning.is_empty(),
            tool_calls,
            function_call,
        }
    }

    /// Gives all of it to the answer. `Some`: it was nothing but a token.
    fn apply(
        &self,
        target: Target,
        number: Option<Json<'a>>,
        answer: &mut Answer,
        out: &mut impl Sink,
    ) -> Result<Option<Token<'a>>, Failure> {
        let content = sealed::open(self.object, self.content)?;
        let reasoning = sealed::open(self.object, self.reasoning)?;
        if target != Target::Aside {
            answer.content(Target::Reasoning, reasoning, out)?;
        }
        answer.content(target, content, out)?;
        if let Some(tool_calls) = self.tool_calls {
            answer.call_deltas(tool_calls, out);
        }
        if let Some(function_call) = self.function_call {
            answer.legacy_call(function_call, out);
        }
        let token = match (self.tool_calls, target, content, reasoning) {
            (Some(calls), _, "", "") => {
                arguments_only(calls).map(|(index, body)| (Target::Arguments(index), body))
            }
            (None, Target::Message | Target::Reasoning, body, "") => Some((target, body)),
            (None, Target::Message | Target::Reasoning, "", body) => Some((Target::Reasoning, body)),
            _ => None,
        };
        let more = self.function_call.is_some() || self.reasoning_twice || sealed::is_sealed(self.object);
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

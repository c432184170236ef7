//! Interprets the typed objects of v1, which are also accepted in a v2 stream
//! (docs/protocols/lumo.md#v1-stream).

use std::borrow::Cow;

use super::{
    answer::{AnswerState, MAX_PARTS},
    refusal, sealed_payload,
    shapes::Token,
    target::Target,
};
use crate::{
    Skip,
    event::{Event, Finish, Media, Sink},
    failure::{Failure, Kind},
    finish,
    wire::json::{Json, Kind as JsonKind},
};

pub(super) enum Read<'a> {
    /// Not an object of this version.
    Foreign,
    Taken,
    /// Handled. The object contained only this token.
    Token(Token<'a>),
}

/// Handles `object`, whose `type` is `kind`.
///
/// # Errors
/// The upstream reports an error, or a piece is encrypted.
pub(super) fn read<'a>(
    kind: &str,
    object: Json<'a>,
    answer: &mut AnswerState,
    out: &mut impl Sink,
) -> Result<Read<'a>, Failure> {
    let message = || object.get("message").and_then(|message| message.as_str());
    match kind {
        "token_data" => return token(object, answer, out),
        "queued" => out.event(Event::Ping(Cow::Borrowed("queued"))),
        "ingesting" => {
            answer.segment(out);
            out.event(Event::Ping(Cow::Borrowed("ingesting")));
        }
        "image_data" => image(object, answer, out)?,
        // This version has no finish reasons, so its end marker also stands for a finish reason.
        "done" => {
            answer.finish(Finish::Stop, out);
            answer.end(out)?;
        }
        "harmful" => {
            answer.finish(Finish::Filter, out);
            answer.end(out)?;
        }
        // A response that has finished can no longer fail.
        "timeout" | "rejected" | "error" | "tool-error" if answer.is_finished() => {}
        "timeout" | "rejected" | "error" => return Err(refusal::reported(kind, message().as_deref())),
        "tool-error" => {
            let error = object.get("error");
            return Err(error.map_or_else(
                || Failure::new(Kind::Upstream, "the upstream reports a failed tool"),
                refusal::error_object,
            ));
        }
        _ => return Ok(Read::Foreign),
    }
    Ok(Read::Taken)
}

/// The failure that is named by an object's unknown type, as in `{"type":"network_error"}`.
pub(super) fn failure(kind: &str, object: Json<'_>) -> Option<Failure> {
    let failure = finish::failure_of(kind)?;
    let message = object.get("message").and_then(|message| message.as_str());
    Some(message.filter(|message| !message.is_empty()).map_or_else(
        || failure.clone(),
        |message| Failure::new(failure.kind(), message).with_code(failure.code().unwrap_or_default()),
    ))
}

/// Emits a piece of text for one of the channels. Without a target, it belongs to the requested one. `count`
/// is ignored, since it is often missing and never needed.
fn token<'a>(object: Json<'a>, answer: &mut AnswerState, out: &mut impl Sink) -> Result<Read<'a>, Failure> {
    if answer.is_finished() {
        answer.skip(Skip::LateContent);
        return Ok(Read::Taken);
    }
    let (mut target, mut content, mut count, mut is_sealed) = (answer.requested(), None, None, false);
    for (key, value) in object.members() {
        match key.as_ref() {
            "target" => {
                let name = value.as_str().filter(|name| !name.is_empty());
                target = name.map_or(answer.requested(), |name| Target::named(&name));
            }
            "content" => content = Some(value),
            "encrypted" => is_sealed |= sealed_payload::is_set(value),
            "count" if value.kind() == JsonKind::Number => count = Some(value),
            _ => {}
        }
    }
    let Some(content) = content else { return Ok(Read::Taken) };
    let Some(body) = content.string_body() else {
        answer.parts(target, content, is_sealed, MAX_PARTS, out)?;
        return Ok(Read::Taken);
    };
    let body = sealed_payload::opened(is_sealed, body)?;
    answer.content(target, body, out)?;
    let plain = matches!(target, Target::Message | Target::Reasoning) && !is_sealed;
    Ok(if plain { Read::Token(Token { target, body, number: count }) } else { Read::Taken })
}

/// Handles an image. Only the latest state of a progressive image is used.
fn image(object: Json<'_>, answer: &mut AnswerState, out: &mut impl Sink) -> Result<(), Failure> {
    if answer.is_finished() {
        answer.skip(Skip::LateContent);
        return Ok(());
    }
    let text = |key| object.get(key).and_then(|value| value.as_str()).unwrap_or_default();
    let data = text("data");
    sealed_payload::opened(sealed_payload::is_sealed(object), &data)?;
    let media = Media { id: text("image_id"), mime: Cow::Borrowed(""), data };
    match object.get("is_final").filter(|flag| !flag.is_null()) {
        Some(flag) if !sealed_payload::is_set(flag) => answer.unfinished_image(&media, out),
        _ => answer.media(media, out),
    }
    Ok(())
}

//! Threads: conversations that toolwire holds, so that clients send only what is new.
//!
//! ```text
//! {"thread": {"type": "create"}, …}  ─▶  {"toolwire_thread": true, …}
//! {"thread": {"type": "continue", "previous_message_id": "msg_1"}, "messages": [new], …}
//!     ─▶  {"toolwire_thread": true, "system" and "tools" of msg_1, "messages": [its messages, msg_1, new], …}
//! ```
//!
//! The input in a record is an object with the members that a thread holds. All other members belong to one
//! request (docs/protocols/messages.md#threads).

use std::{borrow::Cow, collections::HashSet};

use bytes::Bytes;
use memchr::memmem;

use super::request::HELD;
use crate::{
    References,
    failure::{Failure, Kind},
    fields::{Path, missing, wrong_type, wrong_value},
    records::{INPUT, RESPONSE, list, parsed, with_records},
    wire::{
        json::{Encoder, Json, Kind as JsonKind},
        text::{boundary_upto, head},
    },
};

const THREAD: &str = "thread";
const PREVIOUS: &str = "previous_message_id";
const MESSAGES: &str = "messages";

/// The members that requests which continue a thread do not repeat.
const KEPT: [&str; 2] = ["system", "tools"];

/// Whether a request may have a thread.
pub(super) fn may_refer(body: &[u8]) -> bool {
    memmem::find(body, b"\"thread\"").is_some()
}

/// What the request continues. Empty if the body is not a request, in which case decoding it will fail.
pub(super) fn references(body: &[u8]) -> References {
    let read = |body: Json<'_>| {
        let Some(thread) = member(body, THREAD) else { return References::default() };
        let previous = continued(thread).and_then(|id| id?.as_str()).map(Into::into);
        References { previous, is_held: true, ..References::default() }
    };
    parsed(body, read).unwrap_or_default()
}

/// The last member with this key, unless it is null.
fn member<'a>(object: Json<'a>, key: &str) -> Option<Json<'a>> {
    let values = object.members().filter_map(|(name, value)| (name == key).then_some(value));
    values.last().filter(|value| !value.is_null())
}

fn text_of<'a>(object: Json<'a>, key: &str) -> Option<Cow<'a, str>> {
    object.get(key)?.as_str()
}

/// What a thread to continue has as [`PREVIOUS`]. `None` if the thread is not to be continued.
fn continued(thread: Json<'_>) -> Option<Option<Json<'_>>> {
    (text_of(thread, "type").as_deref() == Some("continue")).then(|| member(thread, PREVIOUS))
}

/// The request with its history. `records` has at most one element, for the message that is continued.
///
/// # Errors
/// The message is not stored, `thread` is not one, or the request changes what its thread holds.
pub(super) fn with_history(
    body: &[u8],
    references: &References,
    records: &[Option<Bytes>],
) -> Result<Bytes, Failure> {
    with_records(records, JsonKind::Object, |records| {
        let previous = match &references.previous {
            Some(id) => Some(records.into_iter().next().flatten().ok_or_else(|| unknown_thread(id))?),
            None => None,
        };
        let written = parsed(body, |body| {
            check(body)?;
            write(body, previous)
        });
        written.unwrap_or_else(|| Ok(Bytes::copy_from_slice(body)))
    })
}

/// Checks the form of `thread`.
fn check(body: Json<'_>) -> Result<(), Failure> {
    let path = Path::Member(&Path::Body, THREAD);
    let Some(thread) = member(body, THREAD) else { return Ok(()) };
    if thread.kind() != JsonKind::Object {
        return Err(wrong_type(path, "an object", thread));
    }
    let previous = Path::Member(&path, PREVIOUS);
    match (text_of(thread, "type").as_deref(), continued(thread).flatten()) {
        (Some("create"), _) => Ok(()),
        (Some("continue"), Some(id)) if id.as_str().is_some() => Ok(()),
        (Some("continue"), Some(id)) => Err(wrong_type(previous, "a string", id)),
        (Some("continue"), None) => Err(missing(previous, "the `id` of the message to continue")),
        (Some(_), _) => {
            Err(wrong_value(Path::Member(&path, "type"), "is unknown; known are `create` and `continue`"))
        }
        (None, _) => Err(missing(Path::Member(&path, "type"), "`create` or `continue`")),
    }
}

fn write(body: Json<'_>, previous: Option<Json<'_>>) -> Result<Bytes, Failure> {
    let held = previous.and_then(|record| record.get(INPUT));
    if let Some(held) = held {
        check_kept(body, held)?;
    }
    let messages = member(body, MESSAGES);
    if let Some(messages) = messages.filter(|messages| messages.kind() != JsonKind::Array) {
        return Err(wrong_type(Path::Member(&Path::Body, MESSAGES), "an array", messages));
    }
    let is_kept = |key: &str| KEPT.contains(&key) && held.is_some();
    let mut request = Encoder::with_capacity(body.raw().len());
    request.object(|request| {
        for (key, value) in body.members() {
            if !matches!(&*key, THREAD | HELD | MESSAGES) && !is_kept(&key) {
                request.key(&key).raw(value);
            }
        }
        request.key(HELD).value(&true);
        for (key, value) in KEPT.iter().filter_map(|key| Some((key, held?.get(key)?))) {
            request.key(key).raw(value);
        }
        request.key(MESSAGES).array(|request| {
            let response = previous.and_then(|record| record.get(RESPONSE));
            if !response.is_some_and(is_compaction) {
                list(held.and_then(|held| held.get(MESSAGES))).for_each(|message| request.raw(message));
            }
            if let Some(response) = response {
                put_turn(request, response, &answered(messages));
            }
            list(messages).for_each(|message| request.raw(message));
        });
    });
    Ok(request.finish())
}

/// Checks that the request does not change what its thread holds.
fn check_kept(body: Json<'_>, held: Json<'_>) -> Result<(), Failure> {
    let value = |object: Json<'_>, key: &str| member(object, key).map(|value| value.to_value());
    let is_other = |key: &&str| value(body, key).is_some_and(|own| value(held, key) != Some(own));
    match KEPT.into_iter().find(is_other) {
        Some(key) => {
            let message = format!(
                "`{key}` differs from that of the thread; leave it out, or send the whole conversation with \
                 `\"thread\": {{\"type\": \"create\"}}`"
            );
            Err(Failure::new(Kind::Request, message).with_param(key).with_code("thread_fingerprint_mismatch"))
        }
        None => Ok(()),
    }
}

/// The ids of the calls whose results are in `messages`.
fn answered(messages: Option<Json<'_>>) -> HashSet<String> {
    let blocks = list(messages).flat_map(|message| list(message.get("content")));
    blocks.filter_map(|block| Some(text_of(block, "tool_use_id")?.into_owned())).collect()
}

/// Whether a response is a summary that replaces what precedes it.
fn is_compaction(response: Json<'_>) -> bool {
    let is_summary = |block: Json<'_>| {
        text_of(block, "type").as_deref() == Some("compaction") && text_of(block, "content").is_some()
    };
    list(response.get("content")).any(is_summary)
}

/// Writes a response as a turn of the conversation. A call that was cut off is useful only if it has a result.
fn put_turn(messages: &mut Encoder, response: Json<'_>, answered: &HashSet<String>) {
    let is_at_limit = text_of(response, "stop_reason").as_deref() == Some("max_tokens");
    let is_cut = |block: &Json<'_>| {
        is_at_limit
            && text_of(*block, "type").as_deref() == Some("tool_use")
            && block.get("input").is_none_or(|input| input.kind() != JsonKind::Object)
    };
    let is_answered = |block: &Json<'_>| text_of(*block, "id").is_some_and(|id| answered.contains(&*id));
    let blocks: Vec<_> =
        list(response.get("content")).filter(|block| !is_cut(block) || is_answered(block)).collect();
    if blocks.is_empty() {
        return;
    }
    messages.object(|message| {
        message.key("role").string("assistant");
        message.key("content").array(|content| blocks.into_iter().for_each(|block| content.raw(block)));
    });
}

/// What is stored of the request in `body`, which includes its history.
pub(super) fn input(body: &[u8]) -> Option<Bytes> {
    parsed(body, |body| {
        let mut input = Encoder::with_capacity(body.raw().len());
        input.object(|input| {
            for (key, value) in
                KEPT.iter().chain(&[MESSAGES]).filter_map(|key| Some((key, member(body, key)?)))
            {
                input.key(key).raw(value);
            }
        });
        input.finish()
    })
}

/// The failure for a request that continues a message which is not stored, and would therefore lose its
/// history. The SDKs then send the whole conversation as a new thread.
fn unknown_thread(id: &str) -> Failure {
    const SHOWN: usize = 128;
    let id = head(id, boundary_upto(id, SHOWN));
    let message = format!(
        "there is no thread with the message `{id}`; send the whole conversation with `\"thread\": {{\"type\": \"create\"}}`"
    );
    let failure = Failure::new(Kind::NotFound, message).with_param("thread.previous_message_id");
    failure.with_code("thread_not_found")
}

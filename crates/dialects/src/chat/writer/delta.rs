//! Objects that occur both in streams and in complete responses.

use serde_json::{Map, Value, json};

use crate::{
    conversation::own_id,
    event::{Annotation, CallResult, Finish, Media, Runner, ServerCall, Warning},
    finish,
};

/// Adds an index to a list element. Client libraries join lists in deltas by `index`, and some fail without
/// it.
pub(super) fn numbered(mut element: Value, place: usize) -> Value {
    if let Some(object) = element.as_object_mut() {
        object.shift_insert(0, "index".to_owned(), place.into());
    }
    element
}

/// A citation as OpenAI's web search reports it.
pub(super) fn annotation(annotation: &Annotation<'_>) -> Value {
    json!({
        "type": "url_citation",
        "url_citation": {
            "start_index": annotation.span.0,
            "end_index": annotation.span.1,
            "title": annotation.title,
            "url": annotation.url,
        },
    })
}

/// An image in the response, as OpenRouter sends it. `None` if only the image's id is known.
pub(super) fn image(media: &Media<'_>) -> Option<Value> {
    if media.data.is_empty() {
        return None;
    }
    let mime = if media.mime.is_empty() { "image/png" } else { &*media.mime };
    let url = format!("data:{mime};base64,{}", media.data);
    let mut image = json!({"type": "image_url", "image_url": {"url": url}});
    if let (Some(object), false) = (image.as_object_mut(), media.id.is_empty()) {
        object.insert("id".to_owned(), media.id.as_ref().into());
    }
    Some(image)
}

/// The result of a call that the upstream or toolwire ran, for toolwire's extension field `tool_results`.
pub(super) fn result(result: &CallResult<'_>) -> Value {
    let mut object = Map::new();
    object.insert("index".to_owned(), result.index.into());
    object.insert("id".to_owned(), result.id.as_ref().into());
    object.insert("content".to_owned(), result.content.as_ref().into());
    if result.is_error {
        object.insert("is_error".to_owned(), true.into());
    }
    object.into()
}

/// Hosted calls that are still running. A call and its result form a single list element, so the call is held
/// until it has a result.
#[derive(Debug, Default)]
pub(super) struct Running(Vec<ServerCall<'static>>);

impl Running {
    /// Returns the call with its result, or `None` if it is still running.
    pub(super) fn whole<'c>(&mut self, call: &'c ServerCall<'_>) -> Option<ServerCall<'c>> {
        let is_own = call.runner == Runner::Toolwire;
        if is_own && call.content.is_none() {
            self.0.push(call.clone().into_owned());
            return None;
        }
        let mut whole = call.clone();
        if is_own
            && whole.arguments.is_none()
            && let Some(place) = self.0.iter().position(|begun| begun.id == call.id)
        {
            whole.arguments = self.0.remove(place).arguments;
        }
        Some(whole)
    }
}

/// A call that the upstream or toolwire ran and that is not one of the response's own calls. It is part of
/// `tool_results` as well.
pub(super) fn server_call(call: &ServerCall<'_>) -> Value {
    let mut object = Map::new();
    object.insert("id".to_owned(), own_id("call", &call.id).into());
    object.insert("name".to_owned(), call.name.as_ref().into());
    for (key, text) in [("arguments", &call.arguments), ("content", &call.content)] {
        if let Some(text) = text {
            object.insert(key.to_owned(), text.as_ref().into());
        }
    }
    if let Some(details) =
        call.details.as_deref().and_then(|details| serde_json::from_str::<Value>(details).ok())
    {
        object.insert("details".to_owned(), details);
    }
    if call.is_error {
        object.insert("is_error".to_owned(), true.into());
    }
    object.into()
}

/// An element of `warnings` in the extension field `toolwire`.
pub(super) fn warning(warning: &Warning<'_>) -> Value {
    json!({"code": warning.code, "message": warning.message})
}

/// toolwire's extension field `toolwire`, which is a sibling of `choices` in the last chunk or in the
/// complete response.
pub(super) fn notes(warnings: Vec<Value>) -> Value {
    json!({ "warnings": warnings })
}

pub(super) fn finish_word(finish: Finish, legacy_functions: bool) -> &'static str {
    let legacy = legacy_functions && finish == Finish::Calls;
    if legacy { "function_call" } else { finish::finish_word(finish) }
}

//! Writes the parts of a content, except text.

use std::borrow::Cow;

use crate::google_signatures::signature;
use crate::{
    conversation::own_id,
    event::{CallResult, CallStart, Media, Opaque, Runner, ServerCall},
    wire::json::{Encoder, Json, Kind},
};

/// A call whose arguments are arriving.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) index: u32,
    id: String,
    name: String,
    signature: Option<String>,
    is_hosted: bool,
    pub(super) arguments: String,
}

/// A call that cannot be written, because its arguments are no object.
pub(super) struct Broken;

impl Call {
    pub(super) fn new(start: &CallStart<'_>) -> Self {
        Self {
            index: start.index,
            id: start.id.to_string(),
            name: start.name.to_string(),
            signature: start.signature.as_ref().map(|state| signature(state, false).into_owned()),
            is_hosted: start.runner != Runner::Client,
            arguments: String::new(),
        }
    }

    /// Size in bytes, without the overhead of storing it.
    pub(super) fn size(&self) -> usize {
        self.id.len() + self.name.len() + self.arguments.len()
    }

    /// Writes the part. If the call has no signature of its own, it gets `pending`.
    ///
    /// # Errors
    /// The arguments are no object.
    pub(super) fn put(&self, pending: Option<&str>, body: &mut Encoder) -> Result<(), Broken> {
        let given = self.arguments.trim_ascii();
        let given = if given.is_empty() { "{}" } else { given };
        let args = Json::parse(given).ok().filter(|args| args.kind() == Kind::Object).ok_or(Broken)?;
        body.object(|body| {
            if self.is_hosted {
                body.key("toolCall").object(|body| tool_call(body, &self.id, &self.name, args));
            } else {
                body.key("functionCall").object(|body| {
                    if !self.id.is_empty() {
                        body.key("id").string(&self.id);
                    }
                    body.key("name").string(&self.name);
                    put_line(body.key("args"), args);
                });
            }
            if let Some(signature) = self.signature.as_deref().or(pending) {
                body.key("thoughtSignature").string(signature);
            }
        });
        Ok(())
    }

    /// Describes a call that is not written, with all that has arrived of it.
    pub(super) fn described(&self, why: &str) -> String {
        format!("The call of `{}` {why}: {}", self.name, self.arguments)
    }
}

/// Writes JSON on one line. The model may have written it on several.
fn put_line(body: &mut Encoder, json: Json<'_>) {
    if json.raw().contains(['\n', '\r']) { body.compact(json) } else { body.raw(json) }
}

fn tool_call(body: &mut Encoder, id: &str, name: &str, args: Json<'_>) {
    body.key("id").string(id);
    put_tool(body, name);
    put_line(body.key("args"), args);
}

/// Writes the name of a tool that the client does not run. The API has words for Google's tools only.
fn put_tool(body: &mut Encoder, name: &str) {
    let kind = match name {
        "web_search" | "google_search" | "google_search_web" => Some("GOOGLE_SEARCH_WEB"),
        "google_search_image" => Some("GOOGLE_SEARCH_IMAGE"),
        "url_context" | "web_fetch" => Some("URL_CONTEXT"),
        "google_maps" => Some("GOOGLE_MAPS"),
        "file_search" => Some("FILE_SEARCH"),
        _ => None,
    };
    if let Some(kind) = kind {
        body.key("toolType").string(kind);
    }
    body.key("name").string(name);
}

/// Writes the part for the result of a call that the client did not run.
pub(super) fn result(result: &CallResult<'_>, body: &mut Encoder) {
    body.object(|body| tool_response(body, &result.id, None, &result.content, result.is_error));
}

fn tool_response(body: &mut Encoder, id: &str, name: Option<&str>, content: &str, is_error: bool) {
    body.key("toolResponse").object(|body| {
        body.key("id").string(id);
        name.into_iter().for_each(|name| put_tool(body, name));
        let object = Json::parse(content.trim_ascii()).ok().filter(|json| json.kind() == Kind::Object);
        match object.filter(|_| !is_error) {
            Some(object) => put_line(body.key("response"), object),
            None => body.key("response").object(|body| {
                body.key(if is_error { "error" } else { "output" }).string(content);
            }),
        }
    });
}

/// Writes the parts for a call that the upstream or toolwire ran: the call and its result, as far as they are
/// known.
pub(super) fn server_call(call: &ServerCall<'_>, mut put: impl FnMut(&dyn Fn(&mut Encoder))) {
    let id = own_id("call", &call.id);
    let is_code = call.name == CODE_EXECUTION && call.runner == Runner::Upstream;
    if let Some(given) = &call.arguments {
        let given = as_object(given);
        if let Ok(args) = Json::parse(&given) {
            let is_code = is_code && args.get("code").is_some();
            put(&|body| {
                body.object(|body| match is_code {
                    true => put_line(body.key("executableCode"), args),
                    false => body.key("toolCall").object(|body| tool_call(body, &id, &call.name, args)),
                });
            });
        }
    }
    match &call.content {
        Some(content) if is_code => put(&|body| {
            body.object(|body| {
                body.key("codeExecutionResult").object(|body| {
                    body.key("outcome").string(if call.is_error { "OUTCOME_FAILED" } else { "OUTCOME_OK" });
                    body.key("output").string(content);
                });
            });
        }),
        Some(content) => put(&|body| {
            body.object(|body| tool_response(body, &id, Some(&call.name), content, call.is_error));
        }),
        None => {}
    }
}

/// Arguments as an object, which the API requires. Others become its only member.
fn as_object(arguments: &str) -> Cow<'_, str> {
    let given = arguments.trim_ascii();
    if given.is_empty() {
        return Cow::Borrowed("{}");
    }
    if Json::parse(given).is_ok_and(|json| json.kind() == Kind::Object) {
        return Cow::Borrowed(given);
    }
    let mut object = Encoder::default();
    object.object(|object| object.key("input").string(arguments));
    Cow::Owned(object.finish_text())
}

/// The name that readers give to code execution.
const CODE_EXECUTION: &str = "code_execution";

/// Writes the part for a file or an image.
pub(super) fn media(media: &Media<'_>, body: &mut Encoder) {
    body.object(|body| {
        if media.data.is_empty() {
            body.key("fileData").object(|body| {
                put_mime(body, &media.mime);
                body.key("fileUri").string(&media.id);
            });
        } else {
            body.key("inlineData").object(|body| {
                put_mime(body, if media.mime.is_empty() { "image/png" } else { &media.mime });
                body.key("data").string(&media.data);
            });
        }
    });
}

fn put_mime(body: &mut Encoder, mime: &str) {
    if !mime.is_empty() {
        body.key("mimeType").string(mime);
    }
}

/// Writes a thought. `state` is the state of the thoughts so far.
pub(super) fn thought(text: &str, state: Option<(&Opaque<'_>, bool)>, body: &mut Encoder) {
    body.object(|body| {
        body.key("text").string(text);
        body.key("thought").value(&true);
        if let Some((state, redacted)) = state {
            body.key("thoughtSignature").string(&signature(state, redacted));
        }
    });
}

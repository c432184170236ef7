//! Reads a part of a content.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::DIALECT;
use crate::{
    conversation::{Call, CallOutput, Part, Received, Text, is_own_id},
    event::Opaque,
    failure::Failure,
    field_case::camel_case,
    fields::{Fields, Path, wrong_type},
    google_signatures::state,
    media::data_url,
    wire::json::{Encoder, Json, Kind},
};

/// The start of the ids of calls that the client sent without an id. Upstreams of this API do not receive them.
pub(in super::super) const GENERATED_ID: &str = "call_unnamed_";

/// What a part of a content says.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) part: Option<Part>,
    /// The state of the reasoning before the part, and whether that reasoning is withheld.
    pub(super) signature: Option<(Opaque<'static>, bool)>,
    /// The media in a result.
    pub(super) media: Vec<Part>,
    /// The part as it was received, if `part` does not contain all of its information.
    pub(super) original: Option<Value>,
}

/// Reads a part member by member, so that an error can name the invalid one.
pub(super) fn read(path: Path<'_>, element: Json<'_>) -> Result<Said, Failure> {
    let mut fields = Fields::in_camel_case(path, element)?;
    let is_thought = fields.boolean("thought")?.unwrap_or(false);
    let signature = fields.string("thoughtSignature")?.filter(|text| !text.is_empty());
    let mut said =
        Said { part: None, signature: signature.map(|text| state(&text)), media: Vec::new(), original: None };
    let mut has_more = false;
    if let Some(call) = fields.object("functionCall")? {
        let (mut call, more) = function_call(call)?;
        call.signature = said.signature.take().map(|(state, _)| state);
        said.part = Some(Part::Call(call));
        has_more = more;
    } else if let Some(response) = fields.object("functionResponse")? {
        let (output, media, more) = function_response(response)?;
        said.part = Some(Part::Result(output));
        has_more = more && media.is_empty();
        said.media = media;
    } else if let Some(data) = fields.object("inlineData")? {
        let (image, more) = inline_data(data)?;
        said.part = Some(image);
        has_more = more;
    } else if let Some(text) = fields.peek("text") {
        fields.any("text");
        said.part = match is_thought {
            true => {
                let text = text.as_str().ok_or_else(|| wrong_type(fields.at("text"), "a string", text))?;
                let (signature, redacted) = said.signature.take().unzip();
                let redacted = redacted.unwrap_or(false);
                Some(Part::Reasoning { text: text.into_owned(), signature, redacted })
            }
            false => Some(Part::Text(
                Text::received(text).ok_or_else(|| wrong_type(fields.at("text"), "a string", text))?,
            )),
        };
    } else if let Some(own) = own(element) {
        said.part = Some(own);
        return Ok(said);
    } else if !fields.into_rest().is_empty() {
        let other = said.signature.is_none().then(|| normalized(element));
        let other = other.unwrap_or_else(|| without_signature(normalized(element)));
        said.part = Some(Part::Other(Received::new(DIALECT, other)));
        return Ok(said);
    } else {
        return Ok(said);
    }
    has_more |= !fields.into_rest().is_empty();
    let is_signed =
        said.signature.is_some() || matches!(&said.part, Some(Part::Call(call)) if call.signature.is_some());
    said.original = (has_more && !is_signed).then(|| normalized(element));
    Ok(said)
}

/// Whether `part` could have been read from `original`, apart from its id. This runs for many parts, so it copies
/// nothing large.
pub(in super::super) fn means(original: &Value, part: &Part) -> bool {
    let text = |value: &Value, key: &str, said: &str| value.get(key).and_then(Value::as_str) == Some(said);
    let inner = |key: &str| original.get(key);
    match part {
        Part::Text(said) => text(original, "text", said) && inner("thought").is_none(),
        Part::Reasoning { text: said, .. } => text(original, "text", said) && inner("thought").is_some(),
        Part::Image { url, .. } => inner("inlineData").is_some_and(|data| {
            let given = data_url(url);
            given.is_some_and(|(mime, said)| text(data, "mimeType", mime) && text(data, "data", said))
        }),
        Part::Call(call) => inner("functionCall").is_some_and(|original| {
            let is_same = || match original.get("args") {
                Some(args) => serde_json::from_str::<Value>(&call.arguments).is_ok_and(|own| own == *args),
                None => call.arguments == "{}",
            };
            text(original, "name", &call.name) && is_same()
        }),
        Part::Result(output) => inner("functionResponse").is_some_and(|original| {
            text(original, "name", &output.name)
                && original.get("response").is_none_or(|response| is_output(response, output))
        }),
        Part::Other(_) => false,
    }
}

/// Whether `response` contains this result.
fn is_output(response: &Value, output: &CallOutput) -> bool {
    let key = if output.is_error { "error" } else { "output" };
    match response.get(key).and_then(Value::as_str) {
        Some(text) if response.as_object().is_some_and(|members| members.len() == 1) => {
            text == output.content
        }
        _ => serde_json::from_str::<Value>(&output.content).is_ok_and(|own| own == *response),
    }
}

/// A call, and whether it has other members.
fn function_call(mut fields: Fields<'_, '_>) -> Result<(Call, bool), Failure> {
    let id = fields.string("id")?.unwrap_or_default();
    let name = fields.needed_string("name")?;
    let arguments = match fields.any("args") {
        Some(args) if args.kind() == Kind::Object => compact(args),
        Some(args) => return Err(wrong_type(fields.at("args"), "an object", args)),
        None => "{}".to_owned(),
    };
    Ok((Call::new(id, name, arguments), !fields.into_rest().is_empty()))
}

/// A result, its media, and whether it has members beyond these.
fn function_response(mut fields: Fields<'_, '_>) -> Result<(CallOutput, Vec<Part>, bool), Failure> {
    let id = fields.string("id")?.unwrap_or_default().into_owned();
    let name = fields.needed_string("name")?.into_owned();
    let (content, is_error, is_exact) = match fields.any("response") {
        Some(response) if response.kind() == Kind::Object => output(response),
        Some(response) => return Err(wrong_type(fields.at("response"), "an object", response)),
        None => (String::new(), false, false),
    };
    let mut media = Vec::new();
    let parts = fields.list("parts")?;
    let path = fields.at("parts");
    for (place, part) in parts.enumerate() {
        media.extend(read(Path::Element(&path, place), part)?.part);
    }
    let has_more = !is_exact || !fields.into_rest().is_empty();
    Ok((CallOutput { id, name, content, is_error }, media, has_more))
}

/// The text of a result, whether the call failed, and whether the text and that are all that `response` says.
///
/// By Google's convention, the member `output` contains what a function returned and `error` why it failed; if
/// there is neither, the whole object is the result.
fn output(response: Json<'_>) -> (String, bool, bool) {
    let mut members = response.members();
    let only = members.next().filter(|_| members.next().is_none());
    let text = only.and_then(|(key, value)| Some((key, value.as_str()?)));
    match text {
        Some((key, text)) if key == "output" => {
            let is_exact = !Json::parse(text.trim_ascii()).is_ok_and(|json| is_container(json));
            (text.into_owned(), false, is_exact)
        }
        Some((key, text)) if key == "error" => (text.into_owned(), true, true),
        // A model reads this text, so escapes that JSON does not need are decoded.
        _ => (response.to_value().to_string(), false, true),
    }
}

fn is_container(json: Json<'_>) -> bool {
    matches!(json.kind(), Kind::Object | Kind::Array)
}

fn inline_data(mut fields: Fields<'_, '_>) -> Result<(Part, bool), Failure> {
    let mime = fields.string("mimeType")?.unwrap_or_default();
    let data = fields.needed_string("data")?;
    let url = format!("data:{mime};base64,{data}");
    Ok((Part::Image { url, detail: None }, !fields.into_rest().is_empty()))
}

/// A call that toolwire ran, or its result, as toolwire wrote it.
fn own(element: Json<'_>) -> Option<Part> {
    let member = |keys: [&str; 2]| keys.into_iter().find_map(|key| element.get(key));
    let text =
        |json: Json<'_>, key: &str| json.get(key).and_then(|value| value.as_str()).map(Cow::into_owned);
    let own_id = |json: Json<'_>| text(json, "id").filter(|id| is_own_id(id));
    if let Some(call) = member(["toolCall", "tool_call"]) {
        let arguments = call.get("args").filter(|args| args.kind() == Kind::Object);
        let arguments = arguments.map_or_else(|| "{}".to_owned(), compact);
        return Some(Part::Call(Call::new(own_id(call)?, text(call, "name").unwrap_or_default(), arguments)));
    }
    let result = member(["toolResponse", "tool_response"])?;
    let (content, is_error, _) = result.get("response").map(output).unwrap_or_default();
    let name = String::new();
    Some(Part::Result(CallOutput { id: own_id(result)?, name, content, is_error }))
}

/// A part with the names of its members in camel case.
fn normalized(element: Json<'_>) -> Value {
    members(element, |value| match value.kind() {
        Kind::Object => members(value, |value| value.to_value()),
        _ => value.to_value(),
    })
}

fn members<'a>(object: Json<'a>, convert: impl Fn(Json<'a>) -> Value) -> Value {
    let members = object.members().map(|(key, value)| (camel_case(key).into_owned(), convert(value)));
    members.collect::<Map<_, _>>().into()
}

fn without_signature(mut part: Value) -> Value {
    part.as_object_mut().and_then(|part| part.shift_remove("thoughtSignature"));
    part
}

/// The JSON of a value, without white space between tokens.
fn compact(json: Json<'_>) -> String {
    let mut compact = Encoder::with_capacity(json.raw().len());
    compact.compact(json);
    compact.finish_text()
}

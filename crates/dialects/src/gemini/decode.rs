//! Decodes a client's request body into a [`Conversation`] (docs/protocols/gemini.md#clients).
//!
//! The API accepts every name in camel case and in snake case, and so does the decoder. What the path of a
//! request says has been added to its body, see [`crate::ClientSide::complete`].

mod calls;
mod config;
mod contents;
mod openapi;
mod part;
mod tools;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::{
    Dialect,
    conversation::{Conversation, Rest},
    failure::Failure,
    fields::{self, Fields, Path},
    wire::json::Json,
};

pub(super) use config::TEXT_ONLY;
pub(super) use part::{GENERATED_ID, means};
pub(super) use tools::stands_for;

const DIALECT: &str = Dialect::Gemini.name();

/// The members of `toolwire_path`.
pub(super) const MODEL: &str = "model";
pub(super) const STREAM: &str = "stream";
pub(super) const ARRAY: &str = "array";

/// The member that `toolwire_path` is read as.
const PATH: &str = "toolwirePath";

/// The member in which a request for a token count may contain another request.
const INNER: &str = "generateContentRequest";

/// Decodes a request without checking the tool choice.
///
/// # Errors
/// [`Kind::Request`](crate::failure::Kind::Request) with the path of the field in `param`, and a message that
/// helps to correct the request.
pub(super) fn read(body: &Bytes) -> Result<Conversation, Failure> {
    fields::read_json(body, |json| {
        let mut fields = Fields::in_camel_case(Path::Body, json)?;
        let said = fields.any(PATH);
        match fields.object(INNER)? {
            Some(inner) => conversation(inner, said),
            None => conversation(fields, said),
        }
    })
}

/// Decodes the fields of a request. `said` is what its path says.
fn conversation(mut fields: Fields<'_, '_>, said: Option<Json<'_>>) -> Result<Conversation, Failure> {
    let said = |key: &str| said.and_then(|said| said.get(key));
    let own = fields.string("model")?;
    let model = said(MODEL).and_then(|model| model.as_str()).or(own).unwrap_or_default();
    let flag = |key: &str| said(key).and_then(|flag| flag.as_bool()).unwrap_or(false);
    let mut turns = contents::instructions(&mut fields)?;
    turns.extend(contents::take(&mut fields)?);
    let toolbox = tools::take(&mut fields)?;
    let config = config::take(&mut fields)?;
    let mut repeated = Map::new();
    for (name, is_set) in [(ARRAY, flag(ARRAY)), (TEXT_ONLY, !config.includes_thoughts)] {
        if is_set {
            repeated.insert(name.to_owned(), Value::Bool(true));
        }
    }
    Ok(Conversation {
        model: model.strip_prefix("models/").unwrap_or(&model).to_owned(),
        turns,
        tools: toolbox.tools,
        server_tools: toolbox.server,
        tool_choice: toolbox.choice,
        parallel_calls: true,
        stream: flag(STREAM),
        // Every response in this API has token counts.
        include_usage: true,
        sampling: config.sampling,
        repeated: Rest::new(DIALECT, repeated),
        rest: Rest::new(DIALECT, fields.into_rest()),
        ..Conversation::default()
    })
}

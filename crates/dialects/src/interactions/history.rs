//! Stored interactions: what is stored, and how a request that continues one is completed with the history.
//!
//! The input in a record is `{"steps": […]}`, so it differs from the inputs of other dialects.
//!
//! ```text
//! {"previous_interaction_id": "v1_1", "input": new}  ─▶  {"input": [record's steps, record's response's steps, new], …}
//! ```

use bytes::Bytes;

use super::{CONTINUED, PREVIOUS};
use crate::{
    References,
    endpoint::parameter,
    failure::{Failure, Kind},
    records::{INPUT, RESPONSE, list, parsed, with_records},
    wire::json::{Encoder, Json, Kind as JsonKind},
};

const STEPS: &str = "steps";

/// The longest id that an error quotes, in characters.
const SHOWN: usize = 80;

/// The stored interaction that a request continues.
pub(super) fn references(body: &[u8]) -> References {
    // Google's servers take an empty id for none.
    let read = |body: Json<'_>| body.get(PREVIOUS)?.as_str().filter(|id| !id.is_empty()).map(Into::into);
    References { previous: parsed(body, read).flatten(), ..References::default() }
}

/// The failure for a request that continues an interaction which is not stored.
pub(super) fn unknown_interaction(id: &str) -> Failure {
    let id: String = id.chars().take(SHOWN).collect();
    let message = format!("there is no stored interaction `{id}`; send the whole conversation as `input`");
    Failure::new(Kind::NotFound, message).with_param(PREVIOUS).with_code("interaction_not_found")
}

/// The request, with the history that it refers to in its `input`.
///
/// # Errors
/// The record is missing.
pub(super) fn with_history(
    body: &[u8],
    references: &References,
    records: &[Option<Bytes>],
) -> Result<Bytes, Failure> {
    let Some(id) = &references.previous else { return Ok(Bytes::copy_from_slice(body)) };
    with_records(records, JsonKind::Object, |records| {
        let record = records.into_iter().next().flatten().filter(|record| steps_of(*record).is_some());
        let record = record.ok_or_else(|| unknown_interaction(id))?;
        let written = parsed(body, |body| {
            let mut request = Encoder::with_capacity(body.raw().len() + record.raw().len());
            request.object(|request| {
                let others =
                    body.members().filter(|(key, _)| !matches!(&**key, INPUT | PREVIOUS | CONTINUED));
                others.for_each(|(key, value)| request.key(&key).raw(value));
                request.key(CONTINUED).string(id);
                request.key(INPUT).array(|steps| {
                    steps_of(record)
                        .into_iter()
                        .flat_map(|list| list.elements())
                        .for_each(|step| steps.raw(step));
                    list(record.get(RESPONSE).and_then(|response| response.get(STEPS)))
                        .for_each(|step| steps.raw(step));
                    put_input(steps, body.get(INPUT));
                });
            });
            request.finish()
        });
        Ok(written.unwrap_or_else(|| Bytes::copy_from_slice(body)))
    })
}

/// Writes an input as elements of a list of steps.
fn put_input(steps: &mut Encoder, input: Option<Json<'_>>) {
    let Some(input) = input.filter(|input| !input.is_null()) else { return };
    match (input.kind(), input.as_str()) {
        (JsonKind::Array, _) => input.elements().for_each(|step| steps.raw(step)),
        (_, Some(text)) => steps.object(|content| {
            content.key("type").string("text");
            content.key("text").string(&text);
        }),
        _ => steps.raw(input),
    }
}

/// The input of the request in `body`, including its history.
pub(super) fn input(body: &Bytes) -> Option<Bytes> {
    parsed(body, |json| {
        let mut input = Encoder::default();
        input.object(|input| input.key(STEPS).array(|steps| put_input(steps, json.get(INPUT))));
        input.finish()
    })
}

fn steps_of(record: Json<'_>) -> Option<Json<'_>> {
    record.get(INPUT)?.get(STEPS).filter(|steps| steps.kind() == JsonKind::Array)
}

/// The interaction in a record, with its input and the history of that if `query` asks for it. `None` if it is a record
/// of another dialect.
pub(super) fn response(record: &[u8], query: Option<&str>) -> Option<Bytes> {
    let has_input = query
        .and_then(|query| parameter(query, "include_input"))
        .is_some_and(|given| given.eq_ignore_ascii_case("true"));
    parsed(record, |record| {
        let (steps, response) = (steps_of(record)?, record.get(RESPONSE)?);
        if !has_input {
            return Some(Bytes::copy_from_slice(response.raw().as_bytes()));
        }
        let mut shown = Encoder::with_capacity(record.raw().len());
        shown.object(|shown| {
            response.members().for_each(|(key, value)| shown.key(&key).raw(value));
            shown.key(INPUT).raw(steps);
        });
        Some(shown.finish())
    })?
}

//! The records of stored responses, for the dialects in which a request can continue a response.
//!
//! A record is `{"input": …, "response": {…}}`. Its input includes the input and the output of earlier requests,
//! so no record depends on another one. The kind of the input differs between dialects, which tells their
//! records apart.

use bytes::Bytes;

use crate::{
    Record,
    wire::json::{Encoder, Index, Json, Kind as JsonKind},
};

pub(crate) const INPUT: &str = "input";
pub(crate) const RESPONSE: &str = "response";

/// Parses an object and passes it to `read`. `None` if `text` is not an object.
pub(crate) fn parsed<T>(text: &[u8], read: impl FnOnce(Json<'_>) -> T) -> Option<T> {
    let text = str::from_utf8(text).ok()?;
    let mut index = Index::default();
    let json = index.parse(text).ok()?;
    (json.kind() == JsonKind::Object).then(|| read(json))
}

/// Parses records whose input is of the kind `input`, and passes them to `join`. An element is `None` if there
/// is no such record.
pub(crate) fn with_records<T>(
    records: &[Option<Bytes>],
    input: JsonKind,
    join: impl FnOnce(Vec<Option<Json<'_>>>) -> T,
) -> T {
    let texts: Vec<_> =
        records.iter().map(|record| str::from_utf8(record.as_deref().unwrap_or_default())).collect();
    let mut indices: Vec<_> = texts.iter().map(|_| Index::default()).collect();
    let is_meant = |record: &Json<'_>| record.get(INPUT).is_some_and(|own| own.kind() == input);
    let parsed = texts.iter().zip(&mut indices).map(|(text, index)| {
        let record = text.as_ref().ok().and_then(|text| index.parse(text).ok());
        record.filter(is_meant)
    });
    join(parsed.collect())
}

/// The elements of an array. Empty for anything else.
pub(crate) fn list(value: Option<Json<'_>>) -> impl Iterator<Item = Json<'_>> {
    value.filter(|value| value.kind() == JsonKind::Array).into_iter().flat_map(|list| list.elements())
}

/// The record for a response to a request with this input.
pub(crate) fn record(input: &[u8], response: &str) -> Option<Record> {
    let id = parsed(response.as_bytes(), |response| Some(response.get("id")?.as_str()?.into_owned()))??;
    let input = str::from_utf8(input).ok()?;
    let mut record = Encoder::with_capacity(input.len() + response.len() + 32);
    record.object(|record| {
        record.key(INPUT).written(input);
        record.key(RESPONSE).written(response);
    });
    Some(Record { id, value: record.finish() })
}

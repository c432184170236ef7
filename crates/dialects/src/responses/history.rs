//! Stored responses: what is stored of a response, and how a request that continues it is completed with the
//! history.
//!
//! The input in a record is a list of items.
//!
//! ```text
//! {"previous_response_id": "resp_1", "input": [new]}  ─▶  {"input": [record's input, record's output, new], …}
//! ```

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use super::request::{CONTINUED, PREVIOUS, unknown_item, unknown_response};
use crate::{
    References,
    failure::Failure,
    records::{INPUT, RESPONSE, list, parsed, with_records},
    wire::json::{Encoder, Json, Kind as JsonKind, span},
};

/// The stored responses that a request refers to. Empty if the body is not a request, in which case decoding
/// it will fail.
pub(super) fn references(body: &[u8]) -> References {
    let read = |body: Json<'_>| {
        let previous = body.get(PREVIOUS).and_then(|id| id.as_str()).map(Into::into);
        let input = body.get("input").filter(|input| input.kind() == JsonKind::Array);
        let items = input.into_iter().flat_map(|input| input.elements());
        let ids = items.filter_map(|item| response_of(&referenced(item)?));
        let mut seen = HashSet::new();
        let others = ids.filter(|id| previous.as_ref() != Some(id) && seen.insert(id.clone())).collect();
        References { previous, others, ..References::default() }
    };
    parsed(body, read).unwrap_or_default()
}

fn referenced(item: Json<'_>) -> Option<String> {
    // Clients may omit the type.
    let kind = item.get("type").and_then(|kind| kind.as_str());
    let is_reference = match kind.as_deref() {
        Some(kind) => kind == "item_reference",
        None => item.members().all(|(key, _)| key == "id" || key == "type"),
    };
    item.get("id").filter(|_| is_reference)?.as_str().map(Into::into)
}

/// The id of the response that contains the item `id`, see `Assembly::next_place`.
fn response_of(id: &str) -> Option<String> {
    let (_, rest) = id.split_once('_')?;
    let (suffix, _) = rest.rsplit_once('_')?;
    Some(format!("resp_{suffix}"))
}

/// The request, with the history that it refers to in its `input`. `records` are in the order of the ids in
/// `references`; an element is `None` if the store does not have that record.
///
/// # Errors
/// A record is missing, and with it part of the history.
pub(super) fn with_history(
    body: &[u8],
    references: &References,
    records: &[Option<Bytes>],
) -> Result<Bytes, Failure> {
    with_records(records, JsonKind::Array, |records| {
        let mut records = records.into_iter();
        let previous = match &references.previous {
            Some(id) => Some(records.next().flatten().ok_or_else(|| unknown_response(id))?),
            None => None,
        };
        let others: Vec<_> = references.others.iter().map(String::as_str).zip(records).collect();
        let written = parsed(body, |body| write(body, (references.previous.as_deref(), previous), &others));
        written.unwrap_or_else(|| Ok(Bytes::copy_from_slice(body)))
    })
}

fn write(
    body: Json<'_>,
    (id, previous): (Option<&str>, Option<Json<'_>>),
    others: &[(&str, Option<Json<'_>>)],
) -> Result<Bytes, Failure> {
    let mut items: Vec<Json<'_>> = Vec::new();
    let input = body.get("input");
    let answered = answered(input);
    if let Some(record) = previous {
        let is_compacted = output(record).any(|item| is_of_type(item, "compaction"));
        items.extend(list(record.get(INPUT)).filter(|item| !is_compacted || is_asked(*item)));
        items.extend(output(record).filter(|item| is_usable(*item, &answered)));
    }
    let known: Vec<_> = previous.into_iter().chain(others.iter().filter_map(|(_, record)| *record)).collect();
    let found = Found::new(&known);
    for item in list(input) {
        match referenced(item) {
            Some(id) => items.push(found.item(&id).ok_or_else(|| unknown_item(&id))?),
            None => items.push(item),
        }
    }
    let mut request = Encoder::with_capacity(body.raw().len());
    request.object(|request| {
        for (key, value) in
            body.members().filter(|(key, _)| !matches!(&**key, "input" | PREVIOUS | CONTINUED))
        {
            request.key(&key).raw(value);
        }
        if let Some(id) = id {
            request.key(CONTINUED).string(id);
        }
        request.key("input").array(|request| {
            items.iter().for_each(|item| request.raw(*item));
            if let Some(text) = input.and_then(|input| input.as_str()) {
                message(request, &text);
            }
        });
    });
    Ok(request.finish())
}

/// The items of stored responses, by id.
struct Found<'a>(HashMap<String, Json<'a>>);

impl<'a> Found<'a> {
    fn new(records: &[Json<'a>]) -> Self {
        let items = records.iter().flat_map(|record| output(*record));
        Self(items.filter_map(|item| Some((item.get("id")?.as_str()?.into_owned(), item))).collect())
    }

    fn item(&self, id: &str) -> Option<Json<'a>> {
        self.0.get(id).copied()
    }
}

fn output(record: Json<'_>) -> impl Iterator<Item = Json<'_>> {
    list(record.get(RESPONSE).and_then(|response| response.get("output")))
}

/// The ids of the calls whose results are in `input`.
fn answered(input: Option<Json<'_>>) -> HashSet<String> {
    let is_result = |item: &Json<'_>| {
        item.get("type").and_then(|kind| kind.as_str()).is_some_and(|kind| kind.ends_with("_output"))
    };
    let results = list(input).filter(is_result);
    results.filter_map(|item| Some(item.get("call_id")?.as_str()?.into_owned())).collect()
}

fn is_of_type(item: Json<'_>, kind: &str) -> bool {
    item.get("type").and_then(|kind| kind.as_str()).as_deref() == Some(kind)
}

/// Whether an item stays when a compaction replaces the conversation: a message that is not the model's.
fn is_asked(item: Json<'_>) -> bool {
    item.get("role").and_then(|role| role.as_str()).is_some_and(|role| role != "assistant")
}

/// Whether an upstream can use an item of the history. A truncated call is useful only if it has a result.
fn is_usable(item: Json<'_>, answered: &HashSet<String>) -> bool {
    let text = |key: &str| item.get(key).and_then(|value| value.as_str());
    let is_cut = text("status").as_deref() == Some("incomplete");
    match text("call_id") {
        Some(id) => !is_cut || answered.contains(&*id),
        None => true,
    }
}

pub(super) fn message(items: &mut Encoder, text: &str) {
    items.object(|item| {
        item.key("type").string("message");
        item.key("role").string("user");
        item.key("content").string(text);
    });
}

/// The input of the request in `body` as a list of items, including its history. If it already is a list, it
/// shares the body's memory.
pub(super) fn input(body: &Bytes) -> Option<Bytes> {
    let text = str::from_utf8(body).ok()?;
    parsed(body, |json| {
        let input = json.get("input");
        if let Some(list) = input.filter(|input| input.kind() == JsonKind::Array) {
            return Some(body.slice(span(text, list.raw())?));
        }
        let mut items = Encoder::default();
        items.array(|items| {
            if let Some(text) = input.and_then(|input| input.as_str()) {
                message(items, &text);
            }
        });
        Some(items.finish())
    })?
}

/// The response in a record. `None` if it is a record of another dialect.
pub(super) fn response(record: &[u8]) -> Option<Bytes> {
    parsed(record, |record| {
        items_of(record)?;
        Some(Bytes::copy_from_slice(record.get(RESPONSE)?.raw().as_bytes()))
    })?
}

fn items_of(record: Json<'_>) -> Option<Json<'_>> {
    record.get(INPUT).filter(|input| input.kind() == JsonKind::Array)
}

/// The input in a record, as the API's list of items.
pub(super) fn input_items(record: &[u8]) -> Option<Bytes> {
    parsed(record, |record| {
        let items = items_of(record)?;
        let mut page = Encoder::default();
        let ids: Vec<_> = items.elements().map(|item| item.get("id").and_then(|id| id.as_str())).collect();
        page.object(|page| {
            page.key("object").string("list");
            page.key("data").array(|data| items.elements().for_each(|item| data.raw(item)));
            page.key("first_id").value(&ids.first());
            page.key("last_id").value(&ids.last());
            page.key("has_more").value(&false);
        });
        Some(page.finish())
    })?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::record;

    #[test]
    fn record_has_the_input_of_every_form() {
        for (input_written, kept) in [
            (r#","input":[ {"a":1} , 2 ]"#, r#"[ {"a":1} , 2 ]"#),
            (r#","input":[]"#, "[]"),
            (r#","input":"a\"b""#, r#"[{"type":"message","role":"user","content":"a\"b"}]"#),
            (r#","input":null"#, "[]"),
            ("", "[]"),
        ] {
            let body = Bytes::from(format!(r#" {{"model":"m"{input_written}}}"#));
            let input = input(&body).unwrap();
            let record = record(&input, r#"{"id":"resp_1"}"#).unwrap();
            assert_eq!(record.id, "resp_1");
            assert_eq!(record.value, format!(r#"{{"input":{kept},"response":{{"id":"resp_1"}}}}"#));
        }
        assert_eq!(input(&Bytes::from_static(b"[")), None);
        assert_eq!(input(&Bytes::from_static(b"[]")), None);
    }
}

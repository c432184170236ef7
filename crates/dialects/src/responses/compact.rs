//! Requests for a compaction as a resource of its own, which are turned into requests for a response
//! (docs/protocols/responses.md#compaction).

use bytes::Bytes;

use super::request::RESOURCE;
use crate::{
    conversation::COMPACTION_TRIGGER,
    records::{list, parsed},
    wire::json::{Encoder, Json},
};

/// Members that only requests for a response have.
const OF_RESPONSES: [&str; 3] = ["include", "store", "stream"];

/// The request in `body`, with a trigger as its last item. A body that is not an object is returned as it is.
pub(super) fn request(body: &Bytes) -> Bytes {
    let write = |body: Json<'_>| {
        let mut request = Encoder::with_capacity(body.raw().len());
        let input = body.get("input");
        request.object(|request| {
            let others = body.members().filter(|(key, _)| key != "input" && !OF_RESPONSES.contains(&&**key));
            others.for_each(|(key, value)| request.key(&key).raw(value));
            request.key("store").value(&false);
            request.key("input").array(|items| {
                list(input).for_each(|item| items.raw(item));
                if let Some(text) = input.and_then(|input| input.as_str()) {
                    super::history::message(items, &text);
                }
                items.object(|item| {
                    item.key("type").string(COMPACTION_TRIGGER);
                    item.key(RESOURCE).value(&true);
                });
            });
        });
        request.finish()
    };
    parsed(body, write).unwrap_or_else(|| body.clone())
}

/// The encoded request `body` for the paths below `/responses`, without what these do not have.
pub(super) fn below(body: &Bytes) -> Bytes {
    let write = |body: Json<'_>| {
        let mut request = Encoder::with_capacity(body.raw().len());
        request.object(|request| {
            for (key, value) in body.members().filter(|(key, _)| !OF_RESPONSES.contains(&&**key)) {
                request.key(&key).raw(value);
            }
        });
        request.finish()
    };
    parsed(body, write).unwrap_or_else(|| body.clone())
}

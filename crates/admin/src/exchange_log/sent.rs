//! [`SentContents`]: what the model was sent in an exchange: the requests to the upstream, and the hosted calls whose
//! results they contain.
//!
//! A request usually repeats most of the one before it, and the first one may repeat the client's. Only the difference
//! is stored.

use bytes::Bytes;
use serde_json::{Value, json};

use toolwire_net::redact::Redactor;
use toolwire_pipeline::conversation::{CallOutput, Part, Turn};

/// Memory overhead of a request or a call in bytes: its entry in a list that may be half empty, and its allocations.
const ENTRY: usize = 512;

/// Number of bytes that are compared at once.
const CHUNK: usize = 256;

/// Maximum number of bytes of all requests that are shown at once. Later ones are shown without their bodies.
const MAX_SHOWN: usize = 4 << 20;

#[derive(Debug, Clone, Default)]
pub(super) struct SentContents {
    /// The client's request. `None` if it is too long.
    client: Option<Bytes>,
    requests: Vec<SentRequest>,
    calls: Vec<HostedCall>,
    /// The number of the current hop, from 1.
    hop: usize,
}

#[derive(Debug, Clone)]
struct SentRequest {
    hop: usize,
    /// Milliseconds since the start of the exchange. `None` if the request replaces one that the upstream refused.
    after: Option<u64>,
    len: usize,
    /// `None` if there was no room for it.
    body: Option<Difference>,
}

/// A body, as the difference from the body stored before it.
#[derive(Debug, Clone)]
struct Difference {
    /// The number of equal bytes at the start and at the end.
    same: (usize, usize),
    /// The bytes between them.
    own: Bytes,
}

/// A hosted call before a hop.
#[derive(Debug, Clone)]
struct HostedCall {
    id: String,
    arguments: Option<String>,
    result: String,
}

impl SentContents {
    pub(super) fn new(client: Option<Bytes>) -> Self {
        Self { client, ..Self::default() }
    }

    /// Stores a request to the upstream, and the hosted calls in the `turns` that it adds. Each is stored if it takes at
    /// most half of the `room` that is left, so that there is room for the response. Returns how many bytes they take.
    /// `after` is `None` if the request replaces the hop's previous one.
    pub(super) fn add(&mut self, body: &[u8], after: Option<u64>, turns: &[Turn], room: usize) -> usize {
        self.hop += usize::from(after.is_some());
        let taken = self.called(turns, room);
        let Some(most) = (room.saturating_sub(taken) / 2).checked_sub(ENTRY) else { return taken };
        let difference = Difference::between(&self.newest(), body, most);
        let size = difference.as_ref().map_or(0, |difference| difference.own.len());
        self.requests.push(SentRequest { hop: self.hop, after, len: body.len(), body: difference });
        taken + ENTRY + size
    }

    fn called(&mut self, turns: &[Turn], room: usize) -> usize {
        let parts = || turns.iter().flat_map(|turn| &turn.parts);
        let mut taken = 0;
        for part in parts() {
            let Part::Result(CallOutput { id, content, .. }) = part else { continue };
            let arguments = parts().find_map(|part| match part {
                Part::Call(call) if call.id == *id => Some(call.arguments.clone()),
                _ => None,
            });
            let size = ENTRY + id.len() + content.len() + arguments.as_ref().map_or(0, String::len);
            if size <= room.saturating_sub(taken) / 2 {
                taken += size;
                self.calls.push(HostedCall { id: id.clone(), arguments, result: content.clone() });
            }
        }
        taken
    }

    /// The last stored body.
    fn newest(&self) -> Bytes {
        let client = self.client.clone().unwrap_or_default();
        let stored = self.requests.iter().filter_map(|request| request.body.as_ref());
        stored.fold(client, |before, difference| difference.applied(&before).into())
    }

    /// Returns the client's request, and the requests to the upstream, as JSON.
    pub(super) fn json(&self, client: &str, upstream: &str, redactor: &Redactor) -> (Value, Vec<Value>) {
        let mut left = MAX_SHOWN;
        let mut shown = |body: &[u8]| {
            left = left.checked_sub(body.len())?;
            let mut body = body.to_vec();
            redactor.cover(&mut body);
            String::from_utf8(body).ok()
        };
        let asked = self.client.as_ref();
        let asked = asked.map(|body| json!({"dialect": client, "bytes": body.len(), "body": shown(body)}));
        let mut newest = self.client.clone().unwrap_or_default();
        let mut requests = Vec::new();
        for SentRequest { hop, after, len, body } in &self.requests {
            let whole = body.as_ref().map(|difference| {
                newest = difference.applied(&newest).into();
                shown(&newest)
            });
            requests.push(json!({
                "hop": hop, "t_ms": after, "dialect": upstream, "bytes": len, "body": whole.flatten(),
            }));
        }
        (asked.unwrap_or(Value::Null), requests)
    }

    /// Returns the arguments and the result of the hosted call `id`.
    pub(super) fn call(&self, id: &str, redactor: &Redactor) -> Option<Value> {
        let call = self.calls.iter().rev().find(|call| call.id == id)?;
        let arguments = call.arguments.as_deref().map(|arguments| redactor.text(arguments));
        Some(json!({"arguments": arguments, "result": redactor.text(&call.result)}))
    }
}

impl Difference {
    /// Returns the difference of `body` from `before`. `None` if it is longer than `max`.
    fn between(before: &[u8], body: &[u8], max: usize) -> Option<Self> {
        // Most of it is compared in chunks, which is much faster.
        let chunks = before.chunks(CHUNK).zip(body.chunks(CHUNK)).take_while(|(one, other)| one == other);
        let start = chunks.map(|(chunk, _)| chunk.len()).sum::<usize>();
        let rests = before.get(start..)?.iter().zip(body.get(start..)?);
        let start = start + rests.take_while(|(one, other)| one == other).count();
        let (before, rest) = (before.get(start..)?, body.get(start..)?);
        let chunks = before.rchunks(CHUNK).zip(rest.rchunks(CHUNK)).take_while(|(one, other)| one == other);
        let end = chunks.map(|(chunk, _)| chunk.len()).sum::<usize>();
        let rests =
            before.get(..before.len() - end)?.iter().rev().zip(rest.get(..rest.len() - end)?.iter().rev());
        let end = end + rests.take_while(|(one, other)| one == other).count();
        let own = rest.get(..rest.len() - end)?;
        // Copied because the body may be a slice of a larger buffer.
        (own.len() <= max).then(|| Self { same: (start, end), own: Bytes::copy_from_slice(own) })
    }

    fn applied(&self, before: &[u8]) -> Vec<u8> {
        let (start, end) = self.same;
        let start = before.get(..start).unwrap_or_default();
        let end = before.get(before.len().saturating_sub(end)..).unwrap_or_default();
        [start, &*self.own, end].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolwire_pipeline::conversation::{Call, Role};

    const ROOM: usize = 1 << 20;

    fn bodies(sent: &SentContents) -> Vec<Value> {
        let (_, requests) = sent.json("chat", "chat", &Redactor::new([]));
        requests.into_iter().map(|request| request["body"].clone()).collect()
    }

    /// What is stored after the client's request `before` has been followed by `body`.
    fn after(before: &str, body: &str) -> SentContents {
        let mut sent = SentContents::new(Some(Bytes::copy_from_slice(before.as_bytes())));
        sent.add(body.as_bytes(), Some(1), &[], 2 * ROOM + 8 * MAX_SHOWN);
        sent
    }

    #[test]
    fn requests_are_stored_as_differences_and_read_whole() {
        let mut sent = SentContents::new(Some(Bytes::from_static(b"{\"model\":\"a\",\"messages\":[1]}")));
        let all =
            ["{\"model\":\"b\",\"messages\":[1]}", "{\"model\":\"b\",\"messages\":[1,2,3]}", "", "{}", "{}"];
        let taken: Vec<_> = all.iter().map(|body| sent.add(body.as_bytes(), Some(1), &[], ROOM)).collect();
        assert_eq!(bodies(&sent), all);
        assert_eq!(taken, [1, 4, 0, 2, 0].map(|own| ENTRY + own));
        for (before, count) in [(600, 700), (700, 600), (512, 512), (256, 255)] {
            let text =
                |count: usize, middle: &str| format!("{}{middle}{}", "a".repeat(count), "b".repeat(count));
            assert_eq!(bodies(&after(&text(before, "x"), &text(count, "yz"))), [text(count, "yz")]);
        }
        // What is the same at the start and at the end must not overlap.
        for (before, body) in [("aaaa", "aa"), ("aa", "aaaaaa"), ("aaaaaa", "a"), ("", ""), ("ab", "ab")] {
            assert_eq!(bodies(&after(before, body)), [body]);
        }
    }

    #[test]
    fn request_takes_at_most_half_of_the_room() {
        let body = "x".repeat(1000);
        let size = ENTRY + 1000;
        for (room, taken, is_kept) in [
            (2 * size + 1, size, true),
            (2 * size, size, true),
            (2 * size - 1, ENTRY, false),
            (2 * ENTRY, ENTRY, false),
        ] {
            let mut sent = SentContents::new(None);
            assert_eq!(sent.add(body.as_bytes(), Some(0), &[], room), taken, "{room}");
            assert_eq!(bodies(&sent)[0].is_string(), is_kept, "{room}");
            // The next one is the difference from the last one that was stored.
            sent.add(b"y", Some(0), &[], ROOM);
            assert_eq!(bodies(&sent)[1], "y");
        }
        let mut sent = SentContents::new(None);
        assert_eq!((sent.add(b"x", Some(0), &[], 2 * ENTRY - 1), bodies(&sent)), (0, vec![]));
        sent.add(b"x", Some(0), &[], ROOM);
        sent.add(b"y", None, &[], ROOM);
        let hops: Vec<_> = sent.requests.iter().map(|request| (request.hop, request.after)).collect();
        assert_eq!(hops, [(2, Some(0)), (2, None)], "a hop counts even if its request is not stored");
    }

    #[test]
    fn call_takes_at_most_half_of_the_room() {
        let result = CallOutput {
            id: "call_1".to_owned(),
            name: "echo".to_owned(),
            content: "x".repeat(100),
            is_error: false,
        };
        let call = Part::Call(Call::new("call_1", "echo", "{}"));
        let turns = [Turn::of(Role::Assistant, vec![call]), Turn::of(Role::Tool, vec![Part::Result(result)])];
        let size = ENTRY + "call_1{}".len() + 100;
        for (room, is_kept) in [(2 * size + 1, true), (2 * size, true), (2 * size - 1, false), (0, false)] {
            let mut sent = SentContents::new(None);
            assert_eq!(sent.called(&turns, room), if is_kept { size } else { 0 }, "{room}");
            let call = sent.call("call_1", &Redactor::new([])).unwrap_or_default();
            let (arguments, result) = (call["arguments"].as_str(), call["result"].as_str().map(str::len));
            assert_eq!((arguments, result), if is_kept { (Some("{}"), Some(100)) } else { (None, None) });
        }
    }

    #[test]
    fn bodies_are_shown_up_to_a_limit() {
        let half = "x".repeat(MAX_SHOWN / 2);
        assert!(bodies(&after("", &half))[0].is_string());
        assert!(bodies(&after(&half, &half))[0].is_string());
        assert!(bodies(&after(&half, &format!("{half}y")))[0].is_null());
    }

    #[test]
    fn secret_is_covered_where_a_difference_begins() {
        let sent = after("the key is sk-proj-abcd", "the key is sk-proj-abcdefghijkl, yes");
        let shown = bodies(&sent)[0].to_string();
        assert!(shown.contains("xxxx, yes") && !shown.contains("sk-") && !shown.contains("efgh"), "{shown}");
    }
}

//! Writes the turns of a conversation as `messages` and `system`.
//!
//! User and assistant must alternate, so adjacent turns of one side are written as one message. Results come first in
//! the message that follows their calls.

use serde_json::Value;

use super::blocks::{Blocks, is_written};
use crate::{
    Dialect,
    cache_hints::{CACHE_CONTROL, CacheHints},
    conversation::{Conversation, Part, Role, Turn, results_in_call_order},
    wire::json::Encoder,
};

/// The dialects whose clients say where prompts are cached.
const HINTING: [Dialect; 2] = [Dialect::Messages, Dialect::Chat];

const USER: &str = "user";

/// Writes the turns. `caches` says whether the model accepts cache points.
pub(super) fn put(body: &mut Encoder, conversation: &Conversation, caches: bool, dropped: &mut Vec<String>) {
    let turns = results_in_call_order(&conversation.turns);
    // A request must have messages, so if there are only instructions, they are sent as a user's.
    let has_messages = turns.iter().any(|turn| side_of(turn.role).is_some());
    let side = |turn: &Turn| side_of(turn.role).or(Some(USER).filter(|_| !has_messages));
    let mut writer = Writer { blocks: Blocks::new(dropped), caches };
    if has_messages && turns.iter().any(|turn| side(turn).is_none()) {
        body.key("system").array(|body| {
            for turn in turns.iter().filter(|turn| side(turn).is_none()) {
                writer.turn(body, turn, |part| matches!(part, Part::Text(_)));
                let others = turn.parts.iter().filter(|part| !matches!(part, Part::Text(_)));
                writer.blocks.dropped.extend(others.map(|_| "messages[].content[]".to_owned()));
            }
        });
    }
    // The API rejects messages without content.
    let is_spoken = |turn: &&Turn| side(turn).is_some() && turn.parts.iter().any(is_written);
    let unspoken = turns.iter().filter(|turn| side(turn).is_some() && !is_spoken(turn));
    writer.blocks.drop_all(unspoken.flat_map(|turn| &turn.parts));
    let spoken: Vec<&Turn> = turns.iter().filter(is_spoken).collect();
    let runs = spoken.chunk_by(|one, next| side(one) == side(next)).count();
    // The hint of a whole request is about its end.
    let whole =
        HINTING.iter().find_map(|dialect| conversation.rest.from_dialect(dialect.name())?.get(CACHE_CONTROL));
    body.key("messages").array(|body| {
        for (place, run) in spoken.chunk_by(|one, next| side(one) == side(next)).enumerate() {
            body.object(|body| {
                body.key("role").string(run.first().and_then(|turn| side(turn)).unwrap_or(USER));
                body.key("content").array(|body| {
                    let is_result = |turn: &&&Turn| is_result(turn);
                    for turn in run.iter().filter(is_result) {
                        writer.result(body, turn);
                    }
                    for turn in run.iter().filter(|turn| !is_result(turn)) {
                        writer.turn(body, turn, |_| true);
                    }
                    if place + 1 == runs {
                        writer.cache_point(body, whole);
                    }
                });
            });
        }
    });
}

/// The role of a turn. `None` for instructions, which are not written to `messages`.
fn side_of(role: Role) -> Option<&'static str> {
    match role {
        Role::System | Role::Developer => None,
        Role::User | Role::Tool => Some(USER),
        Role::Assistant => Some("assistant"),
    }
}

/// Whether a turn is the result of a call, possibly with media.
fn is_result(turn: &Turn) -> bool {
    turn.role == Role::Tool && matches!(turn.parts.first(), Some(Part::Result(_)))
}

struct Writer<'d> {
    blocks: Blocks<'d>,
    caches: bool,
}

impl Writer<'_> {
    /// Writes a result, whose media are part of it.
    fn result(&mut self, body: &mut Encoder, turn: &Turn) {
        let [Part::Result(output), media @ ..] = turn.parts.as_slice() else { return };
        self.blocks.put_result(body, output, media);
        let hint = HINTING.iter().find_map(|dialect| CacheHints::of(turn, dialect.name()).of_result());
        self.cache_point(body, hint);
    }

    /// Writes the parts of a turn for which `is_chosen` is true, each with its cache point.
    fn turn(&mut self, body: &mut Encoder, turn: &Turn, is_chosen: impl Fn(&Part) -> bool) {
        let all = HINTING.map(|dialect| CacheHints::of(turn, dialect.name()));
        let mut hints = all.into_iter().find(|hints| !hints.is_empty()).unwrap_or_default();
        for (place, part) in turn.parts.iter().enumerate() {
            let hint = hints.next(part, place + 1 == turn.parts.len());
            if is_chosen(part) && self.blocks.put(body, part) {
                self.cache_point(body, hint);
            }
        }
    }

    fn cache_point(&mut self, body: &mut Encoder, hint: Option<&Value>) {
        match hint {
            Some(hint) if self.caches => put_cache_point(body, hint),
            Some(_) => self.blocks.dropped.push(CACHE_CONTROL.to_owned()),
            None => {}
        }
    }
}

/// Writes a cache point for a client's hint.
pub(super) fn put_cache_point(body: &mut Encoder, hint: &Value) {
    body.object(|body| {
        body.key("cachePoint").object(|body| {
            body.key("type").string("default");
            if let Some(ttl @ ("5m" | "1h")) = hint.get("ttl").and_then(Value::as_str) {
                body.key("ttl").string(ttl);
            }
        });
    });
}

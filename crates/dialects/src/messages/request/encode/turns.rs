//! Arranges turns as messages: user and assistant alternate, results come first in the message that follows
//! their calls, nothing is empty, and a final assistant message has no trailing white space.

use serde_json::Value;

use super::{
    DIALECT,
    blocks::{Block, block, has_its_id, means},
    ids::CallIds,
};
use crate::{
    Dialect,
    cache_hints::CacheHints,
    conversation::{Part, Role, Turn},
    messages::upstream::{LaterSystem, Options},
};

#[derive(Debug)]
pub(super) struct Message<'c> {
    pub(super) author: Author,
    /// Results of calls, which come first.
    pub(super) results: Vec<Block<'c>>,
    pub(super) others: Vec<Block<'c>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Author {
    System,
    User,
    Assistant,
}

/// Returns the blocks of `system` and the messages.
pub(super) fn arranged<'c>(
    turns: &'c [Turn],
    options: &Options,
    dropped: &mut Vec<String>,
) -> (Vec<Block<'c>>, Vec<Message<'c>>) {
    let (mut system, mut messages) = (Vec::new(), Vec::<Message<'c>>::new());
    let mut ids = CallIds::default();
    for turn in turns {
        let author = match turn.role {
            Role::System | Role::Developer => Author::System,
            Role::User | Role::Tool => Author::User,
            Role::Assistant => Author::Assistant,
        };
        let blocks = blocks_of(turn, &mut ids, dropped);
        let is_first = messages.is_empty();
        if author == Author::System && (is_first || options.later_system == LaterSystem::Hoist) {
            system.extend(blocks);
        } else if !blocks.is_empty() {
            append(&mut messages, author, blocks);
        }
    }
    if let Some(last) = messages.last_mut().filter(|last| last.author == Author::Assistant) {
        trim_end(&mut last.others);
        if last.others.is_empty() && last.results.is_empty() {
            messages.pop();
        }
    }
    if messages.is_empty() && !system.is_empty() {
        // The API rejects a request without messages.
        append(&mut messages, Author::User, std::mem::take(&mut system));
    }
    (system, messages)
}

/// Adds blocks to the last message if it has the same author, or else as a new message. Results are placed
/// first.
fn append<'c>(messages: &mut Vec<Message<'c>>, author: Author, blocks: Vec<Block<'c>>) {
    if messages.last().is_none_or(|last| last.author != author) {
        messages.push(Message { author, results: Vec::new(), others: Vec::new() });
    }
    let Some(message) = messages.last_mut() else { return };
    for block in blocks {
        let list = if block.is_result() { &mut message.results } else { &mut message.others };
        list.push(block);
    }
}

/// Encodes a turn as blocks. Blocks of clients that speak this dialect stay unchanged.
fn blocks_of<'c>(turn: &'c Turn, ids: &mut CallIds, dropped: &mut Vec<String>) -> Vec<Block<'c>> {
    let originals = turn.rest.from_dialect(DIALECT).and_then(|rest| rest.get("content")?.as_array());
    let mut originals = originals.map(Vec::as_slice).unwrap_or_default();
    // In this API, the images of a result are part of the result.
    let mut hints = CacheHints::of(turn, Dialect::Chat.name());
    if let (Role::Tool, [Part::Result(output), media @ ..]) = (turn.role, turn.parts.as_slice()) {
        let block = Block::result(output, media, originals.first(), ids, dropped);
        return Vec::from_iter(block.map(|block| block.hinted(hints.of_result())));
    }
    let mut blocks = Vec::with_capacity(turn.parts.len());
    for (place, part) in turn.parts.iter().enumerate() {
        let block = block(part, next_original(&mut originals, part), ids, dropped);
        if hints.is_empty() {
            blocks.extend(block);
            continue;
        }
        let hint = hints.next(part, place + 1 == turn.parts.len());
        blocks.extend(block.map(|block| block.hinted(hint)));
    }
    blocks
}

/// The next original that represents `part`. Skips the originals before it.
fn next_original<'c>(originals: &mut &'c [Value], part: &Part) -> Option<&'c Value> {
    /// Limits the search if a part has no original.
    const NEAR: usize = 16;
    let near = || originals.iter().take(NEAR);
    let exact = near().position(|original| means(original, part) && has_its_id(original, part));
    let place = exact.or_else(|| near().position(|original| means(original, part)))?;
    let (before, after) = originals.split_at_checked(place + 1)?;
    *originals = after;
    before.last()
}

/// Removes trailing white space from the last text.
fn trim_end(blocks: &mut Vec<Block<'_>>) {
    while let Some(last) = blocks.last_mut() {
        if last.trim_end() {
            return;
        }
        blocks.pop();
    }
}

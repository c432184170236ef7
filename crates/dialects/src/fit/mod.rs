//! [`fitted`]: converts a conversation so that it contains only parts that the upstream's API supports.
//!
//! A part that only the API of the client can express is replaced with its plain equivalent: text, an image,
//! a file, or a call and its result. A part that cannot be converted is described in text if a program wrote
//! it (in results and in the model's own output), and rejected if the user wrote it. It is never dropped
//! silently. Parts in the upstream's own format are not changed.

mod adopt;
mod calls;
mod file;
mod pieces;
mod split_turns;
mod unfit;

use std::{borrow::Cow, collections::HashSet};

use serde_json::Value;

pub(super) use self::{
    adopt::adopted,
    file::{is_http, part_of},
    pieces::kind_of,
};
use self::{
    calls::{CallIndex, Shown},
    pieces::{Piece, read, read_all, readable, shown, text},
    split_turns::SplitTurns,
    unfit::{refuse_elsewhere, refuse_in_prompt, unfit},
};
pub use self::{
    file::{File, Source},
    unfit::Unfit,
};
use super::{
    Dialect, UpstreamSide,
    media::{data_url, plain_mime},
    summary::told,
};
use crate::{
    conversation::{CallOutput, Conversation, Part, Role, Turn, is_empty_turn},
    wire::text::{boundary_upto, head},
};

/// Converts the conversation of a client that speaks `client` for an upstream with this `side`. If their
/// dialects differ, empty assistant turns and empty instructions are left out.
///
/// # Errors
/// A part cannot be sent, or nothing is left to send.
pub fn fitted<'c>(
    conversation: &'c Conversation,
    client: Dialect,
    side: &dyn UpstreamSide,
) -> Result<Cow<'c, Conversation>, Unfit> {
    let mut fitting =
        Fitting { side, own: side.dialect(), translates: client != side.dialect(), names_models: false };
    if conversation.is_prompt && !side.takes_client_prompts() {
        refuse_in_prompt(conversation)?;
    }
    if fitting.translates {
        refuse_elsewhere(conversation)?;
        fitting.names_models = has_several_models(&conversation.turns);
    }
    fitting.check_any(&conversation.turns)?;
    let removed = fitting.removed_tools(&conversation.turns);
    if removed.is_empty()
        && !conversation.turns.iter().any(|turn| fitting.leaves_out(turn) || fitting.must_change(turn))
    {
        return Ok(Cow::Borrowed(conversation));
    }
    let index = CallIndex::new(&conversation.turns, |part| fitting.foreign(part));
    let mut turns = Vec::with_capacity(conversation.turns.len());
    for turn in &conversation.turns {
        if fitting.must_change(turn) {
            let named = fitting.named(turn);
            fitting.turn(named.as_ref().unwrap_or(turn), &index, &mut turns)?;
        } else {
            turns.push(turn.clone());
        }
    }
    turns.retain(|turn| !fitting.leaves_out(turn));
    let is_said = |turn: &Turn| !is_instruction(turn.role);
    if !turns.iter().any(is_said) && conversation.turns.iter().any(is_said) {
        return Err(nothing_left());
    }
    fitting.check_any(&turns)?;
    let mut new = conversation.clone();
    new.tools.retain(|tool| !removed.contains(tool.name.as_str()));
    Ok(Cow::Owned(Conversation { turns, ..new }))
}

/// The result of the call `id` in `value`, an output in any API's form, followed by its media in the form of the
/// API with this `side`.
pub(crate) fn output_of(id: &str, value: &Value, side: &dyn UpstreamSide) -> Vec<Part> {
    Fitting { side, own: side.dialect(), translates: false, names_models: false }.output(id, value)
}

struct Fitting<'s> {
    side: &'s dyn UpstreamSide,
    own: Dialect,
    translates: bool,
    /// Whether the turns of the assistant name different speakers.
    names_models: bool,
}

impl Fitting<'_> {
    /// The value of a part that the upstream's API does not support.
    fn foreign<'p>(&self, part: &'p Part) -> Option<&'p Value> {
        match part {
            Part::Other(other) => {
                let (dialect, value) = other.parts();
                (dialect != self.own.name()).then_some(value)
            }
            _ => None,
        }
    }

    fn must_change(&self, turn: &Turn) -> bool {
        let takes_media = !is_instruction(turn.role) || self.side.instructions_take_media();
        self.speaker(turn).is_some()
            || self.beside(turn).next().is_some()
            || turn.parts.iter().any(|part| match part {
                Part::Other(_) => self.foreign(part).is_some(),
                Part::Image { url, .. } => !(self.passes(url) || takes_media && self.is_ready(url)),
                _ => false,
            })
    }

    /// The name of who speaks. Only Chat Completions has a field for it, by which models tell the participants of a
    /// conversation, and examples in instructions, apart. The name of the only assistant says nothing, and the model
    /// would begin to write it.
    fn speaker<'t>(&self, turn: &'t Turn) -> Option<&'t str> {
        let is_told = match turn.role {
            Role::Assistant => {
                self.names_models && turn.parts.iter().any(|part| matches!(part, Part::Text(_)))
            }
            Role::User | Role::System | Role::Developer => true,
            Role::Tool => false,
        };
        if self.translates && is_told { name_of(turn) } else { None }
    }

    /// The turn with the name of its speaker in its text.
    fn named(&self, turn: &Turn) -> Option<Turn> {
        let name = self.speaker(turn)?;
        let mut named = turn.clone();
        let first = match turn.role {
            Role::Assistant => named.parts.iter_mut().find(|part| matches!(part, Part::Text(_))),
            _ => named.parts.first_mut(),
        };
        match first {
            Some(Part::Text(text)) => text.change(|text| text.insert_str(0, &format!("{name}:\n"))),
            _ => named.parts.insert(0, Part::Text(format!("{name}:").into())),
        }
        named.rest.remove("name");
        Some(named)
    }

    /// The content that a Chat Completions client sends outside of `content` in an assistant turn.
    fn beside<'t>(&self, turn: &'t Turn) -> impl Iterator<Item = (&'static str, &'t Value)> {
        let rest = turn.rest.from_dialect(Dialect::Chat.name());
        let rest = rest.filter(|_| self.translates && turn.role == Role::Assistant);
        let given = move |key: &'static str| {
            let value = rest?.get(key)?;
            (!value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())).then_some((key, value))
        };
        ["refusal", "images", "audio"].into_iter().filter_map(given)
    }

    /// Whether an image is passed on as written because the client speaks the upstream's API. Messages
    /// accepts only web URLs and data URLs.
    fn passes(&self, url: &str) -> bool {
        !self.translates && (self.own != Dialect::Messages || self.side.takes_image(url))
    }

    /// Whether an image can be sent without conversion.
    fn is_ready(&self, url: &str) -> bool {
        let is_plain = match data_url(url) {
            Some((mime, _)) => mime.starts_with("image/") && plain_mime(mime) == mime,
            None => url.contains(':'),
        };
        is_plain && self.side.takes_image(url)
    }

    /// Rejects a conversation without any content, which some APIs would receive as an empty list.
    fn check_any(&self, turns: &[Turn]) -> Result<(), Unfit> {
        let is_empty = |turn: &Turn| match turn.role {
            Role::Assistant => self.leaves_out(turn),
            _ => turn.parts.iter().all(|part| matches!(part, Part::Text(text) if text.is_empty())),
        };
        if self.translates && turns.iter().all(is_empty) { Err(nothing_left()) } else { Ok(()) }
    }

    fn leaves_out(&self, turn: &Turn) -> bool {
        let may_be_empty = matches!(turn.role, Role::User | Role::Tool);
        self.translates
            && !may_be_empty
            && is_empty_turn(turn, self.own.name(), self.side.takes_reasoning_alone())
    }

    /// The names of the tools that the conversation itself removed.
    fn removed_tools<'t>(&self, turns: &'t [Turn]) -> HashSet<&'t str> {
        let mut removed = HashSet::new();
        let instructions = turns.iter().filter(|turn| is_instruction(turn.role));
        for value in instructions.flat_map(|turn| &turn.parts).filter_map(|part| self.foreign(part)) {
            let tool = value.get("tool");
            let tool = tool.and_then(|tool| tool.get("definition")).or(tool);
            let name = |tool| text(tool, "name").or_else(|| text(tool, "tool_name"));
            match (kind_of(value), tool.and_then(name)) {
                ("tool_removal", Some(name)) => _ = removed.insert(name),
                ("tool_addition", Some(name)) => _ = removed.remove(name),
                _ => {}
            }
        }
        removed
    }

    /// Converts a turn and appends the result to `turns`.
    fn turn(&self, turn: &Turn, index: &CallIndex<'_>, turns: &mut Vec<Turn>) -> Result<(), Unfit> {
        let mut split = SplitTurns { turn, first: turns.len(), parts: Vec::new(), calls: Vec::new(), turns };
        for part in &turn.parts {
            match (part, self.foreign(part)) {
                (_, Some(value)) => self.part(value, index, &mut split)?,
                (Part::Image { url, detail }, _) if !self.passes(url) => {
                    let mut pieces = Vec::new();
                    let image = image_part(url, detail.as_deref());
                    if !read(&image, &mut pieces) {
                        return Err(unfit(
                            &url.as_str().into(),
                            "is no URL of an image, and no base64 of one",
                        ));
                    }
                    self.pieces(pieces, &url.as_str().into(), &mut split)?;
                }
                // Calls come last, because their results are in the turns that follow this one.
                (Part::Call(_), _) => split.calls.push(part.clone()),
                _ => split.parts.push(part.clone()),
            }
        }
        for (key, value) in self.beside(turn) {
            let mut pieces = Vec::new();
            match (key, value) {
                ("refusal", Value::String(text)) => pieces.push(Piece::Text(text.clone())),
                ("audio", audio) => {
                    let mut audio = audio.clone();
                    audio.as_object_mut().map(|audio| audio.insert("type".to_owned(), "audio".into()));
                    read_all(&audio, &mut pieces);
                }
                (_, other) => read_all(other, &mut pieces),
            }
            self.pieces(pieces, value, &mut split)?;
        }
        split.end();
        Ok(())
    }

    fn part(&self, value: &Value, index: &CallIndex<'_>, split: &mut SplitTurns<'_>) -> Result<(), Unfit> {
        let role = split.turn.role;
        match Shown::of(value).filter(|_| role != Role::Tool) {
            Some(Shown::Call { .. }) if role != Role::Assistant => {
                return Err(unfit(value, "is a call; only messages of the assistant have calls"));
            }
            Some(Shown::Call { id, tool, value }) => {
                split.parts.push(Part::Call(calls::call(id, tool, value)));
                if !index.is_answered(id) {
                    self.result(id, value, split);
                }
                return Ok(());
            }
            Some(Shown::Output { id, tool, value }) => {
                match index.call_of(id) {
                    Some(id) => self.result(id, value, split),
                    None => {
                        let mut pieces = Vec::new();
                        calls::output(value, &mut pieces);
                        let (texts, media) = self.told(pieces);
                        let text = format!("[the result of a call of {tool}: {}]", texts.join("\n"));
                        split.aside(vec![Part::Text(text.into())].into_iter().chain(media).collect());
                    }
                }
                return Ok(());
            }
            None => {}
        }
        let kind = kind_of(value);
        if let Some(summary) =
            text(value, "content").filter(|_| kind == "compaction" && role == Role::Assistant)
        {
            split.aside(vec![Part::Text(told(summary).into())]);
            return Ok(());
        }
        let mut pieces = Vec::new();
        if read(value, &mut pieces) {
            return self.pieces(pieces, value, split);
        }
        match (role, kind) {
            (_, "compaction" | "compaction_trigger" | "context_compaction") => Err(unfit(
                value,
                match kind {
                    "compaction_trigger" => "asks for a compaction; it must be the last item",
                    _ => {
                        "is a compaction that only the server which made it can read; the conversation before it is in nothing else. Send \
                     the conversation itself"
                    }
                },
            )),
            (Role::Tool, _) => {
                split.parts.push(Part::Text(shown(value).into()));
                Ok(())
            }
            // The request declares the tools that the model has.
            (Role::Assistant, "mcp_list_tools") => Ok(()),
            (Role::Assistant, _) => {
                let mut rest = readable(value);
                rest.as_object_mut().and_then(|members| members.shift_remove("type"));
                split.aside(vec![Part::Text(format!("[{kind}: {rest}]").into())]);
                Ok(())
            }
            _ => Err(unfit(
                value,
                &format!("has the type `{}` and a form that this model's API cannot express", clip(kind)),
            )),
        }
    }

    /// Adds the result of a call as a turn of its own.
    fn result(&self, id: &str, value: &Value, split: &mut SplitTurns<'_>) {
        split.apart(Turn::of(Role::Tool, self.output(id, value)));
    }

    /// The result of a call, followed by its media.
    fn output(&self, id: &str, value: &Value) -> Vec<Part> {
        let mut pieces = Vec::new();
        calls::output(value, &mut pieces);
        let (texts, media) = self.told(pieces);
        let output = CallOutput {
            id: id.to_owned(),
            name: String::new(),
            content: texts.join("\n"),
            is_error: calls::is_error(value),
        };
        [Part::Result(output)].into_iter().chain(media).collect()
    }

    /// Adds the pieces of the part `whole` to a turn.
    fn pieces(&self, pieces: Vec<Piece>, whole: &Value, split: &mut SplitTurns<'_>) -> Result<(), Unfit> {
        let is_models = split.turn.role == Role::Assistant;
        let pieces = self.with_names(pieces).into_iter().map(|piece| match piece {
            Piece::Reasoning(text) if !is_models => Piece::Text(text),
            piece => piece,
        });
        match split.turn.role {
            Role::Tool | Role::Assistant => {
                let is_tool = split.turn.role == Role::Tool;
                for piece in pieces {
                    match self.expressed(piece) {
                        // A model turn cannot contain media.
                        Ok(part @ (Part::Image { .. } | Part::Other(_))) if !is_tool => {
                            split.aside(vec![part])
                        }
                        Ok(part) => split.parts.push(part),
                        Err(what) => split.parts.push(Part::Text(what.to_string().into())),
                    }
                }
            }
            role => {
                let takes_media = !is_instruction(role) || self.side.instructions_take_media();
                for piece in pieces {
                    match self.expressed(piece) {
                        Ok(Part::Image { .. } | Part::Other(_)) if !takes_media => {
                            return Err(unfit(
                                whole,
                                "is no text; instructions to this model can be text only",
                            ));
                        }
                        Ok(part) => split.parts.push(part),
                        Err(LeftOut(what)) => {
                            let why = format!("is {what}, which this model's API does not take in this form");
                            return Err(unfit(whole, &why));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The text and media in a result. Content that cannot be sent is described in text.
    fn told(&self, pieces: Vec<Piece>) -> (Vec<String>, Vec<Part>) {
        let (mut texts, mut media) = (Vec::new(), Vec::new());
        for piece in self.with_names(pieces) {
            match self.expressed(piece) {
                Ok(Part::Text(text)) => texts.push(String::from(text)),
                Ok(part) => media.push(part),
                Err(what) => texts.push(what.to_string()),
            }
        }
        (texts, media)
    }

    /// Puts the names of files before them, for an API whose files have none.
    fn with_names(&self, pieces: Vec<Piece>) -> Vec<Piece> {
        if self.side.names_files() {
            return pieces;
        }
        let named = |piece: Piece| {
            let name = match &piece {
                Piece::File(file) if !file.name.is_empty() => Some(Piece::Text(format!("{}:", file.name))),
                _ => None,
            };
            name.into_iter().chain([piece])
        };
        pieces.into_iter().flat_map(named).collect()
    }

    /// Converts a piece to a part, if it can be sent.
    fn expressed(&self, piece: Piece) -> Result<Part, LeftOut> {
        match piece {
            Piece::Text(text) => Ok(Part::Text(text.into())),
            Piece::Reasoning(text) => Ok(Part::Reasoning { text, signature: None, redacted: false }),
            Piece::Image { url, .. } if !self.side.takes_image(&url) => Err(LeftOut(match data_url(&url) {
                Some(_) => "an image".to_owned(),
                None => format!("an image, {}", clip(&url)),
            })),
            Piece::Image { url, detail } => Ok(Part::Image { url, detail }),
            Piece::File(file) => self.side.file_part(&file).ok_or_else(|| LeftOut(file.described())),
        }
    }
}

fn nothing_left() -> Unfit {
    let why = "no message is left to send: none of them has content that the model's API can take";
    Unfit { value: Value::Null, why: why.to_owned(), member: None }
}

/// The `name` of a Chat Completions message.
fn name_of(turn: &Turn) -> Option<&str> {
    let name = turn.rest.from_dialect(Dialect::Chat.name())?.get("name")?;
    name.as_str().filter(|name| !name.is_empty())
}

/// Whether turns of the assistant have different names, as in a conversation of several agents.
fn has_several_models(turns: &[Turn]) -> bool {
    let mut names = turns.iter().filter(|turn| turn.role == Role::Assistant).filter_map(name_of);
    names.next().is_some_and(|first| names.any(|other| other != first))
}

fn is_instruction(role: Role) -> bool {
    matches!(role, Role::System | Role::Developer)
}

/// Describes a piece that cannot be sent.
#[derive(Debug, thiserror::Error)]
#[error("[{0}, was left out: this model's API does not take it in this form]")]
struct LeftOut(String);

/// An image as in Chat Completions, to be read like any other part.
fn image_part(url: &str, detail: Option<&str>) -> Value {
    serde_json::json!({"type": "image_url", "image_url": {"url": url, "detail": detail}})
}

/// Shortens a string from outside for use in an error message.
fn clip(text: &str) -> &str {
    const SHOWN: usize = 100;
    head(text, boundary_upto(text, SHOWN))
}

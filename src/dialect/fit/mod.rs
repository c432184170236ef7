//! [`fit`]: a conversation in the parts that its upstream's API has.
//!
//! What a client of another API sent, and only that API can express, becomes what it plainly is: text, an image, a file, a call and
//! its result. What cannot be sent is said to the model as text where a program wrote it (results, what the model did), and is
//! refused where the user did: it is never left out silently. What is in the upstream's own form stays as it is.

mod adopt;
mod calls;
mod file;
mod pieces;

use std::{borrow::Cow, collections::HashSet, mem};

use serde_json::Value;

pub use self::file::{File, Source};
pub(super) use self::{
    adopt::adopted,
    file::{is_http, part_of},
};
use self::{
    calls::{CallIndex, Shown},
    pieces::{Piece, kind_of, read, readable, shown, text},
};
use super::{
    Dialect, UpstreamSide,
    media::{data_url, plain_mime},
};
use crate::{
    conversation::{CallOutput, Conversation, Part, Role, Turn, is_empty_turn},
    failure::{Failure, Kind},
    wire::text::{boundary_upto, head},
};

/// What cannot be sent to an upstream.
#[derive(Debug, Clone, PartialEq)]
pub struct Unfit {
    /// The part, as the client wrote it, or the URL of an image; null if it is no part.
    value: Value,
    /// Continues a sentence after the part's place.
    why: String,
    /// The member of the request, if it is no part.
    member: Option<&'static str>,
}

impl Unfit {
    /// The failure of the request `body`, which names the place of the part in it.
    pub fn failure(&self, body: Option<&[u8]>) -> Failure {
        if let Some(member) = self.member {
            let message = format!("`{member}` {}", self.why);
            let failure = Failure::new(Kind::Request, message).with_param(member);
            return failure.with_code("unsupported_parameter").with_unsupported(member);
        }
        let body = body.and_then(|body| serde_json::from_slice::<Value>(body).ok());
        let place = body.filter(|_| !self.value.is_null()).and_then(|body| {
            let places = ["messages", "input", "system", "instructions"].into_iter();
            places
                .filter_map(|key| Some((key, body.get(key)?)))
                .find_map(|(key, list)| place_of(list, &self.value).map(|inner| format!("{key}{inner}")))
        });
        let message = match &place {
            Some(place) => format!("`{place}` {}", self.why),
            None if self.value.is_null() => self.why.clone(),
            None => format!("a part of the conversation {}", self.why),
        };
        let failure = Failure::new(Kind::Request, message).with_code("unsupported_content");
        match place {
            Some(place) => failure.with_param(place),
            None => failure,
        }
    }
}

/// The path from `value` to the first value in it that equals `wanted`.
fn place_of(value: &Value, wanted: &Value) -> Option<String> {
    if value == wanted {
        return Some(String::new());
    }
    match value {
        Value::Array(list) => list
            .iter()
            .enumerate()
            .find_map(|(place, element)| Some(format!("[{place}]{}", place_of(element, wanted)?))),
        Value::Object(members) => {
            members.iter().find_map(|(key, member)| Some(format!(".{key}{}", place_of(member, wanted)?)))
        }
        _ => None,
    }
}

/// The conversation of a client that speaks `client`, as an upstream with this `side` can take it. Empty turns of the assistant and
/// empty instructions are left out if the two differ.
///
/// # Errors
/// A part that cannot be sent, or nothing is left to send.
pub fn fit<'c>(
    conversation: &'c Conversation,
    client: Dialect,
    side: &dyn UpstreamSide,
) -> Result<Cow<'c, Conversation>, Unfit> {
    let fitting = Fitting { side, own: side.dialect(), translates: client != side.dialect() };
    if fitting.translates {
        refuse_elsewhere(conversation)?;
    }
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
            fitting.turn(turn, &index, &mut turns)?;
        } else {
            turns.push(turn.clone());
        }
    }
    turns.retain(|turn| !fitting.leaves_out(turn));
    let is_said = |turn: &Turn| !matches!(turn.role, Role::System | Role::Developer);
    if !turns.iter().any(is_said) && conversation.turns.iter().any(is_said) {
        let why =
            "no message is left to send: none of them has content that the model's API can take".to_owned();
        return Err(Unfit { value: Value::Null, why, member: None });
    }
    let mut fitted = conversation.clone();
    fitted.tools.retain(|tool| !removed.contains(tool.name.as_str()));
    Ok(Cow::Owned(Conversation { turns, ..fitted }))
}

/// Members of a Messages request that say that a part of the conversation, or of what it works with, is on Anthropic's servers.
const ELSEWHERE: [(&str, &str); 3] = [
    (
        "thread",
        "is not supported for this model: nobody holds the thread; send the whole conversation as `messages`",
    ),
    ("container", "is not supported for this model, whose API has no containers; leave it out"),
    (
        "mcp_servers",
        "is not supported for this model, whose API calls no MCP servers; leave it out, or declare their tools",
    ),
];

/// Refuses a request of which a part is elsewhere: leaving that out would change what the model sees.
fn refuse_elsewhere(conversation: &Conversation) -> Result<(), Unfit> {
    let Some(rest) = conversation.rest.from_dialect(Dialect::Messages.name()) else { return Ok(()) };
    let is_given = |key: &str| match rest.get(key) {
        None | Some(Value::Null) => false,
        Some(Value::Array(list)) => !list.is_empty(),
        Some(_) => true,
    };
    match ELSEWHERE.into_iter().find(|(key, _)| is_given(key)) {
        Some((key, why)) => Err(Unfit { value: Value::Null, why: why.to_owned(), member: Some(key) }),
        None => Ok(()),
    }
}

/// What fitting depends on.
struct Fitting<'s> {
    side: &'s dyn UpstreamSide,
    own: Dialect,
    /// The client speaks another dialect.
    translates: bool,
}

impl Fitting<'_> {
    /// A part that the upstream's API does not have.
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
        turn.parts.iter().any(|part| match part {
            Part::Other(_) => self.foreign(part).is_some(),
            Part::Image { url, .. } => self.translates && !(takes_media && self.is_ready(url)),
            _ => false,
        })
    }

    /// Whether an image can be sent as it is.
    fn is_ready(&self, url: &str) -> bool {
        let is_plain = match data_url(url) {
            Some((mime, _)) => mime.starts_with("image/") && plain_mime(mime) == mime,
            None => url.contains(':'),
        };
        is_plain && self.side.takes_image(url)
    }

    /// Whether nothing is said in a turn that would be sent.
    fn leaves_out(&self, turn: &Turn) -> bool {
        let may_be_empty = matches!(turn.role, Role::User | Role::Tool);
        self.translates
            && !may_be_empty
            && is_empty_turn(turn, self.own.name(), self.side.takes_reasoning_alone())
    }

    /// The tools that the conversation itself removed.
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

    /// Adds what becomes of a turn.
    fn turn(&self, turn: &Turn, index: &CallIndex<'_>, turns: &mut Vec<Turn>) -> Result<(), Unfit> {
        let mut said = Said { turn, first: turns.len(), parts: Vec::new(), calls: Vec::new(), turns };
        let moves =
            turn.parts.iter().filter_map(|part| self.foreign(part)).any(|value| Shown::of(value).is_some());
        for part in &turn.parts {
            match (part, self.foreign(part)) {
                (_, Some(value)) => self.part(value, index, &mut said)?,
                (Part::Image { url, detail }, _) if self.translates => {
                    let mut pieces = Vec::new();
                    let image = image_part(url, detail.as_deref());
                    if !read(&image, &mut pieces) {
                        return Err(unfit(
                            &url.as_str().into(),
                            "is no URL of an image, and no base64 of one",
                        ));
                    }
                    self.pieces(pieces, &url.as_str().into(), &mut said)?;
                }
                // Their results are in turns after this one, with nothing between.
                (Part::Call(_), _) if moves => said.calls.push(part.clone()),
                _ => said.parts.push(part.clone()),
            }
        }
        said.end();
        Ok(())
    }

    /// Adds what a part of another API says.
    fn part(&self, value: &Value, index: &CallIndex<'_>, said: &mut Said<'_>) -> Result<(), Unfit> {
        match Shown::of(value) {
            Some(Shown::Call { id, tool, value }) => {
                said.parts.push(Part::Call(calls::call(id, tool, value)));
                if !index.is_answered(id) {
                    self.result(id, value, said);
                }
                return Ok(());
            }
            Some(Shown::Output { id, tool, value }) => {
                match index.call_of(id) {
                    Some(id) => self.result(id, value, said),
                    None => {
                        let mut pieces = Vec::new();
                        calls::output(value, &mut pieces);
                        let (texts, media) = self.told(pieces);
                        let text = format!("[the result of a call of {tool}: {}]", texts.join("\n"));
                        said.aside(vec![Part::Text(text.into())].into_iter().chain(media).collect());
                    }
                }
                return Ok(());
            }
            None => {}
        }
        let mut pieces = Vec::new();
        if read(value, &mut pieces) {
            return self.pieces(pieces, value, said);
        }
        let kind = kind_of(value);
        match (said.turn.role, kind) {
            (_, "compaction" | "compaction_trigger" | "context_compaction") => Err(unfit(
                value,
                match kind {
                    "compaction_trigger" => {
                        "asks for a compaction, which this model's API does not have; let the client compact the conversation itself. In Codex, \
                     configure toolwire as a provider under `[model_providers]`, not by `openai_base_url`"
                    }
                    _ => {
                        "is a compaction that only the server which made it can read; the conversation before it is in nothing else. Send \
                     the conversation itself"
                    }
                },
            )),
            (Role::Tool, _) => {
                said.parts.push(Part::Text(shown(value).into()));
                Ok(())
            }
            (Role::Assistant, _) => {
                let mut rest = readable(value);
                rest.as_object_mut().and_then(|members| members.shift_remove("type"));
                said.aside(vec![Part::Text(format!("[{kind}: {rest}]").into())]);
                Ok(())
            }
            _ => Err(unfit(
                value,
                &format!("is of the type `{}`, which this model's API does not have", clip(kind)),
            )),
        }
    }

    /// Adds the result of a call, as a turn of its own.
    fn result(&self, id: &str, value: &Value, said: &mut Said<'_>) {
        let mut pieces = Vec::new();
        calls::output(value, &mut pieces);
        let (texts, media) = self.told(pieces);
        let output = CallOutput {
            id: id.to_owned(),
            name: String::new(),
            content: texts.join("\n"),
            is_error: calls::is_error(value),
        };
        said.apart(Turn::of(Role::Tool, [Part::Result(output)].into_iter().chain(media).collect()));
    }

    /// Adds pieces of a part, which is `whole`, to a turn.
    fn pieces(&self, pieces: Vec<Piece>, whole: &Value, said: &mut Said<'_>) -> Result<(), Unfit> {
        match said.turn.role {
            Role::Tool | Role::Assistant => {
                let is_tool = said.turn.role == Role::Tool;
                for piece in pieces {
                    match self.expressed(piece) {
                        // A model shows no media.
                        Ok(part @ (Part::Image { .. } | Part::Other(_))) if !is_tool => {
                            said.aside(vec![part])
                        }
                        Ok(part) => said.parts.push(part),
                        Err(what) => said.parts.push(Part::Text(left_out(&what).into())),
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
                        Ok(part) => said.parts.push(part),
                        Err(what) => {
                            let why = format!("is {what}, which this model's API does not take in this form");
                            return Err(unfit(whole, &why));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// What a result says: its texts, and its media. What cannot be sent is named in a text.
    fn told(&self, pieces: Vec<Piece>) -> (Vec<String>, Vec<Part>) {
        let (mut texts, mut media) = (Vec::new(), Vec::new());
        for piece in pieces {
            match self.expressed(piece) {
                Ok(Part::Text(text)) => texts.push(String::from(text)),
                Ok(part) => media.push(part),
                Err(what) => texts.push(left_out(&what)),
            }
        }
        (texts, media)
    }

    /// The part that a piece becomes, or what it is if it cannot be sent.
    fn expressed(&self, piece: Piece) -> Result<Part, String> {
        match piece {
            Piece::Text(text) => Ok(Part::Text(text.into())),
            Piece::Reasoning(text) => Ok(Part::Reasoning { text, signature: None, redacted: false }),
            Piece::Image { url, .. } if !self.side.takes_image(&url) => Err(match data_url(&url) {
                Some(_) => "an image".to_owned(),
                None => format!("an image, {}", clip(&url)),
            }),
            Piece::Image { url, detail } => Ok(Part::Image { url, detail }),
            Piece::File(file) => self.side.file_part(&file).ok_or_else(|| file.described()),
        }
    }
}

/// What becomes of a turn.
struct Said<'t> {
    turn: &'t Turn,
    /// The number of turns before it.
    first: usize,
    parts: Vec<Part>,
    /// Calls that the client runs, which come last.
    calls: Vec<Part>,
    turns: &'t mut Vec<Turn>,
}

impl Said<'_> {
    /// Ends the turn so far.
    fn flush(&mut self) {
        let mut parts = mem::take(&mut self.parts);
        if self.turn.role == Role::Tool {
            join_result(&mut parts);
        }
        if !parts.is_empty() {
            // The other fields of the message belong to the first of its turns.
            let rest =
                if self.turns.len() == self.first { self.turn.rest.clone() } else { Default::default() };
            self.turns.push(Turn { role: self.turn.role, parts, rest });
        }
    }

    /// Adds a turn of another author.
    fn apart(&mut self, turn: Turn) {
        self.flush();
        self.turns.push(turn);
    }

    /// Adds what a turn of the assistant cannot hold, as the user's.
    fn aside(&mut self, parts: Vec<Part>) {
        if self.turn.role == Role::User {
            return self.parts.extend(parts);
        }
        self.apart(Turn::of(Role::User, parts));
    }

    fn end(mut self) {
        let calls = mem::take(&mut self.calls);
        self.parts.extend(calls);
        self.flush();
    }
}

/// Adds the texts behind a result to it.
fn join_result(parts: &mut Vec<Part>) {
    let Some(Part::Result(_)) = parts.first() else { return };
    let (texts, mut others): (Vec<_>, Vec<_>) =
        mem::take(parts).into_iter().partition(|part| matches!(part, Part::Text(_)));
    if let Some(Part::Result(output)) = others.first_mut() {
        for text in texts {
            let Part::Text(text) = text else { continue };
            if !output.content.is_empty() {
                output.content.push('\n');
            }
            output.content.push_str(&text);
        }
    }
    *parts = others;
}

fn is_instruction(role: Role) -> bool {
    matches!(role, Role::System | Role::Developer)
}

fn unfit(value: &Value, why: &str) -> Unfit {
    Unfit { value: value.clone(), why: why.to_owned(), member: None }
}

/// The text in place of what cannot be sent.
fn left_out(what: &str) -> String {
    format!("[{what}, was left out: this model's API does not take it in this form]")
}

/// An image in the form of Chat Completions, which is read as any other.
fn image_part(url: &str, detail: Option<&str>) -> Value {
    serde_json::json!({"type": "image_url", "image_url": {"url": url, "detail": detail}})
}

/// The beginning of a text from outside, for a message.
fn clip(text: &str) -> &str {
    const SHOWN: usize = 100;
    head(text, boundary_upto(text, SHOWN))
}

//! Decodes `contents` and `systemInstruction` into the turns of the conversation.

use serde_json::{Map, Value};

use super::{
    DIALECT,
    calls::CallIds,
    part::{self, Said},
};
use crate::{
    conversation::{Part, Rest, Role, Text, Turn, is_own},
    event::Opaque,
    failure::{Failure, Kind},
    fields::{Fields, Path, wrong_value},
    wire::json::{Json, Kind as JsonKind},
};

/// Takes the instructions: a content, a part, a string, or a list of the latter two.
pub(super) fn instructions(request: &mut Fields<'_, '_>) -> Result<Vec<Turn>, Failure> {
    let Some(given) = request.any("systemInstruction") else { return Ok(Vec::new()) };
    let path = request.at("systemInstruction");
    let mut parts = Vec::new();
    match given.kind() {
        JsonKind::Array => {
            for (place, element) in given.elements().enumerate() {
                parts.extend(text(Path::Element(&path, place), element)?);
            }
        }
        JsonKind::Object if given.get("parts").is_some() => {
            let mut content = Fields::in_camel_case(path, given)?;
            let list = content.list("parts")?;
            let path = content.at("parts");
            for (place, element) in list.enumerate() {
                parts.extend(text(Path::Element(&path, place), element)?);
            }
        }
        _ => parts.extend(text(path, given)?),
    }
    Ok(Vec::from_iter((!parts.is_empty()).then(|| Turn::of(Role::System, parts))))
}

/// A part of the instructions. `None` if it is empty.
fn text(path: Path<'_>, element: Json<'_>) -> Result<Option<Part>, Failure> {
    if let Some(text) = Text::received(element) {
        return Ok(Some(Part::Text(text)));
    }
    match part::read(path, element)?.part {
        Some(Part::Text(text)) => Ok(Some(Part::Text(text))),
        None => Ok(None),
        Some(_) => Err(wrong_value(path, "is not text; instructions accept only text")),
    }
}

/// Takes the turns.
pub(super) fn take(request: &mut Fields<'_, '_>) -> Result<Vec<Turn>, Failure> {
    let contents = request.list("contents")?;
    let path = request.at("contents");
    let mut turns = Turns::default();
    for (place, content) in contents.enumerate() {
        turns.content(Path::Element(&path, place), content)?;
    }
    if turns.turns.is_empty() {
        let message = "`contents` is missing or empty; it must be an array of at least one content";
        return Err(Failure::new(Kind::Request, message).with_param("contents"));
    }
    Ok(turns.turns)
}

#[derive(Debug, Default)]
struct Turns {
    turns: Vec<Turn>,
    ids: CallIds,
}

impl Turns {
    fn content(&mut self, path: Path<'_>, content: Json<'_>) -> Result<(), Failure> {
        let mut content = Fields::in_camel_case(path, content)?;
        let author = match content.string("role")?.as_deref() {
            None | Some("" | "user" | "function" | "tool") => Role::User,
            Some("model") => Role::Assistant,
            Some(other) => {
                let why = format_args!("is `{other}`; known are `user`, `model`, `function` and `tool`");
                return Err(wrong_value(content.at("role"), why));
            }
        };
        let begin = self.turns.len();
        // Chats of the SDKs repeat each chunk of a streamed response as a content of its own.
        let is_continued =
            author == Role::Assistant && self.turns.last().is_some_and(|turn| turn.role == author);
        let parts = content.list("parts")?;
        let path = content.at("parts");
        for (place, element) in parts.enumerate() {
            let said = part::read(Path::Element(&path, place), element)?;
            self.said(author, said, self.turns.len() > begin || is_continued);
        }
        if self.turns.len() == begin && !is_continued {
            self.turns.push(Turn::of(author, Vec::new()));
        }
        let rest = content.into_rest();
        if let Some(last) = self.turns.last_mut() {
            rest.into_iter().for_each(|(key, value)| last.rest.set(DIALECT, &key, value));
        }
        Ok(())
    }

    /// Adds what a part says. It continues the last turn if that may be and has the same author.
    fn said(&mut self, author: Role, said: Said, may_continue: bool) {
        let Said { mut part, signature, media, original } = said;
        match &mut part {
            Some(Part::Call(call)) => self.ids.call(&mut call.id, &call.name),
            Some(Part::Result(output)) => self.ids.result(&mut output.id, &output.name),
            _ => {}
        }
        if let Some(result @ Part::Result(_)) = part {
            if author == Role::User || is_own(&result) {
                self.turns.push(Turn::of(Role::Tool, [result].into_iter().chain(media).collect()));
                return self.keep(original);
            }
            part = Some(result);
        }
        let continues = may_continue && self.turns.last().is_some_and(|turn| turn.role == author);
        if !continues {
            self.turns.push(Turn::of(author, Vec::new()));
        }
        let Some(turn) = self.turns.last_mut() else { return };
        let is_signed = signature.is_some();
        if let Some((state, redacted)) = signature {
            sign(turn, state, redacted);
        }
        // The last chunk of a stream may have an empty text.
        let is_nothing = |part: &Part| {
            (is_signed || author == Role::Assistant) && matches!(part, Part::Text(text) if text.is_empty())
        };
        let Some(part) = part.filter(|part| !is_nothing(part)) else { return };
        if author != Role::Assistant || original.is_some() || !joined(turn, &part) {
            turn.parts.push(part);
        }
        turn.parts.extend(media);
        self.keep(original);
    }

    /// Keeps the original of the last part.
    fn keep(&mut self, original: Option<Value>) {
        let (Some(original), Some(turn)) = (original, self.turns.last_mut()) else { return };
        match turn.rest.get_mut("parts").and_then(Value::as_array_mut) {
            Some(originals) => originals.push(original),
            None => {
                let originals = Map::from_iter([("parts".to_owned(), vec![original].into())]);
                turn.rest = Rest::new(DIALECT, originals);
            }
        }
    }
}

/// Adds the state of the reasoning at the end of `turn`. Reasoning that the client did not send back is empty.
fn sign(turn: &mut Turn, state: Opaque<'static>, is_withheld: bool) {
    match turn.parts.last_mut() {
        Some(Part::Reasoning { signature: signature @ None, redacted, .. }) => {
            *signature = Some(state);
            *redacted = is_withheld;
        }
        _ => turn.parts.push(Part::Reasoning {
            text: String::new(),
            signature: Some(state),
            redacted: is_withheld,
        }),
    }
}

/// Adds a piece of the model's text to the text before it. Returns whether it was added.
fn joined(turn: &mut Turn, part: &Part) -> bool {
    match (turn.parts.last_mut(), part) {
        (Some(Part::Text(before)), Part::Text(text)) => {
            before.change(|before| before.push_str(text));
            true
        }
        (
            Some(Part::Reasoning { text: before, signature: None, .. }),
            Part::Reasoning { text, signature, redacted: false },
        ) => {
            before.push_str(text);
            let Some(Part::Reasoning { signature: own, .. }) = turn.parts.last_mut() else { return true };
            own.clone_from(signature);
            true
        }
        _ => false,
    }
}

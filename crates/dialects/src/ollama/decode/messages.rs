//! Decodes `messages` into the turns of the conversation.
//!
//! Clients may leave the ids of calls out, so calls get ids by their position, and results are matched by name and
//! order.

use std::collections::{HashMap, VecDeque};

use crate::{
    Dialect,
    conversation::{Call, CallOutput, Part, Rest, Role, Text, Turn},
    failure::Failure,
    fields::{Fields, Path, wrong_type, wrong_value},
    media::mime_of_base64,
    wire::json::{Json, Kind as JsonKind},
};

/// Reads the messages. There may be none: the server then only loads the model.
pub(super) fn take(request: &mut Fields<'_, '_>) -> Result<Vec<Turn>, Failure> {
    let messages = request.list("messages")?;
    let path = request.at("messages");
    let mut calls = OpenCalls::default();
    let mut turns: Vec<Turn> = Vec::new();
    for (place, message) in messages.enumerate() {
        let turn = turn(Fields::new(Path::Element(&path, place), message)?, &mut calls)?;
        match turns.last_mut() {
            // Some clients send each call of a response as a message of its own. Other APIs require results right
            // after the message with their calls.
            Some(before) if continues_calls(before, &turn) => before.parts.extend(turn.parts),
            _ => turns.push(turn),
        }
    }
    Ok(turns)
}

/// Whether `turn` only has more calls of the response in `before`.
fn continues_calls(before: &Turn, turn: &Turn) -> bool {
    let is_call = |part: &Part| matches!(part, Part::Call(_));
    let is_response = before.role == Role::Assistant && before.parts.last().is_some_and(is_call);
    is_response && turn.parts.iter().all(is_call) && turn.role == before.role && turn.rest == Rest::default()
}

/// The calls of the latest response that have no result yet. There may be many, so none is searched for.
#[derive(Debug, Default)]
struct OpenCalls {
    /// The calls by position, with their ids and names. `None` if a call has a result.
    calls: Vec<Option<(String, String)>>,
    by_id: HashMap<String, VecDeque<usize>>,
    by_name: HashMap<String, VecDeque<usize>>,
    /// All calls before this one have results.
    first: usize,
    /// The number of ids that were made.
    made: usize,
    /// Whether the latest message belongs to the response.
    is_response: bool,
}

impl OpenCalls {
    /// A new id for a call.
    fn next(&mut self) -> String {
        self.made += 1;
        format!("call_{}", self.made)
    }

    /// Must be called for each message, before its calls. A message of the assistant after another author's begins a
    /// new response.
    fn message(&mut self, role: Role) {
        let is_response = role == Role::Assistant;
        if is_response && !self.is_response {
            *self = Self { made: self.made, ..Self::default() };
        }
        self.is_response = is_response;
    }

    fn add(&mut self, id: &str, name: &str) {
        let place = self.calls.len();
        self.by_id.entry(id.to_owned()).or_default().push_back(place);
        self.by_name.entry(name.to_owned()).or_default().push_back(place);
        self.calls.push(Some((id.to_owned(), name.to_owned())));
    }

    /// Takes the call to which a result belongs: by its id, or else the first one of this name, or else the first
    /// one if the result has no name.
    fn take(&mut self, id: &str, name: &str) -> Option<(String, String)> {
        if !id.is_empty() {
            let place = self.by_id.get_mut(id)?.pop_front()?;
            return self.calls.get_mut(place)?.take();
        }
        loop {
            let place = if name.is_empty() {
                self.first += 1;
                self.first - 1
            } else {
                self.by_name.get_mut(name)?.pop_front()?
            };
            if let Some(call) = self.calls.get_mut(place)?.take() {
                return Some(call);
            }
        }
    }
}

fn turn(mut message: Fields<'_, '_>, calls: &mut OpenCalls) -> Result<Turn, Failure> {
    let role = message.needed_string("role")?;
    let role = match &*role {
        "system" => Role::System,
        "developer" => Role::Developer,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        other => {
            let known = "`system`, `user`, `assistant` and `tool`";
            return Err(wrong_value(message.at("role"), format_args!("is `{other}`; known are {known}")));
        }
    };
    calls.message(role);
    let images = images(&mut message)?;
    let content = message.any("content").map(|content| text(message.at("content"), content)).transpose()?;
    let content = content.unwrap_or_default();
    let mut turn = match role {
        Role::Tool => result(&mut message, content, images, calls)?,
        Role::Assistant => {
            let mut parts = Vec::new();
            if let Some(text) = message.string("thinking")?.filter(|text| !text.is_empty()) {
                parts.push(Part::Reasoning { text: text.into_owned(), signature: None, redacted: false });
            }
            parts.extend(spoken(role, images, content).parts);
            parts.extend(past_calls(&mut message, calls)?);
            Turn::of(role, parts)
        }
        role => spoken(role, images, content),
    };
    turn.rest = Rest::new(Dialect::Ollama.name(), message.into_rest());
    Ok(turn)
}

/// A message with text and images.
pub(super) fn spoken(role: Role, images: Vec<Part>, text: Text) -> Turn {
    let has_text = !text.is_empty() || images.is_empty() && role != Role::Assistant;
    let text = has_text.then_some(Part::Text(text));
    Turn::of(role, text.into_iter().chain(images).collect())
}

pub(super) fn text(path: Path<'_>, content: Json<'_>) -> Result<Text, Failure> {
    Text::received(content).ok_or_else(|| wrong_type(path, "a string", content))
}

/// Reads `images`: base64, or a `data:` URL as some clients send.
pub(super) fn images(message: &mut Fields<'_, '_>) -> Result<Vec<Part>, Failure> {
    let images = message.list("images")?;
    let path = message.at("images");
    let image = |(place, image): (usize, Json<'_>)| {
        let Some(data) = image.as_str() else {
            return Err(wrong_type(Path::Element(&path, place), "a base64 string", image));
        };
        let url = match data.starts_with("data:") {
            true => data.into_owned(),
            false => format!("data:{};base64,{data}", mime_of_base64(&data)),
        };
        Ok(Part::Image { url, detail: None })
    };
    images.enumerate().map(image).collect()
}

fn result(
    message: &mut Fields<'_, '_>,
    content: Text,
    images: Vec<Part>,
    calls: &mut OpenCalls,
) -> Result<Turn, Failure> {
    let id = message.string("tool_call_id")?.unwrap_or_default();
    // Older clients write `name`.
    let older = message.string("name")?;
    let name = message.string("tool_name")?.or(older).unwrap_or_default();
    let (id, name) = match calls.take(&id, &name) {
        Some(call) => call,
        None if id.is_empty() => (calls.next(), name.into_owned()),
        None => (id.into_owned(), name.into_owned()),
    };
    let output = CallOutput { id, name, content: content.into(), is_error: false };
    Ok(Turn::of(Role::Tool, [Part::Result(output)].into_iter().chain(images).collect()))
}

fn past_calls(message: &mut Fields<'_, '_>, calls: &mut OpenCalls) -> Result<Vec<Part>, Failure> {
    let list = message.list("tool_calls")?;
    let path = message.at("tool_calls");
    let mut parts = Vec::new();
    for (place, call) in list.enumerate() {
        let at = Path::Element(&path, place);
        let mut fields = Fields::new(at, call)?;
        let id = fields.string("id")?.filter(|id| !id.is_empty());
        let id = id.map_or_else(|| calls.next(), |id| id.into_owned());
        let mut function = fields.needed_object("function")?;
        let name = function.needed_string("name")?.into_owned();
        let arguments = function.any("arguments");
        let arguments = match arguments {
            None => String::new(),
            Some(arguments) if arguments.kind() == JsonKind::Object => arguments.raw().to_owned(),
            // Clients that also speak OpenAI's API send the text of the arguments.
            Some(arguments) => match arguments.as_str() {
                Some(text) => text.into_owned(),
                None => return Err(wrong_type(function.at("arguments"), "an object", arguments)),
            },
        };
        calls.add(&id, &name);
        parts.push(Part::Call(Call::new(id, name, arguments)));
    }
    Ok(parts)
}

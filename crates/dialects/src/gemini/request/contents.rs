//! Writes the turns of a conversation as `contents` and `systemInstruction`.
//!
//! The API has two roles. Adjacent turns with the same role are written as one `Content`, so that the
//! results of parallel calls stay together.

use serde_json::Value;

use super::super::decode::{GENERATED_ID, means};
use crate::{
    Dialect,
    conversation::{
        Arguments, Call, CallOutput, CallsById, Part, Role, Turn, media_behind_results, results_in_call_order,
    },
    event::Opaque,
    foreign,
    media::{data_url, mime_of_url},
    signatures::{NO_SIGNATURE, begin_of_turn, checks_signatures},
    wire::json::{Encoder, Json, Kind},
};

/// Writes the turns of a request for `model`.
pub(super) fn put(body: &mut Encoder, turns: &[Turn], model: &str, dropped: &mut Vec<String>) {
    dropped.extend(foreign::turn_fields(turns, DIALECT, &["content", "tool_calls", "name"]));
    let media = media_behind_results(turns);
    let turns = results_in_call_order(&media);
    // A request must have contents, so if there are only instructions, they are sent as a user turn.
    let has_contents = turns.iter().any(|turn| side_of(turn.role).is_some());
    let instructions = || turns.iter().filter(|turn| has_contents && side_of(turn.role).is_none());
    if instructions().next().is_some() {
        body.key("systemInstruction").object(|body| {
            body.key("parts").array(|body| instructions().for_each(|turn| texts(body, turn, dropped)));
        });
    }
    let side = |turn: &Turn| if has_contents { side_of(turn.role) } else { Some(USER) };
    let spoken: Vec<&Turn> = turns.iter().filter(|turn| side(turn).is_some()).collect();
    let mut calls = CallsById::default();
    let (checks_signatures, current) = (checks_signatures(model), begin_of_turn(&spoken));
    let mut place = 0;
    body.key("contents").array(|body| {
        for run in spoken.chunk_by(|one, next| side(one) == side(next)) {
            let is_checked = checks_signatures && place + run.len() > current;
            place += run.len();
            body.object(|body| {
                body.key("role").string(run.first().and_then(|turn| side(turn)).unwrap_or(USER));
                body.key("parts").array(|body| {
                    let mut parts = Parts { body, count: 0, dropped, needs_signature: is_checked };
                    for turn in run {
                        calls.add(turn);
                        let originals = turn.rest.from_dialect(DIALECT).and_then(|rest| rest.get("parts"));
                        let originals = originals.and_then(Value::as_array).map(Vec::as_slice);
                        parts.put(&turn.parts, &calls, originals.unwrap_or_default());
                    }
                    // The API rejects a `Content` without parts.
                    if parts.count == 0 {
                        parts.text("", None);
                    }
                });
            });
        }
    });
}

const DIALECT: &str = Dialect::Gemini.name();
const USER: &str = "user";
const MODEL: &str = "model";

/// The role of a turn. `None` for instructions, which are not written to `contents`.
fn side_of(role: Role) -> Option<&'static str> {
    match role {
        Role::System | Role::Developer => None,
        Role::User | Role::Tool => Some(USER),
        Role::Assistant => Some(MODEL),
    }
}

/// Writes the text of instructions.
fn texts(body: &mut Encoder, turn: &Turn, dropped: &mut Vec<String>) {
    for part in &turn.parts {
        match part {
            Part::Text(text) => body.object(|body| text.put(body.key("text"))),
            _ => dropped.push("messages[].content[]".to_owned()),
        }
    }
}

struct Parts<'b> {
    body: &'b mut Encoder,
    count: usize,
    dropped: &'b mut Vec<String>,
    /// Whether the next call needs a signature because it is the first in its step.
    needs_signature: bool,
}

impl Parts<'_> {
    /// Writes the parts of a turn. `originals` contains the parts that a client of this API wrote with members that
    /// the turn does not have.
    fn put(&mut self, parts: &[Part], calls: &CallsById<'_>, mut originals: &[Value]) {
        // In this API, the part after the reasoning carries its signature. Other APIs attach it to the
        // reasoning itself.
        let mut signature: Option<&str> = None;
        for part in parts {
            if let Some(original) = next_original(&mut originals, part) {
                self.flush(&mut signature);
                self.count += 1;
                match with_other_id(original, part) {
                    Some(original) => self.body.value(&original),
                    None => self.body.value(original),
                }
                continue;
            }
            match part {
                Part::Text(text) if text.is_empty() && signature.is_none() => {}
                Part::Text(text) => self.text(text, signature.take()),
                Part::Call(call) => {
                    let own = call.signature.as_ref().and_then(own_state);
                    if own.is_some() {
                        self.flush(&mut signature);
                    }
                    let own = own.or(signature.take());
                    let needs_one = std::mem::take(&mut self.needs_signature);
                    self.call(call, own.or(needs_one.then_some(NO_SIGNATURE)));
                }
                Part::Reasoning { text, signature: state, .. } => {
                    self.flush(&mut signature);
                    self.thought(text);
                    signature = state.as_ref().and_then(own_state);
                    if state.is_some() && signature.is_none() {
                        self.dropped.push("messages[].reasoning.signature".to_owned());
                    }
                }
                Part::Result(output) => self.result(output, calls),
                Part::Image { url, .. } => {
                    self.flush(&mut signature);
                    self.file(url);
                }
                Part::Other(other) => match other.from_dialect(DIALECT) {
                    Some(own) => {
                        self.flush(&mut signature);
                        self.count += 1;
                        self.body.value(own);
                    }
                    None => self.dropped.push("messages[].content[]".to_owned()),
                },
            }
        }
        self.flush(&mut signature);
    }

    fn part(&mut self, members: impl FnOnce(&mut Encoder)) {
        self.count += 1;
        self.body.object(members);
    }

    /// Writes a signature that is not followed by any part.
    fn flush(&mut self, signature: &mut Option<&str>) {
        if signature.is_some() {
            self.text("", signature.take());
        }
    }

    fn text(&mut self, text: &str, signature: Option<&str>) {
        self.part(|body| {
            body.key("text").string(text);
            sign(body, signature);
        });
    }

    fn thought(&mut self, text: &str) {
        if !text.is_empty() {
            self.part(|body| {
                body.key("text").string(text);
                body.key("thought").value(&true);
            });
        }
    }

    fn call(&mut self, call: &Call, signature: Option<&str>) {
        self.part(|body| {
            body.key("functionCall").object(|body| {
                put_id(body, &call.id);
                body.key("name").string(&call.name);
                Arguments::of(&call.arguments).put(body.key("args"), "arguments");
            });
            sign(body, signature);
        });
    }

    /// Writes a result. An object is sent unchanged; anything else becomes the member `output` or `error` of
    /// an object.
    fn result(&mut self, output: &CallOutput, calls: &CallsById<'_>) {
        let name = Some(calls.tool_of(output)).filter(|name| !name.is_empty()).unwrap_or(UNKNOWN_TOOL);
        self.part(|body| {
            body.key("functionResponse").object(|body| {
                put_id(body, &output.id);
                body.key("name").string(name);
                let content = output.content.trim_ascii();
                let parsed = || Json::parse(content).ok().filter(|json| !has_reference(content, *json));
                match parsed().filter(|json| json.kind() == Kind::Object && !output.is_error) {
                    Some(object) => body.key("response").raw(object),
                    None => body.key("response").object(|body| {
                        let key = if output.is_error { "error" } else { "output" };
                        match parsed().filter(is_container) {
                            Some(json) => body.key(key).raw(json),
                            None => body.key(key).string(&output.content),
                        }
                    }),
                }
            });
        });
    }

    fn file(&mut self, url: &str) {
        match data_url(url) {
            Some((mime, data)) => self.part(|body| {
                body.key("inlineData").object(|body| {
                    body.key("mimeType").string(mime);
                    body.key("data").string(data);
                });
            }),
            None => self.part(|body| {
                body.key("fileData").object(|body| {
                    if let Some(mime) = mime_of_url(url) {
                        body.key("mimeType").string(mime);
                    }
                    body.key("fileUri").string(url);
                });
            }),
        }
    }
}

/// Returns the next original if `part` was read from it.
fn next_original<'o>(originals: &mut &'o [Value], part: &Part) -> Option<&'o Value> {
    let (first, rest) = originals.split_first()?;
    let is_meant = means(first, part);
    if is_meant {
        *originals = rest;
    }
    is_meant.then_some(first)
}

/// The original of a call or a result with the id that it has been given. `None` if that is the same.
fn with_other_id(original: &Value, part: &Part) -> Option<Value> {
    let (key, id) = match part {
        Part::Call(call) => ("functionCall", &call.id),
        Part::Result(output) => ("functionResponse", &output.id),
        _ => return None,
    };
    original.get(key)?.get("id").filter(|own| *own != id)?;
    let mut other = original.clone();
    *other.get_mut(key)?.get_mut("id")? = id.as_str().into();
    Some(other)
}

fn put_id(body: &mut Encoder, id: &str) {
    if !id.is_empty() && !id.starts_with(GENERATED_ID) {
        body.key("id").string(id);
    }
}

/// The tool name to send if the result's call is not in the conversation, since the API requires a name.
const UNKNOWN_TOOL: &str = "unknown";

fn own_state<'s>(state: &'s Opaque<'_>) -> Option<&'s str> {
    state.from_dialect(DIALECT).filter(|state| !state.is_empty())
}

fn sign(body: &mut Encoder, signature: Option<&str>) {
    if let Some(signature) = signature {
        body.key("thoughtSignature").string(signature);
    }
}

/// Whether a result has a member `$ref` at any depth, which the API would resolve as a reference.
fn has_reference(text: &str, json: Json<'_>) -> bool {
    fn is_in(value: &Value) -> bool {
        match value {
            Value::Object(members) => members.iter().any(|(key, value)| key == "$ref" || is_in(value)),
            Value::Array(elements) => elements.iter().any(is_in),
            _ => false,
        }
    }
    (text.contains('$') || text.contains("\\u0024")) && is_in(&json.to_value())
}

fn is_container(json: &Json<'_>) -> bool {
    matches!(json.kind(), Kind::Object | Kind::Array)
}

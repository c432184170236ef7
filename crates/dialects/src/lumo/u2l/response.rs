//! [`Unsealer`]: decrypts the frames of a response.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::{super::sealed_payload, RequestKey, undecryptable};
use crate::{
    failure::{Failure, Kind},
    wire::json::Json,
};

/// Members that contain a piece of an encrypted text. The text may be split anywhere, even inside a
/// character.
const PIECES: [&str; 4] = ["content", "reasoning_content", "reasoning", "text"];

/// Members that contain a complete encrypted text.
const WHOLE: [&str; 2] = ["arguments", "parameters"];

/// Decrypts the frames of one response.
///
/// The arguments of a client-tool call are a single ciphertext in several pieces, without an `encrypted`
/// flag, so they are held until all calls are complete.
#[derive(Debug)]
pub(in super::super) struct Unsealer {
    key: RequestKey,
    /// Bytes of incomplete characters, for each channel.
    begun: BTreeMap<String, Vec<u8>>,
    arguments: BTreeMap<u64, String>,
    /// Maximum total size of the arguments in bytes. Exceeding it fails the response.
    room: usize,
}

impl Unsealer {
    /// Creates a decrypter for the response to the request that was encrypted with `key`. The arguments of
    /// its calls may have up to `room` bytes.
    pub(in super::super) fn new(key: RequestKey, room: usize) -> Self {
        Self { key, begun: BTreeMap::new(), arguments: BTreeMap::new(), room }
    }

    /// Decrypts a frame. Returns one or more frames in plain text.
    ///
    /// # Errors
    /// A piece cannot be decrypted.
    pub(in super::super) fn open(&mut self, frame: &str) -> Result<Vec<String>, Failure> {
        let mut frame = match serde_json::from_str(frame) {
            Ok(Value::Object(frame)) => frame,
            Ok(_) => return Ok(vec![frame.to_owned()]),
            Err(_) => return Err(undecryptable("its frame is nested too deep")),
        };
        let target = frame.get("target").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.take_arguments(&mut frame)?;
        self.object(&mut frame, false, &target)?;
        let is_end = matches!(frame.get("type").and_then(Value::as_str), Some("done" | "harmful"))
            || has_finish(&frame);
        let mut frames = if is_end { self.finish()? } else { Vec::new() };
        frames.push(Value::Object(frame).to_string());
        Ok(frames)
    }

    /// Returns the frames that are still held when the response has ended.
    ///
    /// # Errors
    /// The text of a channel ends inside a character, or arguments cannot be decrypted.
    pub(in super::super) fn finish(&mut self) -> Result<Vec<String>, Failure> {
        if self.begun.values().any(|bytes| !bytes.is_empty()) {
            return Err(undecryptable("its text ends inside a character"));
        }
        let calls = std::mem::take(&mut self.arguments).into_iter();
        let calls = calls.map(|(index, arguments)| {
            let arguments = self.plain_arguments(arguments)?;
            let call = json!({"index": index, "function": {"arguments": arguments}});
            Ok(json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}).to_string())
        });
        calls.collect()
    }

    /// Decrypts arguments. Arguments that are JSON were not encrypted, and are returned unchanged.
    fn plain_arguments(&self, arguments: String) -> Result<String, Failure> {
        if Json::parse(&arguments).is_ok() { Ok(arguments) } else { whole(self.key.open(&arguments)?) }
    }

    /// Removes the arguments of client calls from a frame and collects them.
    fn take_arguments(&mut self, frame: &mut Map<String, Value>) -> Result<(), Failure> {
        let delta = frame.get_mut("choices").and_then(|choices| choices.get_mut(0)?.get_mut("delta"));
        let calls = delta.and_then(|delta| delta.get_mut("tool_calls")?.as_array_mut());
        for (place, call) in calls.into_iter().flatten().enumerate() {
            let index = call.get("index").and_then(Value::as_u64);
            let index = index.or(u64::try_from(place).ok()).unwrap_or_default();
            let function = call.get_mut("function").and_then(Value::as_object_mut);
            let Some(function) =
                function.filter(|function| function.get("arguments").is_some_and(Value::is_string))
            else {
                continue;
            };
            if let Some(Value::String(piece)) = function.remove("arguments").filter(|piece| *piece != "") {
                self.room = self.room.checked_sub(piece.len()).ok_or_else(|| {
                    Failure::new(Kind::Limit, "the encrypted arguments of the calls are larger than allowed")
                })?;
                self.arguments.entry(index).or_default().push_str(&piece);
            }
        }
        Ok(())
    }

    /// Decrypts the members of an object if it, or an object around it, has the `encrypted` flag, and removes the
    /// flags. `target` is the channel of the text.
    fn object(
        &mut self,
        object: &mut Map<String, Value>,
        is_inside: bool,
        target: &str,
    ) -> Result<(), Failure> {
        let mark = object.shift_remove("encrypted");
        let is_marked =
            mark.is_some_and(|mark| Json::parse(&mark.to_string()).is_ok_and(sealed_payload::is_set));
        let is_sealed = is_inside || is_marked;
        let target = object.get("target").and_then(Value::as_str).unwrap_or(target).to_owned();
        for (name, value) in object.iter_mut() {
            match value {
                // A result is a separate text.
                Value::Object(inner) => {
                    let target = if name == "tool_result" { name } else { &target };
                    self.object(inner, is_sealed, target)?;
                }
                Value::Array(elements) => {
                    for inner in elements.iter_mut().filter_map(Value::as_object_mut) {
                        self.object(inner, is_sealed, &target)?;
                    }
                }
                Value::String(text) if !text.is_empty() => self.text(name, text, is_sealed, &target)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn text(&mut self, name: &str, text: &mut String, is_sealed: bool, target: &str) -> Result<(), Failure> {
        let is_piece = PIECES.contains(&name);
        match name {
            _ if is_piece => {
                let begun = self.begun.entry(format!("{target}.{name}")).or_default();
                if is_sealed || !begun.is_empty() {
                    let bytes = if is_sealed { self.key.open(text)? } else { text.as_bytes().to_vec() };
                    *text = joined(begun, bytes)?;
                }
            }
            name if WHOLE.contains(&name) && is_sealed => *text = whole(self.key.open(text)?)?,
            "data" if is_sealed => *text = STANDARD.encode(self.key.open(text)?),
            "url" if is_sealed => return Err(undecryptable("it is a link")),
            _ => {}
        }
        Ok(())
    }
}

fn has_finish(frame: &Map<String, Value>) -> bool {
    let reason = frame.get("choices").and_then(|choices| choices.get(0)?.get("finish_reason"));
    reason.and_then(Value::as_str).is_some_and(|reason| !reason.is_empty())
}

/// Appends `bytes` to `begun`. Returns the complete characters and leaves the remaining bytes in `begun`.
fn joined(begun: &mut Vec<u8>, bytes: Vec<u8>) -> Result<String, Failure> {
    begun.extend(bytes);
    let complete = match str::from_utf8(begun) {
        Ok(_) => begun.len(),
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => return Err(undecryptable("it is not UTF-8")),
    };
    let rest = begun.split_off(complete);
    whole(std::mem::replace(begun, rest))
}

fn whole(bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|_| undecryptable("it is not UTF-8"))
}

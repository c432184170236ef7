//! Encrypts the turns of a request.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::{Map, Value};

use super::{Random, Recipient, RequestKey};
use crate::failure::{Failure, Kind};

impl Recipient {
    /// Encrypts the contents of the turns in a request body of either version. Returns the new body, and the
    /// key for the response.
    ///
    /// # Errors
    /// The request cannot be encrypted.
    pub fn seal(&self, body: &[u8], random: Random<'_>) -> Result<(Bytes, RequestKey), Failure> {
        let key = RequestKey::random(random);
        let wrapped = self.wrap(&key, random)?;
        let unknown = || Failure::new(Kind::Internal, "the request has no turns to encrypt");
        let mut body: Value = serde_json::from_slice(body).map_err(|_| unknown())?;
        let members = body.as_object_mut().ok_or_else(unknown)?;
        let is_v1 = members.contains_key("Prompt");
        let (turns, place) = if is_v1 { ("turns", "Prompt") } else { ("messages", "lumo") };
        let holder =
            if is_v1 { members.get_mut(place).and_then(Value::as_object_mut) } else { Some(&mut *members) };
        let turns = holder.and_then(|holder| holder.get_mut(turns)).and_then(Value::as_array_mut);
        for turn in turns.ok_or_else(unknown)?.iter_mut().filter_map(Value::as_object_mut) {
            seal_turn(turn, &key, random)?;
        }
        let place = members.get_mut(place).and_then(Value::as_object_mut).ok_or_else(unknown)?;
        place.insert("request_key".to_owned(), wrapped.into());
        place.insert("request_id".to_owned(), key.id().into());
        Ok((Bytes::from(body.to_string()), key))
    }
}

/// Encrypts the content of a turn and its images. A turn without content gets empty content.
fn seal_turn(turn: &mut Map<String, Value>, key: &RequestKey, random: Random<'_>) -> Result<(), Failure> {
    let mut seal = |plain: &[u8]| {
        let mut nonce = [0; 12];
        random(&mut nonce);
        key.seal(plain, nonce)
    };
    let content = match turn.get_mut("content") {
        Some(Value::Array(parts)) => {
            for part in parts.iter_mut().filter_map(Value::as_object_mut) {
                seal_part(part, &mut seal)?;
            }
            None
        }
        Some(Value::String(text)) => Some(seal(text.as_bytes())?),
        _ => Some(seal(b"")?),
    };
    if let Some(content) = content {
        turn.insert("content".to_owned(), content.into());
    }
    turn.insert("encrypted".to_owned(), true.into());
    let images = turn.get_mut("images").and_then(Value::as_array_mut).into_iter().flatten();
    for image in images.filter_map(Value::as_object_mut) {
        let data = image.get("data").and_then(Value::as_str).unwrap_or_default();
        let sealed = seal(&image_bytes(data)?)?;
        image.insert("data".to_owned(), sealed.into());
        image.insert("encrypted".to_owned(), true.into());
    }
    Ok(())
}

/// Encrypts one part of a turn's content: text, or the bytes of an image in a `data:` URL, whose type
/// becomes `application/octet-stream`. Each part gets its own `encrypted` flag
/// (docs/protocols/lumo.md#encryption).
fn seal_part(
    part: &mut Map<String, Value>,
    seal: &mut impl FnMut(&[u8]) -> Result<String, Failure>,
) -> Result<(), Failure> {
    if let Some(Value::String(text)) = part.get_mut("text") {
        *text = seal(text.as_bytes())?;
        part.insert("encrypted".to_owned(), true.into());
    }
    let Some(image) = part.get_mut("image_url").and_then(Value::as_object_mut) else { return Ok(()) };
    let Some(url) = image.get("url").and_then(Value::as_str) else { return Ok(()) };
    let data = url.split_once(";base64,").filter(|(head, _)| head.starts_with("data:")).map(|(_, data)| data);
    let data = data.ok_or_else(|| {
        let message = "an image that is only a link cannot be encrypted; send its bytes as a `data:` URL";
        Failure::new(Kind::Request, message)
    })?;
    let sealed = format!("data:application/octet-stream;base64,{}", seal(&image_bytes(data)?)?);
    image.insert("url".to_owned(), sealed.into());
    image.insert("encrypted".to_owned(), true.into());
    Ok(())
}

fn image_bytes(data: &str) -> Result<Vec<u8>, Failure> {
    STANDARD.decode(data).map_err(|_| Failure::new(Kind::Request, "an image is not base64"))
}

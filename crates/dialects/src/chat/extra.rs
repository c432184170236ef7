//! Opaque state in Chat Completions: the `extra_content` of calls, and OpenRouter's `reasoning_details`.
//!
//! The API itself has no field for signatures. Google's compatible API sends a call's signature in
//! `extra_content.google.thought_signature`, and some clients send this member back. toolwire therefore also
//! uses `extra_content` to carry the state of other dialects through clients, with the dialect's name (see
//! [`opaque`](crate::opaque)). OpenRouter sends signed reasoning as objects; the state of a piece of
//! reasoning is its object without the text.

use serde_json::{Map, Value, json};

use crate::{
    Dialect,
    conversation::Part,
    event::Opaque,
    opaque::{carried, carried_back},
    wire::json::Json,
};

const DIALECT: &str = Dialect::Chat.name();

/// The state in the `extra_content` of a past call that a client has sent back.
pub(super) fn past_call_state(extra: &Value) -> Option<Opaque<'static>> {
    let members = extra.as_object().filter(|members| !members.is_empty())?;
    let signature = members.get("google").and_then(|google| google.get("thought_signature")?.as_str());
    match signature.filter(|_| members.len() == 1) {
        Some("") => None,
        Some(signature) => Some(carried_back(signature, Dialect::Gemini)),
        None => Some(Opaque::new(DIALECT, extra.to_string())),
    }
}

/// The `extra_content` in which the state of a call is sent to the client.
pub(super) fn extra_content(state: &Opaque<'_>) -> Value {
    let own = || state.from_dialect(DIALECT).and_then(|text| serde_json::from_str(text).ok());
    match own() {
        Some(Value::Object(extra)) => extra.into(),
        _ => json!({"google": {"thought_signature": carried(state, Dialect::Gemini)}}),
    }
}

/// The `extra_content` in which a call's state is sent back to an upstream, if the state came from this API
/// or from Gemini.
pub(super) fn returned_extra_content(state: &Opaque<'_>) -> Option<Value> {
    let is_known = [DIALECT, Dialect::Gemini.name()].contains(&state.dialect);
    is_known.then(|| extra_content(state))
}

/// The state in an element of `reasoning_details`, which is the element without its text. `None` if nothing
/// in it has to be sent back.
pub(super) fn detail_state(detail: Json<'_>) -> Option<Opaque<'static>> {
    let is_signed = ["signature", "data"].iter().any(|key| {
        detail.get(key).is_some_and(|value| value.string_body().is_some_and(|body| !body.is_empty()))
    });
    if !is_signed {
        return None;
    }
    let mut state: Map<String, Value> = serde_json::from_str(detail.raw()).ok()?;
    state.retain(|key, value| !TEXT_KEYS.contains(&key.as_str()) && !value.is_null());
    Some(Opaque::new(DIALECT, Value::Object(state).to_string()))
}

/// The members that contain the text of an element of `reasoning_details`.
pub(super) const TEXT_KEYS: [&str; 2] = ["text", "summary"];

/// The elements of `reasoning_details` from which `parts` were read. Empty if no part has the state of such
/// an element.
pub(super) fn reasoning_details(parts: &[Part]) -> Vec<Value> {
    let details = parts.iter().filter_map(|part| {
        let Part::Reasoning { text, signature: Some(state), .. } = part else { return None };
        let mut detail: Map<String, Value> = serde_json::from_str(state.from_dialect(DIALECT)?).ok()?;
        let key = match detail.get("type")?.as_str()? {
            "reasoning.text" => "text",
            "reasoning.summary" => "summary",
            _ => return Some(detail.into()),
        };
        detail.insert(key.to_owned(), text.as_str().into());
        Some(Value::Object(detail))
    });
    details.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opaque::call_state;

    fn state_of(extra: &str) -> Option<(String, String)> {
        let state = call_state(Json::parse(extra).unwrap())?;
        let past = past_call_state(&extra_content(&state)).unwrap();
        assert_eq!(past, state, "a client gives back what it got");
        Some((state.dialect.to_owned(), state.text.into_owned()))
    }

    #[test]
    fn state_of_calls_survives_a_client() {
        let is = |dialect: &str, text: &str| Some((dialect.to_owned(), text.to_owned()));
        assert_eq!(state_of(r#"{"google": {"thought_signature": "c2ln\r\n"}}"#), is("gemini", "c2ln\r\n"));
        let vertex = r#"{"vertex":{"thought_signature":"s"}}"#;
        assert_eq!(state_of(vertex), is("chat", vertex));
        let both = r#"{"google":{"thought_signature":"s"},"x":1}"#;
        assert_eq!(state_of(both), is("chat", both));
        for none in ["{}", "null", "[]", "\"s\"", r#"{"google":{"thought_signature":""}}"#] {
            assert_eq!(state_of(none), None, "{none}");
        }
    }

    #[test]
    fn clients_carry_the_state_of_other_dialects_marked() {
        let state = Opaque::new("responses", "gAAAA");
        let extra = extra_content(&Opaque::new("lumo", "gAAAA"));
        assert_eq!(extra, json!({"google": {"thought_signature": "lumo:gAAAA"}}));
        assert_eq!(past_call_state(&extra), Some(Opaque::new("lumo", "gAAAA")));
        assert_eq!(returned_extra_content(&state), None);
    }

    #[test]
    fn hostile_extra_content_is_kept_as_it_is_or_ignored() {
        for extra in [json!(1), json!("s"), json!([1]), json!({}), json!(null)] {
            assert_eq!(past_call_state(&extra), None, "{extra}");
        }
        let odd = json!({"google": {"thought_signature": {"a": [1, 2]}}});
        assert_eq!(past_call_state(&odd), Some(Opaque::new("chat", odd.to_string())));
    }

    #[test]
    fn signed_details_come_back_with_their_text() {
        let detail = r#"{"type": "reasoning.text", "text": "m", "signature": "s", "format": "anthropic-claude-v1", "index": 0, "id": null}"#;
        let state = detail_state(Json::parse(detail).unwrap()).unwrap();
        let part = |text: &str, state: &Opaque<'static>| Part::Reasoning {
            text: text.to_owned(),
            signature: Some(state.clone()),
            redacted: false,
        };
        let encrypted = r#"{"type":"reasoning.encrypted","data":"x","index":1}"#;
        let hidden = detail_state(Json::parse(encrypted).unwrap()).unwrap();
        let foreign = Opaque::new("messages", "{}");
        let details = reasoning_details(&[part("hm", &state), part("", &hidden), part("x", &foreign)]);
        let mut first: Value = serde_json::from_str(detail).unwrap();
        first["text"] = "hm".into();
        first.as_object_mut().unwrap().shift_remove("id");
        assert_eq!(details, [first, serde_json::from_str::<Value>(encrypted).unwrap()]);
        assert_eq!(detail_state(Json::parse(r#"{"type":"reasoning.text","text":"m"}"#).unwrap()), None);
    }
}

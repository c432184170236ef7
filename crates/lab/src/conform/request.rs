//! The client's request for a case.

use serde_json::{Value, json};

use super::case::Case;
use crate::clients::{self, Asked};
use toolwire_pipeline::dialect::ClientDialect;

/// The text that precedes a case's name in the user's message.
const MARK: &str = "conformance case: ";

const MAX_TOKENS: u64 = 4096;

/// Returns the body of the request.
pub(crate) fn body(dialect: ClientDialect, case: &Case, model: &str) -> Value {
    let text = format!("Please answer. This is {MARK}{}", case.name);
    clients::api(dialect).request(Asked {
        model,
        streams: true,
        messages: vec![json!({"role": "user", "content": text})],
        image: None,
        tools: &case.tools,
        max_tokens: Some(MAX_TOKENS),
    })
}

/// Finds the case's name in a request of any dialect. If several strings contain a name, the last one counts.
pub(crate) fn case_of(body: &[u8]) -> Option<String> {
    fn search(value: &Value, found: &mut Option<String>) {
        match value {
            Value::String(text) => {
                if let Some((_, name)) = text.rsplit_once(MARK) {
                    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "/@=_-.".contains(c);
                    *found = Some(name.chars().take_while(|c| is_of_name(*c)).collect());
                }
            }
            Value::Array(list) => list.iter().for_each(|value| search(value, found)),
            Value::Object(object) => object.values().for_each(|value| search(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut found = None;
    search(&serde_json::from_slice(body).ok()?, &mut found);
    found
}

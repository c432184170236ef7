//! The client's request for a case.

use serde_json::{Value, json};

use super::case::{Ask, Case};
use crate::clients::{self, Asked};
use toolwire_pipeline::dialect::ClientDialect;

/// The text that precedes a case's name in the user's message.
const MARK: &str = "conformance case: ";

/// The text that follows the name, before the client's dialect.
const OF: &str = ", client: ";

const MAX_TOKENS: u64 = 4096;

/// A PNG of one pixel, in base64.
pub(crate) const IMAGE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

/// Returns the body of the request.
pub(crate) fn body(dialect: ClientDialect, case: &Case, model: &str) -> Value {
    let text = format!("Please answer. This is {MARK}{}{OF}{}", case.name, dialect.dialect());
    clients::api(dialect).request(Asked {
        model,
        streams: case.ask != Ask::Whole,
        messages: vec![json!({"role": "user", "content": text})],
        image: (case.ask == Ask::Image).then_some(IMAGE),
        tools: &case.tools,
        max_tokens: Some(MAX_TOKENS),
    })
}

/// Finds the case's name and the client's dialect in a request of any dialect. If several strings contain a name, the last
/// one counts.
pub(crate) fn case_of(request: &Value) -> Option<(String, String)> {
    fn search(value: &Value, found: &mut Option<(String, String)>) {
        match value {
            Value::String(text) => {
                if let Some((_, text)) = text.rsplit_once(MARK) {
                    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "/@=_-.".contains(c);
                    let word = |text: &str| text.chars().take_while(|c| is_of_name(*c)).collect();
                    let client = text.split_once(OF).map_or("", |(_, client)| client);
                    *found = Some((word(text), word(client)));
                }
            }
            Value::Array(list) => list.iter().for_each(|value| search(value, found)),
            Value::Object(object) => object.values().for_each(|value| search(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut found = None;
    search(request, &mut found);
    found
}

/// Returns the name under which the request for a case is watched.
pub(crate) fn key(case: &str, client: &str) -> String {
    format!("{case} {client}")
}

//! Reads what Gemini's error bodies contain in addition to OpenAI's.

use serde_json::Value;

use crate::{
    failure::{Failure, Kind},
    refusal,
};

/// The failure for an HTTP error. Its body is `{"error": {"code", "message", "status", "details"}}`, possibly
/// in an array.
pub(crate) fn refusal(status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure {
    let body_json = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let response = body_json.get(0).unwrap_or(&body_json);
    let error = response.get("error").unwrap_or(&Value::Null);
    let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
    let details = error.get("details").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let detail = |key: &str| details.iter().find_map(|detail| detail.get(key)?.as_str());
    // An invalid key has the same status as an invalid request, and the response for an unknown path is not
    // JSON.
    if detail("reason") == Some("API_KEY_INVALID") {
        return refusal::refusal(401, retry_after, body);
    }
    if status == 404 && error.get("status").and_then(Value::as_str) == Some("NOT_FOUND") {
        return Failure::new(Kind::NotFound, message).with_code("model_not_found");
    }
    let delay = detail("retryDelay").and_then(seconds);
    refusal::refusal(status, retry_after.or(delay.as_deref()), body)
}

/// Converts a duration such as `34.07s` to seconds, rounded up.
fn seconds(delay: &str) -> Option<String> {
    let (whole, fraction) =
        delay.strip_suffix('s')?.split_once('.').unwrap_or((delay.strip_suffix('s')?, ""));
    let whole: u32 = whole.parse().ok()?;
    let begun = u32::from(fraction.bytes().any(|digit| digit != b'0'));
    Some(whole.saturating_add(begun).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_rounded_up_to_seconds() {
        let rounded = ["34s", "34.07s", "0s", "34.00s"].map(|delay| seconds(delay).unwrap());
        assert_eq!(rounded, ["34", "35", "0", "34"]);
        assert_eq!(["", "s", "34", "-1s", "1.5"].map(seconds), [const { None }; 5]);
    }
}

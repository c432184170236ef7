//! [`refused_member`]: which member of a request an upstream's error refuses.

/// Maximum bytes of an error that are read.
const READ: usize = 16 << 10;

/// Words that say that a member is refused whatever its value is, or for all values but one.
const REFUSED: [&str; 13] = [
    "unsupported",
    "not support",
    "n't support",
    "not enabled",
    "deprecated",
    "not permitted",
    "not allowed",
    "extra inputs",
    "extra_forbidden",
    "unknown",
    "unrecognized",
    "unexpected",
    "is allowed for this model",
];

/// Words that say that another value would be accepted.
const RANGE: [&str; 12] = [
    "between",
    "less than",
    "greater than",
    "range",
    "at least",
    "at most",
    "maximum",
    "minimum",
    "<=",
    ">=",
    "must be",
    "expected a value",
];

/// Returns the one of `given`, the members of a request, that the upstream refuses according to its error. `None` if the
/// error is about something else, about several of them, or about a value out of range.
pub fn refused_member(status: u16, body: &[u8], given: &[&'static str]) -> Option<&'static str> {
    if !matches!(status, 400 | 422) || given.is_empty() {
        return None;
    }
    let text = str::from_utf8(body.get(..READ).unwrap_or(body)).ok()?.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if !has(&REFUSED) || has(&RANGE) {
        return None;
    }
    let mut named = given.iter().copied().filter(|member| names(&text, member));
    named.next().filter(|_| named.next().is_none())
}

/// Whether `text`, which is in lower case, names the member, in any of the forms of APIs: `top_p`, `topP`.
fn names(text: &str, member: &str) -> bool {
    let joined = member.replace('_', "");
    let nested = if member == "reasoning_effort" { "reasoning.effort" } else { member };
    [member, joined.as_str(), nested].into_iter().any(|name| {
        text.match_indices(name).any(|(at, _)| {
            let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
            let (before, behind) = text.split_at_checked(at).unwrap_or_default();
            let behind = behind.get(name.len()..).unwrap_or_default();
            !before.ends_with(is_part) && !behind.starts_with(is_part)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(message: &str) -> Option<&'static str> {
        let given = ["temperature", "top_p", "presence_penalty", "reasoning_effort"];
        let body = format!(r#"{{"error":{{"message":"{message}","type":"invalid_request_error"}}}}"#);
        let found = refused_member(400, body.as_bytes(), &given);
        assert_eq!(refused_member(422, body.as_bytes(), &given), found);
        for status in [401, 403, 404, 413, 429, 500, 529] {
            assert_eq!(refused_member(status, body.as_bytes(), &given), None);
        }
        found
    }

    #[test]
    fn refusals_name_the_member_in_the_words_of_many_servers() {
        for (message, member) in [
            ("`temperature` is deprecated for this model.", "temperature"),
            ("Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
            (
                "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
                "temperature",
            ),
            ("temperature: Extra inputs are not permitted", "temperature"),
            ("invalid temperature: only 1 is allowed for this model", "temperature"),
            ("Argument not supported on this model: presencePenalty", "presence_penalty"),
            ("Model grok-4.5 does not support parameter presencePenalty.", "presence_penalty"),
            ("Unrecognized request argument supplied: reasoning_effort", "reasoning_effort"),
            (
                "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
                "reasoning_effort",
            ),
            ("property 'top_p' is unsupported", "top_p"),
            ("Unknown parameter: 'topP'", "top_p"),
        ] {
            assert_eq!(refused(message), Some(member), "{message}");
        }
    }

    #[test]
    fn other_errors_refuse_no_member() {
        for message in [
            "Invalid 'temperature': decimal above maximum value. Expected a value <= 2",
            "temperature must be between 0 and 1; 3 is not allowed",
            "`temperature` and `top_p` cannot both be specified for this model: unsupported",
            "unsupported parameter: 'stop'",
            "unsupported: my_temperature, temperatures",
            "the model is overloaded at this temperature",
            "",
        ] {
            assert_eq!(refused(message), None, "{message}");
        }
        assert_eq!(refused_member(400, b"unsupported: temperature", &[]), None);
        assert_eq!(refused_member(400, b"unsupported: temperature \xff", &["temperature"]), None);
    }
}

//! Carries opaque state in `thoughtSignature`, which must be base64: SDKs decode it.
//!
//! State of this dialect is passed on as it is. Other state is marked with its dialect, and encoded.

use std::borrow::Cow;

use crate::{
    Dialect,
    event::Opaque,
    media::{base64, decoded_text},
    opaque,
};

/// The start of foreign state, before it is encoded.
const MARK: &str = "toolwire:";

/// Follows the mark of state whose reasoning the upstream withholds.
const REDACTED: &str = "redacted:";

/// The signature in which a client carries `state`.
pub(super) fn signature<'s>(state: &'s Opaque<'_>, redacted: bool) -> Cow<'s, str> {
    if state.dialect == Dialect::Gemini.name() && !redacted && foreign(&state.text).is_none() {
        return Cow::Borrowed(&state.text);
    }
    let kind = if redacted { REDACTED } else { "" };
    Cow::Owned(base64(format!("{MARK}{kind}{}:{}", state.dialect, state.text).as_bytes()))
}

/// The state in a signature that a client has sent back, and whether its reasoning is withheld.
pub(super) fn state(signature: &str) -> (Opaque<'static>, bool) {
    let Some(text) = foreign(signature) else {
        return (Opaque::new(Dialect::Gemini.name(), signature.to_owned()), false);
    };
    let (text, redacted) = match text.strip_prefix(REDACTED) {
        Some(rest) => (rest, true),
        None => (text.as_str(), false),
    };
    (opaque::carried_back(text, Dialect::Gemini), redacted)
}

/// The text behind the mark.
fn foreign(signature: &str) -> Option<String> {
    // The first bytes of the mark as base64, so that other signatures are not decoded.
    let is_marked = signature.starts_with("dG9vbHdpcmU6");
    is_marked.then(|| decoded_text(signature)).flatten()?.strip_prefix(MARK).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_comes_back_as_it_was() {
        for dialect in Dialect::ALL {
            for text in ["c2ln", "", "a", "é漢😀", "messages:lumo:x", "redacted:x", "dG9vbHdpcmU6"] {
                let given = Opaque::new(dialect.name(), text);
                for redacted in [false, true] {
                    let carried = signature(&given, redacted);
                    assert_eq!(state(&carried), (given.clone(), redacted), "{dialect} {text}");
                    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
                    let is_own = *dialect == Dialect::Gemini && !redacted;
                    assert!(
                        is_own || (carried.bytes().all(is_base64) && carried.len().is_multiple_of(4)),
                        "{carried}"
                    );
                }
            }
        }
    }

    #[test]
    fn signatures_of_google_are_passed_on() {
        for text in ["CiQB", "", "dG9vbHdpcmU6", "dG9vbHdpcmU6!", "not base64"] {
            let (given, redacted) = state(text);
            assert!(!redacted);
            if given.dialect == "gemini" && !text.starts_with("dG9vbHdpcmU6") {
                assert_eq!(signature(&given, false), text);
            }
        }
    }
}

//! Detects payloads that are still encrypted. Every payload that U2L, Lumo's end-to-end encryption, may have
//! encrypted passes through this module (docs/protocols/lumo.md#encryption).
//!
//! If the request was encrypted, `u2l` has already decrypted the frame and removed the `encrypted` flags. A
//! payload that still has the flag here cannot be read.

use crate::{
    failure::{Failure, Kind},
    wire::json::{Json, Kind as JsonKind},
};

/// Returns `payload`, unless it is encrypted.
///
/// An empty payload is readable in any case.
///
/// # Errors
/// The payload is encrypted and there is no key. Passing ciphertext on as text would be a false success, and
/// leaving it out would be a silent loss.
pub(super) fn opened(is_sealed: bool, payload: &str) -> Result<&str, Failure> {
    if payload.is_empty() || !is_sealed {
        return Ok(payload);
    }
    let message = "the upstream sent an encrypted piece, but the request carried no key to decrypt it with";
    Err(Failure::new(Kind::Upstream, message).with_code("upstream_decrypt_failed"))
}

/// Checks that the arguments of a call are readable. The call is an element of `tool_calls`, a
/// `function_call`, or a report of a server call. `is_sealed` is the flag of the object that contains the
/// call.
///
/// # Errors
/// The same as for [`opened`].
pub(super) fn check_call(call: Json<'_>, is_sealed: bool) -> Result<(), Failure> {
    let function = call.get("function").unwrap_or_default();
    if !is_sealed && !self::is_sealed(call) && !self::is_sealed(function) {
        return Ok(());
    }
    for holder in [call, function] {
        for arguments in [holder.get("arguments"), holder.get("parameters")].into_iter().flatten() {
            let is_empty = arguments.is_null() || arguments.string_body() == Some("");
            opened(!is_empty, arguments.raw())?;
        }
    }
    Ok(())
}

/// Whether `holder` flags its payload as encrypted.
pub(super) fn is_sealed(holder: Json<'_>) -> bool {
    holder.members().any(|(key, flag)| key == "encrypted" && is_set(flag))
}

/// Whether a flag is set. It should be a boolean, but servers vary: anything but `false`, `null`, zero, `""`
/// and `"false"` counts as set.
pub(super) fn is_set(flag: Json<'_>) -> bool {
    match flag.kind() {
        JsonKind::Null => false,
        JsonKind::Bool => flag.as_bool() == Some(true),
        JsonKind::Number => flag.raw().parse::<f64>() != Ok(0.0),
        JsonKind::String => {
            let word = flag.as_str().unwrap_or_default();
            !word.trim_ascii().is_empty() && !word.trim_ascii().eq_ignore_ascii_case("false")
        }
        JsonKind::Array | JsonKind::Object => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_flag_except_a_false_value_seals() {
        for (flag, expected) in [
            ("true", true),
            ("1", true),
            ("-0.5", true),
            ("\"true\"", true),
            ("\"yes\"", true),
            ("\"0\"", true),
            ("{}", true),
            ("[]", true),
            ("false", false),
            ("null", false),
            ("0", false),
            ("0.0", false),
            ("-0e3", false),
            ("\"\"", false),
            ("\"False\"", false),
        ] {
            assert_eq!(is_set(Json::parse(flag).unwrap()), expected, "{flag}");
        }
    }
}

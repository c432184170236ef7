//! The cookies of a browser session (docs/protocols/lumo.md#refresh).

use http::{HeaderMap, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Value, json};

use super::is_usable;

/// The characters that browsers encode in forms.
const UNSAFE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'*').remove(b'-').remove(b'.').remove(b'_');

pub(super) fn refresh(uid: &str, token: &str) -> String {
    let asked = json!({
        "ResponseType": "token",
        "ClientID": "WebLumo",
        "GrantType": "refresh_token",
        "RefreshToken": token,
        "UID": uid,
    });
    format!("REFRESH-{uid}={}", utf8_percent_encode(&asked.to_string(), UNSAFE))
}

pub(super) fn tokens(headers: &HeaderMap, uid: &str) -> (Option<String>, Option<String>) {
    let set = |name: &str| {
        let cookies = headers.get_all(header::SET_COOKIE).iter();
        let mut values = cookies.filter_map(|cookie| {
            let (pair, _) = cookie.to_str().ok()?.split_once(';').or(Some((cookie.to_str().ok()?, "")))?;
            let (key, value) = pair.split_once('=')?;
            (key.trim() == format!("{name}-{uid}")).then(|| value.trim().to_owned())
        });
        values.rfind(|value| !value.is_empty())
    };
    let refresh = set("REFRESH").and_then(|value| {
        let json: Value = serde_json::from_str(&percent_decode_str(&value).decode_utf8_lossy()).ok()?;
        json.get("RefreshToken")?.as_str().map(str::to_owned)
    });
    let usable = |token: &String| is_usable(token);
    (set("AUTH").filter(usable), refresh.filter(usable))
}

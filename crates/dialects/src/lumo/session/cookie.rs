//! The cookies of a browser session (docs/protocols/lumo.md#refresh).

use http::{HeaderMap, header};
use serde_json::{Value, json};

use super::is_usable;

pub(super) fn refresh(uid: &str, token: &str) -> String {
    let asked = json!({
        "ResponseType": "token",
        "ClientID": "WebLumo",
        "GrantType": "refresh_token",
        "RefreshToken": token,
        "UID": uid,
    });
    let encoded: String = form_urlencoded::byte_serialize(asked.to_string().as_bytes()).collect();
    // `+` stands for a space in a form, but not in a cookie.
    format!("REFRESH-{uid}={}", encoded.replace('+', "%20"))
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
        let json: Value = serde_json::from_str(&decoded(&value)?).ok()?;
        json.get("RefreshToken")?.as_str().map(str::to_owned)
    });
    let usable = |token: &String| is_usable(token);
    (set("AUTH").filter(usable), refresh.filter(usable))
}

/// Decodes the percent encoding of `text`.
fn decoded(text: &str) -> Option<String> {
    let text = format!("v={}", text.replace('+', "%2B").replace('&', "%26"));
    form_urlencoded::parse(text.as_bytes()).next().map(|(_, value)| value.into_owned())
}

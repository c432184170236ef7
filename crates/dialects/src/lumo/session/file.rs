//! Reads and writes a session as a file that contains one JSON object.

use secrecy::ExposeSecret;
use serde_json::{Map, Value};

use super::{Form, Session, is_usable};
use crate::Invalid;

impl Session {
    /// Parses the contents of a session file.
    ///
    /// # Errors
    /// A description of the fault, which does not quote the file.
    pub fn parse(text: &[u8]) -> Result<Self, Invalid> {
        let Ok(Value::Object(members)) = serde_json::from_slice(text) else {
            return Err("it is not a JSON object".into());
        };
        let text = |key: &str| match members.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if is_usable(text) => Ok(Some(text.clone())),
            Some(_) => Err(format!("`{key}` is not a text that a header can carry")),
        };
        let time = |key: &str| match members.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                value.as_u64().map(Some).ok_or_else(|| format!("`{key}` is not a time in seconds"))
            }
        };
        let needed = |key: &str| text(key)?.ok_or_else(|| format!("`{key}` is missing"));
        let form = match text("form")?.as_deref() {
            None | Some("token") => Form::Token,
            Some("cookie") => Form::Cookie,
            Some(_) => return Err("`form` is neither \"token\" nor \"cookie\"".into()),
        };
        Ok(Self {
            uid: needed("uid")?,
            access_token: needed("access_token")?.into(),
            refresh_token: text("refresh_token")?.map(Into::into),
            form,
            app_version: text("app_version")?,
            expires_at: time("expires_at")?,
            refreshed_at: time("refreshed_at")?,
        })
    }

    /// The new contents of a session file. `earlier` is what it contained before; members that do not belong
    /// to a session are preserved.
    pub fn to_file(&self, earlier: &[u8]) -> Vec<u8> {
        let earlier: Option<Map<String, Value>> = serde_json::from_slice(earlier).ok();
        let mut members = earlier.unwrap_or_default();
        let refresh_token = self.refresh_token.as_ref().map(|token| token.expose_secret());
        for (key, value) in [
            ("uid", Some(Value::from(self.uid.as_str()))),
            ("access_token", Some(Value::from(self.access_token.expose_secret()))),
            ("refresh_token", refresh_token.map(Value::from)),
            ("form", Some(Value::from(<&str>::from(self.form)))),
            ("app_version", self.app_version.as_deref().map(Value::from)),
            ("expires_at", self.expires_at.map(Value::from)),
            ("refreshed_at", self.refreshed_at.map(Value::from)),
        ] {
            match value {
                Some(value) => members.insert(key.to_owned(), value),
                None => members.shift_remove(key),
            };
        }
        let mut text = format!("{:#}", Value::Object(members));
        text.push('\n');
        text.into_bytes()
    }
}

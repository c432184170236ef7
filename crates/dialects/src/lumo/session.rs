//! [`Session`]: the session of a Proton account, with the requests that refresh and end it
//! (docs/protocols/lumo.md#accounts).

mod cookie;
mod file;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{self, InvalidHeaderValue},
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::{account::AccountSettings, refusal};
use crate::failure::{Failure, Kind};

/// The header that contains the session's id.
pub const UID_HEADER: &str = "x-pm-uid";
const APP_VERSION_HEADER: &str = "x-pm-appversion";

/// The prefix of all of a session's headers, except `Authorization`.
const HEADER_PREFIX: &str = "x-pm-";

/// Lifetime of an access token in seconds, if the server does not report it.
const LIFETIME: u64 = 43_200;

/// Maximum lifetime accepted from the server, in seconds.
const MAX_LIFETIME: u64 = 31 * 86_400;

/// How a session was started, which determines how it is refreshed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Form {
    /// With tokens in JSON, as programs do.
    #[default]
    Token,
    /// With cookies, as browsers do.
    Cookie,
}

/// The session of an account. Its `Debug` output contains no secrets.
#[derive(Debug, Clone)]
pub struct Session {
    /// The session's id, which changes with each login.
    pub uid: String,
    /// The token to send with requests.
    pub access_token: SecretString,
    /// The single-use token that is exchanged for the next access token.
    pub refresh_token: Option<SecretString>,
    /// How the session was started.
    pub form: Form,
    /// Overrides the configured `app_version`.
    pub app_version: Option<String>,
    /// When the access token expires, as Unix time in seconds.
    pub expires_at: Option<u64>,
    /// When the tokens were issued, as Unix time in seconds.
    pub refreshed_at: Option<u64>,
}

/// Why new tokens could not be obtained.
#[derive(Debug)]
pub enum RefreshError {
    /// The session has ended.
    LoggedOut(Failure),
    /// Another attempt may succeed.
    Failed(Failure),
}

impl Session {
    /// The headers to send with every request of the session.
    ///
    /// # Errors
    /// A token, the id or the app version contains characters that are not allowed in a header.
    pub fn headers(&self, settings: &AccountSettings) -> Result<HeaderMap, InvalidHeaderValue> {
        let mut headers = HeaderMap::new();
        headers.insert(UID_HEADER, HeaderValue::try_from(&self.uid)?);
        let version = self.app_version.as_ref().unwrap_or(&settings.app_version);
        headers.insert(APP_VERSION_HEADER, HeaderValue::try_from(version)?);
        let token = self.access_token.expose_secret();
        headers.insert(header::AUTHORIZATION, secret(&format!("Bearer {token}"))?);
        if self.form == Form::Cookie {
            headers.insert(header::COOKIE, secret(&format!("AUTH-{}={token}", self.uid))?);
        }
        Ok(headers)
    }

    /// The request that obtains new tokens for an upstream at `base_url`. `None` if the session has no
    /// refresh token.
    ///
    /// # Errors
    /// The same as for [`Session::headers`].
    pub fn refresh(
        &self,
        settings: &AccountSettings,
        base_url: &Uri,
    ) -> Result<Option<Request<Bytes>>, http::Error> {
        let Some(token) = self.refresh_token.as_ref().map(|token| token.expose_secret()) else {
            return Ok(None);
        };
        let mut headers = self.headers(settings)?;
        headers.remove(header::AUTHORIZATION);
        headers.remove(header::COOKIE);
        let (base, body) = match self.form {
            Form::Cookie => {
                headers.insert(header::COOKIE, secret(&cookie::refresh(&self.uid, token))?);
                (base_url, Bytes::new())
            }
            Form::Token => {
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                let body = json!({
                    "UID": self.uid,
                    "RefreshToken": token,
                    "ResponseType": "token",
                    "GrantType": "refresh_token",
                    "RedirectURI": "https://proton.me",
                });
                (settings.account_url.as_ref().unwrap_or(base_url), Bytes::from(body.to_string()))
            }
        };
        request(Method::POST, base, "auth/refresh", (headers, body)).map(Some)
    }

    /// The session with the tokens in `answer`, the response to the request from [`Session::refresh`]. `now`
    /// is the time at which it arrived, as Unix time in seconds.
    ///
    /// # Errors
    /// The response contains no tokens.
    pub fn refreshed(&self, answer: &Response<Bytes>, now: u64) -> Result<Self, RefreshError> {
        let body: Option<Value> = serde_json::from_slice(answer.body()).ok();
        if !answer.status().is_success() {
            return Err(self::refused(answer, body.as_ref()));
        }
        let incomplete = || {
            let message = "the upstream answered the refresh of the session without new tokens";
            RefreshError::Failed(Failure::new(Kind::Protocol, message))
        };
        let text = |key: &str| body.as_ref()?.get(key)?.as_str().filter(|text| is_usable(text));
        let uid = text("UID").unwrap_or(&self.uid);
        let (access_token, refresh_token) = match self.form {
            Form::Token => (text("AccessToken").map(str::to_owned), text("RefreshToken").map(str::to_owned)),
            Form::Cookie => cookie::tokens(answer.headers(), uid),
        };
        let (access_token, refresh_token) = access_token.zip(refresh_token).ok_or_else(incomplete)?;
        let lifetime = body.as_ref().and_then(|body| body.get("ExpiresIn")).and_then(Value::as_u64);
        Ok(Self {
            uid: uid.to_owned(),
            access_token: access_token.into(),
            refresh_token: Some(refresh_token.into()),
            form: self.form,
            app_version: self.app_version.clone(),
            expires_at: Some(now.saturating_add(lifetime.unwrap_or(LIFETIME).min(MAX_LIFETIME))),
            refreshed_at: Some(now),
        })
    }

    /// The request that ends the session.
    ///
    /// # Errors
    /// The same as for [`Session::headers`].
    pub fn revoke(&self, settings: &AccountSettings, base_url: &Uri) -> Result<Request<Bytes>, http::Error> {
        let base = match self.form {
            Form::Token => settings.account_url.as_ref().unwrap_or(base_url),
            Form::Cookie => base_url,
        };
        request(Method::DELETE, base, "core/v4/auth", (self.headers(settings)?, Bytes::new()))
    }

    /// The session's tokens.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        [Some(&self.access_token), self.refresh_token.as_ref()]
            .into_iter()
            .flatten()
            .map(|token| token.expose_secret())
    }

    /// Whether both sessions have the same tokens.
    pub fn has_tokens_of(&self, other: &Self) -> bool {
        self.secrets().eq(other.secrets())
    }
}

/// The headers of a session that a client has sent for its own account. `None` if it has not sent a session.
pub fn brought(headers: &HeaderMap) -> Option<HeaderMap> {
    headers.get(UID_HEADER).filter(|uid| !uid.is_empty())?;
    headers.get(header::AUTHORIZATION).filter(|token| !token.is_empty())?;
    let is_of_session =
        |name: &HeaderName| name.as_str().starts_with(HEADER_PREFIX) || name == header::AUTHORIZATION;
    let own = headers.iter().filter(|(name, _)| is_of_session(name));
    let mut brought: HeaderMap = own.map(|(name, value)| (name.clone(), value.clone())).collect();
    brought.values_mut().for_each(|value| value.set_sensitive(true));
    Some(brought)
}

/// Whether `text` is valid both in a header and in a cookie (RFC 6265, section 4.1.1). Tokens are at most a
/// few hundred bytes long.
pub(super) fn is_usable(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\",;\\".contains(&byte);
    (1..=8 << 10).contains(&text.len()) && text.bytes().all(is_plain)
}

fn secret(text: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::try_from(text)?;
    value.set_sensitive(true);
    Ok(value)
}

fn request(
    method: Method,
    base: &Uri,
    path: &str,
    (headers, body): (HeaderMap, Bytes),
) -> Result<Request<Bytes>, http::Error> {
    let base = base.to_string();
    let uri = format!("{}/{path}", base.trim_end_matches('/'));
    let mut request = Request::builder().method(method).uri(uri).body(body)?;
    *request.headers_mut() = headers;
    request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    Ok(request)
}

/// Classifies a response that contains no new tokens (docs/protocols/lumo.md#refresh).
fn refused(answer: &Response<Bytes>, body: Option<&Value>) -> RefreshError {
    let status = answer.status();
    let retry_after = answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let failure = refusal(status.as_u16(), retry_after, answer.body());
    let code = body.and_then(|body| body.get("Code")).and_then(Value::as_u64);
    // An error about the app version, a CAPTCHA or a rate limit does not mean that the token is invalid.
    let is_about_token = !matches!(code, Some(2028 | 5003 | 9001));
    match status {
        StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::UNPROCESSABLE_ENTITY
            if is_about_token =>
        {
            RefreshError::LoggedOut(failure)
        }
        _ => RefreshError::Failed(failure),
    }
}

#[cfg(test)]
mod tests;

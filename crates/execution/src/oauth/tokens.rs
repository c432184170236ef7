//! [`Tokens`]: requests to the token endpoint (RFC 6749, section 5).

use bytes::Bytes;
use http::Response;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;
use url::{Url, form_urlencoded};

use super::{
    client::OAuthClient,
    error::{OAuthError, plain, refusal},
    fetcher::{FORM, Fetcher},
};

/// In bytes.
const MAX_TOKEN: usize = 32 << 10;

/// Upper limit of a token's lifetime, in seconds. Longer ones are taken for it.
const MAX_LIFETIME: u64 = 10 * 365 * 24 * 60 * 60;

/// The tokens that an authorization server has issued.
#[derive(Debug)]
pub(super) struct Tokens {
    pub(super) access: SecretString,
    pub(super) refresh: Option<SecretString>,
    /// In seconds.
    pub(super) lifetime: Option<u64>,
    pub(super) scope: Option<String>,
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    token_type: Option<String>,
    expires_in: Option<Value>,
    refresh_token: Option<String>,
    scope: Option<String>,
}

/// Requests tokens with `grant`, the parameters of the grant.
///
/// # Errors
/// The authorization server cannot be reached, refuses the request, or answers with something else.
pub(super) async fn request(
    fetcher: &Fetcher,
    endpoint: &Url,
    client: &OAuthClient,
    grant: &[(&str, &str)],
) -> Result<Tokens, OAuthError> {
    let response = posted(fetcher, endpoint, client, grant).await?;
    if !response.status().is_success() {
        return Err(refusal("the token", endpoint, &response));
    }
    let wrong = |what: &str| OAuthError::Invalid(endpoint.clone(), what.to_owned());
    let read: TokenResponse =
        serde_json::from_slice(response.body()).map_err(|_| wrong("an invalid response for a token"))?;
    if !read.token_type.as_deref().is_none_or(|kind| kind.eq_ignore_ascii_case("bearer")) {
        return Err(wrong("a token of an unknown type"));
    }
    let refresh = read.refresh_token.filter(|token| !token.is_empty());
    if !is_token(&read.access_token) || !refresh.as_deref().is_none_or(is_token) {
        return Err(wrong("a token that no request can carry"));
    }
    let lifetime = read.expires_in.as_ref().and_then(seconds);
    Ok(Tokens {
        access: read.access_token.into(),
        refresh: refresh.map(SecretString::from),
        lifetime: lifetime.map(|lifetime| lifetime.min(MAX_LIFETIME)),
        scope: read.scope.map(|scope| plain(&scope)),
    })
}

/// Sends a form that the client signs with its secret, if it has one.
pub(super) async fn posted(
    fetcher: &Fetcher,
    endpoint: &Url,
    client: &OAuthClient,
    fields: &[(&str, &str)],
) -> Result<Response<Bytes>, OAuthError> {
    let mut fields = fields.to_vec();
    let headers = client.authenticate(&mut fields);
    let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    fetcher.post(endpoint, FORM, headers, form).await
}

/// Whether a header can carry `token`, and a line of a log shows it as it is.
fn is_token(token: &str) -> bool {
    !token.is_empty() && token.len() <= MAX_TOKEN && token.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A number of seconds, which some servers write as a string.
fn seconds(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => {
            number.as_u64().or_else(|| number.as_f64().map(|seconds| seconds.max(0.0) as u64))
        }
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

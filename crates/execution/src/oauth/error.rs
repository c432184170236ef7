//! [`OAuthError`]: why there is no token, in words for the operator. Contains no secrets.

use std::{io, path::PathBuf};

use bytes::Bytes;
use http::Response;
use serde::Deserialize;
use url::Url;

use crate::http::HttpError;

/// Maximum length of text from a server in an error, in characters.
const MAX_SAID: usize = 200;

/// Why a step of a login, or the use of one, has failed.
#[derive(Debug, thiserror::Error)]
pub enum OAuthError {
    #[error("the address `{0}` may not be used: {1}")]
    Address(String, String),
    #[error("{} cannot be reached: {}", host(.0), .1)]
    Unreachable(Url, String),
    #[error("{} did not answer in time", host(.0))]
    Silent(Url),
    #[error("{} sent {}", host(.0), .1)]
    Invalid(Url, String),
    #[error("no authorization server was found for this server")]
    NoMetadata,
    #[error("the server describes another resource than its own URL: `{0}`")]
    Resource(String),
    #[error("the metadata of the authorization server `{expected}` is that of `{found}`")]
    Issuer { expected: String, found: String },
    #[error("the response is from the authorization server `{found}`, not from `{expected}`")]
    MixedUp { expected: String, found: String },
    #[error("the authorization server does not support PKCE with S256, which OAuth 2.1 requires")]
    NoPkce,
    #[error("clients cannot register themselves at this authorization server: set `oauth_client_id`")]
    NoRegistration,
    #[error("the authorization server refuses {what}: {said}")]
    Refused { what: &'static str, code: String, said: String },
    #[error("the redirect address must be that of this machine, or begin with `https://`")]
    Redirect,
    #[error("no login waits for this response: it has ended, expired, or begun elsewhere")]
    State,
    #[error("the response is not that of a login: {0}")]
    Response(&'static str),
    #[error("the login was refused: {0}")]
    Denied(String),
    #[error("a login needs `state_dir`, where its tokens are kept")]
    NoVault,
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error("there are no random numbers")]
    NoRandomness,
}

impl OAuthError {
    pub(super) fn of_http(url: &Url, error: HttpError) -> Self {
        match error {
            HttpError::Blocked(blocked) => Self::Address(plain(url.as_str()), blocked.to_string()),
            HttpError::TooLarge => Self::Invalid(url.clone(), "more than it may".to_owned()),
            error => Self::Unreachable(url.clone(), plain(&error.to_string())),
        }
    }

    /// Whether the authorization server will not accept the login any more.
    pub(super) fn ends_login(&self) -> bool {
        let codes = ["invalid_grant", "invalid_client", "unauthorized_client"];
        matches!(self, Self::Refused { code, .. } if codes.contains(&code.as_str()))
    }
}

/// Why a login cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    #[error("{}: {}", .0.display(), .1)]
    File(PathBuf, io::Error),
    #[error("{}: it cannot be decrypted: it is damaged, or `login_key` has changed", .0.display())]
    Undecryptable(PathBuf),
    #[error("{}: another process does not release the lock", .0.display())]
    Locked(PathBuf),
    #[error("there are no random numbers")]
    NoRandomness,
}

fn host(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}

/// The error for a response without success (RFC 6749, section 5.2). Only a 4xx can end a login.
pub(super) fn refusal(what: &'static str, endpoint: &Url, response: &Response<Bytes>) -> OAuthError {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
        error_description: Option<String>,
    }
    let status = response.status();
    match serde_json::from_slice::<Refusal>(response.body()) {
        Ok(Refusal { error, error_description }) if status.is_client_error() => {
            let code = plain(&error);
            let said = match error_description {
                Some(description) => format!("{code}: {}", plain(&description)),
                None => code.clone(),
            };
            OAuthError::Refused { what, code, said }
        }
        _ => OAuthError::Invalid(endpoint.clone(), format!("HTTP status {status}")),
    }
}

/// Turns text from a server into one short line.
pub(super) fn plain(text: &str) -> String {
    let shown = text.chars().map(|char| if char.is_control() { ' ' } else { char });
    shown.take(MAX_SAID).collect()
}

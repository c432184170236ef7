//! [`ServerFault`]: why a server cannot be used, in words for the operator.

use std::{io, time::Duration};

use ::http::StatusCode;
use rmcp::{ServiceError, service::ClientInitializeError};

use super::{Options, http};
use crate::process::Program;

/// Maximum length of the part of a challenge that is shown, in characters.
const MAX_CHALLENGE: usize = 200;

/// Why a server cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServerFault {
    #[error("the program `{program}` cannot be started: {error}")]
    Start { program: String, error: io::Error },
    #[error("{}", reason(.0))]
    Connect(#[source] Box<ClientInitializeError>),
    #[error("{0}")]
    Refused(String),
    /// There is no login, or it does not allow enough.
    #[error("{0}")]
    NeedsLogin(String),
    #[error("its tools cannot be listed: {0}")]
    List(#[source] ServiceError),
    #[error(transparent)]
    Lost(ServiceError),
    #[error("it did not answer within {0:?}")]
    Silent(Duration),
}

impl ServerFault {
    pub(super) fn not_started(program: &Program, error: io::Error) -> Self {
        Self::Start { program: program.command.first().cloned().unwrap_or_default(), error }
    }

    pub(super) fn connect(error: ClientInitializeError) -> Self {
        Self::Connect(Box::new(error))
    }

    /// `options` are those with which the connection was tried. `need` says which login is needed.
    pub(super) fn not_connected(
        error: ClientInitializeError,
        options: &Options,
        need: Option<String>,
    ) -> Self {
        match (error.auth_challenge(), need) {
            (Some(challenge), need) if options.has_key() || need.is_none() => {
                Self::Refused(refusal(challenge, options))
            }
            (_, Some(need)) => Self::NeedsLogin(need),
            _ => Self::connect(error),
        }
    }

    /// Whether the server rejected the key, or requires one.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::NeedsLogin(_))
    }
}

/// Describes the rejection of a request. `challenge` is the header `WWW-Authenticate`, or empty.
fn refusal(challenge: &str, options: &Options) -> String {
    match (options.has_key(), challenge.is_empty()) {
        (true, true) => "the server refused the key".to_owned(),
        (true, false) => format!("the server refused the key: {}", clipped(challenge)),
        (false, _) => "the server denies access (HTTP status 403)".to_owned(),
    }
}

fn clipped(challenge: &str) -> String {
    challenge.chars().take(MAX_CHALLENGE).collect()
}

/// The HTTP status with which the server refused the connection.
pub(super) fn status(error: &ClientInitializeError) -> Option<StatusCode> {
    match error {
        ClientInitializeError::TransportError { error, .. } => http::status(error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => status(fallback),
        _ => None,
    }
}

/// Why the connection could not be established.
fn reason(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => "it ended, or closed the connection".to_owned(),
        ClientInitializeError::TransportError { error, .. } => match http::status(error) {
            Some(status @ (StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)) => {
                format!("no MCP server answers at this URL (HTTP status {status})")
            }
            Some(status) => format!("the server answers with HTTP status {status}"),
            None => error.error.to_string(),
        },
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => reason(fallback),
        ClientInitializeError::ExpectedInitResult(_) => "it does not speak the protocol".to_owned(),
        other => other.to_string(),
    }
}

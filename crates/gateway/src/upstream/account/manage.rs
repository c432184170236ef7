//! [`Managed`]: the operations of `toolwire lumo` on an upstream's session.

use std::{path::Path, sync::Arc};

use super::{
    error::{AnyError, SessionError},
    keeper::{Keeper, Wanted},
};
use crate::stamp::unix_time;
use toolwire_config::Upstream;

/// The account of an upstream.
#[derive(Debug)]
pub struct Managed(Keeper);

/// Facts about a session, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The session's id.
    pub uid: String,
    /// Seconds until the access token expires; 0 or less if it has expired.
    pub expires_in: Option<i64>,
    /// Seconds since the access token was issued.
    pub refreshed_ago: Option<i64>,
    /// Whether the session can be refreshed.
    pub is_refreshable: bool,
}

impl Managed {
    /// The account of `upstream`, if its settings have a session.
    pub fn of(upstream: &Arc<Upstream>) -> Option<Self> {
        Keeper::of(upstream).map(Self)
    }

    /// The name of the upstream.
    pub fn upstream(&self) -> &str {
        self.0.upstream()
    }

    /// The file with the session.
    pub fn file(&self) -> Option<&Path> {
        self.0.file().map(|file| file.path())
    }

    /// Whether other users of the machine can read the file.
    pub fn is_exposed(&self) -> bool {
        self.0.file().is_some_and(|file| file.is_exposed())
    }

    /// The session.
    ///
    /// # Errors
    /// If there is no session; the message says what to do.
    pub fn status(&self) -> Result<Status, SessionError> {
        let session = self.0.read()?;
        let since_now = |time: u64| {
            i64::try_from(time).unwrap_or(i64::MAX) - i64::try_from(unix_time()).unwrap_or(i64::MAX)
        };
        Ok(Status {
            uid: session.uid.clone(),
            expires_in: session.expires_at.map(since_now),
            refreshed_ago: session.refreshed_at.map(|time| -since_now(time)),
            is_refreshable: session.refresh_token.is_some(),
        })
    }

    /// Refreshes the session now.
    ///
    /// # Errors
    /// The reason why there are no new tokens.
    pub fn refresh(&self) -> Result<(), SessionError> {
        match self.0.renew(None, None, Wanted::Refreshed) {
            Ok(kept) if kept.is_saved => Ok(()),
            Ok(_) => Err(SessionError::Unsaved),
            Err(trouble) if trouble.is_logged_out => Err(SessionError::LoggedOut(trouble.reason)),
            Err(trouble) => Err(SessionError::NotRefreshed(trouble.reason)),
        }
    }

    /// Ends the session and removes its file. If the upstream could not end the session, returns the reason.
    ///
    /// # Errors
    /// If there is no session, or its file cannot be removed.
    pub fn log_out(&self) -> Result<Option<AnyError>, SessionError> {
        let _lock = self.0.file().map(|file| file.lock()).transpose()?;
        let session = self.0.read()?;
        let refusal = self.0.revoke(&session).err();
        self.0.file().map_or(Ok(()), |file| file.remove())?;
        Ok(refusal)
    }
}

//! [`Sessions`]: the browsers that have signed in.
//!
//! A session is identified by a random token in a cookie. Only the token's digest is stored here.

use std::{collections::HashMap, time::Duration};

use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom, SystemRandom},
};
use tokio::time::Instant;
use toolwire_pipeline::wire::hex;

const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Maximum number of sessions. Beyond it, the least recently used session ends.
const MAX_SESSIONS: usize = 256;

pub(super) type Digest = [u8; 32];

#[derive(Debug, Clone)]
pub(super) struct Session {
    /// CSRF token, which requests must carry to change state.
    pub(super) csrf: String,
    /// Digest of the key with which the session was started.
    pub(super) key: Digest,
    /// Path of the page, to which the cookie is restricted.
    pub(super) base: String,
    /// Whether the page was loaded over HTTPS.
    pub(super) is_secure: bool,
    begun: Instant,
    used: Instant,
}

/// All sessions, by the digest of their token.
#[derive(Debug)]
pub(super) struct Sessions {
    sessions: HashMap<Digest, Session>,
    idle: Duration,
}

impl Sessions {
    /// Creates an empty list. Sessions end after `idle` without a request.
    pub(super) fn new(idle: Duration) -> Self {
        Self { sessions: HashMap::new(), idle }
    }

    pub(super) fn set_idle(&mut self, idle: Duration) {
        self.idle = idle;
    }

    /// Starts a session and returns its token. `None` if the system cannot provide random numbers.
    pub(super) fn begin(
        &mut self,
        key: Digest,
        base: String,
        is_secure: bool,
        now: Instant,
    ) -> Option<(String, Session)> {
        self.sessions.retain(|_, session| session.ends(self.idle) > now);
        if self.sessions.len() >= MAX_SESSIONS {
            let oldest =
                self.sessions.iter().min_by_key(|(_, session)| session.used).map(|(token, _)| *token);
            oldest.and_then(|token| self.sessions.remove(&token));
        }
        let (token, csrf) = (random()?, random()?);
        let session = Session { csrf, key, base, is_secure, begun: now, used: now };
        self.sessions.insert(digest_of(token.as_bytes()), session.clone());
        Some((token, session))
    }

    /// Returns the session of `token` and marks it as used. `is_key` checks whether the session's key still exists.
    pub(super) fn find(
        &mut self,
        token: &str,
        is_key: impl Fn(&Digest) -> bool,
        now: Instant,
    ) -> Option<(Digest, Session)> {
        let token = digest_of(token.as_bytes());
        let session = self.sessions.get_mut(&token)?;
        if session.ends(self.idle) <= now || !is_key(&session.key) {
            self.sessions.remove(&token);
            return None;
        }
        session.used = now;
        Some((token, session.clone()))
    }

    /// Whether the session is still valid. Unlike [`Sessions::find`], does not mark it as used.
    pub(super) fn lasts(&self, token: &Digest, now: Instant) -> bool {
        self.sessions.get(token).is_some_and(|session| session.ends(self.idle) > now)
    }

    pub(super) fn end(&mut self, token: &Digest) {
        self.sessions.remove(token);
    }

    /// How long the session lasts if it is not used again.
    pub(super) fn left(&self, session: &Session, now: Instant) -> Duration {
        session.ends(self.idle).saturating_duration_since(now)
    }
}

impl Session {
    fn ends(&self, idle: Duration) -> Instant {
        let oldest = self.begun + MAX_AGE;
        self.used.checked_add(idle).map_or(oldest, |end| end.min(oldest))
    }
}

pub(super) fn digest_of(bytes: &[u8]) -> Digest {
    digest(&SHA256, bytes).as_ref().try_into().unwrap_or_default()
}

/// Returns 256 random bits as hexadecimal digits.
pub(super) fn random() -> Option<String> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(hex::encode(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn begun(sessions: &mut Sessions, now: Instant) -> String {
        sessions.begin([1; 32], "/".to_owned(), false, now).unwrap().0
    }

    #[tokio::test(start_paused = true)]
    async fn session_ends_when_idle_too_old_or_without_its_key() {
        let mut sessions = Sessions::new(12 * HOUR);
        let start = Instant::now();
        let token = begun(&mut sessions, start);
        assert_eq!(token.len(), 64);
        assert!(sessions.find(&token, |_| true, start + 12 * HOUR - HOUR / 60).is_some());
        assert!(sessions.find(&token, |_| true, start + 25 * HOUR).is_none());

        let token = begun(&mut sessions, start);
        let mut now = start;
        while now + 6 * HOUR < start + MAX_AGE {
            now += 6 * HOUR;
            assert!(sessions.find(&token, |_| true, now).is_some());
        }
        assert!(sessions.find(&token, |_| true, start + MAX_AGE).is_none());

        let token = begun(&mut sessions, start);
        let digest = digest_of(token.as_bytes());
        assert!(sessions.lasts(&digest, start + 11 * HOUR), "asking does not use it");
        assert!(!sessions.lasts(&digest, start + 12 * HOUR));
        assert!(sessions.find(&token, |key| *key != [1; 32], start).is_none());
        assert!(!sessions.lasts(&digest, start), "it has ended");
        assert!(sessions.find(&token, |_| true, start).is_none(), "it has ended");
    }

    #[tokio::test(start_paused = true)]
    async fn number_of_sessions_is_bounded() {
        let mut sessions = Sessions::new(HOUR);
        let start = Instant::now();
        let first = begun(&mut sessions, start);
        for number in 0..MAX_SESSIONS {
            begun(&mut sessions, start + Duration::from_millis(number as u64 + 1));
        }
        assert_eq!(sessions.sessions.len(), MAX_SESSIONS);
        assert!(sessions.find(&first, |_| true, start).is_none());
    }
}

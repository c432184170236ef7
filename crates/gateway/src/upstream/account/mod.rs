//! [`Account`]: the session for requests to an upstream, shared by all threads.
//!
//! ```text
//! request ─current─▶ State ─valid─▶ its headers
//!                      │ └─expired─▶ a thread: lock, read the file, refresh, write the file ─▶ State, and all that wait
//! request ─refused (401)────────────▲
//! ```
//!
//! Only one attempt to refresh runs at a time. It runs on a thread of its own because it blocks, and because it must
//! not end with the request that started it: the old refresh token is spent as soon as the server has seen it. Dropping
//! the account waits for the attempt.

mod error;
mod file;
mod keeper;
mod manage;

use std::{
    io,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use http::HeaderMap;
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use self::keeper::{AccountSession, Keeper, Trouble, Wanted};
use crate::{
    observe::{Metrics, RefreshCounter},
    stamp::unix_time,
};
use toolwire_config::Upstream;
use toolwire_net::redact::Redactor;
use toolwire_pipeline::{
    dialect::Session,
    failure::{Failure, Kind},
};

pub use error::SessionError;
pub use manage::{Managed, Status};

/// How long before its expiry a token is renewed. While it is being renewed, requests use the old token.
const AHEAD: u64 = 600;

/// Minimum interval between two refreshes of a session, whatever the clock and the upstream say. During that time,
/// toolwire only looks for a session that another process has refreshed.
const REST: Duration = Duration::from_secs(30);

/// How long to wait after a failed attempt. Doubled after each further failure, up to the maximum below.
const BACKOFF: Duration = Duration::from_secs(5);
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);

/// Interval at which the file is checked for a new login.
const LOGIN_PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Account {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    keeper: Keeper,
    redactor: Arc<Redactor>,
    state: Mutex<State>,
    /// Number of attempts that have ended.
    ended: watch::Sender<u64>,
    refreshes: RefreshCounter,
}

#[derive(Debug, Default)]
struct State {
    live: Option<Arc<Live>>,
    /// The thread of the current or the latest attempt.
    thread: Option<JoinHandle<()>>,
    is_running: bool,
    /// When the tokens were last renewed.
    renewed: Option<Instant>,
    /// If the latest attempt failed: why, and when the next one may start.
    trouble: Option<(Trouble, Instant)>,
    /// Number of consecutive failed attempts.
    failures: u32,
    /// The session whose refresh token was refused.
    refused: Option<Box<Session>>,
    /// Whether a response has turned out to be a refusal of the session since the latest attempt ended.
    is_doubted: bool,
}

#[derive(Debug)]
pub(super) struct Live {
    kept: AccountSession,
    pub(super) headers: HeaderMap,
}

/// The age of the current access token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Age {
    Valid,
    /// Expires soon.
    Old,
    Expired,
}

impl Account {
    /// Creates the account of `upstream`, if it has one. Adds its tokens to `redactor`.
    ///
    /// # Errors
    /// If the session contains characters that are not allowed in a header.
    pub(super) fn of(
        upstream: &Arc<Upstream>,
        redactor: &Arc<Redactor>,
        metrics: &Metrics,
    ) -> Result<Option<Arc<Self>>, http::Error> {
        let Some(keeper) = Keeper::of(upstream) else { return Ok(None) };
        if let Some(file) = keeper.file().filter(|file| file.is_exposed()) {
            let (upstream, file) = (keeper.upstream(), file.path().display());
            tracing::warn!(upstream, %file, "other users of this machine can read the session; `chmod 600` keeps them out");
        }
        let (ended, redactor) = (watch::Sender::new(0), Arc::clone(redactor));
        let refreshes = metrics.lumo_refreshes(keeper.upstream());
        let shared = Shared { keeper, redactor, state: Mutex::default(), ended, refreshes };
        match shared.keeper.read() {
            Ok(session) => {
                let live = shared.live(AccountSession { session, is_saved: true })?;
                shared.state.lock().live = Some(live);
            }
            // Other upstreams can still be used, and so can this one after a login.
            Err(error) => {
                let (upstream, reason) = (shared.keeper.upstream(), error.to_string());
                tracing::warn!(upstream, reason, "the upstream is logged out");
            }
        }
        Ok(Some(Arc::new(Self { shared: Arc::new(shared) })))
    }

    /// Returns the session for a request. If it has expired, waits for a new one.
    ///
    /// # Errors
    /// Fails if there is no session.
    pub(super) async fn current(&self) -> Result<Arc<Live>, Failure> {
        let attempt = {
            let mut state = self.shared.state.lock();
            let live = state.live.clone();
            match live.map(|live| (state.age(&live.kept.session), live)) {
                Some((Age::Valid, live)) if state.is_doubted => match self.begin(&mut state) {
                    Ok(attempt) => attempt,
                    // The current session may still be valid.
                    Err(_) => return Ok(live),
                },
                Some((Age::Valid, live)) => return Ok(live),
                Some((Age::Old, live)) => {
                    // A failure is logged, and matters only once the token has expired.
                    let _ = self.begin(&mut state);
                    return Ok(live);
                }
                _ => self.begin(&mut state)?,
            }
        };
        self.shared.after(attempt, None).await
    }

    /// Waits for a session that replaces `used`, which the upstream has refused.
    ///
    /// # Errors
    /// Fails if there is no such session.
    pub(super) async fn instead_of(&self, used: &Arc<Live>) -> Result<Arc<Live>, Failure> {
        let attempt = {
            let mut state = self.shared.state.lock();
            match &state.live {
                Some(live) if !Arc::ptr_eq(live, used) => return Ok(Arc::clone(live)),
                _ => self.begin(&mut state)?,
            }
        };
        self.shared.after(attempt, Some(used)).await
    }

    /// Records that the response to a request sent at `asked` turned out to be a refusal of the session. The next
    /// request gets another session.
    pub(super) fn refused_since(&self, asked: std::time::Instant) {
        let asked = Instant::from_std(asked);
        let mut state = self.shared.state.lock();
        let is_new = state.renewed.is_some_and(|renewed| renewed >= asked) || state.is_resting();
        if !is_new && !state.is_doubted {
            state.is_doubted = true;
            // A failure is logged. Requests continue to use the current session.
            let _ = self.begin(&mut state);
        }
    }

    /// Whether an attempt is running, for which dropping the account would wait.
    pub(super) fn is_renewing(&self) -> bool {
        self.shared.state.lock().thread.as_ref().is_some_and(|attempt| !attempt.is_finished())
    }

    /// Starts an attempt, unless one is running. The returned value changes when the attempt ends.
    ///
    /// # Errors
    /// If the previous attempt failed and it is too early for another one.
    fn begin(&self, state: &mut State) -> Result<watch::Receiver<u64>, Failure> {
        let ended = self.shared.ended.subscribe();
        if state.is_running {
            return Ok(ended);
        }
        if let Some((trouble, not_before)) = &state.trouble
            && Instant::now() < *not_before
        {
            return Err(self.shared.told(trouble));
        }
        let shared = Arc::clone(&self.shared);
        let (used, refused) = (state.live.clone(), state.refused.clone());
        let wanted = if state.is_resting() { Wanted::Others } else { Wanted::Newer };
        let attempt = thread::Builder::new().name("toolwire-account".into()).spawn(move || {
            let used = used.as_ref().map(|used| &used.kept);
            shared.end(shared.keeper.renew(used, refused.as_deref(), wanted));
        });
        let no_thread = |error: io::Error| {
            let message = format!("there is no thread to refresh the session: {error}");
            Failure::new(Kind::Internal, message).with_cause(error)
        };
        state.thread = Some(attempt.map_err(no_thread)?);
        state.is_running = true;
        Ok(ended)
    }
}

impl Shared {
    fn live(&self, kept: AccountSession) -> Result<Arc<Live>, http::Error> {
        kept.session.secrets().for_each(|secret| self.redactor.learn(secret));
        let headers = kept.session.headers(self.keeper.settings())?;
        Ok(Arc::new(Live { kept, headers }))
    }

    fn end(&self, renewed: Result<AccountSession, Trouble>) {
        let unusable =
            |error: http::Error| Trouble::logged_out(format!("its session cannot be sent: {error}"));
        let renewed = renewed.and_then(|kept| self.live(kept).map_err(unusable));
        self.refreshes.count(match &renewed {
            Ok(_) => "ok",
            Err(trouble) if trouble.is_logged_out => "logged_out",
            Err(_) => "failed",
        });
        let mut state = self.state.lock();
        match renewed {
            Ok(live) => {
                tracing::info!(upstream = self.keeper.upstream(), "the session has new tokens");
                let renewed = Some(Instant::now());
                *state = State { live: Some(live), renewed, thread: state.thread.take(), ..State::default() };
            }
            Err(trouble) => self.failed(&mut state, trouble),
        }
        state.is_running = false;
        drop(state);
        self.ended.send_modify(|ended| *ended += 1);
    }

    fn failed(&self, state: &mut State, trouble: Trouble) {
        let (upstream, reason) = (self.keeper.upstream(), trouble.reason.to_string());
        state.is_doubted = false;
        let doubled = BACKOFF.saturating_mul(1 << state.failures.min(6)).min(LONGEST_BACKOFF);
        state.failures = state.failures.saturating_add(1);
        let pause = if trouble.is_logged_out {
            // Logged only once, since the file is checked every few seconds.
            if !state.trouble.as_ref().is_some_and(|(earlier, _)| earlier.is_logged_out) {
                tracing::error!(
                    upstream,
                    reason,
                    "the upstream is logged out; log in and write the new session"
                );
            }
            state.refused = trouble.refused.clone().or_else(|| state.refused.take());
            LOGIN_PAUSE
        } else {
            let pause = trouble.retry_after.map_or(doubled, |wish| wish.clamp(doubled, LONGEST_BACKOFF));
            tracing::warn!(upstream, reason, again_in = ?pause, "the session could not be refreshed");
            pause
        };
        state.trouble = Some((trouble, Instant::now() + pause));
    }

    /// Waits until `attempt` ends. Returns the session, which must differ from `refused`.
    async fn after(
        &self,
        mut attempt: watch::Receiver<u64>,
        refused: Option<&Arc<Live>>,
    ) -> Result<Arc<Live>, Failure> {
        // The sender lives as long as `self`, so this cannot fail.
        let _ = attempt.changed().await;
        let state = self.state.lock();
        let is_good = |live: &&Arc<Live>| match refused {
            Some(refused) => !Arc::ptr_eq(live, refused),
            None => state.age(&live.kept.session) != Age::Expired,
        };
        match (state.live.as_ref().filter(is_good), &state.trouble) {
            (Some(live), _) => Ok(Arc::clone(live)),
            (None, Some((trouble, _))) => Err(self.told(trouble)),
            (None, None) => Err(self.failure("upstream_refresh_failed", "has no session")),
        }
    }

    /// Returns the failure to report to clients, which reveals nothing about the operator's files.
    fn told(&self, trouble: &Trouble) -> Failure {
        if trouble.is_logged_out {
            self.failure(
                "upstream_logged_out",
                "is logged out: the operator of this proxy has to log in again",
            )
        } else {
            self.failure(
                "upstream_refresh_failed",
                "has a session that could not be refreshed; try again later",
            )
        }
    }

    fn failure(&self, code: &str, what: &str) -> Failure {
        Failure::new(Kind::Upstream, format!("upstream `{}` {what}", self.keeper.upstream())).with_code(code)
    }
}

impl State {
    fn age(&self, session: &Session) -> Age {
        let Some(end) = session.expires_at else { return Age::Valid };
        // A faulty server or clock must not cause a refresh for each request.
        if self.is_resting() {
            return Age::Valid;
        }
        let now = unix_time();
        let lifetime = session.refreshed_at.map_or(AHEAD, |begin| end.saturating_sub(begin) / 10);
        match end.saturating_sub(now) {
            0 => Age::Expired,
            left if left <= lifetime.min(AHEAD) && session.refresh_token.is_some() => Age::Old,
            _ => Age::Valid,
        }
    }

    fn is_resting(&self) -> bool {
        self.renewed.is_some_and(|renewed| renewed.elapsed() < REST)
    }
}

/// Waits for the current attempt, and tries again to write a session that could not be written, so that no tokens are
/// lost.
impl Drop for Account {
    fn drop(&mut self) {
        let thread = self.shared.state.lock().thread.take();
        // An error means that the thread panicked, so it has ended too.
        let _ = thread.map(JoinHandle::join);
        let live = self.shared.state.lock().live.take();
        if let Some(unsaved) = live.filter(|live| !live.kept.is_saved) {
            self.shared.keeper.save_again(&unsaved.kept);
        }
    }
}

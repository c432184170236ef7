//! [`SharedLimits`]: limits of clients that hold for all instances together.

use std::{fmt, pin::Pin, time::Duration};

use super::{Owner, StoreError};

/// A future of a server's answer.
pub type Asked<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Counts what clients use, at one place for all instances. A request asks once before it begins, and settles its [`Lease`] once, at
/// its end.
pub trait SharedLimits: fmt::Debug + Send + Sync {
    /// Admits a request, which then holds what it asked for, or refuses it, which takes nothing.
    ///
    /// # Errors
    /// The place cannot be reached. Whether the request was counted there is not known.
    fn admit(&self, demand: Demand) -> Asked<Result<Verdict, StoreError>>;

    /// The lease of a request that was admitted without [`SharedLimits::admit`]. It holds nothing; the request, and what it has used,
    /// are counted when it is settled.
    fn unchecked(&self, owner: Owner, month: String) -> Lease;

    /// Counts what was used for a client beside its requests. `tokens_per_minute` is its limit.
    fn owe(&self, owner: Owner, spent: Spent, tokens_per_minute: Option<u64>);
}

/// What a request asks for, and the limits of its client. `None`: no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// The client.
    pub owner: Owner,
    /// The month, as `2026-11`.
    pub month: String,
    /// Requests of a minute.
    pub requests_per_minute: Option<u64>,
    /// Tokens of a minute.
    pub tokens_per_minute: Option<u64>,
    /// Tokens of the month.
    pub tokens_per_month: Option<u64>,
    /// Responses in progress.
    pub streams: Option<u64>,
    /// Tokens that the request and its response may have.
    pub tokens: u64,
    /// Whether a response is in progress for a while.
    pub takes_place: bool,
}

/// The answer to a [`Demand`], and what is left.
#[derive(Debug)]
pub struct Verdict {
    pub admission: Admission,
    /// Until the requests of a minute are all there again.
    pub requests_full_in: Duration,
    /// The same for tokens.
    pub tokens_full_in: Duration,
    /// Requests, tokens of requests and tokens of responses in the month, of all instances.
    pub month: (u64, u64, u64),
}

/// Whether a request may go on.
#[derive(Debug)]
pub enum Admission {
    /// `None`: there is nothing to settle.
    Granted(Option<Lease>),
    Refused(Refusal),
}

/// Which limit a request would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Streams,
    /// The month's tokens are used up.
    Month,
    /// Responses in progress may need what is left of them.
    MonthReserved,
    /// Tokens of a minute, and how long to wait.
    Tokens(Duration),
    /// Requests of a minute, and how long to wait.
    Requests(Duration),
}

/// What an admitted request holds. Dropped without [`Lease::settle`], it has used nothing. It ends with its instance, too.
pub struct Lease(Option<Settle>);

/// Told what was used; `None`: nothing.
type Settle = Box<dyn FnOnce(Option<Spent>) + Send + Sync>;

impl Lease {
    /// A lease at whose end `settle` is called. It must not block.
    #[cfg(feature = "redis")]
    pub(crate) fn new(settle: impl FnOnce(Option<Spent>) + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(settle)))
    }

    /// Replaces what was held by what was used.
    pub fn settle(mut self, spent: Spent) {
        if let Some(settle) = self.0.take() {
            settle(Some(spent));
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(settle) = self.0.take() {
            settle(None);
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").finish_non_exhaustive()
    }
}

/// What a request has used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spent {
    /// The month in which it ended, as `2026-11`.
    pub month: String,
    /// Tokens of the request.
    pub input: u64,
    /// Tokens of the response.
    pub output: u64,
}

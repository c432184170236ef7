//! [`SharedLimits`]: clients' limits that apply to all instances together.

use std::{fmt, pin::Pin, time::Duration};

use super::{Owner, StoreError};

/// A server's future answer.
pub type Asked<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Counts the usage of clients, in one place for all instances. A request asks once before it begins, and settles
/// its [`Lease`] once at its end.
pub trait SharedLimits: fmt::Debug + Send + Sync {
    /// Admits a request, which then holds the amounts that it needs, or refuses it and takes nothing.
    ///
    /// # Errors
    /// If the counts cannot be reached. It is then unknown whether the request was counted.
    fn admit(&self, demand: Demand) -> Asked<Result<Verdict, StoreError>>;

    /// Returns the lease of a request that was admitted without [`SharedLimits::admit`]. The lease holds nothing; the
    /// request and its usage are counted when the lease is settled.
    fn unchecked(&self, owner: Owner, month: String) -> Lease;

    /// Counts a client's usage that does not belong to one of its requests. `tokens_per_minute` is the client's limit.
    fn owe(&self, owner: Owner, spent: Spent, tokens_per_minute: Option<u64>);
}

/// The amounts that a request needs, and the limits of its client. `None` means no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// The client.
    pub owner: Owner,
    /// The month, as `2026-11`.
    pub month: String,
    /// Maximum requests per minute.
    pub requests_per_minute: Option<u64>,
    /// Maximum tokens per minute.
    pub tokens_per_minute: Option<u64>,
    /// Maximum tokens per month.
    pub tokens_per_month: Option<u64>,
    /// Maximum responses in progress.
    pub streams: Option<u64>,
    /// Maximum tokens of the request and its response.
    pub tokens: u64,
    /// Whether the response counts as in progress until the lease ends.
    pub takes_place: bool,
}

/// The answer to a [`Demand`], and the remaining amounts.
#[derive(Debug)]
pub struct Verdict {
    pub admission: Admission,
    /// Time until the allowance of requests per minute is full again.
    pub requests_full_in: Duration,
    /// Time until the allowance of tokens per minute is full again.
    pub tokens_full_in: Duration,
    /// Requests, input tokens and output tokens of the month, in all instances.
    pub month: (u64, u64, u64),
}

/// Whether a request is admitted.
#[derive(Debug)]
pub enum Admission {
    /// Admitted. `None` if there is nothing to settle.
    Granted(Option<Lease>),
    Refused(Refusal),
}

/// The limit that a request would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Streams,
    /// The month's tokens are used up.
    Month,
    /// Responses in progress have reserved the remaining tokens of the month.
    MonthReserved,
    /// Tokens per minute, and the time to wait.
    Tokens(Duration),
    /// Requests per minute, and the time to wait.
    Requests(Duration),
}

/// The amounts that an admitted request holds. If it is dropped without [`Lease::settle`], nothing counts as used. The
/// lease of an instance that has ended expires.
pub struct Lease(Option<Settle>);

/// Called with the usage. `None` if nothing was used.
type Settle = Box<dyn FnOnce(Option<Spent>) + Send + Sync>;

impl Lease {
    /// Creates a lease that calls `settle` when it ends. `settle` must not block.
    pub fn new(settle: impl FnOnce(Option<Spent>) + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(settle)))
    }

    /// Replaces the held amounts with the actual usage.
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

crate::wire::debug_fields!(Lease {});

/// The usage of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spent {
    /// The month in which the request ended, as `2026-11`.
    pub month: String,
    /// Tokens of the request.
    pub input: u64,
    /// Tokens of the response.
    pub output: u64,
}

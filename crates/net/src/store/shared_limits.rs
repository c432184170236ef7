//! [`SharedLimits`]: limits of clients that apply to all instances together.

use std::{fmt, pin::Pin, time::Duration};

use super::{Owner, StoreError};

pub type Asked<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Counts the usage of clients for all instances. A request calls `admit` before it starts, and settles its [`Lease`]
/// when it ends.
pub trait SharedLimits: fmt::Debug + Send + Sync {
    /// Admits a request and reserves what it needs, or refuses it and reserves nothing.
    ///
    /// # Errors
    /// The counts cannot be reached, so it is unknown whether the request was counted.
    fn admit(&self, demand: Demand) -> Asked<Result<Verdict, StoreError>>;

    /// Returns a lease for a request that was admitted without [`SharedLimits::admit`]. Nothing is reserved; the
    /// request and its usage are counted when the lease is settled.
    fn unchecked(&self, owner: Owner, month: String) -> Lease;

    /// Counts a client's usage that does not belong to any of its requests. `tokens_per_minute` is the client's limit.
    fn owe(&self, owner: Owner, spent: Spent, tokens_per_minute: Option<u64>);
}

/// What a request needs, and the limits of its client. `None` means no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    pub owner: Owner,
    /// For example `2026-11`.
    pub month: String,
    pub requests_per_minute: Option<u64>,
    pub tokens_per_minute: Option<u64>,
    pub tokens_per_month: Option<u64>,
    /// Maximum number of responses in progress.
    pub streams: Option<u64>,
    /// Maximum number of tokens that the request and its response can use.
    pub tokens: u64,
    /// Whether the response counts as in progress until the lease ends.
    pub takes_place: bool,
}

/// The answer to a [`Demand`], and what remains of the limits.
#[derive(Debug)]
pub struct Verdict {
    pub admission: Admission,
    /// How long until the limit of requests per minute is fully available again.
    pub requests_full_in: Duration,
    /// How long until the limit of tokens per minute is fully available again.
    pub tokens_full_in: Duration,
    /// Requests, input tokens and output tokens of the month, summed over all instances.
    pub month: (u64, u64, u64),
}

#[derive(Debug)]
pub enum Admission {
    /// `None` if there is nothing to settle.
    Granted(Option<Lease>),
    Refused(Refusal),
}

/// The limit that a request would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Streams,
    /// The month's tokens are used up.
    Month,
    /// The month's remaining tokens are reserved by responses in progress.
    MonthReserved,
    /// Tokens per minute. Contains the time to wait.
    Tokens(Duration),
    /// Requests per minute. Contains the time to wait.
    Requests(Duration),
}

/// What an admitted request has reserved. If this is dropped without [`Lease::settle`], nothing counts as used. If the
/// instance crashes, the lease expires.
pub struct Lease(Option<Settle>);

/// Called with the usage, or with `None` if nothing was used.
type Settle = Box<dyn FnOnce(Option<Spent>) + Send + Sync>;

impl Lease {
    /// Creates a lease that calls `settle` at its end. `settle` must not block.
    pub fn new(settle: impl FnOnce(Option<Spent>) + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(settle)))
    }

    /// Replaces the reservation with the actual usage.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spent {
    /// The month in which the request ended, for example `2026-11`.
    pub month: String,
    pub input: u64,
    pub output: u64,
}

//! The time and the random seeds for responses.

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

pub use toolwire_execution::audit::unix_time;

/// The time since the first use of this clock.
pub(super) fn monotonic() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

/// Returns a seed for ids that must differ but need not be secret.
pub(super) fn seed() -> u64 {
    fastrand::u64(..)
}

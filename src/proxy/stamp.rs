//! The time and the random numbers that responses are stamped with.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds of Unix time.
pub(crate) fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Seed of ids that must differ and need not be secret.
pub(super) fn seed() -> u64 {
    fastrand::u64(..)
}

//! The time and the random numbers that responses are stamped with.

use toolwire_execution::audit::unix_millis;

/// Seconds of Unix time.
pub fn unix_time() -> u64 {
    unix_millis() / 1000
}

/// A seed for ids that must differ but need not be secret.
pub(super) fn seed() -> u64 {
    fastrand::u64(..)
}

//! The time and the random seeds for responses.

pub use toolwire_execution::audit::unix_time;

/// Returns a seed for ids that must differ but need not be secret.
pub(super) fn seed() -> u64 {
    fastrand::u64(..)
}

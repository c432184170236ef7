//! The clock that all processes of a machine share, and a timer that follows it. The mock stamps its tokens with this
//! clock, and the bench subtracts those stamps from its own readings.

mod precise_timer;

pub(crate) use precise_timer::PreciseTimer;
use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the machine's monotonic clock.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(nanoseconds.unwrap_or(0))
}

//! The machine's monotonic clock, and a timer for it. All processes share this clock, so the bench can subtract the time
//! that a mock has written into a token from its own reading.

mod precise_timer;

pub(crate) use precise_timer::PreciseTimer;
use rustix::time::{ClockId, clock_gettime};

/// Returns the time of the monotonic clock, in nanoseconds.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(nanoseconds.unwrap_or(0))
}

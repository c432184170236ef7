//! [`SteadyClock`]: the time by which stored values expire.
//!
//! Values have an expiry time of the day's clock, since they outlive the process. If that clock is set ahead by mistake,
//! all younger values would expire at once, and be removed with the next write; if it is set back, new values would
//! expire too early once it is right again. So after a time that differs from what the monotonic clock explains, both
//! times apply for a while, and values get the longer life. If the clock was set right before, nothing is lost.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How far, in seconds, a time may differ from that of the monotonic clock before the clock counts as set.
const TOLERANCE: u64 = 60;

/// How long a clock that was set is doubted. As long as the shortest lifetime of stored values: those of a deferred turn
/// have expired by then in any case.
const GRACE: Duration = Duration::from_secs(15 * 60);

#[derive(Debug)]
pub(crate) struct SteadyClock {
    grace: Duration,
    state: Mutex<Option<ClockState>>,
}

#[derive(Debug, Clone, Copy)]
struct ClockState {
    /// The last time that was believed, as Unix time in seconds, and when that was.
    believed: (u64, Instant),
    /// When the clock was first found to be set.
    doubted_since: Option<Instant>,
    /// The last result of [`SteadyClock::earliest`].
    earliest: u64,
}

impl Default for SteadyClock {
    fn default() -> Self {
        Self { grace: GRACE, state: Mutex::default() }
    }
}

impl SteadyClock {
    /// Creates a clock that believes every time.
    pub(super) fn without_grace() -> Self {
        Self { grace: Duration::ZERO, state: Mutex::default() }
    }

    /// Returns the time, in seconds, by which values have expired while the day's clock says `now`. Never later than
    /// `now`.
    pub(super) fn earliest(&self, now: u64) -> u64 {
        self.between(now, Instant::now()).0
    }

    /// Returns the time, in seconds, at which the life of a new value begins while the day's clock says `now`. Never
    /// earlier than `now`.
    pub(super) fn latest(&self, now: u64) -> u64 {
        self.between(now, Instant::now()).1
    }

    /// Returns the last known time by which values have expired. 0 before the first request.
    pub(super) fn last_earliest(&self) -> u64 {
        self.state.lock().map_or(0, |state| state.earliest)
    }

    /// The earliest and the latest time that it may be.
    fn between(&self, now: u64, instant: Instant) -> (u64, u64) {
        let mut state = self.state.lock();
        if let Some(ClockState { believed: (time, since), doubted_since, earliest }) = &mut *state {
            let expected = time.saturating_add(instant.saturating_duration_since(*since).as_secs());
            if now.abs_diff(expected) > TOLERANCE {
                let began = *doubted_since.get_or_insert(instant);
                if instant.saturating_duration_since(began) < self.grace {
                    *earliest = now.min(expected);
                    return (*earliest, now.max(expected));
                }
            }
        }
        *state = Some(ClockState { believed: (now, instant), doubted_since: None, earliest: now });
        (now, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;

    #[test]
    fn time_that_was_set_is_believed_after_a_while() {
        let (clock, begin) = (SteadyClock::default(), Instant::now());
        let at = |now: u64, seconds: u64| clock.between(now, begin + Duration::from_secs(seconds));
        let day = 24 * HOUR;
        assert_eq!(at(day, 0), (day, day));
        assert_eq!(at(day + 100, 50), (day + 100, day + 100), "a difference of less than a minute");
        assert_eq!(at(day + HOUR, 60), (day + 110, day + HOUR));
        assert_eq!(at(HOUR, 110), (HOUR, day + 160));
        assert_eq!(at(day + 170, 120), (day + 170, day + 170), "the clock was set right");
        for set in [day + HOUR, HOUR] {
            let (clock, begin) = (SteadyClock::default(), Instant::now());
            let at = |now: u64, seconds: u64| clock.between(now, begin + Duration::from_secs(seconds));
            at(day, 0);
            assert_eq!(at(set, 10), (set.min(day + 10), set.max(day + 10)));
            assert_eq!(at(set + 899, 10 + 899), ((set + 899).min(day + 909), (set + 899).max(day + 909)));
            for later in [900, 910] {
                assert_eq!(at(set + later, 10 + later), (set + later, set + later));
            }
        }
    }

    #[test]
    fn time_without_a_request_passes() {
        let (clock, begin) = (SteadyClock::default(), Instant::now());
        clock.between(0, begin);
        let two_days = 48 * HOUR;
        assert_eq!(clock.between(two_days, begin + Duration::from_secs(two_days)), (two_days, two_days));
    }
}

//! [`watch`]: reports that the system's clock was set.
//!
//! Months, expiry times and certificates depend on it. Time limits and limits per minute do not.

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use tokio::time::sleep;

use crate::observe::Metrics;

const INTERVAL: Duration = Duration::from_secs(2);

/// Smaller differences are those of a clock that is adjusted gradually, or of a busy machine.
const TOLERANCE: Duration = Duration::from_secs(60);

/// How the clock was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClockJump {
    Ahead(Duration),
    Back(Duration),
}

/// Compares the system's clock with the monotonic one at regular intervals.
pub(super) async fn watch(metrics: Arc<Metrics>) -> Infallible {
    let mut last = (SystemTime::now(), Instant::now());
    loop {
        sleep(INTERVAL).await;
        let now = (SystemTime::now(), Instant::now());
        if let Some(jump) = jump_between(last, now) {
            report(jump, &metrics);
        }
        last = now;
    }
}

fn jump_between(last: (SystemTime, Instant), now: (SystemTime, Instant)) -> Option<ClockJump> {
    let expected = last.0.checked_add(now.1.saturating_duration_since(last.1))?;
    match now.0.duration_since(expected) {
        Ok(ahead) => (ahead > TOLERANCE).then_some(ClockJump::Ahead(ahead)),
        Err(back) => (back.duration() > TOLERANCE).then_some(ClockJump::Back(back.duration())),
    }
}

fn report(jump: ClockJump, metrics: &Metrics) {
    match jump {
        ClockJump::Ahead(by) => {
            metrics.clock_jump("ahead");
            tracing::warn!(
                seconds = by.as_secs(),
                "the system's clock was set ahead (or the machine was suspended). If that is wrong, set it right within 15 minutes: until then, no stored value expires because of it"
            );
        }
        ClockJump::Back(by) => {
            metrics.clock_jump("back");
            tracing::warn!(
                seconds = by.as_secs(),
                "the system's clock was set back. If that is wrong, set it right: keys, certificates and budgets of a month go by it"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_that_is_set_is_told_from_time_that_passes() {
        let begin = (SystemTime::now(), Instant::now());
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        let after = |passed: Duration, by: Duration| (begin.0 + passed + by, begin.1 + passed);
        for passed in [second, hour] {
            assert_eq!(jump_between(begin, after(passed, Duration::ZERO)), None);
            assert_eq!(jump_between(begin, after(passed, second * 59)), None);
            assert_eq!(jump_between(begin, after(passed, hour)), Some(ClockJump::Ahead(hour)));
            assert_eq!(
                jump_between(begin, (begin.0 + passed - hour, begin.1 + passed)),
                Some(ClockJump::Back(hour))
            );
        }
    }
}

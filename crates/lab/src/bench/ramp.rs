//! The ramp: the highest number of concurrent streams that meets a service level.
//!
//! The search doubles the number while the level is met, then bisects. A failed step is repeated once, so that a single
//! disturbance of the machine does not halve the result.

use std::time::Duration;

use super::{report::RampStep, slo::Verdict};

/// The range of the search, and the length of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Number of concurrent streams in the first step.
    pub from: u64,
    /// Maximum number of concurrent streams to try.
    pub to: u64,
    /// Length of a step. Open streams are measured to their end.
    pub step: Duration,
}

/// The search ends when the highest success and the lowest failure differ by at most 1/`PRECISION`.
const PRECISION: u64 = 20;

/// Searches `range` for the highest number of streams at which `attempt` meets the service level. Returns that number,
/// if there is one, and every step.
///
/// # Errors
/// Any error of `attempt`.
pub(crate) async fn search<E>(
    range: Range,
    mut attempt: impl AsyncFnMut(u64) -> Result<Verdict, E>,
) -> Result<(Option<u64>, Vec<RampStep>), E> {
    let mut steps = Vec::new();
    let mut holds = 0;
    let mut fails = None;
    let mut streams = range.from.clamp(1, range.to.max(1));
    loop {
        let mut held = false;
        for _ in 0..2 {
            let verdict = attempt(streams).await?;
            held = verdict.held;
            steps.push(RampStep { streams, held, measured: verdict.measured });
            if held {
                break;
            }
        }
        if held {
            holds = streams;
        } else {
            fails = Some(streams);
        }
        streams = match fails {
            None if holds >= range.to => break,
            None => holds.saturating_mul(2).min(range.to),
            Some(fails) if fails - holds <= (holds / PRECISION).max(1) => break,
            Some(fails) => holds.midpoint(fails),
        };
    }
    Ok(((holds > 0).then_some(holds), steps))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    async fn found(from: u64, to: u64, capacity: u64) -> (Option<u64>, Vec<u64>) {
        let range = Range { from, to, step: Duration::ZERO };
        let attempt =
            async |streams| Ok::<_, Infallible>(Verdict { held: streams <= capacity, measured: Vec::new() });
        let Ok((streams, steps)) = search(range, attempt).await;
        (streams, steps.iter().map(|step| step.streams).collect())
    }

    #[tokio::test]
    async fn ramp_doubles_then_bisects() {
        let (streams, steps) = found(1, 1000, 11).await;
        assert_eq!(streams, Some(11));
        assert_eq!(steps, [1, 2, 4, 8, 16, 16, 12, 12, 10, 11]);
        let (streams, _) = found(10, 100_000, 777).await;
        assert!(
            streams.is_some_and(|streams| streams <= 777 && streams + streams / 20 >= 777),
            "{streams:?}"
        );
    }

    #[tokio::test]
    async fn ramp_can_end_at_either_bound() {
        assert_eq!(found(1, 50, 1000).await, (Some(50), vec![1, 2, 4, 8, 16, 32, 50]));
        assert_eq!(found(16, 64, 3).await.0, Some(3));
        assert_eq!(found(4, 64, 0).await.0, None);
        assert_eq!(found(80, 20, 1000).await, (Some(20), vec![20]));
    }

    #[tokio::test]
    async fn failed_ramp_step_is_repeated_once() {
        let range = Range { from: 1, to: 64, step: Duration::ZERO };
        let mut tries = 0;
        let attempt = async |_| {
            tries += 1;
            Ok::<_, Infallible>(Verdict { held: tries != 3, measured: Vec::new() })
        };
        let Ok((streams, steps)) = search(range, attempt).await;
        assert_eq!((streams, steps.iter().filter(|step| !step.held).count()), (Some(64), 1));
    }
}

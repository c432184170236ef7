//! [`HostedFigures`]: statistics of calls to each hosted tool since toolwire started.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::latencies::Latencies;

/// Statistics by tool. The caller bounds the number of names.
#[derive(Debug, Default)]
pub struct HostedFigures(Mutex<HashMap<String, ToolFigures>>);

#[derive(Debug, Default)]
struct ToolFigures {
    calls: u64,
    failed: u64,
    cached: u64,
    /// Latencies of the calls that ran.
    times: Latencies,
}

impl HostedFigures {
    pub(super) fn count(&self, tool: &str, took: Duration, is_ok: bool, is_cached: bool) {
        let mut tools = self.0.lock();
        let own = match tools.get_mut(tool) {
            Some(own) => own,
            None => tools.entry(tool.to_owned()).or_default(),
        };
        own.calls += 1;
        own.failed += u64::from(!is_ok);
        own.cached += u64::from(is_cached);
        if !is_cached {
            own.times.add(took);
        }
    }

    /// Returns the statistics of one tool: `calls`, `failed` and `cached` calls, and the median latency of the calls
    /// that ran.
    pub fn of(&self, tool: &str) -> Value {
        let tools = self.0.lock();
        let none = ToolFigures::default();
        let ToolFigures { calls, failed, cached, times } = tools.get(tool).unwrap_or(&none);
        let half = times.percentile(50).map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        json!({"calls": calls, "failed": failed, "cached": cached, "p50_ms": half})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_tool_and_cached_ones_have_no_time() {
        let figures = HostedFigures::default();
        for (millis, is_ok, is_cached) in [(800, true, false), (900, false, false), (0, true, true)] {
            figures.count("search", Duration::from_millis(millis), is_ok, is_cached);
        }
        let search = figures.of("search");
        assert_eq!(
            (&search["calls"], &search["failed"], &search["cached"]),
            (&json!(3), &json!(1), &json!(1))
        );
        assert!(search["p50_ms"].as_u64().unwrap().abs_diff(800) <= 50, "{search}");
        assert_eq!(figures.of("other"), json!({"calls": 0, "failed": 0, "cached": 0, "p50_ms": null}));
    }
}

//! [`MemoryGauge`]: how much memory the program knows that it holds, by kind, beside what the process takes.
//!
//! Everything is counted when the metrics are read, so that requests and tokens cost nothing more.

use std::fmt;

use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, family::Family, gauge::Gauge},
};

/// Bytes by kind.
pub type HeldMemory = Vec<(&'static str, usize)>;

/// Counts what is held.
type Source = Box<dyn Fn() -> HeldMemory + Send + Sync>;

/// The metric `toolwire_memory_bytes`.
#[derive(Default)]
pub(crate) struct MemoryGauge {
    source: Mutex<Option<Source>>,
}

impl MemoryGauge {
    /// Replaces what counts the memory.
    pub(crate) fn set(&self, source: impl Fn() -> HeldMemory + Send + Sync + 'static) {
        *self.source.lock() = Some(Box::new(source));
    }
}

impl Collector for MemoryGauge {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut held = self.source.lock().as_ref().map(|source| source()).unwrap_or_default();
        held.extend(process());
        let gauges = Family::<[(&'static str, &'static str); 1], Gauge>::default();
        for (kind, bytes) in held {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            gauges.get_or_create(&[("kind", kind)]).inc_by(bytes);
        }
        let help =
            "Memory by kind: what is held for a purpose, and what the process takes (process, process_heap)";
        gauges.encode(encoder.encode_descriptor("memory_bytes", help, None, MetricType::Gauge)?)
    }
}

impl fmt::Debug for MemoryGauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryGauge").finish_non_exhaustive()
    }
}

/// The resident memory of the process: all of it, and the part that no file backs, which is the allocator's and the
/// stacks of threads. Empty where the system does not say it this way.
fn process() -> HeldMemory {
    let status = if cfg!(target_os = "linux") {
        std::fs::read_to_string("/proc/self/status")
    } else {
        Ok(String::new())
    };
    resident(&status.unwrap_or_default())
}

/// Reads the memory from the lines of `/proc/self/status`.
fn resident(status: &str) -> HeldMemory {
    let field = |name: &str| {
        let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: usize = rest.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kib << 10)
    };
    let kinds = [("process", "VmRSS:"), ("process_heap", "RssAnon:")];
    kinds.into_iter().filter_map(|(kind, name)| Some((kind, field(name)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Metrics;

    #[test]
    fn memory_of_the_process_is_read() {
        let status = "Name:\ttoolwire\nVmRSS:\t   24576 kB\nRssAnon:\t    1024 kB\nRssFile:\t   23552 kB\n";
        assert_eq!(resident(status), [("process", 24 << 20), ("process_heap", 1 << 20)]);
        assert_eq!(resident("VmRSS:\tmany\n"), []);
    }

    #[test]
    fn memory_is_counted_whenever_metrics_are_read() {
        let (metrics, held) =
            (Metrics::new(false), std::sync::Arc::new(Mutex::new(vec![("turn_states", 5)])));
        assert!(!metrics.text().contains("turn_states"));
        let source = std::sync::Arc::clone(&held);
        metrics.memory().set(move || source.lock().clone());
        assert!(
            metrics.text().contains("toolwire_memory_bytes{kind=\"turn_states\"} 5\n"),
            "{}",
            metrics.text()
        );
        *held.lock() = vec![("turn_states", 7), ("turn_states", 1)];
        assert!(
            metrics.text().contains("toolwire_memory_bytes{kind=\"turn_states\"} 8\n"),
            "{}",
            metrics.text()
        );
        #[cfg(target_os = "linux")]
        assert!(
            metrics.text().contains("toolwire_memory_bytes{kind=\"process_heap\"}"),
            "{}",
            metrics.text()
        );
    }
}

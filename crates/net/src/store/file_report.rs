//! [`FileReport`]: says in metrics what happens to the file of a store.

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};

/// The name of the file.
type Labels = [(&'static str, &'static str); 1];

/// Metrics of the files in which state is stored, by the name of the file.
#[derive(Debug, Clone, Default)]
pub struct FileMetrics {
    /// 1 while the newest values of a file cannot be written to it.
    pub unwritten: Family<Labels, Gauge>,
    /// Counts damaged files whose place a fresh one took.
    pub damaged: Family<Labels, Counter>,
}

/// The metrics of one file.
#[derive(Debug, Clone)]
pub(crate) struct FileReport {
    file: &'static str,
    metrics: FileMetrics,
}

impl FileReport {
    pub(super) fn new(file: &'static str, metrics: FileMetrics) -> Self {
        Self { file, metrics }
    }

    /// The name of the file.
    pub(super) fn file(&self) -> &'static str {
        self.file
    }

    pub(super) fn unwritten(&self) {
        self.metrics.unwritten.get_or_create(&self.labels()).set(1);
    }

    pub(super) fn written(&self) {
        self.metrics.unwritten.get_or_create(&self.labels()).set(0);
    }

    pub(super) fn damaged(&self) {
        self.metrics.damaged.get_or_create(&self.labels()).inc();
    }

    fn labels(&self) -> Labels {
        [("file", self.file)]
    }
}

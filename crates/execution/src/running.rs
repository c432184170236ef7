//! [`RunningProvider`]: a provider with what runs for it in the background. It outlives changes of the stage that are not about it.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

#[cfg(test)]
use super::runtime::Runtime;
use super::{provider::Provider, runtime::Tasks};

/// See the module.
#[derive(Debug)]
pub(super) struct RunningProvider {
    pub(super) name: Arc<str>,
    pub(super) provider: Arc<dyn Provider>,
    /// What runs for it. Ends when no stage has the provider any more.
    pub(super) tasks: Arc<Tasks>,
    /// No other one has this number.
    number: u64,
}

impl RunningProvider {
    /// The provider `name`, with `tasks` on the runtime of the stage.
    pub(super) fn new(name: Arc<str>, provider: Arc<dyn Provider>, tasks: Arc<Tasks>) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        Self { name, provider, tasks, number: NUMBERS.fetch_add(1, Ordering::Relaxed) }
    }

    /// One without work of its own.
    #[cfg(test)]
    pub(super) fn idle(name: &str, provider: Arc<dyn Provider>, runtime: &Runtime) -> Arc<Self> {
        Arc::new(Self::new(name.into(), provider, Arc::new(runtime.tasks())))
    }
}

impl Drop for RunningProvider {
    fn drop(&mut self) {
        self.tasks.end();
    }
}

/// What tells the results of these providers from those of others under the same names. Search engines answer for each other, so
/// one that changes changes all.
pub(super) fn marks(providers: &[Arc<RunningProvider>]) -> HashMap<Arc<str>, u64> {
    let mut engines = DefaultHasher::new();
    for engine in providers.iter().filter(|running| running.provider.is_search_engine()) {
        engine.number.hash(&mut engines);
    }
    let mark = |running: &RunningProvider| match running.provider.is_search_engine() {
        true => engines.finish(),
        false => running.number,
    };
    providers.iter().map(|running| (Arc::clone(&running.name), mark(running))).collect()
}

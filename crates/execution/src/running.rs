//! [`RunningProvider`]: a provider with its background work. It survives a change of the stage if the provider's settings
//! stay the same.

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

#[derive(Debug)]
pub(super) struct RunningProvider {
    pub(super) name: Arc<str>,
    pub(super) provider: Arc<dyn Provider>,
    /// The provider's background work. Ends when no stage has the provider any more.
    pub(super) tasks: Arc<Tasks>,
    /// Unique number.
    number: u64,
}

impl RunningProvider {
    /// The provider `name`; its work is among `tasks` on the stage's runtime.
    pub(super) fn new(name: Arc<str>, provider: Arc<dyn Provider>, tasks: Arc<Tasks>) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        Self { name, provider, tasks, number: NUMBERS.fetch_add(1, Ordering::Relaxed) }
    }

    /// A provider without background work.
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

/// Returns numbers that distinguish the results of these providers from those of other providers with the same names.
/// Search engines stand in for each other, so a change of one engine changes the numbers of all.
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

//! [`RunningProvider`]: a provider with its background work. It is taken over by the next stage if its settings have
//! not changed.

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
    /// Background work, which is cancelled when no stage has the provider any more.
    pub(super) tasks: Arc<Tasks>,
    /// Unique number.
    number: u64,
}

impl RunningProvider {
    /// `tasks` contains the provider's background work.
    pub(super) fn new(name: Arc<str>, provider: Arc<dyn Provider>, tasks: Arc<Tasks>) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        Self { name, provider, tasks, number: NUMBERS.fetch_add(1, Ordering::Relaxed) }
    }

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

/// Returns numbers that distinguish the results of these providers from those of replaced providers with the same
/// names. Search engines can stand in for each other, so a change to one changes the numbers of all.
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

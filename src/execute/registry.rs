//! [`Registry`]: the hosted tools of all providers.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use super::{
    provider::Provider,
    settings::{ExecutionSettings, ToolRules},
    tool::ToolSpec,
};

/// The longest name that models are given.
const MAX_NAME: usize = 64;

/// A tool that toolwire runs.
#[derive(Debug, Clone)]
pub(crate) struct Hosted {
    /// The name by which models know it.
    pub(crate) name: Arc<str>,
    /// As its provider offers it.
    pub(crate) spec: Arc<ToolSpec>,
    /// The provider's name.
    pub(crate) provider_name: Arc<str>,
    /// The provider.
    pub(crate) provider: Arc<dyn Provider>,
    /// The rules for it.
    pub(crate) rules: ToolRules,
}

/// The tools at one moment. A turn keeps the one that it began with.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    tools: Vec<Hosted>,
    /// Places in `tools`, by names and aliases.
    places: HashMap<String, usize>,
}

impl Snapshot {
    /// All tools.
    pub(crate) fn tools(&self) -> &[Hosted] {
        &self.tools
    }

    /// The tool with this name or alias, however a model wrote it.
    pub(crate) fn find(&self, name: &str) -> Option<&Hosted> {
        self.places.get(&normalized(name)).and_then(|place| self.tools.get(*place))
    }
}

/// The tools of all providers.
pub(crate) struct Registry {
    providers: Vec<(Arc<str>, Arc<dyn Provider>)>,
    settings: Arc<ExecutionSettings>,
    snapshot: RwLock<Arc<Snapshot>>,
}

impl Registry {
    /// The tools of these providers.
    pub(crate) fn new(
        settings: Arc<ExecutionSettings>,
        providers: Vec<(Arc<str>, Arc<dyn Provider>)>,
    ) -> Self {
        let registry = Self { providers, settings, snapshot: RwLock::default() };
        registry.refresh();
        registry
    }

    /// The tools now.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks the providers what they offer.
    pub(crate) fn refresh(&self) {
        let mut snapshot = Snapshot::default();
        let mut taken = HashSet::new();
        for (provider_name, provider) in &self.providers {
            for spec in provider.tools() {
                let name = normalized(&spec.name);
                if !taken.insert(name.clone()) {
                    tracing::warn!(tool = name, provider = %provider_name, "another provider offers a tool of this name");
                    continue;
                }
                let place = snapshot.tools.len();
                let names =
                    std::iter::once(name.clone()).chain(spec.aliases.iter().map(|alias| normalized(alias)));
                for name in names {
                    snapshot.places.entry(name).or_insert(place);
                }
                let rules = self.settings.tools.get(&name).cloned().unwrap_or_default();
                let (provider_name, provider) = (Arc::clone(provider_name), Arc::clone(provider));
                snapshot.tools.push(Hosted { name: name.into(), spec, provider_name, provider, rules });
            }
        }
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("snapshot", &self.snapshot()).finish_non_exhaustive()
    }
}

/// A tool's name in the form that all upstreams accept: lower case, `[a-z0-9_-]`, at most 64 characters.
fn normalized(name: &str) -> String {
    let legal = |character: char| match character.to_ascii_lowercase() {
        legal @ ('a'..='z' | '0'..='9' | '_' | '-') => legal,
        _ => '_',
    };
    name.chars().take(MAX_NAME).map(legal).collect()
}

//! [`Registry`]: the hosted tools of all providers.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock},
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
    /// Whether models get it. A person may switch it off.
    pub(crate) is_enabled: bool,
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
        let place = self.places.get(&normalized(name))?;
        self.tools.get(*place).filter(|tool| tool.is_enabled)
    }
}

/// The tools of all providers.
pub(crate) struct Registry {
    providers: Vec<(Arc<str>, Arc<dyn Provider>)>,
    settings: Arc<ExecutionSettings>,
    snapshot: RwLock<Arc<Snapshot>>,
    /// The names of the tools that are switched off.
    disabled: Mutex<HashSet<String>>,
}

impl Registry {
    /// The tools of these providers.
    pub(crate) fn new(
        settings: Arc<ExecutionSettings>,
        providers: Vec<(Arc<str>, Arc<dyn Provider>)>,
    ) -> Self {
        let mut providers = providers;
        providers.sort_by_key(|(_, provider)| provider.yields());
        let (snapshot, disabled) = (RwLock::default(), Mutex::default());
        let registry = Self { providers, settings, snapshot, disabled };
        registry.refresh();
        registry
    }

    /// The tools now.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The providers with their names.
    pub(crate) fn providers(&self) -> &[(Arc<str>, Arc<dyn Provider>)] {
        &self.providers
    }

    /// Switches a tool on or off. Returns whether there is such a tool.
    pub(crate) fn set_enabled(&self, name: &str, is_enabled: bool) -> bool {
        let snapshot = self.snapshot();
        let Some(tool) = snapshot.tools().iter().find(|tool| *tool.name == *name) else { return false };
        let mut disabled = self.disabled.lock().unwrap_or_else(PoisonError::into_inner);
        match is_enabled {
            true => _ = disabled.remove(&*tool.name),
            false => _ = disabled.insert(tool.name.to_string()),
        }
        drop(disabled);
        self.refresh();
        true
    }

    /// Asks the providers what they offer.
    pub(crate) fn refresh(&self) {
        let mut snapshot = Snapshot::default();
        let mut taken = HashSet::new();
        let disabled = self.disabled.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (provider_name, provider) in &self.providers {
            for spec in provider.tools() {
                let name = normalized(&spec.name);
                if !taken.insert(name.clone()) {
                    tracing::warn!(tool = name, provider = %provider_name, "another provider offers a tool of this name");
                    continue;
                }
                let is_enabled = !disabled.contains(&name);
                let place = snapshot.tools.len();
                let names =
                    std::iter::once(name.clone()).chain(spec.aliases.iter().map(|alias| normalized(alias)));
                for name in names {
                    snapshot.places.entry(name).or_insert(place);
                }
                let rules = self.settings.tools.get(&name).cloned().unwrap_or_default();
                let (provider_name, provider) = (Arc::clone(provider_name), Arc::clone(provider));
                snapshot.tools.push(Hosted {
                    name: name.into(),
                    spec,
                    provider_name,
                    provider,
                    rules,
                    is_enabled,
                });
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

//! The tools of servers at which each client key has a login of its own.

use std::sync::Arc;

use super::{super::provider::Provider, NamedProvider, Registry, Snapshot};

impl Registry {
    /// The tools for the client key `key`: where each key has a login of its own, those that its login shows.
    pub(crate) fn snapshot_of(&self, key: Option<&str>) -> Arc<Snapshot> {
        let of_key = |(name, provider): &NamedProvider| Some((Arc::clone(name), provider.of_key(key)?));
        let own: Vec<NamedProvider> = self.providers.iter().filter_map(of_key).collect();
        let shared = self.snapshot();
        if own.is_empty() {
            return shared;
        }
        let mut snapshot = Snapshot::default();
        for hosted in
            shared.tools().iter().filter(|hosted| !own.iter().any(|(name, _)| *name == hosted.provider_name))
        {
            snapshot.add(hosted.clone());
        }
        let disabled = self.disabled();
        for own in &own {
            let warn = &mut |text: String| tracing::debug!(key, "{text}");
            self.add_tools(&mut snapshot, own, &disabled, warn);
        }
        snapshot.settle(&self.settings);
        Arc::new(snapshot)
    }

    /// The provider `name` as the client key `key` uses it.
    #[cfg_attr(not(feature = "mcp"), expect(dead_code, reason = "only MCP clients ask for prompts"))]
    pub(crate) fn provider_of(&self, name: &str, key: Option<&str>) -> Option<Arc<dyn Provider>> {
        let (_, provider) = self.providers.iter().find(|(own, _)| **own == *name)?;
        Some(provider.of_key(key).unwrap_or_else(|| Arc::clone(provider)))
    }
}

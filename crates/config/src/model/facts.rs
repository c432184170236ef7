//! What models refuse: looked up once for each entry that has one model.

use std::{borrow::Cow, sync::Arc};

use super::{Model, Upstream, WILDCARD};
use toolwire_pipeline::dialect::{MemberSettings, ModelFacts};

impl Model {
    /// Returns what the model that a client requests as `asked` refuses.
    pub fn facts_for(&self, asked: &str) -> Cow<'_, ModelFacts> {
        match &self.facts {
            Some(facts) => Cow::Borrowed(facts),
            None => Cow::Owned(facts(self.upstream_name(asked), &self.upstream, &self.members)),
        }
    }
}

/// What the model of the entry `name` refuses. `None` if the entry stands for several models.
pub(super) fn of_entry(
    name: &str,
    upstream_name: Option<&str>,
    upstream: &Upstream,
    settings: &MemberSettings,
) -> Option<Arc<ModelFacts>> {
    let model = upstream_name.or((name != WILDCARD).then_some(name))?;
    Some(Arc::new(facts(model, upstream, settings)))
}

fn facts(model: &str, upstream: &Upstream, settings: &MemberSettings) -> ModelFacts {
    let host = upstream.base_url.host().unwrap_or_default();
    ModelFacts::new(model, upstream.options.provider(host), settings)
}

//! [`Known`]: what is known about a model when a request is built for it.

use std::borrow::Cow;

use toolwire_config::Model;
use toolwire_pipeline::{
    dialect::{ModelFacts, UpstreamDialect},
    enforce::Means,
};

/// What the configuration says about a model, and what was learned about it.
#[derive(Debug)]
pub(crate) struct Known<'m> {
    /// The settings of the model's upstream, including what was learned about its server.
    pub(crate) options: Cow<'m, UpstreamDialect>,
    /// The constraints that may be used.
    pub(crate) means: Means,
    /// What the model is known to refuse.
    pub(crate) facts: Cow<'m, ModelFacts>,
    /// Further members of requests that the upstream has refused.
    pub(crate) refused: Vec<&'static str>,
}

impl<'m> Known<'m> {
    /// What the configuration says about the model that clients request as `asked`.
    pub(crate) fn configured(entry: &'m Model, asked: &str) -> Self {
        let facts = entry.facts_for(asked);
        let options = &entry.upstream.options;
        let options: Cow<'_, UpstreamDialect> = Cow::Owned(options.clone().observing(facts.observed()));
        let means = options.side().means();
        Self { options, means, facts, refused: Vec::new() }
    }
}

//! [`Asker`]: the client for whom hosted calls run.

use std::sync::Arc;

use super::{ask::Payer, audit::ExchangeId, registry::Hosted, rules::Asked, vision::ResultDescriber};
use toolwire_net::store::Owner;

/// A client, as seen by rules, limits and events.
#[derive(Debug, Clone)]
pub struct Asker {
    pub owner: Owner,
    /// The client in events: the name of its key, or the key's fingerprint. `None` if no key was needed.
    pub client: Option<Arc<str>>,
    /// The client that pays for tokens, if they are counted.
    pub payer: Option<Arc<dyn Payer>>,
    /// The model that the client requested.
    pub model: Arc<str>,
    pub exchange: ExchangeId,
    /// Describes the images that tools return, if the model does not see.
    pub describer: Option<ResultDescriber>,
}

impl Asker {
    /// The name of the client's key, if it has one.
    pub(crate) fn key(&self) -> Option<&str> {
        self.payer.as_ref().map(|payer| payer.name())
    }

    /// What permissions for `hosted` are matched against, if `domain` is the domain in the call's URL.
    pub(crate) fn asked<'a>(&'a self, hosted: &'a Hosted, domain: Option<&'a str>) -> Asked<'a> {
        Asked { domain, ..self.asked_of(&hosted.name, &hosted.aliases) }
    }

    /// What permissions for the tool `tool` are matched against.
    pub(crate) fn asked_of<'a>(&'a self, tool: &'a str, aliases: &'a [String]) -> Asked<'a> {
        Asked {
            key: Some(self.owner),
            client: self.client.as_deref(),
            model: &self.model,
            tool,
            aliases,
            domain: None,
        }
    }
}

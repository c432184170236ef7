//! [`Asker`]: the client on whose behalf hosted calls run.

use std::sync::Arc;

use super::{ask::Payer, audit::ExchangeId};
use toolwire_net::store::Owner;

/// A client, as rules, limits and events see it.
#[derive(Debug, Clone)]
pub struct Asker {
    /// Owner of the request.
    pub owner: Owner,
    /// The client in events: the name of its key, or a short mark. `None` if the client needed no key.
    pub client: Option<Arc<str>>,
    /// The client, if its tokens are counted.
    pub payer: Option<Arc<dyn Payer>>,
    /// The model that the client requested.
    pub model: Arc<str>,
    /// The exchange of the request.
    pub exchange: ExchangeId,
}

//! [`Asker`]: on whose behalf hosted calls run.

use std::sync::Arc;

use super::{ask::Payer, audit::ExchangeId};
use toolwire_net::store::Owner;

/// Who asks, for rules, limits and events.
#[derive(Debug, Clone)]
pub struct Asker {
    /// Whose request it is.
    pub owner: Owner,
    /// How events name the client: the name of its key, or a short mark. `None`: it needed no key.
    pub client: Option<Arc<str>>,
    /// The client, if its tokens are counted.
    pub payer: Option<Arc<dyn Payer>>,
    /// The model that the client requested.
    pub model: Arc<str>,
    /// Which exchange it is.
    pub exchange: ExchangeId,
}

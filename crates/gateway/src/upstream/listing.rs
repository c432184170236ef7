//! [`Listing`]: fetches an upstream's list of models.

use std::time::Duration;

use bytes::Bytes;
use http::Uri;

use super::{Get, GetError};
use toolwire_config::Upstream;

/// Timeout of the whole exchange.
const LIMIT: Duration = Duration::from_secs(5);

/// Maximum size of a list in bytes. The longest known lists are under 1 MiB.
const MAX_BODY: usize = 4 << 20;

/// A request for an upstream's list of models, ready to be sent.
#[derive(Debug)]
pub(crate) struct Listing {
    get: Get,
    address: Uri,
}

impl Listing {
    /// Prepares the request to `upstream`. `None` if its dialect has no list of models.
    ///
    /// # Errors
    /// If the configured key contains characters that a header must not contain, or the address is too long.
    pub(crate) fn new(upstream: &Upstream) -> Result<Option<Self>, http::Error> {
        let Some(address) = upstream.models_endpoint() else { return Ok(None) };
        Ok(Some(Self { get: Get::new(upstream, LIMIT, MAX_BODY)?, address: address? }))
    }

    /// Sends the request and returns the body of the response. Dropping the future aborts the exchange.
    ///
    /// # Errors
    /// The reason why there is no list.
    pub(crate) async fn fetch(&self) -> Result<Bytes, GetError> {
        self.get.fetch(self.address.clone()).await
    }
}

//! [`Listing`]: fetches an upstream's list of models.

use std::time::Duration;

use bytes::Bytes;
use http::Uri;

use super::{Get, GetError};
use toolwire_config::Upstream;

/// Timeout of an exchange.
const LIMIT: Duration = Duration::from_secs(5);

/// Maximum size of a list in bytes. The longest known lists are below 1 MiB.
const MAX_BODY: usize = 4 << 20;

/// A prepared request for an upstream's list of models.
#[derive(Debug)]
pub(crate) struct Listing {
    get: Get,
    address: Uri,
}

impl Listing {
    /// Prepares the request to `upstream`. `None` if its dialect has no list of models.
    ///
    /// # Errors
    /// If the configured key contains characters that are not allowed in a header, or if the address is too long.
    pub(crate) fn new(upstream: &Upstream) -> Result<Option<Self>, http::Error> {
        let Some(address) = upstream.models_endpoint() else { return Ok(None) };
        Ok(Some(Self { get: Get::new(upstream, LIMIT, MAX_BODY)?, address: address? }))
    }

    /// Fetches the list. Dropping the future aborts the exchange.
    ///
    /// # Errors
    /// If there is no list.
    pub(crate) async fn fetch(&self) -> Result<Bytes, GetError> {
        self.get.fetch(self.address.clone()).await
    }
}

//! [`Listing`]: fetches the list of an upstream's models.

use std::time::Duration;

use bytes::Bytes;
use http::Uri;

use super::{Get, GetError};
use toolwire_config::Upstream;

/// How long the whole exchange may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Bytes that a list may have. The longest known ones have less than one MiB.
const MAX_BODY: usize = 4 << 20;

/// A request for an upstream's models, ready to be sent.
#[derive(Debug)]
pub(crate) struct Listing {
    get: Get,
    address: Uri,
}

impl Listing {
    /// For `upstream`; `None` if its dialect has no list of models.
    ///
    /// # Errors
    /// If the configured key contains characters that no header may have, or the address is too long.
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

//! [`Extension`]: adds paths and exchange observers to a server. The admin API is an extension.
//!
//! ```text
//! program ─▶ Extension ─configured─▶ ConfiguredExtension (one for each configuration) ─▶ responses, ExchangeObserver
//! ```

use std::{fmt, io, net::IpAddr, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Response, request};
use hyper::body::Incoming;

use super::{
    auth::Keys,
    budget::Reservation,
    exchange_observer::{ExchangeBegin, ExchangeObserver},
    intake,
    reloads::Reloads,
    reply::ReplyBody,
    routes::ExtensionRoute,
    service::{Rest, Service},
};
pub use crate::observe::HeldMemory;
use crate::observe::{Access, Metrics};
use toolwire_config::{Changes, Config};
use toolwire_execution::{Audit, Execution, Observer};
use toolwire_pipeline::failure::Failure;

/// The part of an extension that lives as long as the server.
pub trait Extension: fmt::Debug + Send + Sync {
    /// Returns the observer of all events on the bus. Called once, when the bus is created.
    fn bus_observer(&self) -> Observer;

    /// Creates the extension for a configuration if the previous one did not enable it. `None` if this one does not
    /// enable it either.
    ///
    /// # Errors
    /// If the extension cannot start.
    fn configured(&self, parts: ServiceParts<'_>) -> io::Result<Option<Arc<dyn ConfiguredExtension>>>;
}

/// An extension under one configuration, shared by all threads.
pub trait ConfiguredExtension: fmt::Debug + Send + Sync {
    /// Creates the extension for the configuration that replaces this one. `None` if that configuration disables it.
    ///
    /// # Errors
    /// If the extension cannot start. This one then stays in use.
    fn renewed(&self, parts: ServiceParts<'_>) -> io::Result<Option<Arc<dyn ConfiguredExtension>>>;

    /// Called when another configuration has replaced this one. `changes` are the settings that differ.
    fn replaced(&self, changes: &Changes);

    /// Returns the route of a URL path. `None` if the path does not belong to the extension.
    fn route(&self, path: &str) -> Option<ExtensionRoute>;

    fn respond<'r>(&'r self, request: ExtensionRequest<'r>) -> Responding<'r>;

    /// Returns the memory that the extension holds.
    fn held(&self) -> HeldMemory {
        HeldMemory::new()
    }

    /// Returns an observer for an exchange that starts, or restarts with another model. `None` if it is not observed.
    fn observe(&self, begin: &ExchangeBegin<'_>) -> Option<Box<dyn ExchangeObserver>>;
}

/// The parts of a service that an extension may use.
#[derive(Debug, Clone, Copy)]
pub struct ServiceParts<'s> {
    pub config: &'s Arc<Config>,
    /// The stage that runs hosted tools, if there is one.
    pub execution: Option<&'s Arc<Execution>>,
    /// The event bus, if there may be subscribers.
    pub audit: Option<&'s Arc<Audit>>,
    pub keys: &'s Arc<Keys>,
    pub metrics: &'s Arc<Metrics>,
    pub reloads: &'s Reloads,
}

#[derive(Debug)]
pub struct ExtensionRequest<'r> {
    pub route: ExtensionRoute,
    pub service: &'r Arc<Service>,
    pub head: &'r request::Parts,
    pub peer: IpAddr,
    pub body: RequestBody<'r>,
    pub access: Access,
}

/// The body of a request. It does not have to be read.
#[derive(Debug)]
pub struct RequestBody<'r> {
    pub(super) body: Incoming,
    pub(super) rest: &'r mut Rest,
}

impl RequestBody<'_> {
    /// Reads the body, up to `max` bytes, or up to the configured limit.
    ///
    /// # Errors
    /// If the body is too long, too slow or incomplete, or if there is no memory for it.
    pub async fn read(
        self,
        service: &Service,
        headers: &HeaderMap,
        max: Option<usize>,
    ) -> Result<(Bytes, Reservation), Failure> {
        let read = intake::read(headers, self.body, service.bounds(max)).await?;
        *self.rest = Rest::None;
        Ok(read)
    }
}

pub type Responding<'r> = Pin<Box<dyn Future<Output = Response<ReplyBody>> + Send + 'r>>;

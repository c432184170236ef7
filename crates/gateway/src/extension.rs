//! [`Extension`]: what the program adds to a server: paths of its own, and observers of exchanges. The admin API is one.
//!
//! ```text
//! program ─▶ Extension ─configured─▶ ConfiguredExtension (one for each configuration) ─▶ responses, ExchangeObserver
//! ```

use std::{fmt, io, net::IpAddr, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{Response, request};
use hyper::body::Incoming;

use super::{
    auth::Keys,
    budget::Reservation,
    exchange_observer::{ExchangeBegin, ExchangeObserver},
    reloads::Reloads,
    reply::ReplyBody,
    routes::ExtensionRoute,
    service::{Rest, Service},
};
use crate::observe::{Access, Metrics};
use toolwire_config::{Changes, Config};
use toolwire_execution::{Audit, Execution, Observer};
use toolwire_pipeline::failure::Failure;

/// What lasts as long as the server.
pub trait Extension: fmt::Debug + Send + Sync {
    /// What gets everything that is published on the bus of events. Called when the bus begins, which happens once.
    fn bus_observer(&self) -> Observer;

    /// The extension for a configuration, if that has it and the one before did not.
    ///
    /// # Errors
    /// It cannot start.
    fn configured(&self, parts: ServiceParts<'_>) -> io::Result<Option<Arc<dyn ConfiguredExtension>>>;
}

/// An extension as one configuration has it. All threads share it.
pub trait ConfiguredExtension: fmt::Debug + Send + Sync {
    /// The extension for the configuration that replaces this one, if that has it.
    ///
    /// # Errors
    /// It cannot start. Then this one goes on.
    fn renewed(&self, parts: ServiceParts<'_>) -> io::Result<Option<Arc<dyn ConfiguredExtension>>>;

    /// The configuration was replaced by one with these `changes`.
    fn replaced(&self, changes: &Changes);

    /// The route of a URL's path, if the path is one of the extension's.
    fn route(&self, path: &str) -> Option<ExtensionRoute>;

    /// Responds to a request for one of its paths.
    fn respond<'r>(&'r self, request: ExtensionRequest<'r>) -> Responding<'r>;

    /// What observes an exchange that begins, or that begins again with another model. `None`: nothing does.
    fn observe(&self, begin: &ExchangeBegin<'_>) -> Option<Box<dyn ExchangeObserver>>;
}

/// The parts of a service that an extension is made of.
#[derive(Debug, Clone, Copy)]
pub struct ServiceParts<'s> {
    pub config: &'s Arc<Config>,
    /// The stage that runs hosted tools, if there is one.
    pub execution: Option<&'s Arc<Execution>>,
    /// The bus of events, if anyone may hear them.
    pub audit: Option<&'s Arc<Audit>>,
    pub keys: &'s Arc<Keys>,
    pub metrics: &'s Arc<Metrics>,
    pub reloads: &'s Reloads,
}

/// A request for a path of an extension.
#[derive(Debug)]
pub struct ExtensionRequest<'r> {
    pub route: ExtensionRoute,
    pub service: &'r Arc<Service>,
    pub head: &'r request::Parts,
    pub peer: IpAddr,
    pub body: RequestBody<'r>,
    pub access: Access,
}

/// The body of a request, which need not be read.
#[derive(Debug)]
pub struct RequestBody<'r> {
    pub(super) body: Incoming,
    pub(super) rest: &'r mut Rest,
}

impl RequestBody<'_> {
    /// Reads it, up to `max` bytes.
    ///
    /// # Errors
    /// It is too long, too slow or broken, or there is no memory for it.
    pub async fn read(
        self,
        service: &Service,
        head: &request::Parts,
        max: usize,
    ) -> Result<(Bytes, Reservation), Failure> {
        let read = service.read_body(&head.headers, self.body, max).await?;
        *self.rest = Rest::None;
        Ok(read)
    }
}

/// A response in the making.
pub type Responding<'r> = Pin<Box<dyn Future<Output = Response<ReplyBody>> + Send + 'r>>;

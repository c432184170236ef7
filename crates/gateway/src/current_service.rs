//! [`CurrentService`]: the service for a thread's new requests.

use std::sync::Arc;

use super::{drain::Drain, service::Service};
use parking_lot::RwLock;

/// A thread's service, which is replaced when the configuration is reloaded. Each request keeps the service that it
/// started with, so it ends under the same configuration.
#[derive(Debug)]
pub(super) struct CurrentService {
    service: RwLock<Arc<Service>>,
    drain: Arc<Drain>,
}

impl CurrentService {
    pub(super) fn new(service: Service) -> Self {
        let drain = Arc::clone(service.drain());
        Self { service: RwLock::new(Arc::new(service)), drain }
    }

    pub(super) fn get(&self) -> Arc<Service> {
        Arc::clone(&self.service.read())
    }

    pub(super) fn replace(&self, service: Service) {
        let mut current = self.service.write();
        let before = std::mem::replace(&mut *current, Arc::new(service));
        drop(current);
        // Unless a request still uses the old service, this closes the connections to upstreams that are no longer
        // configured.
        drop(before);
    }

    /// The state of the server's shutdown.
    pub(super) fn drain(&self) -> &Arc<Drain> {
        &self.drain
    }
}

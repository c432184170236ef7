//! [`CurrentService`]: the service that handles a thread's new requests.

use std::sync::Arc;

use super::{drain::Drain, service::Service};
use parking_lot::RwLock;

/// The service of a thread, which is replaced when the configuration is reloaded. A request takes the service once
/// and keeps it, so that it ends under the configuration with which it started.
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

    /// The current service.
    pub(super) fn get(&self) -> Arc<Service> {
        Arc::clone(&self.service.read())
    }

    /// Replaces the service.
    pub(super) fn replace(&self, service: Service) {
        let mut current = self.service.write();
        let before = std::mem::replace(&mut *current, Arc::new(service));
        drop(current);
        // Unless a request still uses the old service, connections to upstreams that are no longer configured are
        // closed now.
        drop(before);
    }

    /// The server's shutdown.
    pub(super) fn drain(&self) -> &Arc<Drain> {
        &self.drain
    }
}

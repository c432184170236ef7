//! [`CurrentService`]: what new requests of a thread are handled by.

use std::sync::{Arc, PoisonError, RwLock};

use super::{drain::Drain, service::Service};

/// The service of a thread, which is replaced when the configuration is loaded again. A request takes it once and keeps it, so
/// that it ends under the configuration under which it began.
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

    /// The service now.
    pub(super) fn get(&self) -> Arc<Service> {
        Arc::clone(&self.service.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the service.
    pub(super) fn replace(&self, service: Service) {
        let mut current = self.service.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *current, Arc::new(service));
        drop(current);
        // Unless a request has it, connections to upstreams that are no longer used are closed now.
        drop(before);
    }

    /// The server's shutdown.
    pub(super) fn drain(&self) -> &Arc<Drain> {
        &self.drain
    }
}

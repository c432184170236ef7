//! [`AdminApi`]: a server's admin API across all its configurations.

use std::{
    io,
    net::TcpListener,
    sync::{Arc, OnceLock, Weak},
};

use super::{
    Admin,
    bench::BenchPlace,
    exchange_log::{ExchangeLog, Observation},
    paths::{ADMIN, CONSOLE, CONSOLE_API, CONSOLE_BARE},
};
use parking_lot::Mutex;
use toolwire_config::{Changes, Config};
use toolwire_execution::Observer;
use toolwire_gateway::{
    Bench, ServeError, Server,
    exchange_observer::{ExchangeBegin, ExchangeObserver},
    extension::{ConfiguredExtension, Extension, ExtensionRequest, HeldMemory, Responding, ServiceParts},
    routes::{ExtensionRoute, ExtensionRouteKind},
    tap::Tap,
};

#[derive(Debug, Clone, Default)]
pub struct AdminApi {
    lasting: Arc<Lasting>,
}

/// State that survives changes of the configuration, even if a configuration in between has no admin API.
#[derive(Debug, Default)]
pub(super) struct Lasting {
    pub(super) bench: BenchPlace,
    /// The log of the most recent exchanges. Set once the event bus exists.
    exchanges: OnceLock<Arc<ExchangeLog>>,
    /// The API of the current configuration.
    newest: Mutex<Weak<Admin>>,
}

/// Creates a server with [`Server::bind_or_inherit`] that serves the admin API whenever its configuration has one.
///
/// # Errors
/// As for [`Server::bind_or_inherit`], or if the admin API cannot start.
pub fn bind(
    config: Arc<Config>,
    tap: Option<Arc<dyn Tap>>,
    inherited: Vec<TcpListener>,
) -> Result<(Server, AdminApi), ServeError> {
    let api = AdminApi::default();
    let server = Server::bind_extended(config, tap, inherited, Some(Arc::new(api.clone())))?;
    Ok((server, api))
}

impl AdminApi {
    /// Issues a one-time code that lets a browser sign in within two minutes. `None` if the configuration has no admin
    /// API, or if no key is needed.
    pub fn sign_in_code(&self) -> Option<String> {
        let newest = self.lasting.newest.lock().upgrade();
        newest?.issue_code()
    }

    /// Sets the bench with which the API can measure upstreams.
    pub fn offer_bench(&self, bench: Arc<dyn Bench>) {
        self.lasting.bench.offer(bench);
    }
}

impl Extension for AdminApi {
    fn bus_observer(&self) -> Observer {
        let exchanges = Arc::clone(self.lasting.exchanges());
        Box::new(move |record| exchanges.observe(record))
    }

    fn configured(&self, parts: ServiceParts<'_>) -> io::Result<Option<Arc<dyn ConfiguredExtension>>> {
        self.lasting.configured(parts, None)
    }
}

impl Lasting {
    pub(super) fn exchanges(&self) -> &Arc<ExchangeLog> {
        self.exchanges.get_or_init(|| Arc::new(ExchangeLog::new(0)))
    }

    /// Creates the API for a configuration. `before` is the API of the replaced configuration.
    fn configured(
        self: &Arc<Self>,
        parts: ServiceParts<'_>,
        before: Option<&Admin>,
    ) -> io::Result<Option<Arc<dyn ConfiguredExtension>>> {
        let kept = parts.config.admin.as_ref().map_or(0, |admin| admin.keep_exchanges);
        if let Some(exchanges) = self.exchanges.get() {
            exchanges.keep(kept);
        }
        let admin = Admin::new(parts, self, before)?.map(Arc::new);
        *self.newest.lock() = admin.as_ref().map(Arc::downgrade).unwrap_or_default();
        Ok(admin.map(|admin| admin as _))
    }
}

impl ConfiguredExtension for Admin {
    fn renewed(&self, parts: ServiceParts<'_>) -> io::Result<Option<Arc<dyn ConfiguredExtension>>> {
        self.lasting.configured(parts, Some(self))
    }

    fn replaced(&self, changes: &Changes) {
        if changes.touch("admin.api_keys") {
            self.end_readers();
        }
    }

    fn route(&self, path: &str) -> Option<ExtensionRoute> {
        if path.starts_with(ADMIN) || path.starts_with(CONSOLE_API) {
            return Some(ExtensionRoute { name: "admin", kind: ExtensionRouteKind::Api });
        }
        let is_page = path == CONSOLE_BARE || path.starts_with(CONSOLE);
        is_page.then_some(ExtensionRoute { name: "console", kind: ExtensionRouteKind::Page })
    }

    fn respond<'r>(&'r self, request: ExtensionRequest<'r>) -> Responding<'r> {
        Box::pin(self.serve(request))
    }

    fn held(&self) -> HeldMemory {
        vec![("exchange_contents", self.exchanges.captured_bytes())]
    }

    fn observe(&self, begin: &ExchangeBegin<'_>) -> Option<Box<dyn ExchangeObserver>> {
        let observation = Observation::begin(&self.exchanges, begin)?;
        Some(Box::new(observation))
    }
}

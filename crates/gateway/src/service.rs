//! [`Service`]: the state that requests share, and how a request is handled.

mod admission;
mod api;
mod assembly;
mod below_responses;
mod generate;
mod mcp;
mod opening;
mod own;
mod pass_through;
mod programs;
mod routing;
mod token_counts;
mod websocket;

use std::{
    collections::HashMap,
    convert::Infallible,
    future::poll_fn,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio_rustls::rustls::ServerConfig;

use super::{
    asking::NewestModels,
    auth::{Caller, Keys},
    budget::Budget,
    drain::Drain,
    extension::{ConfiguredExtension, Extension},
    failover::Failover,
    hops::KeptHops,
    images, intake,
    limits::{Account, Allowance, Limited, RequestDemand},
    missed_calls::MissedCalls,
    models::Models,
    reloads::Reloads,
    reply::{self, ReplyBody},
    stamp::unix_time,
    stored_responses::Responses,
    tap::Tap,
    tool_search,
    turn_states::TurnStates,
    upstream::Client,
    upstream_capabilities::UpstreamCapabilities,
};
use crate::observe::{Access, HeldMemory, Metrics};
use toolwire_config::{Changes, Config, Limits, Upstream};
use toolwire_execution::{Audit, Started, ask::Ask, files::ImageFiles, vision::Vision};
use toolwire_net::{
    redact::Redactor,
    store::{HeldBytes, Stores},
    telemetry::Tracer,
    tls::Certificates,
};
use toolwire_pipeline::{
    dialect::{self, ClientDialect, Made},
    failure::{Failure, Kind},
};

pub use self::own::{MadeResponse, OwnExchange};
pub(super) use self::websocket::Created;

/// Whether bytes of a request may still be unread. They must not be interpreted as the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    None,
    Unread,
}

/// Why a request does not get an upstream's response.
#[derive(Debug)]
enum Refused {
    Failure(Failure),
    /// The request exceeds a limit of its client.
    Limited(Box<Limited>),
    /// It asks for nothing of a model.
    Made(Made),
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl Refused {
    fn into_failure(self) -> Failure {
        match self {
            Self::Failure(failure) => failure,
            Self::Limited(limited) => limited.into_parts().0,
            Self::Made(_) => Failure::new(Kind::Request, "the request asks for no response of a model"),
        }
    }

    fn response(self, dialect: ClientDialect, access: Access) -> Response<ReplyBody> {
        match self {
            Self::Failure(failure) => reply::error(failure, dialect, access),
            Self::Limited(limited) => {
                let (failure, headers) = limited.into_parts();
                let mut response = reply::error(failure, dialect, access);
                response.headers_mut().extend(headers);
                response
            }
            Self::Made(Made { content_type, body }) => {
                reply::plain(StatusCode::OK, HeaderValue::from_static(content_type), body, access)
            }
        }
    }
}

/// Admits a request if its client's limits allow it. `None` if the caller has no name and therefore no limits.
async fn admit(
    caller: &Caller,
    demand: impl FnOnce(&Account) -> RequestDemand,
    dialect: ClientDialect,
) -> Result<Option<Box<Allowance>>, Refused> {
    let Some(account) = &caller.account else { return Ok(None) };
    let admitted = account.admit(demand(account), dialect, unix_time()).await;
    admitted.map(Some).map_err(Refused::Limited)
}

/// Adds the headers that show how much of a client's limits is left.
fn put_rates(allowance: Option<&Allowance>, headers: &mut HeaderMap) {
    if let Some(allowance) = allowance {
        allowance.put_headers(headers, unix_time());
    }
}

/// Clients by upstream name.
type Clients = HashMap<String, Arc<Client>>;

/// What handles the requests of a thread.
#[derive(Debug)]
pub struct Service {
    /// The clients of the upstreams, whose connections belong to this thread.
    clients: Clients,
    /// Sends toolwire's own questions to models, on this thread.
    asking: Arc<dyn Ask>,
    pub(super) shared: Arc<ServiceState>,
}

/// The part of a [`Service`] that all threads share.
#[derive(Debug)]
pub(super) struct ServiceState {
    pub(super) config: Arc<Config>,
    pub(super) keys: Arc<Keys>,
    models: Arc<Models>,
    capabilities: Arc<UpstreamCapabilities>,
    missed_calls: Arc<MissedCalls>,
    /// State for the models that may answer instead of another model.
    failover: Arc<Failover>,
    stored: StoredState,
    pub(super) hosting: Hosting,
    pub(super) monitors: Monitors,
    extensions: Extensions,
    drain: Arc<Drain>,
    /// Limits the memory for request bodies.
    budget: Arc<Budget>,
    reloads: Reloads,
    /// `None` if the listeners do not use TLS.
    pub(super) tls: Option<ListenersTls>,
}

/// State that outlives a request.
#[derive(Debug)]
struct StoredState {
    stores: Stores,
    responses: Responses,
    turns: Arc<TurnStates>,
    hops: Arc<KeptHops>,
}

/// What runs hosted tools and describes images.
#[derive(Debug)]
pub(super) struct Hosting {
    /// The stage that runs hosted tools, if it exists.
    pub(super) execution: Option<Arc<Started>>,
    /// The models that hosted tools ask, on the stage's thread.
    models: Option<Arc<NewestModels>>,
    /// Describes images for models that do not accept images.
    vision: Arc<Vision>,
}

impl Hosting {
    /// The folder for generated images, if there is one.
    pub(super) fn image_files(&self) -> Option<&Arc<ImageFiles>> {
        self.execution.as_ref()?.files()
    }
}

/// What records requests, and masks secrets in the records.
#[derive(Debug)]
pub(super) struct Monitors {
    pub(super) metrics: Arc<Metrics>,
    /// The bus of events, if there may be subscribers.
    pub(super) audit: Option<Arc<Audit>>,
    /// Records exchanges.
    pub(super) tap: Option<Arc<dyn Tap>>,
    /// Begins traces, if there is a collector.
    pub(super) tracer: Option<Arc<Tracer>>,
    redactor: Arc<Redactor>,
}

/// The program's extension of the server.
#[derive(Debug)]
struct Extensions {
    own: Option<Arc<dyn Extension>>,
    /// The extension in this configuration, if it is enabled.
    configured: Option<Arc<dyn ConfiguredExtension>>,
}

/// The TLS of the listeners.
#[derive(Debug, Clone)]
pub(super) struct ListenersTls {
    pub(super) certificates: Arc<Certificates>,
    pub(super) config: Arc<ServerConfig>,
}

impl ServiceState {
    /// Counts the memory that outlives requests, and the bodies of requests.
    fn held(&self) -> HeldMemory {
        let StoredState { stores, responses, turns, hops } = &self.stored;
        let execution = self.hosting.execution.as_ref();
        let of_stages = execution.map(|stage| stage.held_by_store()).unwrap_or_default();
        let of_stores = [stores.held(), responses.held(), turns.held_by_store(), self.keys.held(), of_stages];
        let HeldBytes { values, pages } = of_stores.into_iter().sum();
        let mut held = vec![
            ("request_bodies", self.budget.taken()),
            ("store_values", values),
            ("store_pages", pages),
            ("turn_states", turns.bytes()),
            ("kept_hops", hops.bytes()),
            ("tool_results", execution.map_or(0, |stage| stage.cached_bytes())),
            ("figures", self.monitors.metrics.figures().bytes()),
            ("tool_indexes", tool_search::bytes_of_indexes()),
        ];
        held.extend(self.extensions.configured.iter().flat_map(|extension| extension.held()));
        held
    }
}

impl Service {
    /// The server's shutdown.
    pub fn drain(&self) -> &Arc<Drain> {
        &self.shared.drain
    }

    /// The redactor, which masks secrets.
    pub fn redactor(&self) -> &Redactor {
        &self.shared.monitors.redactor
    }

    /// The configured limits.
    pub fn limits(&self) -> &Limits {
        &self.shared.config.limits
    }

    /// Records the addresses on which the server listens, for links to generated images.
    pub(super) fn listens_on(&self, addresses: &[SocketAddr]) {
        let files = self.shared.hosting.image_files();
        if let (Some(files), Some(address)) = (files, addresses.first()) {
            files.reached_at(&images::base_url(self.shared.config.scheme(), *address));
        }
    }

    pub(super) fn execution(&self) -> Option<&Arc<Started>> {
        self.shared.hosting.execution.as_ref()
    }

    /// Returns the names of the hosted tools, and of the providers whose tools are not known yet.
    pub(super) fn hosted_tools(&self) -> (Vec<String>, Vec<String>) {
        self.shared
            .hosting
            .execution
            .as_ref()
            .map(|execution| execution.registry().names())
            .unwrap_or_default()
    }

    /// Must be called when a service with these `changes` has replaced this one.
    pub(super) fn replaced(&self, changes: &Changes) {
        if let Some(extension) = &self.shared.extensions.configured {
            extension.replaced(changes);
        }
    }

    /// Whether a request waits for a slot at an upstream.
    pub(super) fn is_waited_for(&self) -> bool {
        self.clients.values().any(|client| client.queue().is_waited_in())
    }

    /// Maximum time for which a client may read nothing while others wait for a slot at an upstream.
    pub(super) fn patience(&self) -> Duration {
        let patience = self.clients.values().map(|client| client.queue().patience()).min();
        patience.unwrap_or(self.limits().write_timeout)
    }

    /// Closes connections to upstreams that have been idle for too long.
    pub(super) fn sweep(&self) {
        self.clients.values().for_each(|client| client.sweep());
    }

    pub(super) async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: IpAddr,
    ) -> Result<Response<ReplyBody>, Infallible> {
        Ok(match self.begin(request, peer).await {
            Ok(mut answer) => {
                let committed = poll_fn(|cx| answer.as_mut().poll_commit(cx)).await;
                let (head, answer) = reply::answer(answer, committed);
                Response::from_parts(head, ReplyBody::AnswerBody(answer))
            }
            Err(response) => response,
        })
    }

    /// The limits for a request's body; see [`intake::Bounds`].
    pub(super) fn bounds(&self, own_max: Option<usize>) -> intake::Bounds<'_> {
        intake::Bounds {
            limits: &self.shared.config.limits,
            own_max,
            budget: &self.shared.budget,
            drain: &self.shared.drain,
        }
    }

    /// Returns the session of the client's own account, if the request contains one and an upstream accepts such
    /// sessions.
    fn session(&self, headers: &HeaderMap) -> Option<HeaderMap> {
        self.shared.config.takes_sessions().then(|| dialect::brought(headers)).flatten()
    }

    /// Returns the client of an upstream.
    ///
    /// # Errors
    /// Never fails for a configured upstream.
    fn client(&self, upstream: &Upstream) -> Result<&Arc<Client>, Failure> {
        let missing = || format!("there is no client for upstream `{}`", upstream.name);
        self.clients.get(&upstream.name).ok_or_else(|| Failure::new(Kind::Internal, missing()))
    }
}

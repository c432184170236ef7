//! The lifecycle of a server: starts it, lists its tools, watches it, and restarts it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use http::Uri;
use rmcp::{
    RoleClient, ServiceError,
    model::{ProtocolVersion, SubscriptionFilter},
    service::{
        ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, RunningService,
    },
    transport::{
        Transport,
        streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig},
    },
};
use secrecy::SecretString;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{
    Options, Protocol, Server,
    client_side::ClientSide,
    fault::{self, ServerFault},
    guard::Guard,
    http::HttpServer,
    http_sse::HttpSse,
    prompts,
    stdio::Stdio,
    tools::{self, ToolList},
};
use crate::{Host, Verdict, http::HttpClient, provider::ProviderState};

/// Initial and maximum delay between attempts to start a server.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Interval between requests for the list of tools: the minimum, and the maximum for servers that state how long a list
/// is valid.
const REFRESH: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(24 * 60 * 60));

/// Time limit for a server to end.
const CLOSE: Duration = Duration::from_secs(5);

/// How long a server may take to open a stream of the older transport.
const OLDER: Duration = Duration::from_secs(10);

/// How long a server may take to list its prompts.
const PROMPTS: Duration = Duration::from_secs(10);

/// Delay between attempts to subscribe to changes.
const RESUBSCRIBE: Duration = Duration::from_secs(60);

pub(super) type Connection = RunningService<RoleClient, ClientSide>;

impl Server {
    /// Keeps the server running. Never returns.
    pub(super) async fn supervise(self: Arc<Self>) {
        let Some(host) = self.host.get() else { return };
        let mut pause = BACKOFF.0;
        loop {
            let begin = Instant::now();
            let limit = self.options.start_timeout;
            let (state, reason) = match timeout(limit, self.connect(&host.http, &self.options)).await {
                Ok(Ok((connection, list))) => {
                    self.list_prompts(connection.peer()).await;
                    self.is_ready(host, connection.peer().clone(), list);
                    (ProviderState::Restarting, self.watch(host, connection).await)
                }
                Ok(Err(fault @ ServerFault::NeedsLogin(_))) if self.wants_person() => {
                    (ProviderState::NeedsLogin, self.plain(&fault.to_string()))
                }
                Ok(Err(fault)) => (ProviderState::Failed, self.plain(&fault.to_string())),
                Err(_) => (ProviderState::Failed, format!("it was not ready after {limit:?}")),
            };
            self.is_away(host, state, &reason);
            if begin.elapsed() >= BACKOFF.1 {
                pause = BACKOFF.0;
            }
            tokio::select! {
                () = sleep(pause) => pause = (pause * 2).min(BACKOFF.1),
                () = self.restarted.notified() => pause = BACKOFF.0,
                () = self.logged_in(), if state == ProviderState::NeedsLogin => pause = BACKOFF.0,
            }
        }
    }

    fn wants_person(&self) -> bool {
        self.account.as_ref().is_some_and(|account| account.wants_person())
    }

    /// Waits until there is another login.
    async fn logged_in(&self) {
        match &self.account {
            Some(account) => account.changed().await,
            None => std::future::pending().await,
        }
    }

    /// Tests whether the provider can be used. For a server with a URL, `key` replaces the configured key.
    pub(super) async fn tested(&self, key: Option<&SecretString>) -> Verdict {
        let Some(host) = self.host.get() else { return Verdict::Unreachable };
        let limit = self.options.start_timeout;
        let listed = match self.options.url.is_some() {
            true => {
                let api_key = key.cloned().or_else(|| self.options.api_key.clone());
                let options = Options { api_key, ..self.options.clone() };
                timeout(limit, self.connect(&host.http, &options))
                    .await
                    .map(|connected| connected.map(|_| ()))
            }
            false => match self.state(|state| state.peer.clone()) {
                Some(peer) => {
                    let listed = timeout(limit, tools::list(&peer, &self.name, &self.options)).await;
                    listed.map(|listed| listed.map(|_| ()).map_err(ServerFault::Lost))
                }
                None => return Verdict::Unreachable,
            },
        };
        match listed {
            Ok(Ok(())) => Verdict::Valid,
            Ok(Err(fault)) if fault.is_refusal() => Verdict::Invalid,
            Ok(Err(_)) | Err(_) => Verdict::Unreachable,
        }
    }

    /// Starts or connects to the server, and lists its tools.
    pub(super) async fn connect(&self, http: &HttpClient, options: &Options) -> Result<(Connection, ToolList), ServerFault> {
        let connection = match &options.url {
            Some(url) => self.connect_to(url, http, options).await?,
            None => {
                let program = Stdio::start(&options.program, options.max_output, Arc::clone(&self.stderr));
                let transport = program.map_err(|error| ServerFault::not_started(&options.program, error))?;
                self.serve(transport, options.protocol).await.map_err(ServerFault::connect)?
            }
        };
        // The list is only requested when it may have changed, so a cache would be useless.
        connection.peer().set_response_cache_config(ClientCacheConfig::disabled()).await;
        let list = tools::list(connection.peer(), &self.name, options).await;
        Ok((connection, list.map_err(ServerFault::List)?))
    }

    /// Connects to a server with a URL. If it does not accept the first message, it may know only the older transport.
    async fn connect_to(
        &self,
        url: &Uri,
        http: &HttpClient,
        options: &Options,
    ) -> Result<Connection, ServerFault> {
        let (key, account) = (options.api_key.as_ref(), self.account.clone());
        let server = HttpServer::new(http.clone(), key, &options.headers, account, options.max_output);
        let mut config = StreamableHttpClientTransportConfig::with_uri(url.to_string());
        config.max_sse_event_size = options.max_output;
        config.max_json_response_size = options.max_output;
        let transport = StreamableHttpClientTransport::with_client(server.clone(), config);
        let error = match self.serve(transport, options.protocol).await {
            Ok(connection) => return Ok(connection),
            Err(error) => error,
        };
        if options.protocol != Protocol::Discover
            && fault::status(&error).is_some_and(|status| status.is_client_error())
            && let Ok(Ok(transport)) = timeout(OLDER, HttpSse::connect(server, url)).await
        {
            tracing::info!(provider = %self.name, "the MCP server uses the transport of 2024-11-05 (HTTP with SSE)");
            return self.serve(transport, Protocol::Initialize).await.map_err(ServerFault::connect);
        }
        let need = self.account.as_ref().and_then(|account| account.need());
        Err(ServerFault::not_connected(error, options, need))
    }

    /// Begins the connection over `transport`.
    async fn serve<T>(&self, transport: T, protocol: Protocol) -> Result<Connection, ClientInitializeError>
    where
        T: Transport<RoleClient> + 'static,
    {
        let handler = ClientSide::new(Arc::clone(&self.changed), Arc::clone(&self.people));
        let preferred_versions = vec![ProtocolVersion::LATEST];
        let legacy_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        let mode = match protocol {
            Protocol::Auto => {
                ClientLifecycleMode::Auto { preferred_versions, legacy_version: Some(legacy_version) }
            }
            Protocol::Initialize => ClientLifecycleMode::Initialize,
            Protocol::Discover => ClientLifecycleMode::Discover { preferred_versions },
        };
        handler.serve_with_lifecycle(Guard::new(transport, self.reported.clone()), mode).await
    }

    fn is_ready(&self, host: &Host, peer: Peer<RoleClient>, list: ToolList) {
        let info = peer.peer_info();
        let version = info.as_ref().map(|info| info.protocol_version.to_string()).unwrap_or_default();
        let words = info.as_ref().and_then(|info| info.instructions.as_deref());
        let words = words.filter(|_| self.options.instructions);
        let words = words.map(|words| tools::instructions(&host.redacted(words)));
        tracing::info!(provider = %self.name, tools = list.specs.len(), version, "the MCP server is ready");
        let count = list.specs.len();
        self.state(|state| {
            state.status.state = ProviderState::Ready;
            state.status.reason = None;
            state.peer = Some(peer);
            state.instructions = words.filter(|words| !words.is_empty()).map(Arc::from);
            state.tools = list.specs;
            state.task_tools = list.task_tools;
            state.has_resource_tool = list.has_resource_tool;
            state.expiry = expiry(list.ttl);
        });
        host.tools_changed();
        host.state_changed(ProviderState::Ready.name(), count);
    }

    /// Records that the server has ended or could not be started. Its tools are withdrawn only if a restart fails too.
    /// A reason is logged once, however often a restart fails for it.
    fn is_away(&self, host: &Host, now: ProviderState, reason: &str) {
        let (count, earlier) = self.state(|state| {
            state.status.state = now;
            let earlier = state.status.reason.replace(reason.to_owned());
            state.peer = None;
            if now != ProviderState::Restarting {
                state.tools.clear();
                state.prompts.clear();
            }
            (state.tools.len(), earlier)
        });
        if earlier.as_deref() == Some(reason) {
            tracing::debug!(provider = %self.name, reason, "the MCP server is still not available");
        } else {
            tracing::warn!(provider = %self.name, reason, "the MCP server is not available");
        }
        host.tools_changed();
        host.state_changed(now.name(), count);
    }

    /// Keeps the list of tools up to date until the server is gone. Returns the reason.
    async fn watch(&self, host: &Host, connection: Connection) -> String {
        let peer = connection.peer().clone();
        let stop = connection.cancellation_token();
        let mut waiting = Box::pin(connection.waiting());
        let mut subscribed = Box::pin(self.subscribe(&peer));
        let mut listed = Instant::now();
        let reason = loop {
            let expiry = self.state(|state| state.expiry);
            tokio::select! {
                _ = &mut waiting => return "it has ended".to_owned(),
                () = self.restarted.notified() => break "a restart was requested".to_owned(),
                () = &mut subscribed => {}
                () = self.changed.notified() => {}
                () = self.suspected.notified() => {}
                () = sleep_until(expiry.unwrap_or(listed)), if expiry.is_some() => {}
            }
            tokio::select! {
                _ = &mut waiting => return "it has ended".to_owned(),
                () = self.restarted.notified() => break "a restart was requested".to_owned(),
                () = sleep_until(listed + REFRESH.0) => {}
            }
            if let Err(fault) = self.refresh(host, &peer).await {
                break self.plain(&fault.to_string());
            }
            listed = Instant::now();
        };
        stop.cancel();
        let _ = timeout(CLOSE, waiting).await;
        reason
    }

    /// Lists the tools again.
    ///
    /// # Errors
    /// Says why the server is probably gone.
    async fn refresh(&self, host: &Host, peer: &Peer<RoleClient>) -> Result<(), ServerFault> {
        let limit = self.options.start_timeout;
        match timeout(limit, tools::list(peer, &self.name, &self.options)).await {
            Ok(Ok(list)) => {
                let has_changed = self.state(|state| {
                    state.expiry = expiry(list.ttl);
                    let has_changed = !tools::are_equal(&state.tools, &list.specs);
                    state.tools = list.specs;
                    state.task_tools = list.task_tools;
                    state.has_resource_tool = list.has_resource_tool;
                    has_changed
                });
                if has_changed {
                    host.tools_changed();
                }
                self.list_prompts(peer).await;
                Ok(())
            }
            Ok(Err(error @ (ServiceError::TransportClosed | ServiceError::TransportSend(_)))) => {
                Err(ServerFault::Lost(error))
            }
            // Silence is only a fault while no call is running: a server may handle one request at a time.
            Err(_) if self.running.load(Ordering::Relaxed) == 0 => {
                Err(ServerFault::Silent(limit))
            }
            Ok(Err(_)) | Err(_) => {
                self.state(|state| state.expiry = expiry(Some(limit)));
                Ok(())
            }
        }
    }

    /// Lists the prompts. If the server does not answer, the earlier list stays.
    async fn list_prompts(&self, peer: &Peer<RoleClient>) {
        match timeout(PROMPTS, prompts::list(peer)).await {
            Ok(Ok(prompts)) => self.state(|state| state.prompts = prompts),
            Ok(Err(error)) => {
                let error = self.plain(&error.to_string());
                tracing::debug!(provider = %self.name, error, "the prompts cannot be listed");
            }
            Err(_) => tracing::debug!(provider = %self.name, "the prompts are not listed in time"),
        }
    }

    /// Subscribes to changes of the lists, for protocol versions without a handshake. Never returns.
    async fn subscribe(&self, peer: &Peer<RoleClient>) {
        let info = peer.peer_info().filter(|info| !info.protocol_version.has_initialize());
        let Some(info) = info else { return std::future::pending().await };
        let tools = info.capabilities.tools.as_ref().and_then(|tools| tools.list_changed);
        let prompts = info.capabilities.prompts.as_ref().and_then(|prompts| prompts.list_changed);
        let mut filter = SubscriptionFilter::builder();
        if tools == Some(true) {
            filter = filter.tools_list_changed();
        }
        if prompts == Some(true) {
            filter = filter.prompts_list_changed();
        }
        if tools != Some(true) && prompts != Some(true) {
            return std::future::pending().await;
        }
        let filter = filter.build();
        loop {
            if let Ok(Ok(mut subscription)) = timeout(self.options.start_timeout, peer.listen(filter.clone())).await {
                while let Ok(Some(_)) = subscription.next().await {
                    self.changed.notify_one();
                }
            }
            sleep(RESUBSCRIBE).await;
        }
    }
}

/// When a list must be requested again.
fn expiry(ttl: Option<Duration>) -> Option<Instant> {
    ttl.map(|ttl| Instant::now() + ttl.clamp(REFRESH.0, REFRESH.1))
}

//! The admin API at `/admin/`: access control, queries and changes. See docs/admin.md.
//!
//! ```text
//! request ─▶ access (host, key or session, CSRF) ─▶ path ─▶ tools, providers, permissions, settings, sessions, figures
//!                                                        └▶ feed ◀─ the stage's events
//! ```
//!
//! The API exists only if the configuration has a table `[admin]`. All errors have the same JSON form, and no response
//! has CORS headers.

#![allow(
    missing_docs,
    rustdoc::private_intra_doc_links,
    reason = "a part of toolwire, which is not meant for other programs: its documentation is read in the source"
)]

mod access;
mod analysis;
mod bench;
mod code;
mod console;
mod error;
mod exchange_log;
mod exchanges;
mod extension;
mod feed;
mod figures;
mod formats;
mod keys;
mod logins;
mod page;
mod path;
mod paths;
mod permissions;
mod playground;
mod prompts;
mod reload;
mod sample;
mod serving;
mod session_feed;
mod sessions;
mod settings;
mod tar;
mod tools;

use std::{io, net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header, request};
use serde_json::{Value, json};

use self::{
    access::{Access as Door, SessionMark, Visitor},
    error::AdminError,
    exchange_log::ExchangeLog,
    extension::Lasting,
    feed::Feed,
    figures::StreamsFeed,
    path::AdminPath,
    playground::{Chat, Chats},
    session_feed::SessionFeed,
    settings::SavedSettings,
};
pub use self::{
    extension::{AdminApi, bind},
    formats::found_format,
};
use toolwire_config::Config;
use toolwire_execution::{Audit, Execution, Runtime};
use toolwire_gateway::{
    auth::Keys,
    drain::SignalFuture,
    extension::ServiceParts,
    feed_body::{FeedBody, FeedSource},
    observe::{Access, List, Metrics, Outcome},
    reloads::{ReloadReason, Reloads},
    reply::{self, ReplyBody},
    stamp::unix_time,
};
use toolwire_net::redact::Redactor;
use toolwire_pipeline::format::KnownFormats;

/// Maximum size of a request's body in bytes.
const MAX_BODY: usize = 1 << 20;

/// Maximum number of changed settings that a log line lists.
const MAX_LOGGED: usize = 20;

/// The admin API for one configuration, shared by all threads.
#[derive(Debug)]
struct Admin {
    settings: Arc<SavedSettings>,
    door: Door,
    /// `None` if no hosted tools are configured.
    execution: Option<Arc<Execution>>,
    audit: Arc<Audit>,
    exchanges: Arc<ExchangeLog>,
    formats: Arc<KnownFormats>,
    keys: Arc<Keys>,
    /// The runtime on which the feed's events are collected.
    runtime: Arc<Runtime>,
    feed: Arc<Feed>,
    config: Arc<Config>,
    /// State that survives changes of the configuration.
    lasting: Arc<Lasting>,
    chats: Arc<Chats>,
    metrics: Arc<Metrics>,
    reloads: Reloads,
}

/// An admitted request, as described by its head.
#[derive(Debug)]
struct Admitted {
    path: AdminPath,
    visitor: Visitor,
}

impl Admitted {
    fn has_body(&self, method: &Method) -> bool {
        matches!(*method, Method::POST | Method::PUT | Method::PATCH)
    }

    fn begins_chat(&self) -> bool {
        self.path == AdminPath::Chat
    }

    fn is_sample(&self) -> bool {
        self.path == AdminPath::Sample
    }

    fn lists_models(&self) -> bool {
        self.path == AdminPath::Models
    }

    fn attaches_chat(&self) -> bool {
        matches!(self.path, AdminPath::OneChat(_))
    }

    /// Whether the response may repeat text from tools or servers. Secrets in such text are not masked yet.
    fn repeats_others(&self) -> bool {
        matches!(self.path, AdminPath::Tools | AdminPath::Bench | AdminPath::Models)
    }

    fn mark(&self) -> SessionMark {
        self.visitor.mark()
    }
}

/// A response before it is serialized.
#[derive(Debug)]
struct AdminResponse {
    status: StatusCode,
    body: Option<Value>,
    /// A body that is not JSON.
    file: Bytes,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl AdminResponse {
    fn json(body: Value) -> Self {
        Self { status: StatusCode::OK, body: Some(body), file: Bytes::new(), headers: Vec::new() }
    }

    fn nothing() -> Self {
        Self { status: StatusCode::NO_CONTENT, body: None, file: Bytes::new(), headers: Vec::new() }
    }

    /// 200 with a file to be saved under `name`.
    fn file(name: &str, kind: &'static str, file: Bytes) -> Self {
        Self { status: StatusCode::OK, file, ..Self::nothing() }
            .with(header::CONTENT_TYPE, kind)
            .with(header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\""))
    }

    fn event_stream() -> Self {
        let headers = vec![(header::CONTENT_TYPE, reply::EVENT_STREAM)];
        Self { status: StatusCode::OK, body: None, file: Bytes::new(), headers }
    }

    /// Masks the secrets known to `redactor` in the JSON body.
    fn covered(mut self, redactor: &Redactor) -> Self {
        self.body.iter_mut().for_each(|body| redactor.cover_json(body));
        self
    }

    fn with(mut self, name: HeaderName, value: impl AsRef<str>) -> Self {
        if let Ok(value) = HeaderValue::from_str(value.as_ref()) {
            self.headers.push((name, value));
        }
        self
    }
}

impl Admin {
    /// Creates the API for a configuration, if it has one. `before` is the API of the replaced configuration, whose
    /// sessions and event readers continue.
    ///
    /// # Errors
    /// If the thread for the event feed cannot be created.
    fn new(
        parts: ServiceParts<'_>,
        lasting: &Arc<Lasting>,
        before: Option<&Self>,
    ) -> io::Result<Option<Self>> {
        let ServiceParts { config, execution, audit, keys, metrics, reloads } = parts;
        let (Some(settings), Some(audit)) = (&config.admin, audit) else { return Ok(None) };
        audit.capture(settings.capture != toolwire_config::Capture::Off);
        let settings = Arc::clone(settings);
        let (saved, door, runtime, feed, chats) = match before {
            Some(before) => {
                before.settings.reloaded(config);
                let door = before.door.with_settings(settings);
                let (saved, runtime) = (Arc::clone(&before.settings), Arc::clone(&before.runtime));
                (saved, door, runtime, Arc::clone(&before.feed), Arc::clone(&before.chats))
            }
            None => {
                let (saved, door) = (Arc::new(SavedSettings::new(config)), Door::new(settings, config));
                (saved, door, Arc::new(Runtime::start()?), Arc::default(), Arc::default())
            }
        };
        Ok(Some(Self {
            settings: saved,
            door,
            execution: execution.cloned(),
            audit: Arc::clone(audit),
            exchanges: Arc::clone(lasting.exchanges()),
            formats: Arc::clone(&config.formats),
            keys: Arc::clone(keys),
            runtime,
            feed,
            config: Arc::clone(config),
            lasting: Arc::clone(lasting),
            chats,
            metrics: Arc::clone(metrics),
            reloads: reloads.clone(),
        }))
    }

    /// Issues a one-time code that lets a browser sign in. `None` if no key is needed.
    fn issue_code(&self) -> Option<String> {
        self.door.issue_code()
    }

    /// Checks whether this peer may send requests to this host name without a key.
    ///
    /// # Errors
    /// 403 if not. Never fails if keys are configured.
    fn check_host(&self, head: &request::Parts, peer: IpAddr) -> Result<(), AdminError> {
        self.door.check_host(head, peer)
    }

    /// Checks the head of a request. `Ok(Err(_))` is a response that needs no body.
    ///
    /// # Errors
    /// Returns the error response if the request is refused.
    fn admit(
        &self,
        head: &request::Parts,
        path: &str,
        peer: IpAddr,
    ) -> Result<Result<Admitted, &'static str>, AdminError> {
        self.door.check_host(head, peer)?;
        let path = AdminPath::find(path).ok_or_else(AdminError::not_found)?;
        if head.method == Method::OPTIONS {
            return Ok(Err(path.methods()));
        }
        if !path.allows(&head.method) {
            return Err(AdminError::method(&head.method, path.methods()));
        }
        let visitor = if path.is_sign_in(&head.method) {
            self.door.check_sign_in(head, peer)?;
            Visitor::Anonymous
        } else {
            self.door.visitor(head, peer, path == AdminPath::Session && head.method == Method::GET)?
        };
        Ok(Ok(Admitted { path, visitor }))
    }

    fn end_readers(&self) {
        self.feed.end_readers();
    }

    fn chats(&self) -> &Arc<Chats> {
        &self.chats
    }

    /// Returns the event source for a console connection that reads `chat`. It ends when all event streams are closed,
    /// or with the visitor's session.
    fn reading(&self, chat: &Arc<Chat>, admitted: &Admitted) -> Box<dyn FeedSource> {
        self.while_signed_in(admitted, Box::new(self.feed.ending(chat.reader())))
    }

    /// Opens the event stream that the request asks for, if it asks for one.
    fn events(&self, admitted: &Admitted, head: &request::Parts) -> Option<Box<dyn FeedSource>> {
        let headers = &head.headers;
        let source: Box<dyn FeedSource> = match &admitted.path {
            _ if head.method != Method::GET => return None,
            AdminPath::Events => {
                let bus = (&*self.audit, &*self.runtime, &self.metrics);
                Box::new(self.feed.open(Some(bus), headers.get("last-event-id")))
            }
            AdminPath::Streams if figures::wants_events(headers) => {
                Box::new(self.feed.ending(StreamsFeed::new(&self.metrics)))
            }
            AdminPath::OneChat(id) => {
                return Some(self.reading(&self.chats.find(id, admitted.mark()).ok()?, admitted));
            }
            AdminPath::ExchangeEvents(id) => {
                Box::new(self.feed.ending(exchanges::follow(&self.exchanges, id)?))
            }
            _ => return None,
        };
        Some(self.while_signed_in(admitted, source))
    }

    /// Makes `source` end with the visitor's session, if there is one.
    fn while_signed_in(&self, admitted: &Admitted, source: Box<dyn FeedSource>) -> Box<dyn FeedSource> {
        match admitted.mark() {
            Some(token) => Box::new(SessionFeed::new(&self.door, token, source)),
            None => source,
        }
    }

    /// Answers an admitted request.
    ///
    /// # Errors
    /// Returns the error response if the request fails.
    async fn answer(
        &self,
        admitted: Admitted,
        head: &request::Parts,
        body: Bytes,
        peer: IpAddr,
    ) -> Result<AdminResponse, AdminError> {
        let Admitted { path, visitor } = admitted;
        let method = &head.method;
        match path {
            AdminPath::Session => match *method {
                Method::POST => self.door.sign_in(&body, peer),
                Method::DELETE => Ok(self.door.sign_out(&visitor)),
                _ => Ok(self.door.state(&visitor)),
            },
            // Only HEAD requests get here.
            AdminPath::Events => Ok(AdminResponse::event_stream()),
            AdminPath::OneChat(id) if *method == Method::DELETE => {
                self.chats.stop(&id, visitor.mark()).map(|()| AdminResponse::nothing())
            }
            AdminPath::OneChat(id) => {
                self.chats.find(&id, visitor.mark()).map(|_| AdminResponse::event_stream())
            }
            // Answered elsewhere, with the state that all requests share.
            AdminPath::Chat | AdminPath::Sample | AdminPath::Models => Err(AdminError::not_found()),
            AdminPath::Exchanges => exchanges::list(&self.exchanges, head.uri.query()).await,
            AdminPath::Exchange(id) => exchanges::one(&self.exchanges, &id),
            AdminPath::ExchangeEvents(id) => exchanges::events(&self.exchanges, &id).await,
            AdminPath::ExchangeFixture(id) => exchanges::fixture(&self.exchanges, &id).await,
            AdminPath::ExchangeRequests(id) => exchanges::requests(&self.exchanges, &id).await,
            AdminPath::ReadExchange(id) => exchanges::read_again(&self.exchanges, &id, &body).await,
            AdminPath::Formats => Ok(AdminResponse::json(formats::list(&self.formats))),
            AdminPath::Analyze => formats::analyze(&self.formats, body).await,
            AdminPath::Teach => formats::teach(&self.formats, &body),
            AdminPath::Tools => {
                Ok(AdminResponse::json(tools::list(self.execution.as_deref(), &self.metrics)))
            }
            AdminPath::Tool(name) => tools::switch(self.execution()?, &name, &body),
            AdminPath::RunTool(name) => tools::run(self.execution()?, &name, &body).await,
            AdminPath::Call(exchange, id) => tools::cancel(self.execution()?, &exchange, &id),
            AdminPath::TestProvider(name) => tools::test(self.execution()?, &name, &body).await,
            AdminPath::RestartProvider(name) => tools::restart(self.execution()?, &name),
            AdminPath::ProviderLog(name) => tools::log(self.execution()?, &name),
            AdminPath::Login(name) => logins::change(self.execution()?, &name, head, &body).await,
            AdminPath::LoginResponse => logins::finish(self.execution()?, &body).await,
            AdminPath::Prompts => Ok(AdminResponse::json(prompts::list(self.execution.as_deref()))),
            AdminPath::Prompt(provider, prompt) => {
                prompts::fill(self.execution()?, &provider, prompt, &body).await
            }
            AdminPath::Permissions => {
                Ok(AdminResponse::json(permissions::list(self.execution.as_deref()).await))
            }
            AdminPath::AutoApprove => permissions::auto_approve(self.execution()?, &body).await,
            AdminPath::AllowAll => permissions::allow_all(self.execution()?).await,
            AdminPath::Rule(id) => permissions::revoke(self.execution()?, &id).await,
            AdminPath::Question(id) => permissions::answer(self.execution()?, &id, &body).await,
            AdminPath::ExtendQuestion(id) => permissions::extend(self.execution()?, &id),
            AdminPath::Reload if *method == Method::POST => reload::reload(&self.reloads).await,
            AdminPath::Reload => Ok(reload::status(&self.reloads)),
            AdminPath::Metrics => figures::window(&self.metrics, head),
            AdminPath::Bench => match *method {
                Method::POST => self.lasting.bench.begin(&self.config, &object(&body)?),
                Method::DELETE => self.lasting.bench.stop(),
                _ => self.lasting.bench.state(),
            },
            AdminPath::Streams => Ok(AdminResponse::json(figures::streams(&self.metrics))),
            AdminPath::Keys => Ok(AdminResponse::json(keys::list(&self.keys, unix_time()))),
            AdminPath::Settings if *method == Method::PATCH => {
                let patch = settings::Change::Patch(object(&body)?);
                self.change_settings(patch, &head.headers, peer).await
            }
            AdminPath::Settings if *method == Method::DELETE => {
                self.change_settings(settings::Change::ResetAll, &head.headers, peer).await
            }
            AdminPath::Settings => Ok(self.settings.list()),
            AdminPath::Setting(setting) => {
                self.change_settings(settings::Change::Reset(setting), &head.headers, peer).await
            }
        }
    }

    /// Saves changed settings on a thread that may block on the disk, and reloads the configuration.
    async fn change_settings(
        &self,
        change: settings::Change,
        headers: &HeaderMap,
        peer: IpAddr,
    ) -> Result<AdminResponse, AdminError> {
        let (settings, condition) = (Arc::clone(&self.settings), settings::condition(headers)?);
        let changing = tokio::task::spawn_blocking(move || settings.change(&change, condition.as_deref()));
        let changed = changing.await.map_err(|_| {
            AdminError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the change was not made")
        })?;
        let paths = changed?;
        log_saved(peer, &paths);
        // A failed reload is logged, and the response says that the settings are not in use yet.
        let _ = self.reloads.reload(ReloadReason::SettingsSaved).await;
        Ok(self.settings.changed(&paths))
    }

    fn execution(&self) -> Result<&Arc<Execution>, AdminError> {
        self.execution.as_ref().ok_or_else(|| {
            AdminError::new(
                StatusCode::NOT_FOUND,
                "no_hosted_tools",
                "the configuration has no table [execution]",
            )
        })
    }
}

fn log_saved(peer: IpAddr, paths: &[String]) {
    let listed = List(paths.iter().take(MAX_LOGGED).cloned().collect());
    let listed: &(dyn std::error::Error + 'static) = &listed;
    tracing::info!(%peer, count = paths.len(), paths = listed, "settings were saved over the admin API");
}

fn response(result: Result<AdminResponse, AdminError>, access: Access) -> Response<ReplyBody> {
    let mut response = match result {
        Ok(AdminResponse { status, body, file, headers }) => {
            let is_json = body.is_some();
            let bytes = body.map_or(file, |body| body.to_string().into());
            let mut response = reply::said(status, bytes, Outcome::Done, access);
            if is_json {
                put_json(response.headers_mut());
            }
            for (name, value) in headers {
                response.headers_mut().append(name, value);
            }
            response
        }
        Err(error) => {
            let text = error.json().to_string();
            let mut response =
                reply::said(error.status(), text.into(), Outcome::Failed(error.failure()), access);
            put_json(response.headers_mut());
            error.put_headers(response.headers_mut());
            response
        }
    };
    put_headers(response.headers_mut());
    response
}

/// Returns an event stream that ends when `stopped` becomes ready.
fn event_stream(
    events: Box<dyn FeedSource>,
    keep_alive: Duration,
    stopped: SignalFuture,
    access: Access,
) -> Response<ReplyBody> {
    let mut response = reply::feed(FeedBody::new(events, keep_alive, stopped, access));
    put_headers(response.headers_mut());
    response
}

fn options(methods: &'static str, access: Access) -> Response<ReplyBody> {
    let mut response = reply::options(methods, access);
    put_headers(response.headers_mut());
    response
}

fn put_json(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
}

/// Forbids caching, content sniffing, and use by pages of other origins.
fn put_headers(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store, no-transform"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Parses a JSON object. An empty body is an empty object.
fn object(body: &[u8]) -> Result<serde_json::Map<String, Value>, AdminError> {
    if body.is_empty() {
        return Ok(serde_json::Map::new());
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(AdminError::invalid("the body is a JSON object", None)),
        Err(error) => Err(AdminError::invalid(format!("the body is not JSON: {error}"), None)),
    }
}

fn switch_of(object: &serde_json::Map<String, Value>, key: &'static str) -> Result<Option<bool>, AdminError> {
    match object.get(key) {
        None => Ok(None),
        Some(Value::Bool(switch)) => Ok(Some(*switch)),
        Some(_) => Err(AdminError::invalid(format!("`{key}` is `true` or `false`"), Some(key))),
    }
}

fn required_switch(object: &serde_json::Map<String, Value>, key: &'static str) -> Result<bool, AdminError> {
    switch_of(object, key)?.ok_or_else(|| AdminError::invalid(format!("`{key}` is missing"), Some(key)))
}

fn ok() -> AdminResponse {
    AdminResponse::json(json!({"ok": true}))
}

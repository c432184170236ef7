//! `kind = "http"`: programs that register at run time and run tools.
//!
//! ```text
//! program ─POST /v1/providers─▶ Registrations ─tools─▶ the registry
//!                                   │ a call
//!          callback URL ◀─POST──────┤
//!          event stream ◀───────────┘   (GET /v1/providers/{id}/calls; the program posts the result)
//! ```
//!
//! A registration is a lease, which the program must renew. The configured keys determine who may register
//! ([`credentials`]), and [`description`] determines what may be registered. A registration cannot replace the tools of
//! another one. For the protocol, see docs/tools.md#programs-that-register.

mod calls;
mod credentials;
mod description;
mod ready;
mod registration;
mod result;

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use secrecy::SecretString;
use tokio::{
    sync::{Notify, mpsc, watch},
    time::{Instant, sleep_until},
};

pub use self::{
    calls::CallStream,
    credentials::{KeyNumber, ShownRequest},
};
use self::{
    calls::{Callback, Waiting},
    credentials::Credentials,
    description::Description,
    registration::{Registration, offer_free, remove_expired},
};
use crate::{
    ErrorCode, Host, Invocation, Output, Provider, Running, ToolError, ToolSpec, address::AddressRules,
    http::HttpClient, providers::Fault,
};
use toolwire_pipeline::{
    failure::{Failure, Kind},
    settings::Settings,
};

/// The settings.
#[derive(Debug, Clone, Settings)]
pub struct Options {
    /// secrets, one of which a program needs to register
    #[setting(required)]
    keys: Vec<SecretString>,
    /// URLs that toolwire calls at its start, so that programs register again
    #[setting(file_only)]
    ready_callbacks: Vec<String>,
    /// allow callback URLs on this machine and in private networks
    #[setting(file_only)]
    allow_private: bool,
    /// how long a registration lasts unless it is renewed
    #[setting(default = Duration::from_secs(60))]
    lease: Duration,
    /// how long a call may take
    #[setting(default = Duration::from_secs(60))]
    timeout: Duration,
    /// registrations of one key
    #[setting(default = 16)]
    max_registrations: usize,
    /// tools of one registration
    #[setting(default = 64)]
    max_tools: usize,
    /// the answer to a call; with a larger one, it fails
    #[setting(default = 1 << 20, size)]
    max_result: usize,
}

impl Options {
    /// Checks the settings.
    pub(super) fn check(&self) -> Result<(), Fault> {
        match self.keys.is_empty() {
            true => Err(Fault::new("keys", "`keys` is missing: the secrets with which programs register")),
            false => Ok(()),
        }
    }

    /// A pattern for the names of the provider's tools.
    pub(super) fn offers(&self, _: &str) -> Vec<String> {
        vec!["*".to_owned()]
    }

    pub(super) fn build(&self, host: &Host) -> Result<Arc<dyn Provider>, Fault> {
        Ok(Arc::new(Registrations::new(self.clone(), host.clone())))
    }
}

#[derive(Debug)]
pub struct Registrations {
    options: Options,
    host: Host,
    credentials: Credentials,
    rules: AddressRules,
    /// For requests to the programs' callback URLs.
    http: HttpClient,
    /// By the ids that the programs have chosen.
    entries: Mutex<HashMap<String, Registration>>,
    /// Notified when the expiry of a lease has changed.
    leases_changed: Notify,
}

/// Result of registering.
#[derive(Debug, PartialEq)]
pub struct Registered {
    /// How long the registration is valid.
    pub lease: Duration,
    /// Names of tools that are not offered, because other programs have tools of these names.
    pub refused: Vec<String>,
    /// Names of tools that are offered, unless the registry leaves them out because other providers have tools of these
    /// names.
    pub accepted: Vec<String>,
}

impl Registrations {
    fn new(options: Options, host: Host) -> Self {
        let credentials = Credentials::new(options.keys.clone());
        let rules = AddressRules { allow_private: options.allow_private, ..AddressRules::default() };
        let http = host.http.guarded(rules.clone());
        Self {
            options,
            host,
            credentials,
            rules,
            http,
            entries: Mutex::default(),
            leases_changed: Notify::new(),
        }
    }

    pub fn name(&self) -> &str {
        &self.host.name
    }

    /// Finds the key that authenticates a request.
    ///
    /// # Errors
    /// [`Kind::Unauthorized`], or [`Kind::RateLimit`] if there are too many signed requests.
    pub fn authorize(&self, request: &ShownRequest<'_>) -> Result<KeyNumber, Failure> {
        self.credentials.check(request)
    }

    /// Registers a program. Renews and replaces its existing registration.
    ///
    /// # Errors
    /// What is wrong with `body`, or which limit is exceeded.
    pub fn register(&self, key: KeyNumber, body: &[u8]) -> Result<Registered, Failure> {
        let Options { max_tools, timeout, .. } = self.options;
        let Description { id, label, callback, tools } =
            Description::parse(body, &self.rules, max_tools, timeout)?;
        let mut entries = self.entries.lock();
        let now = Instant::now();
        remove_expired(&mut entries, now);
        match entries.get(&id) {
            Some(existing) if existing.owner != key => return Err(taken(&id)),
            Some(_) => {}
            None => {
                let own = entries.values().filter(|entry| entry.owner == key).count();
                if own >= self.options.max_registrations {
                    return Err(too_many(self.options.max_registrations));
                }
            }
        }
        let others: Vec<_> =
            entries.iter().filter(|(other, _)| **other != id).map(|(_, entry)| entry).collect();
        let is_taken = |tool: &Arc<ToolSpec>| others.iter().any(|other| other.has(&tool.name));
        let (taken, tools): (Vec<_>, Vec<_>) = tools.into_iter().partition(is_taken);
        let refused: Vec<_> = taken.iter().map(|tool| tool.name.clone()).collect();
        let accepted = tools.iter().map(|tool| tool.name.clone()).collect();
        let expires = now + self.options.lease;
        let is_same = match entries.get_mut(&id) {
            Some(entry) => {
                let is_same = entry.offers(&tools);
                if !is_same {
                    tracing::warn!(provider = %self.host.name, id, "a registration replaces the one before it");
                }
                (entry.label, entry.callback, entry.expires) = (label, callback, expires);
                (entry.tools, entry.refused) = (tools, taken);
                is_same
            }
            None => {
                tracing::info!(provider = %self.host.name, id, tools = tools.len(), "a program has registered");
                let (waiting, alive) = (HashMap::new(), watch::channel(()).0);
                let registration = Registration {
                    owner: key,
                    label,
                    callback,
                    tools,
                    refused: taken,
                    expires,
                    stream: None,
                    waiting,
                    alive,
                };
                entries.insert(id.clone(), registration);
                false
            }
        };
        offer_free(&mut entries);
        drop(entries);
        if !refused.is_empty() {
            tracing::warn!(provider = %self.host.name, id, tools = refused.join(", "), "other programs offer tools of these names");
        }
        self.leases_changed.notify_one();
        if !is_same {
            self.host.tools_changed();
        }
        Ok(Registered { lease: self.options.lease, refused, accepted })
    }

    /// Renews a registration. Returns the duration of its lease.
    ///
    /// # Errors
    /// [`Kind::NotFound`]
    pub fn renew(&self, key: KeyNumber, id: &str) -> Result<Duration, Failure> {
        self.with(key, id, |entry| entry.expires = Instant::now() + self.options.lease)?;
        Ok(self.options.lease)
    }

    /// Removes a registration and its tools. Running calls fail.
    ///
    /// # Errors
    /// [`Kind::NotFound`]
    pub fn remove(&self, key: KeyNumber, id: &str) -> Result<(), Failure> {
        self.with(key, id, |_| ())?;
        let mut entries = self.entries.lock();
        entries.remove(id);
        offer_free(&mut entries);
        drop(entries);
        tracing::info!(provider = %self.host.name, id, "a program has unregistered");
        self.host.tools_changed();
        Ok(())
    }

    /// Removes all registrations and closes their streams.
    pub(crate) fn end_all(&self) {
        self.entries.lock().clear();
    }

    /// Opens the stream of calls to a program. It replaces any earlier stream.
    ///
    /// # Errors
    /// [`Kind::NotFound`]
    pub fn connect(self: &Arc<Self>, key: KeyNumber, id: &str) -> Result<CallStream, Failure> {
        let (sender, calls) = mpsc::channel(calls::MAX_WAITING);
        self.with(key, id, |entry| entry.stream = Some(sender))?;
        Ok(CallStream::new(Arc::clone(self), id.to_owned(), calls))
    }

    /// Accepts the result of a call that was sent on a stream.
    ///
    /// # Errors
    /// [`Kind::NotFound`] if no such call is waiting for a result, or [`Kind::TooLarge`].
    pub fn answer(&self, key: KeyNumber, id: &str, call: &str, body: &[u8]) -> Result<(), Failure> {
        if body.len() > self.options.max_result {
            let message = format!("the result is larger than {} bytes (max_result)", self.options.max_result);
            return Err(Failure::new(Kind::TooLarge, message));
        }
        let waiting = self.with(key, id, |entry| entry.waiting.remove(call))?;
        let waiting =
            waiting.ok_or_else(|| Failure::new(Kind::NotFound, "no such call waits for a result"))?;
        // An error means that the call has been cancelled.
        let _ = waiting.send(result::parse(body));
        Ok(())
    }

    /// Lists the registrations with their id, label, and number of tools.
    pub fn list(&self) -> Vec<(String, String, usize)> {
        let entries = self.entries.lock();
        let mut list: Vec<_> =
            entries.iter().map(|(id, entry)| (id.clone(), entry.label.clone(), entry.tools.len())).collect();
        list.sort();
        list
    }

    /// Calls `act` with the registration `id`, if it was made with this key.
    fn with<T>(
        &self,
        key: KeyNumber,
        id: &str,
        act: impl FnOnce(&mut Registration) -> T,
    ) -> Result<T, Failure> {
        let (mut entries, now) = (self.entries.lock(), Instant::now());
        let entry = entries.get_mut(id).filter(|entry| entry.owner == key && !entry.is_expired(now));
        let acted = entry.map(act).ok_or_else(|| {
            Failure::new(Kind::NotFound, "there is no such registration; register again").with_param("id")
        });
        drop(entries);
        self.leases_changed.notify_one();
        acted
    }

    /// Removes expired registrations until the provider is dropped.
    async fn expire(self: Arc<Self>) {
        loop {
            let now = Instant::now();
            let (removed, next) = {
                let mut entries = self.entries.lock();
                let removed = remove_expired(&mut entries, now);
                (removed, entries.values().filter_map(Registration::ends).min())
            };
            if !removed.is_empty() {
                let ids = removed.join(", ");
                tracing::warn!(provider = %self.host.name, ids, "registrations were not renewed");
                self.host.tools_changed();
            }
            let changed = self.leases_changed.notified();
            match next {
                Some(end) => {
                    tokio::select! {
                        () = sleep_until(end) => {}
                        () = changed => {}
                    }
                }
                None => changed.await,
            }
        }
    }

    /// Runs a call on the program that offers the tool.
    async fn call(&self, call: &Invocation) -> Result<Output, ToolError> {
        let gone = || ToolError::new(ErrorCode::ProviderError, "The program that runs the tool is gone.");
        let (way, mut alive) = {
            let mut entries = self.entries.lock();
            let now = Instant::now();
            let mut offering =
                entries.iter_mut().filter(|(_, entry)| !entry.is_expired(now) && entry.has(&call.tool));
            let (id, entry) = offering.next().ok_or_else(gone)?;
            let alive = entry.alive.subscribe();
            (self.way(id, entry, call)?, alive)
        };
        let answered = async {
            match way {
                Way::Stream(waiting) => waiting.result().await.unwrap_or_else(|| Err(gone())),
                Way::Callback(callback, owner) => {
                    let key = self.credentials.secret(owner);
                    callback.ask(&self.http, key, call, self.options.max_result).await
                }
            }
        };
        tokio::select! {
            biased;
            answer = answered => answer,
            // The value never changes, so this only ends when the registration is dropped.
            _ = alive.changed() => Err(gone()),
        }
    }

    /// Determines how to deliver a call to its program.
    fn way(
        &self,
        id: &str,
        entry: &mut Registration,
        call: &Invocation,
    ) -> Result<Way<'_>, ToolError> {
        if let Some(stream) = entry.stream.clone().filter(|stream| !stream.is_closed()) {
            let waiting = calls::send(entry, stream, call)?;
            return Ok(Way::Stream(Waiting::new(self, id.to_owned(), waiting)));
        }
        let Some(callback) = entry.callback.clone() else {
            let message = "The program that runs the tool is not connected.";
            return Err(ToolError::new(ErrorCode::ProviderError, message));
        };
        Ok(Way::Callback(callback, entry.owner))
    }
}

/// How to deliver a call to its program.
enum Way<'r> {
    Stream(Waiting<'r>),
    Callback(Callback, KeyNumber),
}

impl Provider for Registrations {
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        let entries = self.entries.lock();
        let now = Instant::now();
        let mut entries: Vec<_> = entries.iter().filter(|(_, entry)| !entry.is_expired(now)).collect();
        entries.sort_by_key(|(id, _)| *id);
        entries.into_iter().flat_map(|(_, entry)| entry.tools.iter().cloned()).collect()
    }

    fn run<'a>(&'a self, call: &'a Invocation) -> Running<'a> {
        Box::pin(self.call(call))
    }

    fn start(self: Arc<Self>, host: &Host) {
        for url in self.options.ready_callbacks.clone() {
            let (http, key) = (host.http.clone(), self.credentials.first().clone());
            host.spawn(async move { ready::announce(&http, &key, &url).await });
        }
        host.spawn(self.expire());
    }

    fn yields(&self) -> bool {
        true
    }

    fn registrations(self: Arc<Self>) -> Option<Arc<Registrations>> {
        Some(self)
    }
}

fn taken(id: &str) -> Failure {
    let message = format!("another program has registered as `{id}`");
    Failure::new(Kind::Request, message).with_status(409).with_code("id_taken").with_param("id")
}

fn too_many(limit: usize) -> Failure {
    let message =
        format!("{limit} programs have registered with this key, which is the most (max_registrations)");
    Failure::new(Kind::RateLimit, message).with_code("too_many_registrations")
}

//! [`PerKey`]: a server at which each client key has a login of its own.
//!
//! ```text
//! a request with a key ─▶ of_key ─▶ logged in:  Server, with the key's own connection, tokens and tools
//!                                └▶ otherwise:  Absent, which has no tools and says what to run
//! ```
//!
//! Nothing that one login shows reaches another key. A connection is made when its key is used, so a key that was
//! removed has none.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    future::ready,
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use super::{Options, Server, failed};
use crate::{
    ErrorCode, Host, Invocation, Provider, Running, Status, ToolError, ToolSpec,
    oauth::{Account, LoginState},
    provider::ProviderState,
};

/// Maximum number of connections to one server. Beyond it, the one that was not used for the longest time is closed.
const MAX_CONNECTIONS: usize = 64;

/// Maximum number of accounts in memory. Beyond it, those without a connection are forgotten.
const MAX_ACCOUNTS: usize = 1024;

/// How long a connection stays open without requests of its key.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// Interval between searches for idle connections.
const SWEEP: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct PerKey {
    options: Options,
    /// Has no login itself.
    account: Arc<Account>,
    host: OnceLock<Host>,
    max_connections: usize,
    keys: Mutex<Keys>,
}

/// By the names of the keys.
#[derive(Debug, Default)]
struct Keys {
    accounts: HashMap<String, Arc<Account>>,
    connected: BTreeMap<String, Connected>,
    /// Keys without a login that were logged. At most [`MAX_ACCOUNTS`].
    absent: HashSet<String>,
}

#[derive(Debug)]
struct Connected {
    server: Arc<Server>,
    used: Instant,
    /// The connection is closed when this is dropped.
    _open: oneshot::Sender<()>,
}

impl Connected {
    /// Whether no request holds the server: only this and its task do.
    fn is_unused(&self) -> bool {
        Arc::strong_count(&self.server) <= 2
    }
}

impl PerKey {
    pub(super) fn new(options: Options, account: Arc<Account>) -> Self {
        let (host, keys) = (OnceLock::new(), Mutex::default());
        Self { options, account, host, max_connections: MAX_CONNECTIONS, keys }
    }

    fn account_of(&self, key: &str) -> Arc<Account> {
        let accounts = &mut self.keys.lock().accounts;
        if let Some(account) = accounts.get(key) {
            return Arc::clone(account);
        }
        if accounts.len() >= MAX_ACCOUNTS {
            accounts.retain(|_, account| Arc::strong_count(account) > 1);
        }
        let account = self.account.of_key(key);
        accounts.insert(key.to_owned(), Arc::clone(&account));
        account
    }

    /// The server over the connection of `key`, which is made if there is none. `None` if there are too many.
    fn connected(&self, key: &str, account: Arc<Account>) -> Option<Arc<Server>> {
        let host = self.host.get()?;
        let keys = &mut *self.keys.lock();
        let connected = &mut keys.connected;
        if let Some(own) = connected.get_mut(key) {
            own.used = Instant::now();
            return Some(Arc::clone(&own.server));
        }
        if connected.len() >= self.max_connections {
            let unused = connected.iter().filter(|(_, own)| own.is_unused());
            let oldest = unused.min_by_key(|(_, own)| own.used).map(|(key, _)| key.clone())?;
            connected.remove(&oldest);
        }
        let server = Arc::new(Server::new(self.options.clone(), Arc::clone(&host.name), Some(account)));
        server.begin(host);
        let (open, closed) = oneshot::channel();
        let work = Arc::clone(&server).supervise();
        host.spawn(async move {
            tokio::select! {
                () = work => {}
                _ = closed => {}
            }
        });
        let own = Connected { server: Arc::clone(&server), used: Instant::now(), _open: open };
        connected.insert(key.to_owned(), own);
        keys.absent.remove(key);
        Some(server)
    }

    /// Logs once that a key has used the server without a login.
    fn log_absent(&self, key: &str, reason: &str) {
        let absent = &mut self.keys.lock().absent;
        if absent.len() < MAX_ACCOUNTS && absent.insert(key.to_owned()) {
            tracing::warn!(provider = self.account.name(), key, reason, "a client key gets no tools of an MCP server");
        }
    }

    /// Closes the connections that no request uses and those without a login. Never returns.
    async fn sweep(self: Arc<Self>) {
        loop {
            sleep(SWEEP).await;
            self.close_unused(IDLE);
        }
    }

    fn close_unused(&self, idle: Duration) {
        let is_logged_in = |own: &Connected| {
            let account = own.server.account.as_ref();
            account.is_some_and(|account| matches!(account.state(), LoginState::LoggedIn { .. }))
        };
        let connected = &mut self.keys.lock().connected;
        connected.retain(|_, own| !own.is_unused() || (own.used.elapsed() < idle && is_logged_in(own)));
    }

    fn servers(&self) -> Vec<Arc<Server>> {
        self.keys.lock().connected.values().map(|own| Arc::clone(&own.server)).collect()
    }
}

impl Provider for PerKey {
    /// The tools of all connections, for people. Requests get those of [`Provider::of_key`].
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        let mut seen = HashSet::new();
        let tools = self.servers().into_iter().flat_map(|server| server.tools());
        tools.filter(|spec| seen.insert(spec.name.clone())).collect()
    }

    fn run<'a>(&'a self, _call: &'a Invocation) -> Running<'a> {
        Box::pin(ready(Err(Absent::without_key(self.account.name()).error())))
    }

    /// That of the connection which works best.
    fn status(&self) -> Status {
        let mut all: Vec<_> = self.servers().iter().map(|server| server.status()).collect();
        let ready = all.iter().position(|status| status.state == ProviderState::Ready);
        match ready {
            Some(place) => all.swap_remove(place),
            None => all.pop().unwrap_or_default(),
        }
    }

    fn restart(&self) -> bool {
        self.servers().iter().for_each(|server| _ = server.restart());
        true
    }

    fn account(&self, key: Option<&str>) -> Option<Arc<Account>> {
        Some(key.map_or_else(|| Arc::clone(&self.account), |key| self.account_of(key)))
    }

    fn accounts(&self) -> Vec<Arc<Account>> {
        self.keys.lock().accounts.values().cloned().collect()
    }

    fn of_key(&self, key: Option<&str>) -> Option<Arc<dyn Provider>> {
        let Some(key) = key else { return Some(Arc::new(Absent::without_key(self.account.name()))) };
        let account = self.account_of(key);
        if let (LoginState::LoggedOut { .. }, Some(reason)) = (account.state(), account.refusal_of_key()) {
            self.log_absent(key, &reason);
            return Some(Arc::new(Absent(ProviderState::NeedsLogin, reason)));
        }
        match self.connected(key, account) {
            Some(server) => Some(server),
            None => {
                let reason = "Too many keys use the server of the tool at the moment.".to_owned();
                Some(Arc::new(Absent(ProviderState::Failed, reason)))
            }
        }
    }

    fn start(self: Arc<Self>, host: &Host) {
        if self.host.set(host.clone()).is_ok() {
            host.spawn(self.sweep());
        }
    }
}

/// The server for a client that cannot use it: why not.
#[derive(Debug)]
struct Absent(ProviderState, String);

impl Absent {
    fn without_key(server: &str) -> Self {
        let own = "each client key has a login of its own: send a key that has a name.";
        let reason = format!("At the server `{server}`, {own}");
        Self(ProviderState::NeedsLogin, reason)
    }

    fn error(&self) -> ToolError {
        let Self(state, reason) = self;
        match state {
            ProviderState::NeedsLogin => ToolError::new(ErrorCode::AuthFailed, reason.clone()),
            _ => failed(reason),
        }
    }
}

impl Provider for Absent {
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        Vec::new()
    }

    fn run<'a>(&'a self, _call: &'a Invocation) -> Running<'a> {
        Box::pin(ready(Err(self.error())))
    }

    fn status(&self) -> Status {
        let Self(state, reason) = self;
        Status { state: *state, reason: Some(reason.clone()), ..Status::default() }
    }
}

#[cfg(test)]
mod tests;

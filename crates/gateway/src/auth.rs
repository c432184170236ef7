//! [`Keys`]: identifies clients by the keys in their requests.
//!
//! Keys are looked up by digest, so the duration of a lookup reveals nothing about valid keys. Keys come from the
//! configuration and from the file that `toolwire keys` writes, which is checked every few seconds.

mod watch;

use std::{borrow::Cow, collections::HashMap, io, net::IpAddr, sync::Arc};

use http::{HeaderMap, HeaderValue, header};
use parking_lot::{Mutex, RwLock, RwLockWriteGuard};
use secrecy::ExposeSecret;

use self::watch::Watch;
use super::{
    attempt_throttle::WrongKeys,
    limits::{Account, Ledger},
    permits::Claimant,
};
use toolwire_config::{
    ClientKey, Config, KeyDigest, KeyFile,
    client_keys::{owner_of_name, settled},
    is_mistyped,
    percent::percent_decoded,
};
use toolwire_execution::{ask::Payer, key_mark};
use toolwire_net::store::{HeldBytes, Owner};
use toolwire_pipeline::{
    dialect::{UID_HEADER, parameter},
    failure::{Failure, Kind},
};

/// Headers that may contain a bare key, in addition to `Authorization: Bearer`.
const KEY_HEADERS: [&str; 3] = ["x-api-key", "api-key", "x-goog-api-key"];

/// Adds the key in the parameter `name` of `query` to the headers, as if it had been sent there.
pub(super) fn with_key_of_query<'h>(
    headers: &'h HeaderMap,
    query: Option<&str>,
    name: Option<&str>,
) -> Cow<'h, HeaderMap> {
    let key = query.zip(name).and_then(|(query, name)| percent_decoded(parameter(query, name)?));
    let Some(mut key) = key.and_then(|key| HeaderValue::try_from(key).ok()) else {
        return Cow::Borrowed(headers);
    };
    key.set_sensitive(true);
    let mut headers = headers.clone();
    headers.append("x-api-key", key);
    Cow::Owned(headers)
}

/// The sender of a request. If no keys are needed, all clients are the same caller.
#[derive(Debug, Clone, Default)]
pub(super) struct Caller {
    /// Owner of the stored values that the caller may read, derived from its name, or from its key if it has no name.
    pub(super) owner: Owner,
    /// `None` for a key without a name.
    pub(super) account: Option<Arc<Account>>,
    /// The address from which the request came, if there is a request.
    pub(super) peer: Option<IpAddr>,
}

impl Caller {
    /// The claimant for slots at an upstream.
    pub(super) fn claimant(&self) -> Claimant {
        match self.peer {
            _ if self.owner != Owner::default() => Claimant::Key(self.owner),
            Some(peer) => Claimant::Peer(peer),
            None => Claimant::Own,
        }
    }

    /// Identifies the caller in events: its name, or a short fingerprint from which the key cannot be guessed. `None`
    /// if the caller needs no key.
    pub(super) fn label(&self) -> Option<String> {
        let name = self.account.as_ref().map(|account| account.name().to_string());
        name.or_else(|| key_mark(self.owner))
    }

    /// The account to which tokens are charged, if the caller has a name.
    pub(super) fn payer(&self) -> Option<Arc<dyn Payer>> {
        self.account.clone().map(|account| account as _)
    }

    /// Checks that the caller may request `model`, whether or not the model exists.
    ///
    /// # Errors
    /// [`Kind::Forbidden`]
    pub(super) fn check_model(&self, model: &str) -> Result<(), Failure> {
        match &self.account {
            Some(account) if !account.grant().allows(model) => {
                let message = format!(
                    "the key of `{}` may not use this model; GET /v1/models lists those that it may use",
                    account.name()
                );
                Err(Failure::new(Kind::Forbidden, message).with_param("model"))
            }
            _ => Ok(()),
        }
    }
}

/// The keys that are valid at a given time.
#[derive(Debug, Default)]
struct KeyRing(HashMap<KeyDigest, Holder>);

#[derive(Debug)]
struct Holder {
    caller: Caller,
    expires: Option<u64>,
    is_revoked: bool,
}

#[derive(Debug)]
pub struct Keys {
    shared: Arc<Shared>,
    wrong: WrongKeys,
    _watch: Option<Watch>,
}

#[derive(Debug)]
struct Shared {
    ledger: Ledger,
    file: Option<Mutex<KeyFile>>,
    entries: Mutex<Entries>,
    /// The valid keys. `None` if no key is needed. A change to the file never makes it `None`.
    ring: RwLock<Option<Arc<KeyRing>>>,
}

/// Where the valid keys come from.
#[derive(Debug)]
struct Entries {
    config: Arc<Config>,
    saved: Vec<ClientKey>,
}

impl Keys {
    /// Loads the keys from `config` and from the file in its `state_dir`. `now` is a Unix time in seconds.
    ///
    /// # Errors
    /// If the thread that checks the file cannot be created.
    pub(super) fn new(config: &Arc<Config>, ledger: Ledger, now: u64) -> io::Result<Self> {
        let folder = config.state_dir.clone();
        let shared = Arc::new(Shared {
            entries: Mutex::new(Entries { config: Arc::clone(config), saved: Vec::new() }),
            ledger,
            file: folder.as_deref().map(|folder| Mutex::new(KeyFile::in_folder(folder))),
            ring: RwLock::default(),
        });
        match shared.file {
            Some(_) => _ = shared.refresh(now),
            None => shared.changed(|_| (), now),
        }
        let watch = shared.file.is_some().then(|| Watch::start(Arc::clone(&shared))).transpose()?;
        Ok(Self { shared, wrong: WrongKeys::new("clients"), _watch: watch })
    }

    /// Replaces the keys with those in `config` and in the file.
    pub(super) fn reloaded(&self, config: &Arc<Config>, now: u64) {
        self.shared.changed(|entries| entries.config = Arc::clone(config), now);
        let entries = self.shared.entries.lock();
        if entries.config.api_keys.is_empty() && entries.config.keys.is_empty() && entries.saved.is_empty() {
            // Without keys, the configuration allows only loopback addresses.
            *self.shared.ring() = None;
        }
    }

    pub(super) fn are_not_needed(&self) -> bool {
        self.shared.ring.read().is_none()
    }

    /// Identifies the sender of a request by its headers. `now` is a Unix time in seconds. If no keys are configured,
    /// all senders are accepted.
    ///
    /// `session` is the client's own session at an upstream, if it sends one. The session uses the header
    /// `Authorization`, so the key must be in another header. Stored values then belong to the session rather than to
    /// the key.
    ///
    /// # Errors
    /// [`Kind::Unauthorized`]; [`Kind::Request`] if there are two different keys.
    pub(super) fn identify(
        &self,
        headers: &HeaderMap,
        session: Option<&HeaderMap>,
        now: u64,
    ) -> Result<Caller, Failure> {
        let ring = self.shared.ring.read().clone();
        let caller = match ring {
            Some(ring) => ring.identify(shown_key(headers, session.is_none())?, now)?,
            None => Caller::default(),
        };
        Ok(match session {
            Some(session) => Caller { owner: owner_of_session(session), ..caller },
            None => caller,
        })
    }

    /// Counts a wrong key, if a request from `peer` contains one. `may_be_bearer` is true if `Authorization` may
    /// contain the key.
    ///
    /// # Errors
    /// If there were too many wrong keys, returns how many seconds to wait.
    pub(super) fn count_wrong(
        &self,
        headers: &HeaderMap,
        may_be_bearer: bool,
        peer: IpAddr,
    ) -> Result<(), u64> {
        match shown_key(headers, may_be_bearer) {
            Ok(Some(key)) => self.wrong.count(key, peer),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// Resets the count of wrong keys for `peer`, which has sent a valid key.
    pub(super) fn forget_wrong(&self, peer: IpAddr) {
        self.wrong.forget(peer);
    }

    /// Returns toolwire itself as a caller with the client name `name`. If a key has this name, its limits apply. `now`
    /// is a Unix time in seconds.
    pub(super) fn own(&self, name: &str, now: u64) -> Caller {
        let entries = self.shared.entries.lock();
        let Entries { config, saved } = &*entries;
        let grant = config.keys.iter().chain(saved).find(|key| key.name == name).map(|key| key.grant.clone());
        drop(entries);
        let account = self.shared.ledger.account(name, &grant.unwrap_or_default(), now);
        Caller { owner: owner_of_name(name), account: Some(account), peer: None }
    }

    /// The memory for clients' usage that is saved on this machine.
    pub(super) fn held(&self) -> HeldBytes {
        self.shared.ledger.held()
    }

    pub fn accounts(&self) -> Vec<Arc<Account>> {
        self.shared.ledger.list()
    }
}

impl Shared {
    /// Reads the file if it has changed. Returns `false` if the keys are the same.
    fn refresh(&self, now: u64) -> bool {
        let Some(file) = &self.file else { return false };
        let mut file = file.lock();
        match file.changed() {
            Some(Ok(saved)) => {
                self.changed(|entries| entries.saved = saved, now);
                true
            }
            Some(Err(problems)) => {
                for problem in problems.0 {
                    tracing::error!(place = %problem.place, "the file of keys is wrong, the keys stay as they were: {}", problem.message);
                }
                if self.ring().is_none() {
                    self.changed(|_| (), now);
                    // The keys are not completely known, so a request without a key must not be accepted.
                    self.ring().get_or_insert_default();
                }
                false
            }
            None => false,
        }
    }

    /// Applies `change` to the sources and rebuilds the valid keys.
    fn changed(&self, change: impl FnOnce(&mut Entries), now: u64) {
        let mut entries = self.entries.lock();
        change(&mut entries);
        let Entries { config, saved } = &*entries;
        let named = config.keys.iter().chain(saved).cloned().collect();
        let (named, faults) = settled(named);
        for fault in faults {
            tracing::warn!(
                "an entry of the file of keys disagrees with another entry, which holds: {}",
                fault.1
            );
        }
        let mut ring = HashMap::new();
        for key in &config.api_keys {
            let digest = KeyDigest::of(key.expose_secret().as_bytes());
            let caller = Caller { owner: digest.owner(), account: None, peer: None };
            ring.insert(digest, Holder { caller, expires: None, is_revoked: false });
        }
        for key in &named {
            let account = self.ledger.account(&key.name, &key.grant, now);
            let caller = Caller { owner: key.owner(), account: Some(account), peer: None };
            let holder = Holder { caller, expires: key.expires, is_revoked: key.is_revoked() };
            // If two entries have the same key, the first one applies.
            ring.entry(key.digest).or_insert(holder);
        }
        let mut current = self.ring();
        if current.is_some() || !ring.is_empty() {
            *current = Some(Arc::new(KeyRing(ring)));
        }
    }

    fn ring(&self) -> RwLockWriteGuard<'_, Option<Arc<KeyRing>>> {
        self.ring.write()
    }

    /// Checks the file, and saves the usage of clients.
    fn tick(&self, now: u64) {
        if self.refresh(now) {
            tracing::info!("the file of keys was read again");
        }
        self.ledger.save(now);
    }
}

impl KeyRing {
    fn identify(&self, shown: Option<&[u8]>, now: u64) -> Result<Caller, Failure> {
        let refused = |message: &str| Failure::new(Kind::Unauthorized, message);
        let Some(shown) = shown else {
            let message = "an API key is needed: send it as `Authorization: Bearer KEY`, `x-api-key: KEY` or `api-key: KEY`";
            return Err(refused(message));
        };
        match self.0.get(&KeyDigest::of(shown)) {
            None if is_mistyped(shown) => Err(refused("this API key is mistyped or not complete")),
            None => Err(refused("this API key is not one that toolwire knows")),
            Some(Holder { is_revoked: true, .. }) => Err(refused("this API key was revoked")),
            Some(Holder { expires: Some(expires), .. }) if *expires <= now => {
                Err(refused("this API key has expired"))
            }
            Some(Holder { caller, .. }) => Ok(caller.clone()),
        }
    }
}

/// Returns the owner of the stored responses that a client with `session` may read. It depends on the complete session
/// including its token, since only the token proves that the session belongs to the client.
fn owner_of_session(session: &HeaderMap) -> Owner {
    let values = [UID_HEADER, header::AUTHORIZATION.as_str()].map(|name| session.get(name));
    let values = values.map(|value| value.map(HeaderValue::as_bytes).unwrap_or_default());
    Owner::of_key(&values.join(&0))
}

/// Returns the key in a request, which may be repeated in several headers. `may_be_bearer` is true if `Authorization`
/// may contain the key.
///
/// # Errors
/// [`Kind::Request`] if there are two different keys.
fn shown_key(headers: &HeaderMap, may_be_bearer: bool) -> Result<Option<&[u8]>, Failure> {
    let bearer = headers.get_all(header::AUTHORIZATION).into_iter().filter(|_| may_be_bearer);
    let bearer = bearer.filter_map(|value| bearer_token(value.as_bytes()));
    let plain =
        KEY_HEADERS.iter().flat_map(|name| headers.get_all(*name)).map(|value| value.as_bytes().trim_ascii());
    let mut shown = bearer.chain(plain).filter(|key| !key.is_empty());
    let first = shown.next();
    if shown.any(|other| Some(other) != first) {
        let message = "the request has two different API keys; send one, as `Authorization: Bearer KEY`, `x-api-key: KEY` or \
                       `api-key: KEY`";
        return Err(Failure::new(Kind::Request, message).with_param("authorization"));
    }
    Ok(first)
}

/// Returns the token after the scheme `Bearer`, whose case does not matter.
pub fn bearer_token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests;

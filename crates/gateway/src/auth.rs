//! [`Keys`]: who a request is from, by the key that it shows.
//!
//! A key is found by its digest, so the time that it takes says nothing about the keys that there are. The keys are those of the
//! configuration and of the file that `toolwire keys` writes, which is looked at every few seconds.

mod watch;

use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard},
};

use http::{HeaderMap, HeaderValue, header};
use secrecy::ExposeSecret;

use self::watch::Watch;
use super::{
    limits::{Account, Ledger},
    permits::Claimant,
    tries::WrongKeys,
};
use toolwire_config::{
    ClientKey, Config, KeyDigest, KeyFile,
    client_keys::{owner_of_name, settled},
    is_mistyped,
};
use toolwire_execution::{ask::Payer, key_mark};
use toolwire_net::store::Owner;
use toolwire_pipeline::{
    dialect::UID_HEADER,
    failure::{Failure, Kind},
};

/// The headers that carry a key as it is, beside `Authorization: Bearer`.
const KEY_HEADERS: [&str; 2] = ["x-api-key", "api-key"];

/// Who a request is from. Clients that need no key are all the same one.
#[derive(Debug, Clone, Default)]
pub(super) struct Caller {
    /// Whose stored values it may read: those of its name, or of its key if that has none.
    pub(super) owner: Owner,
    /// `None`: the key has no name.
    pub(super) account: Option<Arc<Account>>,
    /// Where the request comes from, if it is a request.
    pub(super) peer: Option<IpAddr>,
}

impl Caller {
    /// For whom a place at an upstream is taken.
    pub(super) fn claimant(&self) -> Claimant {
        match self.peer {
            _ if self.owner != Owner::default() => Claimant::Key(self.owner),
            Some(peer) => Claimant::Peer(peer),
            None => Claimant::Own,
        }
    }

    /// How events name it: by its name, or by a short mark that reveals nothing of its key. `None`: it needs no key.
    pub(super) fn label(&self) -> Option<String> {
        let name = self.account.as_ref().map(|account| account.name().to_string());
        name.or_else(|| key_mark(self.owner))
    }

    /// The client as one whose tokens are counted, if it has a name.
    pub(super) fn payer(&self) -> Option<Arc<dyn Payer>> {
        self.account.clone().map(|account| account as _)
    }

    /// Checks that it may request `model`, whether or not there is such a model.
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

/// The valid keys at one time.
#[derive(Debug, Default)]
struct KeyRing(HashMap<KeyDigest, Holder>);

#[derive(Debug)]
struct Holder {
    caller: Caller,
    expires: Option<u64>,
    is_revoked: bool,
}

/// All keys. All threads share them.
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
    /// `None`: no key is needed. A change of the file never makes it so.
    ring: RwLock<Option<Arc<KeyRing>>>,
}

/// What the valid keys are made of.
#[derive(Debug)]
struct Entries {
    config: Arc<Config>,
    /// Those of the file.
    saved: Vec<ClientKey>,
}

impl Keys {
    /// The keys of `config`, and of the file in its `state_dir`. `now` is in seconds of Unix time.
    ///
    /// # Errors
    /// If there can be no thread that looks at the file.
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

    /// From now on, the keys are those of this configuration, and those of the file.
    pub(super) fn reloaded(&self, config: &Arc<Config>, now: u64) {
        self.shared.changed(|entries| entries.config = Arc::clone(config), now);
        let entries = self.shared.entries();
        if entries.config.api_keys.is_empty() && entries.config.keys.is_empty() && entries.saved.is_empty() {
            // The configuration says so, and only loopback addresses are listened on.
            *self.shared.ring() = None;
        }
    }

    /// Whether everyone may, without a key.
    pub(super) fn are_not_needed(&self) -> bool {
        self.shared.ring.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Who sends a request with these headers at `now`, in seconds of Unix time. If there are no keys, everyone may. `session` is
    /// the client's own for an upstream, if it sends one: `Authorization` is part of that, so the key is in another header. It
    /// tells clients apart.
    ///
    /// # Errors
    /// [`Kind::Unauthorized`]; [`Kind::Request`] for two different keys.
    pub(super) fn identify(
        &self,
        headers: &HeaderMap,
        session: Option<&HeaderMap>,
        now: u64,
    ) -> Result<Caller, Failure> {
        let ring = self.shared.ring.read().unwrap_or_else(PoisonError::into_inner).clone();
        let caller = match ring {
            Some(ring) => ring.identify(shown_key(headers, session.is_none())?, now)?,
            None => Caller::default(),
        };
        Ok(match session {
            Some(session) => Caller { owner: owner_of_session(session), ..caller },
            None => caller,
        })
    }

    /// Counts the wrong key that a request from `peer` shows, if it shows one. `may_be_bearer`: `Authorization` may have it.
    ///
    /// # Errors
    /// There were too many. How many seconds to wait.
    pub(super) fn count_wrong(
        &self,
        (headers, may_be_bearer): (&HeaderMap, bool),
        peer: IpAddr,
    ) -> Result<(), u64> {
        match shown_key(headers, may_be_bearer) {
            Ok(Some(key)) => self.wrong.count(key, peer),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// Forgets the wrong keys from `peer`, which has shown a right one.
    pub(super) fn forget_wrong(&self, peer: IpAddr) {
        self.wrong.forget(peer);
    }

    /// toolwire itself as the client `name`, at `now` in seconds of Unix time. If there is a key with this name, its limits hold.
    pub(super) fn own(&self, name: &str, now: u64) -> Caller {
        let entries = self.shared.entries();
        let Entries { config, saved } = &*entries;
        let grant = config.keys.iter().chain(saved).find(|key| key.name == name).map(|key| key.grant.clone());
        drop(entries);
        let account = self.shared.ledger.account(name, &grant.unwrap_or_default(), now);
        Caller { owner: owner_of_name(name), account: Some(account), peer: None }
    }

    /// The clients with names.
    pub fn accounts(&self) -> Vec<Arc<Account>> {
        self.shared.ledger.list()
    }
}

impl Shared {
    /// Reads the file if it has changed. `false`: the keys are as they were.
    fn refresh(&self, now: u64) -> bool {
        let Some(file) = &self.file else { return false };
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
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
                    // Not all keys are known, so nobody is let in without one.
                    self.ring().get_or_insert_default();
                }
                false
            }
            None => false,
        }
    }

    /// After `change` of what they are made of, the keys are others.
    fn changed(&self, change: impl FnOnce(&mut Entries), now: u64) {
        let mut entries = self.entries();
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
            // Of two entries with the same key the first holds.
            ring.entry(key.digest).or_insert(holder);
        }
        let mut current = self.ring();
        if current.is_some() || !ring.is_empty() {
            *current = Some(Arc::new(KeyRing(ring)));
        }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) -> RwLockWriteGuard<'_, Option<Arc<KeyRing>>> {
        self.ring.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the file, and saves what clients have used.
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

/// Whose stored responses a client may read that sent `session`: those of the session, token included, since nothing else proves
/// that the session is the client's.
fn owner_of_session(session: &HeaderMap) -> Owner {
    let values = [UID_HEADER, header::AUTHORIZATION.as_str()].map(|name| session.get(name));
    let values = values.map(|value| value.map(HeaderValue::as_bytes).unwrap_or_default());
    Owner::of_key(&values.join(&0))
}

/// The key that a request shows, in one header or in several. `Authorization` may be one of them.
///
/// # Errors
/// [`Kind::Request`]: it shows two different ones.
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

/// The token after `Bearer `, which may be written in any case.
fn bearer_token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests;

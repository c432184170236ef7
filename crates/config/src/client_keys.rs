//! `[[keys]]`: named clients and their permissions.
//!
//! Several entries may share a name, so that a key can be replaced while the old one is still valid. They also share
//! everything that is recorded by name: permissions, limits, usage, and stored conversations.

use std::{collections::HashMap, fmt};

use ring::digest::{SHA256, digest};
use secrecy::{ExposeSecret, SecretString};
use toml::{Value, de::DeValue, value::Datetime};

use super::{
    calendar,
    keys::{Reading, shown_text, shown_texts, some, string, table_of},
    mask::masked,
    table::{Cell, Table, entries},
    value::{count, list, secret, text},
};
use toolwire_net::store::Owner;
use toolwire_pipeline::{format::glob_matches, settings::Settings, wire::hex};

/// In bytes.
const MAX_NAME: usize = 64;

const HASH_PREFIX: &str = "sha256:";

/// The SHA-256 digest of a key. `Debug` does not print it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyDigest([u8; 32]);

impl KeyDigest {
    pub fn of(key: &[u8]) -> Self {
        Self(digest(&SHA256, key).as_ref().try_into().unwrap_or_default())
    }

    /// The owner under which values are stored for a key without a name.
    pub fn owner(self) -> Owner {
        Owner(self.0)
    }

    /// Parses `sha256:` followed by 64 hexadecimal digits.
    fn parse(text: &str) -> Option<Self> {
        hex::decode(text.strip_prefix(HASH_PREFIX)?.as_bytes()).map(Self)
    }

    /// Formats the digest in the form that [`KeyDigest::parse`] reads.
    pub fn written(self) -> String {
        [HASH_PREFIX, &hex::encode(&self.0)].concat()
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyDigest")
    }
}

#[derive(Debug, Clone)]
pub struct ClientKey {
    pub name: String,
    pub digest: KeyDigest,
    /// The key itself, if the configuration contains it.
    secret: Option<SecretString>,
    pub grant: Grant,
    /// When the key expires, as Unix time in seconds.
    pub expires: Option<u64>,
    /// Only for keys made by `toolwire keys add`.
    pub made: Option<Made>,
}

/// The permissions of a client, which all of its keys share.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
pub struct Grant {
    /// the models that it may request; `*` matches any characters, case is ignored
    #[setting(or = "all", read = models, show = |texts| shown_texts(texts))]
    pub models: Vec<String>,
    /// Usage limits.
    #[setting(nested)]
    pub limits: KeyLimits,
}

/// Usage limits of a client. `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Settings)]
pub struct KeyLimits {
    /// requests in a minute; all of them may come at once
    #[setting(or = "no limit", read = limit, show = shown_limit)]
    pub requests_per_minute: Option<u64>,
    /// tokens in a minute, of requests and responses together
    #[setting(or = "no limit", read = limit, show = shown_limit)]
    pub tokens_per_minute: Option<u64>,
    /// responses in progress, streamed or not
    #[setting(or = "no limit", read = limit, show = shown_limit)]
    pub streams: Option<u64>,
    /// tokens in a calendar month (UTC)
    #[setting(or = "no limit", read = limit, show = shown_limit)]
    pub tokens_per_month: Option<u64>,
}

/// Facts about a key made by `toolwire keys add`.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
pub struct Made {
    /// The part of the key that is not secret.
    #[setting(required, read = text, show = |id| Some(string(id)))]
    pub id: String,
    /// When the key was made, in seconds of Unix time.
    #[setting(read = some(moment), show = shown_moment)]
    pub created: Option<u64>,
    /// When the key was revoked, in seconds of Unix time.
    #[setting(read = some(moment), show = shown_moment)]
    pub revoked: Option<u64>,
}

impl Grant {
    pub fn allows(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|pattern| glob_matches(pattern, model))
    }
}

impl ClientKey {
    pub fn new(name: &str, key: &str, grant: Grant, expires: Option<u64>, made: Made) -> Self {
        let digest = KeyDigest::of(key.as_bytes());
        Self { name: name.to_owned(), digest, secret: None, grant, expires, made: Some(made) }
    }

    pub(super) fn secret(&self) -> Option<&SecretString> {
        self.secret.as_ref()
    }

    pub fn is_revoked(&self) -> bool {
        self.made.as_ref().is_some_and(|made| made.revoked.is_some())
    }

    /// The owner under which this client's values are stored.
    pub fn owner(&self) -> Owner {
        owner_of_name(&self.name)
    }

    /// The entry for display, without the key.
    pub(super) fn shown(&self) -> toml::Table {
        table_of(|keys| Draft::of(self).settings(keys))
    }

    /// The entry as it appears in the key file.
    pub(super) fn written(&self) -> toml::Table {
        let mut table = self.shown();
        table.remove("key");
        table.insert("hash".to_owned(), string(&self.digest.written()));
        if let Some(made) = &self.made {
            let mut made = made.clone();
            table.extend(table_of(|keys| made.settings(keys)));
        }
        table
    }
}

/// The owner under which the values of the client `name` are stored. No API key hashes to the same digest, because
/// headers cannot contain NUL.
pub fn owner_of_name(name: &str) -> Owner {
    Owner::of_key(format!("\0name\0{name}").as_bytes())
}

/// Whether `name` is a valid client name. Such names are safe in logs and metrics.
pub fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Describes the names that [`is_name`] accepts.
pub const NAME_EXPECTED: &str = "a name of at most 64 letters, digits, `-`, `_`, `.` and `@`";

/// An entry of `[[keys]]` that is being read.
#[derive(Debug, Settings)]
pub(super) struct Draft {
    /// the client's name in logs, metrics and events: letters, digits, `-`, `_`, `.` and `@`. Entries with the same
    /// name are one client
    #[setting(required, read = some(name), show = shown_text)]
    name: Option<String>,
    /// the key, a secret
    #[setting(
        key = "key", read = some(secret),
        show = |_| self.digest.as_ref().map(|digest| string(&masked(digest.written())))
    )]
    secret: Option<SecretString>,
    /// instead of `key`: `sha256:` and its SHA-256 digest in hexadecimal
    #[setting(key = "hash", read = some(hash), show = |_| None)]
    digest: Option<KeyDigest>,
    #[setting(nested)]
    grant: Grant,
    /// when it expires: `2027-01-31` (its beginning in UTC) or `2027-01-31T18:00:00+01:00`
    #[setting(or = "never", read = some(moment), show = shown_moment)]
    expires: Option<u64>,
}

impl Draft {
    fn of(key: &ClientKey) -> Self {
        let ClientKey { name, digest, secret, grant, expires, .. } = key.clone();
        Self { name: Some(name), secret, digest: Some(digest), grant, expires }
    }
}

fn shown_moment(time: &Option<u64>) -> Option<Value> {
    time.map(|time| string(&calendar::rfc3339(time)))
}

fn shown_limit(limit: &Option<u64>) -> Option<Value> {
    limit.map(|limit| Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX)))
}

fn name(cell: Cell<'_>) -> Option<String> {
    match text(cell.clone())? {
        name if is_name(&name) => Some(name),
        _ => cell.wrong(format!("expected {NAME_EXPECTED}")),
    }
}

fn hash(cell: Cell<'_>) -> Option<KeyDigest> {
    match KeyDigest::parse(&text(cell.clone())?) {
        Some(digest) => Some(digest),
        None => cell
            .wrong("expected `sha256:` and 64 hexadecimal digits; `printf %s KEY | sha256sum` computes them"),
    }
}

fn models(cell: Cell<'_>) -> Option<Vec<String>> {
    let models = list(text)(cell.clone())?;
    match cell.is_empty_array() {
        true => cell.wrong("the key could use no model; leave `models` out if it may use all"),
        false => Some(models),
    }
}

fn limit(cell: Cell<'_>) -> Option<Option<u64>> {
    count(1)(cell).map(|limit| u64::try_from(limit).ok())
}

/// Converts a date or time (RFC 3339, section 5.6) to Unix time in seconds. The value may be a TOML date or a string.
fn moment(cell: Cell<'_>) -> Option<u64> {
    const EXPECTED: &str =
        "a date such as `2027-01-31`, or a time with its offset such as `2027-01-31T18:00:00Z`";
    let written: Option<Datetime> = match cell.value {
        DeValue::Datetime(written) => Some(*written),
        DeValue::String(text) => text.parse().ok(),
        _ => return cell.expected(EXPECTED),
    };
    match written.as_ref().and_then(calendar::unix_time) {
        Some(time) => Some(time),
        None => cell.wrong(format!("expected {EXPECTED}")),
    }
}

/// Reads one entry. `is_own` is true if it comes from the file that `toolwire keys` writes.
fn entry(table: &mut Table<'_>, is_own: bool) -> Option<ClientKey> {
    let mut draft = Draft::default();
    draft.settings(&mut Reading(table));
    let mut made = is_own.then(Made::default);
    if let Some(made) = &mut made {
        made.settings(&mut Reading(table));
    }
    let has = |table: &mut Table<'_>, key| table.cell(key).is_some();
    match (has(table, "key"), has(table, "hash")) {
        (false, false) => table.report_fault("key", "the entry has neither `key` nor `hash`"),
        (true, true) => {
            table.report_fault("hash", "the entry has both `key` and `hash`; one of them is enough")
        }
        _ => {}
    }
    let Draft { name, secret, digest, grant, expires } = draft;
    let digest = secret.as_ref().map(|key| KeyDigest::of(key.expose_secret().as_bytes())).or(digest);
    Some(ClientKey { name: name?, digest: digest?, secret, grant, expires, made })
}

/// Reads `[[keys]]`. `is_own` is true if the entries come from the file that `toolwire keys` writes.
pub(super) fn read(table: &mut Table<'_>, is_own: bool) -> Vec<ClientKey> {
    let mut cells = Vec::new();
    let mut keys = Vec::new();
    for cell in entries(table, "keys") {
        if let Some(key) = cell.clone().table(|table| entry(table, is_own)) {
            keys.push(key);
            cells.push(cell);
        }
    }
    let (keys, faults) = settled(keys);
    for (at, fault) in faults {
        if let Some(cell) = cells.get(at) {
            cell.wrong::<()>(fault);
        }
    }
    keys
}

/// Gives all entries with the same name the permissions of the first of them that has any. Also returns the errors,
/// each with the index of its entry: keys that occur twice, and permissions that conflict with those of an earlier
/// entry.
pub fn settled(mut keys: Vec<ClientKey>) -> (Vec<ClientKey>, Vec<(usize, String)>) {
    let mut grants: HashMap<String, Grant> = HashMap::new();
    for key in keys.iter().filter(|key| key.grant != Grant::default()) {
        grants.entry(key.name.clone()).or_insert_with(|| key.grant.clone());
    }
    let mut faults = Vec::new();
    let mut digests = HashMap::new();
    for (at, key) in keys.iter_mut().enumerate() {
        if let Some(other) = digests.insert(key.digest, key.name.clone()) {
            faults.push((at, format!("an entry before it (`{other}`) has the same key")));
        }
        let Some(grant) = grants.get(&key.name) else { continue };
        if key.grant != Grant::default() && key.grant != *grant {
            let message = format!(
                "`{}` has other models or limits in an entry before it; they belong to the name",
                key.name
            );
            faults.push((at, message));
        }
        key.grant = grant.clone();
    }
    (keys, faults)
}

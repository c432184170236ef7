//! [`Vault`]: the folder with the logins of servers, one encrypted file each.
//!
//! The files are encrypted with AES-256-GCM. The key is derived from the configured secret, or is in a file beside them:
//! then whoever can read the folder can read the logins. A refresh token may be valid only once, so processes that share
//! the folder lock a file while they refresh.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hmac,
    rand::{SecureRandom, SystemRandom},
};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, sleep};

use super::{
    client::{AuthMethod, OAuthClient},
    error::VaultError,
};
use toolwire_net::private;

/// The folder, in the state folder.
const FOLDER: &str = "mcp-logins";

/// Begins each file.
const MAGIC: &[u8] = b"toolwire login 1\n";

/// What a key is derived from the configured secret for.
const PURPOSE: &[u8] = b"toolwire mcp logins 1";

const KEY_LENGTH: usize = 32;

/// Maximum size of a file, in bytes.
const MAX_FILE: u64 = 256 << 10;

/// How long to wait for the lock: longer than a refresh takes.
const LOCK_LIMIT: Duration = Duration::from_secs(60);

const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The bytes that are not allowed in a file's name.
const UNSAFE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// These and uppercase letters.
const UPPERCASE: &AsciiSet = &{
    let (mut set, mut letter) = (UNSAFE.add(b'A'), b'B');
    while letter <= b'Z' {
        set = set.add(letter);
        letter += 1;
    }
    set
};

/// Maximum number of logins of client keys that are listed per server.
const MAX_LISTED: usize = 10_000;

/// Whose login it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LoginName<'n> {
    pub(super) server: &'n str,
    /// The name of the client key. `None` for the login that all clients share.
    pub(super) key: Option<&'n str>,
}

/// A login, as it is kept.
#[derive(Debug, Clone)]
pub(super) struct Login {
    /// The URL of the server that the tokens are for.
    pub(super) server: String,
    pub(super) issuer: String,
    pub(super) token_endpoint: String,
    pub(super) revocation_endpoint: Option<String>,
    pub(super) resource: String,
    pub(super) scope: Option<String>,
    pub(super) client: OAuthClient,
    pub(super) access: SecretString,
    pub(super) refresh: Option<SecretString>,
    /// Unix time in seconds.
    pub(super) expires_at: Option<u64>,
    /// When to refresh, as a Unix time in seconds.
    pub(super) renew_at: Option<u64>,
}

/// The content of a file.
#[derive(serde::Serialize, serde::Deserialize)]
struct Written {
    server: String,
    issuer: String,
    token_endpoint: String,
    revocation_endpoint: Option<String>,
    resource: String,
    scope: Option<String>,
    client_id: String,
    client_secret: Option<String>,
    auth_method: AuthMethod,
    access_token: String,
    refresh_token: Option<String>,
    expires_at: Option<u64>,
    renew_at: Option<u64>,
}

impl Login {
    fn to_json(&self) -> Vec<u8> {
        let text = |secret: &SecretString| secret.expose_secret().to_owned();
        let written = Written {
            server: self.server.clone(),
            issuer: self.issuer.clone(),
            token_endpoint: self.token_endpoint.clone(),
            revocation_endpoint: self.revocation_endpoint.clone(),
            resource: self.resource.clone(),
            scope: self.scope.clone(),
            client_id: self.client.id.clone(),
            client_secret: self.client.secret.as_ref().map(text),
            auth_method: self.client.method,
            access_token: text(&self.access),
            refresh_token: self.refresh.as_ref().map(text),
            expires_at: self.expires_at,
            renew_at: self.renew_at,
        };
        serde_json::to_vec(&written).unwrap_or_default()
    }

    fn from_json(json: &[u8]) -> Option<Self> {
        let read: Written = serde_json::from_slice(json).ok()?;
        let secret = read.client_secret.map(SecretString::from);
        Some(Self {
            server: read.server,
            issuer: read.issuer,
            token_endpoint: read.token_endpoint,
            revocation_endpoint: read.revocation_endpoint,
            resource: read.resource,
            scope: read.scope,
            client: OAuthClient { id: read.client_id, secret, method: read.auth_method },
            access: read.access_token.into(),
            refresh: read.refresh_token.map(SecretString::from),
            expires_at: read.expires_at,
            renew_at: read.renew_at,
        })
    }
}

/// Shows whether a file has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp(Option<(SystemTime, u64, u64)>);

#[derive(Debug)]
pub struct Vault {
    folder: PathBuf,
    secret: Option<SecretString>,
}

impl Vault {
    /// The logins below the folder `state_dir`. `secret` is the configured one.
    pub fn new(state_dir: &Path, secret: Option<SecretString>) -> Self {
        Self { folder: state_dir.join(FOLDER), secret }
    }

    /// Reads a login. `None` if there is none.
    ///
    /// # Errors
    /// There is one that cannot be read.
    pub(super) fn read(&self, name: LoginName<'_>) -> Result<Option<Login>, VaultError> {
        let path = self.path(name);
        let sealed = match contents(&path) {
            Ok(sealed) => sealed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(VaultError::File(path, error)),
        };
        let opened = || {
            let (nonce, sealed) = sealed.strip_prefix(MAGIC)?.split_first_chunk::<NONCE_LEN>()?;
            let key = self.key(false).ok()?;
            let mut text = sealed.to_vec();
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let text = key.open_in_place(nonce, about(name), &mut text).ok()?;
            Login::from_json(text)
        };
        opened().map(Some).ok_or(VaultError::Undecryptable(path))
    }

    /// Keeps a login, and waits until it is on disk.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn write(&self, name: LoginName<'_>, login: &Login) -> Result<(), VaultError> {
        let path = self.path(name);
        let folder = path.parent().unwrap_or(&self.folder);
        private::create_dir_all(folder).map_err(|error| VaultError::File(folder.to_owned(), error))?;
        let key = self.key(true)?;
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| VaultError::NoRandomness)?;
        let mut sealed = login.to_json();
        let sealing =
            key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), about(name), &mut sealed);
        sealing.map_err(|_| VaultError::Undecryptable(path.clone()))?;
        let bytes = [MAGIC, &nonce, &sealed].concat();
        private::replace_on_disk(&path, &bytes).map_err(|error| VaultError::File(path, error))
    }

    /// Removes a login. Returns whether there was one.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(super) fn remove(&self, name: LoginName<'_>) -> Result<bool, VaultError> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(VaultError::File(path, error)),
        }
    }

    /// The state of the file of a login.
    pub(super) fn stamp(&self, name: LoginName<'_>) -> Stamp {
        #[cfg(unix)]
        let inode = |found: &fs::Metadata| std::os::unix::fs::MetadataExt::ino(found);
        #[cfg(not(unix))]
        let inode = |_: &fs::Metadata| 0;
        let found = fs::metadata(self.path(name)).ok();
        Stamp(found.and_then(|found| Some((found.modified().ok()?, found.len(), inode(&found)))))
    }

    /// Keeps other processes from refreshing the login until the result is dropped.
    ///
    /// # Errors
    /// The lock cannot be had.
    pub(super) async fn lock(&self, name: LoginName<'_>) -> Result<File, VaultError> {
        let path = self.path(name).with_added_extension("lock");
        let wrong = |error| VaultError::File(path.clone(), error);
        private::create_dir_all(path.parent().unwrap_or(&self.folder)).map_err(wrong)?;
        let file = opened(&path).map_err(wrong)?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(wrong(error)),
                Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_LIMIT => sleep(LOCK_PAUSE).await,
                Err(TryLockError::WouldBlock) => return Err(VaultError::Locked(path)),
            }
        }
    }

    /// The names of the client keys that have a login at `server`.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn keys(&self, server: &str) -> Result<Vec<String>, VaultError> {
        let folder = self.folder_of_keys(server);
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(VaultError::File(folder, error)),
        };
        let name = |entry: fs::DirEntry| {
            let file = entry.file_name();
            let written = file.to_str()?.strip_suffix(".login")?;
            let key = percent_decode_str(written).decode_utf8().ok()?.into_owned();
            (lowercase(&key) == written).then_some(key)
        };
        let mut names: Vec<_> = entries.filter_map(Result::ok).filter_map(name).take(MAX_LISTED).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn path(&self, LoginName { server, key }: LoginName<'_>) -> PathBuf {
        match key {
            None => self.folder.join(format!("{}.login", utf8_percent_encode(server, UNSAFE))),
            Some(key) => self.folder_of_keys(server).join(format!("{}.login", lowercase(key))),
        }
    }

    fn folder_of_keys(&self, server: &str) -> PathBuf {
        self.folder.join(format!("{}.keys", lowercase(server)))
    }

    /// The key of the files. A missing file with a key is created if `is_made` is set.
    fn key(&self, is_made: bool) -> Result<LessSafeKey, VaultError> {
        let path = self.folder.join("key");
        let bytes = match &self.secret {
            Some(secret) => {
                let secret = hmac::Key::new(hmac::HMAC_SHA256, secret.expose_secret().as_bytes());
                hmac::sign(&secret, PURPOSE).as_ref().to_vec()
            }
            None => self.key_file(&path, is_made)?,
        };
        let key = UnboundKey::new(&AES_256_GCM, &bytes);
        key.map(LessSafeKey::new).map_err(|_| {
            VaultError::File(path, io::Error::new(io::ErrorKind::InvalidData, "it is not a key of 32 bytes"))
        })
    }

    fn key_file(&self, path: &Path, is_made: bool) -> Result<Vec<u8>, VaultError> {
        let wrong = |error| VaultError::File(path.to_owned(), error);
        // Two processes must not make two keys.
        let lock = match is_made {
            true => Some(opened(&path.with_added_extension("lock")).map_err(wrong)?),
            false => None,
        };
        if let Some(lock) = &lock {
            lock.lock().map_err(wrong)?;
        }
        match contents(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && is_made => {
                let mut key = vec![0; KEY_LENGTH];
                SystemRandom::new().fill(&mut key).map_err(|_| VaultError::NoRandomness)?;
                private::replace_on_disk(path, &key).map_err(wrong)?;
                Ok(key)
            }
            found => found.map_err(wrong),
        }
    }
}

/// What a file is bound to, so that it cannot take the place of another one.
fn about(LoginName { server, key }: LoginName<'_>) -> Aad<Vec<u8>> {
    let key = key.map(|key| format!("\nkey {} {key}", key.len())).unwrap_or_default();
    Aad::from([MAGIC, server.as_bytes(), key.as_bytes()].concat())
}

/// Encodes `name` for a file, so that names which differ only in case differ on every file system.
fn lowercase(name: &str) -> String {
    utf8_percent_encode(name, UPPERCASE).to_string()
}

/// Opens or creates a file to lock.
fn opened(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn contents(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe would wait for a writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(server: &str) -> LoginName<'_> {
        LoginName { server, key: None }
    }

    fn login() -> Login {
        Login {
            server: "https://mcp.example/".to_owned(),
            issuer: "https://auth.example".to_owned(),
            token_endpoint: "https://auth.example/token".to_owned(),
            revocation_endpoint: None,
            resource: "https://mcp.example/".to_owned(),
            scope: Some("a b".to_owned()),
            client: OAuthClient {
                id: "c".to_owned(),
                secret: Some("s3cret-s3cret".into()),
                method: AuthMethod::Basic,
            },
            access: "access-access".into(),
            refresh: Some("refresh-refresh".into()),
            expires_at: Some(1),
            renew_at: Some(0),
        }
    }

    #[test]
    fn login_is_kept_encrypted_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        for secret in [None, Some(SecretString::from("a secret of the operator"))] {
            let vault = Vault::new(&folder.path().join(secret.is_some().to_string()), secret);
            assert!(vault.read(shared("a/../b")).unwrap().is_none());
            vault.write(shared("a/../b"), &login()).unwrap();
            let read = vault.read(shared("a/../b")).unwrap().unwrap();
            assert_eq!(read.to_json(), login().to_json());
            let mut names = Vec::new();
            for entry in fs::read_dir(&vault.folder).unwrap() {
                let entry = entry.unwrap();
                names.push(entry.file_name().into_string().unwrap());
                let bytes = fs::read(entry.path()).unwrap();
                for hidden in ["access-", "refresh-", "s3cret", "mcp.example"] {
                    assert!(!bytes.windows(hidden.len()).any(|part| part == hidden.as_bytes()), "{hidden}");
                }
                #[cfg(unix)]
                {
                    let mode =
                        std::os::unix::fs::PermissionsExt::mode(&entry.metadata().unwrap().permissions());
                    assert_eq!(mode & 0o777, 0o600, "{entry:?}");
                }
            }
            assert!(names.contains(&"a%2F%2E%2E%2Fb.login".to_owned()), "{names:?}");
            assert!(vault.remove(shared("a/../b")).unwrap() && !vault.remove(shared("a/../b")).unwrap());
        }
        let shown = format!("{:?}", login());
        assert!(
            !shown.contains("access-access")
                && !shown.contains("refresh-refresh")
                && !shown.contains("s3cret")
        );
    }

    #[test]
    fn changed_exchanged_and_foreign_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::new(folder.path(), None);
        vault.write(shared("a"), &login()).unwrap();
        let path = vault.path(shared("a"));
        let bytes = fs::read(&path).unwrap();
        fs::copy(&path, vault.path(shared("b"))).unwrap();
        assert!(
            matches!(vault.read(shared("b")), Err(VaultError::Undecryptable(_))),
            "the login of another server"
        );
        for (place, _) in bytes.iter().enumerate() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            fs::write(&path, &changed).unwrap();
            assert!(matches!(vault.read(shared("a")), Err(VaultError::Undecryptable(_))), "byte {place}");
            fs::write(&path, &bytes[..place]).unwrap();
            assert!(matches!(vault.read(shared("a")), Err(VaultError::Undecryptable(_))), "cut at {place}");
        }
        fs::write(&path, &bytes).unwrap();
        let other = Vault::new(folder.path(), Some("another".to_owned().into()));
        assert!(matches!(other.read(shared("a")), Err(VaultError::Undecryptable(_))));
        fs::write(folder.path().join(FOLDER).join("key"), "short").unwrap();
        assert!(vault.read(shared("a")).is_err() && vault.write(shared("a"), &login()).is_err());
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(matches!(vault.read(shared("a")), Err(VaultError::File(..))));
    }

    #[tokio::test]
    async fn lock_excludes_others() {
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::new(folder.path(), None);
        let held = vault.lock(shared("a")).await.unwrap();
        let _other = vault.lock(shared("b")).await.unwrap();
        let waiting = vault.lock(shared("a"));
        tokio::pin!(waiting);
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        drop(held);
        waiting.await.unwrap();
    }

    #[test]
    fn login_of_a_key_has_a_file_of_its_own_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::new(folder.path(), None);
        let long = "A".repeat(64);
        let names = [
            "a", "A", "ä", "a b", "a/b", "../a", "..", ".", "a.login", "a%2eb", "key", "con", "a@b", &long,
            "\0",
        ];
        let mut files = std::collections::HashSet::new();
        for server in ["s", "S", "s.keys", "a/../b"] {
            vault.write(shared(server), &login()).unwrap();
            for key in names {
                let name = LoginName { server, key: Some(key) };
                assert!(vault.read(name).unwrap().is_none(), "{key:?}");
                vault.write(name, &Login { scope: Some(format!("{server} {key}")), ..login() }).unwrap();
                let path = vault.path(name);
                assert!(path.parent().unwrap().parent() == Some(&*vault.folder), "{path:?}");
                let short = |part: &std::ffi::OsStr| part.len() < 220;
                assert!(path.iter().all(short), "{path:?}");
                assert!(files.insert(path.to_str().unwrap().to_lowercase()), "{path:?}");
            }
            let mut sorted = names.map(str::to_owned);
            sorted.sort_unstable();
            assert_eq!(vault.keys(server).unwrap(), sorted);
        }
        for server in ["s", "S"] {
            for key in names {
                let read = vault.read(LoginName { server, key: Some(key) }).unwrap().unwrap();
                assert_eq!(read.scope, Some(format!("{server} {key}")));
            }
        }
        let [one, two] = ["a", "A"].map(|key| LoginName { server: "s", key: Some(key) });
        fs::copy(vault.path(one), vault.path(two)).unwrap();
        assert!(matches!(vault.read(two), Err(VaultError::Undecryptable(_))), "the login of another key");
        fs::copy(vault.path(shared("s")), vault.path(one)).unwrap();
        assert!(matches!(vault.read(one), Err(VaultError::Undecryptable(_))), "the login of all keys");
        assert!(vault.remove(one).unwrap() && !vault.keys("s").unwrap().contains(&"a".to_owned()));
        assert!(vault.keys("other").unwrap().is_empty());
        fs::write(vault.folder_of_keys("s").join("%2F%zz.login"), "").unwrap();
        fs::write(vault.folder_of_keys("s").join("B.login"), "").unwrap();
        assert_eq!(vault.keys("s").unwrap().len(), names.len() - 1);
    }
}

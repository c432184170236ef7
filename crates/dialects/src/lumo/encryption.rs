//! [`Encryption`]: whether to encrypt requests, and for which recipient (docs/protocols/lumo.md#encryption).

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::u2l::Recipient;
use crate::{
    UpstreamRequest,
    failure::{Failure, Kind},
    settings::Settings,
};

/// Warnings about the key start this many seconds before it expires: 90 days.
pub(super) const WARNED_BEFORE: u64 = 90 * 86_400;

/// How to encrypt requests and their responses.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
pub struct Encryption {
    /// [encrypt](#encryption-of-lumo) requests and responses (U2L). Arguments of native
    /// calls are then sent when complete
    #[setting(key = "u2l", file_only)]
    pub is_on: bool,
    /// the server's armored OpenPGP certificate, should Lumo's change
    #[setting(key = "u2l_key", or = "Lumo's")]
    pub key_file: Option<PathBuf>,
    /// The server that can decrypt the requests.
    #[setting(skip)]
    pub recipient: Option<Arc<Recipient>>,
}

/// Why requests cannot be encrypted with the server's key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file of `u2l_key` cannot be read, or contains no such key.
    #[error("`u2l_key`, {path}: {1}", path = .0.display())]
    File(PathBuf, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// There is no key that can encrypt.
    #[error("{0}")]
    Unusable(&'static str),
}

impl Encryption {
    /// Reads the server's key with `read`. Returns a warning if it expires soon after `now`, which is a Unix
    /// time in seconds.
    ///
    /// # Errors
    /// The key cannot be read, or this program was built without encryption.
    pub(super) fn prepare(
        &mut self,
        read: &dyn Fn(&Path) -> io::Result<String>,
        now: u64,
    ) -> Result<Option<String>, KeyError> {
        if !self.is_on {
            return Ok(None);
        }
        let recipient = Recipient::find(self.key_file.as_deref(), read)?;
        let left = recipient.expires_at().map(|end| end.saturating_sub(now));
        let warning = left.filter(|left| *left < WARNED_BEFORE).map(|left| {
            let fingerprint = recipient.fingerprint();
            let when = match left {
                0 => "has expired".to_owned(),
                left => format!("expires in {} days", left.div_ceil(86_400)),
            };
            format!("the key {fingerprint} {when}; set `u2l_key` to the server's new one")
        });
        self.recipient = Some(Arc::new(recipient));
        Ok(warning)
    }

    /// Encrypts a request if encryption is on.
    ///
    /// # Errors
    /// The request cannot be encrypted. It is never sent as plain text.
    pub(super) fn encrypt(
        &self,
        request: UpstreamRequest,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<UpstreamRequest, Failure> {
        if !self.is_on {
            return Ok(request);
        }
        if let Some(recipient) = &self.recipient {
            let (body, key) = recipient.seal(&request.body, random)?;
            return Ok(UpstreamRequest { body, key: Some(key), ..request });
        }
        Err(Failure::new(Kind::Internal, "there is no key to encrypt the request with"))
    }
}

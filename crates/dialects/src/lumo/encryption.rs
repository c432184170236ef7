//! [`Encryption`]: whether requests are encrypted, and for whom (docs/protocols/lumo.md#encryption).

use std::path::PathBuf;
#[cfg(feature = "lumo-u2l")]
use std::sync::Arc;
use std::{io, path::Path};

#[cfg(feature = "lumo-u2l")]
use super::u2l::Recipient;
use crate::{
    UpstreamRequest,
    failure::{Failure, Kind},
    settings::{Field, Key, Settings},
};

/// How long before the key's end there is a warning, in seconds: 90 days.
#[cfg(feature = "lumo-u2l")]
const WARNED_BEFORE: u64 = 90 * 86_400;

/// The encryption of requests and their responses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encryption {
    /// Requests are encrypted.
    pub is_on: bool,
    /// The certificate of the server, in place of Lumo's.
    pub key_file: Option<PathBuf>,
    /// Who can decrypt requests.
    #[cfg(feature = "lumo-u2l")]
    pub recipient: Option<Arc<Recipient>>,
}

impl Encryption {
    /// The keys of the configuration.
    pub(super) fn settings(&mut self, keys: &mut dyn Settings) {
        keys.key(
            Key::new(
                "u2l",
                "[encrypt](#encryption-of-lumo) requests and responses (U2L; feature `lumo-u2l`). Arguments of \
                 native calls are then sent when complete",
            )
            .file_only(),
            Field::Switch(&mut self.is_on),
        );
        keys.key(
            Key::new("u2l_key", "the server's armored OpenPGP certificate, should Lumo's change")
                .or("Lumo's"),
            Field::Path(&mut self.key_file),
        );
    }

    /// Reads the server's key with `read`. Gives a warning if it expires soon after `now`, in seconds of Unix time.
    ///
    /// # Errors
    /// There is no such key, or no encryption in this program.
    pub(super) fn prepare(
        &mut self,
        read: &dyn Fn(&Path) -> io::Result<String>,
        now: u64,
    ) -> Result<Option<String>, String> {
        if !self.is_on {
            return Ok(None);
        }
        self.find_recipient(read, now)
    }

    #[cfg(feature = "lumo-u2l")]
    fn find_recipient(
        &mut self,
        read: &dyn Fn(&Path) -> io::Result<String>,
        now: u64,
    ) -> Result<Option<String>, String> {
        let recipient = match &self.key_file {
            None => Recipient::lumo()?,
            Some(path) => {
                let wrong = |problem: String| format!("`u2l_key`, {}: {problem}", path.display());
                Recipient::read(&read(path).map_err(|error| wrong(error.to_string()))?).map_err(wrong)?
            }
        };
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

    #[cfg(not(feature = "lumo-u2l"))]
    fn find_recipient(
        &mut self,
        _read: &dyn Fn(&Path) -> io::Result<String>,
        _now: u64,
    ) -> Result<Option<String>, String> {
        Err("`u2l`: this program was built without it; build it with `--features lumo-u2l`".to_owned())
    }

    /// Encrypts a request, if requests are encrypted.
    ///
    /// # Errors
    /// It cannot be encrypted. It is never sent as plain text instead.
    #[cfg_attr(not(feature = "lumo-u2l"), expect(unused_variables, reason = "as with the feature"))]
    pub(super) fn encrypt(
        &self,
        request: UpstreamRequest,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<UpstreamRequest, Failure> {
        if !self.is_on {
            return Ok(request);
        }
        #[cfg(feature = "lumo-u2l")]
        if let Some(recipient) = &self.recipient {
            let (body, key) = recipient.seal(&request.body, random)?;
            return Ok(UpstreamRequest { body, key: Some(key), ..request });
        }
        Err(Failure::new(Kind::Internal, "there is no key to encrypt the request with"))
    }
}

#[cfg(all(test, feature = "lumo-u2l"))]
mod tests {
    use super::*;

    #[test]
    fn expiry_of_the_u2l_key_is_a_warning() {
        let end = Recipient::lumo().unwrap().expires_at().unwrap();
        let warning = |now: u64| {
            let mut encryption = Encryption { is_on: true, ..Encryption::default() };
            encryption.prepare(&|_| Err(io::ErrorKind::NotFound.into()), now).unwrap()
        };
        assert_eq!(warning(end - WARNED_BEFORE), None);
        for (now, expected) in
            [(end - 86_400, "expires in 1 days"), (end, "has expired"), (u64::MAX, "has expired")]
        {
            let said = warning(now).unwrap();
            assert!(said.contains(expected) && said.contains("f032a116"), "{said}");
        }
    }
}

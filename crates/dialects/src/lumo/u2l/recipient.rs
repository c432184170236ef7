//! [`Recipient`]: the OpenPGP key with which request keys are encrypted.

use std::{
    io::{self, Cursor},
    path::Path,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use pgp::{
    composed::{Deserializable, MessageBuilder, SignedPublicKey, SignedPublicSubKey},
    crypto::sym::SymmetricKeyAlgorithm,
    types::KeyDetails,
};
use rand_core::{CryptoRng, RngCore};

use super::{super::KeyError, Random, RequestKey};
use crate::failure::{Failure, Kind};

/// Lumo's key (docs/protocols/lumo.md#encryption).
const LUMO: &str = include_str!("lumo.asc");

const FINGERPRINT: &str = "f032a1169ddff8eda728e59a9a74c3ef61514a2a";

/// The public key of a server that can decrypt requests.
#[derive(Clone)]
pub struct Recipient {
    key: SignedPublicSubKey,
    fingerprint: String,
    /// When the key expires, as Unix time in seconds.
    expires_at: Option<u64>,
}

crate::wire::debug_fields!(Recipient { fingerprint });

impl PartialEq for Recipient {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl Eq for Recipient {}

impl Recipient {
    /// Returns Lumo's own key.
    ///
    /// # Errors
    /// The built-in key does not have the expected fingerprint.
    pub fn lumo() -> Result<Self, KeyError> {
        let lumo = Self::read(LUMO)?;
        let is_known = lumo.fingerprint == FINGERPRINT;
        if is_known { Ok(lumo) } else { Err(KeyError::Unusable("Lumo's key is another one", None)) }
    }

    /// Reads the key from an armored certificate.
    ///
    /// # Errors
    /// `armored` is not a certificate, its signatures are invalid, or it has no encryption subkey.
    pub fn read(armored: &str) -> Result<Self, KeyError> {
        let wrong = |what| move |error: pgp::errors::Error| KeyError::Unusable(what, Some(error.into()));
        let (certificate, _) = SignedPublicKey::from_armor_single(Cursor::new(armored.as_bytes()))
            .map_err(wrong("it is not an armored OpenPGP certificate"))?;
        certificate.verify_bindings().map_err(wrong("its signatures are wrong"))?;
        let encrypts = |key: &&SignedPublicSubKey| key.algorithm().can_encrypt();
        let key = certificate.public_subkeys.iter().find(encrypts);
        let key = key.ok_or(KeyError::Unusable("it has no subkey for encryption", None))?.clone();
        let lifetimes = key.signatures.iter().filter_map(|signature| signature.key_expiration_time());
        let lifetime =
            lifetimes.map(|lifetime| u64::from(lifetime.as_secs())).filter(|seconds| *seconds > 0).max();
        let created = u64::from(key.created_at().as_secs());
        Ok(Self {
            fingerprint: certificate.fingerprint().to_string(),
            expires_at: lifetime.map(|lifetime| created + lifetime),
            key,
        })
    }

    /// Returns the key in the certificate file, which is read with `read`, or Lumo's own key if there is no
    /// file.
    ///
    /// # Errors
    /// The file cannot be read, or contains no such key.
    pub(in super::super) fn find(
        key_file: Option<&Path>,
        read: &dyn Fn(&Path) -> io::Result<String>,
    ) -> Result<Self, KeyError> {
        let Some(path) = key_file else { return Self::lumo() };
        let wrong = |error| KeyError::File(path.to_owned(), error);
        Self::read(&read(path).map_err(|error| wrong(error.into()))?).map_err(|error| wrong(error.into()))
    }

    /// The fingerprint of the certificate, in lower case.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// When the key expires, as Unix time in seconds.
    pub fn expires_at(&self) -> Option<u64> {
        self.expires_at
    }

    /// Encrypts a request's key for the recipient, as SEIPD version 1, which openpgp.js also uses.
    ///
    /// # Errors
    /// The recipient's key cannot encrypt.
    pub(super) fn wrap(&self, key: &RequestKey, random: Random<'_>) -> Result<String, Failure> {
        let mut random = Source(random);
        let message = MessageBuilder::from_bytes("", key.bytes().to_vec());
        let mut message = message.seipd_v1(&mut random, SymmetricKeyAlgorithm::AES256);
        let wrapped = match message.encrypt_to_key(&mut random, &self.key) {
            Ok(_) => message.to_vec(&mut random),
            Err(error) => Err(error),
        };
        let cannot =
            |_| Failure::new(Kind::Internal, "the request's key cannot be encrypted for the upstream");
        wrapped.map(|bytes| STANDARD.encode(bytes)).map_err(cannot)
    }
}

/// Adapts a source of randomness to the trait that `pgp` requires.
struct Source<'r>(Random<'r>);

impl RngCore for Source<'_> {
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.fill_bytes(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill_bytes(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        (self.0)(bytes);
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rand_core::Error> {
        self.fill_bytes(bytes);
        Ok(())
    }
}

impl CryptoRng for Source<'_> {}

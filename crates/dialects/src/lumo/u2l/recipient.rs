//! [`Recipient`]: the OpenPGP key with which request keys are encrypted.

use std::{io, path::Path};

use aes::{
    Aes128, Aes192, Aes256,
    cipher::{BlockCipherEncrypt, BlockSizeUser, KeyInit, KeyIvInit, consts::U16},
};
use aes_kw::AesKw;
use base64::{Engine, engine::general_purpose::STANDARD};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use x25519_dalek::{PublicKey, StaticSecret};

use super::{
    super::KeyError,
    Random, RequestKey,
    certificate::{self, CURVE25519_OID, ECDH, POINT_BITS, POINT_MARK, Subkey},
};
use crate::failure::{Failure, Kind};

/// Lumo's key (docs/protocols/lumo.md#encryption).
const LUMO: &str = include_str!("lumo.asc");

const FINGERPRINT: &str = "f032a1169ddff8eda728e59a9a74c3ef61514a2a";

/// The public key of a server that can decrypt requests.
#[derive(Clone)]
pub struct Recipient {
    key: Subkey,
    fingerprint: String,
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
        if is_known { Ok(lumo) } else { Err(KeyError::Unusable("Lumo's key is another one")) }
    }

    /// Reads the key from an armored certificate.
    ///
    /// # Errors
    /// `armored` is not a certificate, its signatures are invalid, or it has no subkey for encryption with Curve25519.
    pub fn read(armored: &str) -> Result<Self, KeyError> {
        let key = certificate::read(armored).map_err(KeyError::Unusable)?;
        let fingerprint = key.certificate.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { key, fingerprint })
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
        self.key.expires_at
    }

    /// Encrypts a request's key for the recipient, as an OpenPGP message like those of openpgp.js: the encrypted session key
    /// (PKESK version 3), and the encrypted data (SEIPD version 1).
    ///
    /// # Errors
    /// The recipient's key cannot encrypt.
    pub(super) fn wrap(&self, key: &RequestKey, random: Random<'_>) -> Result<String, Failure> {
        let mut session_key = [0; 32];
        random(&mut session_key);
        let cannot =
            || Failure::new(Kind::Internal, "the request's key cannot be encrypted for the upstream");
        let mut message = encrypted_session_key(&self.key, &session_key, random).ok_or_else(cannot)?;
        message.extend(encrypted_data(key.bytes(), &session_key, random));
        Ok(STANDARD.encode(message))
    }
}

/// The number of AES-256 (RFC 9580, section 9.3).
const AES256: u8 = 9;

/// Writes a packet whose body is shorter than 192 bytes.
fn packet(tag: u8, body: &[u8]) -> impl Iterator<Item = u8> {
    [0xc0 | tag, body.len() as u8].into_iter().chain(body.iter().copied())
}

/// Returns the packet with the session key, encrypted by ECDH (RFC 9580, sections 5.1.1 and 11.5). `None` if the recipient's point
/// is one that no honest key has.
fn encrypted_session_key(recipient: &Subkey, key: &[u8; 32], random: Random<'_>) -> Option<Vec<u8>> {
    let mut secret = [0; 32];
    random(&mut secret);
    let secret = StaticSecret::from(secret);
    let shared = secret.diffie_hellman(&PublicKey::from(recipient.point));
    if !shared.was_contributory() {
        return None;
    }
    let mut derived = vec![0, 0, 0, 1];
    derived.extend_from_slice(shared.as_bytes());
    derived.extend_from_slice(CURVE25519_OID);
    derived.push(ECDH);
    derived.extend_from_slice(&recipient.derivation.bytes());
    derived.extend_from_slice(b"Anonymous Sender    ");
    derived.extend_from_slice(&recipient.fingerprint);
    let derived = digest(recipient.derivation.hash()?, &derived);

    let sum = key.iter().fold(0, |sum: u16, byte| sum.wrapping_add(u16::from(*byte)));
    let mut padded = vec![AES256];
    padded.extend_from_slice(key);
    padded.extend_from_slice(&sum.to_be_bytes());
    padded.extend_from_slice(&[5; 5]);
    let derived = derived.as_ref();
    let wrapped = match recipient.derivation.cipher {
        7 => wrapped::<Aes128>(derived.get(..16)?, &padded),
        8 => wrapped::<Aes192>(derived.get(..24)?, &padded),
        _ => wrapped::<Aes256>(derived.get(..32)?, &padded),
    }?;

    let mut body = vec![3];
    body.extend_from_slice(recipient.fingerprint.last_chunk::<8>()?);
    body.push(ECDH);
    body.extend_from_slice(&POINT_BITS);
    body.push(POINT_MARK);
    body.extend_from_slice(PublicKey::from(&secret).as_bytes());
    body.push(wrapped.len() as u8);
    body.extend_from_slice(&wrapped);
    Some(packet(1, &body).collect())
}

/// Wraps a padded session key (RFC 3394, section 2.2.1).
fn wrapped<Aes>(key: &[u8], padded: &[u8]) -> Option<[u8; 48]>
where
    Aes: KeyInit + BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    let mut wrapped = [0; 48];
    AesKw::<Aes>::new_from_slice(key).ok()?.wrap_key(padded, &mut wrapped).ok()?;
    Some(wrapped)
}

/// Returns the packet with the encrypted data and the digest that protects it (RFC 9580, section 5.13.1).
fn encrypted_data(plain: &[u8], key: &[u8; 32], random: Random<'_>) -> Vec<u8> {
    let mut prefix = [0; 16];
    random(&mut prefix);
    let mut data = prefix.to_vec();
    data.extend_from_slice(&prefix[14..]);
    // Binary data without a name or a date (RFC 9580, section 5.9).
    let literal = [&[b'b', 0, 0, 0, 0, 0], plain].concat();
    data.extend(packet(11, &literal));
    data.extend_from_slice(&[0xd3, 20]);
    let digest = digest(&SHA1_FOR_LEGACY_USE_ONLY, &data);
    data.extend_from_slice(digest.as_ref());
    cfb_mode::Encryptor::<Aes256>::new(key.into(), &[0; 16].into()).encrypt(&mut data);
    packet(18, &[&[1], data.as_slice()].concat()).collect()
}

//! [`RequestKey`]: the key that encrypts a request and its response.

use base64::{Engine, engine::general_purpose::STANDARD};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use super::{Random, undecryptable};
use crate::failure::{Failure, Kind};

pub(super) const KEY_LENGTH: usize = 32;

/// The key of a request and the id that ties encrypted pieces to that request.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestKey {
    key: [u8; KEY_LENGTH],
    id: String,
}

crate::wire::debug_fields!(RequestKey { id });

impl RequestKey {
    /// Creates a key from its bytes and its id, which must be a UUID.
    pub fn new(key: [u8; KEY_LENGTH], id: impl Into<String>) -> Self {
        Self { key, id: id.into() }
    }

    /// Generates a key, with a version 4 UUID as its id (RFC 9562, section 5.4).
    pub(super) fn random(random: Random<'_>) -> Self {
        let (mut key, mut id) = ([0; KEY_LENGTH], [0; 16]);
        random(&mut key);
        random(&mut id);
        let number = u128::from_be_bytes(id) & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
        let hex = format!("{number:032x}");
        let parts = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)]
            .map(|(begin, end)| hex.get(begin..end).unwrap_or_default());
        Self::new(key, parts.join("-"))
    }

    /// The id, which is a UUID.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.key
    }

    /// Encrypts the content of a turn or the bytes of an image. The nonce must never be used again with the
    /// same key.
    ///
    /// # Errors
    /// The text is too long for AES-GCM.
    pub fn seal(&self, plain: &[u8], nonce: [u8; NONCE_LEN]) -> Result<String, Failure> {
        let mut sealed = nonce.to_vec();
        let mut content = plain.to_vec();
        let aad = format!("lumo.request.{}.turn", self.id);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let done =
            self.cipher().and_then(|key| key.seal_in_place_append_tag(nonce, Aad::from(aad), &mut content));
        done.map_err(|_| Failure::new(Kind::Internal, "a turn cannot be encrypted"))?;
        sealed.append(&mut content);
        Ok(STANDARD.encode(sealed))
    }

    /// Decrypts a piece of the response.
    ///
    /// # Errors
    /// The piece is not base64, is too short to contain a nonce and a tag, or was encrypted for another
    /// purpose.
    pub fn open(&self, sealed: &str) -> Result<Vec<u8>, Failure> {
        let bytes = STANDARD.decode(sealed).map_err(|_| undecryptable("it is not base64"))?;
        let (nonce, content) = bytes
            .split_first_chunk::<NONCE_LEN>()
            .filter(|(_, content)| content.len() >= AES_256_GCM.tag_len())
            .ok_or_else(|| undecryptable("it is too short"))?;
        let mut content = content.to_vec();
        let aad = format!("lumo.response.{}.chunk", self.id);
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened =
            self.cipher().and_then(|key| Ok(key.open_in_place(nonce, Aad::from(aad), &mut content)?.len()));
        let length = opened.map_err(|_| undecryptable("it was not encrypted for this request"))?;
        content.truncate(length);
        Ok(content)
    }

    fn cipher(&self) -> Result<LessSafeKey, ring::error::Unspecified> {
        UnboundKey::new(&AES_256_GCM, &self.key).map(LessSafeKey::new)
    }
}

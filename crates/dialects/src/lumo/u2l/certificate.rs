//! [`Subkey`]: the encryption subkey of an OpenPGP certificate (RFC 9580, section 10.1).
//!
//! Only what Lumo's keys have is read: armor, packets of version 4, a primary key for Ed25519, and subkeys
//! for ECDH with Curve25519.

use std::iter;

use base64::{Engine, engine::general_purpose::STANDARD};
use ring::{
    digest::{self, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512, digest},
    signature::{ED25519, UnparsedPublicKey},
};

const BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const END: &str = "-----END PGP PUBLIC KEY BLOCK-----";

/// The types of packets (RFC 9580, section 5).
const SIGNATURE: u8 = 2;
const PUBLIC_KEY: u8 = 6;
const PUBLIC_SUBKEY: u8 = 14;

/// The types of signatures (RFC 9580, section 5.2.1).
const SUBKEY_BINDING: u8 = 0x18;
const SUBKEY_REVOCATION: u8 = 0x28;

/// The algorithms of public keys (RFC 9580, section 9.1).
pub(super) const ECDH: u8 = 18;
const EDDSA: u8 = 22;

/// The algorithms' parameters: the length of the curve's OID, and the OID (RFC 9580, section 9.2).
const ED25519_OID: &[u8] = &[9, 0x2b, 6, 1, 4, 1, 0xda, 0x47, 0x0f, 1];
pub(super) const CURVE25519_OID: &[u8] = &[10, 0x2b, 6, 1, 4, 1, 0x97, 0x55, 1, 5, 1];

/// The length in bits of a point of these curves, whose first byte is 0x40 (RFC 9580, section 11.2).
pub(super) const POINT_BITS: [u8; 2] = 263_u16.to_be_bytes();
pub(super) const POINT_MARK: u8 = 0x40;

pub(super) type Point = [u8; 32];

/// A subkey that encrypts, and the certificate that it belongs to.
#[derive(Debug, Clone)]
pub(super) struct Subkey {
    pub(super) point: Point,
    pub(super) fingerprint: [u8; 20],
    /// How the key that wraps session keys is derived.
    pub(super) derivation: Derivation,
    pub(super) certificate: [u8; 20],
    /// When the key expires, as Unix time in seconds.
    pub(super) expires_at: Option<u64>,
}

/// The parameters of ECDH (RFC 9580, section 11.5).
#[derive(Debug, Clone, Copy)]
pub(super) struct Derivation {
    hash: u8,
    pub(super) cipher: u8,
}

impl Derivation {
    pub(super) fn hash(&self) -> Option<&'static digest::Algorithm> {
        hash(self.hash)
    }

    /// The parameters as they are written: their length, a reserved byte, and both algorithms.
    pub(super) fn bytes(self) -> [u8; 4] {
        [3, 1, self.hash, self.cipher]
    }
}

/// Reads the first subkey for encryption from an armored certificate.
///
/// # Errors
/// The certificate is damaged, or has no such subkey.
pub(super) fn read(armored: &str) -> Result<Subkey, &'static str> {
    let bytes = unarmored(armored).ok_or("it is not an armored OpenPGP certificate")?;
    let packets: Option<Vec<_>> = packets(&bytes).collect();
    let packets = packets.ok_or("its packets are damaged")?;
    let [primary, rest @ ..] = packets.as_slice() else { return Err("it is empty") };
    let signer = (primary.tag == PUBLIC_KEY).then(|| signer(primary.body)).flatten();
    let signer = signer.ok_or("its primary key is not one for Ed25519")?;
    let mut problem = "it has no subkey for encryption with Curve25519";
    for (place, packet) in rest.iter().enumerate().filter(|(_, packet)| packet.tag == PUBLIC_SUBKEY) {
        let signatures = rest.iter().skip(place + 1).take_while(|packet| packet.tag == SIGNATURE);
        let Some(mut subkey) = Subkey::parse(packet.body, fingerprint(primary.body)) else { continue };
        let signatures: Vec<_> = signatures.filter_map(|packet| Signature::parse(packet.body)).collect();
        if signatures.iter().any(|signature| signature.kind == SUBKEY_REVOCATION) {
            problem = "its subkey is revoked";
            continue;
        }
        let bound = |signature: &&Signature<'_>| {
            signature.kind == SUBKEY_BINDING && signature.is_valid(&signer, primary.body, packet.body)
        };
        let Some(binding) = signatures.iter().filter(bound).max_by_key(|signature| signature.created())
        else {
            problem = "its signatures are wrong";
            continue;
        };
        if !binding.allows_encryption() {
            continue;
        }
        let lifetime = binding.number(KEY_LIFETIME).filter(|seconds| *seconds > 0);
        subkey.expires_at = lifetime.zip(created(packet.body)).map(|(lifetime, created)| created + lifetime);
        return Ok(subkey);
    }
    Err(problem)
}

/// Returns the bytes in the armor. Its checksum is ignored, as RFC 9580, section 6.1 requires.
fn unarmored(armored: &str) -> Option<Vec<u8>> {
    let (_, armored) = armored.split_once(BEGIN)?;
    let (armored, _) = armored.split_once(END)?;
    let lines = armored.lines().map(str::trim).skip(1);
    let lines = lines.skip_while(|line| !line.is_empty()).take_while(|line| !line.starts_with('='));
    STANDARD.decode(lines.collect::<String>()).ok()
}

struct Packet<'b> {
    tag: u8,
    body: &'b [u8],
}

/// Returns the packets, and `None` in place of the first that is damaged.
fn packets(mut bytes: &[u8]) -> impl Iterator<Item = Option<Packet<'_>>> {
    iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let packet = packet(&mut bytes);
        if packet.is_none() {
            bytes = &[];
        }
        Some(packet)
    })
}

/// Takes the first packet (RFC 9580, section 4.2). Keys have no partial or indeterminate lengths.
fn packet<'b>(bytes: &mut &'b [u8]) -> Option<Packet<'b>> {
    let head = number(bytes, 1)?;
    let (tag, length) = match head {
        0xc0.. => (head & 0x3f, length(bytes)?),
        0x80.. => (head >> 2 & 0xf, number(bytes, *[1, 2, 4].get(head as usize & 3)?)?),
        _ => return None,
    };
    Some(Packet { tag: tag as u8, body: take(bytes, length)? })
}

/// Takes a length as packets and subpackets have it (RFC 9580, section 4.2.1).
fn length(bytes: &mut &[u8]) -> Option<u64> {
    match number(bytes, 1)? {
        first @ ..192 => Some(first),
        first @ 192..224 => Some((first - 192) * 256 + number(bytes, 1)? + 192),
        255 => number(bytes, 4),
        _ => None,
    }
}

fn number(bytes: &mut &[u8], length: u64) -> Option<u64> {
    Some(take(bytes, length)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn take<'b>(bytes: &mut &'b [u8], length: u64) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(taken)
}

/// When a key of version 4 was created (RFC 9580, section 5.5.2.2).
fn created(key: &[u8]) -> Option<u64> {
    number(&mut key.get(1..)?, 4)
}

/// The algorithm and the parameters of a key of version 4.
fn parameters(key: &[u8]) -> Option<(u8, &[u8])> {
    let ([4, _, _, _, _, algorithm], parameters) = key.split_first_chunk()? else { return None };
    Some((*algorithm, parameters))
}

/// Takes a point of Curve25519 or Ed25519 behind the curve's OID.
fn point<'b>(parameters: &'b [u8], oid: &[u8]) -> Option<(&'b Point, &'b [u8])> {
    parameters.strip_prefix(oid)?.strip_prefix(&POINT_BITS)?.strip_prefix(&[POINT_MARK])?.split_first_chunk()
}

/// The key with which a certificate's signatures are verified.
fn signer(primary: &[u8]) -> Option<UnparsedPublicKey<Point>> {
    let (algorithm, parameters) = parameters(primary)?;
    let (point, _) = point(parameters, ED25519_OID).filter(|_| algorithm == EDDSA)?;
    Some(UnparsedPublicKey::new(&ED25519, *point))
}

/// Writes a key as it is hashed for its fingerprint and for signatures (RFC 9580, section 5.2.4).
fn hashed(key: &[u8]) -> impl Iterator<Item = u8> {
    let [.., high, low] = key.len().to_be_bytes();
    [0x99, high, low].into_iter().chain(key.iter().copied())
}

fn fingerprint(key: &[u8]) -> [u8; 20] {
    let bytes: Vec<u8> = hashed(key).collect();
    digest(&SHA1_FOR_LEGACY_USE_ONLY, &bytes).as_ref().try_into().unwrap_or_default()
}

fn hash(id: u8) -> Option<&'static digest::Algorithm> {
    match id {
        8 => Some(&SHA256),
        9 => Some(&SHA384),
        10 => Some(&SHA512),
        _ => None,
    }
}

impl Subkey {
    fn parse(key: &[u8], certificate: [u8; 20]) -> Option<Self> {
        let (ECDH, parameters) = parameters(key)? else { return None };
        let (point, derivation) = point(parameters, CURVE25519_OID)?;
        let [3, 1, hash, cipher @ 7..=9] = *derivation else { return None };
        let derivation = Derivation { hash, cipher };
        derivation.hash()?;
        Some(Self { point: *point, fingerprint: fingerprint(key), derivation, certificate, expires_at: None })
    }
}

/// The types of subpackets (RFC 9580, section 5.2.3.7).
const CREATED: u8 = 2;
const KEY_LIFETIME: u8 = 9;
const KEY_FLAGS: u8 = 27;

/// Bits of the key flags: encrypts messages, encrypts storage.
const ENCRYPTS: u8 = 0x0c;

/// A signature of version 4 (RFC 9580, section 5.2.3).
struct Signature<'b> {
    kind: u8,
    hash: &'static digest::Algorithm,
    /// The part of the packet that is signed: all up to the hashed subpackets.
    signed: &'b [u8],
    subpackets: &'b [u8],
    /// Both numbers of an EdDSA signature.
    numbers: [u8; 64],
}

impl<'b> Signature<'b> {
    fn parse(packet: &'b [u8]) -> Option<Self> {
        let mut rest = packet;
        let [4, kind, EDDSA, hash_id] = *take(&mut rest, 4)? else { return None };
        let length = number(&mut rest, 2)?;
        let subpackets = take(&mut rest, length)?;
        let signed = packet.get(..packet.len() - rest.len())?;
        let length = number(&mut rest, 2)?;
        // Subpackets that are not hashed, and the begin of the hash.
        take(&mut rest, length)?;
        take(&mut rest, 2)?;
        let mut numbers = [0; 64];
        for half in numbers.chunks_exact_mut(32) {
            let bits = number(&mut rest, 2)?;
            let integer = take(&mut rest, bits.div_ceil(8))?;
            let begin = half.len().checked_sub(integer.len())?;
            half.get_mut(begin..)?.copy_from_slice(integer);
        }
        Some(Self { kind, hash: hash(hash_id)?, signed, subpackets, numbers })
    }

    /// Whether the primary key has signed this packet and both keys (RFC 9580, section 5.2.4).
    fn is_valid(&self, signer: &UnparsedPublicKey<Point>, primary: &[u8], subkey: &[u8]) -> bool {
        let mut bytes: Vec<u8> = hashed(primary).chain(hashed(subkey)).collect();
        bytes.extend_from_slice(self.signed);
        bytes.extend_from_slice(&[4, 0xff]);
        bytes.extend_from_slice(&(self.signed.len() as u32).to_be_bytes());
        signer.verify(digest(self.hash, &bytes).as_ref(), &self.numbers).is_ok()
    }

    fn subpacket(&self, kind: u8) -> Option<&'b [u8]> {
        let mut rest = self.subpackets;
        while !rest.is_empty() {
            let length = length(&mut rest)?;
            let (found, content) = take(&mut rest, length)?.split_first()?;
            // The high bit marks subpackets that must be understood.
            if found & 0x7f == kind {
                return Some(content);
            }
        }
        None
    }

    fn number(&self, kind: u8) -> Option<u64> {
        number(&mut self.subpacket(kind)?, 4)
    }

    fn created(&self) -> Option<u64> {
        self.number(CREATED)
    }

    fn allows_encryption(&self) -> bool {
        let flags = self.subpacket(KEY_FLAGS).and_then(<[u8]>::first);
        flags.is_none_or(|flags| flags & ENCRYPTS != 0)
    }
}

//! [`Identity`]: a certificate chain and the key of its first certificate.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use ring::digest::{Context, SHA256};
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use tokio_rustls::rustls::{
    CertificateError, Error, InconsistentKeys, RootCertStore,
    client::verify_server_cert_signed_by_trust_anchor,
    pki_types::{
        CertificateDer, PrivateKeyDer, UnixTime,
        pem::{self, PemObject},
    },
    server::ParsedCertificate,
    sign::CertifiedKey,
};

use super::{PemError, chain, provider, read};

/// The files of a certificate chain and its key. Both may change at run time.
#[derive(Debug, Clone)]
pub struct IdentityFiles {
    /// A PEM file with the chain, which starts with toolwire's own certificate.
    pub cert: PathBuf,
    /// The key of toolwire's own certificate.
    pub key: KeySource,
}

#[derive(Debug, Clone)]
pub enum KeySource {
    File(PathBuf),
    /// The PEM text itself.
    Text(SecretString),
}

/// A certificate that toolwire presents.
#[derive(Debug, Clone)]
pub struct Identity {
    pub(crate) certified: Arc<CertifiedKey>,
    /// The expiry time of toolwire's own certificate. `None` if it cannot be determined.
    pub(crate) expires: Option<SystemTime>,
    /// Digest of the content of both files.
    digest: [u8; 32],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityPart {
    Cert,
    Key,
}

pub(crate) type IdentityError = (IdentityPart, PemError);

impl IdentityFiles {
    /// Reads both files. Returns `None` if their content is the same as in `known`. Blocks.
    ///
    /// # Errors
    /// A file cannot be read, or the certificate and the key do not match.
    pub fn read(&self, known: Option<&Identity>) -> Result<Option<Identity>, IdentityError> {
        let cert = read(&self.cert).map_err(|wrong| (IdentityPart::Cert, wrong))?;
        let key = self.key.read().map_err(|wrong| (IdentityPart::Key, wrong))?;
        let digest = digest(&cert, key.expose_secret());
        if known.is_some_and(|known| known.digest == digest) {
            return Ok(None);
        }
        let chain = chain(&self.cert, &cert).map_err(|wrong| (IdentityPart::Cert, wrong))?;
        let expires = chain.first().and_then(expiry);
        let key = self.key.parse(key.expose_secret()).map_err(|wrong| (IdentityPart::Key, wrong))?;
        let certified = CertifiedKey::from_der(chain, key, &provider());
        let certified = Arc::new(certified.map_err(|error| self.wrong(error))?);
        Ok(Some(Identity { certified, expires, digest }))
    }

    fn wrong(&self, source: Error) -> IdentityError {
        let (key, cert) = (self.key.name(), self.cert.clone());
        match source {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                (IdentityPart::Key, PemError::KeyMismatch { key, cert })
            }
            Error::InvalidCertificate(_) => {
                (IdentityPart::Cert, PemError::InvalidCertificate { path: cert, source })
            }
            _ => (IdentityPart::Key, PemError::UnusableKey { key, source }),
        }
    }
}

impl Identity {
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// The expiry time of toolwire's own certificate. `None` if it cannot be determined.
    pub fn expires(&self) -> Option<SystemTime> {
        self.expires
    }

    /// The expiry time of toolwire's own certificate if it has passed.
    pub fn expired(&self) -> Option<SystemTime> {
        self.expires.filter(|expires| *expires <= SystemTime::now())
    }
}

impl KeySource {
    fn read(&self) -> Result<SecretSlice<u8>, PemError> {
        match self {
            Self::File(path) => Ok(read(path)?.into()),
            Self::Text(text) => Ok(text.expose_secret().as_bytes().to_vec().into()),
        }
    }

    fn parse(&self, pem: &[u8]) -> Result<PrivateKeyDer<'static>, PemError> {
        const ENCRYPTED: &[u8] = b"BEGIN ENCRYPTED PRIVATE KEY";
        let name = self.name();
        PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
            _ if memchr::memmem::find(pem, ENCRYPTED).is_some() => PemError::EncryptedKey(name),
            pem::Error::NoItemsFound => PemError::NoKey(name),
            _ => PemError::KeyNotPem(name),
        })
    }

    /// The name of the key in messages.
    fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Text(_) => "the key".to_owned(),
        }
    }
}

fn digest(cert: &[u8], key: &[u8]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    // The length separates the two parts.
    for part in [&cert.len().to_le_bytes(), cert, key] {
        context.update(part);
    }
    context.finish().as_ref().try_into().unwrap_or_default()
}

/// The expiry time of `certificate`.
///
/// rustls does not expose it, but reports it in the error when a certificate is verified at a later time. That check
/// comes before those of the issuer and the purpose.
fn expiry(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    let end_of_time = UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX));
    let algorithms = provider().signature_verification_algorithms.all;
    let roots = RootCertStore::empty();
    match verify_server_cert_signed_by_trust_anchor(&parsed, &roots, &[], end_of_time, algorithms) {
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(not_after.as_secs()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use tempfile::TempDir;

    use super::*;
    use crate::causes::causes;

    /// Creates a certificate that expires at the start of `year`, and its key, in PEM.
    fn made(year: i32) -> (String, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, 1, 1);
        (params.self_signed(&key).unwrap().pem(), key)
    }

    fn files(folder: &TempDir, cert: &str, key: &str) -> IdentityFiles {
        let path = |name: &str, content: &str| {
            let path = folder.path().join(name);
            fs::write(&path, content).unwrap();
            path
        };
        IdentityFiles { cert: path("cert.pem", cert), key: KeySource::File(path("key.pem", key)) }
    }

    fn fault(cert: &str, key: &str) -> (IdentityPart, String) {
        let folder = TempDir::new().unwrap();
        let (part, fault) = files(&folder, cert, key).read(None).unwrap_err();
        (part, causes(&fault).replace(folder.path().to_str().unwrap(), ""))
    }

    #[test]
    fn files_are_read_only_once_for_a_content() {
        let folder = TempDir::new().unwrap();
        let ((cert, key), (other_cert, other_key)) = (made(2100), made(2101));
        let read = files(&folder, &cert, &key.serialize_pem());
        let known = read.read(None).unwrap().unwrap();
        assert!(read.read(Some(&known)).unwrap().is_none());
        let read = files(&folder, &other_cert, &other_key.serialize_pem());
        assert!(read.read(Some(&known)).unwrap().is_some());
    }

    #[test]
    fn expiry_is_that_of_the_certificate() {
        let folder = TempDir::new().unwrap();
        for (year, time, has_expired) in [
            (2001, "2001-01-01T00:00:00Z", true),
            (2049, "2049-01-01T00:00:00Z", false),
            (2100, "2100-01-01T00:00:00Z", false),
        ] {
            let (cert, key) = made(year);
            let identity = files(&folder, &cert, &key.serialize_pem()).read(None).unwrap().unwrap();
            let expires = humantime::format_rfc3339(identity.expires.unwrap()).to_string();
            assert_eq!(expires, time);
            assert_eq!(identity.expired().is_some(), has_expired);
        }
    }

    #[test]
    fn keys_are_read_in_the_forms_of_openssl() {
        let folder = TempDir::new().unwrap();
        let (cert, key) = made(2100);
        let pkcs8 = key.serialize_der();
        // A P-256 key in PKCS#8 ends with the key in SEC1 form (RFC 5915, section 3).
        let sec1 = pkcs8.get(pkcs8.len() - 109..).unwrap();
        let sec1 = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, sec1);
        let sec1 = format!(
            "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n-----BEGIN EC PRIVATE KEY-----\n{sec1}\n-----END EC PRIVATE KEY-----\n"
        );
        for key in [
            sec1,
            key.serialize_pem(),
            key.serialize_pem().replace('\n', "\r\n"),
            format!("# mine\n{}", key.serialize_pem()),
        ] {
            files(&folder, &cert, &key).read(None).unwrap();
        }
        let text = KeySource::Text(key.serialize_pem().into());
        assert!(!format!("{text:?}").contains("PRIVATE"));
        IdentityFiles { key: text, ..files(&folder, &cert, "") }.read(None).unwrap();
    }

    #[test]
    fn faults_name_the_file_and_never_the_key() {
        let ((cert, key), (_, other)) = (made(2100), made(2100));
        let (key, other) = (key.serialize_pem(), other.serialize_pem());
        let (begin, end) = ("-----BEGIN ENCRYPTED PRIVATE KEY-----", "-----END ENCRYPTED PRIVATE KEY-----");
        let encrypted = format!("{begin}\nMIIB\n{end}\n");
        let unended = key.replace("-----END", "-----ENDE");
        use IdentityPart::{Cert, Key};
        for (cert, key, part, words) in [
            (
                cert.as_str(),
                other.as_str(),
                Key,
                "/key.pem does not belong to the first certificate in /cert.pem",
            ),
            ("", &key, Cert, "/cert.pem holds no certificate"),
            (&key, &key, Cert, "/cert.pem holds no certificate"),
            (
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                &key,
                Cert,
                "the first certificate in /cert.pem is not valid",
            ),
            (&cert.replace("-----END", "-----ENDE"), &key, Cert, "/cert.pem is not valid PEM"),
            (&cert, "", Key, "/key.pem holds no private key"),
            (&cert, &cert, Key, "/key.pem holds no private key"),
            (&cert, &encrypted, Key, "/key.pem is encrypted"),
            (&cert, &unended, Key, "/key.pem is not valid PEM"),
            (
                &cert,
                "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
                Key,
                "/key.pem is not usable",
            ),
        ] {
            let (at_fault, message) = fault(cert, key);
            assert!(message.contains(words), "{message}");
            assert_eq!(at_fault, part, "{message}");
            let secret = other.lines().nth(1).unwrap();
            assert!(
                !message.contains(secret) && !message.contains(key.lines().nth(1).unwrap_or("\0")),
                "{message}"
            );
        }
    }

    #[test]
    fn size_of_files_is_limited() {
        let folder = TempDir::new().unwrap();
        let (cert, key) = made(2100);
        let key = key.serialize_pem();
        let padded = |length: usize| format!("{cert}{}", " ".repeat(length - cert.len()));
        for (length, is_read) in [(super::super::MAX_PEM, true), (super::super::MAX_PEM + 1, false)] {
            assert_eq!(files(&folder, &padded(length), &key).read(None).is_ok(), is_read);
        }
    }
}

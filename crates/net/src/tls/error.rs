//! [`PemError`]: why a PEM file cannot be used.

use std::{io, path::PathBuf};

use tokio_rustls::rustls::{self, pki_types::pem};

/// Why a file with certificates or keys cannot be used. Contains no part of a key.
#[derive(Debug, thiserror::Error)]
pub enum PemError {
    #[error("cannot read {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} holds no certificate; expected `-----BEGIN CERTIFICATE-----`", .0.display())]
    NoCertificate(PathBuf),
    #[error("{} is not valid PEM", path.display())]
    NotPem { path: PathBuf, source: pem::Error },
    #[error("certificate {number} in {} is not an authority's", path.display())]
    NotAuthority { number: usize, path: PathBuf, source: rustls::Error },
    #[error("the first certificate in {} is not valid", path.display())]
    InvalidCertificate { path: PathBuf, source: rustls::Error },
    #[error("{key} does not belong to the first certificate in {}", cert.display())]
    KeyMismatch { key: String, cert: PathBuf },
    #[error("{key} is not usable")]
    UnusableKey { key: String, source: rustls::Error },
    #[error("{0} is encrypted; `openssl pkey -in KEY -out PLAIN` removes the passphrase")]
    EncryptedKey(String),
    #[error("{0} holds no private key; expected PEM of PKCS#8, PKCS#1 or SEC1")]
    NoKey(String),
    /// The cause is left out because it may quote a line of the key.
    #[error("{0} is not valid PEM")]
    KeyNotPem(String),
}

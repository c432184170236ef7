//! TLS: reads certificates and keys from PEM files, and creates rustls configurations from them. Opens no sockets.

mod certificates;
mod error;
mod identity;
mod server;
mod upstream;

use std::{
    fs::File,
    io::{self, ErrorKind, Read},
    path::Path,
    sync::Arc,
};

use tokio_rustls::rustls::{
    RootCertStore,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, pem::PemObject},
};

pub use self::{
    certificates::{CertificateMetrics, Certificates},
    error::PemError,
    identity::{Identity, IdentityFiles, IdentityPart, KeySource},
    server::{ClientAuth, MinVersion, TlsSettings},
    upstream::UpstreamTls,
};

/// Maximum size of a file with certificates or keys, in bytes: three times the size of the largest known CA bundles.
const MAX_PEM: usize = 1 << 20;

/// The cryptography provider for all TLS connections.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Reads the certificate authorities in the PEM file `path`.
///
/// # Errors
/// The file cannot be read, or does not contain certificates of authorities.
pub fn authorities(path: &Path) -> Result<RootCertStore, PemError> {
    let mut roots = RootCertStore::empty();
    for (certificate, number) in chain(path, &read(path)?)?.into_iter().zip(1..) {
        let added = roots.add(certificate);
        added.map_err(|source| PemError::NotAuthority { number, path: path.to_owned(), source })?;
    }
    Ok(roots)
}

/// Parses the certificates in `pem`, the content of `path`. There must be at least one.
fn chain(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match certificates {
        Ok(none) if none.is_empty() => Err(PemError::NoCertificate(path.to_owned())),
        Ok(chain) => Ok(chain),
        Err(source) => Err(PemError::NotPem { path: path.to_owned(), source }),
    }
}

/// Reads a file of at most [`MAX_PEM`] bytes.
fn read(path: &Path) -> Result<Vec<u8>, PemError> {
    let read = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let length = File::open(path)?.take(MAX_PEM as u64 + 1).read_to_end(&mut bytes)?;
        if length > MAX_PEM { Err(ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
    };
    read().map_err(|source| PemError::Unreadable { path: path.to_owned(), source })
}

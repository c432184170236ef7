//! TLS: certificates and keys from PEM files, and the rustls configurations made from them. No sockets.

mod certificates;
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
    identity::{Identity, IdentityFiles, IdentityPart, KeySource},
    server::{ClientAuth, MinVersion, TlsSettings},
    upstream::UpstreamTls,
};

/// Maximum size in bytes of a file with certificates or keys. The largest known bundles of authorities are a third of
/// this size.
const MAX_PEM: usize = 1 << 20;

/// The implementation of the cryptographic algorithms, which is used everywhere.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Reads the authorities in the PEM file `path`.
///
/// # Errors
/// A description of what is wrong, with the file's name.
pub fn authorities(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for (certificate, number) in chain(path, &read(path)?)?.into_iter().zip(1..) {
        roots.add(certificate).map_err(|error| {
            format!("certificate {number} in {} is not an authority's: {error}", path.display())
        })?;
    }
    Ok(roots)
}

/// Parses the certificates in `pem`, which was read from `path`; there must be at least one.
fn chain(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match certificates {
        Ok(none) if none.is_empty() => {
            Err(format!("{} holds no certificate; expected `-----BEGIN CERTIFICATE-----`", path.display()))
        }
        Ok(chain) => Ok(chain),
        Err(error) => Err(format!("{} is not valid PEM: {error}", path.display())),
    }
}

/// Reads a file of at most [`MAX_PEM`] bytes.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let read = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let length = File::open(path)?.take(MAX_PEM as u64 + 1).read_to_end(&mut bytes)?;
        if length > MAX_PEM { Err(ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
    };
    read().map_err(|error| format!("cannot read {}: {error}", path.display()))
}

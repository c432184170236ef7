//! [`TlsSettings`]: TLS on the listeners.

use std::{path::PathBuf, sync::Arc};

use tokio_rustls::rustls::{
    Error, RootCertStore, ServerConfig, SupportedProtocolVersion,
    crypto::ring::Ticketer,
    server::{ResolvesServerCert, WebPkiClientVerifier},
    version::{TLS12, TLS13},
};

use super::{Identity, IdentityFiles, provider};

/// `[tls]`
#[derive(Debug, Clone)]
pub struct TlsSettings {
    pub files: IdentityFiles,
    /// The content of the files when the configuration was read.
    pub identity: Identity,
    /// The file with the authorities for client certificates, and its content.
    pub client_ca: Option<(PathBuf, Arc<RootCertStore>)>,
    /// Whether clients need a certificate. Only used with `client_ca`.
    pub client_auth: ClientAuth,
    pub min_version: MinVersion,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientAuth {
    #[default]
    Required,
    Optional,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MinVersion {
    #[default]
    Tls12,
    Tls13,
}

impl MinVersion {
    fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        const ALL: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
        const NEW: &[&SupportedProtocolVersion] = &[&TLS13];
        match self {
            Self::Tls12 => ALL,
            Self::Tls13 => NEW,
        }
    }
}

impl TlsSettings {
    /// Returns the configuration for accepting connections. `certificates` provides the current chain and key.
    ///
    /// Session tickets do not depend on the certificate: their keys live as long as the returned configuration.
    ///
    /// # Errors
    /// The system cannot provide random numbers, or the authorities cannot be used.
    pub fn accepting(&self, certificates: Arc<dyn ResolvesServerCert>) -> Result<Arc<ServerConfig>, Error> {
        let builder = ServerConfig::builder_with_provider(provider());
        let builder = builder.with_protocol_versions(self.min_version.versions())?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some((_, roots)) => {
                let clients = WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), provider());
                let clients = match self.client_auth {
                    ClientAuth::Required => clients,
                    ClientAuth::Optional => clients.allow_unauthenticated(),
                };
                let clients = clients.build().map_err(|error| Error::General(error.to_string()))?;
                builder.with_client_cert_verifier(clients)
            }
        };
        let mut config = builder.with_cert_resolver(certificates);
        config.alpn_protocols = ["h2", "http/1.1"].map(Vec::from).to_vec();
        config.ticketer = Ticketer::new()?;
        Ok(Arc::new(config))
    }
}

//! [`UpstreamTls`]: TLS for upstreams that use a private certificate authority or require a client certificate.

use std::{path::PathBuf, sync::Arc};

use hyper_rustls::ConfigBuilderExt;
use tokio_rustls::rustls::{
    ClientConfig, ConfigBuilder, Error, RootCertStore, WantsVerifier, client::WantsClientCert,
    sign::SingleCertAndKey,
};

use super::{Identity, IdentityFiles, provider};

/// `[upstreams.tls]`
#[derive(Debug, Clone)]
pub struct UpstreamTls {
    /// The file with the trusted authorities, and its content. If `None`, the system's authorities are trusted, or
    /// Mozilla's if there are none.
    pub ca: Option<(PathBuf, Arc<RootCertStore>)>,
    /// The client certificate and key: their files, and the content.
    pub identity: Option<(IdentityFiles, Identity)>,
    pub config: ClientConfig,
}

impl UpstreamTls {
    /// Creates the TLS configuration for an upstream.
    ///
    /// # Errors
    /// The provider supports no version of TLS, which cannot happen.
    pub fn new(
        ca: Option<(PathBuf, Arc<RootCertStore>)>,
        identity: Option<(IdentityFiles, Identity)>,
    ) -> Result<Self, Error> {
        let builder =
            ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        let builder = match &ca {
            Some((_, roots)) => builder.with_root_certificates(Arc::clone(roots)),
            None => with_system_roots(builder),
        };
        let config = match &identity {
            None => builder.with_no_client_auth(),
            Some((_, Identity { certified, .. })) => {
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(certified))))
            }
        };
        Ok(Self { ca, identity, config })
    }
}

/// Trusts the system's authorities, or Mozilla's if there are none.
fn with_system_roots(
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let native = builder.clone().with_native_roots();
    native.unwrap_or_else(|_| builder.with_webpki_roots())
}

//! [`UpstreamTls`]: TLS to an upstream whose certificate was not issued by a public authority, or that requires a
//! client certificate.

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
    /// The file of the trusted authorities, and its content. `None` means the system's authorities, or Mozilla's if
    /// the system has none.
    pub ca: Option<(PathBuf, Arc<RootCertStore>)>,
    /// The client's own certificate and key: the files and their content.
    pub identity: Option<(IdentityFiles, Identity)>,
    /// The configuration for opening connections.
    pub config: ClientConfig,
}

impl UpstreamTls {
    /// Creates the settings from each part with the content of its files.
    ///
    /// # Errors
    /// If the algorithms do not support a version of TLS, which does not happen.
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

/// Adds the system's authorities, or Mozilla's if the system has none.
fn with_system_roots(
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let native = builder.clone().with_native_roots();
    native.unwrap_or_else(|_| builder.with_webpki_roots())
}

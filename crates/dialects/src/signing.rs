//! [`Signing`]: the credentials with which requests are signed, instead of sending a key.

use secrecy::{ExposeSecret, SecretString};

/// Credentials for Amazon's Signature Version 4, and what is signed for.
#[derive(Debug, Clone)]
pub struct Signing {
    /// The name of the service.
    pub service: &'static str,
    /// The region of the service.
    pub region: String,
    /// The name of the secret key.
    pub access_key: String,
    /// The secret key.
    pub secret_key: SecretString,
    /// The token of temporary credentials.
    pub session_token: Option<SecretString>,
}

impl Signing {
    /// Creates credentials for a service in a region.
    pub fn new(
        service: &'static str,
        region: String,
        access_key: String,
        secret_key: String,
        session_token: Option<String>,
    ) -> Self {
        let (secret_key, session_token) = (secret_key.into(), session_token.map(Into::into));
        Self { service, region, access_key, secret_key, session_token }
    }

    fn parts(&self) -> (&str, &str, &str, &str, Option<&str>) {
        let token = self.session_token.as_ref().map(|token| token.expose_secret());
        (self.service, &self.region, &self.access_key, self.secret_key.expose_secret(), token)
    }
}

impl PartialEq for Signing {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Signing {}

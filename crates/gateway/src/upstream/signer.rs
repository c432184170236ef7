//! [`Signer`]: signs requests to Amazon's services (Signature Version 4).

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningSettings, sign},
    sign::v4,
};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use secrecy::ExposeSecret;

use toolwire_net::redact::Redactor;
use toolwire_pipeline::{
    dialect::Signing,
    failure::{Failure, Kind},
};

/// The credentials of one upstream.
#[derive(Debug)]
pub(super) struct Signer {
    credentials: Credentials,
    service: &'static str,
    region: String,
}

impl Signer {
    /// Creates a signer. Adds the secrets to `redactor`.
    pub(super) fn new(signing: &Signing, redactor: &Redactor) -> Self {
        let token = signing.session_token.as_ref().map(|token| token.expose_secret().to_owned());
        let secret = signing.secret_key.expose_secret();
        redactor.learn(secret);
        token.iter().for_each(|token| redactor.learn(token));
        let credentials = Credentials::new(&signing.access_key, secret, token, None, "toolwire");
        Self { credentials, service: signing.service, region: signing.region.clone() }
    }

    /// The headers that sign a POST request with this body, sent at `now`.
    pub(super) fn headers(&self, uri: &Uri, body: &[u8], now: SystemTime) -> Result<HeaderMap, Failure> {
        let unsigned = |error: &dyn std::fmt::Display| {
            Failure::new(Kind::Upstream, format!("the request to the upstream cannot be signed: {error}"))
        };
        let identity = self.credentials.clone().into();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(self.service)
            .time(now)
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| unsigned(&error))?
            .into();
        let uri = uri.to_string();
        let content_type = [("content-type", "application/json")].into_iter();
        let request = SignableRequest::new("POST", uri, content_type, SignableBody::Bytes(body));
        let signed =
            request.and_then(|request| sign(request, &parameters)).map_err(|error| unsigned(&error))?;
        let (instructions, _) = signed.into_parts();
        let mut headers = HeaderMap::new();
        for (name, value) in instructions.headers() {
            let name = HeaderName::try_from(name).map_err(|error| unsigned(&error))?;
            let mut value = HeaderValue::try_from(value).map_err(|error| unsigned(&error))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(headers)
    }
}

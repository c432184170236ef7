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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The expected headers are those of botocore 1.44.8.
    #[test]
    fn signature_is_that_of_amazons_sdk() {
        const URI: &str = "https://bedrock-runtime.us-west-2.amazonaws.com/model/us.amazon.nova-lite-v1%3A0/converse-stream";
        let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_953_600);
        for (token, signed, signature) in [
            (
                Some("TOKEN+/=".to_owned()),
                "content-type;host;x-amz-date;x-amz-security-token",
                "e4162471719ca0040ef706bc085a4a98e1e2ddf6db48b4f2df67bd4d3e352a0b",
            ),
            (
                None,
                "content-type;host;x-amz-date",
                "93f68a081a8974b6d2b380e93bdf65f60e232148ce84fb19a9536947f9eae7d2",
            ),
        ] {
            let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned();
            let signing =
                Signing::new("bedrock", "us-west-2".into(), "AKIDEXAMPLE".into(), secret, token.clone());
            let signer = Signer::new(&signing, &Redactor::new([]));
            let headers = signer.headers(&URI.parse().unwrap(), br#"{"messages":[]}"#, noon).unwrap();
            let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
            let expected = format!(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261129/us-west-2/bedrock/aws4_request, \
                 SignedHeaders={signed}, Signature={signature}"
            );
            assert_eq!(text("authorization"), Some(expected));
            assert_eq!(text("x-amz-date").as_deref(), Some("20261129T120000Z"));
            assert_eq!(text("x-amz-security-token"), token);
            assert!(headers.values().all(HeaderValue::is_sensitive));
        }
    }
}

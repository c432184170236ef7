use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Value, json};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::{proxy::Proxy, soon};

/// An HTTP client. Each test has its own.
#[derive(Clone)]
pub(crate) struct Client {
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// A streaming request to model `m`.
pub(crate) const STREAM: &str = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;

/// The same request without streaming.
pub(crate) const WHOLE: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;

/// A request to model `m` with the tool `weather`, whose argument `city` is required, and with additional `fields`.
pub(crate) fn weather(fields: Value) -> Value {
    let mut request = json!({
        "model": "m",
        "messages": [{"role": "user", "content": "weather?"}],
        "tools": [{"type": "function", "function": {"name": "weather", "parameters": {
            "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
        }}}],
    });
    let fields = if let Value::Object(fields) = fields { fields } else { serde_json::Map::new() };
    request.as_object_mut().unwrap().extend(fields);
    request
}

impl Client {
    pub(crate) fn new() -> Self {
        let nothing = RootCertStore::empty();
        Self::tls(super::tls::trusting(nothing).with_no_client_auth())
    }

    /// Creates a client that uses TLS with `config` and negotiates the HTTP version.
    pub(crate) fn tls(config: ClientConfig) -> Self {
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_all_versions()
            .build();
        Self { http: legacy::Client::builder(TokioExecutor::new()).build(https) }
    }

    /// Creates a client that uses HTTP/2 without negotiation.
    pub(crate) fn http2() -> Self {
        Self::http2_built(&mut legacy::Client::builder(TokioExecutor::new()))
    }

    /// Creates a client whose flow-control windows admit heads but no body.
    pub(crate) fn http2_with_closed_windows() -> Self {
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        Self::http2_built(builder.http2_initial_stream_window_size(0))
    }

    fn http2_built(builder: &mut legacy::Builder) -> Self {
        let nothing = super::tls::trusting(RootCertStore::empty()).with_no_client_auth();
        let https =
            HttpsConnectorBuilder::new().with_tls_config(nothing).https_or_http().enable_http2().build();
        Self { http: builder.http2_only(true).build(https) }
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Reply, legacy::Error> {
        let response = soon("a response", self.http.request(request)).await?;
        Ok(Reply { response, unread: Vec::new() })
    }

    pub(crate) async fn get(&self, proxy: &Proxy, path: &str) -> Reply {
        let request = Request::get(proxy.url(path)).body(Full::default()).unwrap();
        self.send(request).await.unwrap()
    }

    /// Waits until the metrics contain `text`, and returns them. A response is counted only after it has ended, and the
    /// client does not wait for that.
    pub(crate) async fn metrics_with(&self, proxy: &Proxy, text: &str) -> String {
        let shown = async {
            loop {
                let metrics = self.get(proxy, "/metrics").await.rest().await;
                if metrics.contains(text) {
                    return metrics;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        soon(text, shown).await
    }

    pub(crate) async fn chat(&self, proxy: &Proxy, body: impl Into<Bytes>) -> Reply {
        self.send(chat_request(proxy, body)).await.unwrap()
    }
}

/// Builds a POST of `body` to the chat endpoint.
pub(crate) fn chat_request(proxy: &Proxy, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post(proxy.url("/v1/chat/completions"))
        .header("content-type", "application/json")
        .body(Full::new(body.into()))
        .unwrap()
}

/// A response whose body may still be arriving.
pub(crate) struct Reply {
    response: Response<Incoming>,
    unread: Vec<u8>,
}

impl Reply {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(crate) fn version(&self) -> Version {
        self.response.version()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn headers(&self, name: &str) -> Vec<&str> {
        let values = self.response.headers().get_all(name).iter();
        values.map(|value| value.to_str().unwrap()).collect()
    }

    /// Reads until `text` has arrived. Panics if the body ends before that.
    pub(crate) async fn until(&mut self, text: &str) -> String {
        while !contains(&self.unread, text) {
            let frame = soon(text, self.response.body_mut().frame()).await;
            let Some(frame) = frame else { panic!("the body ended before {text:?}: {:?}", self.unread()) };
            self.unread.extend_from_slice(frame.unwrap().data_ref().unwrap());
        }
        let text = self.unread();
        self.unread.clear();
        text
    }

    /// Reads the remaining body. Panics if it breaks off.
    pub(crate) async fn rest(mut self) -> String {
        while let Some(frame) = soon("the end of the body", self.response.body_mut().frame()).await {
            self.unread.extend_from_slice(frame.unwrap().data_ref().unwrap());
        }
        self.unread()
    }

    /// Reads the remaining body, which need not be text.
    pub(crate) async fn bytes(mut self) -> Vec<u8> {
        while let Some(frame) = soon("the end of the body", self.response.body_mut().frame()).await {
            self.unread.extend_from_slice(frame.unwrap().data_ref().unwrap());
        }
        self.unread
    }

    /// Like [`Reply::rest`], but without a timeout, which a paused clock would trigger.
    pub(crate) async fn rest_without_timeout(mut self) -> String {
        while let Some(frame) = self.response.body_mut().frame().await {
            self.unread.extend_from_slice(frame.unwrap().data_ref().unwrap());
        }
        self.unread()
    }

    /// Whether the body ends with an error.
    pub(crate) async fn breaks_off(mut self) -> bool {
        loop {
            match soon("the end of the body", self.response.body_mut().frame()).await {
                Some(Ok(_)) => {}
                Some(Err(_)) => return true,
                None => return false,
            }
        }
    }

    pub(crate) async fn json(self) -> Value {
        let text = self.rest().await;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
    }

    fn unread(&self) -> String {
        String::from_utf8(self.unread.clone()).unwrap()
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Returns the error of a stream that failed after it began, which is the last event before the end marker.
pub(crate) fn stream_error(body: &str) -> Value {
    let events = body.strip_suffix("\n\ndata: [DONE]\n\n").unwrap_or_else(|| panic!("no end mark: {body}"));
    let last = events.rsplit("\n\n").next().unwrap();
    let data = last.strip_prefix("data: ").unwrap_or_else(|| panic!("no event: {body}"));
    let value: Value = serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {body}"));
    assert!(value["error"].is_object(), "the last event is not an error: {body}");
    value["error"].clone()
}

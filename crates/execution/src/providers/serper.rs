//! `kind = "serper"`: searches the web and reads pages through Serper (<https://serper.dev>).
//!
//! Each search and each page takes one request. URLs are checked before they are sent to Serper, so that addresses of
//! internal servers are not disclosed.

mod answer;
mod question;
mod seen_pages;
mod tools;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{ACCEPT, CONTENT_TYPE, HeaderName, RETRY_AFTER},
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use self::{question::Vertical, seen_pages::SeenPages};
use crate::{
    ErrorCode, Host, Invocation, Output, Provider, Running, Testing, ToolError, ToolSpec, Verdict,
    address::{AddressRules, Domain, comparable, is_admitted},
    providers::Fault,
};
use toolwire_pipeline::settings::Settings;

const BASE_URL: &str = "https://google.serper.dev";

const SCRAPE_URL: &str = "https://scrape.serper.dev";

/// In bytes.
const MAX_RESPONSE: usize = 5 << 20;

/// Time limit for testing the key.
const TEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The configurable time limits for a search.
const TIMEOUTS: std::ops::RangeInclusive<Duration> = Duration::from_secs(5)..=Duration::from_secs(120);

/// The settings.
#[derive(Debug, Clone, Settings)]
pub struct Options {
    /// the key of the Serper account; without it, there are no tools
    #[setting(or = "none")]
    api_key: Option<SecretString>,
    /// where searches go
    #[setting(or = "`\"https://google.serper.dev\"`")]
    base_url: Option<Uri>,
    /// where pages are requested
    #[setting(or = "`\"https://scrape.serper.dev\"`")]
    scrape_url: Option<Uri>,
    /// results of one search, 1 to 20; the model may ask for fewer
    #[setting(default = 5, range = 1..=20)]
    max_results: usize,
    /// how long a search may take, 5 to 120 seconds
    #[setting(default = Duration::from_secs(30), range = TIMEOUTS)]
    timeout: Duration,
    /// how long reading a page may take, 5 to 120 seconds
    #[setting(default = Duration::from_secs(60), range = TIMEOUTS)]
    scrape_timeout: Duration,
    /// of a page's text, in bytes
    #[setting(default = 100_000)]
    max_content: usize,
    /// the country that searches are made from, such as `us`
    #[setting(key = "gl", or = "Serper's")]
    country: Option<String>,
    /// the language of the results, such as `en`
    #[setting(key = "hl", or = "Serper's")]
    language: Option<String>,
    /// further tools: `image_search`, `news_search`, `places_search`
    #[setting(or = "none")]
    extra_tools: Vec<String>,
    /// the only domains of results and pages, with subdomains
    #[setting(or = "all")]
    allowed_domains: Vec<String>,
    /// excluded domains of results and pages, with subdomains
    #[setting(or = "none")]
    denied_domains: Vec<String>,
    /// `scrape` reads only pages that a search found for the same client
    seen_urls_only: bool,
}

impl Options {
    /// Checks the settings.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let unknown = self.extra_tools.iter().find(|name| Vertical::of(name).is_none());
        if let Some(name) = unknown {
            let known = "`image_search`, `news_search` and `places_search`";
            let message = format!("`extra_tools` has an unknown tool: `{name}`; known are {known}");
            return Err(Fault::new("extra_tools", message));
        }
        domains("allowed_domains", &self.allowed_domains)?;
        domains("denied_domains", &self.denied_domains)?;
        Ok(())
    }

    /// The names and aliases of the provider's tools.
    pub(super) fn offers(&self, _: &str) -> Vec<String> {
        let always = ["web_search", "search", "websearch", "web-search", "scrape"].map(str::to_owned);
        always.into_iter().chain(self.extra_tools.iter().cloned()).collect()
    }

    pub(super) fn build(&self, host: &Host) -> Result<Arc<dyn Provider>, Fault> {
        let rules = AddressRules {
            allowed_domains: domains("allowed_domains", &self.allowed_domains)?,
            denied_domains: domains("denied_domains", &self.denied_domains)?,
            ..AddressRules::default()
        };
        let specs = if self.api_key.is_some() {
            tools::specs(self)
        } else {
            tracing::warn!(provider = %host.name, "the provider has no `api_key` and offers no tools");
            Vec::new()
        };
        let provider =
            Serper { options: self.clone(), host: host.clone(), rules, specs, seen: SeenPages::default() };
        Ok(Arc::new(provider))
    }
}

fn domains(key: &'static str, list: &[String]) -> Result<Vec<Domain>, Fault> {
    let fault = |text: &String| Fault::new(key, format!("`{text}` is not a domain"));
    list.iter().map(|text| Domain::parse(text).ok_or_else(|| fault(text))).collect()
}

#[derive(Debug)]
struct Serper {
    options: Options,
    host: Host,
    /// Which addresses pages and results may have.
    rules: AddressRules,
    specs: Vec<Arc<ToolSpec>>,
    /// Pages that searches have found.
    seen: SeenPages,
}

impl Provider for Serper {
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        self.specs.clone()
    }

    fn is_search_engine(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, call: &'a Invocation) -> Running<'a> {
        Box::pin(async move {
            match Vertical::of(&call.tool) {
                Some(vertical) => self.search(vertical, call).await,
                None => self.scrape(call).await,
            }
        })
    }

    fn test<'a>(&'a self, key: Option<&'a SecretString>) -> Testing<'a> {
        Box::pin(async move {
            let key = key.or(self.options.api_key.as_ref())?;
            let asked = json!({"q": "toolwire", "num": 1});
            let sent =
                timeout(TEST_TIMEOUT, self.send(&self.address(Vertical::Web.path()), key, &asked)).await;
            Some(match sent {
                Ok(Ok(_)) => Verdict::Valid,
                Ok(Err(error)) if error.code == ErrorCode::AuthFailed => Verdict::Invalid,
                Ok(Err(error)) if error.code == ErrorCode::RateLimited => Verdict::RateLimited,
                _ => Verdict::Unreachable,
            })
        })
    }
}

impl Serper {
    async fn search(&self, vertical: Vertical, call: &Invocation) -> Result<Output, ToolError> {
        let question = question::read(&call.arguments, &self.options, &call.options)?;
        let response =
            self.ask(&self.address(vertical.path()), &question.body(vertical, &self.options)).await?;
        let found = answer::found(response, vertical, &question, |url| self.is_wanted(url) && call.options.admits(url))?;
        self.seen.add(call.client, found.urls());
        Ok(found.output(&self.host.name, &question.query))
    }

    async fn scrape(&self, call: &Invocation) -> Result<Output, ToolError> {
        let given = call.arguments.get("url").and_then(Value::as_str).unwrap_or_default();
        let mut url = self.rules.check(given)?;
        url.set_fragment(None);
        if self.options.seen_urls_only && !self.seen.has(call.client, url.as_str()) {
            let message = "Only pages that a search found may be read. Search for the page first.";
            return Err(ToolError::new(ErrorCode::BlockedUrl, message));
        }
        let address = self.options.scrape_url.as_ref().map_or_else(|| SCRAPE_URL.to_owned(), Uri::to_string);
        let response = self.ask(&address, &json!({"url": url.as_str()})).await?;
        answer::page(&response, url.as_str(), self.options.max_content)
    }

    /// Whether the domain lists admit a result.
    fn is_wanted(&self, url: &url::Url) -> bool {
        let host = url.host().map(|host| comparable(&host)).unwrap_or_default();
        is_admitted(&host, &self.rules.allowed_domains, &self.rules.denied_domains)
    }

    /// The URL for a search.
    fn address(&self, path: &str) -> String {
        let base = self.options.base_url.as_ref().map_or_else(|| BASE_URL.to_owned(), Uri::to_string);
        format!("{}/{path}", base.trim_end_matches('/'))
    }

    async fn ask(&self, address: &str, asked: &Value) -> Result<Map<String, Value>, ToolError> {
        let no_key = || ToolError::new(ErrorCode::AuthFailed, "The search service has no key.");
        let key = self.options.api_key.as_ref().ok_or_else(no_key)?;
        let body = self.send(address, key, asked).await?;
        serde_json::from_slice(&body).map_err(|_| {
            tracing::warn!(provider = %self.host.name, "the response is not a JSON object");
            answer::unreadable()
        })
    }

    /// Sends a request to Serper. Returns the body of a successful response.
    async fn send(&self, address: &str, key: &SecretString, asked: &Value) -> Result<Bytes, ToolError> {
        let mut key = HeaderValue::from_str(key.expose_secret().trim()).map_err(|_| {
            ToolError::new(ErrorCode::AuthFailed, "The search service's key is not a valid key.")
        })?;
        key.set_sensitive(true);
        let request = Request::builder()
            .method(Method::POST)
            .uri(address)
            .header(HeaderName::from_static("x-api-key"), key)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .body(Bytes::from(asked.to_string()))
            .map_err(|_| {
                ToolError::new(ErrorCode::ProviderError, "The search service's address is not valid.")
            })?;
        let response = self.host.http.send(request, MAX_RESPONSE).await.map_err(|error| {
            tracing::warn!(provider = %self.host.name, %error, "the request failed");
            ToolError::from(error)
        })?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        Err(self.refusal(&response))
    }

    /// Converts an error response. Its text is only logged.
    fn refusal(&self, response: &Response<Bytes>) -> ToolError {
        let said = serde_json::from_slice::<Value>(response.body()).unwrap_or_default();
        let said = said.get("message").and_then(Value::as_str).unwrap_or_default();
        let status = response.status();
        // Redaction comes first, because it would not recognize a truncated secret.
        let shown: String = self.host.redacted(said).chars().take(200).collect();
        tracing::warn!(provider = %self.host.name, status = status.as_u16(), message = shown, "the request was refused");
        let failed = |message: &str, is_retryable| ToolError {
            is_retryable,
            ..ToolError::new(ErrorCode::ProviderError, message)
        };
        // Serper reports an account without credits as a bad request.
        let has_no_credits = said.to_ascii_lowercase().contains("credit");
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if !has_no_credits => {
                ToolError::new(ErrorCode::AuthFailed, "The search service refused the key.")
            }
            _ if status.is_client_error() && has_no_credits || status == StatusCode::PAYMENT_REQUIRED => {
                ToolError {
                    is_retryable: false,
                    ..ToolError::new(
                        ErrorCode::RateLimited,
                        "The search service's account has no credits left.",
                    )
                }
            }
            StatusCode::TOO_MANY_REQUESTS => {
                let seconds =
                    response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
                let retry_after = seconds.map(Duration::from_secs);
                // Not retried unless Serper says when: a request that comes too early would only prolong the limit.
                ToolError {
                    is_retryable: retry_after.is_some(),
                    retry_after,
                    ..ToolError::new(
                        ErrorCode::RateLimited,
                        "The search service allows no more requests now.",
                    )
                }
            }
            StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => {
                ToolError::new(ErrorCode::Timeout, "The search service did not answer in time.")
            }
            _ if status.is_server_error() => failed("The search service failed.", true),
            _ => failed("The search service did not accept the request.", false),
        }
    }
}

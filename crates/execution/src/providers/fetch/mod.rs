//! `kind = "fetch"`: reads web pages, as the tool `web_fetch`.
//!
//! Models choose the addresses, so only public ones are reached, and only those that the conversation names. A redirect
//! to a host that the rules do not admit without a question is not followed: the model gets its target instead, and a
//! call to that is decided like any other.

mod characters;
mod page_text;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, USER_AGENT},
};
use serde_json::{Value, json};
use url::Url;

use self::page_text::PageText;
use crate::{
    ErrorCode, Host, Invocation, Output, Provider, Running, ToolError, ToolSpec,
    address::{AddressRules, comparable},
    http::{Download, HttpClient, HttpError},
    media::{mime_of, shown},
    providers::Fault,
    shrink::fitting,
};
use toolwire_pipeline::{settings::Settings, wire::json::Raw};

const NAME: &str = "web_fetch";

const ALIASES: &[&str] = &["fetch", "url_context"];

/// The settings.
#[derive(Debug, Clone, Settings)]
pub struct Options {
    /// how long reading a page may take, 1 to 120 seconds
    #[setting(default = Duration::from_secs(30), range = Duration::from_secs(1)..=Duration::from_secs(120))]
    timeout: Duration,
    /// of what a server sends; larger pages are not read
    #[setting(default = 5 << 20, size)]
    max_body: usize,
    /// of a page's text, in bytes
    #[setting(default = 100_000)]
    max_content: usize,
    /// also read addresses that the model made up, not only those that the user, the instructions or a result named
    any_url: bool,
    /// also read pages of this machine and its networks, on every port
    #[setting(file_only)]
    allow_private: bool,
}

impl Options {
    /// Checks the settings.
    pub(super) fn check(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// The names and aliases of the provider's tool.
    pub(super) fn offers(&self, _: &str) -> Vec<String> {
        [NAME].iter().chain(ALIASES).map(|name| (*name).to_owned()).collect()
    }

    pub(super) fn build(&self, host: &Host) -> Result<Arc<dyn Provider>, Fault> {
        let rules = AddressRules { allow_private: self.allow_private, ..AddressRules::default() };
        Ok(Arc::new(Fetch {
            options: self.clone(),
            name: Arc::clone(&host.name),
            http: host.http.guarded(rules),
            spec: Arc::new(self.spec()),
        }))
    }

    fn spec(&self) -> ToolSpec {
        let url = json!({
            "type": "string",
            "description": "The address of the page, with http:// or https://, as the user or a result has it.",
        });
        ToolSpec {
            name: NAME.to_owned(),
            aliases: ALIASES,
            label: "Web Fetch".to_owned(),
            description: "Reads a web page. Returns its title and its text, with the addresses of its links. Use it when \
                          the user asks about a certain page, or when the snippets of a search do not suffice."
                .to_owned(),
            progress: "Reading: {url}".to_owned(),
            parameters: Raw::from(json!({"type": "object", "properties": {"url": url}, "required": ["url"]})),
            is_idempotent: true,
            url_argument: Some("url"),
            reads_known_pages: !self.any_url,
            timeout: self.timeout,
            ..ToolSpec::default()
        }
    }
}

#[derive(Debug)]
struct Fetch {
    options: Options,
    name: Arc<str>,
    http: HttpClient,
    spec: Arc<ToolSpec>,
}

impl Provider for Fetch {
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        vec![Arc::clone(&self.spec)]
    }

    fn run<'a>(&'a self, call: &'a Invocation) -> Running<'a> {
        Box::pin(self.read(call))
    }
}

impl Fetch {
    async fn read(&self, call: &Invocation) -> Result<Output, ToolError> {
        let url = call.arguments.get("url").and_then(Value::as_str).unwrap_or_default();
        let admits = |url: &Url| {
            let host = url.host().map(|host| comparable(&host)).unwrap_or_default();
            call.hosts.admit(&host) && call.options.admits(url)
        };
        let download = Download {
            url,
            headers: headers(),
            max_body: self.options.max_body,
            content_types: &[],
            admits: Some(&admits),
        };
        let response = match self.http.get(download).await {
            Ok(response) => response,
            Err(HttpError::Elsewhere(target)) if call.options.admits(&target) => {
                let text = format!("The page redirects to {target}. To read that page, call this tool with its address.");
                return Ok(output(url, "", &text, self.options.max_content));
            }
            Err(error) => {
                tracing::debug!(provider = %self.name, %error, "a page cannot be read");
                return Err(error.into());
            }
        };
        let status = response.status();
        if !status.is_success() {
            let message = format!("The server answered with the HTTP status {status}.");
            let may_pass = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
            return Err(ToolError { is_retryable: may_pass, ..ToolError::new(ErrorCode::ProviderError, message) });
        }
        let most = call.options.max_content.map_or(self.options.max_content, |most| most.min(self.options.max_content));
        shown_page(&response, url, most)
    }
}

fn headers() -> HeaderMap {
    let accepted = "text/html,application/xhtml+xml,text/plain,application/json,application/pdf;q=0.9,*/*;q=0.1";
    let own = concat!("toolwire/", env!("CARGO_PKG_VERSION"));
    [(ACCEPT, accepted), (USER_AGENT, own)]
        .map(|(name, value)| (name, HeaderValue::from_static(value)))
        .into_iter()
        .collect()
}

/// The output for a page that was asked for as `url`. Its text has at most `most` bytes of JSON.
///
/// # Errors
/// The page has no text, and is no file that models take.
fn shown_page(response: &Response<Bytes>, url: &str, most: usize) -> Result<Output, ToolError> {
    let url = response.extensions().get::<Url>().map_or(url, Url::as_str);
    let body = response.body();
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if let Some(mime) = mime_of(body).filter(|_| !essence.starts_with("text/")) {
        let (text, file) = shown(&BASE64_STANDARD.encode(body), mime);
        let file = file.ok_or_else(|| unsupported(&format!("A file of the type {mime} cannot be read.")))?;
        return Ok(Output { media: vec![file], ..output(url, "", &text, most) });
    }
    let is_text = essence.is_empty()
        || essence.starts_with("text/")
        || ["json", "xml", "javascript", "yaml", "toml", "csv", "markdown"].iter().any(|end| essence.ends_with(end));
    if !is_text {
        return Err(unsupported(&format!("A page of the type {} cannot be read.", printable(&essence))));
    }
    let is_html = matches!(essence.as_str(), "" | "text/html" | "application/xhtml+xml");
    let text = characters::decoded(body, kind, is_html).map_err(|name| {
        unsupported(&format!("The encoding {} cannot be read.", printable(&name)))
    })?;
    if !is_html || (essence.is_empty() && !text.trim_start().starts_with('<')) {
        return Ok(output(url, "", text.trim(), most));
    }
    let page = PageText::of(&text, Url::parse(url).ok().as_ref(), most);
    Ok(output(url, page.title.trim(), page.text.trim(), most))
}

fn output(url: &str, title: &str, text: &str, most: usize) -> Output {
    let end = fitting(text, most);
    let content = text.get(..end).unwrap_or(text);
    let words = content.split_whitespace().count();
    let mut page = json!({"ok": true, "title": title, "url": url, "content": content, "wordCount": words});
    if let Some(page) = page.as_object_mut().filter(|_| end < text.len()) {
        page.insert("truncated".to_owned(), true.into());
    }
    let details = json!({"kind": "page", "url": url, "title": title});
    Output { content: page.to_string(), summary: format!("{words} words"), details, ..Output::default() }
}

fn unsupported(message: &str) -> ToolError {
    ToolError::new(ErrorCode::UnsupportedContent, message)
}

/// A short name that a server sent, for a message.
fn printable(name: &str) -> String {
    name.chars().filter(|char| !char.is_control()).take(60).collect()
}

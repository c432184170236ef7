//! `kind = "client_mcp"`: lets clients name MCP servers in their requests, as the APIs of OpenAI and Anthropic do.
//!
//! Only servers that the operator lists are admitted. What a client sends to one, such as its token, is used for the
//! connections of that request: none of them is used for another request.

#[cfg(test)]
mod tests;

use std::{future::ready, sync::Arc, time::Duration};

use url::{Host as UrlHost, Url};

use super::mcp::{ClientLimits, connect_for_client};
use crate::{
    ErrorCode, Host, Invocation, Provider, Running, ToolError, ToolSpec,
    address::{AddressRules, comparable},
    client_servers::ClientServer,
    http::HttpClient,
    provider::Connecting,
    providers::Fault,
};
use toolwire_pipeline::settings::Settings;

/// The settings.
#[derive(Debug, Clone, Settings)]
pub struct Options {
    /// URLs of the servers that clients may name, each with all paths below it: `https://mcp.example/mcp`
    #[setting(required, file_only)]
    servers: Vec<String>,
    /// how long a call may take
    #[setting(default = Duration::from_secs(60))]
    timeout: Duration,
    /// how long a server may take until its tools are known; then the request fails
    #[setting(default = Duration::from_secs(20))]
    start_timeout: Duration,
    /// one message of a server; with a larger result, the call fails
    #[setting(default = 4 << 20, size)]
    max_output: usize,
    /// also servers of this machine and its networks
    #[setting(file_only)]
    allow_private: bool,
}

impl Options {
    /// Checks the settings.
    pub(super) fn check(&self) -> Result<(), Fault> {
        if self.servers.is_empty() {
            return Err(Fault::new("servers", "`servers` is missing: the URLs of the servers that clients may name"));
        }
        self.admitted().map(|_| ())
    }

    /// A pattern for the names of the provider's tools, which begin with the name that the client gives the server.
    pub(super) fn offers(&self, _: &str) -> Vec<String> {
        vec!["*".to_owned()]
    }

    pub(super) fn build(&self, host: &Host) -> Result<Arc<dyn Provider>, Fault> {
        let servers = self.admitted()?;
        let rules = AddressRules {
            allow_private: self.allow_private,
            ports: servers.iter().filter_map(Url::port_or_known_default).collect(),
            ..AddressRules::default()
        };
        let http = host.http.guarded_for_one_request(rules.clone());
        Ok(Arc::new(ClientMcp { options: self.clone(), servers, rules, http }))
    }

    fn admitted(&self) -> Result<Vec<Url>, Fault> {
        let read = |text: &String| {
            let url = Url::parse(text).ok().filter(|url| {
                matches!(url.scheme(), "http" | "https")
                    && url.username().is_empty()
                    && url.password().is_none()
                    && url.query().is_none()
                    && url.fragment().is_none()
            });
            url.ok_or_else(|| Fault::new("servers", format!("`{text}` is not the URL of a server: `https://HOST/PATH`")))
        };
        self.servers.iter().map(read).collect()
    }
}

#[derive(Debug)]
struct ClientMcp {
    options: Options,
    servers: Vec<Url>,
    rules: AddressRules,
    /// Keeps no connections.
    http: HttpClient,
}

impl ClientMcp {
    /// The URL in normal form, if the lists and the rules for addresses admit it.
    fn admitted(&self, url: &str) -> Option<Url> {
        let url = self.rules.check(url).ok()?;
        self.servers.iter().any(|server| is_below(&url, server)).then_some(url)
    }
}

/// Whether `url` is that of `server`, or has a path below its path.
fn is_below(url: &Url, server: &Url) -> bool {
    let host = |url: &Url| url.host().map(|host: UrlHost<&str>| comparable(&host));
    // A server may read these as separators.
    let has_escaped_separators = {
        let path = url.path().to_ascii_lowercase();
        path.contains("%2f") || path.contains("%5c") || path.contains("%2e")
    };
    let prefix = server.path().trim_end_matches('/');
    let below = url.path().strip_prefix(prefix);
    url.scheme() == server.scheme()
        && host(url) == host(server)
        && url.port_or_known_default() == server.port_or_known_default()
        && !has_escaped_separators
        && below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

impl Provider for ClientMcp {
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        Vec::new()
    }

    fn run<'a>(&'a self, _: &'a Invocation) -> Running<'a> {
        Box::pin(ready(Err(ToolError::new(ErrorCode::UnknownTool, "There is no such tool."))))
    }

    fn admits_server(&self, url: &str) -> bool {
        self.admitted(url).is_some()
    }

    fn connect<'a>(&'a self, server: &'a ClientServer) -> Connecting<'a> {
        Box::pin(async move {
            let url = self.admitted(&server.url).ok_or_else(|| "its URL is not allowed".to_owned())?;
            let Options { timeout, start_timeout, max_output, .. } = self.options;
            connect_for_client(&self.http, server, &url, ClientLimits { timeout, start_timeout, max_output }).await
        })
    }
}

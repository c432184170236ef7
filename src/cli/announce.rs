//! Announces on stderr that a server is ready: its addresses, its models, and how to connect a client.

use std::{
    error::Error,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use super::LogFormat;
use toolwire_config::{Config, Model, WILDCARD};
use toolwire_gateway::observe::List;

#[derive(Debug)]
pub(super) struct Announcement<'a> {
    pub config: &'a Config,
    /// The addresses that the server is bound to, with the actual port where the configuration says 0.
    pub addresses: &'a [SocketAddr],
    /// The names of the hosted tools, and the names of the providers whose tools are not known yet.
    pub hosted: (Vec<String>, Vec<String>),
    /// A one-time code for signing in to the admin API in a browser. Set only if stderr is a terminal: it must never be
    /// logged.
    pub code: Option<String>,
}

impl Announcement<'_> {
    /// Writes the announcement to stderr: as text for people, or as a log line for programs.
    pub(super) fn say(&self, log_format: LogFormat) {
        match log_format {
            LogFormat::Text => eprintln!("{self}"),
            LogFormat::Json => {
                let addresses = List(self.addresses.iter().map(ToString::to_string).collect());
                let models = List(self.config.models.iter().map(|model| model.name.clone()).collect());
                let (addresses, models): (&(dyn Error + 'static), &(dyn Error + 'static)) =
                    (&addresses, &models);
                let hosted_tools = List(self.hosted.0.clone());
                let hosted_tools: &(dyn Error + 'static) = &hosted_tools;
                let hosted_tools = self.config.execution.is_some().then_some(hosted_tools);
                tracing::info!(addresses, base_url = self.base_url(), models, hosted_tools, "listening");
            }
        }
    }

    /// The base URL for OpenAI clients.
    pub(super) fn base_url(&self) -> String {
        let address = self.addresses.first().copied().unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
        format!("{}://{}/v1", self.config.scheme(), reachable(address))
    }
}

impl fmt::Display for Announcement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.config.scheme();
        let listening: Vec<_> =
            self.addresses.iter().map(|address| format!("{scheme}://{address}")).collect();
        writeln!(f, "toolwire {} listens on {}", env!("CARGO_PKG_VERSION"), listening.join(", "))?;
        for model in &self.config.models {
            writeln!(f, "  {}", Entry(model))?;
        }
        if self.config.execution.is_some() {
            writeln!(f, "  {}", HostedTools(&self.hosted))?;
        }
        let base = self.base_url();
        let (key, header) = match self.config.needs_key() {
            false => ("any API key", ""),
            true => ("one of the API keys", " -H \"authorization: Bearer $KEY\""),
        };
        writeln!(f, "OpenAI clients: base URL {base} and {key}. Try:")?;
        let model = self.config.models.first().map_or(WILDCARD, |model| model.name.as_str());
        let model = if model == WILDCARD { "MODEL" } else { model };
        let request = serde_json::json!({
            "model": model,
            "stream": true,
            "messages": [{ "role": "user", "content": "Hello" }],
        });
        write!(
            f,
            "  curl -N {base}/chat/completions -H \"content-type: application/json\"{header} -d '{}'",
            request.to_string().replace('\'', r"'\''"),
        )?;
        let console = console_url(&base);
        match &self.code {
            Some(code) => {
                write!(f, "\nConsole, signed in once within two minutes: {console}#/login?code={code}")
            }
            None if self.config.admin.is_some() => write!(f, "\nConsole: {console}"),
            None => Ok(()),
        }
    }
}

/// The console's URL, given the base URL for OpenAI clients.
pub(super) fn console_url(base: &str) -> String {
    format!("{}/console/", base.strip_suffix("/v1").unwrap_or(base))
}

struct HostedTools<'a>(&'a (Vec<String>, Vec<String>));

impl fmt::Display for HostedTools<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tools, starting) = self.0;
        let tools = if tools.is_empty() { "none".to_owned() } else { tools.join(", ") };
        write!(f, "hosted tools: {tools}")?;
        if starting.is_empty() { Ok(()) } else { write!(f, "; starting: {}", starting.join(", ")) }
    }
}

/// Formats a model on one line.
struct Entry<'a>(&'a Model);

impl fmt::Display for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Model { name, upstream, upstream_name, tools, .. } = self.0;
        match name.as_str() {
            WILDCARD => f.write_str("every model name")?,
            name => write!(f, "model {name}")?,
        }
        write!(f, " from {} ({}, {})", upstream.name, upstream.dialect(), upstream.base_url)?;
        if let Some(upstream_name) = upstream_name {
            write!(f, " as {upstream_name}")?;
        }
        write!(f, "; tools {tools}")
    }
}

/// Replaces an unspecified address (`0.0.0.0`, `::`) with loopback, to which a client on this machine can connect.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolwire_config::{Overrides, load};

    #[test]
    fn announcement_shows_addresses_models_and_a_curl_command() {
        let overrides = Overrides {
            upstream: Some("https://u.example/v1".to_owned()),
            dialect: Some("chat".to_owned()),
            client_keys: vec!["env:KEY".into()],
            ..Overrides::default()
        };
        let config = load(&overrides, &|_| Some("sk-secret".to_owned())).unwrap().config;
        let addresses = ["0.0.0.0:81".parse().unwrap(), "[::1]:82".parse().unwrap()];
        let (hosted, code) = (Default::default(), Some("c0de".to_owned()));
        let told = Announcement { config: &config, addresses: &addresses, hosted, code }.to_string();
        for part in [
            "listens on http://0.0.0.0:81, http://[::1]:82\n",
            "\n  every model name from upstream (chat, https://u.example/v1); tools native\n",
            "base URL http://127.0.0.1:81/v1 and one of the API keys",
            "curl -N http://127.0.0.1:81/v1/chat/completions ",
            "\"authorization: Bearer $KEY\"",
            "\"stream\":true",
            "\nConsole, signed in once within two minutes: http://127.0.0.1:81/console/#/login?code=c0de",
        ] {
            assert!(told.contains(part), "{part} in {told}");
        }
        assert!(!told.contains("sk-secret"));
        assert!(!told.contains("hosted tools"), "there is no `[execution]`");
        let hosted = (vec!["web_search".to_owned(), "scrape".to_owned()], vec!["files".to_owned()]);
        assert_eq!(HostedTools(&hosted).to_string(), "hosted tools: web_search, scrape; starting: files");
        assert_eq!(HostedTools(&Default::default()).to_string(), "hosted tools: none");
    }
}

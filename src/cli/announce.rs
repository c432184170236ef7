//! What a server says on stderr when it is ready: where it listens, what it serves, how to point a client at it.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use crate::config::{Config, Model, WILDCARD};

/// The announcement of a server that runs on `config` and is bound to `addresses`, which say the port where the
/// configuration left it open.
#[derive(Debug)]
pub struct Announcement<'a> {
    /// What it serves.
    pub config: &'a Config,
    /// Where it listens.
    pub addresses: &'a [SocketAddr],
}

impl fmt::Display for Announcement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listening: Vec<_> = self.addresses.iter().map(|address| format!("http://{address}")).collect();
        writeln!(f, "toolwire {} listens on {}", env!("CARGO_PKG_VERSION"), listening.join(", "))?;
        for model in &self.config.models {
            writeln!(f, "  {}", Entry(model))?;
        }
        let Some(address) = self.addresses.first() else { return Ok(()) };
        let base = format!("http://{}/v1", reachable(*address));
        let (key, header) = match self.config.api_keys.is_empty() {
            true => ("any API key", ""),
            false => ("one of the API keys", " -H \"authorization: Bearer $KEY\""),
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
        )
    }
}

/// One model on one line.
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

/// An address that a client on this machine can connect to.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

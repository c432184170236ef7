//! [`Upstream`]: where requests go, and how long they may take.

use std::time::Duration;

use http::{HeaderMap, Uri};
use secrecy::SecretString;

use crate::dialect::Dialect;

/// One server that toolwire calls.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// Its name in the configuration, in logs and metrics.
    pub name: String,
    /// Its dialect, with the settings that only this dialect has.
    pub options: Options,
    /// `http` or `https`, host and path, without query; no slash at the end.
    pub base_url: Uri,
    /// Sent as `Authorization: Bearer …`. `None`: no such header.
    pub api_key: Option<SecretString>,
    /// Sent with every request, marked as sensitive.
    pub headers: HeaderMap,
    /// How long its parts may take.
    pub timeouts: Timeouts,
    /// How many requests at once, and how many wait.
    pub queue: Queue,
    /// A stream that closes without its end mark has ended well.
    pub tolerate_truncation: bool,
}

impl Upstream {
    /// The API that it speaks.
    pub fn dialect(&self) -> Dialect {
        match self.options {
            Options::Lumo(_) => Dialect::Lumo,
            Options::Chat(_) => Dialect::Chat,
        }
    }

    /// The address of `path` (no leading slash) behind the base URL.
    ///
    /// # Errors
    /// If `path` has characters that no URL may have.
    pub fn endpoint(&self, path: &str) -> Result<Uri, http::Error> {
        let base = self.base_url.path().trim_end_matches('/');
        let mut parts = self.base_url.clone().into_parts();
        parts.path_and_query = Some(format!("{base}/{path}").parse()?);
        Ok(Uri::from_parts(parts)?)
    }
}

/// Settings that one dialect has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Options {
    /// `[upstreams.lumo]`
    Lumo(LumoOptions),
    /// `[upstreams.chat]`
    Chat(ChatOptions),
}

/// `[upstreams.lumo]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LumoOptions {
    /// Which request and stream.
    pub version: LumoVersion,
    /// Server tools that are switched on.
    pub native_tools: Vec<String>,
}

impl Default for LumoOptions {
    fn default() -> Self {
        let native_tools = vec!["proton_info".to_owned(), "web_search".to_owned()];
        Self { version: LumoVersion::V2, native_tools }
    }
}

/// `version`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LumoVersion {
    /// The older typed stream (Lumo 1.1).
    V1,
    /// Completion chunks (Lumo 1.3).
    V2,
}

/// `[upstreams.chat]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatOptions {
    /// Ask for token counts at the end of a stream (`stream_options`).
    pub include_usage: bool,
    /// Its deltas repeat all that came before.
    pub cumulative: bool,
}

impl Default for ChatOptions {
    fn default() -> Self {
        Self { include_usage: true, cumulative: false }
    }
}

/// The four time limits of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// To a connection, TLS included.
    pub connect: Duration,
    /// From the request sent to the response's headers.
    pub header: Duration,
    /// Between two pieces of a stream.
    pub idle: Duration,
    /// The whole stream, from the request on. `None`: no limit.
    pub total: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            header: Duration::from_secs(90),
            idle: Duration::from_secs(120),
            total: None,
        }
    }
}

/// How many requests an upstream gets at once, and how many wait for their turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// Requests whose answers are open. At least one.
    pub max_concurrent: usize,
    /// Requests that wait. Beyond: 429.
    pub max_waiting: usize,
    /// How long one waits. Beyond: 429.
    pub wait_timeout: Duration,
}

impl Default for Queue {
    fn default() -> Self {
        Self { max_concurrent: 64, max_waiting: 256, wait_timeout: Duration::from_secs(30) }
    }
}

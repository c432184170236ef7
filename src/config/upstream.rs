//! [`Upstream`]: where requests go, and how long they may take.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use secrecy::SecretString;

use super::{
    table::{Cell, Table},
    value::{base_url, choice, count, duration, duration_or_off, list, referred, secret, switch, text},
};
use crate::dialect::{Dialect, UpstreamDialect, chat, lumo};

/// One server that toolwire calls.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// Its name in the configuration, in logs and metrics.
    pub name: String,
    /// Its dialect, with the settings that only this dialect has.
    pub options: UpstreamDialect,
    /// `http` or `https`, host and path, without query; no slash at the end.
    pub base_url: Uri,
    /// Sent as `Authorization: Bearer …`. `None`: no such header.
    pub api_key: Option<SecretString>,
    /// Sent with every request, marked as sensitive.
    pub headers: HeaderMap,
    /// How long its parts may take.
    pub timeouts: Timeouts,
    /// How many requests at once, and how many wait.
    pub queue: QueueLimits,
    /// A stream that closes without its end mark has ended well.
    pub tolerate_truncation: bool,
    /// A request is sent once more where a kept connection closes without a byte of an answer. The upstream may then
    /// act on it twice.
    pub retry_unanswered: bool,
}

impl Upstream {
    /// The API that it speaks.
    pub fn dialect(&self) -> Dialect {
        self.options.dialect()
    }

    /// The address that is asked.
    ///
    /// # Errors
    /// If it is longer than a URL may be.
    pub fn endpoint(&self) -> Result<Uri, http::Error> {
        self.below(self.options.side().path())
    }

    /// The address that lists its models; `None` if its dialect has none.
    pub fn models_endpoint(&self) -> Option<Result<Uri, http::Error>> {
        self.options.side().models_path().map(|path| self.below(path))
    }

    fn below(&self, path: &str) -> Result<Uri, http::Error> {
        let base = self.base_url.path().trim_end_matches('/');
        let mut parts = self.base_url.clone().into_parts();
        parts.path_and_query = Some(format!("{base}/{path}").parse()?);
        Ok(Uri::from_parts(parts)?)
    }
}

/// The words of `developer_role`.
pub(super) const DEVELOPER_ROLE: [(&str, bool); 2] = [("keep", true), ("system", false)];

/// The words of `custom_tools`.
pub(super) const CUSTOM_TOOLS: [(&str, bool); 2] = [("keep", true), ("function", false)];

/// The words of `result_images`.
pub(super) const RESULT_IMAGES: [(&str, bool); 2] = [("keep", true), ("user", false)];

/// The words of `stream`.
pub(super) const STREAM: [(&str, chat::Streaming); 2] =
    [("as_asked", chat::Streaming::AsAsked), ("always", chat::Streaming::Always)];

/// The four time limits of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// To a connection, TLS included.
    pub connect: Duration,
    /// From the request sent to the response's headers. Of an answer that is not streamed, see
    /// [`Timeouts::first_headers`].
    pub header: Duration,
    /// Between two pieces of a stream.
    pub idle: Duration,
    /// The whole stream, from the request on. `None`: no limit.
    pub total: Option<Duration>,
}

/// How long the headers of an answer that is not streamed may take, unless `header_timeout` or `total_timeout` are longer: what
/// clients wait by default.
const WHOLE_ANSWER: Duration = Duration::from_secs(600);

impl Timeouts {
    /// How long the upstream may take to send its headers. It sends those of an answer that is not streamed when the
    /// answer is complete, so for them the limit of the whole answer holds.
    pub fn first_headers(&self, stream: bool) -> Duration {
        if stream { self.header } else { self.total.unwrap_or(WHOLE_ANSWER).max(self.header) }
    }
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
pub struct QueueLimits {
    /// Requests whose answers are open. At least one.
    pub max_concurrent: usize,
    /// Requests that wait. Beyond: 429.
    pub max_waiting: usize,
    /// How long one waits. Beyond: 429.
    pub wait_timeout: Duration,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self { max_concurrent: 64, max_waiting: 256, wait_timeout: Duration::from_secs(30) }
    }
}

/// Headers that belong to the connection or the body, so nobody else can say them rightly.
const OWN_HEADERS: [HeaderName; 6] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::TRANSFER_ENCODING,
    header::ACCEPT_ENCODING,
];

/// An entry's name with its place, and the upstream as far as it could be read.
pub(super) type Entry<'a> = (Option<(String, Cell<'a>)>, Option<Upstream>);

/// Reads an entry of `[[upstreams]]`.
pub(super) fn read<'a>(table: &mut Table<'a>) -> Entry<'a> {
    let name = table.require("name", |cell| Some((text(cell.clone())?, cell)));
    let dialect = table.require("dialect", choice(&upstream_dialects()));
    let base_url = table.require("base_url", base_url);
    let api_key = table.get("api_key", secret);
    let headers = table.get_or("headers", HeaderMap::new(), headers);
    let timeouts = timeouts(table);
    let queue = queue(table);
    let tolerate_truncation = table.get_or("tolerate_truncation", false, switch);
    let retry_unanswered = table.get_or("retry_unanswered", false, switch);
    let options = options(table, dialect, base_url.as_ref());
    let upstream = (|| {
        Some(Upstream {
            name: name.as_ref()?.0.clone(),
            options: options?,
            base_url: base_url?,
            api_key,
            headers,
            timeouts,
            queue,
            tolerate_truncation,
            retry_unanswered,
        })
    })();
    if let Some(upstream) = &upstream {
        check(upstream, table);
    }
    (name, upstream)
}

/// The words of `dialect`.
fn upstream_dialects() -> Vec<(&'static str, Dialect)> {
    UpstreamDialect::all().iter().map(|upstream| (upstream.dialect().name(), upstream.dialect())).collect()
}

/// What must hold between an upstream's keys.
fn check(upstream: &Upstream, table: &mut Table<'_>) {
    if let Some(key) = table.cell("api_key") {
        if upstream.base_url.scheme_str() == Some("http") && !is_loopback(&upstream.base_url) {
            key.warn("the key goes over `http://` to another machine and can be read on its way");
        }
        if upstream.headers.contains_key(header::AUTHORIZATION) {
            key.wrong::<()>("`api_key` and a header `authorization`: give one of them");
        }
    }
    if let Some(cell) = table.cell("header_timeout")
        && let Some(slow) = upstream.options.side().slow_headers()
        && upstream.timeouts.header < slow
    {
        cell.warn(format!(
            "{} may send its headers only after {} s; a shorter limit hides the error that it gives then",
            upstream.dialect().title(),
            slow.as_secs()
        ));
    }
}

fn is_loopback(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn headers(cell: Cell<'_>) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, span, cell) in cell.entries() {
        let Ok(name) = name.parse::<HeaderName>() else {
            cell.context.findings.wrong(span, format!("`{name}` is not a header's name"));
            continue;
        };
        if OWN_HEADERS.contains(&name) {
            cell.context.findings.wrong(span, format!("the header `{name}` is toolwire's own"));
            continue;
        }
        let Some((value, _)) = referred(cell.clone()) else { continue };
        match HeaderValue::from_str(&value) {
            Ok(mut value) => {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
            Err(_) => {
                cell.wrong::<()>(format!("the value of `{name}` holds characters that no header can carry"));
            }
        }
    }
    Some(headers)
}

/// Headers whose values say nothing that is secret, and may be words of any text.
const PUBLIC_HEADERS: [&str; 10] = [
    "accept",
    "accept-language",
    "anthropic-beta",
    "anthropic-version",
    "cache-control",
    "http-referer",
    "openai-beta",
    "referer",
    "user-agent",
    "x-title",
];

/// What the name of a header with a secret has in it.
const SECRET_NAMES: [&str; 8] =
    ["auth", "cookie", "credential", "key", "password", "secret", "session", "token"];

/// Bytes from which on any value may be a secret. Shorter ones are words, such as a provider's name.
const SECRET_LENGTH: usize = 16;

/// The values of `headers` that are or may be secrets; of `Bearer KEY` and the like the key.
pub(super) fn secret_headers(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let secret = headers.iter().filter(|(name, value)| {
        let name = name.as_str();
        let is_named_so = SECRET_NAMES.iter().any(|secret| name.contains(secret));
        !PUBLIC_HEADERS.contains(&name) && (is_named_so || value.len() >= SECRET_LENGTH)
    });
    let values = secret.filter_map(|(_, value)| value.to_str().ok());
    values.map(|value| {
        let is_scheme = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphabetic());
        let key = value.split_once(' ').filter(|(scheme, _)| is_scheme(scheme));
        key.map_or(value, |(_, key)| key.trim())
    })
}

fn timeouts(table: &mut Table<'_>) -> Timeouts {
    let Timeouts { connect, header, idle, total } = Timeouts::default();
    Timeouts {
        connect: table.get_or("connect_timeout", connect, duration),
        header: table.get_or("header_timeout", header, duration),
        idle: table.get_or("idle_timeout", idle, duration),
        total: table.get_or("total_timeout", total, duration_or_off),
    }
}

fn queue(table: &mut Table<'_>) -> QueueLimits {
    let QueueLimits { max_concurrent, max_waiting, wait_timeout } = QueueLimits::default();
    QueueLimits {
        max_concurrent: table.get_or("max_concurrent", max_concurrent, count(1)),
        max_waiting: table.get_or("max_waiting", max_waiting, count(0)),
        wait_timeout: table.get_or("wait_timeout", wait_timeout, duration),
    }
}

/// The tables of all dialects are read, to report the mistakes in them; only the upstream's own may be given.
fn options(
    table: &mut Table<'_>,
    dialect: Option<Dialect>,
    base_url: Option<&Uri>,
) -> Option<UpstreamDialect> {
    let host = base_url.and_then(Uri::host).unwrap_or_default();
    let lumo = own_table(table, (dialect, Dialect::Lumo), lumo::Options::default(), lumo_options);
    let chat = own_table(table, (dialect, Dialect::Chat), chat::Options::of_host(host), chat_options);
    Some(match dialect? {
        Dialect::Lumo => UpstreamDialect::Lumo(lumo),
        Dialect::Chat => UpstreamDialect::Chat(chat),
    })
}

fn own_table<'a, T: Clone>(
    table: &mut Table<'a>,
    (spoken, dialect): (Option<Dialect>, Dialect),
    defaults: T,
    read: fn(&mut Table<'a>, T) -> T,
) -> T {
    let Some(cell) = table.cell(dialect.name()) else { return defaults };
    if spoken.is_some_and(|spoken| spoken != dialect) {
        cell.wrong::<()>(format!("settings of the dialect `{dialect}`, which this upstream does not speak"));
    }
    cell.table(|table| Some(read(table, defaults.clone()))).unwrap_or(defaults)
}

fn lumo_options(table: &mut Table<'_>, defaults: lumo::Options) -> lumo::Options {
    let versions = [("v1", lumo::Version::V1), ("v2", lumo::Version::V2)];
    lumo::Options {
        version: table.get_or("version", defaults.version, choice(&versions)),
        native_tools: table.get_or("native_tools", defaults.native_tools, list(text)),
        target: defaults.target,
    }
}

fn chat_options(table: &mut Table<'_>, defaults: chat::Options) -> chat::Options {
    chat::Options {
        include_usage: table.get_or("include_usage", defaults.include_usage, switch),
        cumulative: table.get_or("cumulative", defaults.cumulative, switch),
        stream: table.get_or("stream", defaults.stream, choice(&STREAM)),
        keep_developer: table.get_or("developer_role", defaults.keep_developer, choice(&DEVELOPER_ROLE)),
        keep_custom_tools: table.get_or("custom_tools", defaults.keep_custom_tools, choice(&CUSTOM_TOOLS)),
        keep_result_images: table.get_or(
            "result_images",
            defaults.keep_result_images,
            choice(&RESULT_IMAGES),
        ),
        join_user_turns: table.get_or("join_user_turns", defaults.join_user_turns, switch),
    }
}

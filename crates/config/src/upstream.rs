//! [`Upstream`]: a server that toolwire sends requests to, and the limits for it.

use std::{fs, path::Path, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use secrecy::SecretString;

use super::{
    keys::{Reading, shown_text, some, string, table_of},
    mask::masked,
    proxies::{self, HttpProxy},
    table::{Cell, Table},
    upstream_tls,
    value::{base_url, choice, referred, text},
};
use toolwire_execution::audit::unix_millis;
use toolwire_net::{proxied::is_loopback, tls::UpstreamTls};
use toolwire_pipeline::{
    dialect::{
        AccountSettings, Credentials, Dialect, Probe, Root, Surroundings, TemplateSource, UpstreamDialect,
    },
    settings::{Settings, names_secret},
};

#[derive(Debug, Clone)]
pub struct Upstream {
    /// The name in the configuration, in logs and in metrics.
    pub name: String,
    /// The dialect, with its own settings.
    pub options: UpstreamDialect,
    /// An `http` or `https` URL without a query or a trailing slash.
    pub base_url: Uri,
    /// The value of the dialect's header for keys. `None` sends no such header.
    pub api_key: Option<SecretString>,
    /// Headers for every request, marked as sensitive.
    pub headers: HeaderMap,
    /// The certificates to trust and to present. If `None`, the system's authorities are trusted and no certificate is
    /// presented.
    pub tls: Option<Arc<UpstreamTls>>,
    pub proxy: Option<HttpProxy>,
    pub timeouts: Timeouts,
    pub queue: QueueLimits,
    /// Whether a stream that closes without its end marker counts as complete.
    pub tolerate_truncation: bool,
    /// Whether a request is repeated if a reused connection closes before any byte of the response. An upstream that
    /// crashed while processing the request may then process it twice.
    pub retry_unanswered: bool,
}

impl Upstream {
    pub fn dialect(&self) -> Dialect {
        self.options.dialect()
    }

    /// The account that is used for requests, if the dialect has accounts.
    pub fn account(&self) -> Option<&AccountSettings> {
        self.options.side().account()
    }

    /// Whether each client sends the session of its own account.
    pub fn takes_sessions(&self) -> bool {
        self.account().is_some_and(|account| account.credentials == Credentials::Client)
    }

    /// The URL of requests that generate responses.
    ///
    /// # Errors
    /// The URL is too long.
    pub fn endpoint(&self) -> Result<Uri, http::Error> {
        self.below(self.options.side().path())
    }

    /// The URL of the list of models. `None` if the dialect has no such list.
    pub fn models_endpoint(&self) -> Option<Result<Uri, http::Error>> {
        self.options.side().models_path().map(|path| self.below(path))
    }

    /// The URL of the list that is used to check a server and a key. `None` if the dialect has no such list.
    pub fn check_endpoint(&self) -> Option<Result<Uri, http::Error>> {
        self.options.side().check_path().map(|path| self.below(path))
    }

    /// The URL of a probe.
    ///
    /// # Errors
    /// See [`Upstream::endpoint`].
    pub fn probe_endpoint(&self, probe: &Probe) -> Result<Uri, http::Error> {
        match probe.root {
            Root::Base => self.below(probe.path),
            Root::Server => self.under(self.base().strip_suffix("/v1").unwrap_or(self.base()), probe.path),
        }
    }

    /// The URL at which the server shows its models' chat templates.
    ///
    /// # Errors
    /// See [`Upstream::endpoint`].
    pub fn template_endpoint(&self, source: TemplateSource) -> Result<Uri, http::Error> {
        self.under(self.base().strip_suffix("/v1").unwrap_or(self.base()), source.path())
    }

    /// Appends a path to the base URL. The path may include a query.
    ///
    /// # Errors
    /// The URL is too long, or the path contains characters that URLs do not allow.
    pub fn endpoint_at(&self, path: &str) -> Result<Uri, http::Error> {
        self.below(path)
    }

    fn base(&self) -> &str {
        self.base_url.path().trim_end_matches('/')
    }

    fn below(&self, path: &str) -> Result<Uri, http::Error> {
        self.under(self.base(), path)
    }

    fn under(&self, base: &str, path: &str) -> Result<Uri, http::Error> {
        let mut parts = self.base_url.clone().into_parts();
        parts.path_and_query = Some(format!("{base}/{path}").parse()?);
        Ok(Uri::from_parts(parts)?)
    }
}

/// The four time limits of a request.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
pub struct Timeouts {
    /// to open a connection, including TLS
    #[setting(key = "connect_timeout", default = Duration::from_secs(10))]
    pub connect: Duration,
    /// from the request to the response's headers; if that is not streamed, `total_timeout`, or ten minutes.
    /// Lumo may take more than 60 s
    #[setting(key = "header_timeout", default = Duration::from_secs(90))]
    pub header: Duration,
    /// between two pieces of data in a stream
    #[setting(key = "idle_timeout", default = Duration::from_secs(120))]
    pub idle: Duration,
    /// for the whole response, or `"off"`
    #[setting(key = "total_timeout")]
    pub total: Option<Duration>,
}

/// Default time limit for the headers of a response that is not streamed. Client libraries have the same default. A
/// longer `header_timeout`, or any `total_timeout`, replaces it.
const WHOLE_ANSWER: Duration = Duration::from_secs(600);

impl Timeouts {
    /// Time limit for the response's headers. A response that is not streamed has headers only when it is complete, so
    /// the limit for the complete response applies to them.
    pub fn first_headers(&self, stream: bool) -> Duration {
        if stream { self.header } else { self.total.unwrap_or(WHOLE_ANSWER).max(self.header) }
    }
}

/// Limits of concurrent and waiting requests.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
pub struct QueueLimits {
    /// open requests, across all threads
    #[setting(default = 64)]
    pub max_concurrent: usize,
    /// requests in the queue; further ones get 429
    #[setting(default = 256, range = 0..)]
    pub max_waiting: usize,
    /// how long a request may wait; then it gets 429
    #[setting(default = Duration::from_secs(30))]
    pub wait_timeout: Duration,
}

/// Headers that describe the connection or the body, so only toolwire can set them.
const OWN_HEADERS: [HeaderName; 6] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::TRANSFER_ENCODING,
    header::ACCEPT_ENCODING,
];

/// An entry's name with its location, and the upstream if it could be read.
pub(super) type Entry<'a> = (Option<(String, Cell<'a>)>, Option<Upstream>);

/// An entry of `[[upstreams]]`, which may contain mistakes.
pub(super) struct Declared<'a> {
    pub(super) name: Option<String>,
    /// `None` if the entry contains mistakes.
    pub(super) upstream: Option<Arc<Upstream>>,
    pub(super) cell: Cell<'a>,
}

/// An entry of `[[upstreams]]` that is being read.
#[derive(Debug, Settings)]
pub(super) struct Draft {
    /// the name that models refer to, also used in logs and metrics
    #[setting(required, read = some(text), show = shown_text)]
    name: Option<String>,
    #[setting(
        about = format!("its API: {}", spoken()), required, read = some(choice(&dialects())),
        show = |dialect| dialect.map(|dialect| string(dialect.name()))
    )]
    dialect: Option<Dialect>,
    /// `http://` or `https://`; the dialect's own path (`chat/completions`, …) is appended
    #[setting(
        required, read = some(base_url),
        show = |url| url.as_ref().map(|url| string(url.to_string().trim_end_matches('/')))
    )]
    base_url: Option<Uri>,
    /// a secret, sent as the dialect does: `Authorization: Bearer …`, `x-api-key`, `x-goog-api-key`
    #[setting(or = "none")]
    api_key: Option<SecretString>,
    /// headers for every request; secrets as `"env:NAME"` or `"file:PATH"`
    #[setting(or = "none", read = headers, show = shown_headers)]
    headers: HeaderMap,
    /// its [HTTP proxy](tls.md): `"http://user:password@proxy.example:3128"`, `"env:NAME"`, `"file:PATH"`, or
    /// `"none"`
    ///
    /// `None` lets the environment decide.
    #[setting(
        or = "[by the environment](tls.md)", read = some(proxies::read),
        show = |proxy| proxy.as_ref().map(|proxy| proxies::shown(proxy.as_ref()))
    )]
    proxy: Option<Option<HttpProxy>>,
    #[setting(nested)]
    timeouts: Timeouts,
    #[setting(nested)]
    queue: QueueLimits,
    /// repeat a request once when a reused connection ends without a byte of a response. A server that
    /// crashed may be asked (and bill) twice
    #[setting(default = true)]
    retry_unanswered: bool,
    /// accept a stream that closes without its end mark as complete
    tolerate_truncation: bool,
}

/// The values of `dialect`, for the documentation.
fn spoken() -> String {
    let spoken = dialects().into_iter().map(|(name, dialect)| format!("`\"{name}\"` ({})", dialect.title()));
    spoken.collect::<Vec<_>>().join(" or ")
}

/// The values of `dialect`.
fn dialects() -> Vec<(&'static str, Dialect)> {
    let dialects = UpstreamDialect::all().into_iter().map(|upstream| upstream.dialect());
    dialects.map(|dialect| (dialect.name(), dialect)).collect()
}

pub(super) fn read<'a>(table: &mut Table<'a>) -> Entry<'a> {
    let mut draft = Draft::default();
    draft.settings(&mut Reading(table));
    let name = draft.name.clone().zip(table.cell("name"));
    let options = options(table, &draft);
    let tls = upstream_tls::read(table, draft.base_url.as_ref());
    if let (None, Some(base)) = (&draft.proxy, &draft.base_url) {
        draft.proxy = Some(proxies::of_environment(table, base));
    }
    let upstream = draft.finish(options, tls);
    if let Some(upstream) = &upstream {
        check(upstream, table);
    }
    (name, upstream)
}

/// Reads the tables of all dialects, to report the mistakes in them. Returns the table of the upstream's own dialect,
/// and reports the tables of other dialects.
fn options(table: &mut Table<'_>, draft: &Draft) -> Option<UpstreamDialect> {
    let host = draft.base_url.as_ref().and_then(Uri::host).unwrap_or_default();
    let mut own = None;
    for mut options in UpstreamDialect::all() {
        let dialect = options.dialect();
        options.adapt_to_host(host);
        if let Some(cell) = table.cell(dialect.name()) {
            if draft.dialect.is_some_and(|spoken| spoken != dialect) {
                cell.wrong::<()>(format!(
                    "settings of the dialect `{dialect}`, which this upstream does not speak"
                ));
            }
            cell.clone().table(|table| {
                options.settings(&mut Reading(table));
                Some(())
            });
            let read = |path: &Path| {
                cell.context.files.note(path);
                fs::read_to_string(path)
            };
            let environment = cell.context.environment;
            let surroundings = Surroundings { read: &read, environment, now: unix_millis() / 1000 };
            match options.prepare(&surroundings) {
                Ok(None) => {}
                Ok(Some(warning)) => cell.warn(warning),
                Err(error) => _ = cell.wrong::<()>(error.to_string()),
            }
        }
        if let Some(absence) = options.absence().filter(|_| draft.dialect == Some(dialect)) {
            table.cell("dialect").map(|cell| cell.wrong::<()>(absence));
        }
        if draft.dialect == Some(dialect) {
            own = Some(options);
        }
    }
    own
}

impl Draft {
    fn finish(self, options: Option<UpstreamDialect>, tls: Option<Arc<UpstreamTls>>) -> Option<Upstream> {
        Some(Upstream {
            name: self.name?,
            options: options?,
            base_url: self.base_url?,
            api_key: self.api_key,
            headers: self.headers,
            tls,
            proxy: self.proxy.flatten(),
            timeouts: self.timeouts,
            queue: self.queue,
            tolerate_truncation: self.tolerate_truncation,
            retry_unanswered: self.retry_unanswered,
        })
    }
}

impl Upstream {
    /// The entry's keys with all values, and with secrets masked.
    pub(super) fn shown(&self) -> toml::Table {
        let mut draft = Draft {
            name: Some(self.name.clone()),
            dialect: Some(self.dialect()),
            base_url: Some(self.base_url.clone()),
            api_key: self.api_key.clone(),
            headers: self.headers.clone(),
            proxy: Some(self.proxy.clone()),
            timeouts: self.timeouts.clone(),
            queue: self.queue.clone(),
            tolerate_truncation: self.tolerate_truncation,
            retry_unanswered: self.retry_unanswered,
        };
        let mut shown = table_of(|keys| draft.settings(keys));
        let options = table_of(|visitor| self.options.clone().settings(visitor));
        shown.insert(self.dialect().name().to_owned(), toml::Value::Table(options));
        if let Some(tls) = &self.tls {
            shown.insert("tls".to_owned(), toml::Value::Table(upstream_tls::shown(tls)));
        }
        shown
    }
}

/// Checks combinations of an upstream's keys.
fn check(upstream: &Upstream, table: &mut Table<'_>) {
    if let Some(key) = table.cell("api_key") {
        if upstream.base_url.scheme_str() == Some("http") && !is_loopback(&upstream.base_url) {
            key.warn("the key goes over `http://` to another machine and can be read on its way");
        }
        if upstream.headers.contains_key(header::AUTHORIZATION) {
            key.wrong::<()>("`api_key` and a header `authorization`: give one of them");
        }
    }
    check_account(upstream, table);
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

/// Checks an account, and where its tokens are sent.
fn check_account(upstream: &Upstream, table: &mut Table<'_>) {
    let Some((account, cell)) = upstream.account().zip(table.cell(upstream.dialect().name())) else { return };
    if let Some(problem) = account.problem(upstream.api_key.is_some()) {
        cell.wrong::<()>(problem);
    }
    let is_readable = |url: &Uri| url.scheme_str() == Some("http") && !is_loopback(url);
    if account.has_session()
        && [Some(&upstream.base_url), account.account_url.as_ref()].into_iter().flatten().any(is_readable)
    {
        cell.warn("the tokens go over `http://` to another machine and can be read on their way");
    }
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

fn shown_headers(headers: &HeaderMap) -> Option<toml::Value> {
    let masked = headers.iter().map(|(name, value)| (name.to_string(), string(&masked(value))));
    (!headers.is_empty()).then(|| toml::Value::Table(masked.collect()))
}

/// Headers whose values are not secret, and may be ordinary words.
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

/// Values of at least this many bytes may be secrets. Shorter ones are words, such as a provider's name.
const SECRET_LENGTH: usize = 16;

/// Header values that are or may be secret. For `Bearer KEY` and similar values, only the key.
pub(super) fn secret_headers(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let secret = headers.iter().filter(|(name, value)| {
        let name = name.as_str();
        !PUBLIC_HEADERS.contains(&name) && (names_secret(name) || value.len() >= SECRET_LENGTH)
    });
    let values = secret.filter_map(|(_, value)| value.to_str().ok());
    values.map(|value| {
        let is_scheme = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphabetic());
        let key = value.split_once(' ').filter(|(scheme, _)| is_scheme(scheme));
        key.map_or(value, |(_, key)| key.trim())
    })
}

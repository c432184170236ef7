//! A proxy in the test process, in front of a scripted upstream.

use std::{
    io::Write,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use http::HeaderMap;
use secrecy::SecretString;
use tokio::{sync::oneshot, task::JoinSet};
use toolwire::{
    admin,
    config::{
        Config, Failover, Limits, Metrics, Model, Origins, Overrides, Passthrough, QueueLimits, StoreKind,
        SystemPosition, Timeouts, ToolSearch, ToolStyle, Upstream, WILDCARD, load,
    },
    dialect::{MemberSettings, UpstreamDialect, chat},
    proxy::{Reloads, tap::Tap},
    rules::Rules,
    template::ChatTemplate,
};

/// A configuration with one upstream and the model `m`, which a test may change before [`Setup::start`].
pub(crate) struct Setup {
    pub(crate) upstream: Upstream,
    /// Whether a wildcard model serves all other names.
    pub(crate) wildcard: bool,
    /// Whether it is decided for each request if the response starts inside reasoning.
    pub(crate) decides_start: bool,
    pub(crate) keys: Vec<&'static str>,
    pub(crate) settings: Rules,
    pub(crate) tools: ToolStyle,
    pub(crate) instructions: Option<String>,
    /// The text of the chat template. If there is one, the prompt decides whether responses start inside reasoning.
    pub(crate) chat_template: Option<String>,
    pub(crate) limits: Limits,
    pub(crate) cors_origins: Origins,
    pub(crate) hosts: Vec<String>,
    pub(crate) passthrough: Passthrough,
    pub(crate) metrics: Metrics,
    pub(crate) drain_timeout: Duration,
    pub(crate) drain_delay: Option<Duration>,
    pub(crate) threads: usize,
    pub(crate) listen: Vec<SocketAddr>,
    pub(crate) tap: Option<Arc<dyn Tap>>,
    pub(crate) state_dir: Option<PathBuf>,
    pub(crate) store: StoreKind,
    /// The model that describes images for the model `m`.
    pub(crate) vision: Option<&'static str>,
    pub(crate) tool_search: ToolSearch,
    /// Tables in configuration file syntax: `[execution]` and its tables, `[[keys]]`, `[admin]`, `[tls]` and
    /// `[telemetry]`. A missing table disables its feature.
    pub(crate) execution: String,
}

const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Longer than any test takes.
pub(crate) const NEVER: Duration = Duration::from_secs(600);

impl Setup {
    pub(crate) fn new(upstream: SocketAddr) -> Self {
        Self {
            upstream: Upstream {
                name: "up".to_owned(),
                options: UpstreamDialect::Chat(chat::Options::of_host("")),
                base_url: format!("http://{upstream}/base").parse().unwrap(),
                api_key: Some(SecretString::from("upstream-key")),
                headers: HeaderMap::new(),
                tls: None,
                proxy: None,
                timeouts: Timeouts { connect: NEVER, header: NEVER, idle: NEVER, total: None },
                queue: QueueLimits { max_concurrent: 8, max_waiting: 8, wait_timeout: NEVER },
                tolerate_truncation: false,
                retry_unanswered: true,
            },
            wildcard: false,
            decides_start: false,
            keys: Vec::new(),
            settings: Rules::default(),
            tools: ToolStyle::Native,
            instructions: None,
            chat_template: None,
            limits: Limits { keep_alive: NEVER, ..Limits::default() },
            cors_origins: Origins::None,
            hosts: Vec::new(),
            passthrough: Passthrough::default(),
            metrics: Metrics::default(),
            drain_timeout: NEVER,
            drain_delay: None,
            threads: 1,
            listen: vec![ANY, ANY],
            tap: None,
            state_dir: None,
            store: StoreKind::Embedded,
            vision: None,
            tool_search: ToolSearch::Auto,
            execution: String::new(),
        }
    }

    pub(crate) fn config(self) -> (Config, Option<Arc<dyn Tap>>) {
        let upstream = Arc::new(self.upstream);
        let chat_template = self.chat_template.as_ref();
        let chat_template =
            chat_template.map(|text| Arc::new(ChatTemplate::parse(text, "model.jinja").unwrap()));
        let model = |name: &str, upstream_name: Option<&str>| Model {
            name: name.to_owned(),
            upstream: Arc::clone(&upstream),
            upstream_name: upstream_name.map(str::to_owned),
            tools: self.tools,
            formats: Arc::default(),
            instructions: self.instructions.clone(),
            chat_template: chat_template.clone(),
            system_position: SystemPosition::System,
            starts_in_reasoning: (chat_template.is_none() && !self.decides_start)
                .then_some(self.settings.starts_in_reasoning),
            execution: true,
            vision: self.vision.filter(|_| name == "m").map(str::to_owned),
            tool_search: self.tool_search,
            alternatives: None,
            members: MemberSettings::default(),
            facts: None,
            settings: self.settings.clone(),
        };
        let mut models = vec![model("m", None), model("org/other", Some("theirs"))];
        models.extend(self.wildcard.then(|| model(WILDCARD, None)));
        let read = tables(&self.execution);
        let config = Config {
            listen: self.listen,
            api_keys: self.keys.into_iter().map(SecretString::from).collect(),
            keys: read.keys,
            upstreams: vec![Arc::clone(&upstream)],
            models,
            failover: Failover::default(),
            formats: Arc::default(),
            limits: self.limits,
            cors_origins: self.cors_origins,
            hosts: self.hosts,
            state_dir: self.state_dir,
            store: self.store,
            passthrough: self.passthrough,
            metrics: self.metrics,
            drain_timeout: self.drain_timeout,
            drain_delay: self.drain_delay,
            threads: self.threads,
            execution: read.execution,
            admin: read.admin,
            tls: read.tls,
            telemetry: read.telemetry,
            sources: read.sources,
        };
        (config, self.tap)
    }

    pub(crate) async fn start(self) -> Proxy {
        let (config, tap) = self.config();
        Proxy::start(config, tap)
    }
}

impl Proxy {
    pub(crate) fn of(text: &str) -> Self {
        Self::with_store("off", text)
    }

    /// Like [`Proxy::of`], but uses `store`.
    pub(crate) fn with_store(store: &str, text: &str) -> Self {
        let mut config = configured(&format!("listen = \"{ANY}\"\nthreads = 1\nstore = \"{store}\"\n{text}"));
        config.limits.keep_alive = NEVER;
        Self::start(config, None)
    }

    pub(crate) fn start(config: Config, tap: Option<Arc<dyn Tap>>) -> Self {
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let (server, admin) = admin::bind(Arc::new(config), tap, Vec::new()).unwrap();
        let addresses = server.addresses().to_vec();
        let (code, reloads) = (admin.sign_in_code(), server.reloads());
        let (stop, stopped) = oneshot::channel::<()>();
        let mut task = JoinSet::new();
        task.spawn(async {
            let served = server.run(async {
                let _ = stopped.await;
            });
            served.await.unwrap();
        });
        Self { addresses, scheme, code, reloads, stop: Some(stop), task }
    }
}

fn tables(text: &str) -> Config {
    configured(&format!("{text}\n{UPSTREAM}base_url = \"http://127.0.0.1:1/v1\"\n{MODEL}"))
}

const UPSTREAM: &str = "[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\n";
const MODEL: &str = "[[models]]\nname = \"*\"\n";

pub(crate) fn upstream_with(keys: &str) -> Upstream {
    Upstream::clone(&configured(&format!("{UPSTREAM}{keys}\n{MODEL}")).upstreams[0])
}

fn configured(text: &str) -> Config {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let overrides = Overrides { file: Some(file.path().to_owned()), ..Overrides::default() };
    load(&overrides, &|_| None).unwrap().config
}

/// A running proxy, which is stopped at once when it is dropped.
pub(crate) struct Proxy {
    pub(crate) addresses: Vec<SocketAddr>,
    scheme: &'static str,
    /// The one-time code for signing in to the admin API, if the API needs a key.
    pub(crate) code: Option<String>,
    pub(crate) reloads: Reloads,
    stop: Option<oneshot::Sender<()>>,
    task: JoinSet<()>,
}

impl Proxy {
    pub(crate) fn of_file(file: &Path) -> Self {
        let overrides = Overrides { file: Some(file.to_owned()), ..Overrides::default() };
        Self::start(load(&overrides, &|name| std::env::var(name).ok()).unwrap().config, None)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.addresses[0])
    }

    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    pub(crate) async fn ended(&mut self) {
        self.task.join_next().await.unwrap().unwrap();
    }
}

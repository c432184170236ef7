//! The settings of the stage: `[execution]`, `[[providers]]`, `[[tools]]`.

use std::{collections::HashMap, path::PathBuf, time::Duration};

use secrecy::SecretString;

use super::{
    ProviderOptions,
    address::Domain,
    files::ImageSettings,
    intent::Intent,
    rules::{Permission, PermissionRule, glob},
    tool::Rate,
};
use toolwire_net::proxied::Proxies;
use toolwire_pipeline::{rules::MixedTurns, settings::Settings, tools::normalized};

/// The settings of `[execution]`, with the providers and the rules for their tools.
#[derive(Debug, Clone)]
pub struct ExecutionSettings {
    /// Maximum number of hops in a turn that may run tools. In the hop after them, the model must answer.
    pub max_rounds: usize,
    /// Maximum number of hosted calls in one turn.
    pub max_calls: usize,
    /// Maximum number of hosted calls of one turn that run at the same time.
    pub max_parallel: usize,
    /// Maximum number of hosted calls of all turns that run at the same time.
    pub max_running: usize,
    /// Time limit for a response that calls hosted tools.
    pub deadline: Duration,
    /// Maximum length of one result, in characters. Longer results are shortened.
    pub max_result: usize,
    /// Maximum size of all results of a turn, in bytes.
    pub max_results: usize,
    /// How clients see hosted calls.
    pub visibility: Visibility,
    /// How a hop is handled that calls both hosted tools and the client's.
    pub mixed_turns: MixedTurns,
    /// Separator between the texts of two hops.
    pub separator: String,
    /// How a client's tool with the name of a hosted tool is handled.
    pub clash: Clash,
    /// Maximum number of retries of a call.
    pub retries: usize,
    /// Rate limit of each client's hosted calls.
    pub rate_limit: Option<Rate>,
    /// Maximum time that a call waits because of a rate limit.
    pub rate_wait: Duration,
    /// Maximum size of all cached results, in bytes.
    pub cache_size: usize,
    /// The folder of generated images, and its limits.
    pub images: ImageSettings,
    /// Command at the beginning of a message that asks for images without a model. `None` if there is no such command.
    pub image_command: Option<String>,
    /// Permissions of calls.
    pub permissions: PermissionSettings,
    /// The file to which all events of the stage are written, as JSON lines.
    pub audit: Option<PathBuf>,
    pub providers: Vec<ProviderEntry>,
    /// The rules, by tool names, which may end with `*`.
    pub tools: HashMap<String, ToolRules>,
    /// The proxies that the requests of providers go through.
    pub proxies: Proxies,
    /// The secrets in the settings of the providers and proxies.
    pub secrets: Vec<SecretString>,
}

impl ExecutionSettings {
    /// The permissions, including the permissions in `[[tools]]` as rules.
    pub fn all_permissions(&self) -> PermissionSettings {
        let mut settings = self.permissions.clone();
        settings.rules.extend(self.tools.iter().filter_map(|(name, rules)| {
            let (permission, tool) = (rules.permission?, Some(name.clone()));
            Some(PermissionRule { key: None, model: None, tool, domain: None, permission }.normalized())
        }));
        settings
    }

    /// The rules for the tool `name`: those for exactly this name, otherwise those for one of its aliases, otherwise those
    /// for its longest matching prefix.
    pub fn rules_for(&self, name: &str, aliases: &[String]) -> ToolRules {
        let of = |(written, rules): (&String, &ToolRules)| match written.strip_suffix('*') {
            Some(start) => name.starts_with(&normalized(start)).then(|| (start.len(), rules.clone())),
            None if normalized(written) == name => Some((usize::MAX, rules.clone())),
            None => aliases.contains(&normalized(written)).then(|| (usize::MAX - 1, rules.clone())),
        };
        let fitting = self.tools.iter().filter_map(of).max_by_key(|(exactness, _)| *exactness);
        fitting.map(|(_, rules)| rules).unwrap_or_default()
    }

    /// Whether a provider may offer a tool that matches `name`, where `*` at the end matches any rest.
    pub fn may_offer(&self, name: &str) -> bool {
        let of = |entry: &ProviderEntry| {
            let offered = entry.options.offers(&entry.name).into_iter();
            offered.filter(|own| own.ends_with('*') || entry.allows(own)).any(|own| overlap(&own, name))
        };
        self.providers.iter().any(of)
    }
}

/// Whether two names can match the same tool. `*` at the end of a name matches any rest.
fn overlap(a: &str, b: &str) -> bool {
    let parts = |name: &str| match name.strip_suffix('*') {
        Some(start) => (normalized(start), true),
        None => (normalized(name), false),
    };
    let ((a, a_is_open), (b, b_is_open)) = (parts(a), parts(b));
    (a == b) || (a_is_open && b.starts_with(&a)) || (b_is_open && a.starts_with(&b))
}

impl Default for ExecutionSettings {
    fn default() -> Self {
        Self {
            max_rounds: 5,
            max_calls: 10,
            max_parallel: 3,
            max_running: 64,
            deadline: Duration::from_secs(300),
            max_result: 100_000,
            max_results: 1 << 20,
            visibility: Visibility::Off,
            mixed_turns: MixedTurns::Defer,
            separator: "\n\n".to_owned(),
            clash: Clash::ClientWins,
            retries: 3,
            rate_limit: None,
            rate_wait: Duration::from_secs(5),
            cache_size: 64 << 20,
            images: ImageSettings::default(),
            image_command: Some("/generate-image".to_owned()),
            permissions: PermissionSettings::default(),
            audit: None,
            providers: Vec::new(),
            tools: HashMap::new(),
            proxies: Proxies::One(None),
            secrets: Vec::new(),
        }
    }
}

/// How clients see hosted calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Visibility {
    /// Not at all.
    Off,
    /// A line of reasoning for each call.
    Reasoning,
    /// As items for calls that the server ran, in the form of the client's dialect.
    Items,
}

/// One entry of `[[providers]]`.
#[derive(Debug, Clone)]
pub struct ProviderEntry {
    pub name: String,
    /// The settings of the provider's kind.
    pub options: ProviderOptions,
    /// Names of the tools that the provider may offer, in the provider's own form; `*` at the end matches any rest. Empty
    /// allows all.
    pub tools: Vec<String>,
    /// Names of the tools that the provider may not offer, in the same form.
    pub deny: Vec<String>,
    /// Maximum number of the provider's calls that run at the same time.
    pub max_running: usize,
    /// Rate limit of the provider's tools, for all clients together.
    pub rate_limit: Option<Rate>,
}

impl ProviderEntry {
    /// Default number of a provider's calls that run at the same time.
    pub const MAX_RUNNING: usize = 16;

    /// Whether the provider may offer its tool `name`. A name that begins with the provider's own name also matches
    /// without it.
    pub(crate) fn allows(&self, name: &str) -> bool {
        let short = name.strip_prefix(&*self.name).and_then(|rest| rest.strip_prefix("__"));
        let is_in = |patterns: &[String]| {
            patterns
                .iter()
                .any(|pattern| glob(pattern, name) || short.is_some_and(|short| glob(pattern, short)))
        };
        (self.tools.is_empty() || is_in(&self.tools)) && !is_in(&self.deny)
    }
}

/// One entry of `[[tools]]`: rules for one hosted tool. The provider decides about settings that are not set.
#[derive(Debug, Clone, Default)]
pub struct ToolRules {
    /// When the model gets the tool.
    pub injection: Injection,
    /// Words in the user's text that offer the tool to the model, with [`Injection::Selective`]. Empty stands for the
    /// default words.
    pub intent: Vec<Intent>,
    /// Permission of its calls.
    pub permission: Option<Permission>,
    /// Description for the model, instead of the provider's.
    pub description: Option<String>,
    /// Label for people, instead of the provider's.
    pub label: Option<String>,
    /// Progress line for people, instead of the provider's.
    pub progress: Option<String>,
    /// Added to the system instructions of requests in which the model gets the tool.
    pub prompt: Option<String>,
    /// Time limit for one attempt.
    pub timeout: Option<Duration>,
    /// Maximum number of retries of a call.
    pub retries: Option<usize>,
    /// How long results are cached for equal calls.
    pub cache: CacheRule,
    /// Rate limit of each client.
    pub rate_limit: Option<Rate>,
    /// Maximum number of calls in one turn.
    pub max_uses: Option<usize>,
    /// Maximum length of one result, in characters.
    pub max_result: Option<usize>,
    /// The argument that holds the URL that a call addresses.
    pub url_argument: Option<String>,
    /// The domains that its calls may address, with their subdomains. Empty allows all.
    pub allow_domains: Vec<Domain>,
    /// The domains that its calls may not address.
    pub deny_domains: Vec<Domain>,
}

/// How long a tool's results are cached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CacheRule {
    /// For [`CacheRule::DEFAULT`], if the tool's calls may be repeated.
    #[default]
    Default,
    /// Not at all.
    Off,
    /// This long.
    For(Duration),
}

impl CacheRule {
    /// Default time that results are cached.
    pub(crate) const DEFAULT: Duration = Duration::from_secs(300);

    /// How long the tool's results are cached. `None` if they are not.
    pub fn ttl(self, is_idempotent: bool) -> Option<Duration> {
        match self {
            Self::Default => is_idempotent.then_some(Self::DEFAULT),
            Self::Off => None,
            Self::For(ttl) => Some(ttl),
        }
    }
}

/// How a client's tool with the name of a hosted tool is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Clash {
    /// The model gets the client's tool.
    ClientWins,
    /// The model gets the hosted tool.
    ServerWins,
    /// The model gets both tools, the hosted one as `hosted__NAME`.
    Prefix,
}

/// Permissions of hosted calls.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
pub struct PermissionSettings {
    /// for calls without a rule in `[[tools]]` and `[[permissions]]`: `allow`, `ask` (a person, over the
    /// admin API) or `deny`
    #[setting(key = "permission", word)]
    pub default: Permission,
    /// how long a question waits; then the call is denied
    #[setting(default = Duration::from_secs(60))]
    pub ask_timeout: Duration,
    /// questions while no reader is connected to the event feed: `deny`, `allow`, or `wait`
    #[setting(default = Unattended::Deny, word)]
    pub unattended: Unattended,
    #[setting(skip)]
    pub rules: Vec<PermissionRule>,
}

/// How questions are handled while the event feed has no reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Unattended {
    /// The call is denied.
    Deny,
    /// The call runs.
    Allow,
    /// The question still waits for an answer.
    Wait,
}

/// When the model gets a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Injection {
    /// Always.
    #[default]
    Force,
    /// When the user's words ask for it, or when it was called earlier in the same chain.
    Selective,
    /// Never.
    Off,
}

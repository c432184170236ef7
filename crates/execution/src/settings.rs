//! Settings of the execution stage: `[execution]`, `[[providers]]`, `[[tools]]`.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use secrecy::SecretString;

use super::{
    ProviderOptions,
    address::Domain,
    files::ImageSettings,
    http::HttpClient,
    intent::Intent,
    oauth::{Account, Vault},
    rules::{Permission, PermissionRule, glob},
    tool::Rate,
};
use toolwire_net::proxied::Proxies;
use toolwire_pipeline::{rules::MixedTurns, settings::Settings, tools::normalized};

/// `[execution]`, with the providers and the rules for their tools.
#[derive(Debug, Clone)]
pub struct ExecutionSettings {
    /// Maximum number of hops in a turn that may run tools. After them, the model must answer without calls.
    pub max_rounds: usize,
    pub max_calls: usize,
    /// Maximum number of a turn's hosted calls that run at the same time.
    pub max_parallel: usize,
    /// Maximum number of hosted calls that run at the same time, in all turns together.
    pub max_running: usize,
    /// Time limit for a response that calls hosted tools.
    pub deadline: Duration,
    /// In bytes. Longer results are shortened.
    pub max_result: usize,
    /// In bytes, for all results of a turn together.
    pub max_results: usize,
    /// How clients see hosted calls.
    pub visibility: Visibility,
    /// How to handle a hop with both hosted calls and calls for the client.
    pub mixed_turns: MixedTurns,
    /// Inserted between the texts of two hops.
    pub separator: String,
    /// What to do if a client's tool has the name of a hosted tool.
    pub clash: Clash,
    /// Maximum number of retries per call.
    pub retries: usize,
    /// Rate limit for hosted calls, per client.
    pub rate_limit: Option<Rate>,
    /// Maximum time that a call waits because of rate limits.
    pub rate_wait: Duration,
    /// In bytes.
    pub cache_size: usize,
    /// The folder for generated images, and its limits.
    pub images: ImageSettings,
    /// A message that starts with this command generates images without a model. `None` disables the command.
    pub image_command: Option<String>,
    pub permissions: PermissionSettings,
    /// The file for all events, as JSON lines.
    pub audit: Option<PathBuf>,
    /// Encrypts the logins of servers. `None` for a key in a file beside them.
    pub login_key: Option<SecretString>,
    /// The state folder that has the logins, if it is not that of the configuration.
    pub login_dir: Option<PathBuf>,
    pub providers: Vec<ProviderEntry>,
    /// Rules by tool name. Names may end with `*`.
    pub tools: HashMap<String, ToolRules>,
    /// The proxies for requests of providers.
    pub proxies: Proxies,
    /// The secrets in the settings of providers and proxies.
    pub secrets: Vec<SecretString>,
}

impl ExecutionSettings {
    /// The permissions, with those in `[[tools]]` added as rules.
    pub fn all_permissions(&self) -> PermissionSettings {
        let mut settings = self.permissions.clone();
        settings.rules.extend(self.tools.iter().filter_map(|(name, rules)| {
            let (permission, tool) = (rules.permission?, Some(name.clone()));
            Some(PermissionRule { key: None, model: None, tool, domain: None, permission }.normalized())
        }));
        settings
    }

    /// The logins of servers in the state folder, if there is one.
    pub fn vault(&self, state_dir: Option<&Path>) -> Option<Arc<Vault>> {
        let folder = self.login_dir.as_deref().or(state_dir)?;
        Some(Arc::new(Vault::new(folder, self.login_key.clone())))
    }

    /// The accounts at all servers that may need a login, for a program that does not start them.
    pub fn accounts(&self, state_dir: Option<&Path>) -> Vec<Arc<Account>> {
        let (http, vault) = (HttpClient::through(self.proxies.clone()), self.vault(state_dir));
        self.providers.iter().filter_map(|entry| entry.account(&http, vault.clone())).collect()
    }

    /// The rules for the tool `name`: those for exactly this name, or else for one of its aliases, or else for the
    /// longest matching prefix.
    pub fn rules_for(&self, name: &str, aliases: &[String]) -> ToolRules {
        let of = |(written, rules): (&String, &ToolRules)| match written.strip_suffix('*') {
            Some(start) => name.starts_with(&normalized(start)).then(|| (start.len(), rules.clone())),
            None if normalized(written) == name => Some((usize::MAX, rules.clone())),
            None => aliases.contains(&normalized(written)).then(|| (usize::MAX - 1, rules.clone())),
        };
        let fitting = self.tools.iter().filter_map(of).max_by_key(|(exactness, _)| *exactness);
        fitting.map(|(_, rules)| rules).unwrap_or_default()
    }

    /// Whether a provider may offer a tool that matches `name`. A trailing `*` matches any suffix.
    pub fn may_offer(&self, name: &str) -> bool {
        let of = |entry: &ProviderEntry| {
            let offered = entry.options.offers(&entry.name).into_iter();
            offered.filter(|own| own.ends_with('*') || entry.allows(own)).any(|own| overlap(&own, name))
        };
        self.providers.iter().any(of)
    }
}

/// Whether any name matches both patterns. A trailing `*` matches any suffix.
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
            max_result: 128 << 10,
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
            login_key: None,
            login_dir: None,
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
    Off,
    /// As a line of reasoning for each call.
    Reasoning,
    /// As items for server tool calls, in the client's dialect.
    Items,
}

#[derive(Debug, Clone)]
pub struct ProviderEntry {
    pub name: String,
    pub options: ProviderOptions,
    /// Names of the tools that the provider may offer, in the provider's own form. A trailing `*` matches any suffix.
    /// If empty, all are allowed.
    pub tools: Vec<String>,
    /// Names of the tools that the provider may not offer, in the same form.
    pub deny: Vec<String>,
    /// Maximum number of the provider's calls that run at the same time.
    pub max_running: usize,
    /// Rate limit for the provider, shared by all clients.
    pub rate_limit: Option<Rate>,
}

impl ProviderEntry {
    pub const MAX_RUNNING: usize = 16;

    /// The login at the provider's server. `None` if it cannot have one.
    #[cfg_attr(not(feature = "mcp"), allow(unused_variables, reason = "only servers over MCP have logins"))]
    fn account(&self, http: &HttpClient, vault: Option<Arc<Vault>>) -> Option<Arc<Account>> {
        match &self.options {
            #[cfg(feature = "mcp")]
            ProviderOptions::Mcp(options) => options.account(&self.name, http, vault, None),
            _ => None,
        }
    }

    /// Whether the provider may offer its tool `name`. The lists may contain the name with or without the provider's
    /// name as a prefix.
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
    pub injection: Injection,
    /// Words in the user's text for which the tool is offered, with [`Injection::Selective`]. If empty, default words
    /// apply.
    pub intent: Vec<Intent>,
    pub permission: Option<Permission>,
    /// Replaces the provider's description for the model.
    pub description: Option<String>,
    /// Replaces the provider's label for display.
    pub label: Option<String>,
    /// Replaces the provider's progress line.
    pub progress: Option<String>,
    /// Instructions that are added to the system prompt of requests that offer the tool.
    pub prompt: Option<String>,
    /// Time limit for one attempt.
    pub timeout: Option<Duration>,
    /// Maximum number of retries per call.
    pub retries: Option<usize>,
    /// How long results are cached.
    pub cache: CacheRule,
    /// Rate limit per client.
    pub rate_limit: Option<Rate>,
    /// Maximum number of calls in one turn.
    pub max_uses: Option<usize>,
    /// In bytes.
    pub max_result: Option<usize>,
    /// The argument that contains the call's URL.
    pub url_argument: Option<String>,
    /// The domains that calls may use, with their subdomains. If empty, all are allowed.
    pub allow_domains: Vec<Domain>,
    /// The domains that calls may not use.
    pub deny_domains: Vec<Domain>,
}

/// How long a tool's results are cached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CacheRule {
    /// For [`CacheRule::DEFAULT`], if the tool's calls may be repeated.
    #[default]
    Default,
    Off,
    For(Duration),
}

impl CacheRule {
    pub(crate) const DEFAULT: Duration = Duration::from_secs(300);

    /// How long results are cached. `None` if they are not.
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
    /// Offer the client's tool.
    ClientWins,
    /// Offer the hosted tool.
    ServerWins,
    /// Offer both, the hosted one as `hosted__NAME`.
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
    /// Deny the call.
    Deny,
    /// Run the call.
    Allow,
    /// Wait for an answer anyway.
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
    Off,
}

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
use toolwire_pipeline::{rules::MixedTurns, tools::normalized};

/// `[execution]`, with the providers and the rules for their tools.
#[derive(Debug, Clone)]
pub struct ExecutionSettings {
    /// Hops of one turn that may run tools. In the one after them, the model must answer.
    pub max_rounds: usize,
    /// Hosted calls of one turn.
    pub max_calls: usize,
    /// Hosted calls of one turn that run at once.
    pub max_parallel: usize,
    /// Hosted calls of all turns that run at once.
    pub max_running: usize,
    /// How long a whole turn may take.
    pub deadline: Duration,
    /// Characters of one result; longer ones are shortened.
    pub max_result: usize,
    /// Bytes of all results of a turn.
    pub max_results: usize,
    /// What clients see of hosted calls.
    pub visibility: Visibility,
    /// What happens when a hop calls hosted tools and the client's.
    pub mixed_turns: MixedTurns,
    /// Between the texts of two hops.
    pub separator: String,
    /// What happens when a client declares a tool that has the name of a hosted one.
    pub clash: Clash,
    /// How often a call is tried again.
    pub retries: usize,
    /// How often each client may call hosted tools.
    pub rate_limit: Option<Rate>,
    /// How long a call may wait because of a rate limit.
    pub rate_wait: Duration,
    /// Bytes of all results that are kept for equal calls.
    pub cache_size: usize,
    /// Where generated images are kept.
    pub images: ImageSettings,
    /// Begins messages that ask for an image without a model. `None`: there is no such command.
    pub image_command: Option<String>,
    /// Whether calls may run.
    pub permissions: PermissionSettings,
    /// The file that gets all events of the stage, as JSON lines.
    pub audit: Option<PathBuf>,
    /// The providers.
    pub providers: Vec<ProviderEntry>,
    /// The rules, by the tools' names, which may end with `*`.
    pub tools: HashMap<String, ToolRules>,
    /// The proxies that the requests of providers go through.
    pub proxies: Proxies,
    /// The secrets in the settings of the providers, and those of the proxies.
    pub secrets: Vec<SecretString>,
}

impl ExecutionSettings {
    /// Whether calls may run, with the permissions of `[[tools]]` as rules.
    pub fn all_permissions(&self) -> PermissionSettings {
        let mut settings = self.permissions.clone();
        settings.rules.extend(self.tools.iter().filter_map(|(name, rules)| {
            let (permission, tool) = (rules.permission?, Some(name.clone()));
            Some(PermissionRule { key: None, model: None, tool, domain: None, permission }.normalized())
        }));
        settings
    }

    /// The rules for the tool `name`: those with exactly this name, otherwise those with one of its other names, otherwise those with
    /// the longest beginning of it.
    pub fn rules_for(&self, name: &str, aliases: &[String]) -> ToolRules {
        let of = |(written, rules): (&String, &ToolRules)| match written.strip_suffix('*') {
            Some(start) => name.starts_with(&normalized(start)).then(|| (start.len(), rules.clone())),
            None if normalized(written) == name => Some((usize::MAX, rules.clone())),
            None => aliases.contains(&normalized(written)).then(|| (usize::MAX - 1, rules.clone())),
        };
        let fitting = self.tools.iter().filter_map(of).max_by_key(|(exactness, _)| *exactness);
        fitting.map(|(_, rules)| rules).unwrap_or_default()
    }

    /// Whether a provider may offer a tool that is written as `name`, where `*` at the end matches any rest.
    pub fn may_offer(&self, name: &str) -> bool {
        let of = |entry: &ProviderEntry| {
            let offered = entry.options.offers(&entry.name).into_iter();
            offered.filter(|own| own.ends_with('*') || entry.allows(own)).any(|own| overlap(&own, name))
        };
        self.providers.iter().any(of)
    }
}

/// Whether two names can stand for the same tool. With `*` at the end, a name matches any rest.
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

/// What clients see of hosted calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// Nothing.
    Off,
    /// A line of reasoning for each call.
    Reasoning,
    /// Calls that the server ran, in the form that the client's dialect has for them.
    Items,
}

/// One entry of `[[providers]]`.
#[derive(Debug, Clone)]
pub struct ProviderEntry {
    /// Its name.
    pub name: String,
    /// The settings of its kind.
    pub options: ProviderOptions,
    /// The tools that it may offer, by their own names; `*` at the end matches any rest. Empty: all.
    pub tools: Vec<String>,
    /// The tools that it may not offer, written in the same way.
    pub deny: Vec<String>,
    /// Calls of its tools that run at once.
    pub max_running: usize,
    /// How often its tools may be called, by all clients together.
    pub rate_limit: Option<Rate>,
}

impl ProviderEntry {
    /// How many calls of a provider run at once by default.
    pub const MAX_RUNNING: usize = 16;

    /// Whether it may offer its tool `name`. A name that begins with the provider's own is meant without it, too.
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

/// One entry of `[[tools]]`: rules for one hosted tool. What is not set is as the provider says.
#[derive(Debug, Clone)]
pub struct ToolRules {
    /// When the model gets the tool.
    pub injection: Injection,
    /// The words of a user for which the model gets the tool with [`Injection::Selective`]. Empty: the default ones.
    pub intent: Vec<Intent>,
    /// Whether it may run.
    pub permission: Option<Permission>,
    /// For the model, in place of the provider's description.
    pub description: Option<String>,
    /// For people, in place of the provider's label.
    pub label: Option<String>,
    /// For people while it runs, in place of the provider's.
    pub progress: Option<String>,
    /// For the model, in the system instructions of requests in which it gets the tool.
    pub prompt: Option<String>,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// How often a call is tried again.
    pub retries: Option<usize>,
    /// How long its results are kept for equal calls.
    pub cache: CacheRule,
    /// How often each client may call it.
    pub rate_limit: Option<Rate>,
    /// How often it may be called in one turn.
    pub max_uses: Option<usize>,
    /// Characters of one result.
    pub max_result: Option<usize>,
    /// The argument with the URL that a call addresses.
    pub url_argument: Option<String>,
    /// The domains that its calls may address, with their subdomains. Empty: all.
    pub allow_domains: Vec<Domain>,
    /// The domains that its calls may not address.
    pub deny_domains: Vec<Domain>,
}

impl Default for ToolRules {
    fn default() -> Self {
        Self {
            injection: Injection::Force,
            intent: Vec::new(),
            permission: None,
            description: None,
            label: None,
            progress: None,
            prompt: None,
            timeout: None,
            retries: None,
            cache: CacheRule::Default,
            rate_limit: None,
            max_uses: None,
            max_result: None,
            url_argument: None,
            allow_domains: Vec::new(),
            deny_domains: Vec::new(),
        }
    }
}

/// How long the results of a tool are kept for equal calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheRule {
    /// Those of tools whose calls may be repeated, for [`CacheRule::DEFAULT`].
    Default,
    /// Not at all.
    Off,
    /// This long.
    For(Duration),
}

impl CacheRule {
    /// How long results are kept by default.
    pub(crate) const DEFAULT: Duration = Duration::from_secs(300);

    /// How long the results of a tool are kept; `None`: not at all.
    pub fn ttl(self, is_idempotent: bool) -> Option<Duration> {
        match self {
            Self::Default => is_idempotent.then_some(Self::DEFAULT),
            Self::Off => None,
            Self::For(ttl) => Some(ttl),
        }
    }
}

/// What happens when a client declares a tool that has the name of a hosted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clash {
    /// The model gets the client's.
    ClientWins,
    /// The model gets the hosted one.
    ServerWins,
    /// The model gets both, the hosted one as `hosted__NAME`.
    Prefix,
}

/// Whether hosted calls may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionSettings {
    /// The rules.
    pub rules: Vec<PermissionRule>,
    /// What holds for calls that no rule matches.
    pub default: Permission,
    /// How long a question waits for an answer. Then the call is denied.
    pub ask_timeout: Duration,
    /// What happens to questions while nobody reads the event feed.
    pub unattended: Unattended,
}

impl Default for PermissionSettings {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            default: Permission::Allow,
            ask_timeout: Duration::from_secs(60),
            unattended: Unattended::Deny,
        }
    }
}

/// What happens to questions while nobody reads the event feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unattended {
    /// The call is denied.
    Deny,
    /// The call runs.
    Allow,
    /// The question waits for an answer all the same.
    Wait,
}

/// When the model gets a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Injection {
    /// Always.
    Force,
    /// When the user's words ask for it, or it was called before in the same chain.
    Selective,
    /// Never.
    Off,
}

//! The settings of the stage: `[execution]`, `[[providers]]`, `[[tools]]`.

use std::{collections::HashMap, path::PathBuf, time::Duration};

use super::{ProviderOptions, files::ImageSettings, permission::PermissionRule};
use crate::rules::MixedTurns;

/// `[execution]`, with the providers and the rules for their tools.
#[derive(Debug, Clone)]
pub struct ExecutionSettings {
    /// Hops of one turn that may run tools. In the one after them, the model must answer.
    pub(crate) max_rounds: usize,
    /// Hosted calls of one turn.
    pub(crate) max_calls: usize,
    /// Hosted calls of one turn that run at once.
    pub(crate) max_parallel: usize,
    /// How long a whole turn may take.
    pub(crate) deadline: Duration,
    /// Bytes of one result; longer ones are shortened.
    pub(crate) max_result: usize,
    /// Bytes of all results of a turn.
    pub(crate) max_results: usize,
    /// What clients see of hosted calls.
    pub(crate) visibility: Visibility,
    /// What happens when a hop calls hosted tools and the client's.
    pub(crate) mixed_turns: MixedTurns,
    /// Between the texts of two hops.
    pub(crate) separator: String,
    /// Where generated images are kept.
    pub(crate) images: ImageSettings,
    /// Begins messages that ask for an image without a model. `None`: there is no such command.
    pub(crate) image_command: Option<String>,
    /// Whether calls may run.
    pub(crate) permissions: PermissionSettings,
    /// The file that gets all events of the stage, as JSON lines.
    pub(crate) audit: Option<PathBuf>,
    /// The providers.
    pub(crate) providers: Vec<ProviderEntry>,
    /// The rules, by the tools' names.
    pub(crate) tools: HashMap<String, ToolRules>,
}

impl Default for ExecutionSettings {
    fn default() -> Self {
        Self {
            max_rounds: 5,
            max_calls: 10,
            max_parallel: 3,
            deadline: Duration::from_secs(300),
            max_result: 100_000,
            max_results: 1 << 20,
            visibility: Visibility::Off,
            mixed_turns: MixedTurns::Defer,
            separator: "\n\n".to_owned(),
            images: ImageSettings::default(),
            image_command: Some("/generate-image".to_owned()),
            permissions: PermissionSettings::default(),
            audit: None,
            providers: Vec::new(),
            tools: HashMap::new(),
        }
    }
}

/// What clients see of hosted calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visibility {
    /// Nothing.
    Off,
    /// A line of reasoning for each call.
    Reasoning,
    /// Calls that the server ran, in the form that the client's dialect has for them.
    Items,
}

/// One entry of `[[providers]]`.
#[derive(Debug, Clone)]
pub(crate) struct ProviderEntry {
    /// Its name.
    pub(crate) name: String,
    /// The settings of its kind.
    pub(crate) options: ProviderOptions,
    /// The tools that it may offer, by their own names; `*` at the end matches any rest. Empty: all.
    pub(crate) tools: Vec<String>,
}

/// One entry of `[[tools]]`: rules for one hosted tool. What is not set is as the provider says.
#[derive(Debug, Clone)]
pub(crate) struct ToolRules {
    /// When the model gets the tool.
    pub(crate) injection: Injection,
    /// Whether it may run.
    pub(crate) permission: Permission,
    /// How long a call may take.
    pub(crate) timeout: Option<Duration>,
    /// How long its results are kept for equal calls. `None`: not at all.
    pub(crate) cache_ttl: Option<Duration>,
}

impl Default for ToolRules {
    fn default() -> Self {
        Self { injection: Injection::Force, permission: Permission::Allow, timeout: None, cache_ttl: None }
    }
}

/// Whether hosted calls may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PermissionSettings {
    /// The rules: those of `[[permissions]]`, and the permissions of `[[tools]]`.
    pub(crate) rules: Vec<PermissionRule>,
    /// What holds for calls that no rule matches.
    pub(crate) default: Permission,
    /// How long a question waits for an answer. Then the call is denied.
    pub(crate) ask_timeout: Duration,
    /// What happens to questions while nobody reads the event feed.
    pub(crate) unattended: Unattended,
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
pub(crate) enum Unattended {
    /// The call is denied.
    Deny,
    /// The call runs.
    Allow,
    /// The question waits for an answer all the same.
    Wait,
}

/// When the model gets a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Injection {
    /// Always.
    Force,
    /// When the user's words ask for it, or it was called before in the same chain.
    Selective,
    /// Never.
    Off,
}

/// Whether a tool may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permission {
    /// Yes.
    Allow,
    /// A person is asked.
    Ask,
    /// No.
    Deny,
}

//! [`Rule`]: what becomes of a request that a model would refuse.

use std::{borrow::Cow, collections::HashSet};

use serde_json::Value;

use super::members::{Given, given, remove, thinking_type};
use crate::{
    Dialect,
    conversation::{Conversation, ToolChoice},
};

/// What a model refuses, and what it gets instead.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rule {
    /// A member is left out unless its value is accepted.
    Refused {
        /// The member, by its name in Chat Completions.
        member: &'static str,
        /// The values that are sent.
        accepted: Accepted,
    },
    /// A member of Chat Completions has another name.
    Renamed {
        /// The usual name.
        member: &'static str,
        /// The name that is sent.
        name: &'static str,
    },
    /// The only accepted efforts of reasoning. Another becomes the next higher one, or else the highest. Without any,
    /// the effort is left out.
    Efforts(&'static [&'static str]),
    /// In Chat Completions, tools exclude efforts other than `none`.
    NoEffortWithTools {
        /// Whether the default effort is another one, so that `none` must be sent.
        by_default: bool,
    },
    /// Thinking has no budget: it is `adaptive`.
    NoThinkingBudget,
    /// Thinking cannot be turned off.
    AlwaysThinks,
    /// No call can be required.
    NoForcedCall,
    /// No call can be required unless thinking is turned off.
    NoForcedCallWhileThinking,
    /// The limit of tokens is `max_completion_tokens`, because it includes reasoning.
    LimitIncludesReasoning,
    /// Schemas of tools must be as OpenAI's APIs demand.
    StrictSchemas,
    /// The only system message is the first message.
    OneSystemMessage,
}

/// The accepted values of a member that is otherwise refused.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Accepted {
    Nothing,
    Only(f64),
    AtLeast(f64),
    /// All values, if the model does not reason.
    WithoutReasoning {
        /// Whether it does not reason if the request says nothing about it.
        by_default: bool,
    },
}

/// The efforts of reasoning, from the lowest on.
const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// A change of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change<'a> {
    Without(&'a str),
    Renamed(&'static str, &'static str),
    Effort(&'static str),
    Adaptive,
    /// No call is required.
    FreeChoice,
}

impl Rule {
    /// The member that the rule changes.
    pub(super) fn member(&self) -> &'static str {
        match self {
            Self::Refused { member, .. } | Self::Renamed { member, .. } => member,
            Self::Efforts(_) | Self::NoEffortWithTools { .. } => "reasoning_effort",
            Self::NoThinkingBudget | Self::AlwaysThinks => "thinking",
            Self::NoForcedCall | Self::NoForcedCallWhileThinking => "tool_choice",
            Self::LimitIncludesReasoning => "max_tokens",
            Self::StrictSchemas => "tools",
            Self::OneSystemMessage => "messages",
        }
    }

    /// The change that a request to an upstream of the dialect `upstream` needs, if any.
    pub(super) fn change(&self, sent: &Conversation, upstream: Dialect) -> Option<Change<'static>> {
        match *self {
            Self::Refused { member, accepted } => {
                let is_refused = match given(sent, member) {
                    Given::Nothing => false,
                    given => !accepted.takes(given, sent),
                };
                is_refused.then_some(Change::Without(member))
            }
            Self::Renamed { member, name } => {
                let is_sent = upstream == Dialect::Chat && given(sent, member) != Given::Nothing;
                is_sent.then_some(Change::Renamed(member, name))
            }
            Self::Efforts(accepted) => effort(sent.sampling.reasoning_effort.as_deref()?, accepted),
            Self::NoEffortWithTools { by_default } => {
                let is_refused = match sent.sampling.reasoning_effort.as_deref() {
                    Some(effort) => effort != "none",
                    None => by_default,
                };
                let has_tools = !sent.tools.is_empty() && upstream == Dialect::Chat;
                (has_tools && is_refused).then_some(Change::Effort("none"))
            }
            Self::NoThinkingBudget => (thinking_type(sent) == Some("enabled")).then_some(Change::Adaptive),
            Self::AlwaysThinks if thinking_type(sent) == Some("disabled") => {
                Some(Change::Without("thinking"))
            }
            Self::AlwaysThinks => {
                (sent.sampling.reasoning_effort.as_deref() == Some("none")).then_some(Change::Effort("low"))
            }
            Self::NoForcedCall => forces(sent).then_some(Change::FreeChoice),
            Self::NoForcedCallWhileThinking => {
                let thinks = thinking_type(sent) != Some("disabled");
                (thinks && forces(sent)).then_some(Change::FreeChoice)
            }
            Self::LimitIncludesReasoning | Self::StrictSchemas | Self::OneSystemMessage => None,
        }
    }

    /// What the rule leaves out or changes, in the words of the documentation.
    pub(super) fn about(&self) -> Cow<'static, str> {
        match self {
            Self::Refused { member, accepted } => format!("`{member}`{}", accepted.about()).into(),
            Self::Renamed { member, name } => format!("`{member}` (sent as `{name}`)").into(),
            Self::Efforts([]) => "`reasoning_effort`".into(),
            Self::Efforts(accepted) => {
                format!("`reasoning_effort` other than {} (the next higher one is sent)", accepted.join(", "))
                    .into()
            }
            Self::NoEffortWithTools { by_default: false } => {
                "`reasoning_effort` with tools over Chat (`none` is sent)".into()
            }
            Self::NoEffortWithTools { by_default: true } => {
                "tools without `reasoning_effort` `none` over Chat (it is sent)".into()
            }
            Self::NoThinkingBudget => "`thinking` with a budget (`adaptive` is sent)".into(),
            Self::AlwaysThinks => "disabled `thinking` (effort `none` is `low`)".into(),
            Self::NoForcedCall => "a required call (the model is asked again)".into(),
            Self::NoForcedCallWhileThinking => {
                "a required call while it thinks (the model is asked again)".into()
            }
            Self::LimitIncludesReasoning => "`max_tokens` (sent as `max_completion_tokens`)".into(),
            Self::StrictSchemas => "objects without `properties`, arrays without `items`".into(),
            Self::OneSystemMessage => "system messages that are not first and one (joined)".into(),
        }
    }
}

impl Accepted {
    fn takes(self, given: Given, sent: &Conversation) -> bool {
        match (self, given) {
            (Self::Nothing, _) | (Self::Only(_) | Self::AtLeast(_), Given::Nothing | Given::Other) => false,
            (Self::Only(accepted), Given::Number(given)) => (given - accepted).abs() < f64::EPSILON,
            (Self::AtLeast(least), Given::Number(given)) => given >= least,
            (Self::WithoutReasoning { by_default }, _) => {
                match (sent.sampling.reasoning_effort.as_deref(), thinking_type(sent)) {
                    (Some(effort), _) => effort == "none",
                    (None, Some(kind)) => kind == "disabled",
                    (None, None) => by_default,
                }
            }
        }
    }

    fn about(self) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Only(accepted) => format!(" other than {accepted}"),
            Self::AtLeast(least) => format!(" below {least}"),
            Self::WithoutReasoning { by_default: true } => " with an effort other than `none`".to_owned(),
            Self::WithoutReasoning { by_default: false } => " without the effort `none`".to_owned(),
        }
    }
}

/// The change for a request with this effort. Words that are not known are sent as they are.
fn effort(given: &str, accepted: &'static [&'static str]) -> Option<Change<'static>> {
    if accepted.is_empty() {
        return Some(Change::Without("reasoning_effort"));
    }
    let rank = |effort: &str| EFFORTS.iter().position(|known| *known == effort);
    let rank_given = rank(given)?;
    if accepted.contains(&given) {
        return None;
    }
    let higher = accepted.iter().find(|effort| rank(effort) > Some(rank_given));
    higher.or(accepted.last()).map(|effort| Change::Effort(effort))
}

/// Whether the request requires a call of a tool that it declares.
fn forces(sent: &Conversation) -> bool {
    let has_tools = !sent.tools.is_empty() || !sent.server_tools.is_empty();
    has_tools && (sent.tool_choice.requires_call() || !sent.server_choice.is_empty())
}

impl Change<'_> {
    /// Makes the change.
    pub(super) fn make(self, sent: &mut Conversation) {
        match self {
            Self::Without(member) => remove(sent, member),
            Self::Renamed(member, name) => {
                let value = match member {
                    "seed" => sent.sampling.seed.take().map(Value::Number),
                    _ => None,
                };
                if let Some(value) = value.or_else(|| sent.rest.remove(member)) {
                    sent.rest.set(Dialect::Chat.name(), name, value);
                }
            }
            Self::Effort(effort) => sent.sampling.reasoning_effort = Some(effort.to_owned()),
            Self::Adaptive => {
                if let Some(Value::Object(thinking)) = sent.rest.get_mut("thinking") {
                    thinking.insert("type".to_owned(), "adaptive".into());
                    thinking.shift_remove("budget_tokens");
                }
            }
            Self::FreeChoice => free_choice(sent),
        }
    }

    /// The member that the change is about.
    pub(super) fn member(&self) -> &str {
        match self {
            Self::Without(member) | Self::Renamed(member, _) => member,
            Self::Effort(_) => "reasoning_effort",
            Self::Adaptive => "thinking",
            Self::FreeChoice => "tool_choice",
        }
    }
}

/// Lets the model choose whether it calls a tool. Tools that it may not call are not declared, so that a call can only be
/// one of those that the client wants.
fn free_choice(sent: &mut Conversation) {
    let allowed: Option<Vec<String>> = match &sent.tool_choice {
        ToolChoice::Named(name) => Some(vec![name.clone()]),
        ToolChoice::Allowed { names, .. } => Some(names.clone()),
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Required => None,
    };
    if let Some(allowed) = allowed
        && sent.tools.iter().any(|tool| allowed.contains(&tool.name))
    {
        let allowed: HashSet<String> = allowed.into_iter().collect();
        sent.tools.retain(|tool| allowed.contains(&tool.name));
    }
    sent.tool_choice = ToolChoice::Auto;
    sent.server_choice.clear();
    for choice in ["tool_choice", "function_call"] {
        sent.rest.remove(choice);
    }
}

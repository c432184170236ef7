//! Which hosted tools the model gets in a request.

use std::collections::{HashMap, HashSet};

use super::{
    engines::narrowed,
    intent::{Intent, plain},
    permission::{Asked, Permissions},
    registry::{Hosted, Snapshot, normalized},
    settings::{Clash, Injection},
    stage::Asker,
};
use crate::{
    conversation::{Conversation, Part, Role, Tool, ToolChoice, Turn},
    wire::text::{boundary_upto, tail},
};

/// Bytes at the end of a user's text in which words that ask for a tool are looked for.
const MAX_TEXT: usize = 64 << 10;

/// The beginning of a hosted tool's name with [`Clash::Prefix`].
const PREFIX: &str = "hosted__";

/// Places in a snapshot, by the names under which the model has the tools.
pub(super) type Offered = HashMap<String, usize>;

/// Adds the hosted tools that the model gets to `conversation`.
pub(super) fn inject(
    conversation: &mut Conversation,
    snapshot: &Snapshot,
    (clash, permissions, asker): (Clash, &Permissions, &Asker),
) -> Offered {
    let mut offered = Offered::new();
    if matches!(conversation.tool_choice, ToolChoice::None) {
        return offered;
    }
    let chain = Chain::of(&conversation.turns);
    for (place, hosted) in snapshot.tools().iter().enumerate() {
        let asked = Asked {
            key: Some(asker.owner),
            model: &asker.model,
            tool: &hosted.name,
            aliases: &hosted.aliases,
            domain: None,
        };
        let is_wanted = hosted.is_enabled
            && may_be_chosen(&conversation.tool_choice, hosted)
            && wants(conversation, &chain, hosted)
            && permissions.may_ever_run(&asked);
        if let Some(name) = is_wanted.then(|| free_name(conversation, hosted, clash)).flatten() {
            let own = &hosted.spec.parameters;
            let parameters = narrowed(&hosted.name, own, &chain.texts).unwrap_or_else(|| own.clone());
            conversation.hosted_tools.push(name.clone());
            conversation.tools.push(Tool {
                description: hosted.spec.description.clone(),
                parameters: Some(parameters),
                ..Tool::named(name.clone())
            });
            offered.insert(name, place);
            offered.extend(free_aliases(conversation, hosted).map(|alias| (alias, place)));
        }
    }
    // Calls by other names are hosted too. The model is not given these names.
    let aliases: Vec<_> =
        offered.keys().filter(|name| !conversation.hosted_tools.contains(name)).cloned().collect();
    conversation.hosted_tools.extend(aliases);
    offered
}

/// Whether the client's choice leaves room for the tool: it may have chosen other ones.
fn may_be_chosen(choice: &ToolChoice, hosted: &Hosted) -> bool {
    match choice {
        ToolChoice::None => false,
        ToolChoice::Auto | ToolChoice::Required => true,
        ToolChoice::Named(name) => *name == *hosted.name,
        ToolChoice::Allowed { names, .. } => names.iter().any(|name| *name == *hosted.name),
    }
}

fn wants(conversation: &Conversation, chain: &Chain, hosted: &Hosted) -> bool {
    match hosted.rules.injection {
        Injection::Off => false,
        Injection::Force => true,
        Injection::Selective => {
            is_named(conversation, hosted) || chain.has_called(hosted) || {
                let own = &hosted.rules.intent;
                let defaults = || Intent::default_for(&hosted.name, &hosted.spec.label);
                let matches = |rule: &Intent| chain.texts.iter().any(|text| rule.matches(text));
                if own.is_empty() { defaults().iter().any(matches) } else { own.iter().any(matches) }
            }
        }
    }
}

/// Whether the client names the tool: in its choice, or as a tool of a server, such as `web_search_20250305`.
fn is_named(conversation: &Conversation, hosted: &Hosted) -> bool {
    let is_chosen = match &conversation.tool_choice {
        ToolChoice::Named(_) | ToolChoice::Allowed { .. } => may_be_chosen(&conversation.tool_choice, hosted),
        _ => false,
    };
    let is_type = |kind: &String| {
        kind.strip_prefix(&*hosted.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    is_chosen || conversation.server_tools.iter().any(is_type)
}

/// The turns since the model's last answer without calls. What was asked for or called in them stays available until the next
/// such answer, so a model does not lose a tool in the middle of its work.
struct Chain {
    /// What the user wrote, in the form of [`plain`].
    texts: Vec<String>,
    /// The names of the tools that were called.
    calls: HashSet<String>,
}

impl Chain {
    fn of(turns: &[Turn]) -> Self {
        let mut chain = Self { texts: Vec::new(), calls: HashSet::new() };
        for turn in turns.iter().rev() {
            match turn.role {
                Role::User => {
                    let text = turn.joined_text();
                    let text = tail(&text, boundary_upto(&text, text.len().saturating_sub(MAX_TEXT)));
                    chain.texts.push(plain(text));
                }
                Role::Assistant => {
                    let mut calls = turn.parts.iter().filter_map(|part| match part {
                        Part::Call(call) => Some(call.name.clone()),
                        _ => None,
                    });
                    let Some(first) = calls.next() else { break };
                    chain.calls.insert(first);
                    chain.calls.extend(calls);
                }
                Role::System | Role::Developer | Role::Tool => {}
            }
        }
        chain
    }

    fn has_called(&self, hosted: &Hosted) -> bool {
        self.calls.contains(&*hosted.name)
            || hosted.spec.aliases.iter().any(|alias| self.calls.contains(*alias))
    }
}

/// The other names under which models call the tool, but for those of the client's tools.
fn free_aliases(conversation: &Conversation, hosted: &Hosted) -> impl Iterator<Item = String> {
    let is_free = |alias: &&&str| !conversation.tools.iter().any(|tool| tool.name == **alias);
    hosted.spec.aliases.iter().filter(is_free).map(|alias| (*alias).to_owned())
}

/// The name under which the model gets the tool. If the client has declared a tool of this name, that depends on the settings.
fn free_name(conversation: &mut Conversation, hosted: &Hosted, clash: Clash) -> Option<String> {
    let is_declared =
        |conversation: &Conversation, name: &str| conversation.tools.iter().any(|tool| tool.name == name);
    let name = hosted.name.to_string();
    if !is_declared(conversation, &name) {
        return Some(name);
    }
    match clash {
        Clash::ClientWins => None,
        Clash::ServerWins => {
            conversation.tools.retain(|tool| tool.name != name);
            conversation.custom_tools.retain(|custom| *custom != name);
            conversation.namespaced.retain(|namespaced| namespaced.name != name);
            Some(name)
        }
        Clash::Prefix => {
            let name = normalized(&format!("{PREFIX}{name}"));
            (!is_declared(conversation, &name)).then_some(name)
        }
    }
}

#[cfg(test)]
mod tests;

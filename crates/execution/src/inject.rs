//! Decides which hosted tools a request offers to the model.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{
    asker::Asker,
    client_options::SEARCH_OPTIONS,
    engines::narrowed,
    intent::{Intent, Needs, plain},
    permission::Permissions,
    registry::{Hosted, Snapshot},
    settings::{Clash, Injection},
};
use toolwire_pipeline::{
    conversation::{Conversation, Part, Role, ServerTool, Tool, ToolChoice, Turn},
    tools::normalized,
    wire::text::{boundary_upto, tail},
};

/// Number of bytes at the end of a user's text that are searched for words that ask for a tool.
const MAX_TEXT: usize = 64 << 10;

/// Number of user's texts, from the last one, whose needs are read.
const MAX_READ: usize = 8;

/// Maximum size of what all servers say in one request, in bytes. Further servers are left out.
const MAX_WORDS: usize = 32 << 10;

/// The hosted tool for which Chat Completions has [`SEARCH_OPTIONS`].
const SEARCH: &str = "web_search";

/// Prefix that [`Clash::Prefix`] adds to a hosted tool's name.
const PREFIX: &str = "hosted__";

/// Indices into a snapshot, by the tool names that the model uses.
pub(super) type Offered = HashMap<String, usize>;

/// Adds hosted tools to `conversation`. `unserved` contains the types of its server tools that the upstream does not
/// support.
///
/// A hosted tool replaces the equivalent server tool if the upstream does not support the server tool, or if the
/// settings prefer the hosted tool. If the client's tool choice names the server tool, the choice is changed to the
/// hosted tool.
pub(super) fn inject(
    conversation: &mut Conversation,
    snapshot: &Snapshot,
    unserved: &[String],
    clash: Clash,
    permissions: &Permissions,
    asker: &Asker,
) -> Offered {
    let mut offered = Offered::new();
    if matches!(conversation.tool_choice, ToolChoice::None) && conversation.server_choice.is_empty() {
        return offered;
    }
    let reads_needs = snapshot.tools().iter().any(Hosted::is_offered_by_needs);
    let chain = Chain::of(&conversation.turns, reads_needs);
    let is_wanted = |hosted: &Hosted, conversation: &Conversation| {
        let asked = asker.asked(hosted, None);
        hosted.is_enabled && wants(conversation, &chain, hosted) && permissions.may_ever_run(&asked)
    };
    let wanted = snapshot.tools().iter().enumerate().filter(|(_, hosted)| is_wanted(hosted, conversation));
    let named = wanted.filter_map(|(place, hosted)| {
        Some((place, hosted, free_name(conversation, unserved, hosted, clash)?))
    });
    let named: Vec<_> = named.collect();
    for (_, hosted, name) in &named {
        choose_instead(conversation, hosted, name);
    }
    for (place, hosted, name) in named {
        if !may_be_chosen(&conversation.tool_choice, &name) {
            continue;
        }
        replace(conversation, hosted, &name);
        let own = &hosted.spec.parameters;
        let parameters = narrowed(&hosted.name, own, &chain.texts).unwrap_or_else(|| own.clone());
        conversation.hosted_tools.push(name.clone());
        if hosted.needs_approval() {
            conversation.mcp.asks.push(name.clone());
        }
        conversation.tools.push(Tool {
            description: hosted.spec.description.clone(),
            parameters: Some(parameters),
            ..Tool::named(name.clone())
        });
        offered.insert(name, place);
        offered.extend(free_aliases(conversation, hosted).map(|alias| (alias, place)));
    }
    instruct(conversation, &offered, snapshot);
    // Calls by an alias also run the hosted tool, but aliases are not offered to the model.
    let aliases: Vec<_> =
        offered.keys().filter(|name| !conversation.hosted_tools.contains(name)).cloned().collect();
    conversation.hosted_tools.extend(aliases);
    offered
}

/// Adds the instructions in the rules of these tools, then those of their servers. Tools that share a rule add its text
/// only once.
fn instruct(conversation: &mut Conversation, offered: &Offered, snapshot: &Snapshot) {
    let mut prompts: Vec<&str> = Vec::new();
    for hosted in
        conversation.hosted_tools.iter().filter_map(|name| snapshot.tools().get(*offered.get(name)?))
    {
        let prompt = hosted.rules.prompt.as_deref().unwrap_or_default();
        if !prompt.is_empty() && !prompts.contains(&prompt) {
            prompts.push(prompt);
        }
    }
    let servers = words_of_servers(conversation, offered, snapshot);
    if prompts.is_empty() && servers.is_empty() {
        return;
    }
    let text = prompts.into_iter().chain(servers.iter().map(String::as_str)).collect::<Vec<_>>().join("\n\n");
    add_instructions(conversation, text);
}

/// Adds `text` behind the first instructions.
pub(super) fn add_instructions(conversation: &mut Conversation, text: String) {
    let is_system = |turn: &&mut Turn| matches!(turn.role, Role::System | Role::Developer);
    match conversation.turns.iter_mut().find(is_system) {
        Some(system) => system.add_text("\n\n", &text),
        None => conversation.turns.insert(0, Turn::text(Role::System, text)),
    }
}

/// What the servers of the offered tools say about them. Each line is quoted, so that it cannot be taken for an
/// instruction of anyone else.
fn words_of_servers(conversation: &Conversation, offered: &Offered, snapshot: &Snapshot) -> Vec<String> {
    let mut seen = HashSet::new();
    let tools = conversation.hosted_tools.iter().filter_map(|name| snapshot.tools().get(*offered.get(name)?));
    let mut left = MAX_WORDS;
    let servers = tools.filter(|hosted| seen.insert(&hosted.provider_name)).filter_map(|hosted| {
        let words = hosted.provider.instructions()?;
        let name = &hosted.provider_name;
        let mut text = format!("What the server `{name}` says about its tools (its words, not the user's):");
        for line in words.trim().lines() {
            text.extend(["\n> ", line]);
        }
        left = left.checked_sub(text.len())?;
        Some(text)
    });
    servers.collect()
}

/// Whether the client's tool choice permits the tool that the model knows by this name.
fn may_be_chosen(choice: &ToolChoice, name: &str) -> bool {
    match choice {
        ToolChoice::None => false,
        ToolChoice::Auto | ToolChoice::Required => true,
        ToolChoice::Named(chosen) => chosen == name,
        ToolChoice::Allowed { names, .. } => names.iter().any(|chosen| chosen == name),
    }
}

/// Whether the server tool `kind` is equivalent to the hosted tool.
pub(super) fn is_same(kind: &ServerTool, hosted: &Hosted) -> bool {
    kind.is(&hosted.name) || hosted.spec.aliases.iter().any(|alias| kind.is(alias))
}

/// If the client chose the server tool, changes the choice to the hosted tool that replaces it.
fn choose_instead(conversation: &mut Conversation, hosted: &Hosted, name: &str) {
    if name != &*hosted.name {
        return;
    }
    let replaced: Vec<_> = conversation.server_tools.iter().filter(|tool| is_same(tool, hosted)).collect();
    let is_replaced = |chosen: &str| replaced.iter().any(|tool| tool.name == chosen);
    match &mut conversation.tool_choice {
        ToolChoice::Named(chosen) if is_replaced(chosen) => name.clone_into(chosen),
        ToolChoice::Allowed { names, .. } => {
            names.iter_mut().filter(|chosen| is_replaced(chosen)).for_each(|chosen| name.clone_into(chosen));
        }
        _ => {}
    }
    let kind = |chosen: &Value| {
        ServerTool::new(chosen.get("type").and_then(Value::as_str).unwrap_or_default(), None)
    };
    let count = conversation.server_choice.len();
    conversation.server_choice.retain(|chosen| !is_same(&kind(chosen), hosted));
    if conversation.server_choice.len() < count {
        // Without the original value, the choice is written from its parsed form.
        conversation.rest.remove("tool_choice");
        match &mut conversation.tool_choice {
            ToolChoice::Allowed { names, .. } => names.push(name.to_owned()),
            choice @ ToolChoice::None => {
                *choice = ToolChoice::Allowed { names: vec![name.to_owned()], required: false };
            }
            choice => *choice = ToolChoice::Named(name.to_owned()),
        }
    }
}

/// Removes the client's tools, the server tools and the search options that the hosted tool replaces.
fn replace(conversation: &mut Conversation, hosted: &Hosted, name: &str) {
    if name != &*hosted.name {
        return;
    }
    if name == SEARCH {
        conversation.rest.remove(SEARCH_OPTIONS);
    }
    conversation.tools.retain(|tool| tool.name != name);
    conversation.custom_tools.remove(name);
    conversation.namespaced.retain(|namespaced| namespaced.name != name);
    conversation.built_in.retain(|built_in| built_in.name != name);
    if conversation.server_tools.iter().any(|tool| is_same(tool, hosted)) {
        conversation.server_tools.retain(|tool| !is_same(tool, hosted));
        conversation.rest.retain_tools(|kind| !is_same(&ServerTool::new(kind, None), hosted));
    }
}

fn wants(conversation: &Conversation, chain: &Chain, hosted: &Hosted) -> bool {
    match hosted.rules.injection {
        Injection::Off => false,
        Injection::Force => true,
        Injection::Selective => {
            is_named(conversation, hosted) || chain.has_called(hosted) || chain.asks_for(hosted)
        }
    }
}

/// Whether the client names the tool in its tool choice, declares a tool of its name or an equivalent server tool such
/// as `web_search_20250305`, or asks for a search with Chat's `web_search_options`.
fn is_named(conversation: &Conversation, hosted: &Hosted) -> bool {
    let is_chosen = match &conversation.tool_choice {
        ToolChoice::Named(_) | ToolChoice::Allowed { .. } => {
            let prefixed = prefixed(&hosted.name);
            [&*hosted.name, &prefixed].iter().any(|name| may_be_chosen(&conversation.tool_choice, name))
        }
        _ => false,
    };
    let has_options = conversation.rest.get(SEARCH_OPTIONS).is_some_and(|options| !options.is_null());
    is_chosen
        || conversation.server_tools.iter().any(|tool| is_same(tool, hosted))
        || conversation.tools.iter().any(|tool| tool.name == *hosted.name)
        || (&*hosted.name == SEARCH && has_options)
}

/// The turns after the model's last answer without calls. Tools that were asked for or called in these turns stay
/// available until the next such answer, so that a model does not lose a tool in the middle of its work.
struct Chain {
    /// The user's texts, in the form that [`plain`] returns.
    texts: Vec<String>,
    /// What the user's last texts need, by the words that are built in.
    needs: Needs,
    calls: HashSet<String>,
}

impl Chain {
    fn of(turns: &[Turn], reads_needs: bool) -> Self {
        let mut chain = Self { texts: Vec::new(), needs: Needs::default(), calls: HashSet::new() };
        for turn in turns.iter().rev() {
            match turn.role {
                Role::User => {
                    let text = turn.joined_text();
                    if reads_needs && chain.texts.len() < MAX_READ {
                        chain.needs = chain.needs.or(Needs::of(&text));
                    }
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

    fn asks_for(&self, hosted: &Hosted) -> bool {
        let matches = |rule: &Intent| self.texts.iter().any(|text| rule.matches(text));
        let own = &hosted.rules.intent;
        if !own.is_empty() {
            return own.iter().any(matches);
        }
        let default = Intent::default_for(&hosted.name, &hosted.spec.label);
        self.needs.include(&hosted.name) || default.is_some_and(|rule| matches(&rule))
    }

    fn has_called(&self, hosted: &Hosted) -> bool {
        self.calls.contains(&*hosted.name)
            || hosted.spec.aliases.iter().any(|alias| self.calls.contains(*alias))
    }
}

/// The tool's aliases that are not names of the client's tools.
fn free_aliases(conversation: &Conversation, hosted: &Hosted) -> impl Iterator<Item = String> {
    let is_free = |alias: &&&str| !conversation.tools.iter().any(|tool| tool.name == **alias);
    hosted.spec.aliases.iter().filter(is_free).map(|alias| (*alias).to_owned())
}

/// The name under which the tool is offered to the model. If the client has declared a tool of this name, or an
/// equivalent server tool that the upstream supports, the name depends on the settings.
fn free_name(
    conversation: &Conversation,
    unserved: &[String],
    hosted: &Hosted,
    clash: Clash,
) -> Option<String> {
    let is_declared = |name: &str| conversation.tools.iter().any(|tool| tool.name == name);
    let is_served = |tool: &ServerTool| is_same(tool, hosted) && !unserved.contains(&tool.kind);
    if !is_declared(&hosted.name) && !conversation.server_tools.iter().any(is_served) {
        return Some(hosted.name.to_string());
    }
    match clash {
        Clash::ClientWins => None,
        Clash::ServerWins => Some(hosted.name.to_string()),
        Clash::Prefix => Some(prefixed(&hosted.name)).filter(|name| !is_declared(name)),
    }
}

/// The hosted tool's name if the client has a tool of the same name.
fn prefixed(name: &str) -> String {
    normalized(&format!("{PREFIX}{name}"))
}

#[cfg(test)]
mod tests;

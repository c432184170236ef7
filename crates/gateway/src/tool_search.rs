//! Shows a model only some of the tools of a request, and runs the searches with which it finds the others.
//!
//! ```text
//! a request with many tools ─▶ offer: the model is shown a search and the likely tools
//! the model calls the search ─▶ Searching::run ─▶ the result names the tools that it found
//! the next hop ─▶ the model is also shown these
//! ```
//!
//! | the request | what the model is shown first | what clients see of searches |
//! |---|---|---|
//! | declares a search that the server runs, and tools that are deferred | the tools that are not deferred | the blocks or items of their API |
//! | has many tools (`tool_search` in `[[models]]`) | the tools that fit the user's words | nothing |
//!
//! Tools that the history calls, that its searches have found, or that `tool_choice` names are shown in any case. The
//! list of shown tools only grows at its end while the conversation grows, because upstreams cache the longest common
//! prefix of two prompts. Every declared tool can be called, even if it was not shown.

mod call;
mod index_cache;
mod selection;

use std::{collections::HashSet, sync::Arc};

use serde_json::json;

use toolwire_config::{Model, ToolSearch, ToolStyle};
use toolwire_pipeline::{
    conversation::{Call, Conversation, Tool, ToolChoice},
    dialect::{ClientDialect, SearchTool, UpstreamDialect, undefer},
    tools::ToolIndex,
    wire::json::{Json, Raw},
};

pub(super) use self::call::Found;
pub(crate) use self::index_cache::bytes as bytes_of_indexes;
use self::selection::Selection;

/// `tool_search = "auto"`: the most tools of a request that are all shown. OpenAI's API accepts no more.
const AUTO_TOOLS: usize = 128;

/// `tool_search = "auto"`: the most bytes of descriptions and schemas that are all shown, about 64,000 tokens.
const AUTO_BYTES: usize = 256 << 10;

/// The tools that are shown first because they fit the user's words. As few tools as this are not worth a search.
const LIKELY: usize = 32;

/// The most tools that one search of the client's own finds. Anthropic's servers find three to five.
const FOUND: usize = 5;

/// The most tools that one search finds if the client does not know of it.
const FOUND_UNSEEN: usize = 16;

/// The most bytes of the names that a search's description lists. Of more tools, it tells only the number.
const MAX_LISTED: usize = 4 << 10;

/// The searches that toolwire runs for one request.
#[derive(Debug)]
pub(super) struct Searching {
    tools: Vec<OwnSearch>,
    index: Arc<ToolIndex>,
    /// Whether the client has declared the searches, and sees them.
    is_declared: bool,
}

/// A tool with which the model searches for others.
#[derive(Debug)]
struct OwnSearch {
    /// The name of the function that stands for the tool.
    function: String,
    /// The tool's name in the client's API.
    name: String,
    kind: SearchTool,
}

/// Decides which of the conversation's tools `model` is shown, and declares the searches for the others. `None` if it is
/// shown all tools, or if its server runs the searches.
pub(super) fn offer(
    model: &Model,
    options: &UpstreamDialect,
    client: ClientDialect,
    conversation: &mut Conversation,
) -> Option<Searching> {
    let is_passed_on = is_passed_on(model, client);
    let is_run_there = is_passed_on && options.side().searches_tools() != Some(false);
    let declared = conversation.server_tools.iter().filter_map(|tool| {
        let kind = SearchTool::of_kind(client.dialect(), &tool.kind)?;
        Some((tool.name.clone(), kind))
    });
    let declared: Vec<_> = declared.collect();
    if declared.is_empty() {
        // Anthropic's API takes any number of tools, and its clients defer those that the model need not see.
        let is_unlimited = is_run_there && client == ClientDialect::Messages;
        return is_worth_a_search(model.tool_search, is_unlimited, &conversation.tools)
            .then(|| offer_unseen(conversation));
    }
    if is_run_there || conversation.deferral.deferred.is_empty() {
        return None;
    }
    if is_passed_on {
        undefer(&mut conversation.tools, &conversation.deferral.deferred);
    }
    Some(offer_declared(client, declared, conversation))
}

/// Whether the upstream gets the tools as the client has declared them.
fn is_passed_on(model: &Model, client: ClientDialect) -> bool {
    model.tools == ToolStyle::Native && model.upstream.dialect() == client.dialect()
}

/// Whether the upstream's server, which is still unknown, determines who runs the searches that the client declares.
pub(super) fn depends_on_server(model: &Model, client: ClientDialect, conversation: &Conversation) -> bool {
    !conversation.deferral.deferred.is_empty()
        && is_passed_on(model, client)
        && model.upstream.options.side().searches_tools().is_none()
}

/// Whether so many tools are declared that the model is not shown all of them.
fn is_worth_a_search(setting: ToolSearch, is_unlimited: bool, tools: &[Tool]) -> bool {
    match setting {
        ToolSearch::Off => false,
        ToolSearch::Auto if is_unlimited => false,
        ToolSearch::From(least) => tools.len() >= least,
        ToolSearch::Auto if tools.len() <= LIKELY => false,
        ToolSearch::Auto => tools.len() > AUTO_TOOLS || tools.iter().map(size).sum::<usize>() > AUTO_BYTES,
    }
}

/// Bytes of a tool's declaration.
fn size(tool: &Tool) -> usize {
    tool.name.len()
        + tool.description.len()
        + tool.parameters.as_ref().map_or(0, |schema| schema.view().raw().len())
}

/// Shows the tools that fit the user's words, and declares a search that the client does not see.
fn offer_unseen(conversation: &mut Conversation) -> Searching {
    let index = index_cache::index_of(&conversation.tools);
    let shown = Selection::of_words(conversation, &index).names(conversation);
    let search = OwnSearch {
        function: free_name(conversation, "tool_search"),
        name: String::new(),
        kind: SearchTool::Words,
    };
    declare(conversation, shown, index, vec![search], false)
}

/// Shows the tools that are not deferred, and declares the searches of the client.
fn offer_declared(
    client: ClientDialect,
    declared: Vec<(String, SearchTool)>,
    conversation: &mut Conversation,
) -> Searching {
    let index = index_cache::index_of(&conversation.tools);
    let shown = Selection::of_eager(conversation).names(conversation);
    let is_search = |kind: &str| SearchTool::of_kind(client.dialect(), kind).is_some();
    conversation.server_tools.retain(|tool| !is_search(&tool.kind));
    conversation.rest.retain_tools(|kind| !is_search(kind));
    let mut searches: Vec<OwnSearch> = Vec::new();
    for (name, kind) in declared {
        // A second search of the same kind would find the same.
        if searches.iter().any(|known| known.kind == kind) {
            continue;
        }
        let function = free_name(conversation, &name);
        if let ToolChoice::Named(chosen) = &mut conversation.tool_choice
            && *chosen == name
        {
            function.clone_into(chosen);
        }
        choose(conversation, &name, &function);
        searches.push(OwnSearch { function, name, kind });
    }
    declare(conversation, shown, index, searches, true)
}

/// If the client's choice is the search `name` as its API writes it, makes it a choice of the function.
fn choose(conversation: &mut Conversation, name: &str, function: &str) {
    let before = conversation.server_choice.len();
    conversation.server_choice.retain(|chosen| chosen.get("type").is_none_or(|kind| kind != name));
    if conversation.server_choice.len() < before {
        conversation.rest.remove("tool_choice");
        if conversation.tool_choice == ToolChoice::Auto {
            conversation.tool_choice = ToolChoice::Named(function.to_owned());
        }
    }
}

/// A name that no tool of the client has.
fn free_name(conversation: &Conversation, wanted: &str) -> String {
    let names = conversation.tools.iter().map(|tool| tool.name.as_str());
    let taken: HashSet<&str> = names.filter(|name| name.starts_with(wanted)).collect();
    let numbered = (2..).map(|number| format!("{wanted}_{number}"));
    let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
    names.find(|name| !taken.contains(name.as_str())).unwrap_or_default()
}

/// Declares `searches` as hosted tools, which come before the tools that are shown.
fn declare(
    conversation: &mut Conversation,
    mut shown: Vec<String>,
    index: Arc<ToolIndex>,
    searches: Vec<OwnSearch>,
    is_declared: bool,
) -> Searching {
    let hidden = match is_declared {
        true => listed(conversation.deferral.deferred.iter().map(String::as_str)),
        false => listed(conversation.tools.iter().map(|tool| tool.name.as_str())),
    };
    shown.splice(0..0, searches.iter().map(|search| search.function.clone()));
    for search in &searches {
        conversation.tools.push(search.declaration(&hidden));
        conversation.hosted_tools.push(search.function.clone());
        conversation.deferral.searches.push(search.function.clone());
    }
    conversation.deferral.shown = Some(shown);
    Searching { tools: searches, index, is_declared }
}

/// What a search's description says about the tools that it finds. It does not depend on which of them are shown, so it
/// stays the same in a conversation.
fn listed<'t>(names: impl Iterator<Item = &'t str> + Clone) -> String {
    let size: usize = names.clone().map(|name| name.len() + 2).sum();
    if size > MAX_LISTED {
        return format!("It finds {} tools.", names.count());
    }
    format!("It finds these tools: {}.", names.collect::<Vec<_>>().join(", "))
}

impl OwnSearch {
    fn declaration(&self, hidden: &str) -> Tool {
        let (key, about, how) = match self.kind {
            SearchTool::Words => (
                "query",
                "What the tool should do, in a few words.",
                "by words of their names and descriptions",
            ),
            SearchTool::Pattern => (
                "pattern",
                "A regular expression of at most 200 characters, as in `(?i)weather|forecast`.",
                "whose names or descriptions match a regular expression",
            ),
        };
        let description = format!(
            "Searches for tools that you cannot see yet, {how}. Search before you answer that you lack a tool. You can \
             call the tools that are found afterwards. {hidden}"
        );
        let parameters = json!({
            "type": "object",
            "properties": {key: {"type": "string", "description": about}},
            "required": [key],
        });
        let parameters = Json::parse(&parameters.to_string()).ok().map(Raw::from);
        Tool { description, parameters, ..Tool::named(self.function.clone()) }
    }
}

impl Searching {
    /// Whether the model calls one of the searches by this name.
    pub(super) fn is_search(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// The name of the function for the search that the client knows as `name`.
    pub(super) fn offered_name(&self, name: &str) -> Option<String> {
        self.tools.iter().find(|search| search.name == name).map(|search| search.function.clone())
    }

    /// Whether the client sees the searches.
    pub(super) fn is_declared(&self) -> bool {
        self.is_declared
    }

    fn find(&self, function: &str) -> Option<&OwnSearch> {
        self.tools.iter().find(|search| search.function == function)
    }

    /// Runs a call. `conversation` is the one for which the searches were offered, and `known` names the tools that the
    /// model has been shown since.
    pub(super) fn run(&self, call: &Call, conversation: &Conversation, known: &[String]) -> Found {
        call::run(self, call, conversation, known)
    }
}

//! [`ClientTools`]: the tools of the MCP servers that a request names.

use std::{collections::HashSet, sync::Arc};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    client_servers::{SERVER, declared, is_of_kind, take_out, text},
    provider::Provider,
    registry::{Hosted, Registry, Snapshot},
    stage::Execution,
    tool::ToolSpec,
};
use toolwire_pipeline::{
    conversation::{Conversation, ToolChoice},
    event::McpItem,
    failure::{Failure, Kind},
};

/// Maximum number of servers that one request names.
const MAX_SERVERS: usize = 16;

/// Maximum size of the tools that one response lists, in bytes. Further tools are listed by name only.
const MAX_LISTS: usize = 512 << 10;

/// The tools of the servers that a request names. Their connections end when nothing uses the tools any more.
#[derive(Debug, Default)]
pub struct ClientTools {
    tools: Vec<Hosted>,
    /// The lists that the client has not seen, in the order of the servers.
    lists: Vec<McpItem>,
    /// Whether servers were taken out of the request.
    has_servers: bool,
}

impl ClientTools {
    /// Whether servers were taken out of the request.
    pub fn have_servers(&self) -> bool {
        self.has_servers
    }

    /// Removes and returns what the client is told about the servers.
    pub fn take_lists(&mut self) -> Vec<McpItem> {
        std::mem::take(&mut self.lists)
    }

    /// The tools of `snapshot`, and these.
    pub(super) fn beside(self, snapshot: Arc<Snapshot>) -> Arc<Snapshot> {
        if self.tools.is_empty() {
            return snapshot;
        }
        let mut all = Snapshot::clone(&snapshot);
        for hosted in self.tools {
            let name = Arc::clone(&hosted.name);
            if !all.add(hosted) {
                tracing::warn!(
                    tool = &*name,
                    "a tool of a client's MCP server is left out: its name is taken"
                );
            }
        }
        Arc::new(all)
    }
}

impl Execution {
    /// Whether a provider admits an MCP server that the request names.
    pub fn admits_servers(&self, conversation: &Conversation) -> bool {
        declared(conversation).any(|server| admitting(self.registry(), server.url).is_some())
    }

    /// Connects to the MCP servers that the request names and a provider admits, and takes them out of the request.
    ///
    /// # Errors
    /// The request says what cannot be done, or a server cannot be used.
    pub async fn client_tools(&self, conversation: &mut Conversation) -> Result<ClientTools, Failure> {
        let (mut servers, mut labels) = (Vec::new(), HashSet::new());
        for declared in declared(conversation) {
            let Some(admitting) = admitting(self.registry(), declared.url) else { continue };
            let server = declared.read(conversation)?;
            let refusal = declared.refusal();
            if !labels.insert(server.label.clone()) {
                return Err(refusal.of("server_label", "is the name of two servers; names must differ"));
            }
            if servers.len() == MAX_SERVERS {
                return Err(
                    refusal.of("server_url", format_args!("is one of more than {MAX_SERVERS} servers"))
                );
            }
            servers.push((admitting, server));
        }
        let mut connecting = JoinSet::new();
        let count = servers.len();
        let work = async move {
            for (place, ((name, provider), server)) in servers.into_iter().enumerate() {
                connecting.spawn(async move {
                    let connected = provider.connect(&server).await;
                    (place, name, server, connected)
                });
            }
            let mut connected: Vec<_> = connecting.join_all().await;
            connected.sort_by_key(|(place, ..)| *place);
            connected
        };
        let connected = match count {
            0 => return Ok(ClientTools::default()),
            _ => self.runtime().run(work).await.unwrap_or_default(),
        };
        let (mut tools, mut lists, mut room) = (Vec::new(), Vec::new(), MAX_LISTS);
        for (_, name, server, connected) in connected {
            let label = server.label.as_str();
            let (own, error) = match connected {
                Ok(provider) => (self.registry().of_client(&name, &server, &provider), None),
                Err(reason) if server.has_items() && !is_needed(conversation, label) => {
                    (Vec::new(), Some(reason))
                }
                Err(reason) => {
                    let message = format!("the MCP server `{label}` cannot be used: {reason}");
                    return Err(Failure::new(Kind::Request, message).with_code("mcp_server_unavailable"));
                }
            };
            let is_known = error.is_none() && conversation.mcp.listed.iter().any(|known| known == label);
            if server.has_items() && !is_known {
                let tools = listed(&own, &mut room);
                lists.push(McpItem::Tools { server: label.to_owned(), tools, error });
            }
            tools.extend(own);
        }
        choose(conversation, &tools);
        take_out(conversation, &labels);
        Ok(ClientTools { tools, lists, has_servers: true })
    }
}

/// Whether the request makes no sense without this server.
fn is_needed(conversation: &Conversation, label: &str) -> bool {
    let is_chosen =
        |chosen: &Value| is_of_kind(chosen, SERVER) && text(chosen, "server_label") == Some(label);
    conversation.server_choice.iter().any(is_chosen)
        || conversation.mcp.approved.iter().any(|approval| approval.server == label)
}

/// A server's tools as the client's API lists them, a JSON array. Tools that exceed `room` are listed by name only.
fn listed(tools: &[Hosted], room: &mut usize) -> String {
    let entries = tools.iter().filter_map(|hosted| {
        let name = &*hosted.shown.as_deref()?.tool;
        let ToolSpec { description, parameters, annotations, .. } = &*hosted.spec;
        let whole = format!(
            r#"{{"name":{},"description":{},"input_schema":{},"annotations":{annotations}}}"#,
            Value::from(name),
            Value::from(description.as_str()),
            parameters.view().raw(),
        );
        Some(match room.checked_sub(whole.len()) {
            Some(left) => {
                *room = left;
                whole
            }
            None => json!({"name": name, "description": null, "input_schema": {}, "annotations": null})
                .to_string(),
        })
    });
    format!("[{}]", entries.collect::<Vec<_>>().join(","))
}

/// The provider that admits the server with this URL, and its name.
fn admitting(registry: &Registry, url: &str) -> Option<(Arc<str>, Arc<dyn Provider>)> {
    registry.providers().iter().find(|(_, provider)| provider.admits_server(url)).cloned()
}

/// Changes a tool choice that names a server, or a tool of one, to the tools that the model gets.
fn choose(conversation: &mut Conversation, tools: &[Hosted]) {
    let Some(place) = conversation.server_choice.iter().position(|chosen| is_of_kind(chosen, SERVER)) else {
        return;
    };
    let chosen = conversation.server_choice.remove(place);
    let is_chosen = |hosted: &&Hosted| {
        let shown = hosted.shown.as_deref();
        shown.is_some_and(|shown| {
            text(&chosen, "server_label") == Some(&*shown.server)
                && text(&chosen, "name").is_none_or(|name| name == &*shown.tool)
        })
    };
    let mut names: Vec<_> = tools.iter().filter(is_chosen).map(|hosted| hosted.name.to_string()).collect();
    conversation.rest.remove("tool_choice");
    match &mut conversation.tool_choice {
        ToolChoice::Allowed { names: allowed, .. } => allowed.append(&mut names),
        choice @ ToolChoice::None => *choice = ToolChoice::Allowed { names, required: false },
        choice => *choice = ToolChoice::Allowed { names, required: true },
    }
}

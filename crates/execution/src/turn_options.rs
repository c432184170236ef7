//! [`TurnOptions`]: what a request says about hosted tools.

use std::{collections::HashMap, sync::Arc};

use serde_json::Value;

use super::{
    client_options::{ClientOptions, SEARCH_OPTIONS},
    inject::is_same,
    known_pages::KnownPages,
    registry::Snapshot,
};
use toolwire_pipeline::conversation::{Conversation, ServerTool};

/// What a request says about hosted tools.
#[derive(Debug, Clone, Default)]
pub(super) struct TurnOptions {
    /// By the tool's own name.
    tools: HashMap<Arc<str>, Arc<ClientOptions>>,
    /// The pages that may be fetched. `None` if all may.
    pub(super) pages: Option<Arc<KnownPages>>,
}

impl TurnOptions {
    /// Reads what the client says about these tools.
    pub(super) fn of(conversation: &Conversation, snapshot: &Snapshot) -> Self {
        let declared = conversation.rest.get("tools").and_then(Value::as_array);
        let options = conversation.rest.get(SEARCH_OPTIONS).filter(|options| options.is_object());
        let mut tools = HashMap::new();
        if declared.is_none() && options.is_none() {
            return Self::default();
        }
        for hosted in snapshot.tools() {
            let kind = |tool: &Value| tool.get("type").and_then(Value::as_str).map(str::to_owned);
            let is_it =
                |tool: &&Value| kind(tool).is_some_and(|kind| is_same(&ServerTool::new(kind, None), hosted));
            let own = declared.into_iter().flatten().find(is_it);
            let own = own.or(options.filter(|_| &*hosted.name == "web_search"));
            if let Some(own) = own {
                tools.insert(Arc::clone(&hosted.name), Arc::new(ClientOptions::of(own)));
            }
        }
        Self { tools, pages: None }
    }

    /// What the client says about the tool with this name.
    pub(super) fn of_tool(&self, name: &str) -> Option<&Arc<ClientOptions>> {
        self.tools.get(name)
    }
}

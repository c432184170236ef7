//! Lists the tools of a server.

use std::{collections::HashSet, sync::Arc, time::Duration};

use rmcp::{
    RoleClient, ServiceError,
    model::{ErrorCode, PaginatedRequestParams, Tool},
    service::Peer,
};
use serde_json::Value;

use super::{Options, message, resources};
use toolwire_pipeline::wire::{json::Raw, text::boundary_upto};
use crate::ToolSpec;

const MAX_PAGES: usize = 100;

const MAX_TOOLS: usize = 1000;

/// In bytes.
const MAX_SCHEMA: usize = 64 << 10;

/// In bytes, for all schemas of a server.
const MAX_SCHEMAS: usize = 2 << 20;

/// In characters.
const MAX_DESCRIPTION: usize = 8 << 10;

/// In bytes. The rest is cut.
const MAX_INSTRUCTIONS: usize = 4 << 10;

/// In bytes.
const MAX_NAME: usize = 128;

/// In bytes. Larger ones are ignored.
const MAX_ANNOTATIONS: usize = 1 << 10;

#[derive(Debug)]
pub(super) struct ToolList {
    pub(super) specs: Vec<Arc<ToolSpec>>,
    /// The tools that must be called as tasks, by their own names.
    pub(super) task_tools: HashSet<String>,
    /// Whether the last tool is that of [`resources`], which is not the server's own.
    pub(super) has_resource_tool: bool,
    /// How long the list is valid, if the server states it.
    pub(super) ttl: Option<Duration>,
}

/// The name of the server's tool `name` for models.
pub(super) fn wire_name(server: &str, name: &str) -> String {
    format!("{server}__{name}")
}

/// The server's own name for a tool.
pub(super) fn own_name<'n>(server: &str, name: &'n str) -> &'n str {
    name.strip_prefix(server).and_then(|rest| rest.strip_prefix("__")).unwrap_or(name)
}

/// Whether both lists look the same to a model.
pub(super) fn are_equal(some: &[Arc<ToolSpec>], other: &[Arc<ToolSpec>]) -> bool {
    let is_same = |(one, two): (&Arc<ToolSpec>, &Arc<ToolSpec>)| {
        one.name == two.name
            && one.label == two.label
            && one.description == two.description
            && one.parameters == two.parameters
            && one.is_idempotent == two.is_idempotent
    };
    some.len() == other.len() && some.iter().zip(other).all(is_same)
}

/// Requests all pages of the list. Leaves out what exceeds the limits, with a warning.
///
/// # Errors
/// The server does not answer with a list.
pub(super) async fn list(
    peer: &Peer<RoleClient>,
    server: &str,
    options: &Options,
) -> Result<ToolList, ServiceError> {
    let mut collected = Collected::default();
    let mut ttl: Option<Duration> = None;
    let (mut cursor, mut cursors) = (None, HashSet::new());
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.take());
        let page = match peer.list_tools(Some(params)).await {
            // A server can have resources only.
            Err(ServiceError::McpError(error))
                if error.code == ErrorCode::METHOD_NOT_FOUND && resources::are_offered(peer) =>
            {
                break;
            }
            page => page?,
        };
        let page_ttl = page.ttl_ms.map(Duration::from_millis);
        ttl = ttl.into_iter().chain(page_ttl).min();
        page.tools.into_iter().for_each(|tool| collected.add(tool, server, options));
        match page.next_cursor {
            Some(next) if cursors.insert(next.clone()) && collected.has_room() => cursor = Some(next),
            _ => break,
        }
    }
    if collected.left_out > 0 {
        tracing::warn!(
            provider = server,
            tools = collected.left_out,
            "tools are left out: too many, too large, or invalid"
        );
    }
    let has_resource_tool = resources::are_offered(peer) && !collected.names.contains(resources::NAME);
    let mut specs = collected.specs;
    specs.extend(has_resource_tool.then(|| Arc::new(resources::spec(server, options))));
    Ok(ToolList { specs, task_tools: collected.task_tools, has_resource_tool, ttl })
}

/// Prepares what a server says about its tools for the model.
pub(super) fn instructions(text: &str) -> String {
    let mut text: String = without_control(text, "\n\t").collect();
    if text.len() > MAX_INSTRUCTIONS {
        text.truncate(boundary_upto(&text, MAX_INSTRUCTIONS));
        text.push('…');
    }
    text.trim().to_owned()
}

/// Replaces control characters, except those in `kept`, with spaces, because terminals would interpret them.
fn without_control<'t>(text: &'t str, kept: &'t str) -> impl Iterator<Item = char> + 't {
    text.chars().map(move |char| if char.is_control() && !kept.contains(char) { ' ' } else { char })
}

#[derive(Debug, Default)]
struct Collected {
    specs: Vec<Arc<ToolSpec>>,
    names: HashSet<String>,
    task_tools: HashSet<String>,
    /// In bytes, so far.
    schemas: usize,
    left_out: usize,
}

impl Collected {
    fn has_room(&self) -> bool {
        self.specs.len() < MAX_TOOLS && self.left_out < MAX_TOOLS
    }

    fn add(&mut self, tool: Tool, server: &str, options: &Options) {
        let is_named =
            !tool.name.is_empty() && tool.name.len() <= MAX_NAME && !tool.name.contains(char::is_control);
        let needs_task = message::needs_task(&tool);
        let schema = Value::Object(Arc::unwrap_or_clone(tool.input_schema));
        let size = schema.to_string().len();
        let fits = size <= MAX_SCHEMA && self.schemas + size <= MAX_SCHEMAS && self.has_room();
        if !is_named || !fits || !self.names.insert(tool.name.clone().into_owned()) {
            self.left_out += 1;
            return;
        }
        self.schemas += size;
        if needs_task {
            self.task_tools.insert(tool.name.clone().into_owned());
        }
        let annotations = tool.annotations.as_ref().and_then(|hints| serde_json::to_value(hints).ok());
        let annotations = annotations.filter(|hints| hints.to_string().len() <= MAX_ANNOTATIONS);
        let hints = tool.annotations.unwrap_or_default();
        let may_repeat = hints.read_only_hint == Some(true) || hints.idempotent_hint == Some(true);
        let label = tool.title.or(hints.title).unwrap_or_else(|| tool.name.clone().into_owned());
        let description = tool.description.unwrap_or_default();
        self.specs.push(Arc::new(ToolSpec {
            name: wire_name(server, &tool.name),
            label: without_control(&label, "").take(MAX_NAME).collect(),
            description: without_control(&description, "\n\t").take(MAX_DESCRIPTION).collect(),
            parameters: Raw::from(schema),
            is_idempotent: options.trust_annotations && may_repeat,
            timeout: options.timeout,
            annotations: annotations.unwrap_or_default(),
            ..ToolSpec::default()
        }));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn collected(tools: impl IntoIterator<Item = Value>, options: &Options) -> Collected {
        let mut collected = Collected::default();
        for tool in tools {
            collected.add(serde_json::from_value(tool).expect("a tool"), "s", options);
        }
        collected
    }

    #[test]
    fn names_carry_the_server() {
        let found = collected([json!({"name": "a__b", "inputSchema": {}})], &Options::default());
        assert_eq!(found.specs.first().map(|spec| spec.name.as_str()), Some("s__a__b"));
        assert_eq!(own_name("s", "s__a__b"), "a__b");
    }

    #[test]
    fn annotations_are_believed_only_if_the_settings_say_so() {
        let tool = || [json!({"name": "a", "inputSchema": {}, "annotations": {"readOnlyHint": true}})];
        let trusting = Options { trust_annotations: true, ..Options::default() };
        for (options, expected) in [(Options::default(), false), (trusting, true)] {
            let found = collected(tool(), &options);
            assert_eq!(found.specs.first().map(|spec| spec.is_idempotent), Some(expected));
        }
    }

    #[test]
    fn tools_beyond_the_limits_are_left_out() {
        let schema =
            |length: usize| json!({"name": length.to_string(), "inputSchema": {"d": "x".repeat(length)}});
        let options = Options::default();
        let found = collected([schema(MAX_SCHEMA - 8), schema(MAX_SCHEMA - 7)], &options);
        assert_eq!((found.specs.len(), found.left_out), (1, 1));
        let many = (0..MAX_TOOLS + 5).map(|number| json!({"name": number.to_string(), "inputSchema": {}}));
        assert_eq!(collected(many, &options).specs.len(), MAX_TOOLS);
        let large = (0..100)
            .map(|number| json!({"name": number.to_string(), "inputSchema": {"d": "x".repeat(60 << 10)}}));
        assert_eq!(collected(large, &options).specs.len(), MAX_SCHEMAS / ((60 << 10) + 8));
        let named = ["", "a\nb", "ok", "ok"].map(|name| json!({"name": name, "inputSchema": {}}));
        assert_eq!(collected(named, &options).specs.len(), 1);
    }
}

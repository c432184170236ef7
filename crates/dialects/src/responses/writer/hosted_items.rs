//! Items for tools that the client does not run. There are items for searches and images, and any other tool
//! is shown as a tool from an MCP server (docs/protocols/responses.md#hosted-tools).

use serde_json::{Value, json};

use super::{
    events::{Events, delta_prefix},
    item::{ADDED, Place, quoted},
    rope::Rope,
};
use crate::{
    event::{Media, Runner},
    search_results::pages,
    wire::json::{Json, Kind as JsonKind, escape_str},
};

/// Identifies the call that an event belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    /// One of the response's own calls, by index.
    Index(u32),
    /// A call that is reported separately, by id and name.
    Id(String, String),
}

#[derive(Debug)]
pub(super) struct HostedItem {
    pub(super) key: Key,
    place: Place,
    kind: Kind,
    name: String,
    /// The name of the server that provides the tool.
    server: String,
    /// The id of the request for approval that the client has granted. Empty if there was none.
    approval: String,
    arguments: String,
    /// The start of every delta with arguments.
    prefix: String,
    called: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Search,
    Image,
    Mcp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome<'c> {
    /// It has not started, or is still running.
    Open,
    /// With this image.
    Image(&'c Media<'c>),
    /// With this result.
    Result { content: &'c str, is_error: bool },
    /// Without a result, since upstreams need not reveal one.
    Unshown,
    /// The response was cut off.
    Cut,
}

impl<'c> Outcome<'c> {
    fn output(self) -> Option<&'c str> {
        match self {
            Self::Result { content, is_error: false } => Some(content),
            _ => None,
        }
    }

    fn error(self) -> Option<&'c str> {
        match self {
            Self::Result { content, is_error: true } => Some(content),
            _ => None,
        }
    }

    fn status(self, kind: Kind) -> &'static str {
        match (self, kind) {
            (Self::Open, _) => "in_progress",
            (Self::Image(_) | Self::Unshown | Self::Result { is_error: false, .. }, _) => "completed",
            (Self::Cut, Kind::Mcp) => "incomplete",
            (Self::Cut | Self::Result { is_error: true, .. }, _) => "failed",
        }
    }
}

impl Kind {
    /// The kind of item for the tool `name`. Images from an upstream arrive separately, so the call that
    /// generated them is shown like a call to any other tool.
    pub(super) fn of(name: &str, runner: Runner) -> Self {
        match (name, runner) {
            ("web_search", _) => Self::Search,
            ("generate_images", Runner::Toolwire) => Self::Image,
            _ => Self::Mcp,
        }
    }

    /// The prefix of the item's id.
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Search => "ws",
            Self::Image => "ig",
            Self::Mcp => "mcp",
        }
    }
}

impl HostedItem {
    pub(super) fn begin(
        key: Key,
        place: Place,
        (name, server, approval): (&str, &str, &str),
        kind: Kind,
        events: &mut Events<'_>,
    ) -> Self {
        let prefix = delta_prefix("response.mcp_call_arguments.delta", &place.members(), "");
        let (arguments, called) = (String::new(), false);
        let (name, server, approval) = (name.to_owned(), server.to_owned(), approval.to_owned());
        let hosted = Self { key, place, kind, name, server, approval, arguments, prefix, called };
        hosted.place.put_item(ADDED, &hosted.item(Outcome::Open).into(), events);
        hosted.put("in_progress", events);
        hosted
    }

    /// Whether this is the call `id` and it generates images.
    pub(super) fn makes_images_as(&self, id: &str) -> bool {
        self.kind == Kind::Image && matches!(&self.key, Key::Id(own, _) if own == id)
    }

    /// Adds a piece of the arguments. Returns the number of bytes that are stored.
    pub(super) fn push(&mut self, piece: &str, events: &mut Events<'_>) -> usize {
        self.arguments.push_str(piece);
        if self.kind == Kind::Mcp && !piece.is_empty() {
            let mut escaped = String::new();
            escape_str(&mut escaped, piece);
            events.delta(&self.prefix, &escaped);
        }
        piece.len()
    }

    /// Handles the end of the arguments, even if they are incomplete.
    pub(super) fn called(&mut self, events: &mut Events<'_>) {
        if std::mem::replace(&mut self.called, true) {
            return;
        }
        match self.kind {
            Kind::Search => self.put("searching", events),
            Kind::Image => self.put("generating", events),
            Kind::Mcp => {
                let arguments = Rope::from(quoted(&self.arguments));
                let members = self.place.members();
                let done = "response.mcp_call_arguments.done";
                events.put_rope(done, &[&members, ",\"arguments\":"], &arguments, "");
            }
        }
    }

    /// Ends the item. Returns its position and its JSON.
    pub(super) fn end(mut self, outcome: Outcome<'_>, events: &mut Events<'_>) -> (Place, Rope) {
        self.called(events);
        match (self.kind, outcome.status(self.kind)) {
            (_, "completed") => self.put("completed", events),
            (Kind::Mcp, _) => self.put("failed", events),
            // Searches and images have no such event.
            (Kind::Search | Kind::Image, _) => {}
        }
        let item = self.item(outcome);
        (self.place, item.into())
    }

    fn put(&self, word: &str, events: &mut Events<'_>) {
        let kind = match self.kind {
            Kind::Search => format!("response.web_search_call.{word}"),
            Kind::Image => format!("response.image_generation_call.{word}"),
            Kind::Mcp => format!("response.mcp_call.{word}"),
        };
        events.put(&kind, &[&self.place.members()]);
    }

    fn item(&self, outcome: Outcome<'_>) -> String {
        let (id, status) = (&self.place.id, outcome.status(self.kind));
        let item = match self.kind {
            Kind::Search => json!({
                "id": id,
                "type": "web_search_call",
                "status": status,
                "action": self.action(outcome),
            }),
            Kind::Image => return image(id, status, outcome),
            Kind::Mcp => json!({
                "id": id,
                "type": "mcp_call",
                "status": status,
                "approval_request_id": Some(&self.approval).filter(|id| !id.is_empty()),
                "server_label": self.server,
                "name": self.name,
                "arguments": self.arguments,
                "output": outcome.output(),
                "error": outcome.error().map(execution_error),
            }),
        };
        item.to_string()
    }

    /// The query of the search and its results.
    fn action(&self, outcome: Outcome<'_>) -> Value {
        let arguments = Json::parse(&self.arguments).ok();
        let text = |key: &str| Some(arguments?.get(key)?.as_str()?.into_owned());
        let mut action = json!({"type": "search", "query": text("query").unwrap_or_default()});
        let Some(members) = action.as_object_mut() else { return action };
        let queries = arguments.and_then(|arguments| arguments.get("queries"));
        if let Some(queries) = queries.filter(|queries| queries.kind() == JsonKind::Array) {
            let texts = queries.elements().filter_map(|query| query.as_str());
            members.insert("queries".to_owned(), texts.map(|text| text.into_owned()).collect());
        }
        let found = outcome.output().map(pages);
        let sources = found.into_iter().flatten().map(|page| json!({"type": "url", "url": page.url}));
        let sources: Vec<Value> = sources.collect();
        if !sources.is_empty() {
            members.insert("sources".to_owned(), sources.into());
        }
        action
    }
}

/// The error of a tool, in the form that clients of the API expect.
fn execution_error(text: &str) -> Value {
    json!({"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]})
}

/// The item for an image, as JSON. The data may be megabytes long, so it is copied only once.
fn image(id: &str, status: &str, outcome: Outcome<'_>) -> String {
    let media = if let Outcome::Image(media) = outcome { Some(media) } else { None };
    let mut item = String::with_capacity(ROOM + media.map_or(0, |media| media.data.len()));
    for part in
        ["{\"id\":\"", id, "\",\"type\":\"image_generation_call\",\"status\":\"", status, "\",\"result\":"]
    {
        item.push_str(part);
    }
    match media {
        Some(media) => {
            item.push('"');
            escape_str(&mut item, &media.data);
            item.push('"');
        }
        None => item.push_str("null"),
    }
    if let Some(format) = media.and_then(|media| media.mime.strip_prefix("image/")) {
        item.push_str(",\"output_format\":");
        item.push_str(&quoted(format));
    }
    item.push('}');
    item
}

/// Bytes that the item for an image takes in addition to its data.
const ROOM: usize = 192;

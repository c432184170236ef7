//! The tool with which a model lists and reads a server's resources, such as those that results link to.
//!
//! toolwire itself opens none of the URIs: they are passed to the server, which decides what they mean.

use std::collections::HashSet;

use rmcp::{
    RoleClient,
    model::{
        CallToolResult, ContentBlock, ListResourceTemplatesRequest, ListResourcesRequest,
        PaginatedRequestParams, ReadResourceRequest, ReadResourceRequestParams, Resource, ResourceContents,
        ResourceTemplate, ServerResult,
    },
    service::Peer,
};
use serde_json::{Map, Value, json};
use toolwire_pipeline::wire::{json::Raw, text::boundary_upto};
use url::Url;

use super::{Options, Server, Unanswered, not_a_result, tools};
use crate::{ErrorCode, Invocation, Output, ToolError, ToolSpec};

/// The tool's name behind that of the server.
pub(super) const NAME: &str = "resources";

/// Maximum number of pages that one call requests.
const MAX_PAGES: usize = 10;

/// Maximum number of entries that one call lists.
const MAX_ENTRIES: usize = 200;

/// Maximum size of a URI, in bytes. Resources with longer ones are left out.
const MAX_URI: usize = 2 << 10;

/// Maximum size of other texts in the list, in bytes. The rest is cut.
const MAX_TEXT: usize = 200;

/// The tool of the server `server`.
pub(super) fn spec(server: &str, options: &Options) -> ToolSpec {
    let parameters = json!({
        "type": "object",
        "properties": {
            "uri": {"type": "string", "description": "URI of the resource to read. Without it, the resources are listed."},
            "cursor": {"type": "string", "description": "Continues a list, from its `cursor`."},
        },
    });
    ToolSpec {
        name: tools::wire_name(server, NAME),
        label: format!("{server} resources"),
        description: format!(
            "Reads a resource (file, page, record, …) of the server `{server}` by its URI, such as one that a result of its tools links to. Without `uri`, lists the resources and the templates of their URIs."
        ),
        parameters: Raw::from(parameters),
        timeout: options.timeout,
        ..ToolSpec::default()
    }
}

/// Whether the server has resources.
pub(super) fn are_offered(peer: &Peer<RoleClient>) -> bool {
    peer.peer_info().is_some_and(|info| info.capabilities.resources.is_some())
}

impl Server {
    /// Runs a call of the tool.
    pub(super) async fn resources(
        &self,
        peer: &Peer<RoleClient>,
        call: &Invocation,
    ) -> Result<Output, ToolError> {
        let argument = |name| call.arguments.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let done = match argument("uri") {
            Some(uri) => self.read(peer, uri).await,
            None => self.list(peer, argument("cursor").map(str::to_owned)).await,
        };
        done.or_else(Unanswered::into_output)
    }

    async fn read(&self, peer: &Peer<RoleClient>, uri: &str) -> Result<Output, Unanswered> {
        if uri.len() > MAX_URI || uri.contains(char::is_control) || Url::parse(uri).is_err() {
            let message = "`uri` is not a complete URI, such as `file:///notes.txt`.";
            return Err(ToolError::new(ErrorCode::InvalidArguments, message).into());
        }
        let request = ReadResourceRequest::new(ReadResourceRequestParams::new(uri));
        let ServerResult::ReadResourceResult(read) = self.answer(peer, request.into()).await? else {
            return Err(not_a_result().into());
        };
        let content = read.contents.into_iter().map(block).collect();
        Ok(super::output::of(CallToolResult::success(content)))
    }

    /// Lists resources from `cursor` on. The first list also has the templates.
    async fn list(&self, peer: &Peer<RoleClient>, cursor: Option<String>) -> Result<Output, Unanswered> {
        let is_first = cursor.is_none();
        let mut pages = Pages { cursor, ..Pages::default() };
        let mut resources = Vec::new();
        while pages.next(resources.len()) {
            let request = ListResourcesRequest::with_param(pages.params());
            let ServerResult::ListResourcesResult(page) = self.answer(peer, request.into()).await? else {
                return Err(not_a_result().into());
            };
            resources.extend(page.resources.into_iter().filter_map(resource));
            pages.cursor = page.next_cursor;
        }
        resources.truncate(MAX_ENTRIES);
        let mut listed = Map::from_iter([("resources".to_owned(), resources.into())]);
        listed.extend(pages.rest().map(|cursor| ("cursor".to_owned(), cursor.into())));
        if is_first {
            // Not every server with resources knows this request.
            let templates = self.templates(peer).await.unwrap_or_default();
            listed.insert("templates".to_owned(), templates.into());
        }
        Ok(Output::text(Value::Object(listed).to_string()))
    }

    async fn templates(&self, peer: &Peer<RoleClient>) -> Result<Vec<Value>, Unanswered> {
        let (mut pages, mut templates) = (Pages::default(), Vec::new());
        while pages.next(templates.len()) {
            let request = ListResourceTemplatesRequest::with_param(pages.params());
            let ServerResult::ListResourceTemplatesResult(page) = self.answer(peer, request.into()).await?
            else {
                return Err(not_a_result().into());
            };
            templates.extend(page.resource_templates.into_iter().filter_map(template));
            pages.cursor = page.next_cursor;
        }
        templates.truncate(MAX_ENTRIES);
        Ok(templates)
    }
}

/// The pages of a list.
#[derive(Default)]
struct Pages {
    cursor: Option<String>,
    seen: HashSet<String>,
    count: usize,
}

impl Pages {
    /// Whether another page is requested, after `listed` entries.
    fn next(&mut self, listed: usize) -> bool {
        let is_new = match &self.cursor {
            Some(cursor) => self.seen.insert(cursor.clone()),
            None => self.count == 0,
        };
        self.count += 1;
        is_new && self.count <= MAX_PAGES && listed < MAX_ENTRIES
    }

    fn params(&self) -> PaginatedRequestParams {
        PaginatedRequestParams::default().with_cursor(self.cursor.clone())
    }

    /// Where the list continues, if it does.
    fn rest(self) -> Option<String> {
        self.cursor.filter(|cursor| cursor.len() <= MAX_URI)
    }
}

fn resource(resource: Resource) -> Option<Value> {
    let Resource { uri, name, title, description, mime_type, size, .. } = resource;
    let mut entry = entry("uri", uri, title.unwrap_or(name), description, mime_type)?;
    entry.extend(size.map(|size| ("size".to_owned(), size.into())));
    Some(entry.into())
}

fn template(template: ResourceTemplate) -> Option<Value> {
    let ResourceTemplate { uri_template, name, title, description, mime_type, .. } = template;
    Some(entry("uriTemplate", uri_template, title.unwrap_or(name), description, mime_type)?.into())
}

fn entry(
    key: &str,
    uri: String,
    name: String,
    description: Option<String>,
    mime_type: Option<String>,
) -> Option<Map<String, Value>> {
    if uri.is_empty() || uri.len() > MAX_URI {
        return None;
    }
    let mut entry = Map::from_iter([(key.to_owned(), uri.into())]);
    let texts = [("name", Some(name)), ("description", description), ("mimeType", mime_type)];
    for (key, text) in texts {
        let Some(mut text) = text.filter(|text| !text.is_empty()) else { continue };
        text.truncate(boundary_upto(&text, MAX_TEXT));
        entry.insert(key.to_owned(), text.into());
    }
    Some(entry)
}

/// The content of a resource, as in the result of a call.
fn block(contents: ResourceContents) -> ContentBlock {
    match contents {
        ResourceContents::BlobResourceContents { mime_type: Some(kind), blob, .. }
            if kind.starts_with("image/") =>
        {
            ContentBlock::image(blob, kind)
        }
        contents => ContentBlock::resource(contents),
    }
}

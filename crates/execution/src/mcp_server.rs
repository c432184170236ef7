//! [`McpServer`]: offers the hosted tools to clients of the Model Context Protocol, as an MCP server.
//!
//! ```text
//! a client's message ─rmcp─▶ McpServer ─▶ HostedTurn::run ─▶ the result, as text
//! ```
//!
//! A call is run under the same rules as a model's: arguments, permission, rates, limits, audit.

use std::{borrow::Cow, convert::Infallible, io, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Full, combinators::BoxBody};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetPromptRequestParams,
        GetPromptResponse, GetPromptResult, Implementation, ListPromptsResult, ListToolsResult,
        PaginatedRequestParams, Prompt as McpPrompt, PromptArgument as McpArgument,
        PromptMessage as McpMessage, ResourceContents, Role, ServerCapabilities, ServerConfig, Tool,
        ToolAnnotations,
    },
    service::RequestContext,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
    },
};
use serde_json::{Map, Value};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::sleep,
};

use super::{Asker, Execution, FilledPrompt, Hosted, Injection, Prompt, PromptMessage, media::MediaFile};
use toolwire_pipeline::conversation::Call;

/// How often, and how long each time, to wait for providers that are not ready.
const WAITS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(50);

/// The hosted tools, as one client may use them.
#[derive(Debug, Clone)]
pub struct McpServer {
    execution: Arc<Execution>,
    asker: Asker,
}

/// Answers one request of the streamable HTTP transport, without sessions. The caller has checked who sends it and
/// limited its size. Dropping the response's body cancels the call.
pub async fn respond(
    execution: &Arc<Execution>,
    asker: Asker,
    request: Request<Full<Bytes>>,
) -> Option<Response<BoxBody<Bytes, Infallible>>> {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_sse_keep_alive(None)
        .with_sse_retry(None)
        .with_max_request_body_bytes(usize::MAX)
        .disable_allowed_hosts();
    let server = McpServer::new(Arc::clone(execution), asker);
    let sessions = Arc::new(NeverSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
    Some(service.handle(request).await)
}

impl McpServer {
    pub fn new(execution: Arc<Execution>, asker: Asker) -> Self {
        Self { execution, asker }
    }

    /// Talks to one client over a pair of streams, one JSON message per line, until the client closes its stream.
    ///
    /// # Errors
    /// The client does not begin as the protocol requires, or the connection fails.
    pub async fn talk(
        self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> io::Result<()> {
        self.await_providers().await;
        let running = self.serve((input, output)).await.map_err(io::Error::other)?;
        running.waiting().await.map(drop).map_err(io::Error::other)
    }

    /// Waits until the tools of all providers are known, but not for long: clients ask for the list only once.
    async fn await_providers(&self) {
        for _ in 0..WAITS {
            if self.execution.registry().names().1.is_empty() {
                break;
            }
            sleep(PAUSE).await;
        }
    }

    /// The prompts of the providers that have a tool for this client, with the names of their providers.
    fn prompts(&self) -> Vec<(Arc<str>, Arc<Prompt>)> {
        let (registry, key) = (self.execution.registry(), self.asker.key());
        let snapshot = registry.snapshot_of(key);
        let mut found = Vec::new();
        for (name, _) in registry.providers() {
            let has_tool = |hosted: &Hosted| *hosted.provider_name == **name && self.is_offered(hosted);
            if snapshot.tools().iter().any(has_tool)
                && let Some(provider) = registry.provider_of(name, key)
            {
                found.extend(provider.prompts().into_iter().map(|prompt| (Arc::clone(name), prompt)));
            }
        }
        found
    }

    fn is_offered(&self, hosted: &Hosted) -> bool {
        hosted.is_enabled
            && hosted.rules.injection != Injection::Off
            && self.execution.permissions().may_ever_run(&self.asker.asked(hosted, None))
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_prompts().build();
        let info = ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("toolwire", env!("CARGO_PKG_VERSION")));
        match self.execution.missing(&self.asker) {
            missing if missing.is_empty() => info,
            missing => info.with_instructions(missing.join("\n")),
        }
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.execution.await_key(self.asker.key()).await;
        let snapshot = self.execution.registry().snapshot_of(self.asker.key());
        let offered = snapshot.tools().iter().filter(|hosted| self.is_offered(hosted));
        Ok(ListToolsResult::with_all_items(offered.map(described).collect()))
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.execution.await_key(self.asker.key()).await;
        let prompts = self.prompts();
        let described = prompts.iter().map(|(provider, prompt)| described_prompt(provider, prompt));
        Ok(ListPromptsResult::with_all_items(described.collect()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let GetPromptRequestParams { name, arguments, .. } = request;
        let found = self.prompts().into_iter().find(|(own, prompt)| wire_name(own, prompt) == name);
        let found = found.and_then(|(own, prompt)| {
            Some((self.execution.registry().provider_of(&own, self.asker.key())?, prompt))
        });
        let Some((provider, prompt)) = found else {
            return Err(ErrorData::invalid_params(format!("there is no prompt \"{name}\""), None));
        };
        let filling = async move { provider.fill(&prompt.name, arguments.unwrap_or_default()).await };
        let filled = tokio::select! {
            filled = self.execution.runtime().run(filling) => filled,
            () = context.ct.cancelled() => None,
        };
        match filled {
            Some(Ok(filled)) => Ok(of_filled(filled).into()),
            Some(Err(error)) => Err(ErrorData::invalid_params(error.message, None)),
            None => Err(ErrorData::internal_error("the request was cancelled", None)),
        }
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let CallToolRequestParams { name, arguments, .. } = request;
        let (registry, key) = (self.execution.registry(), self.asker.key());
        self.execution.await_key(key).await;
        let snapshot = registry.snapshot_of(key);
        if !snapshot.tools().iter().any(|hosted| *hosted.name == *name && self.is_offered(hosted)) {
            if let Some(why) = self.execution.why_missing(&name, &self.asker) {
                return Ok(CallToolResult::error(vec![ContentBlock::text(why)]).into());
            }
            return Err(ErrorData::invalid_params(format!("there is no tool \"{name}\""), None));
        }
        let call = Call {
            id: format!("mcp_{:016x}", fastrand::u64(..)),
            name: name.into_owned(),
            arguments: Value::Object(arguments.unwrap_or_default()).to_string(),
            signature: None,
        };
        let turn = Arc::new(self.execution.by_hand(self.asker.clone()));
        let ran = tokio::select! {
            ran = turn.run(vec![call]) => ran.into_iter().next(),
            // The client has cancelled the call or is gone. Nobody gets this error.
            () = context.ct.cancelled() => None,
        };
        let Some(ran) = ran else {
            return Err(ErrorData::internal_error("the call was cancelled", None));
        };
        let files = ran.media.iter().map(block);
        let content = std::iter::once(ContentBlock::text(ran.output.content)).chain(files).collect();
        let result = match ran.output.is_error {
            true => CallToolResult::error(content),
            false => CallToolResult::success(content),
        };
        Ok(result.into())
    }
}

/// The name of a prompt for clients.
fn wire_name(provider: &str, prompt: &Prompt) -> String {
    format!("{provider}__{}", prompt.name)
}

fn described_prompt(provider: &str, prompt: &Prompt) -> McpPrompt {
    let arguments = prompt.arguments.iter().map(|argument| {
        McpArgument::new(&argument.name)
            .with_description(&argument.description)
            .with_required(argument.is_required)
    });
    let described =
        McpPrompt::new(wire_name(provider, prompt), Some(&prompt.description), Some(arguments.collect()));
    if prompt.title.is_empty() { described } else { described.with_title(&prompt.title) }
}

fn of_filled(filled: FilledPrompt) -> GetPromptResult {
    let message = |message: PromptMessage| {
        let role = if message.is_by_model { Role::Assistant } else { Role::User };
        McpMessage::new_text(role, message.text)
    };
    let result = GetPromptResult::new(filled.messages.into_iter().map(message).collect());
    result.with_description(filled.description)
}

fn block(file: &MediaFile) -> ContentBlock {
    let (mime, data) = file.parts();
    match mime.split('/').next() {
        Some("image") => ContentBlock::image(data, mime),
        Some("audio") => ContentBlock::audio(data, mime),
        // A URI is required, and the file has no other.
        _ => ContentBlock::resource(ResourceContents::blob(data, "file:///result").with_mime_type(mime)),
    }
}

fn described(hosted: &Hosted) -> Tool {
    let schema = match hosted.spec.parameters.view().to_value() {
        Value::Object(schema) => schema,
        _ => Map::from_iter([("type".to_owned(), Value::from("object"))]),
    };
    let description = Cow::Owned(hosted.spec.description.to_string());
    let annotations =
        ToolAnnotations::with_title(hosted.spec.label.to_string()).idempotent(hosted.spec.is_idempotent);
    Tool::new(hosted.name.to_string(), description, Arc::new(schema)).with_annotations(annotations)
}

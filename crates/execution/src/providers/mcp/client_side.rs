//! [`ClientSide`]: answers a server's requests, and notes its notifications.

#![expect(deprecated, reason = "servers up to 2025-11-25 may still ask for models and folders")]

use std::sync::Arc;

use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, CustomRequest,
        CustomResult, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, ErrorCode,
        ErrorData, ExtensionCapabilities, FormElicitationCapability, Implementation, JsonObject,
        ListRootsResult, TASKS_EXTENSION_ID, UrlElicitationCapability,
    },
    service::{NotificationContext, RequestContext},
};
use serde_json::Value;
use tokio::sync::Notify;

use super::elicitation::{self, People};

const NO_MODEL: &str = "servers get no model (sampling)";

/// The client side of a connection. Requests for a model or for folders are declined.
#[derive(Debug, Clone)]
pub(super) struct ClientSide {
    /// Notified when the server reports that its lists have changed.
    changed: Arc<Notify>,
    people: Arc<People>,
}

impl ClientSide {
    pub(super) fn new(changed: Arc<Notify>, people: Arc<People>) -> Self {
        Self { changed, people }
    }

    async fn ask(&self, params: &Value, context: &RequestContext<RoleClient>) -> ElicitResult {
        tokio::select! {
            result = self.people.ask(params) => result,
            // The server needs no answer any more.
            () = context.ct.cancelled() => ElicitResult::new(ElicitationAction::Cancel),
        }
    }
}

impl ClientHandler for ClientSide {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("toolwire", env!("CARGO_PKG_VERSION"));
        let mut capabilities = ClientCapabilities::default();
        if self.people.can_answer() {
            let (form, url) = (FormElicitationCapability::default(), UrlElicitationCapability::default());
            capabilities.elicitation = Some(ElicitationCapability::new().with_form(form).with_url(url));
        }
        let tasks = (TASKS_EXTENSION_ID.to_owned(), JsonObject::new());
        capabilities.extensions = Some(ExtensionCapabilities::from_iter([tasks]));
        ClientConfig::new(capabilities, own)
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let params = serde_json::to_value(&params).unwrap_or_default();
        Ok(self.ask(&params, &context).await)
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Err(declined(NO_MODEL))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Err(declined("there are no folders to work in (roots)"))
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        // rmcp could not read its form, which may still be one that can be shown.
        if request.method == elicitation::METHOD {
            let result = self.ask(&request.params.unwrap_or_default(), &context).await;
            return Ok(CustomResult::new(serde_json::to_value(&result).unwrap_or_default()));
        }
        Err(declined(if request.method == "sampling/createMessage" { NO_MODEL } else { "this request is unknown" }))
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

fn declined(reason: &'static str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, reason, None)
}

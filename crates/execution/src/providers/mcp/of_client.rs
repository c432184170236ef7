//! Servers that a client's request names.
//!
//! The connection belongs to one request. What the server says about itself does not reach the model, only its tools do.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::timeout;
use url::Url;

use super::{Options, Server, supervise::Connection, tools};
use crate::{
    Invocation, Output, Provider, Running, ToolError, ToolSpec, client_servers::ClientServer, http::HttpClient,
    provider::ProviderState,
};
use toolwire_pipeline::settings::TableText;

/// Limits for a client's server, which the operator sets.
#[derive(Debug, Clone, Copy)]
pub(in crate::providers) struct ClientLimits {
    pub(in crate::providers) timeout: Duration,
    pub(in crate::providers) start_timeout: Duration,
    pub(in crate::providers) max_output: usize,
}

/// A server that is connected for one request.
#[derive(Debug)]
struct ConnectedServer {
    server: Server,
    /// Ends when this is dropped.
    _connection: Connection,
}

/// Connects to `url`, which is that of `client`, and lists the tools that the client wants.
///
/// # Errors
/// Why the server cannot be used, without secrets.
pub(in crate::providers) async fn connect_for_client(
    http: &HttpClient,
    client: &ClientServer,
    url: &Url,
    limits: ClientLimits,
) -> Result<Arc<dyn Provider>, String> {
    let headers = client.headers.iter().map(|(name, value)| (name.clone(), TableText::secret(value.clone())));
    let options = Options {
        url: Some(url.as_str().parse().map_err(|_| "its URL is not valid".to_owned())?),
        api_key: client.authorization.clone(),
        headers: headers.collect::<BTreeMap<_, _>>(),
        timeout: limits.timeout,
        start_timeout: limits.start_timeout,
        max_output: limits.max_output,
        ..Options::default()
    };
    let server = Server::new(options, client.label.as_str().into(), None);
    let connected = timeout(limits.start_timeout, server.connect(http, &server.options)).await;
    let connected = connected.map_err(|_| format!("it was not ready after {:?}", limits.start_timeout))?;
    let (connection, list) = connected.map_err(|fault| server.plain(&fault.to_string()))?;
    let is_wanted = |spec: &Arc<ToolSpec>| client.wants(tools::own_name(&client.label, &spec.name), spec.is_read_only());
    server.state(|state| {
        state.status.state = ProviderState::Ready;
        state.peer = Some(connection.peer().clone());
        state.tools = list.specs.into_iter().filter(is_wanted).collect();
        state.has_resource_tool = list.has_resource_tool;
    });
    Ok(Arc::new(ConnectedServer { server, _connection: connection }))
}

impl Provider for ConnectedServer {
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        self.server.tools()
    }

    fn run<'a>(&'a self, call: &'a Invocation) -> Running<'a> {
        Box::pin(self.covered(call))
    }
}

impl ConnectedServer {
    /// Runs a call. A server that repeats the client's secrets does not show them to the model.
    async fn covered(&self, call: &Invocation) -> Result<Output, ToolError> {
        let output = self.server.call(call).await?;
        let content = self.server.redactor.text(&output.content).into_owned();
        Ok(Output { content, ..output })
    }
}

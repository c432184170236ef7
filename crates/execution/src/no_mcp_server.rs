//! Takes the place of the MCP server in builds without the feature `mcp`.

use std::{convert::Infallible, io, sync::Arc};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Full, combinators::BoxBody};

use super::{Asker, Execution};

/// The hosted tools, which this build cannot offer.
#[derive(Debug)]
pub struct McpServer;

impl McpServer {
    pub fn new(_execution: Arc<Execution>, _asker: Asker) -> Self {
        Self
    }

    /// Talks to nobody.
    ///
    /// # Errors
    /// Always.
    pub async fn talk(self, _input: impl Sized, _output: impl Sized) -> io::Result<()> {
        Err(io::Error::other("toolwire was built without the feature `mcp`"))
    }
}

/// Answers nothing: this build has no MCP server.
pub async fn respond(
    _execution: &Arc<Execution>,
    _asker: Asker,
    _request: Request<Full<Bytes>>,
) -> Option<Response<BoxBody<Bytes, Infallible>>> {
    None
}

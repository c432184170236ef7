//! The execution stage: toolwire runs *hosted tools* itself, and the client sees one response.
//!
//! ```text
//! request ─▶ Execution::offer ─▶ the model gets the hosted tools beside the client's
//! hop ends with hosted calls ─▶ HostedTurn::run ─▶ results ─▶ the next hop
//!                                  │ arguments, permission, rate, cache, run with timeout, retry, size
//!                                  ▼
//!                               Provider (a web search, an MCP server, a program, …)
//! ```
//!
//! [`Provider`]s offer tools and run their calls. The [`Registry`] has the tools of all providers; a request keeps the
//! [`Snapshot`] that it began with. Everything that is run for tools runs on a thread of its own ([`Runtime`]), so it cannot delay
//! the streams of other requests. A call never fails a response: whatever goes wrong becomes a result that tells the model.

mod provider;
mod registry;
mod runtime;
mod settings;
mod stage;
mod tool;

pub(crate) mod command_path;
pub(crate) mod files;
pub(crate) mod http;
pub(crate) mod providers;

pub(crate) use self::{
    provider::{Host, Invocation, Provider, Running, Testing, Verdict},
    providers::{KINDS, ProviderOptions},
    registry::{Hosted, Registry, Snapshot},
    runtime::Runtime,
    settings::{ExecutionSettings, Injection, MixedTurns, Permission, ProviderEntry, ToolRules, Visibility},
    stage::{Execution, HostedTurn, Ran},
    tool::{ErrorCode, Output, ToolError, ToolSpec},
};

//! The execution stage: toolwire runs *hosted tools* itself, and the client sees a single response.
//!
//! ```text
//! request ─▶ Execution::offer ─▶ the model gets the hosted tools and the client's
//! hop ends with hosted calls ─▶ HostedTurn::run ─▶ results ─▶ the next hop
//!                                  │ arguments, permission, rate, cache, run with timeout, retry, size
//!                                  ▼
//!                               Provider (a web search, an MCP server, a program, …)
//! ```
//!
//! [`Provider`]s offer tools and run the calls to them. The `Registry` contains the tools of all providers; a request
//! uses the `Snapshot` that was current when it started. Hosted tools run on a separate thread ([`Runtime`]), so that
//! they cannot delay the streams of other requests. A failed call never fails the response: its result tells the model
//! what went wrong.

#![allow(
    missing_docs,
    rustdoc::private_intra_doc_links,
    reason = "a part of toolwire, which is not meant for other programs: its documentation is read in the source"
)]

mod approvals;
mod arguments;
mod asker;
mod await_key;
mod cache;
mod call;
mod cancel;
mod client_options;
mod client_servers;
mod client_tools;
mod connect;
mod deferred_turns;
#[cfg(test)]
mod double;
mod engines;
mod inject;
mod input;
mod intent;
mod known_pages;
mod media;
mod missing;
mod offer;
pub mod permission;
mod process;
mod progress;
mod prompt;
mod provider;
mod question;
mod rates;
mod registry;
mod reports;
mod rules;
mod running;
mod runtime;
mod schema;
mod settings;
mod shrink;
mod stage;
mod stderr;
#[cfg(test)]
mod test_server;
mod tool;
mod turn;
mod turn_options;

pub mod address;
pub mod ask;
pub mod audit;
pub mod command_path;
pub mod files;
pub mod http;
#[cfg_attr(not(feature = "mcp"), path = "no_mcp_server.rs")]
pub mod mcp_server;
pub mod oauth;
pub mod providers;
pub mod vision;

pub use self::{
    address::Domain,
    asker::Asker,
    audit::{Audit, AuditEvent, ExchangeId, Observer, Record, Subject, Subscription},
    cancel::Cancels,
    deferred_turns::record_json,
    intent::Intent,
    offer::Offer,
    permission::{NotKept, RememberedRule},
    prompt::{FilledPrompt, Prompt, PromptArgument, PromptMessage},
    provider::{Filling, Host, Invocation, Provider, ProviderState, Running, Status, Testing, Verdict},
    providers::{CallStream, KINDS, KeyNumber, ProviderOptions, Registered, Registrations, ShownRequest},
    question::{Answer, AnswerError, Given, Question, Scope},
    registry::Hosted,
    rules::{Permission, PermissionRule, key_mark},
    runtime::Runtime,
    settings::{CacheRule, Clash, Injection, ProviderEntry, ToolRules, Unattended, Visibility},
    stage::{Execution, Started, Surroundings},
    tool::{ErrorCode, Output, Rate, ToolError, ToolSpec},
    turn::{HostedTurn, Ran},
};
pub use self::{
    approvals::approved_calls,
    client_servers::{ClientServer, without_secrets},
    client_tools::ClientTools,
    settings::ExecutionSettings,
};

#[cfg(test)]
#[path = "../../../tests/support/repository.rs"]
mod repository;

//! OAuth 2.1 for servers with a URL, as the authorization chapter of the Model Context Protocol asks it of clients.
//!
//! ```text
//! 401 ─▶ Challenge ─▶ discovery ─▶ registration ─▶ a person logs in, with PKCE ─▶ tokens ─▶ Vault
//!                                                                                │
//!                                                                                ▼
//! each request ◀─ Account::token ◀─ refreshed with rotation, once per expiry ◀── Account
//! ```
//!
//! A server and the documents that it refers to are not trusted: sizes, times and addresses are limited
//! ([`Fetcher`](fetcher::Fetcher)). The crate `oauth2` is not used: it would add 14 crates, and has neither discovery nor
//! registration nor these limits.

#![cfg_attr(not(feature = "mcp"), allow(dead_code, reason = "only servers over MCP have logins"))]

mod account;
mod challenge;
mod client;
mod discovery;
mod error;
mod fetcher;
mod login;
mod of_key;
mod options;
mod tokens;
mod vault;

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;

pub use self::{
    account::{Account, LoginState},
    error::{OAuthError, VaultError},
    options::{Grant, LoginPer, OAuthOptions},
    vault::Vault,
};

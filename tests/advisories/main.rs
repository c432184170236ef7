//! Tries attacks that gateways, inference servers, agents and MCP servers were vulnerable to, on a running toolwire.
//!
//! The modules are classes of vulnerabilities. Each test names the public advisories of 2025 and 2026 whose attack it
//! tries, and what was vulnerable.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a failing test panics, wherever its helpers live"
)]

#[path = "../proxy/support/mod.rs"]
mod support;

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../proxy/execute/script.rs"]
mod script;

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../commands/support.rs"]
mod program;

mod clients;
mod hosted;

mod addresses;
mod authority;
mod commands;
mod exhaustion;
mod framing;
mod isolation;
mod markup;
mod owners;
mod paths;
mod readers;
mod secrets;
mod serialization;
mod sessions;
mod templates;
mod tools;
mod web_pages;

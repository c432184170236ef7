//! Tests the built program as users run it: commands, configuration, recording and replay, exit statuses, stdout
//! and stderr.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failing test panics, wherever its helpers live"
)]

mod admin_bench;
mod bench;
mod calibrate;
mod cli;
mod config;
mod conform;
mod descriptors;
mod detect;
mod doctor;
mod flags;
mod hints;
mod install;
mod instances;
mod keys;
mod log;
mod lumo;
mod mcp;
mod mock;
mod planted;
mod record;
mod reload;
mod replay;
mod rewrite;
mod saved_settings;
mod serve_url;
mod sign_in;
mod state_files;
mod support;
mod systemd;
mod top;
mod upgrade;

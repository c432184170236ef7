//! toolwire makes any model speak standard tool calls.
//!
//! It reads an upstream's token stream as it arrives, finds the tool calls in it, native or written as text, and writes
//! the stream in the dialect of the client. Each piece is sent as soon as it is certain.
//!
//! This crate is the program and a library. Without features (`default-features = false`) it is the sans-IO core: bytes
//! in, bytes out, without sockets, clocks, randomness or an async runtime.
//!
//! # Embedding the pipeline
//!
//! ```
#![doc = include_str!("../examples/embed.rs")]
//! ```
//!
//! # Detecting calls in text
//!
//! ```
#![doc = include_str!("../examples/detect.rs")]
//! ```
//!
//! # Data path
//!
//! Data flows in one direction. Each stage knows the types it takes and the types it gives, never its neighbours.
//!
//! ```text
//! client ─request─▶ proxy ─▶ dialect (decode) ─▶ Conversation ─▶ format (instruct) ─▶ dialect (encode) ─▶ upstream
//! client ◀─bytes── dialect (write) ◀─Event── pipeline's rules ◀─Event── detect ◀─Event── dialect (read) ◀─ wire ◀─ upstream
//! ```
//!
//! # Modules and features
//!
//! - The core, always built: [`wire`] splits bytes into frames, [`dialect`] implements the HTTP APIs, [`event`] and
//!   [`conversation`] are the types between them, [`mod@format`] and [`detect`] describe and find calls written as text,
//!   [`tools`] and [`rules`] are the declared tools and the settings of one model, [`failure`] says what went wrong, and
//!   [`pipeline`] connects the stages for one response.
//! - `proxy` adds [`http1`], the HTTP proxy, its configuration, models' chat templates ([`template`]), its logs and
//!   metrics, and the redaction of secrets.
//! - `bench` adds fixtures, the scripted upstream, the load generator, the calibration of models and the conformance
//!   check of gateways. It includes `proxy`.
//! - `lumo-u2l` adds the encryption of Lumo's session API ([`dialect::lumo`]), to any of these.
//! - `cli` adds the command line of the program. It includes `bench`, and is on by default.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "proxy")]
mod analysis;
#[cfg(feature = "bench")]
#[cfg_attr(
    not(feature = "cli"),
    allow(dead_code, unused_imports, reason = "the load generator is run by the command line")
)]
pub mod bench;
#[cfg(feature = "bench")]
#[cfg_attr(
    not(feature = "cli"),
    allow(dead_code, unused_imports, reason = "calibration is run by the command line")
)]
pub mod calibrate;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "bench")]
mod clock;
#[cfg(feature = "proxy")]
pub mod config;
#[cfg(feature = "bench")]
#[cfg_attr(
    not(feature = "cli"),
    allow(dead_code, unused_imports, reason = "conformance is checked by the command line")
)]
pub mod conform;
#[cfg(feature = "proxy")]
mod console;
#[cfg(feature = "proxy")]
mod execute;
#[cfg(feature = "bench")]
#[cfg_attr(
    not(feature = "cli"),
    allow(
        dead_code,
        unused_imports,
        reason = "fixtures and the scripted upstream are run by the command line"
    )
)]
pub mod fixture;
#[cfg(feature = "proxy")]
#[cfg_attr(not(feature = "bench"), allow(dead_code, reason = "only what plays fixtures reads them"))]
mod manifest;
#[cfg(feature = "proxy")]
#[cfg_attr(
    not(feature = "cli"),
    allow(dead_code, reason = "terminals and log formats are the command line's")
)]
mod observe;
pub mod pipeline;
#[cfg(feature = "proxy")]
#[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "recordings use more of it"))]
mod private;
#[cfg(feature = "proxy")]
mod proxied;
#[cfg(feature = "proxy")]
pub mod proxy;
#[cfg(feature = "proxy")]
pub mod redact;
#[cfg(all(test, feature = "proxy"))]
#[path = "../tests/support/repository.rs"]
mod repository;
#[cfg(feature = "proxy")]
pub mod store;
#[cfg(feature = "proxy")]
#[cfg_attr(
    not(feature = "otel"),
    allow(dead_code, unused_imports, reason = "without an exporter there is no tracer")
)]
mod telemetry;
#[cfg(feature = "proxy")]
mod tls;
#[cfg(feature = "proxy")]
#[cfg_attr(
    not(feature = "cli"),
    allow(dead_code, reason = "terminals and log formats are the command line's")
)]
mod untrusted;

pub use toolwire_detect as detect;
pub use toolwire_dialects as dialect;
pub use toolwire_engine::{conversation, enforce, event, failure, format, rules, settings, tools};
#[cfg(feature = "proxy")]
pub use toolwire_http1 as http1;
#[cfg(feature = "proxy")]
pub use toolwire_template as template;
pub use toolwire_wire as wire;
use toolwire_wire::digest;
#[cfg(feature = "proxy")]
use toolwire_wire::suggest;

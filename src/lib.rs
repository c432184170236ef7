//! toolwire makes any model speak standard tool calls.
//!
//! It reads an upstream's token stream as it arrives, finds the tool calls in it, native or written as text, and writes
//! the stream in the dialect of the client. Each piece is sent as soon as it is certain.
//!
//! This crate is the program and its parts. The core, which embeds without the rest, is
//! [`toolwire-pipeline`](https://docs.rs/toolwire-pipeline), and has examples.
//!
//! # Modules and features
//!
//! - The core, always built: [`dialect`], [`pipeline`] and the modules between them, which are those of `toolwire-pipeline`.
//! - `proxy` adds [`http1`], the HTTP proxy, its configuration, models' chat templates ([`template`]), its logs and
//!   metrics, and the redaction of secrets.
//! - `bench` adds fixtures, the scripted upstream, the load generator, the calibration of models and the conformance
//!   check of gateways. It includes `proxy`.
//! - `lumo-u2l` adds the encryption of Lumo's session API ([`dialect::lumo`]), to any of these.
//! - `cli` adds the command line of the program. It includes `bench`, and is on by default.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "proxy")]
pub mod admin;
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
#[cfg(feature = "bench")]
#[cfg_attr(
    not(feature = "cli"),
    allow(dead_code, unused_imports, reason = "conformance is checked by the command line")
)]
pub mod conform;
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
#[cfg(feature = "proxy")]
pub mod proxy;
#[cfg(all(test, feature = "proxy"))]
#[path = "../tests/support/repository.rs"]
mod repository;

#[cfg(feature = "proxy")]
pub use toolwire_config as config;
#[cfg(feature = "proxy")]
use toolwire_execution as execute;
#[cfg(feature = "proxy")]
pub use toolwire_http1 as http1;
#[cfg(feature = "proxy")]
use toolwire_net::{private, proxied, telemetry, tls, untrusted};
#[cfg(feature = "proxy")]
pub use toolwire_net::{redact, store};
pub use toolwire_pipeline::{
    conversation, detect, dialect, enforce, event, failure, format, pipeline, rules, settings, tools, wire,
};
#[cfg(feature = "proxy")]
pub use toolwire_template as template;
#[cfg(feature = "proxy")]
use wire::{digest, suggest};

//! Conformance of gateways: `toolwire conform`.
//!
//! A case is an upstream's response, generated or recorded, and the response that must arrive at the client. A mock
//! upstream sends it through the gateway under test, and the client checks what it receives. A client that leaves checks
//! that the gateway closes its request ([`departures`]).
//!
//! ```text
//! Case ─▶ request (names the case in its last message) ─▶ gateway ─▶ Mock ─frames, cut by the variant─┐
//!   └─▶ check ◀─ ReceivedResponse ◀─ client: follow (rules of the dialect), assembled ◀─ gateway ◀────┘
//! table, JSON, page ◀─ Report ◀─ Verdict
//! ```
//!
//! The user's message contains the case's name, since every gateway forwards that message. The mock answers in the dialect
//! of the requested path. Its frames are written by separate code, so that a bug in toolwire's dialects cannot hide itself.
//! docs/conformance.md describes the cases and rules.

pub mod case;
mod catalogue;
mod check;
pub mod client;
pub mod departures;
pub mod gateway;
pub mod mock;
mod places;
mod received_response;
mod recorded_responses;
pub mod report;
mod request;
pub mod run;
mod scenario;
mod upstream;
mod variant;
mod whole;

pub use crate::upstream::Api;
pub use catalogue::{Selection, cases};

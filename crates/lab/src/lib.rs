//! Fixtures, the scripted upstream, the load generator, the calibration of models, and the conformance check for
//! gateways.

#![allow(
    missing_docs,
    rustdoc::private_intra_doc_links,
    reason = "a part of toolwire, which is not meant for other programs: its documentation is read in the source"
)]

pub mod bench;
pub mod calibrate;
pub(crate) mod clients;
mod clock;
pub mod conform;
pub mod fixture;
pub(crate) mod follow;
mod html;
#[cfg(test)]
#[path = "../../../tests/support/repository.rs"]
mod repository;
pub mod upstream;

use toolwire_pipeline::wire::Invalid;

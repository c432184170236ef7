//! Shared code for toolwire's I/O: TLS, proxies, state, traces, and texts that are safe to show.

#![allow(
    missing_docs,
    rustdoc::private_intra_doc_links,
    reason = "a part of toolwire, which is not meant for other programs: its documentation is read in the source"
)]

pub mod bucket;
pub mod causes;
pub mod private;
pub mod proxied;
pub mod redact;
pub mod store;
pub mod telemetry;
pub mod tls;
pub mod untrusted_text;

use toolwire_engine::{failure, settings};
use toolwire_wire as wire;

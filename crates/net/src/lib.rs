//! I/O code that other crates share: TLS, proxies, stored state, traces, and making text safe to display.

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

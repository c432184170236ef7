//! Amazon Bedrock's Converse API, for upstreams (docs/protocols/bedrock.md).
//!
//! Streams consist of binary frames ([`amazon_frames`](crate::wire::amazon_frames)), whose headers say what their JSON
//! payloads are. A model's name is in the path. Available with the feature `bedrock`; without it, only the settings
//! exist, and they are refused.

#[cfg(not(feature = "bedrock"))]
mod absent;
mod options;
#[cfg(feature = "bedrock")]
mod reader;
#[cfg(feature = "bedrock")]
mod refusal;
#[cfg(feature = "bedrock")]
mod request;
#[cfg(feature = "bedrock")]
mod upstream;

#[cfg(not(feature = "bedrock"))]
pub use absent::Reader;
pub use options::{CachePoints, Effort, Options};
#[cfg(feature = "bedrock")]
pub use reader::{Reader, ReaderSettings};

/// Why nothing can be sent without the feature `bedrock`.
#[cfg(not(feature = "bedrock"))]
const ABSENT: &str =
    "this program was built without the dialect `bedrock`; build it with `--features bedrock`";

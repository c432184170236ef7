//! Percent-encoding in paths, queries and variables.

pub use toolwire_pipeline::dialect::percent_decoded;

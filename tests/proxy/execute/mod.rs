//! Hosted tools: toolwire runs them, and the client sees one response.

mod hops;
mod images;
mod script;
mod search;

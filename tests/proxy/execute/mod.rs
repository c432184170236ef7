//! Hosted tools: toolwire runs them, and the client sees one response.

mod clients;
mod hops;
mod images;
mod limits;
mod mixed;
mod plan;
mod plans;
mod results;
mod script;
mod search;
mod vision;

//! Tests hosted tools: toolwire runs them, and the client sees a single response.

mod at_limits;
mod choice;
mod clients;
mod details;
mod hops;
mod images;
mod limits;
mod mcp;
mod mcp_types;
mod mixed;
mod mixed_clients;
mod model_search;
mod plan;
mod plans;
mod preparing;
mod replay;
mod results;
mod script;
mod search;
mod serper;
mod tool_search;
mod tool_search_beside_calls;
mod tool_search_servers;
mod traced;
mod vision;
mod watched;

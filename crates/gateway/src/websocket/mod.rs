//! What a request needs to know of a WebSocket: the handshake that opened it, and the responses that the connection
//! remembers.
//!
//! ```text
//! GET with `Upgrade: websocket` ─Service::open_websocket─▶ Handshake ─the worker writes 101─▶ worker::websocket
//! ```

mod handshake;
mod local_responses;

pub(super) use self::{
    handshake::{Handshake, VERSION, accept, head},
    local_responses::{LocalRecord, LocalResponses},
};

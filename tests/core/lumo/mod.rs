//! The Lumo dialect: streams, read uncut, in small pieces and at every two-way split; and encoded
//! conversations.

mod assembled;
mod cases;
mod laws;
mod lost;
mod requests;
mod server_calls;
mod streams;

//! Tests the Lumo dialect: streams read in one piece, in small pieces and in every two-way split, and encoded
//! conversations.

mod assembled;
mod cases;
mod laws;
mod lost;
mod requests;
mod server_calls;
mod streams;

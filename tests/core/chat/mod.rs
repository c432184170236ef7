//! The Chat Completions dialect: decoding and encoding requests, reading upstream streams, writing client
//! streams.

mod frames;
mod reader;
mod requests;
mod writer;

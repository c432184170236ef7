//! Tests the Chat Completions dialect: it decodes and encodes requests, reads upstream streams and writes client
//! streams.

mod frames;
mod reader;
mod requests;
mod writer;

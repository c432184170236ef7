//! The Chat Completions dialect: requests decoded and encoded, upstream streams read, client streams written.

mod frames;
mod reader;
mod requests;
mod writer;

//! OpenAI Responses, both for clients and for upstreams.
//!
//! ```text
//! client's request ─request::decode─▶ Conversation ─request::encode─▶ upstream's request
//! upstream's bytes ─Reader─▶ Event ─Writer─▶ client's bytes
//! ```
//!
//! docs/protocols/responses.md describes the protocol.

mod built_in;
mod client;
mod compact;
mod history;
mod reader;
mod request;
mod socket;
mod upstream;
mod writer;

pub use super::openai_error::error_body;
pub(crate) use client::Client;
pub use reader::{Reader, ReaderSettings};
pub(crate) use socket::Socket;
pub use upstream::Options;
pub use writer::Writer;

use crate::conversation::APPROVAL_PREFIX;

/// Follows the response's id in the ids of items that represent calls run by toolwire, see
/// `conversation::own_calls`.
const OWN: &str = "toolwire";

/// The id of the item for a call that toolwire ran: number `index` in the response with the id suffix
/// `suffix`.
fn own_item_id(prefix: &str, suffix: &str, index: usize) -> String {
    format!("{prefix}_{suffix}_{OWN}{index}")
}

/// The id of a request for approval: number `index` in the response with the id suffix `suffix`. `mark` distinguishes the
/// server from others of the same name.
fn approval_id(suffix: &str, index: usize, mark: &str) -> String {
    format!("{APPROVAL_PREFIX}{suffix}_{OWN}{index}x{mark}")
}

/// The mark in `id`, if that is the id of a request for approval by toolwire.
fn approval_mark(id: &str) -> Option<&str> {
    let (_, last) = id.strip_prefix(APPROVAL_PREFIX)?.rsplit_once('_')?;
    let (number, mark) = last.strip_prefix(OWN)?.split_once('x')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && mark.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(mark)
}

fn is_own_item(id: &str) -> bool {
    let number = id.rsplit_once('_').and_then(|(_, last)| last.strip_prefix(OWN));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

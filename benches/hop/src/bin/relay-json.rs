//! Parses and serializes each event. This shows the cost of a proxy that converts every frame to values and back.

use std::{
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::body::{Body, Bytes, Frame, Incoming};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwire_hop::Requests;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    toolwire_hop::run(Requests::Streamed, |body| Anew { body, begun: Vec::new() })
}

#[derive(Debug, Deserialize, Serialize)]
struct Chunk {
    id: String,
    object: String,
    created: u64,
    model: String,
    choices: Vec<Choice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Value>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Choice {
    index: u32,
    delta: Delta,
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<Vec<Call>>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Call {
    index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    function: Function,
}

#[derive(Debug, Deserialize, Serialize)]
struct Function {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<String>,
}

/// A body whose events are parsed and serialized again.
struct Anew {
    body: Incoming,
    /// The start of an incomplete event.
    begun: Vec<u8>,
}

impl Anew {
    fn write(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.begun.extend_from_slice(bytes);
        let mut out = Vec::with_capacity(bytes.len());
        let mut start = 0;
        for end in memchr::memmem::find_iter(&self.begun, "\n\n") {
            event(&self.begun[start..end], &mut out);
            start = end + 2;
        }
        self.begun.drain(..start);
        out
    }
}

fn event(event: &[u8], out: &mut Vec<u8>) {
    let data = event.strip_prefix(b"data: ");
    if let Some(chunk) = data.and_then(|data| serde_json::from_slice::<Chunk>(data).ok()) {
        out.extend_from_slice(b"data: ");
        // Writing to a vector cannot fail.
        let _ = serde_json::to_writer(&mut *out, &chunk);
    } else {
        out.extend_from_slice(event);
    }
    out.extend_from_slice(b"\n\n");
}

impl Body for Anew {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        loop {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
            let out = match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.write(&data),
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None if self.begun.is_empty() => return Poll::Ready(None),
                None => mem::take(&mut self.begun),
            };
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(out.into()))));
            }
        }
    }
}

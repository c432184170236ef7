//! Writes the parts of turns as content blocks.

use std::collections::HashMap;

use serde_json::Value;

use super::{
    DIALECT,
    media::{DOCUMENT, ImageSource, image},
};
use crate::{
    conversation::{Arguments, CUSTOM_INPUT, Call, CallOutput, Part},
    event::Opaque,
    wire::json::Encoder,
};

/// Writes blocks. Its state is shared by all messages of a request.
#[derive(Debug)]
pub(super) struct Blocks<'d> {
    pub(super) dropped: &'d mut Vec<String>,
    /// How often each name of a document has occurred, since the API rejects equal names.
    documents: HashMap<String, usize>,
}

impl<'d> Blocks<'d> {
    pub(super) fn new(dropped: &'d mut Vec<String>) -> Self {
        Self { dropped, documents: HashMap::new() }
    }

    /// Writes `part`, if it [can be written](is_written). Returns whether it was.
    pub(super) fn put(&mut self, body: &mut Encoder, part: &Part) -> bool {
        if !is_written(part) {
            self.drop_all([part]);
            return false;
        }
        match part {
            Part::Text(text) => body.object(|body| text.put(body.key("text"))),
            Part::Image { url, .. } => {
                if let Some((format, source)) = image(url) {
                    put_image(body, format, source);
                }
            }
            Part::Call(call) => put_call(body, call),
            Part::Result(output) => self.put_result(body, output, &[]),
            Part::Reasoning { text, signature, redacted } => {
                let signature = signature.as_ref().and_then(own_signature).unwrap_or_default();
                put_reasoning(body, text, signature, *redacted);
            }
            Part::Other(other) => {
                if let Some(block) = other.from_dialect(DIALECT) {
                    self.put_own(body, block);
                }
            }
        }
        true
    }

    /// Records the parts, which are not written. Those of other dialects and blank texts need no mention.
    pub(super) fn drop_all<'p>(&mut self, parts: impl IntoIterator<Item = &'p Part>) {
        self.dropped.extend(parts.into_iter().filter_map(|part| match part {
            Part::Image { .. } => Some("messages[].content[]".to_owned()),
            Part::Reasoning { .. } => Some("messages[].reasoning".to_owned()),
            _ => None,
        }));
    }

    /// Writes a result, and the media that belong to it.
    pub(super) fn put_result(&mut self, body: &mut Encoder, output: &CallOutput, media: &[Part]) {
        body.object(|body| {
            body.key("toolResult").object(|body| {
                body.key("toolUseId").string(&output.id);
                body.key("content").array(|body| {
                    if !output.content.trim().is_empty() {
                        body.object(|body| body.key("text").string(&output.content));
                    }
                    for part in media {
                        self.put(body, part);
                    }
                });
                if output.is_error {
                    body.key("status").string("error");
                }
            });
        });
    }

    /// Writes a block of this API. If the name of a document has already occurred, it gets a number.
    fn put_own(&mut self, body: &mut Encoder, block: &Value) {
        let name = block.get(DOCUMENT).and_then(|document| document.get("name")?.as_str());
        let count = name.map(|name| {
            let count = self.documents.entry(name.to_owned()).or_default();
            *count += 1;
            *count
        });
        let (Some(name), Some(count @ 2..)) = (name, count) else { return body.value(block) };
        let mut numbered = block.clone();
        if let Some(place) = numbered.get_mut(DOCUMENT).and_then(|document| document.get_mut("name")) {
            *place = format!("{name} ({count})").into();
        }
        body.value(&numbered);
    }
}

/// Whether the API has a block for this part, and would not reject it as empty.
pub(super) fn is_written(part: &Part) -> bool {
    match part {
        Part::Text(text) => !text.is_blank(),
        Part::Image { url, .. } => image(url).is_some(),
        Part::Call(_) | Part::Result(_) => true,
        // Models that sign their reasoning reject any other.
        Part::Reasoning { signature, .. } => signature.as_ref().and_then(own_signature).is_some(),
        Part::Other(other) => other.from_dialect(DIALECT).is_some(),
    }
}

fn own_signature<'s>(signature: &'s Opaque<'static>) -> Option<&'s str> {
    signature.from_dialect(DIALECT).filter(|signature| !signature.is_empty())
}

fn put_image(body: &mut Encoder, format: &str, source: ImageSource<'_>) {
    body.object(|body| {
        body.key("image").object(|body| {
            body.key("format").string(format);
            body.key("source").object(|body| put_source(body, source));
        });
    });
}

fn put_source(body: &mut Encoder, source: ImageSource<'_>) {
    match source {
        ImageSource::Data(data) => body.key("bytes").string(data),
        ImageSource::S3(url) => body.key("s3Location").object(|body| body.key("uri").string(url)),
    }
}

fn put_call(body: &mut Encoder, call: &Call) {
    body.object(|body| {
        body.key("toolUse").object(|body| {
            body.key("toolUseId").string(&call.id);
            body.key("name").string(&call.name);
            Arguments::of(&call.arguments).put(body.key("input"), CUSTOM_INPUT);
        });
    });
}

fn put_reasoning(body: &mut Encoder, text: &str, signature: &str, redacted: bool) {
    body.object(|body| {
        body.key("reasoningContent").object(|body| {
            if redacted {
                return body.key("redactedContent").string(signature);
            }
            body.key("reasoningText").object(|body| {
                body.key("text").string(text);
                body.key("signature").string(signature);
            });
        });
    });
}

//! [`Plain`]: recognises a delta that differs from the previous one only in its string.

use super::event::PieceKind;
use crate::wire::json::FrameTemplate;

/// The template for deltas that contain a string and nothing else.
#[derive(Debug)]
pub(super) struct Plain {
    template: FrameTemplate,
    /// Number of braces that close the frame. The API hides the length of a token by adding spaces between
    /// them.
    braces: usize,
    pub(super) kind: PieceKind,
    pub(super) index: Option<u64>,
    pub(super) is_canonical: bool,
}

impl Plain {
    /// Learns the template of `frame`, which has been parsed and contains the string `body`.
    pub(super) fn learn(
        frame: &str,
        body: &str,
        kind: PieceKind,
        index: Option<u64>,
        is_canonical: bool,
    ) -> Option<Self> {
        let (core, braces) = without_end(frame);
        Some(Self { template: FrameTemplate::learn(core, body, None)?, braces, kind, index, is_canonical })
    }

    /// The raw body of the string, if `frame` matches the template.
    pub(super) fn body<'f>(&self, frame: &'f str) -> Option<&'f str> {
        let (core, braces) = without_end(frame);
        if braces == self.braces { self.template.body(core) } else { None }
    }
}

/// Splits off the braces and spaces that close a frame. Returns the part before them, and the number of
/// braces.
fn without_end(frame: &str) -> (&str, usize) {
    let core = frame.trim_end_matches(['}', ' ']);
    let end = frame.as_bytes().get(core.len()..).unwrap_or_default();
    (core, end.iter().filter(|byte| **byte == b'}').count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::Json;

    fn frame(text: &str, end: &str) -> String {
        format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"{end}"#
        )
    }

    #[test]
    fn frames_match_whatever_pads_their_end() {
        let first = frame("Hi", "}   }");
        let body =
            Json::parse(&first).unwrap().get("delta").unwrap().get("text").unwrap().string_body().unwrap();
        let plain = Plain::learn(&first, body, PieceKind::Text, Some(0), true).unwrap();
        for end in ["}}", "} }", "}}    ", " } } "] {
            assert_eq!(plain.body(&frame("a }\\\"}", end)), Some("a }\\\"}"), "{end}");
        }
        for end in ["}", "}}}", "}\n}", ",\"x\":\"y\"}}", "", "\"}}"] {
            assert_eq!(plain.body(&frame("a", end)), None, "{end}");
        }
        assert_eq!(plain.body(&frame("a", "}}").replace("\"index\":0", "\"index\":1")), None);
        assert_eq!(plain.body("}}"), None);
    }
}

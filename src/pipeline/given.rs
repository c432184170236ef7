//! [`Given`]: what the client has been given so far, as far as anyone outside of the pipeline wants to know.

use super::is_content;
use crate::{
    event::Event,
    wire::text::{boundary_upto, head},
};

/// What has gone to the writer.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// Something that a client considers content.
    pub(super) has_content: bool,
    /// The text, if it is observed.
    pub(super) text: Option<Box<TextGiven>>,
}

impl Given {
    /// Takes note of an event for the writer.
    pub(super) fn saw(&mut self, event: &Event<'_>) {
        self.has_content |= is_content(event);
        if let Some(text) = &mut self.text {
            text.saw(event);
        }
    }
}

/// The text that a client has been given.
#[derive(Debug, Default)]
pub struct TextGiven {
    /// Its length in bytes.
    pub bytes: u64,
    /// Its pieces, about one for each token.
    pub pieces: u64,
    /// Bytes of everything that the model has written: of the text, of reasoning, of calls.
    pub written: u64,
    /// Its beginning.
    pub kept: String,
    /// The most bytes of `kept`.
    max: usize,
}

impl TextGiven {
    /// Of the text, at most `max` bytes are kept.
    pub(super) fn new(max: usize) -> Self {
        Self { max, ..Self::default() }
    }

    fn saw(&mut self, event: &Event<'_>) {
        let event = match event {
            Event::Verbatim { means: Some(means), .. } => means,
            event => event,
        };
        self.written += match event {
            Event::Text(text) | Event::Refusal(text) | Event::CallArguments { piece: text, .. } => {
                text.len() as u64
            }
            Event::Reasoning(reasoning) => reasoning.text.len() as u64,
            Event::CallStart(call) => call.name.len() as u64,
            _ => 0,
        };
        if let Event::Text(text) | Event::Refusal(text) = event {
            // What is kept is the beginning: after a cut, nothing follows.
            let is_whole = usize::try_from(self.bytes).is_ok_and(|bytes| bytes == self.kept.len());
            self.bytes += text.len() as u64;
            self.pieces += 1;
            let left = self.max.saturating_sub(self.kept.len());
            if is_whole && left > 0 {
                self.kept.push_str(head(text, boundary_upto(text, left)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_counted_and_its_beginning_kept() {
        let mut given = Given { text: Some(Box::new(TextGiven::new(5))), ..Given::default() };
        for piece in ["ab", "cdé", "f", "g"] {
            given.saw(&Event::Text(piece.into()));
        }
        given.saw(&Event::Ping("x".into()));
        let text = given.text.unwrap();
        assert_eq!((text.bytes, text.pieces, text.kept.as_str()), (8, 4, "abcd"));
        assert!(given.has_content);
    }

    #[test]
    fn frames_that_are_passed_on_count_as_what_they_mean() {
        let mut given = Given { text: Some(Box::new(TextGiven::new(0))), ..Given::default() };
        let means = Event::Text("ab".into());
        given.saw(&Event::Verbatim { frame: "data: ab\n\n", means: Some(&means) });
        given.saw(&Event::Verbatim { frame: "data: ?\n\n", means: None });
        let text = given.text.unwrap();
        assert_eq!((text.bytes, text.pieces, text.kept.as_str()), (2, 1, ""));
    }
}

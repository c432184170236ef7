//! Reads JSON in place of the elements of a call.

use super::{At, ElementsWalk};
use crate::{
    pattern::{Fit, fit},
    tag::Sure,
    text::tail,
    tools::DeclaredTools,
    walk::{Out, Step},
};

impl ElementsWalk {
    /// Whether `text`, which begins with a brace, is an object with all arguments.
    pub(super) fn is_object(&self, text: &str, tools: &DeclaredTools) -> Sure {
        if !self.is_certain() && tools.resolve(&self.name).is_none() {
            return Sure::No;
        }
        match tail(text, 1).trim_start().chars().next() {
            None => Sure::Maybe,
            Some('"' | '}') => Sure::Yes,
            Some(_) => Sure::No,
        }
    }

    /// Reads the white space, CDATA markers and closer around JSON that contains all arguments.
    pub(super) fn around_json(&mut self, text: &str, out: &mut Out<'_>) -> Step {
        let blank = text.len() - text.trim_start().len();
        if blank > 0 {
            return Step::Took(blank);
        }
        let before = matches!(self.at, At::BeforeJson);
        if before && text.starts_with('{') {
            self.start(out);
            (self.at, self.json) = (At::Json, true);
            return Step::Took(0);
        }
        let shield = if before { "<![CDATA[" } else { "]]>" };
        match (fit(shield, text), fit(self.json_close, text)) {
            (Fit::Whole(len), _) => Step::Took(len),
            (_, Fit::Whole(len)) => {
                self.at = At::Between;
                Step::Took(len)
            }
            (Fit::Begins, _) | (_, Fit::Begins) => Step::Hold,
            _ if before => {
                // Not JSON, so the arguments are elements.
                self.at = At::Between;
                Step::Took(0)
            }
            _ => Step::Stop(0),
        }
    }
}

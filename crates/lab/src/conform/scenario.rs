//! [`Scenario`]: the content of an upstream's response, independent of the dialect.

use toolwire_pipeline::event::Finish;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scenario {
    pub(crate) steps: Vec<Step>,
    pub(crate) finish: Finish,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// A delta of text.
    Text(String),
    /// A delta of reasoning.
    Reasoning(String),
    /// A native call.
    Call(MadeCall),
}

/// A native call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MadeCall {
    /// The call's id, in dialects whose calls have one.
    pub(crate) id: String,
    pub(crate) name: String,
    /// The arguments, split into the deltas of dialects that stream arguments.
    pub(crate) arguments: Vec<String>,
}

impl MadeCall {
    pub(crate) fn joined(&self) -> String {
        self.arguments.concat()
    }
}

/// Input and output tokens of every response.
pub(crate) const USAGE: (u64, u64) = (21, 34);

impl Scenario {
    /// Creates a response that consists of text and ends normally.
    pub(crate) fn text<S: Into<String>>(pieces: impl IntoIterator<Item = S>) -> Self {
        let steps = pieces.into_iter().map(|piece| Step::Text(piece.into())).collect();
        Self { steps, finish: Finish::Stop }
    }

    /// Adds reasoning before the content.
    #[must_use]
    pub(crate) fn reasoned(mut self, pieces: &[&str]) -> Self {
        let reasoning = pieces.iter().map(|piece| Step::Reasoning((*piece).to_owned()));
        self.steps.splice(0..0, reasoning);
        self
    }

    /// Appends a call whose arguments are split into deltas of `size` bytes.
    #[must_use]
    pub(crate) fn called(mut self, name: &str, arguments: &str, size: usize) -> Self {
        let number = self.calls().count() + 1;
        let call = MadeCall {
            id: format!("call_{number:024}"),
            name: name.to_owned(),
            arguments: pieces(arguments, size),
        };
        self.steps.push(Step::Call(call));
        self.finish = Finish::Calls;
        self
    }

    #[must_use]
    pub(crate) fn ends(self, finish: Finish) -> Self {
        Self { finish, ..self }
    }

    pub(crate) fn calls(&self) -> impl Iterator<Item = &MadeCall> {
        self.steps.iter().filter_map(|step| match step {
            Step::Call(call) => Some(call),
            Step::Text(_) | Step::Reasoning(_) => None,
        })
    }

    pub(crate) fn joined_text(&self) -> String {
        let texts = self.steps.iter().filter_map(|step| match step {
            Step::Text(text) => Some(text.as_str()),
            Step::Reasoning(_) | Step::Call(_) => None,
        });
        texts.collect()
    }

    pub(crate) fn joined_reasoning(&self) -> String {
        let texts = self.steps.iter().filter_map(|step| match step {
            Step::Reasoning(text) => Some(text.as_str()),
            Step::Text(_) | Step::Call(_) => None,
        });
        texts.collect()
    }
}

/// Splits `text` into pieces of at most `size` bytes, at character boundaries.
pub(crate) fn pieces(text: &str, size: usize) -> Vec<String> {
    let mut rest = text;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let first = rest.chars().next().map_or(1, char::len_utf8);
        let end = rest.floor_char_boundary(size.max(first)).max(first);
        let (piece, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        pieces.push(piece.to_owned());
        rest = after;
    }
    pieces
}

//! A view of a line: its own members, and those of its message.

use crate::wire::json::{Invalid, Json, Kind};

/// A line of a stream, or a complete response, which has the same fields.
#[derive(Debug, Default)]
pub(super) struct Line<'a> {
    pub(super) model: Option<Json<'a>>,
    pub(super) created_at: Option<Json<'a>>,
    pub(super) error: Option<Json<'a>>,
    message: Option<Json<'a>>,
    done: Option<Json<'a>>,
    pub(super) done_reason: Option<Json<'a>>,
    pub(super) input: Option<Json<'a>>,
    pub(super) output: Option<Json<'a>>,
    /// Whether the line has members other than those of a plain text line.
    has_other_members: bool,
}

impl<'a> Line<'a> {
    /// Parses a string. Returns its JSON and the line, whose fields are set only if the JSON is an object.
    pub(super) fn parse(text: &'a str) -> Result<(Json<'a>, Self), Invalid> {
        let mut line = Self::default();
        let json = Json::parse_members(text, |key, value| line.member(&key, value))?;
        Ok((json, line))
    }

    fn member(&mut self, key: &str, value: Json<'a>) {
        if value.is_null() {
            return;
        }
        match key {
            "model" => self.model = Some(value),
            "created_at" => self.created_at = Some(value),
            "message" if value.kind() == Kind::Object => self.message = Some(value),
            "done" => self.done = Some(value),
            // A server may send `false` or an empty string if there is no error.
            "error" if value.as_bool() != Some(false) && value.string_body() != Some("") => {
                self.error = Some(value);
            }
            "done_reason" => self.done_reason = Some(value),
            "prompt_eval_count" => self.input = Some(value),
            "eval_count" => self.output = Some(value),
            _ => self.has_other_members = true,
        }
    }

    pub(super) fn is_part(&self) -> bool {
        self.message.is_some() || self.done.is_some()
    }

    pub(super) fn is_done(&self) -> bool {
        self.done.is_some_and(|done| done.as_bool() == Some(true))
    }

    /// Whether the line contains only a message and the members that every line has.
    pub(super) fn has_message_only(&self) -> bool {
        !self.has_other_members && !self.is_done() && self.done_reason.is_none()
    }

    pub(super) fn message(&self) -> Message<'a> {
        self.message.map(Message::read).unwrap_or_default()
    }
}

/// The content that a line adds to the response. Null and empty fields are `None`.
#[derive(Debug, Default)]
pub(super) struct Message<'a> {
    pub(super) thinking: Option<Json<'a>>,
    pub(super) content: Option<Json<'a>>,
    pub(super) images: Option<Json<'a>>,
    pub(super) calls: Option<Json<'a>>,
}

impl<'a> Message<'a> {
    fn read(json: Json<'a>) -> Self {
        let mut message = Self::default();
        for (key, value) in json.members() {
            let some = Some(value).filter(|value| !matches!(value.raw(), "null" | "\"\"" | "[]" | "{}"));
            match &*key {
                "thinking" => message.thinking = some,
                "content" => message.content = some,
                "images" => message.images = some,
                "tool_calls" => message.calls = some,
                _ => {}
            }
        }
        message
    }

    /// Whether there is content that a client would miss. Reasoning alone does not count.
    pub(super) fn has_content(&self) -> bool {
        self.content.is_some() || self.images.is_some() || self.calls.is_some()
    }
}

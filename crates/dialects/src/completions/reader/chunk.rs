//! A view of one chunk, which has the fields of all three API versions.

use crate::{
    usage::count,
    wire::json::{Invalid, Json, Kind},
};

/// A chunk, or a complete response, which has the same fields.
#[derive(Debug, Default)]
pub(super) struct Chunk<'a> {
    pub(super) id: Option<Json<'a>>,
    pub(super) model: Option<Json<'a>>,
    pub(super) created: Option<Json<'a>>,
    /// The time at which Ollama generated the piece.
    created_at: Option<Json<'a>>,
    pub(super) error: Option<Json<'a>>,
    pub(super) usage: Option<Json<'a>>,
    /// OpenAI's list of choices.
    choices: Option<Json<'a>>,
    /// Text outside of a choice: `content` in llama.cpp, `response` in Ollama.
    content: Option<Json<'a>>,
    pub(super) thinking: Option<Json<'a>>,
    /// `stop` in llama.cpp, `done` in Ollama.
    done: Option<Json<'a>>,
    /// `stop_type` in llama.cpp, `done_reason` in Ollama.
    reason: Option<Json<'a>>,
    /// Whether an older version of llama.cpp reports that the token limit was reached.
    stopped_limit: bool,
    input: Option<Json<'a>>,
    output: Option<Json<'a>>,
    tokens: Option<Json<'a>>,
    kind: Option<Json<'a>>,
    object: Option<Json<'a>>,
}

#[derive(Debug, Default)]
pub(super) struct Choice<'a> {
    pub(super) text: Option<Json<'a>>,
    /// The finish reason, if it is a string.
    pub(super) finish: Option<Json<'a>>,
    /// Whether there are members that no event represents, such as log probabilities.
    pub(super) has_more: bool,
}

/// The choices of a chunk.
#[derive(Debug, Default)]
pub(super) struct Choices<'a> {
    pub(super) first: Option<Choice<'a>>,
    /// Whether there are further choices.
    pub(super) has_others: bool,
    /// Whether all of them are in OpenAI's form.
    pub(super) is_canonical: bool,
}

impl<'a> Chunk<'a> {
    /// Parses a string. Returns its JSON and the chunk, whose fields are set only if the JSON is an object.
    pub(super) fn parse(text: &'a str) -> Result<(Json<'a>, Self), Invalid> {
        let mut chunk = Self::default();
        let json = Json::parse_members(text, |key, value| chunk.member(&key, value))?;
        chunk.find_error(json);
        Ok((json, chunk))
    }

    fn member(&mut self, key: &str, value: Json<'a>) {
        if value.is_null() {
            return;
        }
        match key {
            "id" => self.id = Some(value),
            "model" => self.model = Some(value),
            "created_at" => self.created_at = Some(value),
            "created" => self.created = Some(value),
            "error" if !matches!(value.kind(), Kind::String) || !value.raw().eq("\"\"") => {
                self.error = Some(value);
            }
            "usage" if value.kind() == Kind::Object => self.usage = Some(value),
            "choices" if value.kind() == Kind::Array => self.choices = Some(value),
            "content" | "response" if value.kind() == Kind::String => self.content = Some(value),
            "thinking" if value.kind() == Kind::String => self.thinking = Some(value),
            "stop" | "done" if value.as_bool().is_some() => self.done = Some(value),
            "stop_type" | "done_reason" => self.reason = Some(value),
            "stopped_limit" => self.stopped_limit = value.as_bool() == Some(true),
            "tokens_evaluated" | "prompt_eval_count" => self.input = Some(value),
            "tokens_predicted" | "eval_count" => self.output = Some(value),
            "tokens" if value.kind() == Kind::Array => self.tokens = Some(value),
            "type" => self.kind = Some(value),
            "object" => self.object = Some(value),
            _ => {}
        }
    }

    /// Finds an error whose fields are at the top level, where vLLM and other servers put them.
    fn find_error(&mut self, json: Json<'a>) {
        let says = |field: Option<Json<'a>>| {
            field.and_then(|field| field.as_str()).is_some_and(|word| word == "error")
        };
        if self.error.is_none() && (says(self.object) || says(self.kind)) {
            self.error = Some(json);
        }
        // A server may send `false` if there is no error.
        self.error = self.error.filter(|error| error.as_bool() != Some(false));
    }

    pub(super) fn is_part(&self) -> bool {
        self.choices.is_some() || self.content.is_some() || self.done.is_some() || self.usage.is_some()
    }

    /// Whether the chunk reports the end of the response in the way of llama.cpp and Ollama.
    pub(super) fn is_done(&self) -> bool {
        self.done.is_some_and(|done| done.as_bool() == Some(true))
    }

    pub(super) fn has_done_flag(&self) -> bool {
        self.done.is_some()
    }

    pub(super) fn reason(&self) -> Option<Json<'a>> {
        self.reason
    }

    pub(super) fn reached_limit(&self) -> bool {
        self.stopped_limit
    }

    pub(super) fn counts(&self) -> (Option<u64>, Option<u64>) {
        (self.input.and_then(count), self.output.and_then(count))
    }

    /// The chunk's time, which differs between otherwise equal chunks.
    pub(super) fn time(&self) -> Option<Json<'a>> {
        self.created_at.or(self.created)
    }

    /// The numbers that llama.cpp sends and that differ between otherwise equal chunks, in its order.
    pub(super) fn numbers(&self) -> impl Iterator<Item = Json<'a>> {
        let tokens = self.tokens.into_iter().flat_map(|tokens| tokens.elements());
        tokens.chain(self.output)
    }

    pub(super) fn choices(&self) -> Choices<'a> {
        let Some(choices) = self.choices else {
            let first = self.content.map(|text| Choice { text: Some(text), ..Choice::default() });
            return Choices { first, ..Choices::default() };
        };
        let is_own = self.object.and_then(|object| object.string_body()) == Some("text_completion");
        let mut read = Choices { is_canonical: is_own, ..Choices::default() };
        for choice in choices.elements() {
            let index = choice.get("index").and_then(|index| index.as_u64());
            let has_text = choice.get("text").is_some_and(|text| text.kind() == Kind::String);
            read.is_canonical &= index.is_some() && has_text;
            match index {
                None | Some(0) if read.first.is_none() => read.first = Some(read_choice(choice)),
                _ => read.has_others = true,
            }
        }
        read
    }
}

/// Reads a choice. If a server responds as for chat, the text is in a message or delta.
fn read_choice(choice: Json<'_>) -> Choice<'_> {
    let inner = |key: &str| choice.get(key).and_then(|message| message.get("content"));
    let text = choice.get("text").or_else(|| inner("delta")).or_else(|| inner("message"));
    let finish = choice.get("finish_reason").filter(|word| word.kind() == Kind::String);
    let is_more = |(key, value): (std::borrow::Cow<'_, str>, Json<'_>)| {
        !matches!(&*key, "text" | "index" | "finish_reason") && !value.is_null()
    };
    let has_more = choice.members().any(is_more);
    Choice { text: text.filter(|text| text.kind() == Kind::String), finish, has_more }
}

//! A view of a frame's JSON: the chunk, its choice, and the choice's delta.
//!
//! Each level reads its members in one pass. A missing member, null, and a value of the wrong type are
//! treated alike. Each level also records whether it is in the canonical form, which every client understands
//! (docs/protocols/chat.md#stream): only such frames may be forwarded unchanged.

use std::borrow::Cow;

use crate::{
    ReasoningField,
    wire::json::{Invalid, Json, Kind},
};

/// A chunk, or whatever the server sent in its place.
#[derive(Debug, Default)]
pub(super) struct Chunk<'a> {
    pub(super) id: Option<Json<'a>>,
    pub(super) model: Option<Json<'a>>,
    pub(super) created: Option<Json<'a>>,
    pub(super) usage: Option<Json<'a>>,
    /// The counts of llama.cpp, which are in its last chunk even if nobody asked for `usage`.
    pub(super) timings: Option<Json<'a>>,
    pub(super) error: Option<Json<'a>>,
    object: Option<Json<'a>>,
    kind: Option<Json<'a>>,
    choices: Option<Json<'a>>,
    /// The first element of `choices`, and whether it is the only one.
    first: Option<Json<'a>>,
    is_single: bool,
    /// Whether `usage` or an element of `choices` has a type that breaks clients.
    is_broken: bool,
    /// Padding of varying length that hides the length of the frame's token.
    pub(super) padding: Option<Json<'a>>,
    /// Whether the chunk has members that most chunks do not have.
    pub(super) has_other_members: bool,
}

impl<'a> Chunk<'a> {
    /// Parses a string. Returns its JSON and the chunk, whose fields are set only if the JSON is an object.
    pub(super) fn parse(text: &'a str) -> Result<(Json<'a>, Self), Invalid> {
        let mut chunk = Self::default();
        let json = Json::parse_members(text, |key, value| chunk.member(&key, value))?;
        Ok((json, chunk.complete(json)))
    }

    fn member(&mut self, key: &str, value: Json<'a>) {
        if value.is_null() {
            return;
        }
        match key {
            "id" => self.id = Some(value),
            "model" => self.model = Some(value),
            "created" => self.created = Some(value),
            "object" => self.object = Some(value),
            "choices" => self.choices = Some(value),
            "usage" if value.kind() == Kind::Object => self.usage = Some(value),
            "usage" => self.is_broken = true,
            "error" if is_error(value) => self.error = Some(value),
            "obfuscation" => {
                self.padding = Some(value);
                self.has_other_members = true;
            }
            "timings" => {
                self.timings = Some(value);
                self.has_other_members = true;
            }
            "x_groq" => self.usage = self.usage.or(value.get("usage")),
            "type" => {
                self.kind = Some(value);
                self.has_other_members = true;
            }
            _ => self.has_other_members = true,
        }
    }

    /// Derives the remaining fields once all members of `json` have been read.
    fn complete(mut self, json: Json<'a>) -> Self {
        let mut choices = self.choices.unwrap_or_default().elements();
        (self.first, self.is_single) = (choices.next(), choices.next().is_none());
        let is_object = |choice: Json<'_>| choice.kind() == Kind::Object;
        if !self.is_single || !self.first.is_none_or(is_object) {
            self.is_broken |= !self.choices.unwrap_or_default().elements().all(is_object);
            let mut elements = self.elements();
            (self.first, self.is_single) = (elements.next(), elements.next().is_none());
        }
        let is_marked = |word: Option<Json<'_>>| word.and_then(|word| word.string_body()) == Some("error");
        if self.error.is_none() && (is_marked(self.object) || is_marked(self.kind)) {
            self.error = Some(json);
        }
        self
    }

    /// The choice to read: the one with index 0, or the first if they have no indexes.
    pub(super) fn choice(&self) -> Option<Choice<'a>> {
        let read = |choice: Json<'a>| Some(Choice::read(choice)).filter(|choice| choice.number == 0);
        let further = || if self.is_single { None } else { self.elements().find_map(read) };
        self.first.and_then(read).or_else(further)
    }

    pub(super) fn choices(&self) -> impl Iterator<Item = Choice<'a>> + use<'a> {
        self.elements().map(Choice::read)
    }

    pub(super) fn is_single(&self) -> bool {
        self.is_single
    }

    /// Whether the value has none of the members that make a chunk.
    pub(super) fn is_no_chunk(&self) -> bool {
        self.choices.is_none() && self.usage.is_none()
    }

    pub(super) fn has_choices(&self) -> bool {
        self.first.is_some()
    }

    /// Whether any choice has an index other than 0.
    pub(super) fn has_other_choices(&self) -> bool {
        self.elements().any(|choice| number_of(choice.get("index")) != 0)
    }

    pub(super) fn has_messages(&self) -> bool {
        self.elements().any(|choice| choice.get("message").is_some())
    }

    pub(super) fn is_bare(&self) -> bool {
        let is_list = self.choices.is_some_and(|choices| choices.kind() == Kind::Array);
        is_list && !self.has_choices() && !self.is_broken
    }

    /// Whether everything outside the choices is in the canonical form.
    pub(super) fn is_canonical(&self) -> bool {
        let is_text = |json: Option<Json<'_>>| {
            json.and_then(|json| json.string_body()).is_some_and(|text| !text.is_empty())
        };
        is_text(self.id)
            && is_text(self.model)
            && self.created.is_some_and(|created| created.as_u64().is_some())
            && self.object.and_then(|object| object.string_body()) == Some("chat.completion.chunk")
            && self.is_single
            && !self.is_broken
    }

    fn elements(&self) -> impl Iterator<Item = Json<'a>> + use<'a> {
        let choices = self.choices.unwrap_or_default();
        choices.elements().filter(|choice| choice.kind() == Kind::Object)
    }
}

fn is_error(value: Json<'_>) -> bool {
    value.as_bool() != Some(false) && value.string_body() != Some("")
}

fn number_of(index: Option<Json<'_>>) -> u64 {
    index.and_then(|index| index.as_u64()).unwrap_or(0)
}

#[derive(Debug, Default)]
pub(super) struct Choice<'a> {
    pub(super) delta: Delta<'a>,
    pub(super) finish: Option<Json<'a>>,
    pub(super) usage: Option<Json<'a>>,
    pub(super) error: Option<Json<'a>>,
    /// Whether there are members that no stage reads, such as `logprobs` or filter results.
    pub(super) has_other_members: bool,
    pub(super) number: u64,
    has_index: bool,
    has_finish: bool,
    has_delta: bool,
    /// Whether the choice is a message instead of a delta.
    pub(super) has_message: bool,
}

impl<'a> Choice<'a> {
    fn read(json: Json<'a>) -> Self {
        let mut choice = Self::default();
        for (key, value) in json.members() {
            match &*key {
                "index" => {
                    choice.number = number_of(Some(value));
                    choice.has_index = value.as_u64().is_some();
                }
                "finish_reason" => {
                    choice.has_finish = true;
                    choice.finish = Some(value).filter(|value| value.kind() == Kind::String);
                }
                "delta" | "message" if value.kind() == Kind::Object => {
                    choice.has_delta = key == "delta";
                    choice.has_message = key == "message";
                    choice.delta = Delta::read(value);
                }
                // The older Completions API has `text` instead of a delta.
                "delta" | "message" | "text" if value.string_body().is_some_and(|text| !text.is_empty()) => {
                    choice.delta.content = choice.delta.content.or(Some(value));
                }
                "usage" if value.kind() == Kind::Object => choice.usage = Some(value),
                "error" if !value.is_null() && is_error(value) => choice.error = Some(value),
                _ => choice.has_other_members |= !value.is_null(),
            }
        }
        choice
    }

    /// The finish reason. Some servers send an empty string with every chunk, which does not count.
    pub(super) fn finish_word(&self) -> Option<Cow<'a, str>> {
        self.finish?.as_str().filter(|word| !word.is_empty())
    }

    pub(super) fn has_blank_finish(&self) -> bool {
        self.finish.and_then(|finish| finish.string_body()) == Some("")
    }

    /// Whether the choice's own members are in the canonical form, with at most one kind of content.
    pub(super) fn is_canonical(&self) -> bool {
        let things = self.delta.things() + usize::from(self.finish_word().is_some());
        self.has_index
            && self.has_delta
            && self.has_finish
            && self.usage.is_none()
            && !self.has_blank_finish()
            && !self.delta.is_sloppy
            && things <= 1
    }
}

#[derive(Debug, Default)]
pub(super) struct Delta<'a> {
    pub(super) role: Option<Json<'a>>,
    /// A string, or a list of parts.
    pub(super) content: Option<Json<'a>>,
    pub(super) reasoning: Option<Json<'a>>,
    pub(super) reasoning_field: Option<ReasoningField>,
    /// OpenRouter's list of reasoning parts, with signatures.
    pub(super) details: Option<Json<'a>>,
    pub(super) refusal: Option<Json<'a>>,
    pub(super) annotations: Option<Json<'a>>,
    pub(super) images: Option<Json<'a>>,
    pub(super) calls: Option<Json<'a>>,
    pub(super) legacy_call: Option<Json<'a>>,
    pub(super) results: Option<Json<'a>>,
    /// Whether there are members that no stage reads, such as `audio`.
    pub(super) has_other_members: bool,
    /// Whether a member has a form that breaks clients.
    is_sloppy: bool,
}

impl<'a> Delta<'a> {
    fn read(json: Json<'a>) -> Self {
        let mut delta = Self::default();
        for (key, value) in json.members() {
            let is_bare = matches!(value.raw(), "[]" | "{}");
            let is_empty = is_bare || matches!(value.raw(), "null" | "\"\"");
            delta.is_sloppy |= is_bare;
            let some = Some(value).filter(|_| !is_empty);
            match &*key {
                "role" => delta.role = Some(value),
                "content" => delta.content = some,
                "reasoning_content" if some.is_some() => {
                    delta.reasoning = delta.reasoning.or(some);
                    delta.reasoning_field = Some(ReasoningField::ReasoningContent);
                }
                "reasoning" if some.is_some() => {
                    delta.reasoning = delta.reasoning.or(some);
                    delta.reasoning_field = delta.reasoning_field.or(Some(ReasoningField::Reasoning));
                }
                "reasoning_content" | "reasoning" => {}
                "reasoning_details" => delta.details = some,
                "refusal" => delta.refusal = some,
                "annotations" => delta.annotations = some,
                "images" => delta.images = some,
                "tool_calls" => delta.calls = some,
                "function_call" => delta.legacy_call = some,
                "tool_results" => delta.results = some,
                _ => delta.has_other_members |= !is_empty,
            }
        }
        // Most clients cannot read a list of content parts. The `function_call` field from before November
        // 2023 is never forwarded.
        let is_list = delta.content.is_some_and(|content| content.string_body().is_none());
        delta.is_sloppy |= is_list || delta.legacy_call.is_some();
        delta
    }

    /// Number of pieces of content in the delta.
    pub(super) fn things(&self) -> usize {
        let lists = [self.annotations, self.images, self.results];
        let listed: usize = lists.into_iter().flatten().map(|list| list.elements().count().max(1)).sum();
        let single = [self.content, self.refusal, self.calls, self.legacy_call];
        let reasons = self.reasoning.is_some() || self.details.is_some();
        single.into_iter().flatten().count() + usize::from(reasons) + listed
    }

    /// Whether there is content that a client would miss if it were dropped.
    pub(super) fn has_content(&self) -> bool {
        let parts = [self.content, self.refusal, self.calls, self.legacy_call, self.images];
        parts.iter().any(Option::is_some)
    }

    /// Whether the delta contains only the role with which a response starts, in the canonical form.
    pub(super) fn is_role_only(&self) -> bool {
        self.role.and_then(|role| role.string_body()) == Some("assistant") && self.things() == 0
    }
}

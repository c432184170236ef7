//! A view of one frame: the response object and its first candidate.

use crate::wire::json::{Invalid, Json, Kind};

/// A `GenerateContentResponse`, or whatever the server sent in its place.
#[derive(Debug, Default)]
pub(super) struct Chunk<'a> {
    pub(super) error: Option<Json<'a>>,
    pub(super) id: Option<Json<'a>>,
    pub(super) model: Option<Json<'a>>,
    pub(super) usage: Option<Json<'a>>,
    candidates: Option<Json<'a>>,
    feedback: Option<Json<'a>>,
}

impl<'a> Chunk<'a> {
    /// Parses a string. Returns its JSON and the chunk, whose fields are set only if the JSON is an object.
    pub(super) fn parse(text: &'a str) -> Result<(Json<'a>, Self), Invalid> {
        let mut chunk = Self::default();
        let json = Json::parse_members(text, |key, value| chunk.member(&key, value))?;
        Ok((json, chunk))
    }

    fn member(&mut self, key: &str, value: Json<'a>) {
        match (key, value.kind()) {
            (_, Kind::Null) => {}
            ("error", _) if value.as_bool() != Some(false) => self.error = Some(value),
            ("candidates", Kind::Array) => self.candidates = Some(value),
            ("promptFeedback", Kind::Object) => self.feedback = Some(value),
            ("usageMetadata", Kind::Object) => self.usage = Some(value),
            ("responseId", _) => self.id = Some(value),
            ("modelVersion", _) => self.model = Some(value),
            _ => {}
        }
    }

    /// Whether clients that know the API find what they rely on.
    pub(super) fn is_canonical(&self) -> bool {
        let is_word = |value: Option<Json<'_>>| {
            value.and_then(|value| value.string_body()).is_some_and(|text| !text.is_empty())
        };
        let mut candidates = self.candidates.into_iter().flat_map(|candidates| candidates.elements());
        let candidate = candidates.next().filter(|_| candidates.next().is_none());
        let role = candidate.and_then(|candidate| candidate.get("content")?.get("role"));
        let is_model = role.is_some_and(|role| role.string_body() == Some("model"));
        is_word(self.id) && is_word(self.model) && is_model && self.feedback.is_none()
    }

    pub(super) fn is_part(&self) -> bool {
        self.candidates.is_some() || self.feedback.is_some() || self.usage.is_some()
    }

    /// The candidate with index 0 and the number of other candidates.
    pub(super) fn candidate(&self) -> (Option<Candidate<'a>>, u64) {
        let (mut first, mut others) = (None, 0);
        for candidate in self.candidates.into_iter().flat_map(|candidates| candidates.elements()) {
            let number = candidate.get("index").and_then(|index| index.as_u64()).unwrap_or(0);
            if number == 0 && first.is_none() && candidate.kind() == Kind::Object {
                first = Some(Candidate::read(candidate));
            } else {
                others += 1;
            }
        }
        (first, others)
    }

    pub(super) fn all_candidates(&self) -> impl Iterator<Item = Candidate<'a>> + use<'a> {
        let candidates = self.candidates.into_iter().flat_map(|candidates| candidates.elements());
        candidates.filter(|candidate| candidate.kind() == Kind::Object).map(Candidate::read)
    }

    pub(super) fn block_reason(&self) -> Option<Json<'a>> {
        self.feedback?.get("blockReason").filter(|reason| is_word(*reason))
    }
}

#[derive(Debug, Default)]
pub(super) struct Candidate<'a> {
    parts: Option<Json<'a>>,
    pub(super) finish: Option<Json<'a>>,
    pub(super) finish_message: Option<Json<'a>>,
    pub(super) grounding: Option<Json<'a>>,
}

impl<'a> Candidate<'a> {
    fn read(json: Json<'a>) -> Self {
        let mut candidate = Self::default();
        for (key, value) in json.members() {
            match &*key {
                "content" => candidate.parts = value.get("parts"),
                "finishReason" => candidate.finish = Some(value).filter(|reason| is_word(*reason)),
                "finishMessage" => candidate.finish_message = Some(value),
                "groundingMetadata" => candidate.grounding = Some(value),
                _ => {}
            }
        }
        candidate
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = Json<'a>> + use<'a> {
        self.parts.into_iter().flat_map(|parts| parts.elements())
    }
}

/// Whether an enumeration value is something other than the unspecified one.
fn is_word(value: Json<'_>) -> bool {
    value.string_body().is_some_and(|word| !word.is_empty() && !word.ends_with("_UNSPECIFIED"))
}

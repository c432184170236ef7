//! The response object: its members at the start of a response, and those added at the end.

use serde_json::{Map, Value, json};

use super::rope::Rope;
use crate::{
    Answering, Dialect, Ids,
    conversation::CompactionForm,
    event::{Finish, Start, Usage},
    failure::Failure,
    wire::json::Encoder,
};

/// The members that identify a response, and those that it repeats from the request.
#[derive(Debug)]
pub(super) struct Head {
    /// `resp_`, followed by [`Head::suffix`].
    id: String,
    created: u64,
    model: String,
    stored: bool,
    repeated: Map<String, Value>,
    /// Tools in the request that are not run.
    left_out: Vec<String>,
    /// Whether the object is a compaction instead of a response.
    is_compaction: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Status<'a> {
    InProgress,
    Ended(Option<Finish>),
    Failed(&'a Failure),
}

/// Placeholder for the items while the rest of the object is written. In JSON, this character is always
/// escaped.
const OUTPUT: &str = "\0";

const ID_PREFIX: &str = "resp_";

/// Makes response ids differ from other ids with the same seed.
const ID_SALT: u64 = 0x7265_7370;

/// The key in `metadata` that lists the tools in the request that are not run. Clients may display
/// `metadata`, but drop fields that their types do not have.
const LEFT_OUT: &str = "toolwire_ignored_tools";

/// The members that a request may set, and their defaults, in the order in which the API sends them.
fn defaults() -> [(&'static str, Value); 18] {
    [
        ("instructions", Value::Null),
        ("max_output_tokens", Value::Null),
        ("max_tool_calls", Value::Null),
        ("metadata", json!({})),
        ("parallel_tool_calls", true.into()),
        ("previous_response_id", Value::Null),
        ("prompt_cache_key", Value::Null),
        ("reasoning", json!({"effort": null, "summary": null})),
        ("safety_identifier", Value::Null),
        ("service_tier", Value::Null),
        ("temperature", Value::Null),
        ("text", json!({"format": {"type": "text"}})),
        ("tool_choice", "auto".into()),
        ("tools", json!([])),
        ("top_logprobs", 0.into()),
        ("top_p", Value::Null),
        ("truncation", "disabled".into()),
        ("user", Value::Null),
    ]
}

impl Head {
    /// Creates the head. The id is always generated, because the response is stored under it.
    pub(super) fn new(answering: &Answering) -> Self {
        let repeated = answering.repeated.from_dialect(Dialect::Responses.name());
        Self {
            id: Ids::new(answering.stamp.seed, ID_SALT).next(ID_PREFIX),
            created: answering.stamp.created,
            model: answering.model.clone(),
            stored: answering.stored,
            repeated: repeated.cloned().unwrap_or_default(),
            left_out: answering.left_out.clone(),
            is_compaction: answering.compaction == Some(CompactionForm::Resource),
        }
    }

    /// Records what the upstream says about the response.
    pub(super) fn take(&mut self, start: &Start<'_>) {
        if !start.model.is_empty() {
            self.model = start.model.to_string();
        }
        self.created = start.created.unwrap_or(self.created);
    }

    pub(super) fn is_stored(&self) -> bool {
        self.stored
    }

    /// The id without its prefix, from which the ids of items are derived.
    pub(super) fn suffix(&self) -> &str {
        self.id.strip_prefix(ID_PREFIX).unwrap_or(&self.id)
    }

    /// The complete object as JSON. `output` contains the JSON of its items.
    pub(super) fn object<'i>(
        &self,
        status: Status<'_>,
        output: impl Iterator<Item = &'i Rope>,
        usage: Option<&Usage>,
        warnings: &[Value],
    ) -> Rope {
        let mut response = Encoder::with_capacity(1024);
        match self.is_compaction {
            true => self.put_compaction(&mut response, usage),
            false => self.put_response(&mut response, status, usage, warnings),
        }
        let text = response.finish_text();
        let (before, behind) = text.split_once(OUTPUT).unwrap_or((&text, ""));
        let mut response = Rope::default();
        response.push(before);
        response.push("[");
        for (place, item) in output.enumerate() {
            response.push(if place == 0 { "" } else { "," });
            response.append(item);
        }
        response.push("]");
        response.push(behind);
        response
    }

    fn put_response(
        &self,
        response: &mut Encoder,
        status: Status<'_>,
        usage: Option<&Usage>,
        warnings: &[Value],
    ) {
        let is_over = matches!(status, Status::Ended(_));
        response.object(|response| {
            response.key("id").string(&self.id);
            response.key("object").string("response");
            response.key("created_at").value(&self.created);
            response.key("status").string(status.word());
            response.key("background").value(&false);
            response.key("error").value(&status.error());
            response.key("incomplete_details").value(&status.incomplete());
            response.key("model").string(&self.model);
            response.key("output").written(OUTPUT);
            for (key, default) in defaults() {
                match (key, self.repeated.get(key)) {
                    ("metadata", given) => response.key(key).value(&self.metadata(given)),
                    (_, given) => response.key(key).value(given.unwrap_or(&default)),
                }
            }
            response.key("store").value(&self.stored);
            response.key("usage").value(&is_over.then(|| counts(usage)));
            if !warnings.is_empty() {
                response.key("toolwire").value(&json!({"warnings": warnings}));
            }
        });
    }

    fn put_compaction(&self, compaction: &mut Encoder, usage: Option<&Usage>) {
        compaction.object(|compaction| {
            compaction.key("id").string(&self.id);
            compaction.key("object").string("response.compaction");
            compaction.key("created_at").value(&self.created);
            compaction.key("output").written(OUTPUT);
            compaction.key("usage").value(&counts(usage));
        });
    }

    /// The `metadata` of the request, plus a note about tools that are not run.
    fn metadata(&self, given: Option<&Value>) -> Value {
        let mut metadata = given.and_then(Value::as_object).cloned().unwrap_or_default();
        if !self.left_out.is_empty() {
            metadata.insert(LEFT_OUT.to_owned(), self.left_out.join(", ").into());
        }
        metadata.into()
    }
}

impl Status<'_> {
    /// The API's word for the status.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Ended(Some(Finish::Length | Finish::Filter)) => "incomplete",
            Self::Ended(_) => "completed",
            Self::Failed(_) => "failed",
        }
    }

    fn incomplete(self) -> Option<Value> {
        let reason = match self {
            Self::Ended(Some(Finish::Length)) => "max_output_tokens",
            Self::Ended(Some(Finish::Filter)) => "content_filter",
            _ => return None,
        };
        Some(json!({ "reason": reason }))
    }

    fn error(self) -> Option<Value> {
        let Self::Failed(failure) = self else { return None };
        Some(json!({"code": code(failure), "message": failure.message()}))
    }
}

/// The code of a failure. In streams, the API always sends one.
pub(super) fn code(failure: &Failure) -> &str {
    failure.code().unwrap_or("server_error")
}

/// Token counts. The API requires them, so missing counts are sent as 0.
fn counts(usage: Option<&Usage>) -> Value {
    let unknown = Usage::default();
    let usage = usage.unwrap_or(&unknown);
    let (input, output) = (usage.input.unwrap_or(0), usage.output.unwrap_or(0));
    let mut of_input = json!({"cached_tokens": usage.cached.unwrap_or(0)});
    if let (Some(details), Some(written)) = (of_input.as_object_mut(), usage.cache_written) {
        details.insert("cache_write_tokens".to_owned(), written.into());
    }
    let counts = json!({
        "input_tokens": input,
        "input_tokens_details": of_input,
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning.unwrap_or(0)},
        "total_tokens": usage.total.unwrap_or_else(|| input.saturating_add(output)),
    });
    // The upstream's other fields, if they belong to this API.
    let raw = usage.raw.as_ref().filter(|raw| raw.dialect == Dialect::Responses.name());
    let raw = raw.and_then(|raw| serde_json::from_str::<Map<String, Value>>(raw.object.get()).ok());
    match (counts, raw) {
        (Value::Object(mut counts), Some(raw)) => {
            for (key, value) in raw {
                counts.entry(key).or_insert(value);
            }
            counts.into()
        }
        (counts, _) => counts,
    }
}

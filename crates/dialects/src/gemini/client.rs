//! [`Client`]: how toolwire serves clients of Gemini's API.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{decode, error_body};
use crate::{
    Answering, ClientSide, Dialect, Endpoint, Operation, Target, Writer,
    conversation::Conversation,
    endpoint::with_path,
    failure::{Failure, Kind},
};

/// The endpoints of folders of models, and of these lists of models.
macro_rules! endpoints {
    (folders: $($folder:literal)*, lists: $($list:literal)*) => {
        &[
            $(
                Endpoint {
                    path: concat!($folder, "{model}:generateContent"),
                    name: "generate_content",
                    operation: Operation::Generate,
                },
                Endpoint {
                    path: concat!($folder, "{model}:streamGenerateContent"),
                    name: STREAM,
                    operation: Operation::Generate,
                },
                Endpoint {
                    path: concat!($folder, "{model}:countTokens"),
                    name: "count_tokens",
                    operation: Operation::CountTokens,
                },
            )*
            $(
                Endpoint { path: $list, name: "models", operation: Operation::Models },
                Endpoint { path: concat!($list, "/{model}"), name: "model", operation: Operation::Model },
            )*
        ]
    };
}

const STREAM: &str = "stream_generate_content";

/// The list at `/v1/models` is OpenAI's, unless a client of this API asks for it.
const ENDPOINTS: &[Endpoint] = endpoints! {
    folders: "/v1beta/models/" "/v1beta/tunedModels/" "/v1/models/" "/v1/tunedModels/" "/v1alpha/models/",
    lists: "/v1beta/models" "/v1alpha/models"
};

/// The methods of the API, of which toolwire serves some.
const METHODS: &[&str] = &[
    "generateContent",
    "streamGenerateContent",
    "batchGenerateContent",
    "generateAnswer",
    "countTokens",
    "embedContent",
    "batchEmbedContents",
    "asyncBatchEmbedContent",
    "predict",
    "predictLongRunning",
];

/// A folder whose name belongs to the names of its models.
const TUNED: &str = "tunedModels/";

#[derive(Debug, Clone, Copy)]
pub(crate) struct Client;

impl ClientSide for Client {
    fn dialect(&self) -> Dialect {
        Dialect::Gemini
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        ENDPOINTS
    }

    fn endpoint(&self, stream: bool) -> Option<&'static Endpoint> {
        let mut generating = ENDPOINTS.iter().filter(|endpoint| endpoint.operation == Operation::Generate);
        generating.find(|endpoint| (endpoint.name == STREAM) == stream)
    }

    fn model_methods(&self) -> &'static [&'static str] {
        METHODS
    }

    fn own_prefix(&self) -> Option<&'static str> {
        Some("/v1beta/")
    }

    fn key_parameter(&self) -> Option<&'static str> {
        Some("key")
    }

    /// The path names the model and says whether a stream is asked for, and the query which form it has.
    fn complete(&self, body: Bytes, target: &Target<'_>) -> Result<Bytes, Failure> {
        let folder = if target.endpoint.path.contains(TUNED) { TUNED } else { "" };
        let is_stream = target.endpoint.name == STREAM;
        let is_array =
            is_stream && target.parameter("alt").is_none_or(|form| !form.eq_ignore_ascii_case("sse"));
        let said = [
            (decode::MODEL, Value::from(format!("{folder}{}", target.model))),
            (decode::STREAM, is_stream.into()),
            (decode::ARRAY, is_array.into()),
        ];
        Ok(with_path(
            &body,
            said.map(|(key, value)| (key.to_owned(), value)).into_iter().collect::<Map<_, _>>(),
        ))
    }

    fn read(&self, body: &Bytes) -> Result<Conversation, Failure> {
        decode::read(body)
    }

    fn writer(&self, answering: &Answering) -> Writer {
        crate::Writer::Gemini(super::Writer::new(answering))
    }

    fn error_body(&self, failure: &Failure) -> Vec<u8> {
        error_body(failure)
    }

    fn token_count(&self, tokens: usize) -> Value {
        json!({
            "totalTokens": tokens,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}],
        })
    }

    /// The list is always complete, whatever page is asked for (docs/protocols/gemini.md#models).
    fn model_list(&self, list: Vec<Value>, _query: Option<&str>) -> Result<Value, Failure> {
        let models: Vec<_> = list.into_iter().map(|model| self.model_entry(model)).collect();
        Ok(json!({ "models": models }))
    }

    fn model_entry(&self, model: Value) -> Value {
        let text = |key: &str| model.get(key).and_then(Value::as_str);
        let id = text("id").unwrap_or_default();
        let is_named = ["models/", TUNED].iter().any(|folder| id.starts_with(folder));
        let name = if is_named { id.to_owned() } else { format!("models/{id}") };
        let title = ["displayName", "display_name"].into_iter().find_map(text).unwrap_or(id);
        let mut entry = json!({
            "name": name,
            "version": text("version").unwrap_or("001"),
            "displayName": title,
            "supportedGenerationMethods": ["generateContent", "streamGenerateContent", "countTokens"],
        });
        let limit = |keys: &[&str]| keys.iter().find_map(|key| model.get(*key)?.as_u64());
        let limits = [
            (
                "inputTokenLimit",
                limit(&["inputTokenLimit", "context_length", "context_window", "max_model_len"]),
            ),
            ("outputTokenLimit", limit(&["outputTokenLimit", "max_output_tokens"])),
        ];
        for (key, limit) in limits {
            if let (Some(limit), Some(entry)) = (limit, entry.as_object_mut()) {
                entry.insert(key.to_owned(), limit.into());
            }
        }
        entry
    }

    fn unknown_model(&self, name: &str) -> Failure {
        let message = format!("models/{name} is not found; GET /v1beta/models lists the models");
        Failure::new(Kind::NotFound, message).with_code("model_not_found").with_param("model")
    }
}

//! [`Client`]: how toolwire serves clients of Ollama.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{decode, models, writer};
use crate::{
    Answering, ClientSide, Dialect, Endpoint, Made, ModelAbout, Operation, Stamp, Target, Writer,
    conversation::Conversation,
    endpoint::with_path,
    failure::{Failure, Kind},
};

const fn generating(path: &'static str, name: &'static str) -> Endpoint {
    Endpoint { path, name, operation: Operation::Generate }
}

const fn refused(path: &'static str, name: &'static str) -> Endpoint {
    let why = "toolwire serves the configured models and neither loads, changes nor stores any; manage models at the server that runs them";
    Endpoint { path, name, operation: Operation::Refuse(why) }
}

const ENDPOINTS: &[Endpoint] = &[
    generating("/api/chat", "ollama_chat"),
    generating(GENERATE, "ollama_generate"),
    Endpoint { path: "/api/tags", name: "models", operation: Operation::Models },
    Endpoint { path: "/api/ps", name: "models", operation: Operation::Models },
    Endpoint { path: "/api/show", name: "model", operation: Operation::Model },
    Endpoint { path: "/api/version", name: "ollama_version", operation: Operation::Facts },
    Endpoint { path: "/api/embed", name: "ollama_embed", operation: Operation::Pass },
    Endpoint { path: "/api/embeddings", name: "ollama_embed", operation: Operation::Pass },
    refused("/api/pull", "ollama_pull"),
    refused("/api/push", "ollama_push"),
    refused("/api/create", "ollama_create"),
    refused("/api/copy", "ollama_copy"),
    refused("/api/delete", "ollama_delete"),
    refused("/api/blobs/{model}", "ollama_blobs"),
];

/// The path of requests with a single prompt.
const GENERATE: &str = "/api/generate";

/// The version of Ollama whose API is served. Clients compare it to see which features there are.
const VERSION: &str = "0.12.6";

#[derive(Debug, Clone, Copy)]
pub(crate) struct Client;

impl ClientSide for Client {
    fn dialect(&self) -> Dialect {
        Dialect::Ollama
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        ENDPOINTS
    }

    fn own_prefix(&self) -> Option<&'static str> {
        Some("/api/")
    }

    /// An empty request does not show which of the two forms its response has.
    fn complete(&self, body: Bytes, target: &Target<'_>) -> Result<Bytes, Failure> {
        if target.endpoint.path != GENERATE {
            return Ok(body);
        }
        Ok(with_path(&body, Map::from_iter([(decode::IS_PROMPT.to_owned(), true.into())])))
    }

    fn read(&self, body: &Bytes) -> Result<Conversation, Failure> {
        decode::read(body)
    }

    fn writer(&self, answering: &Answering) -> Writer {
        crate::Writer::Ollama(super::Writer::new(answering))
    }

    /// A request without messages loads or unloads a model, which toolwire leaves to the upstream.
    fn made(&self, conversation: &Conversation, stamp: &Stamp) -> Option<Made> {
        conversation.turns.is_empty().then(|| writer::loaded(conversation, stamp))
    }

    fn error_body(&self, failure: &Failure) -> Vec<u8> {
        error_body(failure)
    }

    fn unknown_model(&self, name: &str) -> Failure {
        Failure::new(Kind::NotFound, format!("model '{name}' not found; GET /api/tags lists the models"))
            .with_code("model_not_found")
            .with_param("model")
    }

    fn model_list(&self, list: Vec<Value>, _query: Option<&str>) -> Result<Value, Failure> {
        Ok(json!({ "models": list.iter().map(models::entry).collect::<Value>() }))
    }

    fn model_shown(&self, model: Value, about: &ModelAbout<'_>) -> Value {
        models::shown(&model, about)
    }

    fn model_asked(&self, body: &Bytes) -> Result<String, Failure> {
        decode::model(body)
    }

    fn facts(&self, _endpoint: &Endpoint) -> Value {
        json!({ "version": VERSION })
    }
}

/// The JSON for `failure`, without a line break: a response's body, or the last line of a stream.
pub(super) fn error_body(failure: &Failure) -> Vec<u8> {
    json!({ "error": failure.message() }).to_string().into_bytes()
}

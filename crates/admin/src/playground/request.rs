//! [`ChatRequest`]: the page's request, and its conversion to a client's request.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::AdminError;
use toolwire_net::untrusted_text::clip;
use toolwire_pipeline::{
    conversation::{Conversation, Role, Turn},
    dialect::{ClientDialect, Target, UpstreamDialect},
};

const MAX_MESSAGES: usize = 1000;

/// Maximum length of a model's name in bytes.
const MAX_MODEL: usize = 256;

/// The turns of a chat so far, and the model that is to continue it.
#[derive(Debug)]
pub(crate) struct ChatRequest {
    pub(crate) model: String,
    pub(crate) client: ClientDialect,
    /// Writes requests and reads responses in the chosen dialect, as a client does.
    pub(super) spoken: UpstreamDialect,
    turns: Vec<Turn>,
    /// The complete request, if the page has written it.
    written: Option<Bytes>,
}

impl ChatRequest {
    /// Reads `{"model", "client", "messages": [{"role", "content"}]}`, or `{"client", "request"}` with the text of a
    /// client's request.
    ///
    /// # Errors
    /// 400 with the path of the invalid field.
    pub(crate) fn read(object: &Map<String, Value>) -> Result<Self, AdminError> {
        if object.contains_key("request") {
            return Self::read_written(object);
        }
        let model = text(object, "model")?;
        if model.is_empty() || model.len() > MAX_MODEL {
            let message = format!("`model` has 1 to {MAX_MODEL} bytes");
            return Err(AdminError::invalid(message, Some("model")));
        }
        let (client, spoken) = client_of(object)?;
        let Some(Value::Array(messages)) = object.get("messages") else {
            return Err(AdminError::invalid("`messages` is a list", Some("messages")));
        };
        if messages.is_empty() || messages.len() > MAX_MESSAGES {
            let message = format!("`messages` has 1 to {MAX_MESSAGES} messages");
            return Err(AdminError::invalid(message, Some("messages")));
        }
        let turns = messages.iter().enumerate().map(|(index, message)| turn(index, message));
        let turns = turns.collect::<Result<_, _>>()?;
        Ok(Self { model: model.to_owned(), client, spoken, turns, written: None })
    }

    fn read_written(object: &Map<String, Value>) -> Result<Self, AdminError> {
        let (client, spoken) = client_of(object)?;
        let written = Bytes::copy_from_slice(text(object, "request")?.as_bytes());
        let wrong = |message: &str| AdminError::invalid(message, Some("request"));
        let asked = client.side().decode(&written).map_err(|failure| wrong(failure.message()))?;
        if !asked.stream {
            return Err(wrong("the request asks for no stream, and only streams are passed on"));
        }
        let model = clip(&asked.model, MAX_MODEL).into_owned();
        Ok(Self { model, client, spoken, turns: Vec::new(), written: Some(written) })
    }

    /// Encodes the chat as a client's request.
    pub(crate) fn body(&self) -> Bytes {
        if let Some(written) = &self.written {
            return written.clone();
        }
        let conversation = Conversation {
            model: self.model.clone(),
            turns: self.turns.clone(),
            stream: true,
            include_usage: true,
            parallel_calls: true,
            ..Conversation::default()
        };
        let body = self.spoken.side().encode(&conversation, &self.model).body;
        let side = self.client.side();
        let target = side.endpoint(true).map(|endpoint| Target::new(endpoint, &self.model));
        let completed = target.and_then(|target| side.complete(body.clone(), &target).ok());
        completed.unwrap_or(body)
    }
}

/// Returns the dialect in `client`, both in the server's role and in the client's role.
fn client_of(object: &Map<String, Value>) -> Result<(ClientDialect, UpstreamDialect), AdminError> {
    match object.get("client") {
        None => dialect("chat"),
        Some(_) => dialect(text(object, "client")?),
    }
}

/// Returns the dialect called `name`, both in the server's role and in the client's role.
fn dialect(name: &str) -> Result<(ClientDialect, UpstreamDialect), AdminError> {
    let client = ClientDialect::all().find(|client| client.dialect().name() == name);
    let spoken = client.and_then(|client| UpstreamDialect::try_from(client.dialect()).ok());
    client.zip(spoken).ok_or_else(|| {
        let known: Vec<_> = ClientDialect::all().map(|client| client.dialect().name()).collect();
        let message =
            format!("no client speaks `{}`; `client` is one of {}", clip(name, 64), known.join(", "));
        AdminError::invalid(message, Some("client"))
    })
}

fn turn(index: usize, message: &Value) -> Result<Turn, AdminError> {
    let at = |field: &str| format!("messages[{index}].{field}");
    let role = match message.get("role").and_then(Value::as_str) {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("system") => Role::System,
        _ => {
            let message = "a message's `role` is `user`, `assistant` or `system`";
            return Err(AdminError::invalid(message, Some(&at("role"))));
        }
    };
    match message.get("content") {
        Some(Value::String(content)) => Ok(Turn::text(role, content.as_str())),
        _ => Err(AdminError::invalid("a message's `content` is a string", Some(&at("content")))),
    }
}

fn text<'o>(object: &'o Map<String, Value>, key: &str) -> Result<&'o str, AdminError> {
    let wrong = || AdminError::invalid(format!("`{key}` is a string"), Some(key));
    object.get(key).and_then(Value::as_str).ok_or_else(wrong)
}

//! [`Unfit`]: a part that cannot be sent to an upstream, and the error that reports it to the client.

use serde_json::Value;

use crate::{
    Dialect,
    conversation::{Conversation, Part},
    failure::{Failure, Kind},
};

/// A part that cannot be sent to an upstream.
#[derive(Debug, Clone, PartialEq)]
pub struct Unfit {
    /// The part as the client wrote it, or the URL of an image. Null if the problem is not a part.
    pub(super) value: Value,
    /// The reason. It continues a sentence that starts with the part's path.
    pub(super) why: String,
    /// The name of the request's member, if the problem is not a part.
    pub(super) member: Option<&'static str>,
}

impl Unfit {
    /// The failure to report. If `body` is given, the failure contains the part's path in that request body.
    pub fn failure(&self, body: Option<&[u8]>) -> Failure {
        if let Some(member) = self.member {
            let message = format!("`{member}` {}", self.why);
            let failure = Failure::new(Kind::Request, message).with_param(member);
            return failure.with_code("unsupported_parameter").with_unsupported(member);
        }
        let body = body.and_then(|body| serde_json::from_slice::<Value>(body).ok());
        let place = body.filter(|_| !self.value.is_null()).and_then(|body| {
            let places = ["messages", "input", "contents", "system", "instructions"].into_iter();
            places
                .filter_map(|key| Some((key, body.get(key)?)))
                .find_map(|(key, list)| place_of(list, &self.value).map(|inner| format!("{key}{inner}")))
        });
        let message = match &place {
            Some(place) => format!("`{place}` {}", self.why),
            None if self.value.is_null() => self.why.clone(),
            None => format!("a part of the conversation {}", self.why),
        };
        let failure = Failure::new(Kind::Request, message).with_code("unsupported_content");
        match place {
            Some(place) => failure.with_param(place),
            None => failure,
        }
    }
}

/// The path from `value` to the first value within it that equals `wanted`.
fn place_of(value: &Value, wanted: &Value) -> Option<String> {
    if value == wanted {
        return Some(String::new());
    }
    match value {
        Value::Array(list) => list
            .iter()
            .enumerate()
            .find_map(|(place, element)| Some(format!("[{place}]{}", place_of(element, wanted)?))),
        Value::Object(members) => {
            members.iter().find_map(|(key, member)| Some(format!(".{key}{}", place_of(member, wanted)?)))
        }
        _ => None,
    }
}

/// Members of a request that rely on the servers of its API.
struct Relying {
    dialect: Dialect,
    member: &'static str,
    /// Whether this value relies on them.
    relies: fn(&Value) -> bool,
    why: &'static str,
}

impl Relying {
    const fn new(dialect: Dialect, member: &'static str, why: &'static str) -> Self {
        Self { dialect, member, relies: is_given, why }
    }
}

/// Google's servers keep cached contents. Anthropic's servers store threads, run containers, call MCP servers, compact
/// conversations and choose where a model runs. OpenAI's check contents for safety. Some models of OpenAI's speak.
const ELSEWHERE: [Relying; 10] = [
    Relying::new(
        Dialect::Messages,
        "thread",
        "is not supported for this model: no server keeps the thread; send the whole conversation as `messages`",
    ),
    Relying::new(
        Dialect::Messages,
        "container",
        "is not supported for this model, whose API has no containers; leave it out",
    ),
    Relying::new(
        Dialect::Messages,
        "mcp_servers",
        "is not supported for this model, whose API calls no MCP servers; leave it out, or declare their tools",
    ),
    Relying::new(
        Dialect::Messages,
        "compaction",
        "is not supported for this model, whose API compacts no conversations; ask for a summary instead",
    ),
    Relying::new(
        Dialect::Messages,
        "inference_geo",
        "is not supported for this model, whose API does not let requests choose a region; leave it out",
    ),
    Relying::new(Dialect::Chat, "moderation", NO_MODERATION),
    Relying::new(Dialect::Responses, "moderation", NO_MODERATION),
    Relying {
        dialect: Dialect::Chat,
        member: "modalities",
        relies: has_more_than_text,
        why: "asks for more than text, which this model's API cannot give; leave it out",
    },
    Relying::new(
        Dialect::Gemini,
        "cachedContent",
        "is not supported for this model: the contents are on Google's servers; send all of them in `contents`",
    ),
    Relying {
        dialect: Dialect::Gemini,
        member: "generationConfig",
        relies: |config| config.get("responseModalities").is_some_and(has_more_than_text),
        why: "asks in `responseModalities` for more than text, which this model's API cannot give; leave it out",
    },
];

const NO_MODERATION: &str =
    "is not supported for this model, whose API does not check contents; leave it out";

fn is_given(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        _ => true,
    }
}

fn has_more_than_text(modalities: &Value) -> bool {
    let is_text = |kind: &Value| kind.as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("text"));
    modalities.as_array().is_some_and(|list| !list.iter().all(is_text))
}

/// Rejects a request with such a member, because ignoring it would change what the model sees, or break a promise
/// to the user.
pub(super) fn refuse_elsewhere(conversation: &Conversation) -> Result<(), Unfit> {
    let relies = |relying: &Relying| {
        let rest = conversation.rest.from_dialect(relying.dialect.name());
        rest.and_then(|rest| rest.get(relying.member)).is_some_and(relying.relies)
    };
    match ELSEWHERE.into_iter().find(relies) {
        Some(Relying { member, why, .. }) => {
            Err(Unfit { value: Value::Null, why: why.to_owned(), member: Some(member) })
        }
        None => Ok(()),
    }
}

/// The error for a part. `why` continues a sentence that starts with the part's path.
pub(super) fn unfit(value: &Value, why: &str) -> Unfit {
    Unfit { value: value.clone(), why: why.to_owned(), member: None }
}

/// Rejects what an upstream without [client prompts](crate::UpstreamSide::takes_client_prompts) would ignore although
/// the response depends on it.
pub(super) fn refuse_in_prompt(conversation: &Conversation) -> Result<(), Unfit> {
    let is_other = |part: &Part| matches!(part, Part::Other(_));
    let is_list = conversation.turns.iter().flat_map(|turn| &turn.parts).any(is_other);
    let rest = conversation.rest.from_dialect(Dialect::Completions.name());
    let given = |key: &str| rest.and_then(|rest| rest.get(key));
    let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let (member, why) = if is_list {
        (
            "prompt",
            "must be a single text for this model, whose API takes no tokens and one prompt in a request",
        )
    } else if given("suffix").is_some_and(is_text) {
        ("suffix", "is not supported for this model, whose API inserts no text before a suffix; leave it out")
    } else if given("echo").is_some_and(|echo| *echo == Value::Bool(true)) {
        ("echo", "is not supported for this model, whose API does not repeat prompts; leave it out")
    } else {
        return Ok(());
    };
    Err(Unfit { value: Value::Null, why: why.to_owned(), member: Some(member) })
}

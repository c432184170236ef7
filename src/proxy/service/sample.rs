//! POST `/admin/sample`: an exchange whose request and whose upstream's response are part of the program. With it the console has
//! something to show before there is a client or an upstream that answers.
//!
//! Only the upstream is missing: request, pipeline, events and logs are those of every exchange.

use std::{fmt::Write as _, sync::Arc};

use bytes::Bytes;
use serde_json::json;

use super::{
    super::{
        answer::{self, AnswerBody},
        auth::Caller,
        budget::Reservation,
        exchange::{self, Known, Who},
        permits::Queue,
        upstream::Client,
    },
    Refused, Service,
};
use crate::{
    config::{self, Config},
    dialect::ClientDialect,
    execute::ExchangeId,
    failure::{Failure, Kind},
    observe::Access,
};

/// The only entry of its configuration. Nothing is ever sent to the address.
const CONFIG: &str = r#"
[[upstreams]]
name = "sample"
dialect = "chat"
base_url = "http://127.0.0.1:9/v1"
[[models]]
name = "sample"
upstream = "sample"
tools = "hermes"
detect = ["hermes"]
"#;

/// The client's request, in [`CLIENT`].
pub(super) const REQUEST: &str = r#"{"model": "sample", "stream": true, "stream_options": {"include_usage": true},
"messages": [{"role": "user", "content": "What is the weather in Oslo?"}],
"tools": [{"type": "function", "function": {"name": "get_weather", "description": "The weather of a city, now",
"parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]}"#;

const CLIENT: ClientDialect = ClientDialect::Chat;

/// What the model writes. Markers are cut in two, so that text is held back.
const PIECES: [&str; 9] = [
    "I will look",
    " it up.",
    "\n<tool",
    "_call>\n{\"name\": ",
    "\"get_weather\", ",
    "\"arguments\": {\"ci",
    "ty\": \"Oslo\"}",
    "}\n</tool_",
    "call>",
];

impl Service {
    /// Begins the response to [`REQUEST`]. The body of the response gets `access`.
    ///
    /// # Errors
    /// [`Kind::Internal`] if what is part of the program is wrong.
    pub(super) async fn begin_sample(
        &self,
        caller: &Caller,
        id: &ExchangeId,
        memory: Reservation,
        access: &mut Access,
    ) -> Result<impl FnOnce(Access) -> AnswerBody + use<>, Refused> {
        let (config, client) = self.sample_upstream()?;
        let body = Bytes::from_static(REQUEST.as_bytes());
        let conversation = exchange::decode(CLIENT, &body)?;
        access.asked(&conversation.model, conversation.stream);
        let known = Known { config: &config, learned: &self.learned, states: &self.states, execution: None };
        let who = Who { caller, exchange: id };
        let how = (None, self.stamp());
        let model = exchange::model(&config, CLIENT, &conversation)?;
        let mut exchange = exchange::prepare(known, who, CLIENT, (Some(&body), conversation), how)?;
        exchange.made = Some(response().into());
        access.routed(&model.name, &model.upstream);
        access.show(CLIENT, caller.label());
        let exchange = self.open((model, exchange), (client, None, caller), &body, (id, None)).await?;
        let (keep_alive, cut) = (self.config.limits.keep_alive, self.drain.when_cut());
        Ok(move |access| {
            let parts =
                answer::Parts { stream: true, access, allowance: None, memory, exchange, attempts: None };
            AnswerBody::new(parts, keep_alive, cut)
        })
    }

    /// The configuration of the sample, and the client of its upstream.
    fn sample_upstream(&self) -> Result<(Arc<Config>, Arc<Client>), Failure> {
        let wrong = |what: &str| Failure::new(Kind::Internal, format!("the sample has no {what}"));
        let config = config::of_text(CONFIG.to_owned()).map_err(|_| wrong("configuration"))?;
        let upstream = config.upstreams.first().ok_or_else(|| wrong("upstream"))?;
        let queue = Arc::new(Queue::new(upstream.queue.clone(), self.metrics.waiting(&upstream.name)));
        let client = Client::new(Arc::clone(upstream), queue, &self.metrics, &self.redactor)
            .map_err(|_| wrong("address"))?;
        Ok((Arc::new(config), Arc::new(client)))
    }
}

/// The upstream's response.
fn response() -> String {
    let mut stream = String::new();
    let mut put = |choice, usage| {
        let chunk = json!({
            "id": "sample", "object": "chat.completion.chunk", "created": 0, "model": "sample", "choices": choice,
            "usage": usage,
        });
        let _ = write!(stream, "data: {chunk}\n\n");
    };
    for piece in PIECES {
        put(json!([{"index": 0, "delta": {"content": piece}, "finish_reason": null}]), json!(null));
    }
    put(json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]), json!(null));
    put(json!([]), json!({"prompt_tokens": 180, "completion_tokens": 27, "total_tokens": 207}));
    stream.push_str("data: [DONE]\n\n");
    stream
}

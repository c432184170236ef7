//! [`ConfiguredModels`]: asks models from inside, for tools that need one.
//!
//! A question takes the way of a client's request without the sockets: the model's entry, its upstream's queue and connections, the
//! pipeline. It gets no hosted tools, and nothing of it is recorded or stored.

use std::{collections::HashMap, future::poll_fn, sync::Arc};

use bytes::BytesMut;
use serde_json::Value;
use tokio::time::timeout;

use super::{
    exchange,
    learned::Learned,
    service,
    upstream::{Admission, BodyRead, Client, Opened},
};
use crate::{
    config::Config,
    dialect::{Answering, ClientDialect, Stamp},
    execute::ask::{Ask, Asking, Citation, ModelAnswer, Question},
    failure::{self, Failure, Kind},
    pipeline::{Pipeline, State},
    rules::Reasoning,
};

/// The models of the configuration.
#[derive(Debug)]
pub(super) struct ConfiguredModels {
    config: Arc<Config>,
    learned: Arc<Learned>,
    /// By the upstreams' names. Their connections belong to the thread on which questions are asked.
    clients: HashMap<String, Arc<Client>>,
}

/// The dialect in which answers are written, before they are taken apart.
const DIALECT: ClientDialect = ClientDialect::Chat;

impl ConfiguredModels {
    /// The models of `config`, asked through `clients`.
    pub(super) fn new(
        config: &Arc<Config>,
        learned: &Arc<Learned>,
        clients: HashMap<String, Arc<Client>>,
    ) -> Self {
        Self { config: Arc::clone(config), learned: Arc::clone(learned), clients }
    }

    async fn answer(&self, question: Question) -> Result<ModelAnswer, Failure> {
        let conversation = question.conversation;
        let model = exchange::model(&self.config, DIALECT, &conversation)?;
        let client = self.clients.get(&model.upstream.name).ok_or_else(|| {
            Failure::new(Kind::Internal, format!("there is no client for upstream `{}`", model.upstream.name))
        })?;
        let now = service::unix_time();
        let stamp = Stamp { seed: service::seed(), created: now };
        let answering =
            Answering { stream: false, reasoning: Reasoning::Drop, ..Answering::new(&conversation, stamp) };
        let (options, means) = self.learned.about(model, &conversation.model);
        let mut sent = exchange::sent(model, &conversation, (&means, now))?;
        let (request, starts_in_reasoning) = exchange::encode((model, options), &mut sent, now)?;
        drop(sent);
        let rules = exchange::rules(model, &conversation.model, &answering, starts_in_reasoning);
        let mut pipeline = exchange::pipeline((model, &rules), DIALECT, &conversation, &answering);
        pipeline.expect_prefill(request.prefill.clone());
        let opened = Arc::clone(client).open(request, Admission::New).await.map_err(|error| error.failure)?;
        let mut out = BytesMut::new();
        read(opened, &mut pipeline, &mut out, client).await?;
        if let Some(failure) = pipeline.failure() {
            return Err(failure.clone());
        }
        taken_apart(&out).ok_or_else(|| Failure::new(Kind::Internal, "the model's answer has no message"))
    }
}

impl Ask for ConfiguredModels {
    fn ask(&self, question: Question) -> Asking<'_> {
        Box::pin(self.answer(question))
    }

    fn knows(&self, model: &str) -> bool {
        self.config.model(model).is_some()
    }
}

/// Passes the whole body through the pipeline.
async fn read(
    opened: Opened,
    pipeline: &mut Pipeline,
    out: &mut BytesMut,
    client: &Client,
) -> Result<(), Failure> {
    let Opened { mut body, permit: _permit, .. } = opened;
    let idle = client.upstream().timeouts.idle;
    while pipeline.state() == State::Open {
        let read = timeout(idle, poll_fn(|cx| body.poll_data(cx, |data| _ = pipeline.push(data, out)))).await;
        match read {
            Ok(Ok(BodyRead::Data)) => {}
            Ok(Ok(BodyRead::End)) => {
                pipeline.finish(out);
                break;
            }
            Ok(Err(error)) => {
                let message = format!("the upstream broke off inside its response: {error}");
                return Err(Failure::new(Kind::Truncated, message));
            }
            Err(_) => return Err(failure::timed_out("next piece", idle)),
        }
    }
    if pipeline.state() == State::HopEnded {
        pipeline.end(out);
    }
    Ok(())
}

/// Text and citations of a chat completion.
fn taken_apart(completion: &[u8]) -> Option<ModelAnswer> {
    let completion: Value = serde_json::from_slice(completion).ok()?;
    let message = completion.pointer("/choices/0/message")?;
    let citations = message["annotations"].as_array().into_iter().flatten().filter_map(|annotation| {
        let cited = &annotation["url_citation"];
        let text = |key: &str| cited[key].as_str().unwrap_or_default().to_owned();
        let url = text("url");
        (!url.is_empty()).then(|| Citation { url, title: text("title") })
    });
    let mut answer = ModelAnswer {
        text: message["content"].as_str().unwrap_or_default().to_owned(),
        ..ModelAnswer::default()
    };
    for citation in citations {
        if !answer.citations.iter().any(|known| known.url == citation.url) {
            answer.citations.push(citation);
        }
    }
    Some(answer)
}

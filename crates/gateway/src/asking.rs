//! [`ConfiguredModels`]: sends toolwire's own questions to models, on behalf of tools that need a model.
//!
//! A question takes the same path as a client's request, but without a client's connection: through the model's entry,
//! its upstream's queue and connections, and the pipeline. It gets no hosted tools, and is neither recorded nor stored,
//! but appears in events and log lines.

mod report;

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    future::poll_fn,
    sync::Arc,
};

use bytes::BytesMut;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::time::timeout;

use super::{
    count,
    exchange::{self, Encoded},
    permits::Claimant,
    stamp::{seed, unix_time},
    upstream::{Admission, BodyRead, Client, Opened},
    upstream_capabilities::UpstreamCapabilities,
};
use toolwire_config::{Config, Model};
use toolwire_execution::ask::{Ask, Asking, Citation, ModelAnswer, Purpose, Question};
use toolwire_net::store::Owner;
use toolwire_pipeline::{
    dialect::{Answering, ClientDialect, ReaderRules, Stamp},
    failure::{self, Failure, Kind},
    pipeline::{Pipeline, State},
    rules::Reasoning,
};

use report::QuestionReport;
pub(super) use report::Witness;

#[derive(Debug)]
pub(super) struct ConfiguredModels {
    config: Arc<Config>,
    capabilities: Arc<UpstreamCapabilities>,
    /// Clients by upstream name. Their connections belong to the thread that asks the questions.
    clients: HashMap<String, Arc<Client>>,
    witness: Witness,
}

/// Dialect in which answers are written before they are parsed. It can express the pages that searches found, with
/// their titles.
const DIALECT: ClientDialect = ClientDialect::Messages;

/// Maximum size of an upstream's response in bytes.
const MAX_RESPONSE: usize = 16 << 20;

impl ConfiguredModels {
    /// Creates the models of `config`. Questions are sent through `clients`.
    pub(super) fn new(
        config: &Arc<Config>,
        capabilities: &Arc<UpstreamCapabilities>,
        clients: HashMap<String, Arc<Client>>,
        witness: Witness,
    ) -> Self {
        Self { config: Arc::clone(config), capabilities: Arc::clone(capabilities), clients, witness }
    }

    async fn answer(&self, question: Question) -> Result<ModelAnswer, Failure> {
        let model = exchange::model(&self.config, DIALECT, &question.conversation)?;
        let mut report = QuestionReport::begin(&self.witness, &question, model);
        let answer = self.answer_of(model, question, &mut report).await;
        answer.inspect_err(|failure| report.failed(failure))
    }

    async fn answer_of(
        &self,
        model: &Model,
        question: Question,
        report: &mut QuestionReport<'_>,
    ) -> Result<ModelAnswer, Failure> {
        let Question { mut conversation, purpose, .. } = question;
        let input = count::tokens(&conversation) as u64;
        let client = self.clients.get(&model.upstream.name).ok_or_else(|| {
            Failure::new(Kind::Internal, format!("there is no client for upstream `{}`", model.upstream.name))
        })?;
        let now = unix_time();
        let stamp = Stamp { seed: seed(), created: now };
        let mut known = self.capabilities.about(model, &conversation, Owner::default());
        if matches!(purpose, Purpose::Search) {
            known.options = Cow::Owned(known.options.searching(&mut conversation));
        }
        let answering =
            Answering { stream: false, reasoning: Reasoning::Drop, ..Answering::new(&conversation, stamp) };
        let mut sent = exchange::sent(model, &conversation, DIALECT.dialect(), &known.means, now)?;
        let Encoded { request, opens_reasoning, .. } = exchange::encode(model, &known, &mut sent, now)?;
        let request = exchange::encrypted(&known.options, request)?;
        drop(sent);
        let (start, _) =
            self.capabilities.start(model, &conversation, Owner::default(), opens_reasoning, now);
        let rules = exchange::rules(model, &conversation.model, &answering, start, false);
        let reader = known.options.side().reader(&ReaderRules {
            max_frame: model.settings.limits.max_frame,
            tolerate_truncation: model.upstream.tolerate_truncation,
            client: DIALECT.dialect(),
        });
        let writer = DIALECT.side().writer(&answering);
        let mut pipeline = Pipeline::new(&conversation, &rules, &model.formats, reader, writer, &answering);
        pipeline.expect_prefill(request.prefill.clone());
        pipeline.expect_key(request.key.clone());
        let client = client.traced(report.context());
        let opened = Arc::clone(&client)
            .open(request, Admission::New(Claimant::Own))
            .await
            .map_err(|error| error.failure)?;
        report.answered(input);
        let mut out = BytesMut::new();
        let read = read(opened, &mut pipeline, &mut out, &client).await;
        report.counted(&pipeline);
        read?;
        if let Some(failure) = pipeline.failure() {
            return Err(failure.clone());
        }
        let unreadable =
            |error| Failure::new(Kind::Internal, "the model's answer cannot be read").with_cause(error);
        Ok(taken_apart(&serde_json::from_slice(&out).map_err(unreadable)?))
    }
}

/// The models of the current configuration. Tools that use them may outlive a configuration.
#[derive(Debug)]
pub(super) struct NewestModels(RwLock<Arc<ConfiguredModels>>);

impl NewestModels {
    pub(super) fn new(models: ConfiguredModels) -> Self {
        Self(RwLock::new(Arc::new(models)))
    }

    pub(super) fn replace(&self, models: ConfiguredModels) {
        *self.0.write() = Arc::new(models);
    }

    fn newest(&self) -> Arc<ConfiguredModels> {
        Arc::clone(&self.0.read())
    }

    pub(super) fn clients(&self) -> HashMap<String, Arc<Client>> {
        self.newest().clients.clone()
    }
}

impl Ask for NewestModels {
    fn ask(&self, question: Question) -> Asking<'_> {
        let models = self.newest();
        Box::pin(async move { models.answer(question).await })
    }

    fn knows(&self, model: &str) -> bool {
        self.newest().knows(model)
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

/// Reads the complete body through the pipeline.
async fn read(
    opened: Opened,
    pipeline: &mut Pipeline,
    out: &mut BytesMut,
    client: &Client,
) -> Result<(), Failure> {
    let Opened { mut body, permit: _permit, .. } = opened;
    let idle = client.upstream().timeouts.idle;
    let mut length = 0;
    while pipeline.state() == State::Open {
        let reading = poll_fn(|cx| {
            body.poll_data(cx, |data| {
                length += data.len();
                pipeline.push(data, out);
            })
        });
        match timeout(idle, reading).await {
            Ok(Ok(BodyRead::Data)) if length <= MAX_RESPONSE => {}
            Ok(Ok(BodyRead::Data)) => {
                return Err(Failure::new(Kind::Limit, "the model's response is too long"));
            }
            Ok(Ok(BodyRead::End)) => {
                pipeline.finish(out);
                break;
            }
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => return Err(failure::timed_out("next piece", idle)),
        }
    }
    if pipeline.state() == State::HopEnded {
        pipeline.end(out);
    }
    Ok(())
}

/// Extracts the text and the citations of a response.
fn taken_apart(response: &Value) -> ModelAnswer {
    let list =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let text =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let page = |page: &Value| Citation { url: text(page, "url"), title: text(page, "title") };
    let (mut answer, mut found) = (ModelAnswer::default(), Vec::new());
    for block in list(response, "content") {
        match block.get("type").and_then(Value::as_str) {
            Some("text") => {
                answer.text.push_str(&text(&block, "text"));
                answer.citations.extend(list(&block, "citations").iter().map(page));
            }
            Some("web_search_tool_result") => found.extend(list(&block, "content").iter().map(page)),
            _ => {}
        }
    }
    answer.citations.append(&mut found);
    let mut seen = HashSet::new();
    answer.citations.retain(|page| !page.url.is_empty() && seen.insert(page.url.clone()));
    answer
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_and_citations_of_a_response_are_read() {
        let page = |kind: &str, url: &str, title: &str| json!({"type": kind, "url": url, "title": title});
        let cited = |url: &str, title: &str| page("web_search_result_location", url, title);
        let found = |url: &str, title: &str| page("web_search_result", url, title);
        let response = json!({"content": [
            {"type": "thinking", "thinking": "hm", "signature": ""},
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "rain"}},
            {"type": "web_search_tool_result", "tool_use_id": "s1",
             "content": [found("https://b.example/", "B"), found("https://a.example/", "Other")]},
            {"type": "text", "text": "It ", "citations": [cited("https://a.example/", "A"), cited("https://a.example/", "A")]},
            {"type": "text", "text": "rains."},
            {"type": "web_search_tool_result", "tool_use_id": "s2",
             "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"}},
        ]});
        let page = |url: &str, title: &str| Citation { url: url.to_owned(), title: title.to_owned() };
        let expected = ModelAnswer {
            text: "It rains.".to_owned(),
            citations: vec![page("https://a.example/", "A"), page("https://b.example/", "B")],
        };
        assert_eq!(taken_apart(&response), expected);
        assert_eq!(taken_apart(&json!({})), ModelAnswer::default());
    }
}

//! [`ModelAsker`]: asks configured models for hosted tools.
//!
//! A question goes through the same stages as a client's request, with the writer of a dialect that shows what a text cites. The
//! response is read from what the writer wrote.

use std::{collections::HashMap, future::poll_fn, sync::Arc};

use bytes::BytesMut;
use serde_json::Value;

use super::{
    exchange,
    learned::Learned,
    upstream::{Admission, BodyRead, Client},
};
use crate::{
    config::Config,
    dialect::{Answering, ClientDialect, ReaderRules, Stamp},
    execute::ask::{Ask, Asking, Citation, ModelAnswer, Question},
    failure::{Failure, Kind},
    pipeline::{Pipeline, State},
};

/// The dialect in which responses are written.
const DIALECT: ClientDialect = ClientDialect::Responses;

/// Bytes of an upstream's response.
const MAX_RESPONSE: usize = 16 << 20;

/// See the module.
#[derive(Debug)]
pub(super) struct ModelAsker {
    config: Arc<Config>,
    learned: Arc<Learned>,
    /// By the upstreams' names, with connections of their own.
    clients: HashMap<String, Arc<Client>>,
}

impl ModelAsker {
    /// Asks the models of `config`, whose upstreams have these clients.
    pub(super) fn new(
        config: Arc<Config>,
        learned: Arc<Learned>,
        clients: &HashMap<String, Arc<Client>>,
    ) -> Self {
        let own = clients.iter().map(|(name, client)| (name.clone(), Arc::new(client.sibling())));
        Self { config, learned, clients: own.collect() }
    }

    async fn answer(&self, question: Question, stamp: Stamp) -> Result<ModelAnswer, Failure> {
        let Question { mut conversation, search } = question;
        let model = exchange::model(&self.config, DIALECT, &conversation)?;
        let (options, means) = self.learned.about(model, &conversation.model);
        let options = if search { options.searching(&mut conversation) } else { options.clone() };
        let mut sent = exchange::sent(model, &conversation, (&means, stamp.created))?;
        let (request, starts_in_reasoning) = exchange::encode((model, &options), &mut sent, stamp.created)?;
        drop(sent);
        let client = self.clients.get(&model.upstream.name).cloned();
        let client = client.ok_or_else(|| Failure::new(Kind::Internal, "the upstream has no client"))?;
        let answering = Answering::new(&conversation, stamp);
        let rules = exchange::rules(model, &conversation.model, &answering, starts_in_reasoning);
        let reader = options.side().reader(&ReaderRules {
            max_frame: model.settings.limits.max_frame,
            tolerate_truncation: model.upstream.tolerate_truncation,
            client: DIALECT.dialect(),
        });
        let writer = DIALECT.side().writer(&answering);
        let mut pipeline = Pipeline::new(&conversation, &rules, &model.formats, reader, writer, &answering);
        pipeline.expect_prefill(request.prefill.clone());
        let opened = client.open(request, Admission::New).await.map_err(|error| error.failure)?;
        let (mut body, mut out, mut length) = (opened.body, BytesMut::new(), 0);
        let _permit = opened.permit;
        while pipeline.state() == State::Open {
            let read = poll_fn(|cx| {
                body.poll_data(cx, |data| {
                    length += data.len();
                    if pipeline.state() == State::Open {
                        pipeline.push(data, &mut out);
                    }
                })
            });
            match read.await {
                Ok(BodyRead::Data) if length <= MAX_RESPONSE => {}
                Ok(BodyRead::Data) => {
                    return Err(Failure::new(Kind::Limit, "the model's response is too long"));
                }
                Ok(BodyRead::End) => {
                    pipeline.finish(&mut out);
                    break;
                }
                Err(error) => {
                    let message = format!("the upstream broke off inside its response: {error}");
                    return Err(Failure::new(Kind::Truncated, message));
                }
            }
        }
        if pipeline.state() == State::HopEnded {
            pipeline.end(&mut out);
        }
        if let Some(failure) = pipeline.failure() {
            return Err(failure.clone());
        }
        let response = serde_json::from_slice(&out);
        Ok(read(&response.map_err(|_| Failure::new(Kind::Internal, "the response cannot be read"))?))
    }
}

impl Ask for ModelAsker {
    fn ask(&self, question: Question) -> Asking<'_> {
        let stamp = super::service::stamp();
        Box::pin(self.answer(question, stamp))
    }

    fn knows(&self, model: &str) -> bool {
        self.config.model(model).is_some()
    }
}

/// Text and citations of a response.
fn read(response: &Value) -> ModelAnswer {
    let mut answer = ModelAnswer::default();
    let items =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let text =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for item in items(response, "output") {
        for part in items(&item, "content") {
            if part.get("type").is_some_and(|kind| kind == "output_text") {
                answer.text.push_str(&text(&part, "text"));
                let cited = items(&part, "annotations");
                let cited =
                    cited.iter().map(|page| Citation { url: text(page, "url"), title: text(page, "title") });
                answer.citations.extend(cited);
            }
        }
        let sources = item.get("action").map(|action| items(action, "sources")).unwrap_or_default();
        found.extend(sources.iter().map(|page| Citation { url: text(page, "url"), title: String::new() }));
    }
    answer.citations.append(&mut found);
    let mut seen = std::collections::HashSet::new();
    answer.citations.retain(|page| !page.url.is_empty() && seen.insert(page.url.clone()));
    answer
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_and_citations_of_a_response_are_read() {
        let cited = |url: &str, title: &str| json!({"type": "url_citation", "url": url, "title": title});
        let response = json!({"output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "web_search_call", "action": {"type": "search", "sources": [{"url": "https://b.example/"}, {"url": "https://a.example/"}]}},
            {"type": "message", "content": [
                {"type": "output_text", "text": "It ", "annotations": [cited("https://a.example/", "A"), cited("https://a.example/", "A")]},
                {"type": "output_text", "text": "rains.", "annotations": []},
            ]},
        ]});
        let page = |url: &str, title: &str| Citation { url: url.to_owned(), title: title.to_owned() };
        let expected = ModelAnswer {
            text: "It rains.".to_owned(),
            citations: vec![page("https://a.example/", "A"), page("https://b.example/", "")],
        };
        assert_eq!(read(&response), expected);
        assert_eq!(read(&json!({})), ModelAnswer::default());
    }
}

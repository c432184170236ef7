//! [`Templates`]: whether the chat templates of models that their servers prompt open the reasoning.
//!
//! A template is configured, or shown by the server: llama-server's `/props` has it, and Ollama's `/api/show`. It is
//! rendered for a short conversation with the request's variables, once for each kind of request. A server is asked in
//! the background, at most once an hour for each model; no request waits for that.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::{runtime::Handle, task::JoinSet, time::Instant};

use super::{MAX_MODELS, REMEMBERED};
use crate::upstream::{Get, GetError};
use toolwire_config::{Model, Upstream};
use toolwire_pipeline::{
    conversation::{Conversation, Rest, Role, Sampling, Thinking, ThinkingSwitch, Turn},
    dialect::{Dialect, TemplateSource},
    format::KnownFormats,
};
use toolwire_template::ChatTemplate;

/// Timeout of one request. The server may be busy.
const LIMIT: Duration = Duration::from_secs(5);

/// Maximum number of bytes to read of a response, most of which is the template.
const MAX_ANSWER: usize = 4 << 20;

/// Maximum number of results to remember.
const MAX_RESULTS: usize = 1024;

/// Maximum size of a request's variables, in bytes, for which a template is rendered.
const MAX_VARIABLES: usize = 4 << 10;

#[derive(Debug, Default)]
pub(crate) struct Templates {
    /// By the names of upstreams, and then by the upstreams' names for models.
    servers: Mutex<HashMap<String, HashMap<String, Entry>>>,
    /// Whether a template opens the reasoning, by the template's digest and the request's variables.
    results: Mutex<HashMap<String, Option<bool>>>,
    running: Mutex<JoinSet<()>>,
}

/// What a server has shown of a model.
#[derive(Debug)]
struct Entry {
    template: Option<Shown>,
    not_before: Instant,
}

#[derive(Debug, Clone)]
enum Shown {
    Jinja(Arc<ChatTemplate>),
    /// Whether every prompt opens the reasoning, or the server separates it.
    Opens(bool),
}

impl Templates {
    /// Whether the template of `entry` opens the reasoning in the prompt for `conversation`. `None` if that is not known.
    pub(super) fn opens(&self, entry: &Model, conversation: &Conversation, now: u64) -> Option<bool> {
        if let Some(template) = &entry.chat_template {
            return self.rendered(template, &entry.formats, conversation, now);
        }
        let shown = {
            let servers = self.servers.lock();
            servers.get(&entry.upstream.name)?.get(entry.upstream_name(&conversation.model))?.template.clone()
        };
        match shown? {
            Shown::Jinja(template) => self.rendered(&template, &entry.formats, conversation, now),
            Shown::Opens(opens) => Some(opens),
        }
    }

    fn rendered(
        &self,
        template: &ChatTemplate,
        formats: &KnownFormats,
        conversation: &Conversation,
        now: u64,
    ) -> Option<bool> {
        let variables = conversation.rest.get("chat_template_kwargs").and_then(Value::as_object);
        let effort = conversation.sampling.reasoning_effort.as_deref().unwrap_or_default();
        let word = match Thinking::of(conversation, text_switches(template)) {
            Thinking::Default => "",
            Thinking::On => " /think",
            Thinking::Off => " /no_think",
        };
        let variables =
            variables.map_or_else(String::new, |variables| Value::from(variables.clone()).to_string());
        if variables.len() + effort.len() > MAX_VARIABLES {
            return None;
        }
        let tool = conversation.callable_tools().next();
        let key = format!("{:?}\0{variables}\0{effort}\0{word}\0{}", template.digest(), tool.is_some());
        if let Some(known) = self.results.lock().get(&key) {
            return *known;
        }
        let asked = Conversation {
            turns: vec![Turn::text(Role::User, format!("Hi{word}"))],
            tools: tool.cloned().into_iter().collect(),
            sampling: Sampling {
                reasoning_effort: Some(effort.to_owned()).filter(|effort| !effort.is_empty()),
                ..Sampling::default()
            },
            rest: variables_of(&variables),
            ..Conversation::default()
        };
        let opens = template.render(&asked, now).ok().map(|prompt| formats.opens_reasoning(&prompt.text));
        let mut results = self.results.lock();
        if results.len() >= MAX_RESULTS {
            results.clear();
        }
        results.insert(key, opens);
        opens
    }

    /// Starts to ask the server of `upstream` for the template of `model` at `source`, unless it was asked recently. Does
    /// nothing outside of a runtime.
    pub(super) fn look_at(self: &Arc<Self>, upstream: &Arc<Upstream>, model: &str, source: TemplateSource) {
        let now = Instant::now();
        {
            let mut servers = self.servers.lock();
            let models = servers.entry(upstream.name.clone()).or_default();
            if models.len() >= MAX_MODELS && !models.contains_key(model) {
                return;
            }
            let entry = models.entry(model.to_owned()).or_insert(Entry { template: None, not_before: now });
            if entry.not_before > now {
                return;
            }
            entry.not_before = now + REMEMBERED;
        }
        if Handle::try_current().is_err() {
            return;
        }
        let (this, upstream, model) = (Arc::clone(self), Arc::clone(upstream), model.to_owned());
        let mut running = self.running.lock();
        while running.try_join_next().is_some() {}
        running.spawn(async move { this.ask(&upstream, &model, source).await });
    }

    async fn ask(&self, upstream: &Upstream, model: &str, source: TemplateSource) {
        let shown = fetch(upstream, model, source).await.and_then(|body| shown(&body, source));
        if let Some(shown) = shown {
            let mut servers = self.servers.lock();
            if let Some(entry) = servers.get_mut(&upstream.name).and_then(|models| models.get_mut(model)) {
                entry.template = Some(shown);
            }
        }
    }

    /// Forgets everything about an upstream, because it was replaced.
    pub(crate) fn forget(&self, upstream: &str) {
        self.servers.lock().remove(upstream);
    }
}

/// The words in texts that the template reads, if there are any.
fn text_switches(template: &ChatTemplate) -> &'static [ThinkingSwitch] {
    if ["/no_think", "/nothink"].iter().any(|word| template.contains(word)) {
        &[ThinkingSwitch::Text]
    } else {
        &[]
    }
}

fn variables_of(variables: &str) -> Rest {
    match serde_json::from_str(variables) {
        Ok(Value::Object(variables)) => Rest::new(
            Dialect::Chat.name(),
            Map::from_iter([("chat_template_kwargs".to_owned(), Value::Object(variables))]),
        ),
        _ => Rest::default(),
    }
}

async fn fetch(upstream: &Upstream, model: &str, source: TemplateSource) -> Option<Bytes> {
    let get = Get::new(upstream, LIMIT, MAX_ANSWER).ok()?;
    let address = upstream.template_endpoint(source).ok()?;
    let answer = match source {
        TemplateSource::Props => get.fetch(address).await,
        TemplateSource::Show => get.post(address, json!({"model": model}).to_string().into()).await,
    };
    answer
        .inspect_err(|error: &GetError| {
            tracing::debug!(upstream = upstream.name, model, %error, "the server shows no chat template");
        })
        .ok()
}

/// The template in a server's answer.
fn shown(body: &[u8], source: TemplateSource) -> Option<Shown> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let text = |key: &str| answer.get(key).and_then(Value::as_str);
    match source {
        TemplateSource::Props => {
            let template = ChatTemplate::parse(text("chat_template")?, "/props").ok()?;
            Some(Shown::Jinja(Arc::new(template)))
        }
        TemplateSource::Show => {
            let capabilities = answer.get("capabilities").and_then(Value::as_array);
            let separates = capabilities.is_some_and(|all| all.iter().any(|name| name == "thinking"));
            Some(Shown::Opens(!separates && go_template_opens(text("template")?)))
        }
    }
}

/// Whether the text that Ollama's template always writes before the response ends with an opener.
fn go_template_opens(template: &str) -> bool {
    let before = template.rfind(".Response").and_then(|at| template.get(..at)).unwrap_or(template);
    let before = before.rfind("{{").filter(|_| before.len() < template.len()).and_then(|at| before.get(..at));
    KnownFormats::built_in().opens_reasoning(before.unwrap_or(template))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ollama_shows_whether_prompts_open_the_reasoning() {
        for (template, opens) in [
            ("{{ .Prompt }}<|Assistant|><think>\n{{ .Response }}", true),
            ("{{ .Prompt }}<|Assistant|>{{ .Response }}<|end|>", false),
            ("{{ .Prompt }}<think>\n", true),
            ("{{ if .Think }}<think>{{ end }}{{ .Response }}", false),
            ("", false),
        ] {
            assert_eq!(go_template_opens(template), opens, "{template}");
        }
        let shown = |answer: Value| match shown(answer.to_string().as_bytes(), TemplateSource::Show) {
            Some(Shown::Opens(opens)) => Some(opens),
            _ => None,
        };
        assert_eq!(shown(json!({"template": "<think>{{ .Response }}"})), Some(true));
        assert_eq!(shown(json!({"template": "<think>", "capabilities": ["thinking"]})), Some(false));
        assert_eq!(shown(json!({"template": 1})), None);
    }

    #[test]
    fn template_is_rendered_once_for_each_kind_of_request() {
        let source =
            "{% if enable_thinking is not defined or enable_thinking %}<think>{% else %}</think>{% endif %}";
        let template = ChatTemplate::parse(source, "t").unwrap();
        let (templates, formats) = (Templates::default(), KnownFormats::built_in());
        let opens = |variables: &str| {
            let asked = Conversation { rest: variables_of(variables), ..Conversation::default() };
            templates.rendered(&template, formats, &asked, 0)
        };
        for _ in 0..2 {
            assert_eq!(opens("{}"), Some(true));
            assert_eq!(opens(r#"{"enable_thinking":false}"#), Some(false));
        }
        assert_eq!(templates.results.lock().len(), 2);
        assert_eq!(opens(&json!({"a": "b".repeat(MAX_VARIABLES)}).to_string()), None);
        for number in 0..2 * MAX_RESULTS {
            opens(&json!({"a": number}).to_string());
        }
        assert!(templates.results.lock().len() <= MAX_RESULTS);
    }
}

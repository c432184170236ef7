//! `kind = "search"`: a configured model answers searches with its upstream's own web search.
//!
//! The model's text becomes the summary, and the pages that it cites become the results.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use crate::{
    ErrorCode, Host, Invocation, Output, Provider, Running, ToolError, ToolSpec,
    ask::{Ask, Purpose, Question},
    client_options::ClientOptions,
    engines::{cleaned, recency},
    providers::Fault,
};
use toolwire_pipeline::{
    conversation::{Role, Turn},
    settings::Settings,
    wire::json::Raw,
};

const INSTRUCTIONS: &str = "Search the web for the user's question and answer from the pages that you find, in a few sentences. \
                            Give dates where they matter, and cite the pages. If you find nothing, say so.";

/// The settings.
#[derive(Debug, Clone, Settings)]
pub struct Options {
    /// the model that is asked; its upstream must have a search of its own
    #[setting(required)]
    model: String,
    /// the instruction before the question
    #[setting(default = INSTRUCTIONS.to_owned(), or = "an answer with dates and sources")]
    instructions: String,
    /// how long a search may take, 5 to 120 seconds
    #[setting(default = Duration::from_secs(60), range = Duration::from_secs(5)..=Duration::from_secs(120))]
    timeout: Duration,
}

impl Options {
    /// Checks the settings.
    pub(super) fn check(&self) -> Result<(), Fault> {
        match self.model.is_empty() {
            true => Err(Fault::new("model", "`model` is missing: the model that is asked")),
            false => Ok(()),
        }
    }

    pub fn model(&self) -> &str {
        &self.model
    }

    /// The names and aliases of the provider's tool.
    pub(super) fn offers(&self, _: &str) -> Vec<String> {
        ["web_search", "search", "websearch", "web-search"].map(str::to_owned).into()
    }

    pub(super) fn build(&self, host: &Host) -> Result<Arc<dyn Provider>, Fault> {
        let models = host.models.clone().ok_or_else(|| Fault::new("model", "there are no models to ask"))?;
        if !models.knows(&self.model) {
            return Err(Fault::new("model", format!("there is no model `{}`", self.model)));
        }
        let query = json!({"type": "string", "description": "What to search for: a question, or the words of a search engine."});
        let parameters = json!({
            "type": "object",
            "properties": {"query": query, "recency": recency()},
            "required": ["query"],
        });
        let spec = ToolSpec {
            name: "web_search".to_owned(),
            aliases: &["search", "websearch", "web-search"],
            label: "Web Search".to_owned(),
            description: "Searches the web. Returns an answer with the pages that it comes from. Use it for current events, for facts \
                          that may have changed, and for whatever you are not sure of."
                .to_owned(),
            progress: "Searching for: {query}".to_owned(),
            parameters: Raw::from(parameters),
            is_idempotent: true,
            timeout: self.timeout,
            ..ToolSpec::default()
        };
        let (options, name) = (self.clone(), Arc::clone(&host.name));
        Ok(Arc::new(ModelSearch { options, name, models, spec: Arc::new(spec) }))
    }
}

/// What the client's declaration says about searches, for the model that is asked.
fn wishes(options: &ClientOptions) -> String {
    let [allowed, blocked] = options.lists();
    let lists = [("Use only pages of these sites", allowed), ("Use no pages of these sites", blocked)];
    let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
    let mut wishes: String = lists.map(|(wish, list)| format!("\n\n{wish}: {}", list.join(", "))).collect();
    if let Some(location) = &options.location {
        wishes.extend(["\n\nThe user is here: ", &location.name]);
    }
    wishes
}

#[derive(Debug)]
struct ModelSearch {
    options: Options,
    name: Arc<str>,
    models: Arc<dyn Ask>,
    spec: Arc<ToolSpec>,
}

impl Provider for ModelSearch {
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        vec![Arc::clone(&self.spec)]
    }

    fn is_search_engine(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, call: &'a Invocation) -> Running<'a> {
        Box::pin(self.search(call))
    }
}

impl ModelSearch {
    async fn search(&self, call: &Invocation) -> Result<Output, ToolError> {
        let text = |name| call.arguments.get(name).and_then(Value::as_str).unwrap_or_default();
        let query = cleaned(text("query"));
        if query.is_empty() {
            return Err(ToolError::new(ErrorCode::InvalidArguments, "The query is empty."));
        }
        let age = match text("recency") {
            "oneDay" => "\n\nUse only pages of the last day.",
            "oneWeek" => "\n\nUse only pages of the last week.",
            "oneMonth" => "\n\nUse only pages of the last month.",
            "oneYear" => "\n\nUse only pages of the last year.",
            _ => "",
        };
        let turns = vec![
            Turn::text(Role::System, self.options.instructions.as_str()),
            Turn::text(Role::User, format!("{query}{age}{}", wishes(&call.options))),
        ];
        let question = Question::new(
            &self.options.model,
            Purpose::Search,
            turns,
            call.subject.clone(),
            call.payer.clone(),
        );
        let answer = self.models.ask(question).await.map_err(|failure| {
            tracing::warn!(provider = %self.name, %failure, "the model gave no answer");
            ToolError::from(failure)
        })?;
        let is_page = |url: &str| {
            url::Url::parse(url).is_ok_and(|url| {
                matches!(url.scheme(), "http" | "https") && url.has_host() && call.options.admits(&url)
            })
        };
        let results = answer.citations.iter().filter(|page| is_page(&page.url)).map(|page| {
            let title = if page.title.is_empty() { &page.url } else { &page.title };
            json!({"title": title, "url": page.url})
        });
        let results: Vec<Value> = results.collect();
        let summary = answer.text.trim();
        if summary.is_empty() && results.is_empty() {
            return Err(ToolError::new(ErrorCode::ProviderError, "The search gave no answer."));
        }
        let note = match results.len() {
            1 => "1 result".to_owned(),
            count => format!("{count} results"),
        };
        let details = json!({"kind": "search", "results": results});
        let content = json!({"ok": true, "engine": &*self.name, "query": query, "summary": summary, "results": results});
        Ok(Output { content: content.to_string(), summary: note, details, ..Output::default() })
    }
}

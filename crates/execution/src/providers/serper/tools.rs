//! Declares the tools: names, descriptions for the model, and arguments.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Options;
use toolwire_pipeline::wire::json::Raw;
use crate::{ToolSpec, engines::recency};

pub(super) fn specs(options: &Options) -> Vec<Arc<ToolSpec>> {
    let extra = [image_search(options), news_search(options), places_search(options)];
    let extra = extra.into_iter().filter(|spec| options.extra_tools.contains(&spec.name));
    [web_search(options), scrape(options)].into_iter().chain(extra).map(Arc::new).collect()
}

fn web_search(options: &Options) -> ToolSpec {
    let parameters = json!({
        "type": "object",
        "properties": {
            "query": query("What to search for, in the words of a search engine."),
            "recency": recency(),
            "count": count(options),
            "page": page(),
        },
        "required": ["query"],
    });
    ToolSpec {
        name: "web_search".to_owned(),
        aliases: &["search", "websearch", "web-search"],
        label: "Web Search".to_owned(),
        description: "Searches the web. Returns the title, address and a snippet of each page found, and a direct answer if the \
                      search engine has one. Use it for current events, for facts that may have changed, and for whatever you are \
                      not sure of. Snippets are short: to read a page, call `scrape` with its address."
            .to_owned(),
        progress: "Searching for: {query}".to_owned(),
        parameters: Raw::from(parameters),
        is_idempotent: true,
        timeout: options.timeout,
        ..ToolSpec::default()
    }
}

fn scrape(options: &Options) -> ToolSpec {
    let parameters = json!({
        "type": "object",
        "properties": {
            "url": {
                "type": "string",
                "description": "The address of the page, with http:// or https://; usually from the results of a search.",
            },
        },
        "required": ["url"],
    });
    ToolSpec {
        name: "scrape".to_owned(),
        label: "Web Scraping".to_owned(),
        description: "Reads a web page. Returns its title and its text. Use it when the snippets of a search do not suffice, or when \
                      the user asks about a certain page."
            .to_owned(),
        progress: "Scraping: {url}".to_owned(),
        parameters: Raw::from(parameters),
        is_idempotent: true,
        url_argument: Some("url"),
        timeout: options.scrape_timeout,
        ..ToolSpec::default()
    }
}

fn image_search(options: &Options) -> ToolSpec {
    further(
        options,
        "image_search",
        "Image Search",
        "Searches the web for images. Returns the title and address of each image and of the page that shows it.",
        json!({"query": query("What the images should show."), "recency": recency(), "count": count(options), "page": page()}),
    )
}

fn news_search(options: &Options) -> ToolSpec {
    further(
        options,
        "news_search",
        "News Search",
        "Searches news articles. Returns the title, address, source, date and a snippet of each article.",
        json!({"query": query("What the news should be about."), "recency": recency(), "count": count(options), "page": page()}),
    )
}

fn places_search(options: &Options) -> ToolSpec {
    further(
        options,
        "places_search",
        "Places Search",
        "Searches for shops, restaurants and other places. Returns the name, address, rating and contact of each.",
        json!({"query": query("What is searched, and where: `bakery in Lyon`."), "count": count(options), "page": page()}),
    )
}

fn further(options: &Options, name: &str, label: &str, description: &str, properties: Value) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        label: label.to_owned(),
        description: description.to_owned(),
        progress: format!("{label}: {{query}}"),
        parameters: Raw::from(json!({"type": "object", "properties": properties, "required": ["query"]})),
        is_idempotent: true,
        timeout: options.timeout,
        ..ToolSpec::default()
    }
}

fn query(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

/// The schema has no maximum: if the model asks for more results, the count is clamped instead.
fn count(options: &Options) -> Value {
    let most = options.max_results;
    json!({"type": "integer", "minimum": 1, "maximum": 50, "description": format!("How many results, at most {most}. Default: {most}.")})
}

fn page() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": 100, "description": "Which page of results. Default: the first."})
}

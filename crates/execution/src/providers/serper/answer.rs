//! Converts Serper's responses to the format that all search engines share.

use serde_json::{Map, Value, json};
use url::Url;

use super::question::{Question, Vertical};
use crate::{ErrorCode, Output, ToolError, shrink::fitting};

/// Fields that have a different name in the shared format.
const RENAMED: [(&str, &str); 1] = [("peopleAlsoAsk", "relatedQuestions")];

/// Fields that only repeat the request.
const LEFT_OUT: [&str; 1] = ["searchParameters"];

/// Members that contain the URL of their object.
const ADDRESSES: [&str; 3] = ["link", "url", "website"];

#[derive(Debug)]
pub(super) struct Found {
    results: Vec<Value>,
    /// A direct answer, or the number of results.
    summary: String,
    /// All other fields, unchanged.
    rest: Map<String, Value>,
}

/// The error for an invalid response.
pub(super) fn unreadable() -> ToolError {
    ToolError::new(ErrorCode::ProviderError, "The search service gave an answer that cannot be read.")
}

/// Parses the response to a search. Drops results whose URLs do not satisfy `is_wanted`.
///
/// # Errors
/// The results are not a list.
pub(super) fn found(
    mut response: Map<String, Value>,
    vertical: Vertical,
    question: &Question,
    is_wanted: impl Fn(&Url) -> bool,
) -> Result<Found, ToolError> {
    let list = match response.shift_remove(vertical.list()) {
        Some(Value::Array(list)) => list,
        Some(Value::Null) | None => Vec::new(),
        Some(_) => return Err(unreadable()),
    };
    let results = list.into_iter().filter_map(|result| uniform(result, &is_wanted)).take(question.count);
    let results: Vec<_> = results.collect();
    for field in LEFT_OUT {
        response.shift_remove(field);
    }
    response.retain(|key, value| is_kept(key, value, &is_wanted));
    let summary = direct_answer(&response).unwrap_or_else(|| match results.len() {
        0 => "No results.".to_owned(),
        1 => "1 result.".to_owned(),
        count => format!("{count} results."),
    });
    let rest = response.into_iter().map(|(key, value)| {
        let renamed = RENAMED.iter().find(|(own, _)| *own == key);
        (renamed.map_or(key, |(_, name)| (*name).to_owned()), value)
    });
    Ok(Found { results, summary, rest: rest.collect() })
}

/// Moves a result's URL to `url`, and leaves all other fields unchanged. Returns `None` if the result is unwanted, or
/// if its URL is not a web address.
fn uniform(result: Value, is_wanted: impl Fn(&Url) -> bool) -> Option<Value> {
    let Value::Object(mut result) = result else { return None };
    // The result's own `url` must not replace the URL that is checked.
    let (link, url) = (result.shift_remove("link"), result.shift_remove("url"));
    let address = link.or(url).or_else(|| result.get("website").cloned());
    result.retain(|key, value| is_kept(key, value, &is_wanted));
    let Some(address) = address else {
        // Places may not have a website.
        return Some(result.into());
    };
    let url = web_url(address.as_str()?).filter(|url| is_wanted(url))?;
    let mut uniform = Map::new();
    if let Some(title) = result.shift_remove("title") {
        uniform.insert("title".to_owned(), title);
    }
    uniform.insert("url".to_owned(), url.as_str().into());
    uniform.extend(result);
    Some(uniform.into())
}

/// Parses an `http` or `https` URL.
fn web_url(text: &str) -> Option<Url> {
    Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
}

/// Whether to keep a member. An object with an unwanted URL is removed completely. So are single URLs, and list
/// elements that contain an unwanted URL.
fn is_kept(key: &str, value: &mut Value, is_wanted: &impl Fn(&Url) -> bool) -> bool {
    match value {
        Value::String(text) => match web_url(text) {
            Some(url) => is_wanted(&url),
            // Text with another scheme only counts as a URL in members that are meant for URLs.
            None => !is_address(key) || Url::parse(text).is_err() || text.starts_with("data:image/"),
        },
        Value::Array(elements) => {
            elements.retain_mut(|element| is_kept(key, element, is_wanted));
            true
        }
        Value::Object(members) => {
            let own = ADDRESSES.iter().filter_map(|key| members.get(*key)?.as_str());
            let is_own_wanted = own.filter_map(web_url).all(|url| is_wanted(&url));
            members.retain(|key, value| is_kept(key, value, is_wanted));
            is_own_wanted
        }
        _ => true,
    }
}

/// Whether the member `key` is meant for a URL.
fn is_address(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["link", "url", "website"].iter().any(|end| key.ends_with(end))
}

/// The search engine's direct answer to the query.
fn direct_answer(response: &Map<String, Value>) -> Option<String> {
    let text = |object: &str, field: &str| response.get(object)?.get(field)?.as_str().map(str::trim);
    let texts = [
        text("answerBox", "answer"),
        text("answerBox", "snippet"),
        text("knowledgeGraph", "description"),
    ];
    texts.into_iter().flatten().find(|text| !text.is_empty()).map(str::to_owned)
}

impl Found {
    pub(super) fn urls(&self) -> impl Iterator<Item = &str> {
        self.results.iter().filter_map(|result| result.get("url")?.as_str())
    }

    pub(super) fn output(self, engine: &str, query: &str) -> Output {
        let note = match self.results.len() {
            1 => "1 result".to_owned(),
            count => format!("{count} results"),
        };
        let details = json!({"kind": "search", "results": self.results});
        let mut content = Map::new();
        let own = [
            ("ok", true.into()),
            ("engine", engine.into()),
            ("query", query.into()),
            ("summary", self.summary.into()),
            ("results", self.results.into()),
        ];
        content.extend(own.map(|(key, value): (&str, Value)| (key.to_owned(), value)));
        for (key, value) in self.rest {
            // A field of the response must not replace one of the shared format.
            content.entry(key).or_insert(value);
        }
        Output { content: Value::Object(content).to_string(), summary: note, details, ..Output::default() }
    }
}

/// Parses the response to a request for the page at `url`. Cuts its text after `max_content` bytes of JSON.
///
/// # Errors
/// The response contains no text.
pub(super) fn page(response: &Map<String, Value>, url: &str, max_content: usize) -> Result<Output, ToolError> {
    let text = response.get("text").and_then(Value::as_str).ok_or_else(unreadable)?;
    let end = fitting(text, max_content);
    let content = text.get(..end).unwrap_or(text);
    let words = text.split_whitespace().count();
    let metadata = response.get("metadata").cloned().unwrap_or_default();
    let named = |keys: &[&str]| {
        let found = keys.iter().find_map(|key| metadata.get(*key)?.as_str().filter(|text| !text.trim().is_empty()));
        found.map(str::to_owned)
    };
    let title = named(&["title", "og:title"]);
    let mut page = json!({"ok": true, "title": title.clone().unwrap_or_default(), "url": url, "content": content, "wordCount": words});
    if let Some(page) = page.as_object_mut() {
        let more = [
            ("description", named(&["description", "og:description"]).map(Value::from)),
            ("truncated", (end < text.len()).then(|| true.into())),
            ("credits", response.get("credits").cloned()),
        ];
        page.extend(more.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    }
    let details = json!({"kind": "page", "url": url, "title": title, "metadata": metadata});
    Ok(Output { content: page.to_string(), summary: format!("{words} words"), details, ..Output::default() })
}

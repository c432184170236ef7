//! Reads the results of tools that search the web and read pages.

use std::borrow::Cow;

use serde_json::Value;

use crate::event::Annotation;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) url: String,
    pub(super) title: String,
    /// The age of the page, as reported by the search engine.
    pub(super) age: Option<String>,
}

/// The pages in the result of a search: the objects with a `url` or `link` in the first list that has any.
pub(super) fn pages(content: &str) -> Vec<Page> {
    let result = serde_json::from_str::<Value>(content).unwrap_or_default();
    let lists = [Some(&result)].into_iter().chain(["results", "organic"].map(|key| result.get(key)));
    let found = lists.flatten().find_map(|list| {
        let pages: Vec<_> = list.as_array()?.iter().filter_map(page).collect();
        (!pages.is_empty()).then_some(pages)
    });
    found.unwrap_or_default()
}

/// The pages in the result of a search, as citations at the start of the text.
pub fn citations(content: &str) -> impl Iterator<Item = Annotation<'static>> {
    pages(content).into_iter().map(|Page { url, title, .. }| Annotation {
        url: Cow::Owned(url),
        title: Cow::Owned(title),
        span: (0, 0),
    })
}

/// The page in the result of a tool that reads pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadPage {
    pub(super) url: String,
    pub(super) title: Option<String>,
    pub(super) text: String,
}

/// The page in the result `content`. Text in another form is that of a page without an address.
pub(super) fn read_page(content: &str) -> ReadPage {
    let result = serde_json::from_str::<Value>(content).unwrap_or_default();
    let text = |key: &str| {
        result.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    match text("content") {
        Some(read) => ReadPage { url: text("url").unwrap_or_default(), title: text("title"), text: read },
        None => ReadPage { url: text("url").unwrap_or_default(), title: None, text: content.to_owned() },
    }
}

/// The code of the failure in the result of a tool that toolwire ran.
pub(super) fn failure_code(content: &str) -> Option<String> {
    let result = serde_json::from_str::<Value>(content).ok()?;
    Some(result.get("error")?.get("code")?.as_str()?.to_owned())
}

fn page(page: &Value) -> Option<Page> {
    let text = |keys: [&str; 2]| keys.iter().find_map(|key| page.get(key)?.as_str()).map(str::to_owned);
    let url = text(["url", "link"])?;
    let title = text(["title", "name"]).unwrap_or_else(|| url.clone());
    Some(Page { url, title, age: text(["page_age", "date"]) })
}

//! Converts a model's search arguments to a request for Serper.

use serde_json::{Map, Value, json};

use super::Options;
use crate::{
    ErrorCode, ToolError,
    client_options::{ClientOptions, Location},
    engines::cleaned,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vertical {
    Web,
    Images,
    News,
    Places,
}

impl Vertical {
    /// The kind of search that the tool `name` performs.
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            "web_search" => Some(Self::Web),
            "image_search" => Some(Self::Images),
            "news_search" => Some(Self::News),
            "places_search" => Some(Self::Places),
            _ => None,
        }
    }

    /// The path relative to the base URL.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Web => "search",
            Self::Images => "images",
            Self::News => "news",
            Self::Places => "places",
        }
    }

    /// The field of the response that contains the results.
    pub(super) fn list(self) -> &'static str {
        match self {
            Self::Web => "organic",
            Self::Images => "images",
            Self::News => "news",
            Self::Places => "places",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    pub(super) query: String,
    pub(super) count: usize,
    page: u64,
    /// The value of Serper's `tbs` parameter.
    since: Option<&'static str>,
    /// Where the client says that the user is.
    location: Option<Location>,
}

/// Parses the arguments of a search. `client` contains what the client says about searches.
///
/// # Errors
/// The query is missing.
pub(super) fn read(
    arguments: &Map<String, Value>,
    options: &Options,
    client: &ClientOptions,
) -> Result<Question, ToolError> {
    let query = cleaned(arguments.get("query").and_then(Value::as_str).unwrap_or_default());
    if query.is_empty() {
        return Err(ToolError::new(ErrorCode::InvalidArguments, "The query is empty."));
    }
    let number = |name| arguments.get(name).and_then(Value::as_u64);
    let most = if client.wants_few { options.max_results.div_ceil(2) } else { options.max_results };
    let asked = number("count").and_then(|count| usize::try_from(count).ok()).unwrap_or(most);
    let since = match arguments.get("recency").and_then(Value::as_str) {
        Some("oneDay") => Some("qdr:d"),
        Some("oneWeek") => Some("qdr:w"),
        Some("oneMonth") => Some("qdr:m"),
        Some("oneYear") => Some("qdr:y"),
        _ => None,
    };
    let (count, location) = (asked.clamp(1, most), client.location.clone());
    Ok(Question { query, count, page: number("page").unwrap_or(1).max(1), since, location })
}

impl Question {
    /// The body of the request to Serper.
    pub(super) fn body(&self, vertical: Vertical, options: &Options) -> Value {
        let mut body = json!({"q": self.query, "num": self.count});
        let mut put = |key: &str, value: Value| body.as_object_mut().and_then(|body| body.insert(key.to_owned(), value));
        if self.page > 1 {
            put("page", self.page.into());
        }
        if let Some(since) = self.since.filter(|_| vertical != Vertical::Places) {
            put("tbs", since.into());
        }
        let location = self.location.as_ref();
        let country = location.and_then(|location| location.country.as_ref()).or(options.country.as_ref());
        let place = location.map(|location| &location.name);
        for (key, value) in [("gl", country), ("hl", options.language.as_ref()), ("location", place)] {
            if let Some(value) = value {
                put(key, value.as_str().into());
            }
        }
        body
    }
}

//! [`Query`]: a filter for exchanges, in a language such as `model:qwen* hops:>1 -state:done "connection lost"`.
//!
//! A term is a field with a value, or text to find in any field. All terms must match; a leading `-` negates a term.
//! Names may contain `*` as a wildcard; numbers may start with `<`, `<=`, `>`, `>=` or `=`. A value or text with white
//! space must be quoted.

use std::fmt;

use serde_json::Value;

use super::ExchangeRecord;
use toolwire_pipeline::{format::glob_matches, wire::suggest::suggest};

/// Maximum length of a query in bytes.
const MAX_BYTES: usize = 1024;

const MAX_TERMS: usize = 16;

/// For each field: its name in queries, its name in rows, and whether it is a number.
const FIELDS: [(&str, &str, bool); 16] = [
    ("id", "id", false),
    ("request", "request", false),
    ("key", "key", false),
    ("model", "model", false),
    ("client", "client", false),
    ("upstream", "upstream", false),
    ("dialect", "upstream_dialect", false),
    ("state", "state", false),
    ("code", "code", false),
    ("finish", "finish", false),
    ("captured", "captured", false),
    ("hops", "hops", true),
    ("calls", "calls", true),
    ("ttft", "ttft_ms", true),
    ("ms", "ms", true),
    ("tokens_per_s", "tokens_per_s", true),
];

/// The name of a called tool, of which rows contain only some.
const TOOL: &str = "tool";

/// A format in which a call was written.
const FORMAT: &str = "format";

#[derive(Debug, Default)]
pub(crate) struct Query {
    terms: Vec<Term>,
}

/// An error in a query. The position is a character index.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueryError {
    pub(crate) message: String,
    pub(crate) position: usize,
}

#[derive(Debug)]
struct Term {
    is_negated: bool,
    test: Test,
}

#[derive(Debug)]
enum Test {
    /// Text to find in any field, in lower case.
    Text(String),
    Name(&'static str, String),
    Tool(String),
    Format(String),
    Number(&'static str, Order, f64),
}

#[derive(Debug, Clone, Copy)]
enum Order {
    Less,
    AtMost,
    Equal,
    AtLeast,
    More,
}

const ORDERS: [(&str, Order); 5] = [
    ("<=", Order::AtMost),
    (">=", Order::AtLeast),
    ("<", Order::Less),
    (">", Order::More),
    ("=", Order::Equal),
];

impl Query {
    /// Parses a query.
    ///
    /// # Errors
    /// If the query is too long, names an unknown field, or compares a number with a value that is not a number.
    pub(crate) fn parse(text: &str) -> Result<Self, QueryError> {
        let error = |at: usize, message: String| {
            let position = text.get(..at).map_or(0, |before| before.chars().count());
            QueryError { message, position }
        };
        if text.len() > MAX_BYTES {
            return Err(error(0, format!("the filter is longer than {MAX_BYTES} bytes")));
        }
        let mut terms = Vec::new();
        for (at, word) in
            words(text).map_err(|at| error(at, "this quotation mark is not closed".to_owned()))?
        {
            if terms.len() == MAX_TERMS {
                return Err(error(at, format!("the filter has more than {MAX_TERMS} terms")));
            }
            terms.push(Term::parse(word).map_err(|(offset, message)| error(at + offset, message))?);
        }
        Ok(Self { terms })
    }

    /// Returns the row of `record` if it matches.
    pub(crate) fn row_of(&self, record: &ExchangeRecord) -> Option<Value> {
        let row = record.row();
        // Collecting the names of tools is costly, so it is done only for terms that need them.
        let tools = || record.tools();
        self.terms.iter().all(|term| term.test.holds(&row, &tools) != term.is_negated).then_some(row)
    }
}

/// Splits a query at white space outside quotes into words with their positions.
///
/// # Errors
/// Returns the position of a quote that is not closed.
fn words(text: &str) -> Result<Vec<(usize, &str)>, usize> {
    let (mut words, mut start, mut quote) = (Vec::new(), None, None);
    for (at, char) in text.char_indices() {
        match char {
            '"' if quote.is_some() => quote = None,
            '"' => {
                quote = Some(at);
                start = start.or(quote);
            }
            char if char.is_whitespace() && quote.is_none() => {
                words.extend(start.take().map(|start| (start, text.get(start..at).unwrap_or_default())));
            }
            _ => start = start.or(Some(at)),
        }
    }
    words.extend(start.map(|start| (start, text.get(start..).unwrap_or_default())));
    quote.map_or(Ok(words), Err)
}

impl Term {
    /// # Errors
    /// Returns a description of the error and its byte position.
    fn parse(word: &str) -> Result<Self, (usize, String)> {
        let rest = word.strip_prefix('-').filter(|rest| !rest.is_empty());
        let (is_negated, rest) = (rest.is_some(), rest.unwrap_or(word));
        let skipped = word.len() - rest.len();
        let field = rest.split_once(':').filter(|(field, _)| !field.is_empty() && !field.contains('"'));
        let Some((field, value)) = field else {
            return Ok(Self { is_negated, test: Test::Text(unquoted(rest).to_lowercase()) });
        };
        let at_value = skipped + field.len() + 1;
        let value = unquoted(value);
        if value.is_empty() {
            return Err((at_value, format!("`{field}:` has no value")));
        }
        if field == TOOL {
            return Ok(Self { is_negated, test: Test::Tool(value) });
        }
        if field == FORMAT {
            return Ok(Self { is_negated, test: Test::Format(value) });
        }
        let Some((_, key, is_number)) = FIELDS.iter().find(|(name, ..)| *name == field) else {
            let known: Vec<_> = FIELDS.iter().map(|(name, ..)| *name).chain([TOOL, FORMAT]).collect();
            let message = format!("there is no field `{field}`; {}", suggest(field, &known, None));
            return Err((skipped, message));
        };
        let test = match is_number {
            false => Test::Name(key, value),
            true => Test::number(key, &value).ok_or_else(|| {
                let message = format!("`{field}:` is followed by a number, such as `{field}:>1`");
                (at_value, message)
            })?,
        };
        Ok(Self { is_negated, test })
    }
}

impl Test {
    fn number(key: &'static str, value: &str) -> Option<Self> {
        let found = ORDERS.iter().find_map(|(sign, order)| Some((*order, value.strip_prefix(sign)?)));
        let (order, digits) = found.unwrap_or((Order::Equal, value));
        let number = digits.parse::<f64>().ok().filter(|number| number.is_finite())?;
        Some(Self::Number(key, order, number))
    }

    fn holds(&self, row: &Value, tools: &dyn Fn() -> Vec<String>) -> bool {
        let named = |key: &str, glob: &str| {
            row.get(key).and_then(Value::as_str).is_some_and(|name| glob_matches(glob, name))
        };
        match self {
            Self::Text(text) => {
                let contains = |value: &str| value.to_lowercase().contains(text);
                let is_in_row =
                    row.as_object().is_some_and(|row| row.values().filter_map(Value::as_str).any(contains));
                is_in_row || tools().iter().any(|tool| contains(tool))
            }
            Self::Name(key, glob) => named(key, glob),
            Self::Tool(glob) => tools().iter().any(|tool| glob_matches(glob, tool)),
            Self::Format(glob) => {
                let formats = row.get("formats").and_then(Value::as_array).into_iter().flatten();
                formats.filter_map(Value::as_str).any(|format| glob_matches(glob, format))
            }
            Self::Number(key, order, number) => {
                let value = row.get(*key).and_then(Value::as_f64);
                value.is_some_and(|value| match order {
                    Order::Less => value < *number,
                    Order::AtMost => value <= *number,
                    Order::Equal => (value - number).abs() < f64::EPSILON,
                    Order::AtLeast => value >= *number,
                    Order::More => value > *number,
                })
            }
        }
    }
}

fn unquoted(value: &str) -> String {
    value.replace('"', "")
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (character {})", self.message, self.position + 1)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(query: &str) -> bool {
        let row = json!({
            "id": "ex_1", "model": "Qwen3-32B", "state": "error", "hops": 2, "calls": 0, "key": null,
            "client": "messages", "ttft_ms": 212, "code": "connection lost", "tokens_per_s": 48.1,
            "formats": ["hermes", "react"],
        });
        let query = Query::parse(query).unwrap();
        let tools = || vec!["web_search".to_owned()];
        query.terms.iter().all(|term| term.test.holds(&row, &tools) != term.is_negated)
    }

    #[test]
    fn terms_are_joined_and_match_names_numbers_and_text() {
        for query in [
            "",
            "model:qwen*",
            "model:qwen* hops:>1 state:error client:messages",
            "hops:2 hops:>=2 hops:<=2 hops:<3 calls:0",
            "ttft:<500 tokens_per_s:>48",
            "lost",
            "\"connection lost\"",
            "code:\"connection lost\"",
            "tool:web_* WEB_SEARCH",
            "format:react format:h* -format:pre",
            "-state:done -nothing",
            "-key:team-a",
        ] {
            assert!(holds(query), "{query}");
        }
        for query in [
            "model:qwen",
            "hops:>2",
            "hops:<2",
            "state:done",
            "-model:*",
            "absent",
            "key:*",
            "tool:x",
            "format:r",
        ] {
            assert!(!holds(query), "{query}");
        }
    }

    #[test]
    fn errors_say_where() {
        let error = |query: &str| Query::parse(query).unwrap_err();
        let unknown = error("é state:error mdoel:x");
        assert_eq!(unknown.position, 14);
        assert!(unknown.message.contains("`model`"), "{unknown}");
        assert_eq!(error("hops:many").position, 5);
        assert_eq!(error("hops:>").position, 5);
        assert_eq!(error("-hops:NaN").position, 6);
        assert_eq!(error("model:").position, 6);
        assert_eq!(error("a \"b").position, 2);
        assert_eq!(error(&"x ".repeat(17)).position, 32);
        assert!(Query::parse(&"x ".repeat(16)).is_ok());
        assert!(Query::parse(&"x".repeat(1024)).is_ok());
        assert!(error(&"x".repeat(1025)).message.contains("1024"));
    }
}

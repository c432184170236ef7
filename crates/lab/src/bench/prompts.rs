//! [`Prompts`]: request bodies of a client dialect, read from a file of JSON lines, taken from fixtures, or generated.
//!
//! Each generated prompt begins differently, so that an upstream cannot use its prefix cache.

use std::{fs, io, path::Path};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::{
    Invalid,
    clients::{self, Asked},
    fixture::Fixture,
};
use toolwire_pipeline::dialect::ClientDialect;

/// The source of request bodies.
#[derive(Debug, Clone)]
pub struct Prompts(Kind);

#[derive(Debug, Clone)]
enum Kind {
    /// These bodies, repeated in order.
    Given(Vec<Bytes>),
    /// The two parts of a generated prompt. The stream's number is inserted between them.
    Numbered(Bytes, Bytes),
}

/// Settings shared by all requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    pub dialect: ClientDialect,
    /// The model's name. If `None`, the model named in the prompt, or else [`MODEL`].
    pub model: Option<String>,
    pub max_tokens: Option<u64>,
}

pub(crate) const MODEL: &str = "bench";

/// Placeholder for the stream's number in a generated prompt.
const NUMBER: &str = "\u{1a}";

/// Why a file of prompts cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    #[error("it contains no prompt")]
    Empty,
    #[error("{line}: not a JSON object: {source}")]
    NotJson { line: usize, source: serde_json::Error },
    #[error("{line}: {}", NO_PROMPT)]
    NotPrompt { line: usize },
}

impl Prompts {
    /// Generates prompts of about `tokens` words that declare `tools` functions.
    pub fn generated(terms: &Terms, tokens: usize, tools: usize) -> Self {
        let words = WORDS.split(' ').cycle().take(tokens.saturating_sub(5));
        let begin = format!("Request {NUMBER}. Go on with:");
        let text: Vec<_> = std::iter::once(begin.as_str()).chain(words).collect();
        let tools: Vec<_> = (0..tools).map(tool).collect();
        let body = terms.body(question(&text.join(" ")), &tools).to_string();
        let number = Value::from(NUMBER).to_string();
        let number = number.trim_matches('"');
        let (before, after) = body.split_once(number).unwrap_or((&body, ""));
        Self(Kind::Numbered(Bytes::from(before.to_owned()), Bytes::from(after.to_owned())))
    }

    /// Reads the prompts in a file of JSON lines: `{"prompt": …}`, `{"messages": …, "tools": …}` in the form
    /// of Chat Completions, or complete request bodies of the dialect.
    ///
    /// # Errors
    /// The file cannot be read, a line has none of these forms, or there are no lines.
    pub fn read(path: &Path, terms: &Terms) -> Result<Self, PromptError> {
        Self::parse(&fs::read_to_string(path)?, terms)
    }

    fn parse(text: &str, terms: &Terms) -> Result<Self, PromptError> {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        let bodies = lines.map(|(line, text)| {
            let members =
                serde_json::from_str(text).map_err(|source| PromptError::NotJson { line, source })?;
            let body = terms.complete(members).ok_or(PromptError::NotPrompt { line })?;
            Ok(Bytes::from(body.to_string()))
        });
        let bodies: Vec<_> = bodies.collect::<Result<_, PromptError>>()?;
        if bodies.is_empty() {
            return Err(PromptError::Empty);
        }
        Ok(Self(Kind::Given(bodies)))
    }

    /// Takes the requests of fixtures. Each request uses its fixture's name as the model, so that a mock responds with that
    /// fixture.
    ///
    /// # Errors
    /// A fixture's request is invalid. The error names the fixture.
    pub fn of_fixtures(fixtures: &[Fixture]) -> Result<Self, Invalid> {
        let bodies = fixtures.iter().map(|fixture| {
            let body: Result<Map<String, Value>, _> = serde_json::from_slice(&fixture.request);
            let mut body = body.map_err(|error| format!("{}: its request: {error}", fixture.name))?;
            body.insert("model".to_owned(), fixture.name.as_str().into());
            body.insert("stream".to_owned(), true.into());
            Ok(Bytes::from(Value::Object(body).to_string()))
        });
        Ok(Self(Kind::Given(bodies.collect::<Result<_, Invalid>>()?)))
    }

    /// Returns the body for stream `number` of trial `turn`. Both numbers make a generated body unique.
    pub(crate) fn body(&self, turn: u64, number: u64) -> Bytes {
        match &self.0 {
            Kind::Given(bodies) => {
                let turn = usize::try_from(number).unwrap_or(0).checked_rem(bodies.len()).unwrap_or(0);
                bodies.get(turn).cloned().unwrap_or_default()
            }
            Kind::Numbered(before, after) => {
                let number = format!("{turn}-{number}");
                Bytes::from([before.as_ref(), number.as_bytes(), after].concat())
            }
        }
    }
}

impl Terms {
    /// The model to request, if the prompt names none.
    pub fn model(&self) -> &str {
        self.model.as_deref().unwrap_or(MODEL)
    }

    /// Creates a request from messages and tools in the format of Chat Completions.
    fn body(&self, messages: Vec<Value>, tools: &[Value]) -> Value {
        let asked = Asked {
            model: self.model(),
            streams: true,
            messages,
            image: None,
            tools,
            max_tokens: self.max_tokens,
        };
        clients::api(self.dialect).request(asked)
    }

    /// Returns the request for a line, if it is in one of the formats that [`NO_PROMPT`] lists.
    fn complete(&self, mut line: Map<String, Value>) -> Option<Value> {
        let api = clients::api(self.dialect);
        let tools = line.get("tools").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if let Some(prompt) = line.get("prompt").filter(|_| api.content_member() != "prompt") {
            return Some(self.body(question(prompt.as_str()?), tools));
        }
        if line.keys().all(|key| key == "messages" || key == "tools")
            && let Some(messages) = line.get("messages")
        {
            return Some(self.body(messages.as_array()?.clone(), tools));
        }
        if !line.contains_key(api.content_member()) {
            return None;
        }
        // A complete request is sent unchanged, except for settings that the command line overrides.
        if api.names_model() {
            line.insert("stream".to_owned(), true.into());
            match &self.model {
                Some(model) => _ = line.insert("model".to_owned(), model.as_str().into()),
                None => _ = line.entry("model").or_insert_with(|| MODEL.into()),
            }
        }
        if let Some(tokens) = self.max_tokens {
            api.limit(&mut line, tokens);
        }
        Some(Value::Object(line))
    }
}

fn question(text: &str) -> Vec<Value> {
    vec![json!({ "role": "user", "content": text })]
}

const NO_PROMPT: &str = "a line has `prompt` (a text), or `messages` (a list) with or without `tools`, or is a whole request \
                         of the dialect";

/// Generates a tool. The first four are those of the project's other benchmarks.
fn tool(number: usize) -> Value {
    const KNOWN: [(&str, &str, &[&str]); 4] = [
        ("get_weather", "Current weather of a city.", &["city"]),
        ("read_file", "Reads a text file.", &["path"]),
        ("write_file", "Writes a text file.", &["path", "content"]),
        ("search", "Searches the notes.", &["query", "language"]),
    ];
    let text = || json!({ "type": "string" });
    let (name, description, arguments) = match KNOWN.get(number) {
        Some((name, description, arguments)) => ((*name).to_owned(), *description, *arguments),
        None => (format!("tool_{number}"), "Does something with a subject.", &["subject", "details"][..]),
    };
    let properties: Map<_, _> = arguments.iter().map(|name| ((*name).to_owned(), text())).collect();
    let parameters = json!({ "type": "object", "properties": properties, "required": arguments });
    json!({
        "type": "function",
        "function": { "name": name, "description": description, "parameters": parameters },
    })
}

const WORDS: &str = "the weather in Paris stays mild through the week with light winds from the west and a few clouds in \
                     the afternoon expect around eighteen degrees on most days evenings are cooler so a jacket is a good \
                     idea if you plan to sit outside museums near the river open at nine";

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(dialect: ClientDialect) -> Terms {
        Terms { dialect, model: None, max_tokens: Some(50) }
    }

    fn value(body: &Bytes) -> Value {
        serde_json::from_slice(body).unwrap()
    }

    #[test]
    fn generated_prompts_have_different_beginnings() {
        for dialect in ClientDialect::all() {
            let prompts = Prompts::generated(&terms(dialect), 40, 6);
            let (first, again, other) = (prompts.body(3, 0), prompts.body(3, 0), prompts.body(4, 71));
            assert_eq!(first, again);
            let api = clients::api(dialect);
            let text = |body: &Bytes| longest_text(&value(body)[api.content_member()]);
            assert!(text(&first).starts_with("Request 3-0. Go on"), "{}", text(&first));
            assert!(text(&other).starts_with("Request 4-71. Go on"));
            assert!(text(&first).split(' ').count().abs_diff(40) < 4);
            let body = value(&first);
            let named = api.names_model().then(|| (true.into(), MODEL.into()));
            let given = body.get("stream").cloned().zip(body.get("model").cloned());
            assert_eq!(given, named);
            let mut limited = body.as_object().unwrap().clone();
            api.limit(&mut limited, 50);
            assert_eq!(Value::Object(limited), body, "it has the limit");
            let names = body.to_string().matches("\"name\":").count();
            assert_eq!(names, if api.has_tools() { 6 } else { 0 }, "{body}");
        }
    }

    fn longest_text(value: &Value) -> String {
        match value {
            Value::String(text) => text.clone(),
            Value::Array(list) => list.iter().map(longest_text).max_by_key(String::len).unwrap_or_default(),
            Value::Object(object) => {
                object.values().map(longest_text).max_by_key(String::len).unwrap_or_default()
            }
            _ => String::new(),
        }
    }

    #[test]
    fn tools_are_declared_in_the_form_of_each_dialect() {
        let tools =
            |dialect| value(&Prompts::generated(&terms(dialect), 9, 1).body(0, 0))["tools"][0].clone();
        assert_eq!(tools(ClientDialect::Chat)["function"]["name"], "get_weather");
        assert_eq!(tools(ClientDialect::Responses)["name"], "get_weather");
        assert_eq!(tools(ClientDialect::Responses)["parameters"]["required"][0], "city");
        assert_eq!(tools(ClientDialect::Messages)["input_schema"]["required"][0], "city");
        let none = value(&Prompts::generated(&terms(ClientDialect::Chat), 9, 0).body(0, 0));
        assert_eq!(none.get("tools"), None);
        assert_eq!(none["stream_options"]["include_usage"], true);
    }

    #[test]
    fn file_lines_are_prompts_messages_or_requests() {
        let text = r#"
            {"prompt": "Hello"}
            {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]}

            {"messages": [], "model": "own", "temperature": 0, "max_tokens": 9}
        "#;
        let prompts = Prompts::parse(text, &terms(ClientDialect::Chat)).unwrap();
        let bodies: Vec<_> = (0..4).map(|number| value(&prompts.body(7, number))).collect();
        assert_eq!(bodies[0]["messages"][0]["content"], "Hello");
        assert_eq!(bodies[1]["messages"][1]["content"], "Hi");
        assert_eq!((&bodies[2]["model"], &bodies[2]["temperature"]), (&"own".into(), &0.into()));
        assert_eq!(bodies[2]["max_tokens"], 50);
        assert_eq!(bodies[3], bodies[0]);

        let prompts = Prompts::parse(text, &terms(ClientDialect::Messages)).unwrap();
        let body = value(&prompts.body(7, 1));
        assert_eq!((&body["system"], body["messages"].as_array().unwrap().len()), (&"Be brief.".into(), 1));
    }

    #[test]
    fn prompt_file_error_names_the_line() {
        for (text, expected) in [
            ("{\"prompt\": \"a\"}\n[1]", "2: not a JSON object"),
            ("{\"prompt\": 1}", "1: a line has `prompt`"),
            ("\n{\"tools\": []}", "2: a line has `prompt`"),
            ("\n \n", "it contains no prompt"),
        ] {
            let error = Prompts::parse(text, &terms(ClientDialect::Chat)).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}

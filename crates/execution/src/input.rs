//! [`Input`]: what a server asks a person for while one of its tools runs.

use serde_json::{Map, Value, json};
use toolwire_net::untrusted_text::is_unprintable;
use toolwire_pipeline::tools::arguments_fault;
use url::Url;

/// Maximum size of a question, in bytes.
const MAX_INPUT: usize = 32 << 10;

/// Maximum number of fields of a form.
const MAX_FIELDS: usize = 64;

/// Maximum size of the values that a person gives, in bytes.
const MAX_VALUES: usize = 64 << 10;

/// Types of a field with one value.
const SIMPLE: [&str; 4] = ["string", "number", "integer", "boolean"];

/// Members of a field's schema that would make the form more than a list of simple values.
const NESTING: [&str; 7] =
    ["properties", "$ref", "allOf", "not", "if", "patternProperties", "additionalProperties"];

/// What a person is asked for. The server's words are not trusted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Input {
    message: String,
    form: Form,
}

#[derive(Debug, Clone, PartialEq)]
enum Form {
    /// Values for the fields of this schema.
    Fields(Value),
    /// To open this page. What happens there stays between the person and the page.
    Page(String),
}

/// Why a person is not asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InputFault {
    #[error("the question is too large")]
    TooLarge,
    #[error("the form is not a list of simple fields")]
    NotSimple,
    #[error("the URL is not one of a web page")]
    NotAPage,
    #[error("the question is incomplete")]
    Incomplete,
}

impl Input {
    /// Reads the parameters of an MCP server's `elicitation/create`.
    ///
    /// # Errors
    /// A person cannot or should not be asked this.
    #[cfg_attr(not(feature = "mcp"), expect(dead_code, reason = "only MCP servers ask for input"))]
    pub(crate) fn of_elicitation(params: &Value) -> Result<Self, InputFault> {
        if params.to_string().len() > MAX_INPUT {
            return Err(InputFault::TooLarge);
        }
        let text = |key: &str| params.get(key).and_then(Value::as_str);
        let message = text("message").ok_or(InputFault::Incomplete)?;
        let form = match text("mode").unwrap_or("form") {
            "form" => Form::Fields(fields(params.get("requestedSchema").ok_or(InputFault::Incomplete)?)?),
            "url" => Form::Page(page(text("url").ok_or(InputFault::Incomplete)?)?),
            _ => return Err(InputFault::Incomplete),
        };
        let is_shown = |char: char| char == '\n' || !is_unprintable(char);
        let message = message.chars().map(|char| if is_shown(char) { char } else { ' ' }).collect();
        Ok(Self { message, form })
    }

    /// Checks the values that a person gives.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn check(&self, values: &Map<String, Value>) -> Result<(), String> {
        let none = Value::Null;
        let schema = match &self.form {
            Form::Fields(schema) => schema,
            Form::Page(_) => &none,
        };
        let known = schema.get("properties");
        if let Some(key) = values.keys().find(|key| known.and_then(|known| known.get(*key)).is_none()) {
            return Err(format!("`{key}` is no field of the form"));
        }
        let text = Value::Object(values.clone()).to_string();
        if text.len() > MAX_VALUES {
            return Err("the values are too large".to_owned());
        }
        match &self.form {
            Form::Fields(schema) => arguments_fault(Some(&schema.to_string()), &text).map_or(Ok(()), Err),
            Form::Page(_) => Ok(()),
        }
    }

    /// With secrets masked by `covered`.
    pub(crate) fn redacted(&self, covered: impl Fn(&str) -> String) -> Self {
        let form = match &self.form {
            Form::Fields(schema) => {
                let text = schema.to_string();
                Form::Fields(serde_json::from_str(&covered(&text)).unwrap_or_default())
            }
            Form::Page(url) => Form::Page(covered(url)),
        };
        Self { message: covered(&self.message), form }
    }

    pub(crate) fn json(&self) -> Value {
        match &self.form {
            Form::Fields(schema) => json!({"mode": "form", "message": self.message, "schema": schema}),
            Form::Page(url) => json!({"mode": "url", "message": self.message, "url": url}),
        }
    }
}

/// Checks that the schema describes a list of simple fields.
fn fields(schema: &Value) -> Result<Value, InputFault> {
    let properties = schema.get("properties").and_then(Value::as_object).ok_or(InputFault::NotSimple)?;
    let is_object = schema.get("type").is_none_or(|kind| kind == "object");
    if !is_object || properties.len() > MAX_FIELDS || !properties.values().all(is_simple) {
        return Err(InputFault::NotSimple);
    }
    // Other members of the schema have no meaning in a form.
    let required = schema.get("required").filter(|required| required.is_array());
    let required = required.cloned().unwrap_or_else(|| json!([]));
    Ok(json!({"type": "object", "properties": properties, "required": required}))
}

/// Whether a field has one value, or several of a list.
fn is_simple(field: &Value) -> bool {
    let Some(members) = field.as_object() else { return false };
    if NESTING.iter().any(|key| members.contains_key(*key)) {
        return false;
    }
    match members.get("type").and_then(Value::as_str) {
        Some("array") => members.get("items").is_some_and(is_choice),
        Some(kind) => SIMPLE.contains(&kind) && are_constants(members),
        None => is_choice(field),
    }
}

/// Whether a schema lists its values.
fn is_choice(schema: &Value) -> bool {
    let Some(members) = schema.as_object() else { return false };
    let has_list = ["enum", "oneOf", "anyOf"].iter().any(|key| members.contains_key(*key));
    has_list && !NESTING.iter().any(|key| members.contains_key(*key)) && are_constants(members)
}

/// Whether the alternatives in a schema, if there are any, are texts.
fn are_constants(members: &Map<String, Value>) -> bool {
    let listed = |key: &str, is_text: fn(&Value) -> bool| {
        members.get(key).is_none_or(|list| list.as_array().is_some_and(|list| list.iter().all(is_text)))
    };
    let is_titled: fn(&Value) -> bool = |own| own.get("const").is_some_and(Value::is_string);
    listed("enum", Value::is_string) && listed("oneOf", is_titled) && listed("anyOf", is_titled)
}

/// The normal form of the URL of a web page, which is what the person sees and opens.
fn page(url: &str) -> Result<String, InputFault> {
    let url = Url::parse(url).map_err(|_| InputFault::NotAPage)?;
    let is_page = matches!(url.scheme(), "http" | "https") && url.has_host();
    // A user name can look like another host.
    if is_page && url.username().is_empty() && url.password().is_none() {
        Ok(url.into())
    } else {
        Err(InputFault::NotAPage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(properties: Value) -> Result<Input, InputFault> {
        let schema = json!({"type": "object", "properties": properties, "required": ["a"]});
        Input::of_elicitation(&json!({"message": "m", "requestedSchema": schema}))
    }

    fn checked(input: &Input, values: Value) -> Result<(), String> {
        input.check(values.as_object().expect("an object"))
    }

    #[test]
    fn values_match_the_form() {
        let input = form(json!({
            "a": {"type": "integer", "minimum": 1, "maximum": 3},
            "b": {"type": "string", "enum": ["x", "y"]},
            "c": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
            "d": {"type": "string", "oneOf": [{"const": "x", "title": "<b>X</b>"}]},
            "e": {"type": "boolean"},
        }));
        let input = input.expect("a form");
        for values in [
            json!({"a": 1}),
            json!({"a": 3, "b": "y", "c": ["x"], "d": "x", "e": true}),
            json!({"a": 2, "c": []}),
        ] {
            assert_eq!(checked(&input, values.clone()), Ok(()), "{values}");
        }
        for values in [
            json!({}),
            json!({"a": "1"}),
            json!({"a": 4}),
            json!({"a": 1.5}),
            json!({"a": 1, "b": "z"}),
            json!({"a": 1, "c": ["z"]}),
            json!({"a": 1, "c": "x"}),
            json!({"a": 1, "d": "y"}),
            json!({"a": 1, "e": "true"}),
            json!({"a": 1, "z": 1}),
        ] {
            assert!(checked(&input, values.clone()).is_err(), "{values}");
        }
    }

    #[test]
    fn forms_that_are_no_list_of_simple_fields_are_not_shown() {
        for property in [
            json!(5),
            json!({}),
            json!({"type": "object"}),
            json!({"type": "object", "properties": {"b": {"type": "string"}}}),
            json!({"type": "array"}),
            json!({"type": "array", "items": {"type": "object"}}),
            json!({"type": "array", "items": {"type": "array", "items": {"enum": ["x"]}}}),
            json!({"type": "string", "oneOf": [{"type": "object"}]}),
            json!({"type": "string", "enum": [{"x": 1}]}),
            json!({"type": "string", "$ref": "#"}),
            json!({"$ref": "#"}),
        ] {
            assert_eq!(form(json!({"a": property})), Err(InputFault::NotSimple), "{property}");
        }
        let many = |count: usize| {
            Value::Object((0..count).map(|n| (n.to_string(), json!({"type": "string"}))).collect())
        };
        assert!(form(many(MAX_FIELDS)).is_ok());
        assert_eq!(form(many(MAX_FIELDS + 1)), Err(InputFault::NotSimple));
        let long = json!({"a": {"type": "string", "title": "x".repeat(MAX_INPUT)}});
        assert_eq!(form(long), Err(InputFault::TooLarge));
        assert_eq!(Input::of_elicitation(&json!({"message": "m"})), Err(InputFault::Incomplete));
        assert_eq!(Input::of_elicitation(&json!([])), Err(InputFault::Incomplete));
    }

    #[test]
    fn only_web_pages_are_opened() {
        let read = |url: &str| Input::of_elicitation(&json!({"mode": "url", "message": "m", "url": url}));
        let shown = read("HTTPS://Example.org:443/a?b").expect("a page").json();
        assert_eq!(shown.get("url"), Some(&json!("https://example.org/a?b")));
        for url in [
            "javascript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "https://a@b.example/",
            "/a",
            "",
        ] {
            assert_eq!(read(url), Err(InputFault::NotAPage), "{url}");
        }
        let page = read("https://example.org/").expect("a page");
        assert_eq!(checked(&page, json!({})), Ok(()));
        assert!(checked(&page, json!({"a": 1})).is_err());
    }

    #[test]
    fn message_shows_no_control_characters() {
        let schema = json!({"type": "object", "properties": {}});
        let input =
            Input::of_elicitation(&json!({"message": "a\u{1b}[2J\u{202e}\nb", "requestedSchema": schema}));
        assert_eq!(input.expect("a form").message, "a [2J \nb");
    }
}

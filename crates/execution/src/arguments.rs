//! Parses the arguments of a hosted call, adds the schema's defaults, and validates the result.

use serde_json::{Map, Value};

use super::{
    address,
    tool::{ErrorCode, ToolError},
};
use toolwire_pipeline::{dialect::is_like, tools::arguments_fault, wire::json::Raw};

/// Parses the arguments that a model wrote. An empty string and `null` count as an empty object.
///
/// # Errors
/// The arguments are not a JSON object, or do not match the schema.
pub(super) fn read(written: &str, schema: &Raw) -> Result<Map<String, Value>, ToolError> {
    let invalid = |fault: &str| {
        ToolError::new(ErrorCode::InvalidArguments, format!("The arguments are not valid: {fault}."))
    };
    let written = match written.trim() {
        "" | "null" => "{}",
        text => text,
    };
    let schema = schema.view().raw();
    let own: Map<String, Value> = match serde_json::from_str(written) {
        Ok(own) => own,
        Err(_) => {
            return Err(invalid(
                &arguments_fault(None, written).unwrap_or_else(|| "they are nested too deeply".to_owned()),
            ));
        }
    };
    let properties = properties(schema);
    if let Some((key, name)) = respelled(&own, &properties) {
        return Err(invalid(&format!("`{key}` is not `{name}`, but programs could take it for that")));
    }
    let completed = with_defaults(own.clone(), properties);
    if completed.len() > own.len()
        && arguments_fault(Some(schema), &Value::Object(completed.clone()).to_string()).is_none()
    {
        return Ok(completed);
    }
    match arguments_fault(Some(schema), written) {
        None => Ok(own),
        Some(fault) => Err(invalid(&fault)),
    }
}

/// The arguments that the schema declares.
fn properties(schema: &str) -> Map<String, Value> {
    match serde_json::from_str(schema)
        .ok()
        .and_then(|mut schema: Map<String, Value>| schema.remove("properties"))
    {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    }
}

/// An argument that is not one of `properties`, but that programs could take for one, and the name of that one. Its
/// value would not be checked.
fn respelled(arguments: &Map<String, Value>, properties: &Map<String, Value>) -> Option<(String, String)> {
    let mut others = arguments.keys().filter(|key| !properties.contains_key(*key));
    others.find_map(|key| {
        let name = properties.keys().find(|name| is_like(key, name))?;
        Some((key.clone(), name.clone()))
    })
}

/// Adds the default for each missing argument.
fn with_defaults(mut arguments: Map<String, Value>, properties: Map<String, Value>) -> Map<String, Value> {
    for (name, property) in properties {
        let Value::Object(mut property) = property else { continue };
        if let (Some(default), false) = (property.remove("default"), arguments.contains_key(&name)) {
            arguments.insert(name, default);
        }
    }
    arguments
}

/// Returns the host of the URL in `argument`, in the form that is compared with [`Domain`](address::Domain)s. Replaces
/// the URL with its normal form, so that the tool gets exactly what was checked. Returns `None` if there is no URL.
///
/// # Errors
/// The value is not a URL whose host all programs agree on. Also if the tool may take another argument for
/// this one.
pub(super) fn addressed(
    arguments: &mut Map<String, Value>,
    argument: &str,
) -> Result<Option<String>, ToolError> {
    let blocked = |message: String| Err(ToolError::new(ErrorCode::BlockedUrl, message));
    if let Some(other) = arguments.keys().find(|key| *key != argument && is_like(key, argument)) {
        return blocked(format!("`{other}` is not `{argument}`, but programs could take it for that."));
    }
    let (url, host) = match arguments.get(argument) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(written)) => match address::normal(written) {
            Some(normal) => normal,
            None => {
                return blocked(format!(
                    "`{argument}` is not a URL with a plain host and without a user name."
                ));
            }
        },
        Some(_) => return blocked(format!("`{argument}` is not a URL.")),
    };
    arguments.insert(argument.to_owned(), String::from(url).into());
    Ok(Some(host))
}

/// Serializes the arguments with sorted keys and without whitespace, so that equal arguments have equal text.
pub(super) fn canonical(arguments: &Map<String, Value>) -> String {
    let mut sorted = Value::Object(arguments.clone());
    sorted.sort_all_objects();
    sorted.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Raw {
        Raw::from(json!({
            "type": "object",
            "properties": {
                "query": {"type": "string"},
                "count": {"type": "integer", "default": 5, "maximum": 10},
                "odd": {"type": "integer", "default": "not a number"}
            },
            "required": ["query"]
        }))
    }

    #[test]
    fn missing_arguments_get_the_defaults_of_the_schema() {
        let schema = Raw::from(json!({"properties": {"count": {"type": "integer", "default": 5}}}));
        for written in ["", " ", "null", "{}"] {
            assert_eq!(read(written, &schema).unwrap(), *json!({"count": 5}).as_object().unwrap());
        }
        assert_eq!(read("{\"count\":7}", &schema).unwrap()["count"], 7);
        assert_eq!(read("{\"other\":1}", &schema).unwrap().len(), 2);
    }

    #[test]
    fn defaults_that_do_not_fit_their_own_schema_are_left_out() {
        assert_eq!(read("{\"query\":\"x\"}", &schema()).unwrap().len(), 1);
    }

    #[test]
    fn invalid_arguments_are_explained() {
        for (written, word) in [
            ("{}", "`query` is missing"),
            ("{\"query\":1}", "`query` must be of type string"),
            ("{\"query\":\"x\",\"Count\":11}", "`Count` is not `count`"),
            ("{\"query\":\"x\",\"query\\u0000\":1}", "is not `query`"),
            ("{\"query\":\"x\",\"count\":11}", "`count` must be at most 10"),
            ("[1]", "not a JSON object"),
            ("\"text\"", "not a JSON object"),
            ("{\"query\":", "not valid JSON"),
            ("{\"query\":\"x\"} trailing", "not valid JSON"),
        ] {
            let error = read(written, &schema()).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidArguments);
            assert!(error.message.contains(word), "{written}: {}", error.message);
        }
        let nested = format!("{{\"query\":{}{}}}", "[".repeat(200), "]".repeat(200));
        assert_eq!(read(&nested, &schema()).unwrap_err().code, ErrorCode::InvalidArguments);
    }

    #[test]
    fn equal_arguments_have_the_same_canonical_form() {
        let of = |text: &str| canonical(&serde_json::from_str(text).unwrap());
        assert_eq!(
            of("{\"b\":{\"y\":1,\"x\":2},\"a\":[1, 2]}"),
            of("{ \"a\":[1,2],\"b\":{\"x\":2,\"y\":1} }")
        );
        assert_ne!(of("{\"a\":[1,2]}"), of("{\"a\":[2,1]}"));
        assert_ne!(of("{\"a\":1}"), of("{\"a\":\"1\"}"));
    }
}

//! [`Template`]: a program's arguments, with placeholders for the arguments of a call.
//!
//! A placeholder is always a complete argument, so a value cannot become two arguments. A value that starts with `-`
//! could be mistaken for an option, so it is only accepted after the argument `--`, which ends the options.

use serde_json::{Map, Value};

use crate::{ErrorCode, ToolError, providers::Fault};

/// Maximum size of an argument, in bytes. Linux accepts 128 KiB.
const LONGEST: usize = 100 << 10;

#[derive(Debug, Clone)]
pub(super) struct Template(Vec<Part>);

#[derive(Debug, Clone)]
enum Part {
    Fixed(String),
    /// The call's argument of this name.
    Argument { name: String, dashes: Dashes },
}

impl Template {
    /// Parses `command`, whose first element is the program. If the schema `parameters` has properties, each
    /// placeholder must be one of them.
    ///
    /// # Errors
    /// What is wrong with `command`.
    pub(super) fn new(command: &[String], parameters: &Value) -> Result<Self, Fault> {
        let fault = |message: String| Fault::new("command", message);
        let missing = || fault("`command` is missing: the program and its arguments".to_owned());
        let (program, arguments) = command.split_first().ok_or_else(missing)?;
        if place(program).is_some() {
            return Err(fault("the program itself cannot be an argument of the call".to_owned()));
        }
        let properties = parameters.get("properties").and_then(Value::as_object);
        let mut may_begin_with_dash = false;
        let part = |argument: &String| {
            let Some(name) = place(argument) else {
                may_begin_with_dash |= argument == "--";
                return Ok(Part::Fixed(argument.clone()));
            };
            if properties.is_none_or(|properties| !properties.contains_key(name)) {
                return Err(fault(format!("`command` has `{argument}`, but `parameters` has no property `{name}`")));
            }
            let dashes = match may_begin_with_dash {
                true => Dashes::Allowed,
                false => Dashes::Listed(properties.and_then(|own| own.get(name)).map(listed).unwrap_or_default()),
            };
            Ok(Part::Argument { name: name.to_owned(), dashes })
        };
        Ok(Self(arguments.iter().map(part).collect::<Result<_, _>>()?))
    }

    /// The program's arguments for a call.
    pub(super) fn fill(&self, call: &Map<String, Value>) -> Result<Vec<String>, ToolError> {
        let mut filled = Vec::with_capacity(self.0.len());
        for part in &self.0 {
            match part {
                Part::Fixed(argument) => filled.push(argument.clone()),
                Part::Argument { name, dashes } => filled.extend(value(name, call.get(name), dashes)?),
            }
        }
        Ok(filled)
    }
}

/// Whether a value may start with `-`, which programs could mistake for an option.
#[derive(Debug, Clone)]
enum Dashes {
    /// The argument comes after `--`.
    Allowed,
    /// Only these strings, which the configuration lists, may start with `-`.
    Listed(Vec<String>),
}

impl Dashes {
    fn allow(&self, text: &str) -> bool {
        match self {
            Self::Allowed => true,
            Self::Listed(texts) => texts.iter().any(|own| own == text),
        }
    }
}

/// The strings that a property allows as values.
fn listed(property: &Value) -> Vec<String> {
    let values = property.get("enum").and_then(Value::as_array).into_iter().flatten();
    values.chain(property.get("const")).filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The name in a placeholder `{NAME}`.
fn place(argument: &str) -> Option<&str> {
    let name = argument.strip_prefix('{')?.strip_suffix('}')?;
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (!name.is_empty() && name.bytes().all(is_legal)).then_some(name)
}

fn value(name: &str, value: Option<&Value>, dashes: &Dashes) -> Result<Option<String>, ToolError> {
    let wrong = |what: &str| {
        Err(ToolError::new(ErrorCode::InvalidArguments, format!("The argument `{name}` {what}.")))
    };
    let text = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) if text.starts_with('-') && !dashes.allow(text) => {
            return wrong("must not begin with `-`");
        }
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    match text {
        text if text.contains('\0') => wrong("contains a NUL character"),
        text if text.len() > LONGEST => wrong("is too long"),
        text => Ok(Some(text)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(command: &[&str]) -> Result<Template, Fault> {
        let command: Vec<_> = command.iter().map(|element| (*element).to_owned()).collect();
        Template::new(&command, &json!({"properties": {"a": {}, "b": {}}}))
    }

    fn filled(command: &[&str], call: Value) -> Result<Vec<String>, String> {
        let Value::Object(call) = call else { panic!("not an object") };
        template(command).unwrap().fill(&call).map_err(|error| error.message)
    }

    #[test]
    fn a_value_is_one_argument_whatever_it_contains() {
        let call = json!({"a": "x; rm -rf / $(id) \"' {b}\n", "b": [1, {"c": 2.50}]});
        let expected = vec!["x; rm -rf / $(id) \"' {b}\n".to_owned(), "[1,{\"c\":2.5}]".to_owned()];
        assert_eq!(filled(&["p", "{a}", "{b}"], call), Ok(expected));
    }

    #[test]
    fn strings_that_the_schema_lists_may_begin_with_a_dash() {
        let of = |property: Value, text: &str| {
            let command = ["p", "{a}"].map(str::to_owned);
            let template = Template::new(&command, &json!({"properties": {"a": property}})).unwrap();
            template.fill(json!({"a": text}).as_object().unwrap()).map_err(|error| error.message)
        };
        let given = |text: &str| Ok(vec![text.to_owned()]);
        assert_eq!(of(json!({"enum": ["-5", "5"]}), "-5"), given("-5"));
        assert_eq!(of(json!({"const": "-x"}), "-x"), given("-x"));
        assert!(of(json!({"enum": ["-5", "5"]}), "-6").is_err());
        assert!(of(json!({"type": "string"}), "-5").is_err());
    }

    #[test]
    fn an_absent_argument_is_left_out() {
        assert_eq!(filled(&["p", "-x", "{a}", "{b}"], json!({"b": null})), Ok(vec!["-x".to_owned()]));
    }

    #[test]
    fn only_whole_elements_are_places() {
        let fixed = ["p", "x{a}", "{a}x", "{}", "{a b}", "{{a}}"];
        assert_eq!(filled(&fixed, json!({"a": "1"})), Ok(fixed.iter().skip(1).map(|e| (*e).to_owned()).collect()));
    }

    #[test]
    fn an_option_is_refused_unless_options_have_ended() {
        let call = || json!({"a": "--output=/etc/passwd"});
        assert_eq!(
            filled(&["p", "{a}"], call()),
            Err("The argument `a` must not begin with `-`.".to_owned())
        );
        assert!(filled(&["p", "--", "{a}"], call()).is_ok());
        assert!(filled(&["p", "{a}", "--"], call()).is_err());
        assert_eq!(filled(&["p", "{a}"], json!({"a": -5})), Ok(vec!["-5".to_owned()]));
    }

    #[test]
    fn what_the_system_cannot_pass_is_refused() {
        assert!(filled(&["p", "{a}"], json!({"a": "x\0y"})).is_err());
        assert!(filled(&["p", "{a}"], json!({"a": "x".repeat(LONGEST)})).is_ok());
        assert!(filled(&["p", "{a}"], json!({"a": "x".repeat(LONGEST + 1)})).is_err());
    }

    #[test]
    fn wrong_templates_are_reported() {
        for (command, reason) in [
            (&[][..], "`command` is missing"),
            (&["{a}"], "the program itself"),
            (&["p", "{c}"], "no property `c`"),
        ] {
            let found = template(command).map(|_| ()).expect_err(reason);
            assert!(found.message.contains(reason), "{found}");
        }
    }
}

//! The environment in which templates run: what transformers adds to Jinja, and adjustments where minijinja differs
//! from Python.

use std::error;

use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value, escape_formatter,
    syntax::SyntaxConfig,
    value::{Kwargs, ValueKind},
};
use minijinja_contrib::globals;

use super::{methods, python};

/// The maximum depth of nested macro and block calls.
const RECURSION: usize = 60;

/// How many bytes of JSON cost one unit of work. The engine itself charges for a filter's result only once it
/// exists.
const JSON_PER_FUEL: usize = 16;

pub(super) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        environment.set_syntax(syntax);
    }
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_recursion_limit(RECURSION);
    environment.set_unknown_method_callback(methods::call);
    environment.add_filter("join", methods::join);
    environment.set_formatter(formatter);
    environment.add_filter(
        "tojson",
        |state: &State<'_, '_>, value: &Value, indent: Option<Value>, options: Kwargs| {
            let fuel = state.fuel_levels().map_or(0, |(_, remaining)| remaining);
            let limit = usize::try_from(fuel).unwrap_or(usize::MAX).saturating_mul(JSON_PER_FUEL);
            python::tojson(value, (indent, options), limit)
        },
    );
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::String | ValueKind::Undefined)
    });
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("cycler", globals::cycler);
    environment.add_function("joiner", globals::joiner);
    environment
}

/// Formats floats like Python does.
fn formatter(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    if value.kind() == ValueKind::Number && !value.is_integer() {
        let number = f64::try_from(value.clone())?;
        return out.write_str(&python::float(number)).map_err(Error::from);
    }
    escape_formatter(out, state, value)
}

/// The message with which a template rejects a conversation.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refusal(String);

/// The maximum length, in characters, of such a message when it is shown to the client.
const MAX_REFUSAL: usize = 1000;

fn raise_exception(message: &Value) -> Result<Value, Error> {
    let message: String = message.to_string().chars().take(MAX_REFUSAL).collect();
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Refusal(message)))
}

/// Returns the message of `raise_exception` if that caused the error.
pub(super) fn refusal_of(error: &Error) -> Option<String> {
    let mut source: Option<&dyn error::Error> = Some(error);
    while let Some(current) = source {
        if let Some(Refusal(message)) = current.downcast_ref() {
            return Some(message.clone());
        }
        source = current.source();
    }
    None
}

//! Encodes the tools and the tool choice of a request.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::super::{
    Options, Schemas,
    decode::stands_for,
    schema::{MAX_FOLLOWED, reduced},
};
use crate::{
    Dialect,
    conversation::{Conversation, Tool, ToolChoice},
    schemas::{has_choices, of_object},
    wire::json::Encoder,
};

/// Whether this module writes the field `key` of a request.
pub(super) fn owns(key: &str) -> bool {
    matches!(key, TOOLS | CONFIG)
}

const TOOLS: &str = "tools";
const CONFIG: &str = "toolConfig";

/// Writes the tools and the tool choice. `own` contains what a client of this API wrote.
pub(super) fn put(
    body: &mut Encoder,
    conversation: &Conversation,
    own: &Map<String, Value>,
    options: &Options,
) {
    // The API accepts a list of allowed names only if a call is required.
    let is_limited = matches!(conversation.tool_choice, ToolChoice::Allowed { required: false, .. });
    let limited = conversation.callable_tools().filter(|_| is_limited);
    let limited: HashSet<&str> = limited.map(|tool| tool.name.as_str()).collect();
    let callable = |tool: &&Tool| !is_limited || limited.contains(tool.name.as_str());
    let tools: Vec<&Tool> = conversation.tools.iter().filter(callable).collect();
    let server = own.get(TOOLS).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if tools.is_empty() && options.native_tools.is_empty() && server.is_empty() {
        return;
    }
    body.key(TOOLS).array(|body| {
        if !tools.is_empty() {
            let mut follows = MAX_FOLLOWED;
            body.object(|body| {
                body.key("functionDeclarations").array(|body| {
                    tools.iter().for_each(|tool| declaration(body, tool, options, &mut follows));
                });
            });
        }
        let is_declared = |name: &String| server.iter().any(|tool| tool.get(name).is_some());
        for name in options.native_tools.iter().filter(|name| !is_declared(name)) {
            body.object(|body| body.key(name).object(|_| {}));
        }
        for tool in server.iter().filter_map(Value::as_object) {
            // The decoder has added the type.
            body.object(|body| {
                for (key, value) in tool.iter().filter(|(key, _)| *key != "type") {
                    body.key(key).value(value);
                }
            });
        }
    });
    let config = own.get(CONFIG).and_then(Value::as_object);
    let config = config.cloned().unwrap_or_default();
    put_config(body, config, Some(&conversation.tool_choice).filter(|_| !tools.is_empty()));
}

/// Writes the tool configuration, with the client's own if it still says the same.
fn put_config(body: &mut Encoder, mut config: Map<String, Value>, choice: Option<&ToolChoice>) {
    const CALLING: &str = "functionCallingConfig";
    let is_own = config.get(CALLING).is_some_and(|own| choice.is_some_and(|choice| stands_for(own, choice)));
    if !is_own {
        config.shift_remove(CALLING);
        if let Some(calling) = choice.and_then(calling_config) {
            config.insert(CALLING.to_owned(), calling.into());
        }
    }
    if !config.is_empty() {
        body.key(CONFIG).value(&config);
    }
}

/// `follows` is the remaining part of [`MAX_FOLLOWED`].
fn declaration(body: &mut Encoder, tool: &Tool, options: &Options, follows: &mut usize) {
    let declared = tool.declared.as_ref().and_then(|declared| declared.from_dialect(Dialect::Gemini.name()));
    if let Some(declared) = declared.filter(|_| options.schemas == Schemas::JsonSchema) {
        return body.raw(declared.view());
    }
    body.object(|body| {
        body.key("name").string(&tool.name);
        if !tool.description.is_empty() {
            body.key("description").string(&tool.description);
        }
        let Some(parameters) = &tool.parameters else { return };
        match options.schemas {
            Schemas::JsonSchema => body.key("parametersJsonSchema").raw(parameters.view()),
            Schemas::OpenApi => {
                let schema = parameters.view().to_value();
                // The API does not allow alternatives for the arguments as a whole.
                let schema = if has_choices(parameters.view()) { of_object(&schema) } else { schema };
                let schema = reduced(&schema, follows);
                // The API rejects an object without properties, but accepts a function without parameters.
                let has_properties =
                    schema.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
                if has_properties {
                    body.key("parameters").value(&schema);
                }
            }
        }
    });
}

/// The configuration for a choice. `None` for the default.
fn calling_config(choice: &ToolChoice) -> Option<Map<String, Value>> {
    let (mode, names): (_, &[String]) = match choice {
        ToolChoice::Auto | ToolChoice::Allowed { required: false, .. } => return None,
        ToolChoice::None => ("NONE", &[]),
        ToolChoice::Required => ("ANY", &[]),
        ToolChoice::Named(name) => ("ANY", std::slice::from_ref(name)),
        ToolChoice::Allowed { names, .. } => ("ANY", names),
    };
    let mut config = Map::new();
    config.insert("mode".to_owned(), mode.into());
    if !names.is_empty() {
        config.insert("allowedFunctionNames".to_owned(), names.to_vec().into());
    }
    Some(config)
}

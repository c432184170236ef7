//! Encodes the tools and the tool choice of a request.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::super::{
    Options, Schemas,
    schema::{MAX_FOLLOWED, reduced},
};
use crate::{
    conversation::{Conversation, Tool, ToolChoice},
    schemas::{has_choices, of_object},
    wire::json::Encoder,
};

pub(super) fn put(body: &mut Encoder, conversation: &Conversation, options: &Options) {
    // The API accepts a list of allowed names only if a call is required.
    let is_limited = matches!(conversation.tool_choice, ToolChoice::Allowed { required: false, .. });
    let limited = conversation.callable_tools().filter(|_| is_limited);
    let limited: HashSet<&str> = limited.map(|tool| tool.name.as_str()).collect();
    let callable = |tool: &&Tool| !is_limited || limited.contains(tool.name.as_str());
    let tools: Vec<&Tool> = conversation.tools.iter().filter(callable).collect();
    if tools.is_empty() && options.native_tools.is_empty() {
        return;
    }
    body.key("tools").array(|body| {
        if !tools.is_empty() {
            let mut follows = MAX_FOLLOWED;
            body.object(|body| {
                body.key("functionDeclarations").array(|body| {
                    tools.iter().for_each(|tool| declaration(body, tool, options, &mut follows));
                });
            });
        }
        for name in &options.native_tools {
            body.object(|body| body.key(name).object(|_| {}));
        }
    });
    if !tools.is_empty() {
        choice(body, &conversation.tool_choice);
    }
}

/// `follows` is the remaining part of [`MAX_FOLLOWED`].
fn declaration(body: &mut Encoder, tool: &Tool, options: &Options, follows: &mut usize) {
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

fn choice(body: &mut Encoder, choice: &ToolChoice) {
    let (mode, names): (_, &[String]) = match choice {
        ToolChoice::Auto | ToolChoice::Allowed { required: false, .. } => return,
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
    body.key("toolConfig").object(|body| body.key("functionCallingConfig").value(&config));
}

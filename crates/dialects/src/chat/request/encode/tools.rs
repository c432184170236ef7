//! Encodes the tools and the tool choice of a request.

use serde_json::{Map, Value};

use super::DIALECT;
use crate::{
    Dialect,
    cache_hints::{CACHE_CONTROL, of_tool},
    chat::{Options, Profile, Server},
    conversation::{Conversation, Tool, ToolChoice},
    schemas::{for_openai, without_parameters},
    wire::json::{Encoder, Json},
};

/// Whether this module writes the field `key` of `rest`.
pub(super) fn owns(key: &str) -> bool {
    matches!(key, "tools" | "tool_choice" | "function_call" | "parallel_tool_calls")
}

/// Writes the tools and the tool choice. The tool choice is omitted if there are no tools, or if they are
/// described in the prompt. The upstream's own tools that the client requested are forwarded.
pub(super) fn put(
    body: &mut Encoder,
    conversation: &Conversation,
    rest: &Map<String, Value>,
    options: &Options,
) {
    let own = rest.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if conversation.tools.is_empty() && own.is_empty() {
        return;
    }
    let (tools_key, choice_key) = match conversation.legacy_functions {
        true => ("functions", "function_call"),
        false => ("tools", "tool_choice"),
    };
    body.key(tools_key).array(|body| {
        conversation.tools.iter().for_each(|tool| declaration(body, tool, conversation, options));
        own.iter().for_each(|tool| body.value(tool));
    });
    choice(body, conversation, rest.get(choice_key), choice_key, options);
    if !conversation.parallel_calls {
        body.key("parallel_tool_calls").value(&false);
    } else if let Some(asked) = rest.get("parallel_tool_calls") {
        body.key("parallel_tool_calls").value(asked);
    }
}

fn declaration(body: &mut Encoder, tool: &Tool, conversation: &Conversation, options: &Options) {
    if let Some(declared) = tool.declared.as_ref().and_then(|declared| declared.from_dialect(DIALECT))
        && (options.keep_custom_tools || !conversation.is_custom(&tool.name))
    {
        return match mended(tool, declared.view(), options) {
            Some(declared) => body.value(&declared),
            None => body.raw(declared.view()),
        };
    }
    let function = |body: &mut Encoder| {
        body.key("name").string(&tool.name);
        if !tool.description.is_empty() {
            body.key("description").string(&tool.description);
        }
        if let Some(parameters) = &tool.parameters {
            match other_schema(parameters.view(), options) {
                Some(schema) => body.key("parameters").value(&schema),
                None => body.key("parameters").raw(parameters.view()),
            }
        }
        if let Some(strict) = &tool.strict {
            body.key("strict").value(strict);
        }
    };
    if conversation.legacy_functions {
        body.object(function);
    } else {
        body.object(|body| {
            body.key("type").string("function");
            body.key("function").object(function);
            let hint = options.takes_cache_hints().then(|| of_tool(tool, Dialect::Messages.name())).flatten();
            if let Some(hint) = hint {
                body.key(CACHE_CONTROL).value(&hint);
            }
        });
    }
}

/// A replacement for a schema that the upstream would reject.
fn other_schema(schema: Json<'_>, options: &Options) -> Option<Value> {
    let is_strict = options.strict_schemas
        || matches!(options.profile, Profile::OpenAi | Profile::Azure)
        || matches!(options.server, Server::OpenAi | Server::LmStudio);
    if is_strict { for_openai(schema) } else { None }
}

/// The client's declaration with a replaced schema, if the upstream would reject the client's schema. All
/// servers reject a null schema.
fn mended(tool: &Tool, declared: Json<'_>, options: &Options) -> Option<Value> {
    let schema = match &tool.parameters {
        Some(parameters) => other_schema(parameters.view(), options)?,
        None => {
            let function = declared.get("function").unwrap_or(declared);
            function.get("parameters").map(|_| without_parameters())?
        }
    };
    let mut mended = declared.to_value();
    let is_nested = mended.get("function").is_some_and(Value::is_object);
    let function = if is_nested { mended.get_mut("function")? } else { &mut mended };
    function.as_object_mut()?.insert("parameters".to_owned(), schema);
    Some(mended)
}

/// Writes the tool choice as `key`. `written` is the client's own value, if it only repeats the default.
fn choice(
    body: &mut Encoder,
    conversation: &Conversation,
    written: Option<&Value>,
    key: &str,
    options: &Options,
) {
    match &conversation.tool_choice {
        ToolChoice::Auto => {
            if let Some(written) = written {
                body.key(key).value(written);
            }
        }
        ToolChoice::None => body.key(key).string("none"),
        ToolChoice::Required => body.key(key).string(options.required_choice.word()),
        ToolChoice::Named(name) if conversation.legacy_functions => named(body.key(key), name),
        ToolChoice::Named(name) => reference(body.key(key), conversation, name, options),
        ToolChoice::Allowed { names, required } => body.key(key).object(|body| {
            body.key("type").string("allowed_tools");
            body.key("allowed_tools").object(|body| {
                body.key("mode").string(if *required { "required" } else { "auto" });
                body.key("tools").array(|body| {
                    names.iter().for_each(|name| reference(body, conversation, name, options));
                });
            });
        }),
    }
}

/// Writes a reference to a declared tool, as its type requires.
fn reference(body: &mut Encoder, conversation: &Conversation, name: &str, options: &Options) {
    let is_custom = options.keep_custom_tools && conversation.is_custom(name);
    let kind = if is_custom { "custom" } else { "function" };
    body.object(|body| {
        body.key("type").string(kind);
        named(body.key(kind), name);
    });
}

fn named(body: &mut Encoder, name: &str) {
    body.object(|body| body.key("name").string(name));
}

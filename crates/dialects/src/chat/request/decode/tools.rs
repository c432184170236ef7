//! Decodes `tools`, `tool_choice` and `parallel_tool_calls`, and also `functions` and `function_call`, which
//! were used before November 2023.

use std::{borrow::Cow, collections::HashSet};

use crate::{
    Dialect,
    conversation::{Received, ServerTool, Tool, ToolChoice},
    custom_tools::input_schema,
    failure::Failure,
    fields::{Fields, Path, check_name, check_names_differ, wrong_type, wrong_value},
    wire::json::{Json, Kind as JsonKind},
};

pub(super) struct Toolbox {
    pub(super) tools: Vec<Tool>,
    pub(super) custom: HashSet<String>,
    pub(super) server: Vec<ServerTool>,
    pub(super) choice: ToolChoice,
    pub(super) parallel: bool,
    pub(super) legacy: bool,
}

/// Takes all fields that concern tools out of the request.
///
/// Tools of unknown types, such as an upstream's own search, have no name under which they could be called.
/// They stay in `tools` in `rest`, for upstreams of this dialect, and so does a tool choice that only repeats
/// the default.
pub(super) fn take(request: &mut Fields<'_, '_>) -> Result<Toolbox, Failure> {
    let (mut tools, mut custom, mut server, mut unknown) =
        (Vec::new(), HashSet::new(), Vec::new(), Vec::new());
    for (place, declaration) in request.list("tools")?.enumerate() {
        match declared(Path::Element(&request.at("tools"), place), declaration)? {
            Declared::Function(tool) => tools.push(tool),
            Declared::Custom(tool) => {
                custom.insert(tool.name.clone());
                tools.push(tool);
            }
            Declared::Unknown(tool) => {
                server.push(tool);
                unknown.push(declaration.to_value());
            }
        }
    }
    let functions = functions(request)?;
    let legacy = !functions.is_empty();
    if legacy && !(tools.is_empty() && unknown.is_empty()) {
        let why = "cannot be used together with `tools`; use `tools` alone";
        return Err(wrong_value(request.at("functions"), why));
    }
    tools.extend(functions);
    check_names_differ(request.at(if legacy { "functions" } else { "tools" }), &tools)?;
    let choice = choice(request)?;
    let parallel = request.boolean("parallel_tool_calls")?;
    if parallel == Some(true) {
        request.keep("parallel_tool_calls", true);
    }
    if !unknown.is_empty() {
        request.keep("tools", unknown);
    }
    Ok(Toolbox { tools, custom, server, choice, parallel: parallel.unwrap_or(true), legacy })
}

enum Declared {
    Function(Tool),
    Custom(Tool),
    Unknown(ServerTool),
}

fn declared(path: Path<'_>, declaration: Json<'_>) -> Result<Declared, Failure> {
    let mut fields = Fields::new(path, declaration)?;
    match fields.string("type")?.as_deref() {
        None | Some("function") => {
            tool(fields.needed_object("function")?, declaration).map(Declared::Function)
        }
        Some("custom") => custom_tool(fields.needed_object("custom")?, declaration).map(Declared::Custom),
        Some(kind) => {
            let named = declaration.get("function").unwrap_or(declaration).get("name");
            let name = named.and_then(|name| name.as_str()).map(Cow::into_owned);
            Ok(Declared::Unknown(ServerTool::new(kind, name)))
        }
    }
}

/// Decodes a custom tool, whose input is plain text, as a function with one argument.
fn custom_tool(mut body: Fields<'_, '_>, declared: Json<'_>) -> Result<Tool, Failure> {
    let parameters = input_schema(body.any("format"));
    Ok(Tool { parameters, ..tool(body, declared)? })
}

fn functions(request: &mut Fields<'_, '_>) -> Result<Vec<Tool>, Failure> {
    let functions = request.list("functions")?;
    let path = request.at("functions");
    let function =
        |(place, declaration)| tool(Fields::new(Path::Element(&path, place), declaration)?, declaration);
    functions.enumerate().map(function).collect()
}

fn tool(mut body: Fields<'_, '_>, declared: Json<'_>) -> Result<Tool, Failure> {
    let Some(name) = body.string("name")? else {
        return Err(wrong_value(body.at("name"), "is missing; a tool needs a name"));
    };
    check_name(body.at("name"), &name)?;
    let description = body.string("description")?.unwrap_or_default().into_owned();
    let strict = body.boolean("strict")?;
    let parameters = body.any("parameters");
    if let Some(other) = parameters
        && !matches!(other.kind(), JsonKind::Object | JsonKind::Bool)
    {
        return Err(wrong_type(body.at("parameters"), "a JSON Schema object", other));
    }
    let name = name.into_owned();
    Ok(Tool {
        name,
        description,
        parameters: parameters.map(Into::into),
        strict,
        declared: Some(Received::new(Dialect::Chat.name(), declared.into())),
    })
}

fn choice(request: &mut Fields<'_, '_>) -> Result<ToolChoice, Failure> {
    let key = if request.peek("tool_choice").is_none() { "function_call" } else { "tool_choice" };
    let Some(value) = request.any(key) else { return Ok(ToolChoice::Auto) };
    let path = request.at(key);
    match (value.as_str().as_deref(), value.kind()) {
        (Some("auto"), _) => {
            request.keep(key, "auto");
            Ok(ToolChoice::Auto)
        }
        (Some("none"), _) => Ok(ToolChoice::None),
        (Some("required"), _) => Ok(ToolChoice::Required),
        (Some(other), _) => Err(unknown_choice(path, other)),
        (None, JsonKind::Object) if key == "function_call" => {
            Ok(ToolChoice::Named(Fields::new(path, value)?.needed_string("name")?.into_owned()))
        }
        (None, JsonKind::Object) => object_choice(Fields::new(path, value)?),
        (None, _) => Err(wrong_type(path, "a string or an object", value)),
    }
}

fn object_choice(mut choice: Fields<'_, '_>) -> Result<ToolChoice, Failure> {
    match &*choice.needed_string("type")? {
        kind @ ("function" | "custom") => {
            Ok(ToolChoice::Named(choice.needed_object(kind)?.needed_string("name")?.into_owned()))
        }
        "allowed_tools" => allowed(choice.needed_object("allowed_tools")?),
        other => Err(wrong_value(
            choice.at("type"),
            format_args!("is `{other}`; known are `function`, `custom` and `allowed_tools`"),
        )),
    }
}

fn allowed(mut allowed: Fields<'_, '_>) -> Result<ToolChoice, Failure> {
    let required = match &*allowed.needed_string("mode")? {
        "auto" => false,
        "required" => true,
        other => {
            let why = format_args!("is `{other}`; known are `auto` and `required`");
            return Err(wrong_value(allowed.at("mode"), why));
        }
    };
    let tools = allowed.list("tools")?;
    let path = allowed.at("tools");
    let name = |(place, tool)| {
        let path = Path::Element(&path, place);
        let mut tool = Fields::new(path, tool)?;
        let kind = if tool.peek("custom").is_some() { "custom" } else { "function" };
        tool.needed_object(kind)?.needed_string("name").map(Cow::into_owned)
    };
    let names = tools.enumerate().map(name).collect::<Result<_, Failure>>()?;
    Ok(ToolChoice::Allowed { names, required })
}

fn unknown_choice(path: Path<'_>, word: &str) -> Failure {
    wrong_value(
        path,
        format_args!("is `{word}`; known are `none`, `auto`, `required` and an object that names a tool"),
    )
}

//! `tools`, `tool_choice`, `parallel_tool_calls`, and their forms of before 2023-11, `functions` and
//! `function_call`.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    check_name,
    fields::{Fields, wrong_type, wrong_value},
};
use crate::{
    conversation::{Tool, ToolChoice},
    failure::Failure,
};

/// What a request says of tools.
pub(super) struct Toolbox {
    pub(super) tools: Vec<Tool>,
    pub(super) choice: ToolChoice,
    pub(super) parallel: bool,
    pub(super) legacy: bool,
}

/// Takes all fields about tools out of the request.
///
/// Tools of a type that is not known here (an upstream's own search, say) have no name to be called by. They stay
/// in the rest under `tools`, and so do choices that only repeat the default, each for an upstream of this dialect.
pub(super) fn take(request: &mut Fields) -> Result<Toolbox, Failure> {
    let mut tools = Vec::new();
    let mut unknown = Vec::new();
    for (place, tool) in request.list("tools")?.unwrap_or_default().into_iter().enumerate() {
        match declared(&format!("tools[{place}]"), tool)? {
            Declared::Tool(tool) => tools.push(tool),
            Declared::Unknown(tool) => unknown.push(tool),
        }
    }
    let functions = functions(request)?;
    let legacy = !functions.is_empty();
    if legacy && !(tools.is_empty() && unknown.is_empty()) {
        return Err(wrong_value("functions", "cannot be used together with `tools`; use `tools` alone"));
    }
    tools.extend(functions);
    no_doubles(&tools, if legacy { "functions" } else { "tools" })?;
    let choice = choice(request, &tools, !unknown.is_empty())?;
    let parallel = request.boolean("parallel_tool_calls")?;
    if parallel == Some(true) {
        request.keep("parallel_tool_calls", true);
    }
    if !unknown.is_empty() {
        request.keep("tools", unknown);
    }
    Ok(Toolbox { tools, choice, parallel: parallel.unwrap_or(true), legacy })
}

enum Declared {
    Tool(Tool),
    Unknown(Value),
}

fn declared(path: &str, declaration: Value) -> Result<Declared, Failure> {
    let mut fields = Fields::new(path, declaration.clone())?;
    let body = match fields.string("type")?.as_deref() {
        None | Some("function") => fields.needed_object("function")?,
        Some("custom") => fields.needed_object("custom")?,
        Some(_) => return Ok(Declared::Unknown(declaration)),
    };
    tool(body, declaration).map(Declared::Tool)
}

fn functions(request: &mut Fields) -> Result<Vec<Tool>, Failure> {
    let functions = request.list("functions")?.unwrap_or_default();
    let function = |(place, declaration): (usize, Value)| {
        tool(Fields::new(format!("functions[{place}]"), declaration.clone())?, declaration)
    };
    functions.into_iter().enumerate().map(function).collect()
}

fn tool(mut body: Fields, declared: Value) -> Result<Tool, Failure> {
    let Some(name) = body.string("name")? else {
        return Err(wrong_value(&body.at("name"), "is missing; a tool needs a name"));
    };
    check_name(&body.at("name"), &name)?;
    let description = body.string("description")?.unwrap_or_default();
    let strict = body.boolean("strict")?;
    let parameters = match body.any("parameters") {
        None => Value::Null,
        Some(schema @ (Value::Object(_) | Value::Bool(_))) => schema,
        Some(other) => return Err(wrong_type(&body.at("parameters"), "a JSON Schema object", &other)),
    };
    Ok(Tool { name, description, parameters, strict, declared })
}

fn no_doubles(tools: &[Tool], list: &str) -> Result<(), Failure> {
    let mut names = HashSet::new();
    match tools.iter().find(|tool| !names.insert(tool.name.as_str())) {
        Some(tool) => {
            Err(wrong_value(list, format_args!("declares `{}` twice; names must differ", tool.name)))
        }
        None => Ok(()),
    }
}

fn choice(request: &mut Fields, tools: &[Tool], has_unknown: bool) -> Result<ToolChoice, Failure> {
    let key = if request.peek("tool_choice").is_none() { "function_call" } else { "tool_choice" };
    let path = request.at(key);
    let choice = match request.any(key) {
        None => return Ok(ToolChoice::Auto),
        Some(Value::String(word)) => match word.as_str() {
            "auto" => {
                request.keep(key, "auto");
                ToolChoice::Auto
            }
            "none" => ToolChoice::None,
            "required" => ToolChoice::Required,
            other => return Err(unknown_choice(&path, other)),
        },
        Some(Value::Object(object)) if key == "function_call" => {
            ToolChoice::Named(Fields::new(&*path, Value::Object(object))?.needed_string("name")?)
        }
        Some(Value::Object(object)) => object_choice(Fields::new(&*path, Value::Object(object))?)?,
        Some(other) => return Err(wrong_type(&path, "a string or an object", &other)),
    };
    check_choice(&path, &choice, tools, has_unknown)?;
    Ok(choice)
}

fn object_choice(mut choice: Fields) -> Result<ToolChoice, Failure> {
    match choice.needed_string("type")?.as_str() {
        kind @ ("function" | "custom") => {
            Ok(ToolChoice::Named(choice.needed_object(kind)?.needed_string("name")?))
        }
        "allowed_tools" => allowed(choice.needed_object("allowed_tools")?),
        other => Err(wrong_value(
            &choice.at("type"),
            format_args!("is `{other}`; known are `function`, `custom` and `allowed_tools`"),
        )),
    }
}

fn allowed(mut allowed: Fields) -> Result<ToolChoice, Failure> {
    let required = match allowed.needed_string("mode")?.as_str() {
        "auto" => false,
        "required" => true,
        other => {
            let why = format_args!("is `{other}`; known are `auto` and `required`");
            return Err(wrong_value(&allowed.at("mode"), why));
        }
    };
    let path = allowed.at("tools");
    let name = |(place, tool)| {
        let mut tool = Fields::new(format!("{path}[{place}]"), tool)?;
        let kind = if tool.peek("custom").is_some() { "custom" } else { "function" };
        tool.needed_object(kind)?.needed_string("name")
    };
    let tools = allowed.list("tools")?.unwrap_or_default();
    let names = tools.into_iter().enumerate().map(name).collect::<Result<_, Failure>>()?;
    Ok(ToolChoice::Allowed { names, required })
}

/// A choice must be one that can be met.
fn check_choice(path: &str, choice: &ToolChoice, tools: &[Tool], has_unknown: bool) -> Result<(), Failure> {
    let names: &[String] = match choice {
        ToolChoice::Auto | ToolChoice::None => return Ok(()),
        ToolChoice::Required if tools.is_empty() && !has_unknown => {
            return Err(wrong_value(path, "asks for a call, but no tools are declared"));
        }
        ToolChoice::Required => return Ok(()),
        ToolChoice::Named(name) => std::slice::from_ref(name),
        ToolChoice::Allowed { names, .. } => names,
    };
    match names.iter().find(|name| !tools.iter().any(|tool| tool.name == **name)) {
        Some(name) => {
            Err(wrong_value(path, format_args!("names `{name}`, which is not among the declared tools")))
        }
        None => Ok(()),
    }
}

fn unknown_choice(path: &str, word: &str) -> Failure {
    wrong_value(
        path,
        format_args!("is `{word}`; known are `none`, `auto`, `required` and an object that names a tool"),
    )
}

//! Decodes `tools` and `toolConfig`.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{DIALECT, openapi::json_schema};
use crate::{
    conversation::{Received, ServerTool, Tool, ToolChoice},
    failure::Failure,
    field_case::camel_case,
    fields::{Fields, Path, check_name, check_names_differ, wrong_type, wrong_value},
    wire::json::{Json, Kind, Raw},
};

#[derive(Default)]
pub(super) struct Toolbox {
    pub(super) tools: Vec<Tool>,
    /// The tools that Google's servers run.
    pub(super) server: Vec<ServerTool>,
    pub(super) choice: ToolChoice,
}

/// Takes all fields that concern tools out of the request. Tools that Google's servers run, and the tool
/// configuration, stay for upstreams of this dialect.
pub(super) fn take(request: &mut Fields<'_, '_>) -> Result<Toolbox, Failure> {
    let mut toolbox = Toolbox::default();
    let mut server = Vec::new();
    let list = request.list("tools")?;
    let path = request.at("tools");
    for (place, element) in list.enumerate() {
        let mut fields = Fields::in_camel_case(Path::Element(&path, place), element)?;
        let declarations = fields.list("functionDeclarations")?;
        let path = fields.at("functionDeclarations");
        for (place, declaration) in declarations.enumerate() {
            toolbox.tools.push(declared(Path::Element(&path, place), declaration)?);
        }
        for (key, value) in fields.into_rest() {
            let kind = kind_of(&key);
            toolbox.server.push(ServerTool::new(kind.clone(), None));
            server.push(Value::Object(Map::from_iter([("type".to_owned(), kind.into()), (key, value)])));
        }
    }
    check_names_differ(path, &toolbox.tools)?;
    choice(request, &mut toolbox)?;
    if !server.is_empty() {
        request.keep("tools", server);
    }
    Ok(toolbox)
}

/// The type of a tool that Google's servers run, which is its name in snake case. Other APIs and toolwire call
/// the search `web_search`.
fn kind_of(key: &str) -> String {
    if matches!(key, "googleSearch" | "googleSearchRetrieval") {
        return "web_search".to_owned();
    }
    let letter = |letter: char| {
        let begins = letter.is_ascii_uppercase().then_some('_');
        begins.into_iter().chain([letter.to_ascii_lowercase()])
    };
    key.chars().flat_map(letter).collect()
}

fn declared(path: Path<'_>, declaration: Json<'_>) -> Result<Tool, Failure> {
    let mut fields = Fields::in_camel_case(path, declaration)?;
    let name = fields.needed_string("name")?.into_owned();
    check_name(fields.at("name"), &name)?;
    let description = fields.string("description")?.unwrap_or_default().into_owned();
    let (own, standard) = (fields.any("parameters"), fields.any("parametersJsonSchema"));
    for (key, schema) in [("parameters", own), ("parametersJsonSchema", standard)] {
        if let Some(other) = schema.filter(|schema| schema.kind() != Kind::Object) {
            return Err(wrong_type(fields.at(key), "a schema object", other));
        }
    }
    if own.is_some() && standard.is_some() {
        return Err(wrong_value(fields.at("parametersJsonSchema"), "and `parameters` exclude each other"));
    }
    let own = own.map(|schema| Raw::from(json_schema(&schema.to_value())));
    let parameters = standard.map(Raw::from).or(own);
    let declared = Some(Received::new(DIALECT, declaration.into()));
    Ok(Tool { name, description, parameters, strict: None, declared })
}

/// Reads the tool choice. `toolConfig` stays in the request.
fn choice(request: &mut Fields<'_, '_>, toolbox: &mut Toolbox) -> Result<(), Failure> {
    let Some(given) = request.any("toolConfig") else { return Ok(()) };
    let mut config = Fields::in_camel_case(request.at("toolConfig"), given)?;
    if let Some(calling) = config.object("functionCallingConfig")? {
        toolbox.choice = calling_config(calling)?;
    }
    request.keep("toolConfig", normalized(given));
    Ok(())
}

/// Reads `functionCallingConfig`.
fn calling_config(mut calling: Fields<'_, '_>) -> Result<ToolChoice, Failure> {
    let mode = calling.string("mode")?.unwrap_or_default();
    let names = calling.texts("allowedFunctionNames")?;
    Ok(match (mode.to_ascii_uppercase().as_str(), names.as_slice()) {
        ("" | "AUTO" | "VALIDATED" | "MODE_UNSPECIFIED", []) => ToolChoice::Auto,
        ("VALIDATED", _) => ToolChoice::Allowed { names, required: false },
        ("" | "AUTO" | "MODE_UNSPECIFIED", _) => {
            let why = "is allowed only if `mode` is `ANY` or `VALIDATED`";
            return Err(wrong_value(calling.at("allowedFunctionNames"), why));
        }
        ("ANY", []) => ToolChoice::Required,
        ("ANY", [name]) => ToolChoice::Named(name.clone()),
        ("ANY", _) => ToolChoice::Allowed { names, required: true },
        ("NONE", _) => ToolChoice::None,
        _ => {
            let why = format_args!("is `{mode}`; known are `AUTO`, `ANY`, `VALIDATED` and `NONE`");
            return Err(wrong_value(calling.at("mode"), why));
        }
    })
}

/// Whether a `functionCallingConfig` stands for this choice.
pub(in super::super) fn stands_for(config: &Value, choice: &ToolChoice) -> bool {
    let text = config.to_string();
    let fields = Json::parse(&text).ok().and_then(|json| Fields::in_camel_case(Path::Body, json).ok());
    fields.and_then(|fields| calling_config(fields).ok()).is_some_and(|own| own == *choice)
}

/// `toolConfig` with the names of its members in camel case.
fn normalized(config: Json<'_>) -> Value {
    let key = |key: Cow<'_, str>| camel_case(key).into_owned();
    let inner = |value: Json<'_>| match value.kind() {
        Kind::Object => {
            value.members().map(|(name, value)| (key(name), value.to_value())).collect::<Map<_, _>>().into()
        }
        _ => value.to_value(),
    };
    config.members().map(|(name, value)| (key(name), inner(value))).collect::<Map<_, _>>().into()
}

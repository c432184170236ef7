//! Decodes `tools`, which are functions as in Chat Completions.

use crate::{
    Dialect,
    conversation::{Received, Tool},
    failure::Failure,
    fields::{Fields, Path, check_name, check_names_differ, wrong_type, wrong_value},
    wire::json::{Json, Kind as JsonKind},
};

pub(super) fn take(request: &mut Fields<'_, '_>) -> Result<Vec<Tool>, Failure> {
    let list = request.list("tools")?;
    let path = request.at("tools");
    let tools = list.enumerate().map(|(place, declared)| tool(Path::Element(&path, place), declared));
    let tools = tools.collect::<Result<Vec<_>, _>>()?;
    check_names_differ(path, &tools)?;
    Ok(tools)
}

fn tool(path: Path<'_>, declared: Json<'_>) -> Result<Tool, Failure> {
    let mut fields = Fields::new(path, declared)?;
    let kind = fields.string("type")?;
    if let Some(other) = kind.filter(|kind| !matches!(&**kind, "function" | "")) {
        return Err(wrong_value(fields.at("type"), format_args!("is `{other}`; tools are functions")));
    }
    let mut function = fields.needed_object("function")?;
    let name = function.needed_string("name")?.into_owned();
    check_name(function.at("name"), &name)?;
    let description = function.string("description")?.unwrap_or_default().into_owned();
    let parameters = function.any("parameters");
    if let Some(other) =
        parameters.filter(|schema| !matches!(schema.kind(), JsonKind::Object | JsonKind::Bool))
    {
        return Err(wrong_type(function.at("parameters"), "a JSON Schema object", other));
    }
    let parameters = parameters.map(Into::into);
    let declared = Some(Received::new(Dialect::Ollama.name(), declared.into()));
    Ok(Tool { name, description, parameters, strict: None, declared })
}

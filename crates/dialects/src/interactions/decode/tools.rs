//! Decodes `tools` and the tool choice.

use crate::{
    conversation::{Received, ServerTool, Tool, ToolChoice},
    failure::Failure,
    fields::{Fields, Path, check_name, check_names_differ, wrong_type, wrong_value},
    wire::json::{Json, Kind, Raw},
};

use super::super::DIALECT;

#[derive(Default)]
pub(super) struct Toolbox {
    pub(super) tools: Vec<Tool>,
    /// The tools that Google's servers run.
    pub(super) server: Vec<ServerTool>,
}

/// Takes the tools. Those that Google's servers run stay in the request.
pub(super) fn take(request: &mut Fields<'_, '_>) -> Result<Toolbox, Failure> {
    let mut toolbox = Toolbox::default();
    let mut server = Vec::new();
    let list = request.list("tools")?;
    let path = request.at("tools");
    for (place, element) in list.enumerate() {
        let mut fields = Fields::new(Path::Element(&path, place), element)?;
        match &*fields.needed_string("type")? {
            "function" => toolbox.tools.push(function(fields, element)?),
            kind => {
                // Other APIs and toolwire call the search `web_search`.
                let kind = if kind == "google_search" { "web_search" } else { kind };
                toolbox.server.push(ServerTool::new(kind, None));
                server.push(element.to_value());
            }
        }
    }
    check_names_differ(path, &toolbox.tools)?;
    if !server.is_empty() {
        request.keep("tools", server);
    }
    Ok(toolbox)
}

fn function(mut fields: Fields<'_, '_>, element: Json<'_>) -> Result<Tool, Failure> {
    let name = fields.needed_string("name")?.into_owned();
    check_name(fields.at("name"), &name)?;
    let description = fields.string("description")?.unwrap_or_default().into_owned();
    let parameters = fields.any("parameters");
    if let Some(other) = parameters.filter(|schema| schema.kind() != Kind::Object) {
        return Err(wrong_type(fields.at("parameters"), "a schema object", other));
    }
    let declared = Some(Received::new(DIALECT, element.into()));
    Ok(Tool { name, description, parameters: parameters.map(Raw::from), strict: None, declared })
}

/// Takes `tool_choice` out of the configuration: a mode, or the tools that are allowed.
pub(super) fn choice(config: &mut Fields<'_, '_>) -> Result<ToolChoice, Failure> {
    let Some(given) = config.any("tool_choice") else { return Ok(ToolChoice::Auto) };
    if let Some(mode) = given.as_str() {
        return of_mode(config.at("tool_choice"), &mode, Vec::new());
    }
    let mut choice = Fields::new(config.at("tool_choice"), given)?;
    let Some(mut allowed) = choice.object("allowed_tools")? else { return Ok(ToolChoice::Auto) };
    let mode = allowed.string("mode")?.unwrap_or_default().into_owned();
    let names = allowed.texts("tools")?;
    of_mode(allowed.at("mode"), &mode, names)
}

fn of_mode(path: Path<'_>, mode: &str, names: Vec<String>) -> Result<ToolChoice, Failure> {
    Ok(match (mode.to_ascii_lowercase().as_str(), names.as_slice()) {
        ("none", _) => ToolChoice::None,
        ("" | "auto" | "validated", []) => ToolChoice::Auto,
        ("" | "auto" | "validated", _) => ToolChoice::Allowed { names, required: false },
        ("any", []) => ToolChoice::Required,
        ("any", [name]) => ToolChoice::Named(name.clone()),
        ("any", _) => ToolChoice::Allowed { names, required: true },
        _ => {
            return Err(wrong_value(
                path,
                format_args!("is `{mode}`; known are `auto`, `any`, `validated` and `none`"),
            ));
        }
    })
}

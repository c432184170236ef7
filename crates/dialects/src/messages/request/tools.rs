//! Decodes `tools` and `tool_choice`.

use std::{borrow::Cow, collections::HashSet};

use super::built_in::{self, Function};
use crate::{
    Dialect, SearchTool,
    conversation::{Namespaced, Received, ServerTool, Tool, ToolChoice},
    failure::Failure,
    fields::{Fields, Path, check_name, check_names_differ, wrong_type, wrong_value},
    messages::toolsets,
    tool_searches::deferred,
    wire::json::{Json, Kind as JsonKind},
};

pub(super) struct Toolbox {
    pub(super) tools: Vec<Tool>,
    /// The tools that are members of toolsets.
    pub(super) namespaced: Vec<Namespaced>,
    /// The tools of other types.
    pub(super) server: Vec<ServerTool>,
    /// The names of the tools that a search among them finds.
    pub(super) deferred: Vec<String>,
    pub(super) choice: ToolChoice,
    pub(super) parallel: bool,
}

/// Takes all fields that concern tools out of the request.
///
/// If the type of a tool is not `custom`, Anthropic's servers run it, unless it is in [`built_in`]. Such tools
/// stay in `tools` in `rest`, for upstreams of this dialect.
pub(super) fn take(request: &mut Fields<'_, '_>) -> Result<Toolbox, Failure> {
    let (mut tools, mut server, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    let mut namespaced = Vec::new();
    for (place, declaration) in request.list("tools")?.enumerate() {
        let kind = declaration.get("type").and_then(|kind| kind.as_str());
        if let Some(members) = kind.and_then(|kind| toolsets::functions(&kind, declaration)) {
            for (tool, member) in members {
                tools.push(tool);
                namespaced.push(member);
            }
            continue;
        }
        match declared(Path::Element(&request.at("tools"), place), declaration)? {
            Declared::Client(tool) => tools.push(tool),
            Declared::Server(tool) => {
                server.push(tool);
                unknown.push(declaration.to_value());
            }
        }
    }
    check_names_differ(request.at("tools"), &tools)?;
    let (choice, parallel) = choice(request)?;
    if !unknown.is_empty() {
        request.keep("tools", unknown);
    }
    let searches = |tool: &ServerTool| SearchTool::of_kind(Dialect::Messages, &tool.kind).is_some();
    let deferred = if server.iter().any(searches) { deferred(&tools) } else { Vec::new() };
    Ok(Toolbox { tools, namespaced, server, deferred, choice, parallel })
}

/// The tools that the blocks of a system message add.
pub(super) fn added(path: Path<'_>, content: Json<'_>) -> Result<Vec<Tool>, Failure> {
    let mut tools = Vec::new();
    for (place, block) in content.elements().enumerate() {
        let is_addition =
            block.get("type").and_then(|kind| kind.as_str()).as_deref() == Some("tool_addition");
        let definition = block.get("tool").filter(|_| is_addition).and_then(|tool| tool.get("definition"));
        if let Some(definition) = definition
            && let Declared::Client(tool) = declared(Path::Element(&path, place), definition)?
        {
            tools.push(tool);
        }
    }
    Ok(tools)
}

impl Toolbox {
    /// Adds the tools that messages declare. Returns the names of the tools that the request's `tools` do
    /// not contain.
    pub(super) fn add_late(&mut self, late: Vec<Tool>) -> HashSet<String> {
        let mut added = HashSet::new();
        if late.is_empty() {
            return added;
        }
        let mut known: HashSet<_> = self.tools.iter().map(|tool| tool.name.clone()).collect();
        for tool in late {
            if known.insert(tool.name.clone()) {
                added.insert(tool.name.clone());
                self.tools.push(tool);
            }
        }
        added
    }
}

enum Declared {
    Client(Tool),
    /// A tool whose type is not `custom`.
    Server(ServerTool),
}

fn declared(path: Path<'_>, declaration: Json<'_>) -> Result<Declared, Failure> {
    let mut fields = Fields::new(path, declaration)?;
    if let Some(kind) = fields.string("type")?.filter(|kind| kind != "custom") {
        let name = fields.string("name")?.map(Cow::into_owned);
        let Some(function) = built_in::function(&kind, declaration) else {
            return Ok(Declared::Server(ServerTool::new(kind, name)));
        };
        let Function { name: usual, description, parameters } = function;
        let name = name.unwrap_or_else(|| usual.to_owned());
        check_name(fields.at("name"), &name)?;
        let declared = Some(Received::new(Dialect::Messages.name(), declaration.into()));
        let description = with_examples(description, declaration);
        return Ok(Declared::Client(Tool { name, description, parameters, strict: None, declared }));
    }
    let name = fields.needed_string("name")?.into_owned();
    check_name(fields.at("name"), &name)?;
    let description = fields.string("description")?.unwrap_or_default().into_owned();
    let description = with_examples(description, declaration);
    let strict = fields.boolean("strict")?;
    let schema = fields.any("input_schema");
    if let Some(other) = schema.filter(|schema| schema.kind() != JsonKind::Object) {
        return Err(wrong_type(fields.at("input_schema"), "a JSON Schema object", other));
    }
    let declared = Some(Received::new(Dialect::Messages.name(), declaration.into()));
    Ok(Declared::Client(Tool { name, description, parameters: schema.map(Into::into), strict, declared }))
}

/// The description of a tool, with its `input_examples`, for which other APIs have no field.
fn with_examples(mut description: String, declaration: Json<'_>) -> String {
    let mut examples =
        declaration.get("input_examples").into_iter().flat_map(|list| list.elements()).peekable();
    if examples.peek().is_some() {
        description.push_str(if description.is_empty() {
            "Examples of its input:"
        } else {
            "\n\nExamples of its input:"
        });
    }
    for example in examples {
        description.push('\n');
        description.push_str(&example.to_value().to_string());
    }
    description
}

/// Reads the tool choice and whether several calls are allowed.
fn choice(request: &mut Fields<'_, '_>) -> Result<(ToolChoice, bool), Failure> {
    let Some(value) = request.any("tool_choice") else { return Ok((ToolChoice::Auto, true)) };
    let path = request.at("tool_choice");
    let mut fields = Fields::new(path, value)?;
    let kind = fields.needed_string("type")?;
    let choice = match &*kind {
        "auto" => ToolChoice::Auto,
        "none" => ToolChoice::None,
        "any" => ToolChoice::Required,
        "tool" => ToolChoice::Named(fields.needed_string("name")?.into_owned()),
        other => {
            let why = format_args!("is `{other}`; known are `auto`, `any`, `tool` and `none`");
            return Err(wrong_value(fields.at("type"), why));
        }
    };
    let only_one = fields.boolean("disable_parallel_tool_use")?.unwrap_or(false);
    Ok((choice, !only_one))
}

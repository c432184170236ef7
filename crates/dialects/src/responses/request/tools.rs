//! Decodes `tools`, `tool_choice` and `parallel_tool_calls`.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::DIALECT;
use crate::{
    Dialect, SearchTool,
    conversation::{BuiltIn, Namespaced, Received, ServerTool, Tool, ToolChoice},
    custom_tools::input_schema,
    digest::Digest,
    failure::Failure,
    fields::{Fields, Path, check_name, check_names_differ, missing, wrong_type, wrong_value},
    responses::built_in::BuiltInTool,
    tool_searches::{DEFER_LOADING, deferred},
    wire::json::{Json, Kind as JsonKind},
};

/// Maximum length of names that toolwire generates. Other APIs do not allow longer names.
const LONGEST_FLAT: usize = 64;

#[derive(Default)]
pub(super) struct Toolbox {
    pub(super) tools: Vec<Tool>,
    pub(super) custom: HashSet<String>,
    pub(super) namespaced: Vec<Namespaced>,
    /// The names of the tools in `namespaced`, by [`key`].
    flattened: HashMap<String, String>,
    /// The tools that the API defines and the client runs.
    pub(super) built_in: Vec<BuiltIn>,
    /// The tools that are not client tools.
    pub(super) server: Vec<ServerTool>,
    /// The names of the tools that a search among them finds.
    pub(super) deferred: Vec<String>,
    /// The server tools in the tool choice, as the client wrote them.
    pub(super) server_choice: Vec<Value>,
    pub(super) choice: ToolChoice,
    pub(super) parallel: bool,
}

/// Takes all fields that concern tools out of the request.
///
/// Tools that the API's servers run have no name under which they could be called. They stay in `tools` in
/// `rest`, for upstreams of this dialect, and so do tool choices that name them.
pub(super) fn take(request: &mut Fields<'_, '_>) -> Result<Toolbox, Failure> {
    let mut toolbox = Toolbox::default();
    let (mut kept, mut namespaces, mut built_in): (Vec<Value>, _, _) = (Vec::new(), Vec::new(), Vec::new());
    for (place, declaration) in request.list("tools")?.enumerate() {
        let path = request.at("tools");
        let path = Path::Element(&path, place);
        let mut fields = Fields::new(path, declaration)?;
        match &*fields.needed_string("type")? {
            "function" | "custom" => toolbox.add(path, declaration)?,
            "namespace" => namespaces.push((place, declaration)),
            kind => match BuiltInTool::of_declaration(kind, declaration) {
                Some(tool) => built_in.push((place, kind.to_owned(), tool, declaration)),
                None => {
                    toolbox.server.push(ServerTool::new(kind, None));
                    kept.push(declaration.to_value());
                }
            },
        }
    }
    // Namespaces and built-in tools come last, so that they do not take the names of other tools.
    let mut taken: HashSet<_> = toolbox.tools.iter().map(|tool| tool.name.clone()).collect();
    let searches = |tool: &ServerTool| SearchTool::of_kind(Dialect::Responses, &tool.kind).is_some();
    let is_searched = toolbox.server.iter().any(searches);
    if is_searched {
        toolbox.deferred = deferred(&toolbox.tools);
    }
    for (place, namespace) in namespaces {
        toolbox.add_namespace(Path::Element(&request.at("tools"), place), namespace, &mut taken)?;
        if is_searched {
            toolbox.defer_members(namespace);
        }
    }
    for (place, kind, tool, declaration) in built_in {
        let path = request.at("tools");
        toolbox.add_built_in(Path::Element(&path, place), kind, tool, declaration, &mut taken)?;
    }
    check_names_differ(request.at("tools"), &toolbox.tools)?;
    let mut server_choice = Vec::new();
    toolbox.choice = choice(request, &toolbox, &mut server_choice)?;
    toolbox.server_choice = server_choice;
    toolbox.parallel = request.boolean("parallel_tool_calls")?.unwrap_or(true);
    if !kept.is_empty() {
        request.keep("tools", kept);
    }
    Ok(toolbox)
}

impl Toolbox {
    /// Adds the tools that items of `input` declare, because a tool search found them or they were added
    /// later. Returns their names.
    pub(super) fn add_late(
        &mut self,
        input: Path<'_>,
        items: &[(usize, Json<'_>)],
    ) -> Result<HashSet<String>, Failure> {
        let mut late = HashSet::new();
        if items.is_empty() {
            return Ok(late);
        }
        let mut known: HashSet<_> = self.tools.iter().map(|tool| tool.name.clone()).collect();
        let mut namespaces: HashSet<_> =
            self.namespaced.iter().map(|known| known.namespace.clone()).collect();
        for (place, item) in items {
            let item_path = Path::Element(&input, *place);
            let path = Path::Member(&item_path, "tools");
            let declarations = item.get("tools").into_iter().flat_map(|tools| tools.elements());
            for (place, declaration) in declarations.enumerate() {
                let text = |key: &str| Some(declaration.get(key)?.as_str()?.into_owned());
                let (kind, name) = (text("type").unwrap_or_default(), text("name").unwrap_or_default());
                let path = Path::Element(&path, place);
                match kind.as_str() {
                    // A tool that was declared earlier, but had not been shown to the model.
                    "function" | "custom" if known.contains(&name) => {}
                    "function" | "custom" => {
                        self.add(path, declaration)?;
                        known.insert(name.clone());
                        late.insert(name);
                    }
                    "namespace" if !namespaces.contains(&name) => {
                        let before = self.namespaced.len();
                        self.add_namespace(path, declaration, &mut known)?;
                        // A namespace that had no tools may be declared again.
                        if self.namespaced.len() > before {
                            namespaces.insert(name);
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(late)
    }

    fn add(&mut self, path: Path<'_>, declaration: Json<'_>) -> Result<(), Failure> {
        let (tool, is_custom) = tool(path, declaration)?;
        check_name(Path::Member(&path, "name"), &tool.name)?;
        if is_custom {
            self.custom.insert(tool.name.clone());
        }
        self.tools.push(tool);
        Ok(())
    }

    /// Adds the tools of a namespace, each under a name of its own.
    fn add_namespace(
        &mut self,
        path: Path<'_>,
        declaration: Json<'_>,
        taken: &mut HashSet<String>,
    ) -> Result<(), Failure> {
        let mut fields = Fields::new(path, declaration)?;
        let namespace = fields.needed_string("name")?.into_owned();
        let about = fields.string("description")?.unwrap_or_default();
        for (place, declaration) in fields.list("tools")?.enumerate() {
            let path = fields.at("tools");
            let (tool, is_custom) = tool(Path::Element(&path, place), declaration)?;
            let mut name = flat(&namespace, &tool.name);
            if taken.contains(&name) {
                name = marked(&namespace, &tool.name);
            }
            let known = self.flattened.insert(key(&namespace, &tool.name), name.clone());
            if known.is_some() || !taken.insert(name.clone()) {
                let why = format_args!("declares `{}` twice; names must differ", tool.name);
                return Err(wrong_value(path, why));
            }
            if is_custom {
                self.custom.insert(name.clone());
            }
            let entry = Namespaced { name: name.clone(), namespace: namespace.clone(), inner: tool.name };
            self.namespaced.push(entry);
            let description = within(&namespace, &about, tool.description);
            // The declaration is valid only within a namespace, so it is not sent.
            self.tools.push(Tool { name, description, declared: None, ..tool });
        }
        Ok(())
    }

    /// Notes which tools of a namespace are deferred.
    fn defer_members(&mut self, declaration: Json<'_>) {
        let text = |value: Json<'_>| Some(value.get("name")?.as_str()?.into_owned());
        let namespace = text(declaration).unwrap_or_default();
        for tool in declaration.get("tools").into_iter().flat_map(|tools| tools.elements()) {
            if tool.get(DEFER_LOADING).is_some_and(|flag| flag.as_bool() == Some(true)) {
                let name = text(tool).map(|name| self.flattened(&namespace, &name));
                self.deferred.extend(name);
            }
        }
    }

    /// Adds a tool that the API defines, as a function.
    fn add_built_in(
        &mut self,
        path: Path<'_>,
        kind: String,
        tool: BuiltInTool,
        declaration: Json<'_>,
        taken: &mut HashSet<String>,
    ) -> Result<(), Failure> {
        let mut name = tool.function().to_owned();
        if taken.contains(&name) {
            name = marked(&kind, &name);
        }
        if self.built_in.iter().any(|known| known.kind == kind) || !taken.insert(name.clone()) {
            return Err(wrong_value(path, format_args!("declares `{kind}` twice; each tool must differ")));
        }
        self.tools.push(Tool {
            name: name.clone(),
            description: tool.description(declaration),
            parameters: tool.parameters(declaration),
            strict: None,
            declared: Some(Received::new(DIALECT, declaration.into())),
        });
        self.built_in.push(BuiltIn { name, kind });
        Ok(())
    }

    /// The name under which the upstream knows the tool that calls of `tool` belong to.
    pub(super) fn built_in_name(&self, tool: BuiltInTool) -> String {
        let declared = self.built_in.iter().find(|known| {
            BuiltInTool::of_kind(&known.kind).is_some_and(|known| known.shares_items_with(tool))
        });
        declared.map_or_else(|| tool.function().to_owned(), |known| known.name.clone())
    }

    /// The name of the declared built-in tool that a tool choice of the type `kind` means. Some types are names
    /// of the same tool.
    fn chosen_built_in(&self, kind: &str) -> Option<&str> {
        let tool = BuiltInTool::of_kind(kind)?;
        let is_meant = |known: &&BuiltIn| {
            BuiltInTool::of_kind(&known.kind).is_some_and(|known| known.shares_items_with(tool))
        };
        let exact = self.built_in.iter().find(|known| known.kind == kind);
        exact.or_else(|| self.built_in.iter().find(is_meant)).map(|known| known.name.as_str())
    }

    /// The name under which the upstream knows the tool `name` of `namespace`.
    pub(super) fn flattened(&self, namespace: &str, name: &str) -> String {
        let known = self.flattened.get(&key(namespace, name));
        known.map_or_else(|| flat(namespace, name), String::clone)
    }
}

/// The description of a tool, with that of its namespace, since no other tool has to be declared beside it.
fn within(namespace: &str, about: &str, description: String) -> String {
    match (description.is_empty(), about.trim()) {
        (_, "") => description,
        (true, about) => format!("{namespace}: {about}"),
        (false, about) => format!("{description}\n\n{namespace}: {about}"),
    }
}

fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}\0{name}")
}

/// A single name for a tool in a namespace, which is valid in every API.
fn flat(namespace: &str, name: &str) -> String {
    let joined = format!("{namespace}__{name}");
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if joined.len() <= LONGEST_FLAT && joined.bytes().all(is_legal) {
        return joined;
    }
    marked(namespace, name)
}

/// The names that a tool in a namespace may have.
pub(in crate::responses) fn flat_names(namespace: &str, name: &str) -> [String; 2] {
    [flat(namespace, name), marked(namespace, name)]
}

/// A valid name that resembles the original. A digest distinguishes it from the names of similar tools.
fn marked(namespace: &str, name: &str) -> String {
    let joined = format!("{namespace}__{name}");
    let mark = format!("_{:08x}", Digest::of(&key(namespace, name)).short());
    let legal = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    let mut marked: String = joined.chars().map(legal).take(LONGEST_FLAT - mark.len()).collect();
    marked.push_str(&mark);
    marked
}

/// Reads a function or a custom tool. Also returns whether it is a custom tool.
fn tool(path: Path<'_>, declaration: Json<'_>) -> Result<(Tool, bool), Failure> {
    let mut fields = Fields::new(path, declaration)?;
    let is_custom = fields.string("type")?.as_deref() == Some("custom");
    let Some(name) = fields.string("name")? else {
        return Err(missing(fields.at("name"), "the name of the tool"));
    };
    let description = fields.string("description")?.unwrap_or_default().into_owned();
    let parameters = match fields.any("parameters") {
        _ if is_custom => input_schema(fields.any("format")),
        Some(schema) if !matches!(schema.kind(), JsonKind::Object | JsonKind::Bool) => {
            return Err(wrong_type(fields.at("parameters"), "a JSON Schema object", schema));
        }
        schema => schema.map(Into::into),
    };
    let strict = fields.boolean("strict")?;
    let declared = Some(Received::new(DIALECT, declaration.into()));
    Ok((Tool { name: name.into_owned(), description, parameters, strict, declared }, is_custom))
}

/// Reads the tool choice. Tools of the API's servers are added to `server`.
fn choice(
    request: &mut Fields<'_, '_>,
    toolbox: &Toolbox,
    server: &mut Vec<Value>,
) -> Result<ToolChoice, Failure> {
    let Some(value) = request.any("tool_choice") else { return Ok(ToolChoice::Auto) };
    let path = request.at("tool_choice");
    let choice = match (value.as_str().as_deref(), value.kind()) {
        (Some("auto"), _) => return Ok(ToolChoice::Auto),
        (Some("none"), _) => ToolChoice::None,
        (Some("required"), _) => ToolChoice::Required,
        (Some(other), _) => {
            let known = "`none`, `auto`, `required` and an object that names a tool";
            return Err(wrong_value(path, format_args!("is `{other}`; known are {known}")));
        }
        (None, JsonKind::Object) => {
            let mut fields = Fields::new(path, value)?;
            match &*fields.needed_string("type")? {
                "function" | "custom" => ToolChoice::Named(named(&mut fields, toolbox)?),
                "allowed_tools" => allowed(fields, toolbox, server)?,
                kind => match toolbox.chosen_built_in(kind) {
                    Some(name) => ToolChoice::Named(name.to_owned()),
                    // A tool of the API's servers.
                    None => {
                        server.push(value.to_value());
                        request.keep("tool_choice", value.to_value());
                        return Ok(ToolChoice::Auto);
                    }
                },
            }
        }
        (None, _) => return Err(wrong_type(path, "a string or an object", value)),
    };
    if let ToolChoice::Allowed { .. } = choice {
        request.keep("tool_choice", value.to_value());
    }
    Ok(choice)
}

/// The tool that an object names. Some clients nest the name, as in Chat Completions.
fn named(choice: &mut Fields<'_, '_>, toolbox: &Toolbox) -> Result<String, Failure> {
    let nested =
        choice.peek("function").and_then(|function| Some(function.get("name")?.as_str()?.into_owned()));
    let name = match nested.filter(|_| choice.peek("name").is_none()) {
        Some(name) => name,
        None => choice.needed_string("name")?.into_owned(),
    };
    Ok(match choice.string("namespace")? {
        Some(namespace) => toolbox.flattened(&namespace, &name),
        None => name,
    })
}

fn allowed(
    mut choice: Fields<'_, '_>,
    toolbox: &Toolbox,
    server: &mut Vec<Value>,
) -> Result<ToolChoice, Failure> {
    let required = match &*choice.needed_string("mode")? {
        "auto" => false,
        "required" => true,
        other => {
            let why = format_args!("is `{other}`; known are `auto` and `required`");
            return Err(wrong_value(choice.at("mode"), why));
        }
    };
    let tools = choice.list("tools")?;
    let path = choice.at("tools");
    let mut names = Vec::new();
    for (place, written) in tools.enumerate() {
        let mut tool = Fields::new(Path::Element(&path, place), written)?;
        match tool.string("type")?.as_deref() {
            None | Some("function" | "custom") => names.push(named(&mut tool, toolbox)?),
            Some(kind) => match toolbox.chosen_built_in(kind) {
                Some(name) => names.push(name.to_owned()),
                None => server.push(written.to_value()),
            },
        }
    }
    // Only server tools are allowed.
    Ok(if names.is_empty() { ToolChoice::None } else { ToolChoice::Allowed { names, required } })
}

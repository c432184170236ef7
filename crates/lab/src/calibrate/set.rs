//! [`CaseSet`]: the prompts of a run, built in or read from files (docs/calibrate.md#prompts).

use std::{collections::HashSet, path::Path};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::case::{Case, CaseChoice, CaseTool, ExpectedCall};
use crate::Invalid;
use toolwire_pipeline::wire::suggest::suggest;

/// The built-in prompts and their tools.
const BUILT_IN: &str = include_str!("prompts.toml");

/// Maximum size of a file of prompts or tools, in bytes.
pub const MAX_FILE: u64 = 8 << 20;

/// The prompts of a run, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseSet {
    /// The prompts, in order. Never empty.
    pub cases: Vec<Case>,
}

/// A file's name and text.
pub(crate) type NamedText<'a> = (&'a Path, &'a str);

impl CaseSet {
    ///
    /// # Errors
    /// Never in practice: a test parses the built-in prompts.
    pub fn built_in() -> Result<Self, Invalid> {
        Self::new(Document::parse((Path::new("prompts.toml"), BUILT_IN))?, None, "prompts.toml")
    }

    /// Reads the prompts in a file. The tools are those of `tools`, or else those in the same file, or else the built-in
    /// tools.
    ///
    /// # Errors
    /// Describes the mistake and its location.
    pub fn read(prompts: NamedText<'_>, tools: Option<NamedText<'_>>) -> Result<Self, Invalid> {
        let tools = tools.map(read_tools).transpose()?;
        let document = Document::parse(prompts)?;
        Self::new(document, tools, &prompts.0.display().to_string())
    }

    fn new(document: Document, tools: Option<Vec<CaseTool>>, file: &str) -> Result<Self, Invalid> {
        let own = document.tools.into_iter().map(ToolEntry::into_tool).collect::<Vec<_>>();
        let tools = match tools {
            Some(_) if !own.is_empty() => {
                let message = "the file has `tools` of its own; leave them out, or give no --tools";
                return Err(format!("{file}: {message}").into());
            }
            Some(tools) => tools,
            None if !own.is_empty() => own,
            None => {
                let document = Document::parse((Path::new("prompts.toml"), BUILT_IN))?;
                document.tools.into_iter().map(ToolEntry::into_tool).collect()
            }
        };
        check_tools(&tools).map_err(|error| format!("{file}: {error}"))?;
        let mut names = HashSet::new();
        let mut cases = Vec::new();
        for (index, entry) in document.prompts.into_iter().enumerate() {
            let place = match &entry.name {
                Some(name) => format!("prompt `{name}`"),
                None => format!("prompt {}", index + 1),
            };
            let case = entry.into_case(index, &tools);
            let case = case.map_err(|error| format!("{file}: {place}: {error}"))?;
            if !names.insert(case.name.clone()) {
                return Err(format!("{file}: {place}: a second prompt has this name").into());
            }
            cases.push(case);
        }
        if cases.is_empty() {
            return Err(format!("{file}: there are no `prompts`").into());
        }
        Ok(Self { cases })
    }
}

/// Reads the tools in a file: either an object with the member `tools`, or a list.
fn read_tools(file: NamedText<'_>) -> Result<Vec<CaseTool>, Invalid> {
    let (path, text) = file;
    let entries = if is_json(path) && text.trim_start().starts_with('[') {
        json_of::<Vec<ToolEntry>>(file)?
    } else {
        let document = Document::parse(file)?;
        if !document.prompts.is_empty() {
            return Err(format!("{}: has `prompts`; give the file to --prompts", path.display()).into());
        }
        document.tools
    };
    if entries.is_empty() {
        return Err(format!("{}: there are no `tools`", path.display()).into());
    }
    Ok(entries.into_iter().map(ToolEntry::into_tool).collect())
}

fn check_tools(tools: &[CaseTool]) -> Result<(), Invalid> {
    let mut names = HashSet::new();
    for tool in tools {
        if tool.name.is_empty() {
            return Err("a tool has no name".into());
        }
        if !names.insert(&tool.name) {
            return Err(format!("two tools are called `{}`", tool.name).into());
        }
        if !tool.parameters.is_object() {
            return Err(
                format!("the `parameters` of the tool `{}` are not a JSON Schema object", tool.name).into()
            );
        }
    }
    Ok(())
}

/// A file's content: TOML, or JSON if the file's name ends in `.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Document {
    tools: Vec<ToolEntry>,
    prompts: Vec<PromptEntry>,
}

impl Document {
    fn parse(file: NamedText<'_>) -> Result<Self, Invalid> {
        let (path, text) = file;
        if is_json(path) {
            return json_of(file);
        }
        toml::from_str(text).map_err(|error: toml::de::Error| {
            let offset = error.span().map_or(0, |span| span.start);
            format!("{}:{}: {}", path.display(), place(text, offset), error.message().trim()).into()
        })
    }
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
}

fn json_of<'t, T: Deserialize<'t>>((path, text): NamedText<'t>) -> Result<T, Invalid> {
    serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        // Moves the location to the start, as in errors for TOML.
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        format!("{}:{}:{}: {message}", path.display(), error.line(), error.column()).into()
    })
}

/// Returns the line and column of `offset`, counted from 1.
fn place(text: &str, offset: usize) -> String {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    format!("{}:{}", before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// A tool in OpenAI's format, or only the `function` part of it.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a tool: `name`, `description` and `parameters`")]
enum ToolEntry {
    Wrapped {
        #[serde(rename = "type")]
        _kind: Option<String>,
        function: FunctionEntry,
    },
    Plain(FunctionEntry),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FunctionEntry {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default = "no_parameters")]
    parameters: Value,
    strict: Option<bool>,
}

fn no_parameters() -> Value {
    json!({ "type": "object", "properties": {} })
}

impl ToolEntry {
    fn into_tool(self) -> CaseTool {
        let (Self::Wrapped { function, .. } | Self::Plain(function)) = self;
        let FunctionEntry { name, description, parameters, strict } = function;
        CaseTool { name, description, parameters, strict }
    }
}

/// A prompt as written in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PromptEntry {
    name: Option<String>,
    #[serde(default)]
    group: String,
    tools: Option<Vec<String>>,
    tool_choice: Option<String>,
    system: Option<String>,
    #[serde(default)]
    earlier: Vec<EarlierEntry>,
    user: Option<String>,
    messages: Option<Vec<Value>>,
    #[serde(default)]
    calls: Vec<ExpectedCall>,
}

/// An earlier exchange in the conversation: a user message, a call, its result, and the final response.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EarlierEntry {
    user: Option<String>,
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    result: String,
    reply: Option<String>,
}

impl PromptEntry {
    fn into_case(self, index: usize, tools: &[CaseTool]) -> Result<Case, Invalid> {
        let offered = offered(self.tools.as_deref(), tools)?;
        let is_offered = |name: &str| offered.iter().any(|tool| tool.name == name);
        let unknown = |what: &str, name: &str| {
            let names: Vec<_> = offered.iter().map(|tool| tool.name.as_str()).collect();
            format!("{what} `{name}`, which is not offered; {}", suggest(name, &names, None))
        };
        if let Some(call) = self.calls.iter().find(|call| !is_offered(&call.name)) {
            return Err(unknown("expects a call of", &call.name).into());
        }
        let choice = match self.tool_choice.as_deref() {
            None | Some("auto") => CaseChoice::Auto,
            Some("required") => CaseChoice::Required,
            Some(name) if is_offered(name) => CaseChoice::Named(name.to_owned()),
            Some(name) => return Err(unknown("`tool_choice` names the tool", name).into()),
        };
        if choice != CaseChoice::Auto && self.calls.is_empty() {
            return Err("`tool_choice` requires a call, but `calls` expects none".into());
        }
        let messages = match self.messages {
            Some(_) if self.user.is_some() || self.system.is_some() || !self.earlier.is_empty() => {
                return Err(
                    "`messages` is the whole conversation: leave `system`, `earlier` and `user` out".into()
                );
            }
            Some(messages) => messages,
            None => messages(self.system, self.earlier, self.user),
        };
        if messages.is_empty() {
            return Err("has no message: give `user`, `earlier` or `messages`".into());
        }
        Ok(Case {
            name: self.name.unwrap_or_else(|| format!("prompt-{}", index + 1)),
            group: if self.group.is_empty() { "prompts".to_owned() } else { self.group },
            messages,
            tools: offered,
            choice,
            calls: self.calls,
        })
    }
}

/// Returns the tools with these names, or all tools if no names are given.
fn offered(names: Option<&[String]>, tools: &[CaseTool]) -> Result<Vec<CaseTool>, Invalid> {
    let Some(names) = names else { return Ok(tools.to_vec()) };
    let named = names.iter().map(|name| {
        let tool = tools.iter().find(|tool| tool.name == *name);
        tool.cloned().ok_or_else(|| {
            let known: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
            format!("offers the tool `{name}`, which is not declared; {}", suggest(name, &known, None)).into()
        })
    });
    named.collect()
}

/// Returns the messages of a conversation in the format of a chat request.
fn messages(system: Option<String>, earlier: Vec<EarlierEntry>, user: Option<String>) -> Vec<Value> {
    let said = |role: &str, text: String| json!({ "role": role, "content": text });
    let mut messages: Vec<_> = system.map(|text| said("system", text)).into_iter().collect();
    for (index, entry) in earlier.into_iter().enumerate() {
        messages.extend(entry.user.map(|text| said("user", text)));
        let id = format!("call_{}", index + 1);
        let arguments = Value::Object(entry.arguments).to_string();
        messages.push(json!({
            "role": "assistant",
            "content": null,
            "tool_calls": [{
                "id": id,
                "type": "function",
                "function": { "name": entry.name, "arguments": arguments },
            }],
        }));
        messages.push(json!({ "role": "tool", "tool_call_id": id, "content": entry.result }));
        messages.extend(entry.reply.map(|text| said("assistant", text)));
    }
    messages.extend(user.map(|text| said("user", text)));
    messages
}

#[cfg(test)]
mod tests;

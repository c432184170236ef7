//! [`Model`]: what clients ask for, and the rules by which they are answered.

use std::{borrow::Cow, fmt, sync::Arc};

use toml::de::DeValue;

use super::{
    Upstream,
    format::LISTED_BY,
    read::Declared,
    table::{Cell, Table},
    value::{choice, list, listed_choice, referred, switch, text},
};
use crate::{
    format::{self, Format, Known, Teaching},
    rules::{ArgumentDelivery, Detect, Limits, Misroute, Reasoning, Rules, ServerCalls, UnknownCalls},
    suggest::suggest,
};

/// The model name that takes every name that no other entry has.
pub const WILDCARD: &str = "*";

/// One entry of `[[models]]`.
#[derive(Debug, Clone)]
pub struct Model {
    /// What clients ask for, or [`WILDCARD`].
    pub name: String,
    /// Who answers.
    pub upstream: Arc<Upstream>,
    /// What the upstream is asked for. `None`: the name that the client asked for.
    pub upstream_name: Option<String>,
    /// How the model is told of tools.
    pub tools: ToolStyle,
    /// Replaces the format's own instruction template.
    pub instructions: Option<String>,
    /// Where a format's instructions go.
    pub system_position: SystemPosition,
    /// Whether answers start inside reasoning. `None`: the model's name tells.
    pub starts_in_reasoning: Option<bool>,
    /// How answers are treated: all that the pipeline wants to know.
    pub settings: Rules,
    /// What its name tells.
    pub formats: Arc<Known>,
}

impl Model {
    /// It takes every name that no other entry has.
    pub fn is_wildcard(&self) -> bool {
        self.name == WILDCARD
    }

    /// What the upstream is asked for when a client asks for `asked`.
    pub fn upstream_name<'a>(&'a self, asked: &'a str) -> &'a str {
        self.upstream_name.as_deref().unwrap_or(asked)
    }

    /// [`Model::settings`] when a client asks for `asked`: where formats are found by themselves, those that the
    /// model is taught, or known by its name to write, come first; and the name may tell that answers start inside
    /// reasoning.
    pub fn settings_for(&self, asked: &str) -> Cow<'_, Rules> {
        let name = self.upstream_name(asked);
        settings_for(&self.settings, (self.tools, self.starts_in_reasoning), &self.formats, name)
    }

    /// How the model is taught the format of [`Model::tools`], if that is one.
    pub fn teaching(&self) -> Teaching {
        Teaching {
            prefix: self.settings.tool_prefix.clone(),
            template: self.instructions.clone().unwrap_or_default(),
            in_user_turn: self.system_position == SystemPosition::User,
        }
    }
}

/// `settings` completed for the model that its upstream calls `name`: with the formats that its `tools` setting and its
/// name imply, and whether its answers start inside reasoning, unless that is configured.
pub(crate) fn settings_for<'s>(
    settings: &'s Rules,
    (tools, starts_in_reasoning): (ToolStyle, Option<bool>),
    formats: &Known,
    name: &str,
) -> Cow<'s, Rules> {
    let mut settings = Cow::Borrowed(settings);
    let starts_in_reasoning = starts_in_reasoning.unwrap_or_else(|| formats.prompt_opens_reasoning(name));
    if starts_in_reasoning != settings.starts_in_reasoning {
        settings.to_mut().starts_in_reasoning = starts_in_reasoning;
    }
    if settings.detect != Detect::Auto {
        return settings;
    }
    let mut first = formats.of_model(name);
    if let ToolStyle::Format(taught) = tools {
        first.retain(|format| *format != taught);
        first.insert(0, taught);
    }
    if !first.is_empty() {
        settings.to_mut().detect = Detect::AutoAnd(format::names(&first));
    }
    settings
}

/// `tools`: how the model is told of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolStyle {
    /// By the upstream dialect's own structure.
    Native,
    /// In the prompt, in this text format.
    Format(&'static Format),
}

impl fmt::Display for ToolStyle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Format(format) => format.name,
        })
    }
}

/// `system_position`: where a format's instructions go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemPosition {
    /// Into a system turn.
    System,
    /// Into a user turn: for models without a system role.
    User,
}

/// An entry's name with its place, and the model as far as it could be read.
pub(super) type Entry<'a> = (Option<(String, Cell<'a>)>, Option<Model>);

/// Reads an entry of `[[models]]`.
pub(super) fn read<'a>(
    table: &mut Table<'a>,
    upstreams: &[Declared<'_>],
    formats: &Arc<Known>,
    limits: Limits,
) -> Entry<'a> {
    let name = table.require("name", |cell| Some((text(cell.clone())?, cell)));
    let upstream = match upstreams {
        [only] if table.cell("upstream").is_none() => only.upstream.clone(),
        _ => table.require("upstream", |cell| declared(cell, upstreams)),
    };
    let upstream_name = table.get("upstream_name", text);
    let tools = table.get_or("tools", ToolStyle::Native, |cell| taught_by(cell, formats));
    let instructions = table.get("instructions", |cell| referred(cell).map(|(text, _)| text));
    let positions = [("system", SystemPosition::System), ("user", SystemPosition::User)];
    let in_user_turn =
        upstream.as_deref().is_some_and(|upstream| upstream.options.side().instructs_in_user_turn());
    let position = match tools {
        ToolStyle::Format(_) if in_user_turn => SystemPosition::User,
        _ => SystemPosition::System,
    };
    let system_position = table.get_or("system_position", position, choice(&positions));
    let starts_in_reasoning = table.get("starts_in_reasoning", switch);
    let settings = settings(table, tools, upstream.as_deref(), formats, limits);
    let model = (|| {
        Some(Model {
            name: name.as_ref()?.0.clone(),
            upstream: upstream?,
            upstream_name,
            tools,
            instructions,
            system_position,
            starts_in_reasoning,
            settings,
            formats: Arc::clone(formats),
        })
    })();
    if let Some(model) = &model {
        check(model, table);
    }
    (name, model)
}

fn settings(
    table: &mut Table<'_>,
    tools: ToolStyle,
    upstream: Option<&Upstream>,
    formats: &Known,
    limits: Limits,
) -> Rules {
    let default = Rules::default();
    let side = upstream.map(|upstream| upstream.options.side());
    // Where a client's tools are declared natively, one named like a server tool takes its place: the name is the
    // client's. Taught with a prefix, the client's tool has another name, and the plain one stays the upstream's.
    let taught = side.filter(|_| matches!(tools, ToolStyle::Format(_)));
    Rules {
        detect: table.get_or("detect", default.detect, |cell| detect(cell, formats)),
        reasoning: table.get_or("reasoning", default.reasoning, choice(&REASONING)),
        server_calls: table.get_or("server_calls", default.server_calls, choice(&SERVER_CALLS)),
        misroute: table.get_or("misroute", default.misroute, choice(&MISROUTE)),
        arguments: table.get_or("arguments", default.arguments, choice(&ARGUMENTS)),
        unknown_calls: table.get_or("unknown_calls", default.unknown_calls, choice(&UNKNOWN_CALLS)),
        starts_in_reasoning: default.starts_in_reasoning,
        repair: table.get_or("repair", default.repair, switch),
        tool_prefix: table.get_or(
            "tool_prefix",
            side.map_or("", |side| side.tool_prefix()).to_owned(),
            prefix,
        ),
        server_tools: taught.map(|side| side.server_tools().to_vec()).unwrap_or_default(),
        tolerate_truncation: upstream.is_some_and(|upstream| upstream.tolerate_truncation),
        limits,
    }
}

/// The words of `reasoning`.
pub(crate) const REASONING: [(&str, Reasoning); 2] = [("auto", Reasoning::Auto), ("off", Reasoning::Off)];

/// The words of `server_calls`.
pub(crate) const SERVER_CALLS: [(&str, ServerCalls); 4] = [
    ("auto", ServerCalls::Auto),
    ("forward", ServerCalls::Forward),
    ("annotate", ServerCalls::Annotate),
    ("hide", ServerCalls::Hide),
];

/// The words of `misroute`.
pub(crate) const MISROUTE: [(&str, Misroute); 2] =
    [("rescue", Misroute::Rescue), ("bounce", Misroute::Bounce)];

/// The words of `arguments`.
pub(crate) const ARGUMENTS: [(&str, ArgumentDelivery); 2] =
    [("stream", ArgumentDelivery::Stream), ("whole", ArgumentDelivery::Whole)];

/// The words of `unknown_calls`.
pub(crate) const UNKNOWN_CALLS: [(&str, UnknownCalls); 2] =
    [("forward", UnknownCalls::Forward), ("text", UnknownCalls::Text)];

/// What must hold between a model's keys.
fn check(model: &Model, table: &mut Table<'_>) {
    if let Some(instructions) = table.cell("instructions")
        && model.tools == ToolStyle::Native
    {
        instructions.warn("`instructions` are used only where `tools` is a text format");
    }
    if let ToolStyle::Format(format) = model.tools
        && let Some(cell) = table.cell("detect")
        && !is_looked_for(format, &model.settings.detect)
    {
        cell.warn(format!(
            "the model is taught `{}`, but its calls in this format are not looked for",
            format.name
        ));
    }
    if !model.upstream.options.side().declares_tools()
        && model.tools == ToolStyle::Native
        && let Some(name) = table.cell("name")
    {
        name.warn(
            "Lumo v1 has no field for a client's tools; without a text format in `tools` it learns of none",
        );
    }
}

fn is_looked_for(format: &Format, detect: &Detect) -> bool {
    match detect {
        Detect::Auto => true,
        Detect::AutoAnd(names) => format.auto || names.contains(&format.name),
        Detect::Off => false,
        Detect::Formats(names) => names.contains(&format.name),
    }
}

/// The upstream of the name in `cell`; `None` also if that upstream's own entry is wrong.
fn declared(cell: Cell<'_>, upstreams: &[Declared<'_>]) -> Option<Arc<Upstream>> {
    let name = text(cell.clone())?;
    match upstreams.iter().find(|declared| declared.name.as_ref() == Some(&name)) {
        Some(declared) => declared.upstream.clone(),
        None => {
            let names: Vec<_> = upstreams.iter().filter_map(|declared| declared.name.as_deref()).collect();
            cell.wrong(format!("no upstream `{name}`; {}", suggest(&name, &names, None)))
        }
    }
}

fn taught_by(cell: Cell<'_>, known: &Known) -> Option<ToolStyle> {
    let mut choices = vec![("native", ToolStyle::Native)];
    let taught = known.all().filter(|format| format.teach.is_some());
    choices.extend(taught.map(|format| (format.name, ToolStyle::Format(format))));
    listed_choice(&choices, Some(LISTED_BY))(cell)
}

fn detect(cell: Cell<'_>, known: &Known) -> Option<Detect> {
    let names = known.all().map(|format| format.name);
    match cell.value {
        DeValue::Array(_) => {
            let mut choices: Vec<_> = names.map(|name| (name, Some(name))).collect();
            choices.push(("auto", None));
            let chosen = list(listed_choice(&choices, Some(LISTED_BY)))(cell)?;
            let auto = chosen.contains(&None);
            let names = chosen.into_iter().flatten().collect();
            Some(if auto { Detect::AutoAnd(names) } else { Detect::Formats(names) })
        }
        _ => {
            let mut choices = vec![("auto", Detect::Auto), ("off", Detect::Off)];
            choices.extend(names.map(|name| (name, Detect::Formats(vec![name]))));
            listed_choice(&choices, Some(LISTED_BY))(cell)
        }
    }
}

/// A string that may be empty, for no prefix.
fn prefix(cell: Cell<'_>) -> Option<String> {
    match cell.value {
        DeValue::String(prefix) => Some(prefix.as_ref().to_owned()),
        _ => cell.expected("a string"),
    }
}

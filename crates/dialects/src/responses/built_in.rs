//! The tools that this API defines and that the client runs, such as `shell`.
//!
//! Other upstreams, and models that learn their tools from a prompt, get functions instead. The arguments of such a
//! function are the part of the call's item that the model determines, so the history is what the model wrote:
//!
//! ```text
//! shell_call {action: {commands}}                ◀─▶  shell {commands}
//! local_shell_call {action: {type: exec, …}}     ◀─▶  local_shell {command, …}
//! apply_patch_call {operation: {type, path, …}}  ◀─▶  apply_patch {type, path, …}
//! computer_call {actions} or {action}            ◀─▶  computer {actions} or {action}
//! tool_search_call {arguments}                   ◀─▶  tool_search, with the client's parameters
//! ```
//!
//! The forms are in docs/protocols/responses.md#tools-that-the-client-runs.

mod arguments;
mod schemas;

use serde_json::{Map, Value};

use crate::wire::json::{Encoder, Json, Kind, Raw};

/// A tool that this API defines and the client runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BuiltInTool {
    Shell,
    LocalShell,
    ApplyPatch,
    Computer,
    ComputerPreview,
    ToolSearch,
}

/// What a call of a tool looks like.
#[derive(Debug)]
struct Form {
    /// The name of the function that stands for the tool.
    function: &'static str,
    call: &'static str,
    output: &'static str,
    /// How the ids of items begin.
    id: &'static str,
    /// The member of the item that contains the arguments. Empty if the arguments are members of the item.
    around: &'static str,
}

const SHELL: Form =
    Form { function: "shell", call: "shell_call", output: "shell_call_output", id: "sh", around: "action" };

const LOCAL_SHELL: Form = Form {
    function: "local_shell",
    call: "local_shell_call",
    output: "local_shell_call_output",
    id: "lsh",
    around: "action",
};

const APPLY_PATCH: Form = Form {
    function: "apply_patch",
    call: "apply_patch_call",
    output: "apply_patch_call_output",
    id: "apc",
    around: "operation",
};

const COMPUTER: Form = Form {
    function: "computer",
    call: "computer_call",
    output: "computer_call_output",
    id: "cu",
    around: "",
};

const TOOL_SEARCH: Form = Form {
    function: "tool_search",
    call: "tool_search_call",
    output: "tool_search_output",
    id: "tsc",
    around: "arguments",
};

/// Members of an item, besides the arguments, that only an upstream of this API can determine.
const BESIDE: [&str; 3] = ["pending_safety_checks", "environment", "caller"];

impl BuiltInTool {
    /// All tools. The first one that has a form is the one that a call in the history belongs to.
    const ALL: [Self; 6] = [
        Self::Shell,
        Self::LocalShell,
        Self::ApplyPatch,
        Self::Computer,
        Self::ComputerPreview,
        Self::ToolSearch,
    ];

    fn form(self) -> &'static Form {
        match self {
            Self::Shell => &SHELL,
            Self::LocalShell => &LOCAL_SHELL,
            Self::ApplyPatch => &APPLY_PATCH,
            Self::Computer | Self::ComputerPreview => &COMPUTER,
            Self::ToolSearch => &TOOL_SEARCH,
        }
    }

    /// The tool with this type in a declaration.
    pub(super) fn of_kind(kind: &str) -> Option<Self> {
        Some(match kind {
            "shell" => Self::Shell,
            "local_shell" => Self::LocalShell,
            "apply_patch" => Self::ApplyPatch,
            "computer" | "computer_use" => Self::Computer,
            "computer_use_preview" => Self::ComputerPreview,
            "tool_search" => Self::ToolSearch,
            _ => return None,
        })
    }

    /// The tool that a declaration declares, if the client runs it.
    pub(super) fn of_declaration(kind: &str, declaration: Json<'_>) -> Option<Self> {
        Self::of_kind(kind).filter(|tool| tool.is_run_by_client(declaration))
    }

    /// The tool that an item calls, if the client runs it.
    pub(super) fn of_call(kind: &str, item: Json<'_>) -> Option<Self> {
        let tool = Self::ALL.into_iter().find(|tool| tool.form().call == kind)?;
        tool.is_run_by_client(item).then_some(tool)
    }

    /// Whether items of this type are outputs of such tools.
    pub(super) fn is_output(kind: &str) -> bool {
        Self::ALL.iter().any(|tool| tool.form().output == kind)
    }

    /// Whether items of this type are calls to such tools.
    pub(super) fn is_call(kind: &str) -> bool {
        Self::ALL.iter().any(|tool| tool.form().call == kind)
    }

    /// The tool for which a function of this name stands, unless another tool has the name.
    pub(super) fn of_function(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.form().function == name)
    }

    /// Whether a declaration or a call says that the client runs the tool. The API runs shells in containers,
    /// and tool searches unless the client asks to run them.
    fn is_run_by_client(self, value: Json<'_>) -> bool {
        let text =
            |value: Json<'_>, key: &str| value.get(key).and_then(|value| Some(value.as_str()?.into_owned()));
        match self {
            Self::Shell => {
                let place = value.get("environment").and_then(|environment| text(environment, "type"));
                place.is_none_or(|place| place == "local")
            }
            Self::ToolSearch => text(value, "execution").as_deref() == Some("client"),
            _ => true,
        }
    }

    pub(super) fn function(self) -> &'static str {
        self.form().function
    }

    pub(super) fn call_kind(self) -> &'static str {
        self.form().call
    }

    pub(super) fn id_prefix(self) -> &'static str {
        self.form().id
    }

    /// Whether both are called by the same items.
    pub(super) fn shares_items_with(self, other: Self) -> bool {
        self.form().call == other.form().call
    }

    /// The description of the function that stands for the declared tool.
    pub(super) fn description(self, declaration: Json<'_>) -> String {
        schemas::description(self, declaration)
    }

    /// The schema of the function that stands for the declared tool.
    pub(super) fn parameters(self, declaration: Json<'_>) -> Option<Raw> {
        let own = declaration.get("parameters").filter(|schema| schema.kind() == Kind::Object);
        match own.filter(|_| self == Self::ToolSearch) {
            Some(schema) => Some(schema.into()),
            None => Json::parse(schemas::schema(self)).ok().map(Raw::from),
        }
    }

    /// The arguments of the function call that stands for `item`. If `is_native`, they include what only an
    /// upstream of this API can determine.
    pub(super) fn arguments(self, item: Json<'_>, is_native: bool) -> String {
        let form = self.form();
        let inner = match form.around {
            "" => None,
            around => item.get(around).filter(|inner| inner.kind() == Kind::Object),
        };
        let mut arguments = Encoder::with_capacity(item.raw().len());
        arguments.object(|arguments| {
            match (form.around, inner) {
                ("", _) => {
                    let list = item.get("actions").filter(|list| list.elements().next().is_some());
                    let only = || Some(("action", item.get("action").filter(|action| !action.is_null())?));
                    if let Some((key, value)) = list.map(|list| ("actions", list)).or_else(only) {
                        arguments.key(key).compact(value);
                    }
                }
                (_, inner) => {
                    let members = inner.into_iter().flat_map(|inner| inner.members());
                    for (key, value) in members.filter(|(key, value)| !self.is_implied(key, *value)) {
                        arguments.key(&key).compact(value);
                    }
                }
            }
            for key in BESIDE.into_iter().filter(|_| is_native) {
                if let Some(value) = item.get(key).filter(|value| !is_empty(*value)) {
                    arguments.key(key).compact(value);
                }
            }
        });
        arguments.finish_text()
    }

    /// Whether a member of the arguments says nothing that the model has to say. In tool searches, the client
    /// defines the members.
    fn is_implied(self, key: &str, value: Json<'_>) -> bool {
        match self {
            Self::ToolSearch => false,
            Self::LocalShell => key == "type" || value.is_null() || key == "env" && is_empty(value),
            _ => value.is_null(),
        }
    }

    /// The members of an item for a call with these arguments: those that distinguish it from other items of
    /// its type, without ids and status. `None` if no valid item has such arguments.
    ///
    /// The arguments of calls from an upstream of this API (`is_native`) are not checked, because the API may
    /// add members.
    pub(super) fn members(self, arguments: &str, is_native: bool) -> Option<Map<String, Value>> {
        let json = Json::parse(arguments).ok().filter(|json| json.kind() == Kind::Object)?;
        let Value::Object(mut given) = json.to_value() else { return None };
        let mut members = Map::new();
        let beside: Vec<_> = match is_native {
            true => BESIDE.iter().filter_map(|key| given.shift_remove_entry(*key)).collect(),
            false => Vec::new(),
        };
        let inner = match is_native {
            true => Some(self.completed(given)).filter(|inner| self.has_needed(inner))?,
            false => arguments::fitted(self, given)?,
        };
        match self.form().around {
            "" => members.extend(inner),
            around => _ = members.insert(around.to_owned(), inner.into()),
        }
        members.extend(beside);
        match self {
            Self::Computer | Self::ComputerPreview => {
                members.entry("pending_safety_checks").or_insert_with(|| Value::Array(Vec::new()));
            }
            Self::ToolSearch => _ = members.insert("execution".to_owned(), "client".into()),
            _ => {}
        }
        Some(members)
    }

    /// Whether the arguments have the members without which clients cannot run the call.
    fn has_needed(self, inner: &Map<String, Value>) -> bool {
        match self {
            Self::Shell => inner.get("commands").is_some_and(Value::is_array),
            Self::LocalShell => inner.get("command").is_some_and(Value::is_array),
            Self::ApplyPatch => inner.contains_key("type"),
            Self::Computer | Self::ComputerPreview => {
                inner.contains_key("actions") || inner.contains_key("action")
            }
            Self::ToolSearch => true,
        }
    }

    /// Adds the members that the API requires and [`arguments`](Self::arguments) leaves out.
    fn completed(self, mut inner: Map<String, Value>) -> Map<String, Value> {
        if self == Self::LocalShell {
            inner.entry("env").or_insert_with(|| Map::new().into());
            inner.insert("type".to_owned(), "exec".into());
        }
        inner
    }
}

fn is_empty(value: Json<'_>) -> bool {
    match value.kind() {
        Kind::Null => true,
        Kind::Array => value.elements().next().is_none(),
        Kind::Object => value.members().next().is_none(),
        _ => false,
    }
}

//! The toolsets that this API defines and that the client runs, such as `computer_toolset_20260801`.
//!
//! One declaration stands for many tools, its members. A call of a member is a `tool_use` block with a
//! `toolset_name`. Upstreams of this API get the declaration, and others get a function for each member, whose name
//! is that of the toolset, `__`, and that of the member. The members and their inputs are those of the types in
//! `anthropic` 2.14 (Python), see docs/protocols/messages.md#tools-that-the-client-runs.

use serde_json::{Map, Value, json};

use crate::{
    Dialect,
    conversation::{Namespaced, Received, Tool},
    wire::json::{Json, Raw},
};

/// The member of a `tool_use` block that names the toolset.
pub(super) const TOOLSET_NAME: &str = "toolset_name";

/// The name of the function that stands for a member of a toolset.
pub(super) fn joined(toolset: &str, member: &str) -> String {
    format!("{toolset}__{member}")
}

/// The functions that stand for the enabled members of a declared toolset, and where calls to them belong. `None` if
/// the declaration's type is not that of a known toolset.
pub(super) fn functions(kind: &str, declaration: Json<'_>) -> Option<Vec<(Tool, Namespaced)>> {
    let (toolset, members) = match kind {
        "computer_toolset_20260801" => ("computer", COMPUTER),
        "browser_toolset_20260801" => ("browser", BROWSER),
        _ => return None,
    };
    let configs = declaration.get("configs");
    let is_enabled = |member: &Member| {
        let given = configs.and_then(|configs| configs.get(member.name)?.get("enabled")?.as_bool());
        given.unwrap_or(!DISABLED.contains(&member.name))
    };
    let function = |member: &Member| {
        let name = joined(toolset, member.name);
        let schema = member.schema(toolset).to_string();
        let tool = Tool {
            description: member.description.to_owned(),
            parameters: Json::parse(&schema).ok().map(Raw::from),
            declared: Some(Received::new(Dialect::Messages.name(), declaration.into())),
            ..Tool::named(name.clone())
        };
        (tool, Namespaced { name, namespace: toolset.to_owned(), inner: member.name.to_owned() })
    };
    Some(members.iter().filter(|member| is_enabled(member)).map(function).collect())
}

/// Whether a tool is a member of a toolset, whose declaration is that of all members.
pub(super) fn is_member(tool: &Tool, namespaced: &[Namespaced]) -> bool {
    namespaced.iter().any(|known| known.name == tool.name)
}

struct Member {
    name: &'static str,
    description: &'static str,
    /// The names of its inputs. Those that end with `?` may be left out. What follows a colon is the kind of a
    /// target.
    inputs: &'static [&'static str],
}

const fn member(name: &'static str, description: &'static str, inputs: &'static [&'static str]) -> Member {
    Member { name, description, inputs }
}

/// Members of the browser that are disabled unless the declaration enables them.
const DISABLED: [&str; 4] = ["file_upload", "javascript_exec", "read_console", "read_network"];

const COMPUTER: &[Member] = &[
    member("screenshot", "Take a screenshot.", &[]),
    member("cursor_position", "Get the position of the cursor.", &[]),
    member("mouse_move", "Move the cursor without clicking.", &["coordinate"]),
    member("left_click", "Click, at the cursor if no coordinate is given.", &["coordinate?", "text?"]),
    member("right_click", "Click with the right button.", &["coordinate?", "text?"]),
    member("middle_click", "Click with the middle button.", &["coordinate?", "text?"]),
    member("double_click", "Click twice.", &["coordinate?", "text?"]),
    member("triple_click", "Click three times.", &["coordinate?", "text?"]),
    member(
        "left_click_drag",
        "Drag from one position to another.",
        &["start_coordinate", "coordinate", "text?"],
    ),
    member("left_mouse_down", "Press the left button and hold it.", &[]),
    member("left_mouse_up", "Release the left button.", &[]),
    member(
        "scroll",
        "Scroll, at the cursor if no coordinate is given.",
        &["scroll_direction", "scroll_amount", "coordinate?", "text?"],
    ),
    member("type", "Type a text.", &["text"]),
    member("key", "Press a key or several together, as in `ctrl+s`.", &["text", "repeat?"]),
    member("hold_key", "Hold a key or several together.", &["text", "duration"]),
    member("wait", "Wait.", &["duration"]),
    member("zoom", "Take an enlarged screenshot of a region.", &["region"]),
];

const BROWSER: &[Member] = &[
    member("navigate", "Open a URL, or go `back`, `forward` or `reload`.", &["url", "tab_id?"]),
    member("screenshot", "Take a screenshot of what the tab shows.", &["tab_id?"]),
    member("zoom", "Take an enlarged screenshot of a region.", &["region", "tab_id?"]),
    member("left_click", "Click.", &["target:any", "modifiers?", "tab_id?"]),
    member("right_click", "Click with the right button.", &["target:any", "modifiers?", "tab_id?"]),
    member("middle_click", "Click with the middle button.", &["target:any", "modifiers?", "tab_id?"]),
    member("double_click", "Click twice.", &["target:any", "modifiers?", "tab_id?"]),
    member("triple_click", "Click three times.", &["target:any", "modifiers?", "tab_id?"]),
    member("hover", "Move the cursor without clicking.", &["target:any", "tab_id?"]),
    member(
        "left_click_drag",
        "Drag from one position to another.",
        &["from:point", "target:point", "tab_id?"],
    ),
    member("left_mouse_down", "Press the left button and hold it.", &["target:point", "tab_id?"]),
    member("left_mouse_up", "Release the left button.", &["target:point", "tab_id?"]),
    member("mouse_move", "Move the cursor without clicking.", &["target:point", "tab_id?"]),
    member(
        "scroll",
        "Scroll at a position.",
        &["scroll_direction", "target:point", "scroll_amount?", "tab_id?"],
    ),
    member("scroll_to", "Scroll until an element is visible.", &["target:ref", "tab_id?"]),
    member("type", "Type a text.", &["text", "tab_id?"]),
    member("key", "Press a key or several together, as in `ctrl+a`.", &["text", "repeat?", "tab_id?"]),
    member("hold_key", "Hold a key or several together.", &["text", "duration", "tab_id?"]),
    member("form_input", "Set the value of an element of a form.", &["target:ref", "value", "tab_id?"]),
    member(
        "read_page",
        "Read the page as a tree of elements, with references.",
        &["filter?", "depth?", "ref?", "tab_id?"],
    ),
    member("find", "Find elements by a description.", &["query", "tab_id?"]),
    member("get_page_text", "Read the text of the page.", &["tab_id?"]),
    member("wait", "Wait.", &["duration", "tab_id?"]),
    member(
        "file_upload",
        "Choose files in an element of a form.",
        &["target:ref", "paths?", "document_ids?", "tab_id?"],
    ),
    member("read_console", "Read what the page wrote to the console.", &["tab_id?"]),
    member("read_network", "Read the requests that the page made.", &["tab_id?"]),
    member("javascript_exec", "Run JavaScript in the page and return its last value.", &["text", "tab_id?"]),
    member("new_tab", "Open an empty tab.", &[]),
    member("list_tabs", "List the open tabs.", &[]),
    member("switch_tab", "Make a tab the active one.", &["tab_id"]),
    member("close_tab", "Close a tab.", &["tab_id"]),
];

impl Member {
    fn schema(&self, toolset: &str) -> Value {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for input in self.inputs {
            let key = input.trim_end_matches('?');
            let (key, target) = key.split_once(':').unwrap_or((key, ""));
            if !input.ends_with('?') {
                required.push(key);
            }
            properties.insert(key.to_owned(), schema(toolset, key, target, self.name));
        }
        json!({"type": "object", "properties": properties, "required": required})
    }
}

fn schema(toolset: &str, key: &str, target: &str, member: &str) -> Value {
    let text = |told: &str| json!({"type": "string", "description": told});
    let list = |told: &str| json!({"type": "array", "items": {"type": "string"}, "description": told});
    let pixels = |told: &str| json!({"type": "array", "items": {"type": "integer"}, "description": told});
    match (key, target) {
        ("coordinate", _) => pixels("The position [x, y] in pixels, from the upper left corner."),
        ("start_coordinate", _) => pixels("Where it begins: [x, y] in pixels."),
        ("region", _) => pixels("The region [x0, y0, x1, y1] in pixels."),
        (_, "point") => point(),
        (_, "ref") => reference(),
        (_, "any") => json!({"anyOf": [point(), reference()]}),
        ("text", _) => match member {
            "type" => text("The text."),
            "key" | "hold_key" => text("The keys, joined by `+`."),
            "javascript_exec" => text("The JavaScript."),
            _ => text("Keys to hold meanwhile, as in `ctrl+shift`."),
        },
        ("modifiers", _) => text("Keys to hold meanwhile, as in `ctrl+shift`."),
        ("duration", _) if toolset == "computer" => json!({"type": "integer", "description": "Seconds."}),
        ("duration", _) => json!({"type": "number", "description": "Seconds, at most 30."}),
        ("repeat", _) => json!({"type": "integer", "description": "How many times, 1 if not given."}),
        ("depth", _) => json!({"type": "integer", "description": "How deep to read, 15 if not given."}),
        ("scroll_direction", _) => json!({"type": "string", "enum": ["up", "down", "left", "right"]}),
        ("scroll_amount", _) => json!({"type": "integer", "description": "Clicks of the wheel."}),
        ("filter", _) => json!({"type": "string", "enum": ["all", "interactive"]}),
        ("value", _) => json!({"type": ["string", "number", "boolean"], "description": "The value."}),
        ("paths", _) => list("The paths of the files."),
        ("document_ids", _) => list("The ids of files that the client keeps."),
        ("tab_id", _) => text("The tab, the active one if not given."),
        ("ref", _) => text("The reference of the element to begin at."),
        ("url", _) => text("The URL."),
        _ => text("What to find."),
    }
}

fn point() -> Value {
    json!({
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": ["coordinate"]},
            "x": {"type": "integer"},
            "y": {"type": "integer"},
        },
        "required": ["type", "x", "y"],
    })
}

fn reference() -> Value {
    json!({
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": ["ref"]},
            "ref": {"type": "string", "description": "A reference from read_page or find, as `ref_7`."},
        },
        "required": ["type", "ref"],
    })
}

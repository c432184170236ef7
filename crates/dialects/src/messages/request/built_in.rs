//! The tools that this API defines and that the client runs, such as `bash_20250124`.
//!
//! Upstreams of this API get them as declared. For others, and for models that learn their tools from a prompt,
//! they are functions of the same name, since calls to them are ordinary `tool_use` blocks. Their inputs are in
//! docs/protocols/messages.md#tools-that-the-client-runs.

use serde_json::{Map, Value, json};

use crate::wire::json::{Json, Raw};

/// The function that stands for a tool.
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) description: String,
    pub(super) parameters: Option<Raw>,
}

/// The function that stands for the tool with this type in a declaration. `None` if the client does not run it.
pub(super) fn function(kind: &str, declaration: Json<'_>) -> Option<Function> {
    let (tool, version) = kind.rsplit_once('_')?;
    let version = version.parse::<u32>().ok().filter(|_| version.len() == 8)?;
    let (name, description, schema) = match tool {
        "bash" => ("bash", BASH.to_owned(), bash()),
        "text_editor" => {
            let name =
                if version < RENAMED_EDITOR { "str_replace_editor" } else { "str_replace_based_edit_tool" };
            (name, editor_description(declaration), editor(version))
        }
        "memory" => ("memory", MEMORY.to_owned(), memory()),
        "computer" => ("computer", computer_description(declaration), computer(version, declaration)),
        _ => return None,
    };
    let parameters = Json::parse(&schema.to_string()).ok().map(Raw::from);
    Some(Function { name, description, parameters })
}

/// The first version of the text editor that has its new name and lacks `undo_edit`.
const RENAMED_EDITOR: u32 = 2025_0429;

const BASH: &str = "Run a command in a bash session on the user's computer, which keeps its state between calls. \
     Give either a command, or `restart` to begin a new session.";

fn bash() -> Value {
    object(
        json!({
            "command": text("The command to run."),
            "restart": {"type": "boolean", "description": "Whether to begin a new session instead."},
        }),
        &[],
    )
}

fn editor_description(declaration: Json<'_>) -> String {
    let mut description = "View, create and edit text files on the user's computer. `view` shows a file with line \
         numbers, or lists a directory; `create` writes a file; `str_replace` replaces a text that occurs exactly \
         once; `insert` adds text after a line."
        .to_owned();
    if let Some(most) = declaration.get("max_characters").and_then(|most| most.as_u64()) {
        description.push_str(&format!(" At most {most} characters of a file are shown."));
    }
    description
}

fn editor(version: u32) -> Value {
    let mut commands = vec!["view", "create", "str_replace", "insert"];
    if version < RENAMED_EDITOR {
        commands.push("undo_edit");
    }
    let mut properties = json!({
        "command": {"type": "string", "enum": commands},
        "path": text("The path of the file or directory."),
        "view_range": lines(),
        "file_text": text("For create: the contents of the file."),
        "old_str": text("For str_replace: the text to replace, with all white space."),
        "new_str": text("For str_replace: the new text."),
        "insert_line": line(),
    });
    let inserted = if version < RENAMED_EDITOR { "new_str" } else { "insert_text" };
    let told = if version < RENAMED_EDITOR { "For str_replace and insert: the new text." } else { INSERTED };
    if let Some(properties) = properties.as_object_mut() {
        properties.insert(inserted.to_owned(), text(told));
    }
    object(properties, &["command", "path"])
}

const INSERTED: &str = "For insert: the text to add.";

const MEMORY: &str = "Store and read what should be remembered across conversations, as files below `/memories`. \
     `view` shows a directory or a file; `create` writes a file; `str_replace` replaces a text that occurs exactly \
     once; `insert` adds text after a line; `delete` and `rename` change files and directories. View `/memories` \
     before other work, because earlier progress may be stored there.";

fn memory() -> Value {
    object(
        json!({
            "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert", "delete", "rename"]},
            "path": text("The path, for all commands but rename."),
            "view_range": lines(),
            "file_text": text("For create: the contents of the file."),
            "old_str": text("For str_replace: the text to replace, with all white space."),
            "new_str": text("For str_replace: the new text."),
            "insert_line": line(),
            "insert_text": text(INSERTED),
            "old_path": text("For rename: the present path."),
            "new_path": text("For rename: the new path."),
        }),
        &["command"],
    )
}

fn computer_description(declaration: Json<'_>) -> String {
    let number = |key: &str| declaration.get(key).and_then(|number| number.as_u64());
    let mut description =
        "Control the user's computer by mouse and keyboard, and take screenshots. Coordinates are \
         [x, y] in pixels, from the upper left corner. Take a screenshot before you click."
            .to_owned();
    if let (Some(width), Some(height)) = (number("display_width_px"), number("display_height_px")) {
        description.push_str(&format!(" The display has {width} x {height} pixels."));
    }
    description
}

/// The first version of `computer` that scrolls, waits and holds keys.
const SCROLLING_COMPUTER: u32 = 2025_0124;

fn computer(version: u32, declaration: Json<'_>) -> Value {
    let mut actions = vec![
        "screenshot",
        "cursor_position",
        "mouse_move",
        "left_click",
        "right_click",
        "middle_click",
        "double_click",
        "left_click_drag",
        "type",
        "key",
    ];
    let pair = |told: &str| json!({"type": "array", "items": {"type": "integer"}, "description": told});
    let mut properties = Map::new();
    let mut add = |key: &str, schema: Value| properties.insert(key.to_owned(), schema);
    add("coordinate", pair("The position [x, y], for mouse_move, clicks, scroll and the end of a drag."));
    add(
        "text",
        text("For type: the text. For key and hold_key: the keys, as in `ctrl+s`. For clicks: keys to hold."),
    );
    add("start_coordinate", pair("For left_click_drag: where it begins."));
    if version >= SCROLLING_COMPUTER {
        actions.extend(["triple_click", "left_mouse_down", "left_mouse_up", "scroll", "hold_key", "wait"]);
        add("scroll_direction", json!({"type": "string", "enum": ["up", "down", "left", "right"]}));
        add("scroll_amount", json!({"type": "integer", "description": "For scroll: clicks of the wheel."}));
        add("duration", json!({"type": "number", "description": "For wait and hold_key: seconds."}));
    }
    if declaration.get("enable_zoom").and_then(|zooms| zooms.as_bool()) == Some(true) {
        actions.push("zoom");
        add("region", pair("For zoom: the region [x0, y0, x1, y1] to show."));
    }
    add("action", json!({"type": "string", "enum": actions}));
    object(properties.into(), &["action"])
}

fn text(told: &str) -> Value {
    json!({"type": "string", "description": told})
}

fn lines() -> Value {
    json!({
        "type": "array",
        "items": {"type": "integer"},
        "description": "For view: the first and the last line to show, where -1 is the end of the file.",
    })
}

fn line() -> Value {
    json!({"type": "integer", "description": "For insert: the line after which to add the text, 0 for the beginning."})
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

//! The functions that stand for the built-in tools: their descriptions and schemas.

use super::BuiltInTool;
use crate::wire::json::Json;

pub(super) fn description(tool: BuiltInTool, declaration: Json<'_>) -> String {
    match tool {
        BuiltInTool::Shell => with_skills(SHELL, declaration),
        BuiltInTool::LocalShell => LOCAL_SHELL.to_owned(),
        BuiltInTool::ApplyPatch => APPLY_PATCH.to_owned(),
        BuiltInTool::Computer => COMPUTER.to_owned(),
        BuiltInTool::ComputerPreview => with_display(COMPUTER_PREVIEW, declaration),
        BuiltInTool::ToolSearch => {
            let own = declaration.get("description").and_then(|text| Some(text.as_str()?.into_owned()));
            own.filter(|text| !text.is_empty()).unwrap_or_else(|| TOOL_SEARCH.to_owned())
        }
    }
}

pub(super) fn schema(tool: BuiltInTool) -> &'static str {
    match tool {
        BuiltInTool::Shell => SHELL_SCHEMA,
        BuiltInTool::LocalShell => LOCAL_SHELL_SCHEMA,
        BuiltInTool::ApplyPatch => APPLY_PATCH_SCHEMA,
        BuiltInTool::Computer => COMPUTER_SCHEMA,
        BuiltInTool::ComputerPreview => COMPUTER_PREVIEW_SCHEMA,
        BuiltInTool::ToolSearch => TOOL_SEARCH_SCHEMA,
    }
}

/// Adds the skills of the client's environment, which the API shows to the model.
fn with_skills(description: &str, declaration: Json<'_>) -> String {
    let skills = declaration.get("environment").and_then(|environment| environment.get("skills"));
    let mut described = description.to_owned();
    for (place, skill) in skills.into_iter().flat_map(|skills| skills.elements()).enumerate() {
        let text = |key: &str| skill.get(key).and_then(|text| text.as_str()).unwrap_or_default();
        if place == 0 {
            described.push_str("\nSkills, each a folder with instructions in SKILL.md:");
        }
        described.push_str(&format!("\n- {} ({}): {}", text("name"), text("path"), text("description")));
    }
    described
}

fn with_display(description: &str, declaration: Json<'_>) -> String {
    let number = |key: &str| declaration.get(key).and_then(|number| number.as_u64());
    let place = declaration.get("environment").and_then(|place| place.as_str());
    let mut described = description.to_owned();
    if let (Some(width), Some(height)) = (number("display_width"), number("display_height")) {
        described.push_str(&format!(" The display has {width} x {height} pixels."));
    }
    if let Some(place) = place {
        described.push_str(&format!(" The environment is `{place}`."));
    }
    described
}

const SHELL: &str = "Run shell commands on the user's computer. Each command is one string, as typed into a shell. \
     Commands of one call may run at the same time. The result has the standard output, the standard error and the \
     outcome of each.";

const SHELL_SCHEMA: &str = r#"{"type":"object","properties":{"commands":{"type":"array","items":{"type":"string"},"description":"The commands to run."},"timeout_ms":{"type":"integer","description":"How long each command may take, in milliseconds."},"max_output_length":{"type":"integer","description":"How many characters of output to return at most."}},"required":["commands"],"additionalProperties":false}"#;

const LOCAL_SHELL: &str = "Run a program on the user's computer. The command is a list of the program and its \
     arguments, as in [\"bash\", \"-lc\", \"ls -la\"].";

const LOCAL_SHELL_SCHEMA: &str = r#"{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"},"description":"The program and its arguments."},"env":{"type":"object","additionalProperties":{"type":"string"},"description":"Additional environment variables."},"timeout_ms":{"type":"integer","description":"How long the command may take, in milliseconds."},"user":{"type":"string","description":"The user to run the command as."},"working_directory":{"type":"string","description":"The directory to run the command in."}},"required":["command"],"additionalProperties":false}"#;

const APPLY_PATCH: &str = "Create, change or delete one file. The diff of a new file is its contents, with `+` before \
     each line. The diff of a changed file has sections that begin with a line `@@`, or `@@ ` and a line that precedes \
     the section, such as the head of a function; the lines of a section begin with a space (unchanged), `-` (removed) \
     or `+` (added). A section contains about three unchanged lines before and after each change, and no line numbers.";

const APPLY_PATCH_SCHEMA: &str = r#"{"type":"object","properties":{"type":{"type":"string","enum":["create_file","update_file","delete_file"],"description":"What to do with the file."},"path":{"type":"string","description":"The path of the file, relative to the workspace."},"diff":{"type":"string","description":"The diff, unless the file is deleted."}},"required":["type","path"],"additionalProperties":false}"#;

const COMPUTER: &str = "Control the user's computer by mouse and keyboard. The actions of a call are performed in \
     order, and the result is a screenshot. Coordinates are pixels of the last screenshot, from its upper left corner. \
     Begin with a screenshot.";

const COMPUTER_PREVIEW: &str = "Control the user's computer by mouse and keyboard. The result of an action is a \
     screenshot. Coordinates are pixels, from the upper left corner.";

/// The schema of an action. Which members it needs depends on its type.
macro_rules! action {
    () => {
        r#"{"type":"object","properties":{"type":{"type":"string","enum":["click","double_click","drag","keypress","move","screenshot","scroll","type","wait"]},"x":{"type":"integer","description":"For click, double_click, move and scroll."},"y":{"type":"integer","description":"For click, double_click, move and scroll."},"button":{"type":"string","enum":["left","right","wheel","back","forward"],"description":"For click."},"scroll_x":{"type":"integer","description":"For scroll: pixels to the right."},"scroll_y":{"type":"integer","description":"For scroll: pixels down."},"path":{"type":"array","items":{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x","y"]},"description":"For drag: the points to pass."},"keys":{"type":"array","items":{"type":"string"},"description":"For keypress: the keys to press together. Else: keys to hold."},"text":{"type":"string","description":"For type: the text."}},"required":["type"]}"#
    };
}

const COMPUTER_SCHEMA: &str = concat!(
    r#"{"type":"object","properties":{"actions":{"type":"array","items":"#,
    action!(),
    r#"}},"required":["actions"],"additionalProperties":false}"#
);

const COMPUTER_PREVIEW_SCHEMA: &str = concat!(
    r#"{"type":"object","properties":{"action":"#,
    action!(),
    r#"},"required":["action"],"additionalProperties":false}"#
);

const TOOL_SEARCH: &str = "Find further tools. The tools that are found can be called afterwards.";

const TOOL_SEARCH_SCHEMA: &str = r#"{"type":"object","properties":{"query":{"type":"string","description":"What the tools should do."}},"required":["query"],"additionalProperties":false}"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::Kind;

    #[test]
    fn schemas_are_objects_with_properties() {
        for tool in BuiltInTool::ALL {
            let schema = Json::parse(schema(tool)).unwrap();
            assert_eq!(schema.get("properties").map(|properties| properties.kind()), Some(Kind::Object));
            let required = schema.get("required").unwrap();
            for key in required.elements() {
                assert!(schema.get("properties").unwrap().get(&key.as_str().unwrap()).is_some(), "{tool:?}");
            }
        }
    }
}

//! Converts the arguments that a model wrote to those that the client's item must have.
//!
//! Members that the item cannot have are left out, and forms that can only mean one thing are corrected, such as
//! a single command instead of a list. Anything else has no valid item.

use serde_json::{Map, Value};

use super::BuiltInTool;

pub(super) fn fitted(tool: BuiltInTool, arguments: Map<String, Value>) -> Option<Map<String, Value>> {
    match tool {
        BuiltInTool::Shell => shell(unwrapped(arguments, "action")),
        BuiltInTool::LocalShell => {
            local_shell(unwrapped(arguments, "action")).map(|inner| tool.completed(inner))
        }
        BuiltInTool::ApplyPatch => operation(unwrapped(arguments, "operation")),
        BuiltInTool::Computer => {
            let actions: Option<Vec<Value>> = listed(arguments).into_iter().map(action).collect();
            let actions = actions.filter(|actions| !actions.is_empty())?;
            Some(Map::from_iter([("actions".to_owned(), actions.into())]))
        }
        BuiltInTool::ComputerPreview => {
            let mut actions = listed(arguments).into_iter();
            let (Some(only), None) = (actions.next(), actions.next()) else { return None };
            Some(Map::from_iter([("action".to_owned(), action(only)?)]))
        }
        BuiltInTool::ToolSearch => Some(arguments),
    }
}

/// The inner object, if the model wrote the item's member around the arguments.
fn unwrapped(mut arguments: Map<String, Value>, around: &str) -> Map<String, Value> {
    match arguments.get_mut(around) {
        Some(Value::Object(inner)) => std::mem::take(inner),
        _ => arguments,
    }
}

fn shell(given: Map<String, Value>) -> Option<Map<String, Value>> {
    let mut action = Map::new();
    for (key, value) in given {
        match key.as_str() {
            "commands" => _ = action.insert(key, texts(value)?),
            "command" if value.is_string() => {
                action.entry("commands").or_insert_with(|| vec![value].into());
            }
            "timeout_ms" | "max_output_length" => keep(&mut action, key, value, is_count),
            _ => {}
        }
    }
    action.contains_key("commands").then_some(action)
}

fn local_shell(given: Map<String, Value>) -> Option<Map<String, Value>> {
    let mut action = Map::new();
    for (key, value) in given {
        match (key.as_str(), value) {
            ("command", Value::String(line)) => {
                action.insert(key, ["sh", "-c", &line].map(Value::from).to_vec().into());
            }
            ("command", list) => _ = action.insert(key, texts(list)?),
            ("env", value) => keep(&mut action, key, value, |env| {
                env.as_object().is_some_and(|env| env.values().all(Value::is_string))
            }),
            ("timeout_ms", value) => keep(&mut action, key, value, is_count),
            ("user" | "working_directory", value) => keep(&mut action, key, value, Value::is_string),
            _ => {}
        }
    }
    action.contains_key("command").then_some(action)
}

fn operation(given: Map<String, Value>) -> Option<Map<String, Value>> {
    let text = |key: &str| given.get(key).and_then(Value::as_str);
    let (kind, path) = (text("type")?, text("path")?);
    let has_diff = match kind {
        "create_file" | "update_file" => true,
        "delete_file" => false,
        _ => return None,
    };
    if path.is_empty() || has_diff && text("diff").is_none() {
        return None;
    }
    let is_member = |key: &str| matches!(key, "type" | "path") || has_diff && key == "diff";
    Some(given.into_iter().filter(|(key, _)| is_member(key)).collect())
}

/// The actions of a computer: `actions`, the only `action`, or the arguments themselves.
fn listed(mut arguments: Map<String, Value>) -> Vec<Value> {
    match (arguments.shift_remove("actions"), arguments.shift_remove("action")) {
        (Some(Value::Array(actions)), _) => actions,
        (Some(action @ Value::Object(_)), _) | (None, Some(action @ Value::Object(_))) => vec![action],
        (None, None) => vec![arguments.into()],
        _ => Vec::new(),
    }
}

fn action(value: Value) -> Option<Value> {
    let Value::Object(given) = value else { return None };
    let kind = given.get("type")?.as_str()?.to_owned();
    let needed: &[&str] = match kind.as_str() {
        "click" | "double_click" | "move" | "scroll" => &["x", "y"],
        "drag" => &["path"],
        "keypress" => &["keys"],
        "type" => &["text"],
        "screenshot" | "wait" => &[],
        _ => return None,
    };
    let defaults: &[(&str, Value)] = match kind.as_str() {
        "click" => &[("button", Value::String("left".to_owned()))],
        "scroll" => &[("scroll_x", 0.into()), ("scroll_y", 0.into())],
        _ => &[],
    };
    let mut action = Map::new();
    for (key, value) in given {
        let is_wanted = needed.contains(&key.as_str()) || defaults.iter().any(|(known, _)| *known == key);
        match key.as_str() {
            "type" => _ = action.insert(key, value),
            "keys" if needed.contains(&"keys") => _ = action.insert(key, texts(value)?),
            "keys" if !matches!(kind.as_str(), "type" | "screenshot" | "wait") => {
                if let Some(keys) = texts(value) {
                    action.insert(key, keys);
                }
            }
            "path" if is_wanted => _ = action.insert(key, points(value)?),
            "text" if is_wanted => keep(&mut action, key, value, Value::is_string),
            "button" if is_wanted => keep(&mut action, key, value, is_button),
            "x" | "y" | "scroll_x" | "scroll_y" if is_wanted => _ = action.insert(key, whole(&value)?),
            _ => {}
        }
    }
    for (key, value) in defaults {
        action.entry(*key).or_insert_with(|| value.clone());
    }
    needed.iter().all(|key| action.contains_key(*key)).then(|| action.into())
}

fn points(path: Value) -> Option<Value> {
    let Value::Array(points) = path else { return None };
    let point = |point: &Value| {
        let (x, y) = match point {
            Value::Array(pair) => match pair.as_slice() {
                [x, y] => (x, y),
                _ => return None,
            },
            point => (point.get("x")?, point.get("y")?),
        };
        Some(Map::from_iter([("x".to_owned(), whole(x)?), ("y".to_owned(), whole(y)?)]).into())
    };
    points.iter().map(point).collect::<Option<Vec<Value>>>().map(Value::from)
}

/// A list of texts, or the only text of one.
fn texts(value: Value) -> Option<Value> {
    match value {
        Value::String(text) => Some(vec![text].into()),
        Value::Array(list) if !list.is_empty() && list.iter().all(Value::is_string) => Some(list.into()),
        _ => None,
    }
}

/// A whole number. Models also write pixels as `10.0`.
fn whole(value: &Value) -> Option<Value> {
    if value.is_i64() {
        return Some(value.clone());
    }
    let number = value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 1e9)?;
    format!("{number:.0}").parse::<i64>().ok().map(Value::from)
}

fn is_button(value: &Value) -> bool {
    matches!(value.as_str(), Some("left" | "right" | "wheel" | "back" | "forward"))
}

fn is_count(value: &Value) -> bool {
    value.is_u64()
}

/// Adds an optional member, if its value is valid.
fn keep(members: &mut Map<String, Value>, key: String, value: Value, is_valid: impl Fn(&Value) -> bool) {
    if is_valid(&value) {
        members.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_fit_or_have_no_item() {
        use BuiltInTool::{ApplyPatch, Computer, ComputerPreview, LocalShell, Shell, ToolSearch};
        let click = json!({"type": "click", "x": 1, "y": 2, "button": "left"});
        for (tool, given, expected) in [
            (
                Shell,
                json!({"timeout_ms": 5, "commands": ["a", "b"]}),
                json!({"timeout_ms": 5, "commands": ["a", "b"]}),
            ),
            (Shell, json!({"commands": "ls", "timeout_ms": "5", "why": "x"}), json!({"commands": ["ls"]})),
            (Shell, json!({"action": {"commands": ["ls"]}}), json!({"commands": ["ls"]})),
            (Shell, json!({"command": "ls"}), json!({"commands": ["ls"]})),
            (Shell, json!({"command": ["bash", "-lc", "ls"]}), Value::Null),
            (Shell, json!({"commands": []}), Value::Null),
            (Shell, json!({"commands": [1]}), Value::Null),
            (Shell, json!({"timeout_ms": 1}), Value::Null),
            (Shell, json!({}), Value::Null),
            (
                LocalShell,
                json!({"command": ["ls"], "env": {"A": 1}}),
                json!({"command": ["ls"], "env": {}, "type": "exec"}),
            ),
            (
                LocalShell,
                json!({"command": "ls"}),
                json!({"command": ["sh", "-c", "ls"], "env": {}, "type": "exec"}),
            ),
            (LocalShell, json!({"commands": ["ls"]}), Value::Null),
            (
                ApplyPatch,
                json!({"path": "a", "type": "create_file", "diff": "+x"}),
                json!({"path": "a", "type": "create_file", "diff": "+x"}),
            ),
            (
                ApplyPatch,
                json!({"operation": {"type": "delete_file", "path": "a", "diff": ""}}),
                json!({"type": "delete_file", "path": "a"}),
            ),
            (ApplyPatch, json!({"type": "update_file", "path": "a"}), Value::Null),
            (ApplyPatch, json!({"type": "rename_file", "path": "a", "diff": ""}), Value::Null),
            (ApplyPatch, json!({"type": "create_file", "path": "", "diff": ""}), Value::Null),
            (ApplyPatch, json!({"type": "create_file", "diff": ""}), Value::Null),
            (Computer, json!({"actions": [click.clone()]}), json!({"actions": [click.clone()]})),
            (Computer, json!({"type": "click", "x": 1.0, "y": 2}), json!({"actions": [click.clone()]})),
            (
                Computer,
                json!({"action": {"type": "keypress", "keys": "a"}}),
                json!({"actions": [{"type": "keypress", "keys": ["a"]}]}),
            ),
            (
                Computer,
                json!({"actions": [{"type": "drag", "path": [[1, 2], {"x": 3, "y": 4}]}]}),
                json!({"actions": [{"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]}]}),
            ),
            (
                Computer,
                json!({"actions": [{"type": "scroll", "x": 1, "y": 2, "scroll_y": -3}]}),
                json!({"actions": [{"type": "scroll", "x": 1, "y": 2, "scroll_y": -3, "scroll_x": 0}]}),
            ),
            (Computer, json!({"actions": [click.clone(), {"type": "jump"}]}), Value::Null),
            (Computer, json!({"actions": [{"type": "click", "x": 1}]}), Value::Null),
            (Computer, json!({"actions": [{"type": "click", "x": 1, "y": 1.5}]}), Value::Null),
            (Computer, json!({"actions": [{"type": "type"}]}), Value::Null),
            (Computer, json!({"actions": []}), Value::Null),
            (Computer, json!({"action": "click"}), Value::Null),
            (ComputerPreview, json!({"action": {"type": "wait"}}), json!({"action": {"type": "wait"}})),
            (ComputerPreview, json!({"actions": [{"type": "wait"}, {"type": "wait"}]}), Value::Null),
            (ToolSearch, json!({"goal": "x"}), json!({"goal": "x"})),
        ] {
            let Value::Object(arguments) = given.clone() else { panic!() };
            let found = fitted(tool, arguments).map_or(Value::Null, Value::from);
            assert_eq!(found, expected, "{tool:?} {given}");
            // What fits is not changed again.
            if let Value::Object(found) = found {
                assert_eq!(fitted(tool, found.clone()), Some(found), "{tool:?} {given}");
            }
        }
    }
}

//! [`ToolMedia`]: images, recordings and documents that hosted tools have returned.

use serde_json::Value;

use super::{Part, Received, Role, Turn};

/// The name under which is remembered that an upstream does not take such files. It is also the name of their form,
/// which is that of no API, so that they are converted for every upstream.
pub const TOOL_MEDIA: &str = "tool_media";

/// Files that hosted tools have returned. They follow the text of a result, which stays understandable without them.
#[derive(Debug)]
pub struct ToolMedia;

impl ToolMedia {
    /// A part for a file: an object with `type` (`image`, `audio`, `document`), `mimeType` and `data`, which is base64.
    pub fn part(file: Value) -> Part {
        Part::Other(Received::new(TOOL_MEDIA, file))
    }

    /// The file in `part`, if a hosted tool has returned it.
    pub fn of(part: &Part) -> Option<&Value> {
        match part {
            Part::Other(other) => other.from_dialect(TOOL_MEDIA),
            _ => None,
        }
    }

    /// Size of the file in `part`, in bytes of base64. 0 for other parts.
    pub fn size(part: &Part) -> usize {
        let data = Self::of(part).and_then(|file| file.get("data")?.as_str());
        data.map_or(0, str::len)
    }

    /// Whether there are such files in `turns`.
    pub fn are_in(turns: &[Turn]) -> bool {
        let mut parts =
            turns.iter().filter(|turn| turn.role == Role::Tool).flat_map(|turn| turn.parts.iter());
        parts.any(|part| Self::of(part).is_some())
    }

    /// Replaces such files with a line in the text of their results.
    pub fn leave_out(turns: &mut [Turn]) {
        for turn in turns.iter_mut().filter(|turn| turn.role == Role::Tool) {
            let files = turn.parts.extract_if(.., |part| Self::of(part).is_some());
            let lines = files.filter_map(|part| Some(line(Self::of(&part)?)));
            let lines: String = lines.collect();
            let output = turn.parts.iter_mut().rev().find_map(|part| match part {
                Part::Result(output) => Some(output),
                _ => None,
            });
            if let Some(output) = output {
                output.content.push_str(&lines);
            }
        }
    }
}

fn line(file: &Value) -> String {
    let mime = file.get("mimeType").and_then(Value::as_str).unwrap_or_default();
    format!("\n[{mime}, not shown: you cannot see or hear such files]")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::conversation::CallOutput;

    #[test]
    fn files_that_are_left_out_are_mentioned_in_their_results() {
        let output = |content: &str| {
            Part::Result(CallOutput {
                id: "c".to_owned(),
                name: "n".to_owned(),
                content: content.to_owned(),
                is_error: false,
            })
        };
        let file = ToolMedia::part(json!({"type": "image", "mimeType": "image/png", "data": "AAAA"}));
        let image = Part::Image { url: "data:image/png;base64,AAAA".to_owned(), detail: None };
        let mut turns = vec![
            Turn::of(Role::User, vec![image.clone()]),
            Turn::of(Role::Tool, vec![output("a"), image.clone(), file.clone(), file]),
        ];
        assert!(ToolMedia::are_in(&turns));
        ToolMedia::leave_out(&mut turns);
        assert!(!ToolMedia::are_in(&turns));
        let line = "\n[image/png, not shown: you cannot see or hear such files]";
        assert_eq!(turns[1].parts, [output(&format!("a{line}{line}")), image.clone()]);
        assert_eq!(turns[0].parts, [image]);
    }
}

//! [`ImageRequest`]: the arguments of a call.

use serde_json::{Map, Value, json};

use crate::{ErrorCode, ToolError};

const DEFAULT_COUNT: usize = 2;

/// In characters.
const MAX_PROMPT: usize = 32_000;

/// The aspect ratios that the schema offers.
const RATIOS: [&str; 10] = ["1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ImageRequest {
    /// What the images should show, as the model wrote it.
    pub(super) prompt: String,
    pub(super) count: usize,
    /// For example `16:9`.
    pub(super) aspect_ratio: Option<String>,
    pub(super) style: Option<String>,
    /// Tells the model that the number of images differs from the requested one.
    pub(super) note: Option<String>,
}

/// The schema of the arguments. It does not limit the number of images, which is clamped instead.
pub(super) fn schema(max_count: usize) -> Value {
    let default = DEFAULT_COUNT.min(max_count);
    json!({
        "type": "object",
        "properties": {
            "prompt": {
                "type": "string",
                "description": "What the images show, in detail: subject, setting, composition, light, colours."
            },
            // No type is given, because models also write `"3"` and `2.5`, which a type would exclude.
            "count": {
                "description": format!("How many images: a whole number from 1 to {max_count}."),
                "default": default
            },
            "aspect_ratio": {
                "type": "string",
                "enum": RATIOS,
                "description": "Width to height."
            },
            "style": {
                "type": "string",
                "description": "The style, such as watercolour, pixel art or photograph."
            }
        },
        "required": ["prompt"]
    })
}

impl ImageRequest {
    /// Parses the arguments.
    ///
    /// # Errors
    /// The description is missing or too long.
    pub(super) fn read(arguments: &Map<String, Value>, max_count: usize) -> Result<Self, ToolError> {
        let text = |key: &str| {
            arguments.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
        };
        let wrong = |message: String| ToolError::new(ErrorCode::InvalidArguments, message);
        let prompt =
            text("prompt").ok_or_else(|| wrong("`prompt` is missing: what the images show.".to_owned()))?;
        if prompt.chars().count() > MAX_PROMPT {
            return Err(wrong(format!("`prompt` is longer than {MAX_PROMPT} characters.")));
        }
        let (count, note) = count(arguments.get("count"), max_count);
        Ok(Self {
            prompt: prompt.to_owned(),
            count,
            aspect_ratio: text("aspect_ratio").filter(|ratio| RATIOS.contains(ratio)).map(str::to_owned),
            style: text("style").map(str::to_owned),
            note,
        })
    }

    /// The description that is sent to the service.
    pub(super) fn description(&self, suffix: &str) -> String {
        let mut text = self.prompt.clone();
        if let Some(style) = &self.style {
            text.push_str(&format!("\nStyle: {style}"));
        }
        if !suffix.trim().is_empty() {
            text.push_str(&format!("\n{}", suffix.trim()));
        }
        text
    }
}

/// Returns the number of images, clamped to its limits, and a note if it differs from the requested number.
fn count(asked: Option<&Value>, max: usize) -> (usize, Option<String>) {
    // Models also write numbers as `3.0` and `"3"`.
    let number = asked.and_then(|asked| asked.as_f64().or_else(|| asked.as_str()?.trim().parse().ok()));
    let Some(number) = number.filter(|number| !number.is_nan()) else {
        return (DEFAULT_COUNT.min(max), None);
    };
    let count = (1..max).find(|count| number < *count as f64 + 1.0).unwrap_or(max);
    if number < 1.0 {
        return (1, Some("At least 1 image is generated.".to_owned()));
    }
    let note =
        (number >= max as f64 + 1.0).then(|| format!("At most {max} images are generated in one call."));
    (count, note)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: Value) -> Result<ImageRequest, ToolError> {
        ImageRequest::read(arguments.as_object().unwrap(), 4)
    }

    #[test]
    fn count_is_brought_into_its_limits() {
        for (asked, count, is_noted) in [
            (json!(null), 2, false),
            (json!(-7), 1, true),
            (json!(0), 1, true),
            (json!(1), 1, false),
            (json!(4), 4, false),
            (json!(5), 4, true),
            (json!(1e300), 4, true),
            (json!(3.0), 3, false),
            (json!(2.9), 2, false),
            (json!("3"), 3, false),
            (json!("many"), 2, false),
            (json!([3]), 2, false),
        ] {
            let request = read(json!({"prompt": "a fox", "count": asked})).unwrap();
            assert_eq!((request.count, request.note.is_some()), (count, is_noted), "{asked}");
        }
        let request = ImageRequest::read(json!({"prompt": "a fox"}).as_object().unwrap(), 1).unwrap();
        assert_eq!((request.count, request.note), (1, None));
    }

    #[test]
    fn description_is_required_and_bounded() {
        for arguments in
            [json!({}), json!({"prompt": " \n"}), json!({"prompt": 7}), json!({"prompt": "x".repeat(32_001)})]
        {
            assert_eq!(read(arguments).unwrap_err().code, ErrorCode::InvalidArguments);
        }
        assert!(read(json!({"prompt": "ü".repeat(32_000)})).is_ok());
    }

    #[test]
    fn style_and_suffix_are_appended_to_the_description() {
        let request = read(json!({"prompt": " a fox ", "style": "ink", "aspect_ratio": "7:3"})).unwrap();
        assert_eq!((request.prompt.as_str(), request.aspect_ratio.as_deref()), ("a fox", None));
        assert_eq!(request.description(" on parchment"), "a fox\nStyle: ink\non parchment");
        assert_eq!(ImageRequest { style: None, ..request }.description(" "), "a fox");
    }
}

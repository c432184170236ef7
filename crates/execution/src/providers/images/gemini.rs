//! Gemini's image models: `models/{model}:generateContent`, with one image per request.

use serde_json::{Value, json};

use super::{Image, Options, fields::with_configured, refusal, image_request::ImageRequest};
use crate::ToolError;

/// The path and body of a request.
pub(super) fn request(options: &Options, request: &ImageRequest) -> (String, Value) {
    let modalities = ["TEXT", "IMAGE"];
    let config = match &request.aspect_ratio {
        Some(ratio) => json!({"responseModalities": modalities, "imageConfig": {"aspectRatio": ratio}}),
        None => json!({"responseModalities": modalities}),
    };
    let text = request.description(&options.style_suffix);
    let body = json!({
        "contents": [{"role": "user", "parts": [{"text": text}]}],
        "generationConfig": with_configured(config, options.request.as_ref()),
    });
    (format!("models/{}:generateContent", options.model), body)
}

/// The image in a response, or why there is none.
///
/// A response without an image is a refusal: the request or the image was blocked, or the model answered with text.
/// Parts that are marked as thoughts are drafts, and are skipped.
pub(super) fn image(response: &Value) -> Result<Image, ToolError> {
    let member = |value: &Value, names: [&str; 2]| names.iter().find_map(|name| value.get(name)).cloned();
    let candidates = response.get("candidates").and_then(Value::as_array).into_iter().flatten();
    let parts = candidates.filter_map(|candidate| candidate.pointer("/content/parts")?.as_array());
    let mut parts = parts.flatten();
    let data = parts.find_map(|part| {
        if part.get("thought").and_then(Value::as_bool) == Some(true) {
            return None;
        }
        let inline = member(part, ["inlineData", "inline_data"])?;
        inline.get("data")?.as_str().filter(|data| !data.is_empty()).map(str::to_owned)
    });
    data.map(Image::Data).ok_or_else(refusal::by_policy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    #[test]
    fn image_is_found_among_other_parts() {
        let part = |part: Value| json!({"candidates": [{"content": {"parts": [{"text": "Here:"}, part]}}]});
        let image_of = |response: &Value| image(response).ok();
        let found = Some(Image::Data("QUJD".to_owned()));
        assert_eq!(image_of(&part(json!({"inlineData": {"mimeType": "image/png", "data": "QUJD"}}))), found);
        assert_eq!(
            image_of(&part(json!({"inline_data": {"mime_type": "image/png", "data": "QUJD"}}))),
            found
        );
        assert_eq!(image_of(&part(json!({"thought": true, "inlineData": {"data": "QUJD"}}))), None);
    }

    #[test]
    fn every_form_of_refusal_is_one_of_policy() {
        let finishes =
            ["IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "NO_IMAGE", "PROHIBITED_CONTENT", "SAFETY", "STOP"];
        let finished = finishes.map(|reason| json!({"candidates": [{"finishReason": reason}]}));
        let others = [
            json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}),
            json!({"candidates": [{"content": {"parts": [{"text": "I cannot draw that."}]}, "finishReason": "STOP"}]}),
            json!({"candidates": []}),
            json!({"candidates": [{"content": {"parts": [{"inlineData": {"data": ""}}]}}]}),
            json!({}),
            json!([1, "x"]),
        ];
        for response in finished.iter().chain(&others) {
            assert_eq!(image(response).unwrap_err().code, ErrorCode::ContentPolicy, "{response}");
        }
    }
}

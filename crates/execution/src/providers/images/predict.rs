//! Imagen's former method `models/{model}:predict`, with all images in one request.

use serde_json::{Value, json};

use super::{Image, Made, Options, fields::with_configured, refusal, image_request::ImageRequest};

/// The path and body of a request.
pub(super) fn request(options: &Options, request: &ImageRequest) -> (String, Value) {
    let parameters = json!({"sampleCount": request.count, "includeRaiReason": true});
    let parameters = match &request.aspect_ratio {
        Some(ratio) => with_configured(parameters, Some(&json!({"aspectRatio": ratio}))),
        None => parameters,
    };
    let text = request.description(&options.style_suffix);
    let parameters = with_configured(parameters, options.request.as_ref());
    let body = json!({"instances": [{"prompt": text}], "parameters": parameters});
    (format!("models/{}:predict", options.model), body)
}

/// Parses the images in a response to a request for `count` images. Missing images count as filtered out.
pub(super) fn images(response: &Value, count: usize) -> Made {
    let images = response["predictions"].as_array().into_iter().flatten();
    let images =
        images.filter_map(|image| image["bytesBase64Encoded"].as_str().filter(|data| !data.is_empty()));
    let mut made: Made = images.take(count).map(|data| Ok(Image::Data(data.to_owned()))).collect();
    made.resize_with(count, || Err(refusal::by_policy()));
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    #[test]
    fn missing_predictions_were_filtered() {
        let response = json!({"predictions": [
            {"raiFilteredReason": "filtered"},
            {"bytesBase64Encoded": "QUJD", "mimeType": "image/png"},
        ]});
        let made = images(&response, 3);
        assert_eq!(made[0], Ok(Image::Data("QUJD".to_owned())));
        assert!(made[1..].iter().all(|image| image.as_ref().unwrap_err().code == ErrorCode::ContentPolicy));
        assert_eq!(images(&json!({}), 2).len(), 2);
    }
}

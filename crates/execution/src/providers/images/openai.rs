//! OpenAI's images API: `images/generations`, with all images in one request.

use serde_json::{Value, json};

use super::{Image, Made, Options, fields::with_configured, refusal, image_request::ImageRequest};

/// The path and body of a request. The format is not set, since PNG is the default and some servers reject
/// `output_format`.
pub(super) fn request(options: &Options, request: &ImageRequest) -> (String, Value) {
    let text = request.description(&options.style_suffix);
    let body = json!({"model": options.model, "prompt": text, "n": request.count});
    let body = match &request.aspect_ratio {
        Some(ratio) => with_configured(body, Some(&json!({"size": size(ratio)}))),
        None => body,
    };
    ("images/generations".to_owned(), with_configured(body, options.request.as_ref()))
}

/// The supported size that is closest to an aspect ratio.
fn size(ratio: &str) -> &'static str {
    let sides =
        ratio.split_once(':').and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
    let (width, height): (u32, u32) = sides.unwrap_or((1, 1));
    match width.cmp(&height) {
        std::cmp::Ordering::Less => "1024x1536",
        std::cmp::Ordering::Equal => "1024x1024",
        std::cmp::Ordering::Greater => "1536x1024",
    }
}

/// Parses the images in a response to a request for `count` images. Missing images count as refused.
pub(super) fn images(response: &Value, count: usize) -> Made {
    let text =
        |image: &Value, name: &str| image[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let images = response["data"].as_array().into_iter().flatten();
    let images = images.filter_map(|image| {
        let url = || Some(Image::Url(text(image, "url")?));
        text(image, "b64_json").map(Image::Data).or_else(url)
    });
    let mut made: Made = images.take(count).map(Ok).collect();
    made.resize_with(count, || Err(refusal::missing()));
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    #[test]
    fn images_come_as_data_or_as_addresses() {
        let response = json!({"created": 1, "data": [{"b64_json": "QUJD"}, {"url": "https://x/y.png"}, {"revised_prompt": "x"}]});
        let made = images(&response, 3);
        assert_eq!(made[0], Ok(Image::Data("QUJD".to_owned())));
        assert_eq!(made[1], Ok(Image::Url("https://x/y.png".to_owned())));
        assert_eq!(made[2].as_ref().unwrap_err().code, ErrorCode::ProviderError);
        assert_eq!(images(&response, 1).len(), 1, "more images than were asked for");
        assert!(images(&json!({"data": "x"}), 2).iter().all(Result::is_err));
    }

    #[test]
    fn size_follows_the_aspect_ratio() {
        let sizes = [("1:1", "1024x1024"), ("16:9", "1536x1024"), ("2:3", "1024x1536")];
        assert!(sizes.iter().all(|(ratio, expected)| size(ratio) == *expected));
    }
}

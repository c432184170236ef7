//! [`Engine`]: the APIs of image services.

use std::iter;

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use http::{HeaderName, header};
use serde_json::Value;

use super::{Made, Options, gemini, openai, predict, image_request::ImageRequest};

/// An API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Engine {
    /// `models/{model}:generateContent`, with one image per request.
    Gemini,
    /// `images/generations`
    OpenAi,
    /// `models/{model}:predict`
    Predict,
}

impl Engine {
    pub(super) fn default_model(self) -> Option<&'static str> {
        match self {
            Self::Gemini => Some("gemini-3.1-flash-image"),
            Self::OpenAi | Self::Predict => None,
        }
    }

    pub(super) fn default_base(self) -> &'static str {
        match self {
            Self::Gemini | Self::Predict => "https://generativelanguage.googleapis.com/v1beta",
            Self::OpenAi => "https://api.openai.com/v1",
        }
    }

    pub(super) fn key_header(self, key: &str) -> (HeaderName, String) {
        match self {
            Self::Gemini | Self::Predict => (HeaderName::from_static("x-goog-api-key"), key.to_owned()),
            Self::OpenAi => (header::AUTHORIZATION, format!("Bearer {key}")),
        }
    }

    /// Returns the number of images for each request, for a total of `count`.
    pub(super) fn requests(self, count: usize) -> impl Iterator<Item = usize> {
        let (requests, each) = match self {
            Self::Gemini => (count, 1),
            Self::OpenAi | Self::Predict => (1, count),
        };
        iter::repeat_n(each, requests)
    }

    /// The path of a request, relative to the base URL, and its body.
    pub(super) fn request(self, options: &Options, request: &ImageRequest) -> (String, Value) {
        match self {
            Self::Gemini => gemini::request(options, request),
            Self::OpenAi => openai::request(options, request),
            Self::Predict => predict::request(options, request),
        }
    }

    /// Parses the images in a response to a request for `count` images.
    pub(super) fn images(self, response: &Value, count: usize) -> Made {
        match self {
            Self::Gemini => vec![gemini::image(response)],
            Self::OpenAi => openai::images(response, count),
            Self::Predict => predict::images(response, count),
        }
    }
}

/// Decodes base64, with or without padding.
pub(super) fn decoded(data: &str) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    LENIENT.decode(data).ok()
}

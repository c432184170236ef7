//! `kind = "images"`: the tool `generate_images`, implemented with Gemini's image models, OpenAI's images API, or the
//! `:predict` method of Imagen, which other servers still support.
//!
//! Images are stored as files ([`ImageFiles`]); the model gets their URLs and shows them as Markdown. If only some of
//! the images could be generated, the call succeeds and says so. Only the code of a service's error message is logged.

mod engine;
mod fields;
mod gemini;
mod image_request;
mod openai;
mod predict;
mod refusal;
#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tasks end with the runtime of their test")]
mod tests;

use std::{
    num::NonZeroU32,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, Uri, header};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};
use tokio::{
    sync::Semaphore,
    task::{JoinSet, spawn_blocking},
    time::{Instant, timeout_at},
};

use self::{engine::Engine, image_request::ImageRequest};
use crate::{
    ErrorCode, Host, Invocation, Output, Provider, Rate, Running, Testing, ToolError, ToolSpec, Verdict,
    address::AddressRules,
    files::{ImageFiles, SaveError, UnclaimedImage},
    http::{Download, HttpClient, HttpError},
    providers::Fault,
};
use toolwire_pipeline::{settings::Settings, wire::json::Raw};

pub const TOOL: &str = "generate_images";

/// Default rate limit per client, unless `[[tools]]` sets another.
const CALLS_PER_MINUTE: NonZeroU32 = NonZeroU32::MIN.saturating_add(9);

/// In bytes.
const MAX_RESPONSE: usize = 64 << 20;

/// How long before its deadline a call reports the images that are ready.
const REPORTING: Duration = Duration::from_secs(5);

/// The settings.
#[derive(Debug, Clone, Settings)]
pub struct Options {
    /// the API of compatible servers, too: `gemini`; `openai`, `images/generations`; `predict`, Imagen's
    /// `:predict`
    #[setting(default = Engine::Gemini, word)]
    engine: Engine,
    /// the URL of the API, up to the version
    #[setting(or = "Google's or OpenAI's, by `engine`")]
    base_url: Option<Uri>,
    /// the key; without it and a `base_url`, nothing is offered
    api_key: Option<SecretString>,
    /// the model that makes the images
    #[setting(or = "`gemini-3.1-flash-image` with `gemini`")]
    model: String,
    /// how long a call may take; later images are left out
    #[setting(default = Duration::from_secs(60))]
    timeout: Duration,
    /// requests to the service at the same time
    #[setting(default = 2)]
    max_concurrent: usize,
    /// images in one call, with a note if it asks for more
    #[setting(default = 4)]
    max_count: usize,
    /// appended to every description
    #[setting(may_be_empty)]
    style_suffix: String,
    /// further fields of `generationConfig` (`gemini`), `parameters` (`predict`), or the request (`openai`):
    /// `{ quality = "low" }`
    #[setting(or = " ")]
    request: Option<Value>,
    /// allow addresses of images on this machine and in its networks
    #[setting(file_only)]
    allow_private: bool,
}

impl Options {
    /// Checks the settings.
    pub(super) fn check(&self) -> Result<(), Fault> {
        match self.model.is_empty() && self.engine.default_model().is_none() {
            true => Err(Fault::new("model", "`model` is missing: the model that makes the images")),
            false => Ok(()),
        }
    }

    /// The names and aliases of the provider's tool.
    pub(super) fn offers(&self, _: &str) -> Vec<String> {
        [TOOL, "generate_image", "image_generation"].map(str::to_owned).into()
    }

    pub(super) fn build(&self, host: &Host) -> Result<Arc<dyn Provider>, Fault> {
        let model = match (self.model.as_str(), self.engine.default_model()) {
            ("", None) => return Err(Fault::new("model", "`model` is missing: the model that makes the images")),
            ("", Some(model)) => model,
            (model, _) => model,
        };
        let is_usable = self.api_key.is_some() || self.base_url.is_some();
        if !is_usable {
            tracing::warn!(provider = %host.name, "no images can be generated without `api_key`");
        }
        let files = host.files.clone();
        if files.is_none() {
            tracing::warn!(provider = %host.name, "no images can be generated without `state_dir` or `image_dir`");
        }
        let base = match &self.base_url {
            Some(url) => url.to_string().trim_end_matches('/').to_owned(),
            None => self.engine.default_base().to_owned(),
        };
        let tool = is_usable.then(|| Arc::new(self.tool()));
        let service = files.map(|files| {
            let service = Service {
                options: Self { model: model.to_owned(), ..self.clone() },
                base,
                files,
                http: host.http.clone(),
                downloads: host
                    .http
                    .guarded(AddressRules { allow_private: self.allow_private, ..AddressRules::default() }),
                places: Semaphore::new(self.max_concurrent.min(Semaphore::MAX_PERMITS)),
                provider: Arc::clone(&host.name),
            };
            Arc::new(service)
        });
        Ok(Arc::new(Images { tool: tool.filter(|_| service.is_some()), service }))
    }

    fn tool(&self) -> ToolSpec {
        let description = format!(
            "Generates images from a description. Call it when the user asks for a picture, drawing, photo, logo or other image. \
             The result has the URLs of the images; show each of them in the answer as a Markdown image. One call makes up to {} \
             images.",
            self.max_count
        );
        ToolSpec {
            name: TOOL.to_owned(),
            aliases: &["generate_image", "image_generation"],
            label: "Image Generation".to_owned(),
            description,
            progress: "Generating images: {prompt}".to_owned(),
            parameters: Raw::from(image_request::schema(self.max_count)),
            timeout: self.timeout + REPORTING,
            rate_limit: Some(Rate::per_minute(CALLS_PER_MINUTE)),
            ..ToolSpec::default()
        }
    }
}

#[derive(Debug)]
struct Images {
    /// `None` if no images can be generated.
    tool: Option<Arc<ToolSpec>>,
    service: Option<Arc<Service>>,
}

impl Provider for Images {
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        self.tool.iter().cloned().collect()
    }

    fn run<'a>(&'a self, call: &'a Invocation) -> Running<'a> {
        Box::pin(async move {
            let missing = || ToolError::new(ErrorCode::ProviderError, "There is no folder for images.");
            self.service.as_ref().ok_or_else(missing)?.call(&call.arguments, call.deadline).await
        })
    }

    fn test<'a>(&'a self, key: Option<&'a SecretString>) -> Testing<'a> {
        Box::pin(async move { Some(self.service.as_ref()?.test(key).await) })
    }
}

/// An image service, and the folder for its images.
#[derive(Debug)]
struct Service {
    options: Options,
    /// The base URL, without a trailing slash.
    base: String,
    files: Arc<ImageFiles>,
    http: HttpClient,
    /// For images that the service sends as URLs.
    downloads: HttpClient,
    /// Permits for concurrent requests.
    places: Semaphore,
    provider: Arc<str>,
}

/// An image as sent by a service.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Image {
    /// Base64.
    Data(String),
    /// A URL that the service has chosen.
    Url(String),
}

/// For each image of a request, the image or why there is none.
type Made = Vec<Result<Image, ToolError>>;

impl Service {
    async fn call(
        self: &Arc<Self>,
        arguments: &Map<String, Value>,
        end: Instant,
    ) -> Result<Output, ToolError> {
        let request = ImageRequest::read(arguments, self.options.max_count)?;
        let deadline = end.min(Instant::now() + self.options.timeout);
        let mut tasks = JoinSet::new();
        for (place, count) in self.options.engine.requests(request.count).enumerate() {
            let (service, request) = (Arc::clone(self), ImageRequest { count, ..request.clone() });
            tasks.spawn(async move { (place, service.make(&request, deadline).await) });
        }
        let mut made = Vec::new();
        while let Some(ended) = tasks.join_next().await {
            // A task that panicked adds no images.
            made.extend(ended);
        }
        made.sort_unstable_by_key(|(place, _)| *place);
        self.report(&request, made.into_iter().flat_map(|(_, results)| results).collect())
    }

    /// Creates the output of the call. It is a success if there is at least one image.
    fn report(
        &self,
        request: &ImageRequest,
        results: Vec<Result<UnclaimedImage, ToolError>>,
    ) -> Result<Output, ToolError> {
        let mut names = Vec::new();
        let mut failure = None;
        for result in results {
            match result {
                Ok(image) if names.len() < request.count => names.extend(image.claim()),
                Ok(_) => {}
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if names.is_empty() {
            let nothing = || ToolError::new(ErrorCode::ProviderError, "The image service sent no image.");
            return Err(failure.unwrap_or_else(nothing));
        }
        let urls: Vec<_> = names.iter().map(|name| self.files.url(name)).collect();
        let summary = images(urls.len());
        let mut message = format!("Generated {summary} from the description.");
        if let Some(note) = &request.note {
            message.push_str(&format!(" {note}"));
        }
        if urls.len() < request.count {
            let reason =
                failure.map_or("The image service sent fewer images.".to_owned(), |error| error.message);
            message.push_str(&format!(
                " {} could not be generated: {reason}",
                images(request.count - urls.len())
            ));
        }
        let markdown: Vec<_> =
            urls.iter().zip(1..).map(|(url, number)| format!("![Image {number}]({url})")).collect();
        let data = json!({"image_urls": urls, "prompt": request.prompt});
        let content = json!({
            "ok": true,
            "kind": "images",
            "message": message,
            "data": data,
            "instructions": "Show the images to the user: put these lines into the answer unchanged, each on its own line.",
            "markdown": markdown.join("\n"),
        });
        let details = json!({"kind": "images", "message": message, "data": data});
        Ok(Output { content: content.to_string(), summary, details, images: names, ..Output::default() })
    }

    /// Makes the images of one request and stores them.
    async fn make(
        &self,
        request: &ImageRequest,
        deadline: Instant,
    ) -> Vec<Result<UnclaimedImage, ToolError>> {
        let late = || {
            let message =
                format!("The image service did not answer within {} s.", self.options.timeout.as_secs());
            ToolError::new(ErrorCode::Timeout, message)
        };
        let made = timeout_at(deadline, self.ask(request)).await.unwrap_or_else(|_| Err(late()));
        let made = match made {
            Ok(made) => made,
            Err(error) => return vec![Err(error)],
        };
        let mut kept = Vec::with_capacity(made.len());
        for image in made {
            kept.push(match image {
                Ok(image) => timeout_at(deadline, self.keep(image)).await.unwrap_or_else(|_| Err(late())),
                Err(error) => Err(error),
            });
        }
        kept
    }

    async fn ask(&self, request: &ImageRequest) -> Result<Made, ToolError> {
        let closed = |_| ToolError::new(ErrorCode::Cancelled, "The image service is shut down.");
        let _place = self.places.acquire().await.map_err(closed)?;
        let engine = self.options.engine;
        let (path, body) = engine.request(&self.options, request);
        let http_request = self.request(http::Method::POST, &path, None, body.to_string().into())?;
        let response =
            self.http.send(http_request, MAX_RESPONSE).await.map_err(|error| self.unanswered(error))?;
        if !response.status().is_success() {
            return Err(self.refused(&response));
        }
        let answer = serde_json::from_slice(response.body()).map_err(|error| {
            tracing::warn!(provider = %self.provider, %error, "an image service sent a response that cannot be read");
            ToolError::new(ErrorCode::ProviderError, "The image service sent a response that cannot be read.")
        })?;
        let made = engine.images(&answer, request.count);
        for code in made.iter().filter_map(|image| image.as_ref().err()) {
            tracing::info!(provider = %self.provider, code = code.code.name(), "an image was not generated");
        }
        Ok(made)
    }

    async fn keep(&self, image: Image) -> Result<UnclaimedImage, ToolError> {
        let bytes = match image {
            Image::Data(data) => engine::decoded(&data).map(Bytes::from),
            Image::Url(url) => Some(self.download(&url).await?),
        };
        let files = Arc::clone(&self.files);
        let kept = spawn_blocking(move || {
            let image = bytes.ok_or(SaveError::NotImage)?;
            UnclaimedImage::save(&files, &image, SystemTime::now())
        });
        let failed = |message: &str| ToolError::new(ErrorCode::ProviderError, message);
        match kept.await.map_err(|_| failed("The image could not be saved."))? {
            Ok(image) => Ok(image),
            Err(SaveError::NotImage) => {
                let message = "The image service sent something that is not a PNG, JPEG or WebP image.";
                Err(ToolError { is_retryable: false, ..failed(message) })
            }
            Err(SaveError::TooLarge) => {
                let message = format!("The image is larger than {} bytes (`max_image`).", self.files.max_image());
                Err(ToolError::new(ErrorCode::TooLarge, message))
            }
            Err(SaveError::NoRoom(limit)) => {
                let message = format!("The image takes more than {limit} bytes, the limit for all images (`max_images`).");
                Err(ToolError::new(ErrorCode::TooLarge, message))
            }
            Err(SaveError::Io(error)) => {
                tracing::error!(%error, "a generated image cannot be saved");
                Err(failed("The image could not be saved."))
            }
        }
    }

    /// Downloads an image from a URL that the service has chosen.
    async fn download(&self, url: &str) -> Result<Bytes, ToolError> {
        let max_body = self.files.max_image();
        let download = Download { url, headers: HeaderMap::new(), max_body, content_types: &[], admits: None };
        let response = self.downloads.get(download).await.map_err(|error| self.unanswered(error))?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        let status = response.status().as_u16();
        tracing::warn!(provider = %self.provider, status, "an image is not at the address that the service sent");
        Err(ToolError::new(ErrorCode::ProviderError, "The image service sent an address without an image."))
    }

    /// Creates a request with `key`, or else with the configured key. `path` is relative to the base URL.
    fn request(
        &self,
        method: http::Method,
        path: &str,
        key: Option<&SecretString>,
        body: Bytes,
    ) -> Result<Request<Bytes>, ToolError> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}/{path}", self.base))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json");
        if let Some(key) = key.or(self.options.api_key.as_ref()) {
            let (name, text) = self.options.engine.key_header(key.expose_secret());
            if let Ok(mut value) = HeaderValue::try_from(text) {
                value.set_sensitive(true);
                request = request.header(name, value);
            }
        }
        let wrong = |_| ToolError::new(ErrorCode::ProviderError, "The image service has no valid address.");
        request.body(body).map_err(wrong)
    }

    fn unanswered(&self, error: HttpError) -> ToolError {
        tracing::warn!(provider = %self.provider, %error, "an image service did not answer");
        error.into()
    }

    fn refused(&self, response: &Response<Bytes>) -> ToolError {
        let error = refusal::error(response);
        let (status, code) = (response.status().as_u16(), error.code.name());
        tracing::warn!(provider = %self.provider, status, code, "an image service refused a request");
        error
    }

    /// Tests the provider by listing the models, which is free of charge.
    async fn test(&self, key: Option<&SecretString>) -> Verdict {
        let Ok(request) = self.request(http::Method::GET, "models", key, Bytes::new()) else {
            return Verdict::Unreachable;
        };
        let limit = Instant::now() + self.options.timeout;
        let Ok(Ok(response)) = timeout_at(limit, self.http.send(request, MAX_RESPONSE)).await else {
            return Verdict::Unreachable;
        };
        if response.status().is_success() {
            return Verdict::Valid;
        }
        match refusal::error(&response).code {
            ErrorCode::AuthFailed => Verdict::Invalid,
            ErrorCode::RateLimited => Verdict::RateLimited,
            _ => Verdict::Unreachable,
        }
    }
}

/// `1 image`, `2 images`.
fn images(count: usize) -> String {
    if count == 1 { "1 image".to_owned() } else { format!("{count} images") }
}

//! The upstream side of this dialect: [`Options`] implements [`UpstreamSide`].

use serde_json::json;

use super::{Effort, Options, ReaderSettings, refusal::refusal, request};
use crate::{
    Dialect, File, KeyError, Observed, Reader, ReaderRules, Signing, Source, Surroundings, UpstreamRequest,
    UpstreamSide,
    conversation::{Conversation, IdForm, Part, WantsBack},
    failure::Failure,
    fit::part_of,
};

impl UpstreamSide for Options {
    fn dialect(&self) -> Dialect {
        Dialect::Bedrock
    }

    fn adapt_to_host(&mut self, host: &str) {
        self.region = region_of(host).map(str::to_owned);
    }

    fn prepare(&mut self, surroundings: &Surroundings<'_>) -> Result<Option<String>, KeyError> {
        if !self.sign {
            return Ok(None);
        }
        let variable = |name: &str| (surroundings.environment)(name).filter(|value| !value.is_empty());
        let (Some(access_key), Some(secret_key)) =
            (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"))
        else {
            return Err(KeyError::Unusable(NO_CREDENTIALS));
        };
        let region = self.region.clone().or_else(|| variable("AWS_REGION"));
        let region = region.ok_or(KeyError::Unusable(NO_REGION))?;
        let session_token = variable("AWS_SESSION_TOKEN");
        self.signing = Some(Signing::new(SERVICE, region, access_key, secret_key, session_token));
        Ok(None)
    }

    fn signing(&self) -> Option<&Signing> {
        self.signing.as_ref()
    }

    /// Each request has its own path, which continues this one with the model's name.
    fn path(&self) -> &'static str {
        request::MODEL
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("accept", "application/vnd.amazon.eventstream, application/json")]
    }

    /// A document, a recording or a video. Files are part of the request, or in Amazon's S3.
    fn file_part(&self, file: &File) -> Option<Part> {
        let source = match &file.source {
            Source::Data(data) => json!({"bytes": data}),
            Source::Url(url) if is_s3(url) => json!({"s3Location": {"uri": url}}),
            _ => return None,
        };
        let kind = request::file_kind(&file.mime)?;
        let mut block = json!({"format": kind.format, "source": source});
        if let Some(block) = block.as_object_mut().filter(|_| kind.block == request::DOCUMENT) {
            block.insert("name".to_owned(), request::document_name(&file.name_or_kind()).into());
        }
        Some(part_of(Dialect::Bedrock, json!({kind.block: block})))
    }

    fn takes_image(&self, url: &str) -> bool {
        request::image(url).is_some()
    }

    fn takes_reasoning_alone(&self) -> bool {
        true
    }

    fn encode(&self, conversation: &Conversation, model: &str) -> UpstreamRequest {
        request::encode(conversation, model, self)
    }

    fn reader(&self, rules: &ReaderRules) -> Reader {
        Reader::Bedrock(super::Reader::new(ReaderSettings {
            max_frame: rules.max_frame,
            tolerate_truncation: rules.tolerate_truncation,
        }))
    }

    fn refusal(&self, status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure {
        refusal(status, retry_after, body)
    }

    fn observe(&mut self, observed: Observed) {
        if observed.no_thinking_budget && matches!(self.effort, Effort::Auto | Effort::Thinking) {
            self.effort = Effort::OutputConfig;
        }
    }

    fn wants_back(&self) -> WantsBack {
        WantsBack::Signatures
    }

    fn id_form(&self) -> IdForm {
        IdForm::Word
    }

    fn gives_choices(&self) -> bool {
        false
    }
}

/// The name for which requests to the service are signed.
const SERVICE: &str = "bedrock";

const NO_CREDENTIALS: &str = "`sign`: the environment lacks `AWS_ACCESS_KEY_ID` or `AWS_SECRET_ACCESS_KEY`, with which requests are signed";

const NO_REGION: &str =
    "`sign`: neither `region`, nor the host, nor `AWS_REGION` says for which region requests are signed";

/// The region in the name of one of Amazon's hosts, such as `bedrock-runtime.us-east-1.amazonaws.com`.
fn region_of(host: &str) -> Option<&str> {
    let mut labels = host.split('.');
    labels.find(|label| label.starts_with("bedrock-runtime"))?;
    labels.next().filter(|region| region.contains('-'))
}

pub(super) fn is_s3(url: &str) -> bool {
    url.starts_with("s3://")
}

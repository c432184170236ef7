//! [`Exchange`]: a client's request made ready to be sent to an upstream, and the pipeline for its answer.
//!
//! ```text
//! body ─decode─▶ Conversation ─model entry─▶ (instruct) ─encode─▶ UpstreamRequest
//!                     └──────────────▶ Pipeline (reader of the upstream's dialect, writer of the client's)
//! ```
//!
//! This is where the proxy puts the stages together for a request; `fixture::replay` does the same for a recorded
//! response.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;

use crate::{
    config::{Config, Model, Options, ToolStyle, Upstream},
    conversation::Conversation,
    dialect::{Answering, Reader, Stamp, UpstreamRequest, Writer, chat, lumo},
    failure::{Failure, Kind},
    format,
    pipeline::Pipeline,
    rules::Misroute,
};

/// All that one exchange needs.
#[derive(Debug)]
pub(super) struct Exchange<'a> {
    /// The configuration's entry that serves it.
    pub(super) model: &'a Model,
    /// The client's request, before instructions were put into it.
    pub(super) conversation: Conversation,
    /// What goes to the upstream.
    pub(super) request: UpstreamRequest,
    /// How the client is answered.
    pub(super) answering: Answering,
    /// What it takes to ask once more, where that may come.
    pub(super) again: Option<FollowUp>,
}

/// What it takes to ask an upstream once more within one answer ([`State::Asks`](crate::pipeline::State::Asks)), which
/// is seldom and at most once. It is kept as long as the answer takes, so it is the request as it came, and not what
/// was made of it.
#[derive(Debug)]
pub(super) struct FollowUp {
    config: Arc<Config>,
    body: Box<[u8]>,
}

impl FollowUp {
    /// Makes `pipeline` ready for the next answer, and gives what the upstream is to be asked for it.
    ///
    /// # Errors
    /// None that the first time would not have had.
    pub(super) fn ask(self, pipeline: &mut Pipeline) -> Result<UpstreamRequest, Failure> {
        let conversation = decode(&Bytes::from(self.body))?;
        let model = model(&self.config, &conversation)?;
        let sent = pipeline.follow_up(&sent(model, &conversation));
        pipeline.resume(reader(model));
        Ok(encode(model, &sent))
    }
}

/// Decodes a Chat Completions request.
///
/// # Errors
/// [`Kind::Request`]
pub(super) fn decode(body: &Bytes) -> Result<Conversation, Failure> {
    let conversation = chat::request::decode(body)?;
    if conversation.model.is_empty() {
        let failure = Failure::new(Kind::Request, "the request names no model");
        return Err(failure.with_param("model"));
    }
    Ok(conversation)
}

/// Makes `conversation`, which was asked in `body`, ready to be sent.
///
/// # Errors
/// [`Kind::NotFound`] for an unknown model, [`Kind::Request`] for what its upstream cannot do.
pub(super) fn prepare<'c>(
    config: &'c Arc<Config>,
    body: &Bytes,
    conversation: Conversation,
    stamp: Stamp,
) -> Result<Exchange<'c>, Failure> {
    let model = model(config, &conversation)?;
    refuse_choices(model, &conversation)?;
    let answering = Answering::new(&conversation, stamp);
    let request = encode(model, &sent(model, &conversation));
    let again = (model.settings.misroute == Misroute::Bounce)
        .then(|| FollowUp { config: Arc::clone(config), body: body.to_vec().into() });
    Ok(Exchange { model, conversation, request, answering, again })
}

/// What becomes of the answer to `conversation`.
pub(super) fn pipeline(model: &Model, conversation: &Conversation, answering: &Answering) -> Pipeline {
    Pipeline::new(
        conversation,
        &model.settings_for(&conversation.model),
        &model.formats,
        reader(model),
        Writer::Chat(chat::Writer::new(answering)),
        answering,
    )
}

/// What an upstream answered instead of a stream; `status` is 400 or more.
pub(super) fn refusal(upstream: &Upstream, status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure {
    match upstream.options {
        Options::Lumo(_) => lumo::refusal(status, retry_after, body),
        Options::Chat(_) => chat::refusal(status, retry_after, body),
    }
}

fn model<'c>(config: &'c Config, conversation: &Conversation) -> Result<&'c Model, Failure> {
    config.model(&conversation.model).ok_or_else(|| unknown_model(&conversation.model))
}

pub(super) fn unknown_model(name: &str) -> Failure {
    Failure::new(Kind::NotFound, format!("there is no model `{name}`; GET /v1/models lists them"))
        .with_code("model_not_found")
        .with_param("model")
}

/// Several choices are only for an upstream that makes them itself, with structure that needs no detection.
fn refuse_choices(model: &Model, conversation: &Conversation) -> Result<(), Failure> {
    let refused = |message: String| Err(Failure::new(Kind::Request, message).with_param("n"));
    let choices = match conversation.rest.get("n") {
        None | Some(serde_json::Value::Null) => 1,
        Some(n) => match n.as_u64() {
            Some(n @ 1..) => n,
            _ => return refused(format!("`n` must be a whole number from 1 on, but it is {n}")),
        },
    };
    let emulated = model.tools != ToolStyle::Native && !conversation.tools.is_empty();
    if choices > 1 && (emulated || matches!(model.upstream.options, Options::Lumo(_))) {
        return refused(format!("the model `{}` gives one choice; leave `n` out", conversation.model));
    }
    Ok(())
}

/// The conversation as the upstream is to see it, where the model is told of the tools as configured.
fn sent<'a>(model: &Model, conversation: &'a Conversation) -> Cow<'a, Conversation> {
    match model.tools {
        ToolStyle::Native => Cow::Borrowed(conversation),
        ToolStyle::Format(format) => {
            Cow::Owned(format::instruct(conversation.clone(), format, &model.teaching()))
        }
    }
}

fn encode(model: &Model, sent: &Conversation) -> UpstreamRequest {
    let name = model.upstream_name(&sent.model);
    match &model.upstream.options {
        Options::Chat(options) => {
            let options = chat::Options {
                include_usage: options.include_usage,
                stream: options.stream,
                keep_developer: options.keep_developer,
                keep_custom_tools: options.keep_custom_tools,
                keep_result_images: options.keep_result_images,
                join_user_turns: options.join_user_turns,
            };
            chat::request::encode(sent, name, &options)
        }
        Options::Lumo(options) => lumo::encode(sent, name, options),
    }
}

/// A reader for an answer of the model's upstream. Clients speak `chat`, so an upstream that does too may be forwarded
/// as it is.
fn reader(model: &Model) -> Reader {
    let upstream = &model.upstream;
    let (max_frame, tolerate_truncation) = (model.settings.limits.max_frame, upstream.tolerate_truncation);
    match &upstream.options {
        Options::Lumo(options) => Reader::Lumo(lumo::Reader::new(lumo::ReaderSettings {
            max_frame,
            target: options.target.clone(),
            tolerate_truncation,
        })),
        Options::Chat(options) => Reader::Chat(chat::Reader::new(chat::ReaderSettings {
            max_frame,
            verbatim: true,
            cumulative: options.cumulative,
            tolerate_truncation,
        })),
    }
}

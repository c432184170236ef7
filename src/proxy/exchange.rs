//! [`Exchange`]: a client's request prepared for an upstream, and the pipeline for the response.
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
    config::{Config, Model, ToolStyle},
    conversation::Conversation,
    dialect::{Answering, ClientDialect, Reader, ReaderRules, Stamp, UpstreamRequest},
    failure::{Failure, Kind},
    format::{self, Instructed},
    pipeline::Pipeline,
    rules::Misroute,
};

/// Everything that one exchange needs.
#[derive(Debug)]
pub(super) struct Exchange<'a> {
    /// The configuration's entry that serves it.
    pub(super) model: &'a Model,
    /// What the client speaks.
    pub(super) dialect: ClientDialect,
    /// Names of the tools that `max_instructions` left no room for.
    pub(super) left_out: Vec<String>,
    /// The client's request, before instructions were put into it.
    pub(super) conversation: Conversation,
    /// The request to the upstream.
    pub(super) request: UpstreamRequest,
    /// How the client is answered.
    pub(super) answering: Answering,
    /// What is needed for a second request to the upstream, if the model's rules allow one.
    pub(super) again: Option<FollowUp>,
}

/// What is needed for a second request to the upstream within one response
/// ([`State::Asks`](crate::pipeline::State::Asks)), which is rare and happens at most once. It is kept until the
/// response ends, so it holds the request's bytes and not the larger forms made of them.
#[derive(Debug)]
pub(super) struct FollowUp {
    config: Arc<Config>,
    dialect: ClientDialect,
    body: Box<[u8]>,
}

impl FollowUp {
    /// Prepares `pipeline` for the next upstream response, and gives the request for it.
    ///
    /// # Errors
    /// Only those that the first request would have had.
    pub(super) fn ask(self, pipeline: &mut Pipeline) -> Result<UpstreamRequest, Failure> {
        let conversation = decode(self.dialect, &self.body)?;
        let model = model(&self.config, self.dialect, &conversation)?;
        let sent = pipeline.follow_up(&sent(model, &conversation).0);
        pipeline.resume(reader(model, self.dialect));
        Ok(encode(model, &sent))
    }
}

/// Decodes a request for a model's response.
///
/// # Errors
/// [`Kind::Request`]
pub(super) fn decode(dialect: ClientDialect, body: &[u8]) -> Result<Conversation, Failure> {
    let conversation = dialect.side().decode(body)?;
    if conversation.model.is_empty() {
        let failure = Failure::new(Kind::Request, "the request names no model");
        return Err(failure.with_param("model"));
    }
    Ok(conversation)
}

/// Prepares `conversation`, decoded from `body`, for its upstream.
///
/// # Errors
/// [`Kind::NotFound`] for an unknown model, [`Kind::Request`] for what its upstream cannot do.
pub(super) fn prepare<'c>(
    config: &'c Arc<Config>,
    dialect: ClientDialect,
    (body, conversation): (&Bytes, Conversation),
    stamp: Stamp,
) -> Result<Exchange<'c>, Failure> {
    let model = model(config, dialect, &conversation)?;
    refuse_choices(model, &conversation)?;
    let answering = Answering::new(&conversation, stamp);
    let (sent, left_out) = sent(model, &conversation);
    let request = encode(model, &sent);
    let again = (model.settings.misroute == Misroute::Bounce).then(|| FollowUp {
        config: Arc::clone(config),
        dialect,
        body: body.to_vec().into(),
    });
    Ok(Exchange { model, dialect, left_out, conversation, request, answering, again })
}

/// The pipeline for the response to `conversation`.
pub(super) fn pipeline(
    model: &Model,
    dialect: ClientDialect,
    conversation: &Conversation,
    answering: &Answering,
) -> Pipeline {
    Pipeline::new(
        conversation,
        &model.settings_for(&conversation.model),
        &model.formats,
        reader(model, dialect),
        dialect.side().writer(answering),
        answering,
    )
}

fn model<'c>(
    config: &'c Config,
    dialect: ClientDialect,
    conversation: &Conversation,
) -> Result<&'c Model, Failure> {
    config.model(&conversation.model).ok_or_else(|| dialect.side().unknown_model(&conversation.model))
}

/// Several choices are only possible if the upstream makes them itself and its tool calls are native: text of several
/// choices is not searched for calls.
fn refuse_choices(model: &Model, conversation: &Conversation) -> Result<(), Failure> {
    let is_taught = model.tools != ToolStyle::Native && !conversation.tools.is_empty();
    if conversation.choices.unwrap_or(1) > 1 && (is_taught || !model.upstream.options.side().gives_choices())
    {
        let message = format!("the model `{}` gives one choice; leave `n` out", conversation.model);
        return Err(Failure::new(Kind::Request, message).with_param("n"));
    }
    Ok(())
}

/// The conversation as the upstream sees it: with the tools taught in the prompt if the model is configured so. And
/// the names of the tools that `max_instructions` left no room for.
fn sent<'a>(model: &Model, conversation: &'a Conversation) -> (Cow<'a, Conversation>, Vec<String>) {
    match model.tools {
        ToolStyle::Native => (Cow::Borrowed(conversation), Vec::new()),
        ToolStyle::Format(format) => {
            let Instructed { conversation, left_out } =
                format::instruct_within(conversation.clone(), format, &model.teaching());
            (Cow::Owned(conversation), left_out)
        }
    }
}

fn encode(model: &Model, sent: &Conversation) -> UpstreamRequest {
    model.upstream.options.side().encode(sent, model.upstream_name(&sent.model))
}

/// A reader for a response of the model's upstream to a client that speaks `dialect`.
fn reader(model: &Model, dialect: ClientDialect) -> Reader {
    model.upstream.options.side().reader(&ReaderRules {
        max_frame: model.settings.limits.max_frame,
        tolerate_truncation: model.upstream.tolerate_truncation,
        client: dialect.dialect(),
    })
}

//! The request that the upstream receives: its conversation, with the tools taught in the prompt, and its encoded form.

use std::{borrow::Cow, collections::HashMap};

use ring::rand::{SecureRandom, SystemRandom};

use super::super::upstream_capabilities::Known;
use toolwire_config::{Model, ToolStyle};
use toolwire_pipeline::{
    conversation::{Constraint, Conversation, NameForm, Tool, joined_system_turns},
    dialect::{Adjusted, Dialect, UpstreamDialect, UpstreamRequest, fitted},
    enforce::{Enforced, Means},
    failure::{Failure, Kind},
    format::{self, Instructed},
};

/// The conversation that the upstream receives: with the tools taught in the prompt and well-formed calls enforced, if
/// the model is configured that way.
///
/// `client` is the client's dialect, `means` are the constraints that the upstream can enforce, and `now` is a Unix
/// time in seconds.
///
/// # Errors
/// If the upstream's API cannot express a part of the conversation, or the model's chat template cannot provide the
/// instructions.
pub(crate) fn sent<'a>(
    model: &Model,
    conversation: &'a Conversation,
    client: Dialect,
    means: &Means,
    now: u64,
) -> Result<Cow<'a, Conversation>, Failure> {
    Ok(taught(model, conversation, client, None, means, now)?.0)
}

/// Like [`sent`], but also returns the names of the tools for which `max_instructions` left no room. Errors refer to
/// places in the client's `body`.
pub(super) fn taught<'a>(
    model: &Model,
    conversation: &'a Conversation,
    client: Dialect,
    body: Option<&[u8]>,
    means: &Means,
    now: u64,
) -> Result<(Cow<'a, Conversation>, Vec<String>), Failure> {
    let side = model.upstream.options.side();
    if side.dialect() != Dialect::Messages && conversation.has_client_headers() {
        let without = conversation.without_client_headers();
        let (sent, left_out) = taught(model, &without, client, body, means, now)?;
        return Ok((Cow::Owned(sent.into_owned()), left_out));
    }
    let fitting = fitted(conversation, client, side);
    match fitting.map_err(|unfit| unfit.failure(body))? {
        Cow::Borrowed(conversation) => taught_in_prompt(model, conversation, means, now),
        Cow::Owned(fitted) => {
            let (sent, left_out) = taught_in_prompt(model, &fitted, means, now)?;
            Ok((Cow::Owned(sent.into_owned()), left_out))
        }
    }
}

/// The conversation with its tools in the prompt, if the model's tools are taught there, and the names of the tools for
/// which there is no room.
fn taught_in_prompt<'a>(
    model: &Model,
    conversation: &'a Conversation,
    means: &Means,
    now: u64,
) -> Result<(Cow<'a, Conversation>, Vec<String>), Failure> {
    let side = model.upstream.options.side();
    let ToolStyle::Format(taught) = model.tools else {
        let sent = conversation.in_forms(side.name_form(), side.id_form());
        let sent = conversation.with_shown_tools(sent);
        return Ok((rendered(model, sent, means), Vec::new()));
    };
    // Text formats have their own delimiters, which the names of tools must not contain.
    let all = conversation;
    let named = all.with_shown_tools(all.in_forms(NameForm::Word, side.id_form()));
    let conversation = &*named;
    let (format, constraint) = match model.enforced(conversation, taught, means) {
        Some(Enforced { format, constraint }) => (format, Some(constraint)),
        None => (taught, None),
    };
    let mut teaching = model.teaching();
    // Small models copy the values of examples. A prompt that opens reasoning removes the constraint later.
    if constraint.as_ref().is_some_and(Constraint::enforces_form) && !side.takes_prompt() {
        teaching.examples = 0;
    }
    // The enforced format may differ from the one that the template describes.
    if let Some(template) = model.instructing_template().filter(|_| format == taught) {
        let tools = conversation.callable_tools().map(|tool| {
            let name = format!("{}{}", teaching.prefix, tool.name);
            Tool { name, ..tool.clone() }
        });
        let tools: Vec<_> = tools.collect();
        if !tools.is_empty() {
            teaching.text = Some(template.tool_instructions(&tools, now)?);
        }
    }
    let Instructed { conversation: sent, left_out } =
        format::instruct_within(conversation.clone(), format, &teaching);
    let left_out = match &named {
        Cow::Borrowed(_) => left_out,
        Cow::Owned(_) if left_out.is_empty() => left_out,
        Cow::Owned(named) => {
            let declared = all.with_shown_tools(Cow::Borrowed(all));
            let names = named.tools.iter().map(|tool| tool.name.as_str());
            let declared: HashMap<_, _> = names.zip(&declared.tools).collect();
            let own = |name: String| declared.get(name.as_str()).map_or(name, |tool| tool.name.clone());
            left_out.into_iter().map(own).collect()
        }
    };
    Ok((Cow::Owned(Conversation { constraint, ..sent }), left_out))
}

/// The conversation for a model whose chat template writes the tools, with well-formed calls enforced in the format
/// that the model's name or `detect` implies.
fn rendered<'a>(
    model: &Model,
    mut conversation: Cow<'a, Conversation>,
    means: &Means,
) -> Cow<'a, Conversation> {
    let is_rendered = model.chat_template.is_some() && model.upstream.options.side().takes_prompt();
    let format = if is_rendered { model.own_format(&conversation.model) } else { None };
    if let Some(Enforced { constraint, .. }) =
        format.and_then(|format| model.enforced(&conversation, format, means))
    {
        conversation.to_mut().constraint = Some(constraint);
    }
    conversation
}

/// A request to an upstream.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) request: UpstreamRequest,
    /// Whether the response starts inside reasoning. `None` if there is no prompt that determines this.
    pub(crate) opens_reasoning: Option<bool>,
    /// Whether the request does not require the call that the client requires, because the model would refuse that.
    pub(crate) lacks_forced_call: bool,
}

/// The request to the model's upstream. What the model refuses is removed from `sent`. If the response starts inside
/// reasoning, so is a constraint that applies from the first token on, since it would constrain the reasoning. `known` is
/// what is known about the model.
///
/// # Errors
/// If the model's chat template refuses the conversation or fails, or if the model's name cannot be part of the URL.
pub(crate) fn encode(
    model: &Model,
    known: &Known<'_>,
    sent: &mut Cow<'_, Conversation>,
    now: u64,
) -> Result<Encoded, Failure> {
    let Known { options, facts, refused, .. } = known;
    let Adjusted { members, lacks_forced_call } = facts.adjust(sent, options.dialect(), refused);
    let (mut request, opens_reasoning) = written(model, options, sent, now)?;
    for member in members {
        if !request.dropped.contains(&member) {
            request.dropped.push(member);
        }
    }
    Ok(Encoded { request, opens_reasoning, lacks_forced_call })
}

fn written(
    model: &Model,
    options: &UpstreamDialect,
    sent: &mut Cow<'_, Conversation>,
    now: u64,
) -> Result<(UpstreamRequest, Option<bool>), Failure> {
    let (side, name) = (options.side(), model.upstream_name(&sent.model).to_owned());
    let is_rendered = side.takes_prompt() && !sent.is_prompt;
    let Some(template) = model.chat_template.as_ref().filter(|_| is_rendered) else {
        let request = side.encode(sent, &name);
        // Servers may resolve the path segments `.` and `..` to another place even if they are escaped.
        if request.path.is_some() && matches!(&*name, "." | "..") {
            let why = format!("the upstream cannot have a model `{name}`, whose name is a part of its URL");
            return Err(Failure::new(Kind::Request, why).with_param("model"));
        }
        // The response to a client's own prompt starts with text.
        return Ok((request, (side.takes_prompt() && sent.is_prompt).then_some(false)));
    };
    let prompt = template.render(sent, now).or_else(|failure| {
        // Many templates refuse a system message unless it is the first and only one.
        match joined_system_turns(&sent.turns, || true, true) {
            Cow::Borrowed(_) => Err(failure),
            Cow::Owned(turns) => {
                let joined = Conversation { turns, ..sent.clone().into_owned() };
                template.render(&joined, now).map_err(|_| failure)
            }
        }
    })?;
    let starts_in_reasoning = model.formats.opens_reasoning(&prompt.text);
    if starts_in_reasoning && sent.constraint.as_ref().is_some_and(Constraint::applies_at_once) {
        sent.to_mut().constraint = None;
    }
    Ok((side.encode_prompt(&prompt, sent, &name), Some(starts_in_reasoning)))
}

/// The request as it is sent: encrypted, if the upstream's settings require that.
///
/// # Errors
/// If it cannot be encrypted.
pub(crate) fn encrypted(
    options: &UpstreamDialect,
    request: UpstreamRequest,
) -> Result<UpstreamRequest, Failure> {
    let (source, mut is_random) = (SystemRandom::new(), true);
    let request = options.side().encrypt(request, &mut |bytes| is_random &= source.fill(bytes).is_ok())?;
    let no_randomness =
        || Failure::new(Kind::Internal, "the system gives no randomness to encrypt the request with");
    is_random.then_some(request).ok_or_else(no_randomness)
}

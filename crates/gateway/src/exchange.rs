//! [`Exchange`]: a client's request prepared for an upstream, and the pipeline for the response.
//!
//! ```text
//! body ─decode─▶ Conversation ─model entry─▶ (instruct) ─encode─▶ UpstreamRequest
//!                     └──────────────▶ Pipeline (reader of the upstream's dialect, writer of the client's)
//! ```
//!
//! Here the proxy combines the stages for a request; `fixture::replay` does the same for a recorded response.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use bytes::Bytes;
use ring::rand::{SecureRandom, SystemRandom};

use toolwire_config::{Config, Model, ToolStyle};
use toolwire_execution::{Asker, ExchangeId, Execution, HostedTurn};
use toolwire_net::store::Owner;
use toolwire_pipeline::{
    conversation::{Constraint, Conversation, NameForm, Tool, ToolChoice, joined_system_turns},
    dialect::{
        Answering, ClientDialect, Dialect, Reader, ReaderRules, Stamp, UpstreamDialect, UpstreamRequest,
        check_choice, fitted,
    },
    enforce::{Enforced, Means},
    failure::{Failure, Kind},
    format::{self, Instructed},
    pipeline::Pipeline,
    rules::{Reasoning, Rules},
};

use super::{
    auth::Caller,
    command::{self, Command},
    hops::{AskAgain, Asked, DecideHop},
    turn_states::{Keeper, OwnStates, TurnStates},
    upstream_capabilities::{Kind as MeansKind, Subject, UpstreamCapabilities},
};

/// Everything that an exchange needs.
#[derive(Debug)]
pub(super) struct Exchange {
    /// The client's dialect.
    pub(super) dialect: ClientDialect,
    /// Names of the tools for which `max_instructions` left no room.
    pub(super) left_out: Vec<String>,
    /// The client's request, before instructions are added to it.
    pub(super) conversation: Arc<Conversation>,
    /// The request to the upstream.
    pub(super) request: UpstreamRequest,
    /// Whether the response starts inside reasoning, if the prompt determines that.
    pub(super) starts_in_reasoning: Option<bool>,
    /// The form of the response for the client.
    pub(super) answering: Answering,
    /// Decides how to continue after a hop, if the model's rules allow several hops.
    pub(super) hops: Option<Box<dyn DecideHop>>,
    /// The hosted tools that are offered to the model, if there are any.
    pub(super) hosted: Option<Arc<HostedTurn>>,
    /// Keeps the state of the response that the upstream needs back.
    pub(super) keeper: Option<Keeper>,
    /// The command in the newest message, which is answered without the upstream.
    pub(super) command: Option<Command>,
    /// The body of the upstream's response, if it is known without a request.
    pub(super) made: Option<Bytes>,
}

impl Exchange {
    /// Whether an upstream is asked for the response.
    pub(super) fn asks_upstream(&self) -> bool {
        self.command.is_none() && self.made.is_none()
    }
}

/// State that requests share.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedState<'s> {
    pub(super) config: &'s Arc<Config>,
    pub(super) capabilities: &'s Arc<UpstreamCapabilities>,
    pub(super) states: &'s Arc<TurnStates>,
    pub(super) execution: Option<&'s Arc<Execution>>,
}

/// The sender of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestContext<'r> {
    pub(super) caller: &'r Caller,
    pub(super) exchange: &'r ExchangeId,
}

/// Decodes a request for a model's response. The choice among its tools is checked later, when hosted tools have also
/// been declared.
///
/// # Errors
/// [`Kind::Request`]
pub(super) fn decode(dialect: ClientDialect, body: &Bytes) -> Result<Conversation, Failure> {
    let conversation = dialect.side().read(body)?;
    if conversation.model.is_empty() {
        let failure = Failure::new(Kind::Request, "the request names no model");
        return Err(failure.with_param("model"));
    }
    Ok(conversation)
}

/// Fields that multiply the upstream's work for one request. A request for a few thousand choices can overload a
/// server.
pub(super) const MULTIPLIERS: [&str; 4] = ["n", "best_of", "top_logprobs", "prompt_logprobs"];

/// Checks that a request does not multiply the upstream's work by more than `max`.
///
/// # Errors
/// [`Kind::Request`]
pub(super) fn check_multipliers(conversation: &Conversation, max: usize) -> Result<(), Failure> {
    let mut given = MULTIPLIERS.iter().filter_map(|name| Some((name, conversation.rest.get(name)?)));
    given.try_for_each(|(name, value)| check_multiplier(name, value, max))
}

/// Checks one of [`MULTIPLIERS`].
///
/// # Errors
/// [`Kind::Request`]
pub(super) fn check_multiplier(name: &str, value: &serde_json::Value, max: usize) -> Result<(), Failure> {
    // Servers also read strings as numbers.
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    let Some(number) = number else { return Ok(()) };
    // Some servers interpret a negative number as the maximum.
    if (0.0..=u32::try_from(max).map_or(f64::MAX, f64::from)).contains(&number) {
        return Ok(());
    }
    let message = format!("`{name}` is {number}, but at most {max} is served (limits.max_n)");
    Err(Failure::new(Kind::Request, message).with_param(name))
}

/// Prepares `conversation` for its upstream. `body` contains the same conversation; without a body, the conversation
/// has been changed since it was decoded. `reasoning`: the client's setting for passing on reasoning, if it overrides
/// the model's rules.
///
/// # Errors
/// [`Kind::NotFound`] for an unknown model, [`Kind::Request`] for a request that its upstream or its chat template
/// cannot handle, [`Kind::Internal`] if the template fails.
pub(super) fn prepare(
    SharedState { config, capabilities, states, execution }: SharedState<'_>,
    context: RequestContext<'_>,
    dialect: ClientDialect,
    (body, mut conversation): (Option<&Bytes>, Conversation),
    (reasoning, stamp): (Option<Reasoning>, Stamp),
) -> Result<Exchange, Failure> {
    let model = model(config, dialect, &conversation)?;
    refuse_choices(model, &conversation)?;
    let now = stamp.created;
    let reasoning = reasoning.unwrap_or(model.settings.reasoning);
    let mut answering = Answering { reasoning, ..Answering::new(&conversation, stamp) };
    if model.settings.enforce.uses_means() && !conversation.tools.is_empty() {
        capabilities.servers.look_at(&model.upstream);
    }
    let states = own_states(model, (states, context.caller.owner));
    if let Some(states) = &states {
        states.restore(&mut conversation);
    }
    let (command, hosted) =
        execution.map_or((None, None), |execution| host((execution, model), &mut conversation, context));
    let hosted = hosted.map(Arc::new);
    conversation.settle_own_calls(|name| hosted.as_ref()?.offered_name(name));
    let is_settled = settle_choice(model, &mut conversation)?;
    let (options, means) = capabilities.about(model, &conversation, context.caller.owner);
    answering.left_out = left_out_tools(model, &conversation);
    let asked = (dialect.dialect(), body.map(|body| &**body));
    let (mut sent, left_out) = taught(model, &conversation, asked, (&means, now))?;
    let (request, starts_in_reasoning) = encode((model, &options), &mut sent, now)?;
    let request = encrypted(&options, request)?;
    let may_join = options.side().may_join(&sent.turns);
    let constrained = sent.constraint.as_ref().map(MeansKind::of);
    drop(sent);
    let conversation = Arc::new(conversation);
    let may_follow_up = model.settings.may_follow_up() && !conversation.tools.is_empty();
    let may_go_on = may_follow_up || constrained.is_some() || hosted.is_some();
    let hops = (may_go_on || may_join).then(|| {
        let shared = (Arc::clone(config), Arc::clone(capabilities));
        let asked = match body.filter(|_| hosted.is_none() && !is_settled) {
            Some(body) => Asked::Body(body.clone(), states.clone()),
            None => Asked::Conversation(Arc::clone(&conversation)),
        };
        let subject = Subject::new(model, &conversation.model, context.caller.owner);
        let requires_call = conversation.tool_choice.requires_call();
        let asking = AskAgain::new(
            shared,
            (dialect, hosted.clone()),
            (asked, now),
            (subject, requires_call, constrained),
            (may_go_on, may_join),
        );
        let asking: Box<dyn DecideHop> = Box::new(asking);
        asking
    });
    let keeper = states.filter(|_| command.is_none()).map(|states| states.keeper(&conversation));
    Ok(Exchange {
        dialect,
        left_out,
        conversation,
        request,
        starts_in_reasoning,
        answering,
        hops,
        hosted,
        keeper,
        command,
        made: None,
    })
}

/// Finds the command in the conversation, or declares the hosted tools in it.
pub(super) fn host(
    (execution, model): (&Arc<Execution>, &Model),
    conversation: &mut Conversation,
    RequestContext { caller, exchange }: RequestContext<'_>,
) -> (Option<Command>, Option<HostedTurn>) {
    if !model.execution || conversation.choices.unwrap_or(1) > 1 {
        return (None, None);
    }
    let asker = Asker {
        owner: caller.owner,
        client: caller.label().map(Into::into),
        payer: caller.payer(),
        model: conversation.model.as_str().into(),
        exchange: exchange.clone(),
    };
    let command = Command::find(execution, conversation, &asker);
    if command.is_some() {
        command::drop_tools(conversation);
        return (command, None);
    }
    let unserved = left_out_tools(model, conversation);
    (None, execution.offer((conversation, &unserved), asker))
}

/// Checks the client's choice among all declared tools. If the choice is a server's tool and cannot be passed on, it is
/// dropped: the model decides among the other tools. Returns whether the choice was changed.
///
/// # Errors
/// [`Kind::Request`] if the choice cannot be satisfied.
pub(super) fn settle_choice(model: &Model, conversation: &mut Conversation) -> Result<bool, Failure> {
    check_choice(conversation)?;
    if sends_server_tools(model, conversation) {
        return Ok(false);
    }
    let mut names = conversation.tools.iter().map(|tool| &tool.name);
    let declared: HashSet<&String> = match &conversation.tool_choice {
        ToolChoice::Named(name) => names.find(|known| *known == name).into_iter().collect(),
        ToolChoice::Allowed { .. } => names.collect(),
        _ => return Ok(false),
    };
    let is_known = |name: &String| declared.contains(name);
    let choice = match &conversation.tool_choice {
        ToolChoice::Named(name) if !is_known(name) => ToolChoice::Auto,
        ToolChoice::Allowed { names, required } if !names.iter().all(is_known) => {
            let names: Vec<_> = names.iter().filter(|name| is_known(name)).cloned().collect();
            if names.is_empty() {
                ToolChoice::None
            } else {
                ToolChoice::Allowed { names, required: *required }
            }
        }
        _ => return Ok(false),
    };
    conversation.tool_choice = choice;
    Ok(true)
}

/// The stored state of `owner` that the model's upstream needs back. `None` if the upstream needs no state, since it
/// sees calls as text.
fn own_states(model: &Model, (states, owner): (&Arc<TurnStates>, Owner)) -> Option<OwnStates> {
    states.of(owner, &model.upstream.name, model.wants_back())
}

/// The declared server tools that do not run: the upstream neither receives them nor has such tools of its own.
fn left_out_tools(model: &Model, conversation: &Conversation) -> Vec<String> {
    let is_sent = sends_server_tools(model, conversation);
    let runs = |tool: &str| model.settings.server_tools.iter().any(|own| tool.starts_with(own.as_str()));
    let kinds = conversation.server_tools.iter().map(|tool| &tool.kind);
    kinds.filter(|kind| !is_sent && !runs(kind)).cloned().collect()
}

/// Whether the upstream receives the server tools that the client declared.
fn sends_server_tools(model: &Model, conversation: &Conversation) -> bool {
    let upstream = model.upstream.dialect().name();
    !conversation.rest.foreign_keys(upstream).any(|key| key == "tools")
}

/// The rules for a response of the model that a client requests as `asked`. `answering`: the form of the response.
/// `starts_in_reasoning`: whether the prompt, if there is one, ends inside reasoning.
pub(super) fn rules<'m>(
    model: &'m Model,
    asked: &str,
    answering: &Answering,
    starts_in_reasoning: Option<bool>,
) -> Cow<'m, Rules> {
    let mut rules = model.settings_for(asked);
    if rules.reasoning != answering.reasoning {
        rules.to_mut().reasoning = answering.reasoning;
    }
    if let (None, Some(starts)) = (model.starts_in_reasoning, starts_in_reasoning)
        && rules.starts_in_reasoning != starts
    {
        rules.to_mut().starts_in_reasoning = starts;
    }
    rules
}

/// The pipeline for the response to `conversation` under these rules.
pub(super) fn pipeline(
    (model, rules): (&Model, &Rules),
    dialect: ClientDialect,
    conversation: &Conversation,
    answering: &Answering,
) -> Pipeline {
    Pipeline::new(
        conversation,
        rules,
        &model.formats,
        reader(model, dialect),
        dialect.side().writer(answering),
        answering,
    )
}

/// Finds the configuration's entry that serves `conversation`.
///
/// # Errors
/// [`Kind::NotFound`] if no entry does.
pub(super) fn model<'c>(
    config: &'c Config,
    dialect: ClientDialect,
    conversation: &Conversation,
) -> Result<&'c Model, Failure> {
    config.model(&conversation.model).ok_or_else(|| dialect.side().unknown_model(&conversation.model))
}

/// Refuses a request for several choices unless the upstream itself generates them and its tool calls are native: the
/// text of several choices is not searched for calls.
fn refuse_choices(model: &Model, conversation: &Conversation) -> Result<(), Failure> {
    let is_taught = model.tools != ToolStyle::Native && !conversation.tools.is_empty();
    if conversation.choices.unwrap_or(1) > 1 && (is_taught || !model.upstream.options.side().gives_choices())
    {
        let message = format!("the model `{}` gives one choice; leave `n` out", conversation.model);
        return Err(Failure::new(Kind::Request, message).with_param("n"));
    }
    Ok(())
}

/// The conversation that the upstream receives: with the tools taught in the prompt and well-formed calls enforced, if
/// the model is configured that way.
///
/// `client` is the client's dialect, `means` are the constraints that the upstream can enforce, `now` is the time in
/// seconds of Unix time.
///
/// # Errors
/// If the upstream's API cannot express a part of the conversation, or the model's chat template cannot provide the
/// instructions.
pub(super) fn sent<'a>(
    model: &Model,
    conversation: &'a Conversation,
    client: Dialect,
    means: (&Means, u64),
) -> Result<Cow<'a, Conversation>, Failure> {
    Ok(taught(model, conversation, (client, None), means)?.0)
}

/// Like [`sent`], but also returns the names of the tools for which `max_instructions` left no room. Errors refer to
/// places in the client's `body`.
fn taught<'a>(
    model: &Model,
    conversation: &'a Conversation,
    (client, body): (Dialect, Option<&[u8]>),
    means: (&Means, u64),
) -> Result<(Cow<'a, Conversation>, Vec<String>), Failure> {
    let side = model.upstream.options.side();
    if side.dialect() != Dialect::Messages && conversation.has_client_headers() {
        let without = conversation.without_client_headers();
        let (sent, left_out) = taught(model, &without, (client, body), means)?;
        return Ok((Cow::Owned(sent.into_owned()), left_out));
    }
    let fitting = fitted(conversation, client, side);
    match fitting.map_err(|unfit| unfit.failure(body))? {
        Cow::Borrowed(conversation) => taught_in_prompt(model, conversation, means),
        Cow::Owned(fitted) => {
            let (sent, left_out) = taught_in_prompt(model, &fitted, means)?;
            Ok((Cow::Owned(sent.into_owned()), left_out))
        }
    }
}

/// The conversation with its tools in the prompt, if the model's tools are taught there, and the names of the tools for
/// which there is no room.
fn taught_in_prompt<'a>(
    model: &Model,
    conversation: &'a Conversation,
    (means, now): (&Means, u64),
) -> Result<(Cow<'a, Conversation>, Vec<String>), Failure> {
    let side = model.upstream.options.side();
    let ToolStyle::Format(taught) = model.tools else {
        let sent = conversation.in_forms(side.name_form(), side.id_form());
        return Ok((rendered(model, sent, means), Vec::new()));
    };
    // Text formats have their own delimiters, which the names of tools must not contain.
    let (named, declared) = (conversation.in_forms(NameForm::Word, side.id_form()), &conversation.tools);
    let conversation = &*named;
    let (format, constraint) = match model.enforced(conversation, taught, means) {
        Some(Enforced { format, constraint }) => (format, Some(constraint)),
        None => (taught, None),
    };
    let mut teaching = model.teaching();
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
        Cow::Owned(named) => {
            let names = named.tools.iter().map(|tool| tool.name.as_str());
            let declared: HashMap<_, _> = names.zip(declared).collect();
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

/// The request to the model's upstream, and whether the response starts inside reasoning (`None` if there is no prompt
/// that determines this). If it does, `sent` loses a constraint that applies from the first token on, since it would
/// constrain the reasoning. `options` are the known settings of the model's upstream.
///
/// # Errors
/// If the model's chat template refuses the conversation or fails, or if the model's name cannot be part of the URL.
pub(super) fn encode(
    (model, options): (&Model, &UpstreamDialect),
    sent: &mut Cow<'_, Conversation>,
    now: u64,
) -> Result<(UpstreamRequest, Option<bool>), Failure> {
    let (side, name) = (options.side(), model.upstream_name(&sent.model).to_owned());
    let Some(template) = model.chat_template.as_ref().filter(|_| side.takes_prompt()) else {
        let request = side.encode(sent, &name);
        // Servers may resolve such a path segment to another place even if it is escaped.
        if request.path.is_some() && matches!(&*name, "." | "..") {
            let why = format!("the upstream cannot have a model `{name}`, whose name is a part of its URL");
            return Err(Failure::new(Kind::Request, why).with_param("model"));
        }
        return Ok((request, None));
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
pub(super) fn encrypted(
    options: &UpstreamDialect,
    request: UpstreamRequest,
) -> Result<UpstreamRequest, Failure> {
    let (source, mut is_random) = (SystemRandom::new(), true);
    let request = options.side().encrypt(request, &mut |bytes| is_random &= source.fill(bytes).is_ok())?;
    let no_randomness =
        || Failure::new(Kind::Internal, "the system gives no randomness to encrypt the request with");
    is_random.then_some(request).ok_or_else(no_randomness)
}

/// A reader for a response of the model's upstream to a client that speaks `dialect`.
pub(super) fn reader(model: &Model, dialect: ClientDialect) -> Reader {
    model.upstream.options.side().reader(&ReaderRules {
        max_frame: model.settings.limits.max_frame,
        tolerate_truncation: model.upstream.tolerate_truncation,
        client: dialect.dialect(),
    })
}

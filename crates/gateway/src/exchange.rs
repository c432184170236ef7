//! [`Exchange`]: a client's request prepared for an upstream, and the pipeline for its response.
//!
//! ```text
//! body ─decode─▶ Conversation ─model entry─▶ (instruct) ─encode─▶ UpstreamRequest
//!                     └──────────────▶ Pipeline (reader of the upstream's dialect, writer of the client's)
//! ```
//!
//! This is where the proxy combines the stages for a request. `fixture::replay` does the same for a recorded response.

mod approved;
mod multipliers;
mod teaching;

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use bytes::Bytes;

use self::{
    approved::{approved, planned},
    teaching::taught,
};
pub(super) use self::{
    multipliers::{MULTIPLIERS, check_multiplier, check_multipliers},
    teaching::{Encoded, encode, encrypted, sent},
};
use super::{
    auth::Caller,
    command::{self, Command},
    hops::{AskAgain, Asked, DecideHop, EarlierHops, FirstRequest, KeptHops},
    stamp::monotonic,
    tool_search::{self, Searching},
    turn_states::{Keeper, OwnStates, TurnStates},
    upstream_capabilities::{Kind as MeansKind, Subject, UpstreamCapabilities},
};
use toolwire_config::{Config, Model, ToolStyle};
use toolwire_execution::{
    Asker, ClientTools, ExchangeId, Execution, HostedTurn, Offer,
    ask::Ask,
    vision::{ResultDescriber, Vision},
};
use toolwire_net::store::Owner;
use toolwire_pipeline::{
    conversation::{CompactionForm, Conversation, TOOL_MEDIA, Thinking, ToolChoice, ToolMedia},
    dialect::{
        Answering, ClientDialect, Clock, ModelFacts, Reader, ReaderRules, Stamp, UpstreamRequest,
        check_choice,
    },
    event::{Event, Warning},
    failure::{Failure, Kind},
    pipeline::FollowUp,
    rules::{Enforce, Reasoning, ReasoningStart, Rules},
};

/// Everything that an exchange needs.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) dialect: ClientDialect,
    /// Names of the tools that did not fit into `max_instructions`.
    pub(super) left_out: Vec<String>,
    /// What the client is told about hosted tools that are missing.
    pub(super) warnings: Vec<Warning<'static>>,
    /// The client's request before instructions are added.
    pub(super) conversation: Arc<Conversation>,
    pub(super) request: UpstreamRequest,
    /// Whether the response starts inside reasoning.
    pub(super) start: ReasoningStart,
    /// What the request says about thinking.
    pub(super) thinking: Thinking,
    /// Whether the request does not require the call that the client requires.
    pub(super) lacks_forced_call: bool,
    /// How the client wants the response.
    pub(super) answering: Answering,
    /// Decides how to continue after a hop, if the model's rules allow several hops.
    pub(super) hops: Option<Box<dyn DecideHop>>,
    /// The hosted tools offered to the model, if there are any.
    pub(super) hosted: Option<Arc<HostedTurn>>,
    /// Stores the state that the upstream needs back.
    pub(super) keeper: Option<Keeper>,
    /// The command in the newest message, which is executed in place of a request to the upstream.
    pub(super) command: Option<Command>,
    /// The calls that the client has approved, which run before the upstream is asked.
    pub(super) approved: Option<FollowUp>,
    /// What the client is told before the first content.
    pub(super) preface: Vec<Event<'static>>,
    /// The body of the upstream's response, if it is known without a request.
    pub(super) made: Option<Bytes>,
}

impl Exchange {
    pub(super) fn asks_upstream(&self) -> bool {
        self.command.is_none() && self.made.is_none()
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct SharedState<'s> {
    pub(super) config: &'s Arc<Config>,
    pub(super) capabilities: &'s Arc<UpstreamCapabilities>,
    pub(super) states: &'s Arc<TurnStates>,
    pub(super) execution: Option<&'s Arc<Execution>>,
    pub(super) hops: &'s Arc<KeptHops>,
    /// Describes images, and the models that it asks.
    pub(super) vision: Option<(&'s Arc<Vision>, &'s Arc<dyn Ask>)>,
}

/// A client's request that is prepared for its upstream.
#[derive(Debug)]
pub(super) struct DecodedRequest<'r> {
    pub(super) id: &'r ExchangeId,
    pub(super) caller: &'r Caller,
    pub(super) dialect: ClientDialect,
    pub(super) received: &'r Bytes,
    /// Whether this body contains the conversation, which was not changed after it was decoded.
    pub(super) is_as_sent: bool,
    pub(super) conversation: Box<Conversation>,
    /// The client's setting for passing on reasoning, if it overrides the model's rules.
    pub(super) reasoning: Option<Reasoning>,
    pub(super) stamp: Stamp,
    /// The hops after which the request goes on, if there are any.
    pub(super) earlier: Option<Box<EarlierHops>>,
    /// The tools of the MCP servers that the client has named.
    pub(super) client_tools: ClientTools,
}

/// Decodes a request for a model's response. The tool choice is checked later, once hosted tools have been declared.
///
/// # Errors
/// [`Kind::Request`]
pub(super) fn decode(dialect: ClientDialect, body: &Bytes) -> Result<Box<Conversation>, Failure> {
    let conversation = dialect.side().read(body)?;
    if conversation.model.is_empty() {
        let failure = Failure::new(Kind::Request, "the request names no model");
        return Err(failure.with_param("model"));
    }
    Ok(Box::new(conversation))
}

/// Prepares a request for its upstream.
///
/// # Errors
/// [`Kind::NotFound`] for an unknown model; [`Kind::Request`] for a request that the upstream or the chat template
/// cannot handle; [`Kind::Internal`] if the template fails.
pub(super) fn prepare(shared: SharedState<'_>, request: DecodedRequest<'_>) -> Result<Exchange, Failure> {
    let SharedState { config, capabilities, states, .. } = shared;
    let DecodedRequest { id, caller, dialect, received, is_as_sent, .. } = request;
    let DecodedRequest { mut conversation, reasoning, stamp, earlier, mut client_tools, .. } = request;
    let body = is_as_sent.then_some(received);
    let owner = caller.owner;
    let model = model(config, dialect, &conversation)?;
    refuse_choices(model, &conversation)?;
    let now = stamp.created;
    let is_summary = asks_for_summary(model, dialect, &mut conversation);
    let reasoning = reasoning.unwrap_or_else(|| default_reasoning(model, &conversation));
    let clock = Clock::new(monotonic);
    let mut answering = Answering { reasoning, clock, ..Answering::new(&conversation, stamp) };
    look_at_server(capabilities, model, &conversation);
    let (lists, has_servers) = (client_tools.take_lists(), client_tools.have_servers());
    let mut preface: Vec<_> = lists.into_iter().map(|list| Event::Mcp(Box::new(list))).collect();
    let states = states.of_model(owner, model).inspect(|states| states.restore(&mut conversation));
    let offered = match is_summary {
        true => Offered::default(),
        false => Offered::new(shared, model, dialect, &mut conversation, (caller, client_tools), id),
    };
    conversation.settle_own_calls(|name| offered.name(name).or_else(|| upstream_tool(model, name)));
    let Offered { command, hosted, searching, warnings } = offered.after(earlier.as_deref());
    let approved = match is_summary {
        true => None,
        false => approved(&conversation, hosted.as_deref(), has_servers)?,
    };
    let is_settled = settle_choice(model, &mut conversation)?;
    answering.left_out = left_out_tools(model, &conversation);
    let planned = planned(&conversation, approved.as_ref());
    let built = build(capabilities, model, dialect, &planned, body, owner, now)?;
    drop(planned);
    let Built { start, thinking, lacks_forced_call, may_join, has_tool_media, constrained, .. } = built;
    let conversation = Arc::new(*conversation);
    let may_follow_up = model.settings.may_follow_up() && !conversation.tools.is_empty();
    let runs_calls = hosted.is_some() || searching.is_some();
    let whole = body.filter(|_| !runs_calls && !is_settled && !is_summary);
    let goes_on = earlier.is_some();
    if let (Some(calls), Some(earlier), Some(hosted)) = (&approved, &earlier, &hosted) {
        preface.extend(earlier.shown_again(&calls.hosted, hosted));
    }
    let may_go_on = goes_on || may_follow_up || lacks_forced_call || constrained.is_some() || runs_calls;
    let mut hops = (may_go_on || may_join || has_tool_media || !built.dispensable.is_empty()).then(|| {
        Box::new(AskAgain::new(FirstRequest {
            config: Arc::clone(config),
            capabilities: Arc::clone(capabilities),
            dialect,
            asked: asked(whole, states.as_ref(), &conversation),
            hosted: hosted.clone(),
            searching,
            now,
            subject: Subject::new(model, &conversation.model, owner),
            requires_call: conversation.tool_choice.requires_call(),
            constrained,
            may_go_on,
            may_join,
            dispensable: built.dispensable,
            earlier,
            approved: approved.iter().flat_map(|calls| &calls.hosted).map(|call| call.id.clone()).collect(),
            keeper: (hosted.is_some() || goes_on).then(|| shared.hops.keeper(owner, dialect, received)),
            has_tool_media,
        })) as Box<dyn DecideHop>
    });
    let later = hops.as_mut().filter(|_| goes_on).map(|hops| hops.make()).transpose()?;
    let request = later.map_or(built.request, |(request, _)| request);
    let states = states.filter(|_| command.is_none());
    let keeper = states.map(|states| states.keeper(&conversation, declines_storage(dialect, &conversation)));
    Ok(Exchange {
        dialect,
        left_out: built.left_out,
        warnings,
        conversation,
        request,
        start,
        thinking,
        lacks_forced_call,
        answering,
        hops,
        hosted,
        keeper,
        command,
        approved: approved.filter(|_| !goes_on),
        preface,
        made: None,
    })
}

/// Finds out which server the upstream has, if that may decide what can be enforced. Where it decides who runs searches
/// for tools, that has been considered before.
fn look_at_server(capabilities: &UpstreamCapabilities, model: &Model, conversation: &Conversation) {
    let searches_tools = model.upstream.options.side().searches_tools();
    if model.settings.enforce.asks_server() && searches_tools.is_some() && !conversation.tools.is_empty() {
        capabilities.servers.look_at(&model.upstream);
    }
}

/// A request as the upstream gets it.
struct Built {
    request: UpstreamRequest,
    start: ReasoningStart,
    thinking: Thinking,
    lacks_forced_call: bool,
    left_out: Vec<String>,
    may_join: bool,
    dispensable: Vec<&'static str>,
    has_tool_media: bool,
    constrained: Option<MeansKind>,
}

/// How reasoning is passed on, unless the client says so. The response to a client's own prompt is text as it is: the
/// client, which knows the model's markers, reads them itself.
fn default_reasoning(model: &Model, conversation: &Conversation) -> Reasoning {
    let is_as_it_is = conversation.is_prompt && model.upstream.options.side().takes_prompt();
    match model.settings.reasoning {
        Reasoning::Auto if is_as_it_is => Reasoning::Off,
        set => set,
    }
}

/// Builds the request to the upstream of `model`.
fn build(
    capabilities: &UpstreamCapabilities,
    model: &Model,
    dialect: ClientDialect,
    conversation: &Conversation,
    body: Option<&Bytes>,
    owner: Owner,
    now: u64,
) -> Result<Built, Failure> {
    let known = capabilities.about(model, conversation, owner);
    let mut conversation = Cow::Borrowed(conversation);
    if known.refused.contains(&TOOL_MEDIA) && ToolMedia::are_in(&conversation.turns) {
        ToolMedia::leave_out(&mut conversation.to_mut().turns);
    }
    let (conversation, has_tool_media) = (&*conversation, ToolMedia::are_in(&conversation.turns));
    let (read, means) = (body.map(|body| &**body), &known.means);
    let (mut sent, left_out) = taught(model, conversation, dialect.dialect(), read, means, now)?;
    let Encoded { request, opens_reasoning, lacks_forced_call } = encode(model, &known, &mut sent, now)?;
    let request = encrypted(&known.options, request)?;
    let (start, thinking) = capabilities.start(model, conversation, owner, opens_reasoning, now);
    let may_join = known.options.side().may_join(&sent.turns);
    let dispensable = ModelFacts::dispensable(&sent);
    let constrained = sent.constraint.as_ref().map(MeansKind::of);
    Ok(Built {
        request,
        start,
        thinking,
        lacks_forced_call,
        left_out,
        may_join,
        dispensable,
        has_tool_media,
        constrained,
    })
}

/// The tools that toolwire runs and the model is offered, or the command that is executed instead of a request.
#[derive(Debug, Default)]
struct Offered {
    command: Option<Command>,
    hosted: Option<Arc<HostedTurn>>,
    searching: Option<Arc<Searching>>,
    warnings: Vec<Warning<'static>>,
}

impl Offered {
    /// Declares the tools in `conversation`.
    fn new(
        SharedState { capabilities, execution, vision, .. }: SharedState<'_>,
        model: &Model,
        dialect: ClientDialect,
        conversation: &mut Conversation,
        (caller, client_tools): (&Caller, ClientTools),
        id: &ExchangeId,
    ) -> Self {
        let describer = vision.zip(model.vision.as_deref());
        let describer = describer.map(|((vision, ask), model)| ResultDescriber::new(vision, ask, model));
        let host = |execution| host(execution, model, conversation, (caller, describer, client_tools), id);
        let (command, Offer { turn: hosted, warnings }) = execution.map(host).unwrap_or_default();
        let may_search = command.is_none() && conversation.choices.unwrap_or(1) <= 1;
        let options = capabilities.servers.options(&model.upstream);
        let search = || tool_search::offer(model, options, dialect, conversation);
        let searching = may_search.then(search).flatten();
        Self { command, hosted: hosted.map(Arc::new), searching: searching.map(Arc::new), warnings }
    }

    /// The tools for a request that goes on after these hops: their calls count towards the limits.
    fn after(mut self, earlier: Option<&EarlierHops>) -> Self {
        if let Some(before) = earlier.and_then(EarlierHops::hosted) {
            self.hosted = self.hosted.map(|hosted| Arc::new(hosted.after(before)));
        }
        self
    }

    /// The name under which the model is offered the tool that the client knows as `name`.
    fn name(&self, name: &str) -> Option<String> {
        let search = self.searching.as_ref().and_then(|searching| searching.offered_name(name));
        search.or_else(|| self.hosted.as_ref()?.offered_name(name))
    }
}

/// Whether the client asks that nothing be stored. Only Responses has a member for it; the others store nothing anyway.
fn declines_storage(dialect: ClientDialect, conversation: &Conversation) -> bool {
    dialect == ClientDialect::Responses && !conversation.stored
}

/// What later requests are built from: the body, if it contains the whole conversation.
fn asked(body: Option<&Bytes>, states: Option<&OwnStates>, conversation: &Arc<Conversation>) -> Asked {
    match body {
        Some(body) => Asked::Body(body.clone(), states.cloned()),
        None => Asked::Conversation(Arc::clone(conversation)),
    }
}

/// If the client asks for a compaction that the upstream's API does not have, asks for a summary instead. Returns
/// whether that is the case.
fn asks_for_summary(model: &Model, dialect: ClientDialect, conversation: &mut Conversation) -> bool {
    let Some(compaction) = &conversation.compaction else { return false };
    if compaction.form == CompactionForm::Content && model.upstream.dialect() == dialect.dialect() {
        conversation.compaction = None;
        return false;
    }
    conversation.ask_for_summary();
    true
}

/// Finds the command in the conversation, or else declares the hosted tools in it.
pub(super) fn host(
    execution: &Arc<Execution>,
    model: &Model,
    conversation: &mut Conversation,
    (caller, describer, client_tools): (&Caller, Option<ResultDescriber>, ClientTools),
    exchange: &ExchangeId,
) -> (Option<Command>, Offer) {
    if !may_host(model, conversation) {
        return (None, Offer::default());
    }
    let asker = Asker {
        owner: caller.owner,
        client: caller.label().map(Into::into),
        payer: caller.payer(),
        model: conversation.model.as_str().into(),
        exchange: exchange.clone(),
        describer,
    };
    let command = Command::find(execution, conversation, &asker);
    if command.is_some() {
        command::drop_tools(conversation);
        return (command, Offer::default());
    }
    let unserved = left_out_tools(model, conversation);
    (None, execution.offer_with(conversation, &unserved, asker, client_tools))
}

/// Whether the model may get hosted tools for this conversation.
fn may_host(model: &Model, conversation: &Conversation) -> bool {
    model.execution && !conversation.is_prompt && conversation.choices.unwrap_or(1) <= 1
}

/// Whether toolwire calls the MCP servers that the client names: only if the upstream, which may be able to call them
/// itself, does not receive their declarations.
pub(super) fn serves_client_servers(model: &Model, conversation: &Conversation) -> bool {
    let is_sent = conversation.rest.from_dialect(model.upstream.dialect().name()).is_some();
    !is_sent && may_host(model, conversation) && conversation.compaction.is_none()
}

/// Checks the client's tool choice against all declared tools. If the client chose a server tool that cannot be passed
/// on, the choice is dropped and the model may choose. Returns whether the choice was changed.
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

/// Returns the declared server tools that will not run, because the upstream neither receives them nor has such tools.
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

/// Creates the rules for a response of `model`, which the client requested as `asked`. `answering` says how the client
/// wants the response, and `start` how it starts. If the request lacks a forced call, the model is asked again for a
/// missing one.
pub(super) fn rules<'m>(
    model: &'m Model,
    asked: &str,
    answering: &Answering,
    start: ReasoningStart,
    lacks_forced_call: bool,
) -> Cow<'m, Rules> {
    let mut rules = model.settings_starting(asked, start);
    if rules.reasoning != answering.reasoning {
        rules.to_mut().reasoning = answering.reasoning;
    }
    if lacks_forced_call {
        rules.to_mut().enforce = Enforce::Retry;
    }
    rules
}

/// Finds the configuration's entry that serves `conversation`.
///
/// # Errors
/// [`Kind::NotFound`] if there is none.
pub(super) fn model<'c>(
    config: &'c Config,
    dialect: ClientDialect,
    conversation: &Conversation,
) -> Result<&'c Model, Failure> {
    config.model(&conversation.model).ok_or_else(|| dialect.side().unknown_model(&conversation.model))
}

/// The name of a tool that the upstream of `model` runs itself. The model gets its earlier calls back, if clients send them.
pub(super) fn upstream_tool(model: &Model, name: &str) -> Option<String> {
    let tools = model.upstream.options.side().server_tools();
    tools.iter().find(|tool| *tool == name).cloned()
}

/// Refuses a request for several choices, unless the upstream generates them itself and its tool calls are native: the
/// text of several choices is not searched for calls.
fn refuse_choices(model: &Model, conversation: &Conversation) -> Result<(), Failure> {
    let is_taught = model.tools != ToolStyle::Native && !conversation.tools.is_empty();
    let side = model.upstream.options.side();
    // What else a client's prompt asks for is checked with its other members.
    let gives = match conversation.is_prompt {
        true => side.takes_client_prompts() || !conversation.rest.contains("n"),
        false => side.gives_choices(),
    };
    if conversation.choices.unwrap_or(1) > 1 && (is_taught || !gives) {
        let message = format!("the model `{}` gives one choice; leave `n` out", conversation.model);
        return Err(Failure::new(Kind::Request, message).with_param("n"));
    }
    Ok(())
}

/// A reader for a response of the model's upstream to a client that speaks `dialect`.
pub(super) fn reader(model: &Model, dialect: ClientDialect) -> Reader {
    model.upstream.options.side().reader(&ReaderRules {
        max_frame: model.settings.limits.max_frame,
        tolerate_truncation: model.upstream.tolerate_truncation,
        client: dialect.dialect(),
    })
}

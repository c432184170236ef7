//! [`FirstRequest`]: what later requests of a response need to know about the first one.

use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;

use super::{
    super::{
        tool_search::Searching,
        turn_states::OwnStates,
        upstream_capabilities::{Kind, Subject, UpstreamCapabilities},
    },
    EarlierHops, HopKeeper,
};
use toolwire_config::Config;
use toolwire_execution::HostedTurn;
use toolwire_pipeline::{conversation::Conversation, dialect::ClientDialect};

#[derive(Debug)]
pub(crate) enum Asked {
    /// The body as the client sent it. It must be stored until the response ends, and takes less memory than the parsed
    /// request.
    Body(Bytes, Option<OwnStates>),
    /// The conversation with toolwire's additions: hosted tools, and state that upstreams need back. It contains no
    /// instructions that teach tools.
    Conversation(Arc<Conversation>),
}

/// What later requests of a response need to know about the first one.
#[derive(Debug)]
pub(crate) struct FirstRequest {
    pub(crate) config: Arc<Config>,
    pub(crate) capabilities: Arc<UpstreamCapabilities>,
    pub(crate) dialect: ClientDialect,
    pub(crate) asked: Asked,
    /// The hosted tools, if the model has any.
    pub(crate) hosted: Option<Arc<HostedTurn>>,
    /// The searches for tools, if the model is not shown all of them.
    pub(crate) searching: Option<Arc<Searching>>,
    /// The time of the request, as Unix time in seconds.
    pub(crate) now: u64,
    /// The model that is asked.
    pub(crate) subject: Subject,
    /// Whether the response must contain a call.
    pub(crate) requires_call: bool,
    /// The constraint that the request uses.
    pub(crate) constrained: Option<Kind>,
    /// Whether further decisions may be needed once the request is accepted.
    pub(crate) may_go_on: bool,
    /// Whether some messages of the request may be joined.
    pub(crate) may_join: bool,
    /// The members of the request that could be left out.
    pub(crate) dispensable: Vec<&'static str>,
    /// Whether files that hosted tools have returned could be left out.
    pub(crate) has_tool_media: bool,
    /// The hops after which the request goes on, if there are any.
    pub(crate) earlier: Option<Box<EarlierHops>>,
    /// The ids of the calls that the client has approved.
    pub(crate) approved: HashSet<String>,
    /// Keeps the results of hosted tools if the response fails.
    pub(crate) keeper: Option<HopKeeper>,
}

//! The [`Stage`]s of an exchange, and the parts of a response's body.

use std::{fmt, pin::Pin, sync::Arc};

use super::super::{
    budget::Reservation,
    failover::Attempts,
    hops::{DecideHop, Deciding, NextHop},
    large,
    limits::Allowance,
    permits::{Claimant, Permit},
    upstream::{Client, Opening, UpstreamBody},
};
use super::observers::ModelObservers;
use toolwire_pipeline::{
    dialect::{Reader, UpstreamRequest},
    failure::{Failure, Kind},
    pipeline::Pipeline,
};

/// What a response's body is created from.
pub(crate) struct Parts {
    /// Whether the response is a stream.
    pub(crate) stream: bool,
    /// The part of the client's limits reserved for the response, if the client has a name.
    pub(crate) allowance: Option<Box<Allowance>>,
    /// The memory reserved for the request's body until the upstream answers.
    pub(crate) memory: Reservation,
    pub(crate) exchange: StartedExchange,
    /// Other models that may answer, if configured.
    pub(crate) attempts: Option<Box<Attempts<StartedExchange>>>,
}

/// A model that has been asked, or soon will be.
pub(crate) struct StartedExchange {
    pub(crate) asked: AskedModel,
    pub(crate) observers: ModelObservers,
}

/// The model that is asked, and its response so far.
pub(crate) struct AskedModel {
    /// The upstream's client.
    pub(crate) client: Arc<Client>,
    pub(crate) stage: Stage,
    /// Decides how to continue after a hop. `None` if the response ends with its first hop.
    pub(crate) hops: Option<Box<dyn DecideHop>>,
    /// Size in bytes of the largest request so far, from the client or to the upstream.
    pub(crate) size: usize,
    /// The client for which the request is made.
    pub(crate) claimant: Claimant,
    /// The members of the client's request that the first request to the upstream lacks, or has otherwise.
    pub(crate) left_out: Vec<String>,
    /// Boxed, so that the futures which create and pass it on stay small.
    pub(crate) pipeline: Box<Pipeline>,
}

impl AskedModel {
    /// The failure of the response, if it has failed.
    pub(super) fn failure(&self) -> Option<&Failure> {
        match self.stage {
            // The pipeline is still that of a previous model, which has failed.
            Stage::Preparing(_) => None,
            _ => self.pipeline.failure(),
        }
    }
}

/// A request that is being prepared for its upstream.
///
/// # Errors
/// If the response fails.
pub(crate) type Preparing = Pin<Box<dyn Future<Output = Result<StartedExchange, Failure>> + Send>>;

impl StartedExchange {
    /// Creates the exchange of a request that must be prepared before it can be sent. Until then, `pipeline` writes
    /// keep-alives or the error.
    pub(crate) fn preparing(client: Arc<Client>, preparing: Preparing, pipeline: Box<Pipeline>) -> Self {
        let stage = Stage::Preparing(preparing);
        let (claimant, left_out) = (Claimant::Own, Vec::new());
        let asked = AskedModel { client, stage, hops: None, size: 0, claimant, left_out, pipeline };
        Self { asked, observers: ModelObservers::none() }
    }
}

/// The stages of an exchange with the upstream.
pub(crate) enum Stage {
    /// The request is being prepared with the help of other requests: images are described, or hosted tools are still
    /// running.
    Preparing(Preparing),
    /// Waiting for a slot, a connection, and the headers.
    Opening(Opening),
    /// Reading the body.
    Streaming(UpstreamBody),
    /// Only the end of the body is missing. Either the end marker came without a finish reason, so that only a proper end
    /// makes the response complete, or the finish reason came without the end marker, so that only token counts can follow.
    Ending(UpstreamBody),
    /// The response begins with calls that the client has approved.
    Approved,
    /// A hop has ended, and it is being decided how to continue.
    Deciding(Deciding),
    /// A large request is being built for the upstream.
    Making(Making, Cause),
    /// The response is complete. Waiting for the end of the body, so that the connection can be reused.
    AwaitingBodyEnd(UpstreamBody),
    /// The upstream is no longer needed.
    Over,
}

/// A request that is being built on another thread, together with the object that builds it.
pub(crate) type Making = large::Apart<(Box<dyn DecideHop>, Result<Made, Failure>)>;

/// A request to the upstream, and a reader for its response.
pub(crate) type Made = (UpstreamRequest, Reader);

/// Why another request is made.
pub(crate) enum Cause {
    /// Another hop follows.
    Hop(NextHop),
    /// The upstream has refused the hop's request with a failure of this kind. The new request takes over the refused
    /// one's slot at the upstream.
    Refusal(Kind, Option<Permit>),
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Preparing(_) => "Preparing",
            Self::Opening(_) => "Opening",
            Self::Streaming(_) => "Streaming",
            Self::Ending(_) => "Ending",
            Self::Approved => "Approved",
            Self::Deciding(_) => "Deciding",
            Self::Making(..) => "Making",
            Self::AwaitingBodyEnd(_) => "AwaitingBodyEnd",
            Self::Over => "Over",
        })
    }
}

//! Offers hosted tools to the model of a request.

use std::sync::Arc;

use super::{
    asker::Asker, client_tools::ClientTools, inject::inject, known_pages::KnownPages, stage::Execution,
    turn::HostedTurn, turn_options::TurnOptions,
};
use toolwire_pipeline::{conversation::Conversation, event::Warning};

/// What a request gets of the hosted tools.
#[derive(Debug, Default)]
pub struct Offer {
    /// `None` if no tools are offered.
    pub turn: Option<HostedTurn>,
    /// What the client is told about tools that are missing.
    pub warnings: Vec<Warning<'static>>,
}

impl Execution {
    /// Adds hosted tools to a request, in addition to the client's tools, whose names take precedence. `unserved`
    /// contains the types of server tools that the upstream does not support. Returns `None` if no hosted tools are
    /// offered.
    pub fn offer(
        self: &Arc<Self>,
        conversation: &mut Conversation,
        unserved: &[String],
        asker: Asker,
    ) -> Option<HostedTurn> {
        self.offer_with(conversation, unserved, asker, ClientTools::default()).turn
    }

    /// Like [`Execution::offer`], with the tools of the servers that the client has named.
    pub fn offer_with(
        self: &Arc<Self>,
        conversation: &mut Conversation,
        unserved: &[String],
        asker: Asker,
        client_tools: ClientTools,
    ) -> Offer {
        let snapshot = client_tools.beside(self.registry().snapshot_of(asker.key()));
        let clash = self.settings().clash;
        let mut options = TurnOptions::of(conversation, &snapshot);
        let offered = inject(conversation, &snapshot, unserved, clash, self.permissions(), &asker);
        let warnings = self.tell_missing(conversation, &asker);
        if offered.is_empty() {
            return Offer { turn: None, warnings };
        }
        let mut tools = offered.values().filter_map(|place| snapshot.tools().get(*place));
        if tools.any(|hosted| hosted.spec.reads_known_pages) {
            options.pages = Some(Arc::new(KnownPages::of(&conversation.turns)));
        }
        let turn = HostedTurn::new(Arc::clone(self), snapshot, Some(offered), asker).with(options);
        Offer { turn: Some(turn), warnings }
    }
}

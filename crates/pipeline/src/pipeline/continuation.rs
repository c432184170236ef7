//! A later hop that fails before its first content begins again, perhaps with another model.
//!
//! The client has what earlier hops have written, so only the stages that read the model are replaced: another pipeline
//! is made as for a first request, and [`Pipeline::continues`] the response of the one before it.

use bytes::BytesMut;

use super::{Pipeline, State, prefill::PrefillStage, stages::Stages, withheld_events::NextHop};
use crate::detect::Detector;

impl Pipeline {
    /// Whether content of this hop has been written, or waits for the end of a response that is not streamed.
    pub fn has_hop_content(&self) -> bool {
        self.stages.emitted.has_content || self.stages.detector.as_ref().is_some_and(Detector::keeps_text)
    }

    /// Sets that this hop may begin again after a failure. The caller must then decide about each failure, and call
    /// [`Pipeline::give_up`] if the hop does not begin again.
    pub fn may_begin_again(&mut self) {
        self.may_begin_again = true;
    }

    /// In [`State::Failed`]: writes what is held back, since the hop does not begin again.
    pub fn give_up(&mut self, out: &mut BytesMut) {
        if self.state == State::Failed && std::mem::take(&mut self.may_begin_again) {
            self.stages.backlog.clear();
            self.stages.release(out);
        }
    }

    /// Drops what is held back of this hop, and its failure: the hop begins again, in another pipeline. Until that
    /// [continues](Self::continues) the response, this one writes keep-alives.
    pub fn begins_again(&mut self) {
        if self.state == State::Failed {
            self.state = State::Open;
        }
        self.failure = None;
        let Stages { backlog, detector, prefill, withheld, .. } = &mut self.stages;
        backlog.clear();
        (*detector, *prefill) = (None, PrefillStage::default());
        withheld.next_hop(NextHop { may_be_replaced: false, follows_text: false });
    }

    /// Continues the response of `earlier`, whose last hop has failed without content and begins again in this
    /// pipeline. Must be called before the first bytes.
    pub fn continues(&mut self, earlier: Self) {
        let Stages { calls, reasoning, writer, emitted, preface, .. } = earlier.stages;
        self.skipped = earlier.skipped;
        let own = &mut self.stages;
        (own.reasoning, own.writer, own.emitted, own.written) = (reasoning, writer, emitted, None);
        own.preface = preface;
        let hop = own.calls.continues(calls);
        if let Some(detector) = &mut own.detector {
            detector.asks_for_unknown(hop.may_be_replaced);
        }
        own.withheld.next_hop(hop);
    }

    /// Sets that the request contains the results of hosted tools that ran for an earlier response. The client has not
    /// seen them. Must be called before the first bytes.
    pub fn follows_hosted_calls(&mut self) {
        self.stages.calls.follows_hosted_calls();
    }
}

//! Further requests of an exchange: for another hop, in place of a refused request, or to another model.

use std::mem;

use super::super::{
    hops::{Continuation, NextHop},
    large,
    permits::Permit,
    upstream::Admission,
};
use super::{
    exchange_state::ExchangeState,
    stage::{AskedModel, Cause, Made, Stage},
};
use toolwire_pipeline::{
    dialect::UpstreamRequest,
    event::Event,
    failure::{Failure, Kind},
};

impl ExchangeState {
    pub(super) fn decided(&mut self, decided: Result<Continuation, Failure>) {
        match decided {
            Ok(Continuation::Ask(next)) => self.make(Cause::Hop(next)),
            Ok(Continuation::Ran(results)) => {
                self.has_run_tools |= !results.ran.is_empty();
                let hops = self.asked.hops.as_mut();
                let next = hops.map_or(Continuation::End(None), |hops| hops.ran(results));
                self.decided(Ok(next));
            }
            Ok(Continuation::End(warning)) => {
                warning.into_iter().for_each(|warning| self.asked.pipeline.warn(warning));
                self.end();
            }
            Ok(Continuation::EndWith(events)) => {
                self.show(&events);
                self.end();
            }
            Err(failure) => self.fail(failure),
        }
    }

    /// Ends the response with the output of the hops so far.
    fn end(&mut self) {
        self.asked.pipeline.end(&mut self.out);
        self.completed();
        self.asked.stage = Stage::Over;
    }

    /// Drops the decider once no more decisions are needed, since it may own the client's request.
    pub(super) fn drop_hops(&mut self) {
        let hops = self.asked.hops.take();
        if large::is_large(self.asked.size) {
            large::discard(hops);
        }
    }

    /// Builds a further request, on another thread if it is large.
    pub(super) fn make(&mut self, why: Cause) {
        let Some(mut hops) = self.asked.hops.take() else {
            return self.fail(Failure::new(Kind::Internal, "nothing makes the request of another hop"));
        };
        let more = if let Cause::Hop(next) = &why { next.size() } else { 0 };
        if large::is_large(self.asked.size.saturating_add(more)) {
            let make = move || {
                let made = hops.make();
                (hops, made)
            };
            self.asked.stage = Stage::Making(large::apart(make), why);
        } else {
            let made = hops.make();
            self.asked.hops = Some(hops);
            self.made(made, why);
        }
    }

    pub(super) fn made(&mut self, made: Result<Made, Failure>, why: Cause) {
        let (request, reader) = match made {
            Ok(made) => made,
            Err(failure) => return self.fail(failure),
        };
        self.asked.size = self.asked.size.max(request.body.len());
        match why {
            Cause::Hop(next) => self.ask_again((request, reader), next),
            Cause::Refusal(kind, permit) => self.ask_otherwise(request, kind, permit),
        }
    }

    /// Sends the request of the next hop, in the same slot if it is still held.
    fn ask_again(&mut self, (request, reader): Made, next: NextHop) {
        let NextHop { turns, shown } = next;
        self.show(&shown);
        let client = self.observers.asked_again(&self.asked.client, &request, &turns);
        self.asked.pipeline.resume(reader, &mut self.out);
        self.begin_later_hop();
        self.asked.pipeline.reads(&turns);
        self.asked.pipeline.expect_prefill(request.prefill.clone());
        self.asked.pipeline.expect_key(request.key.clone());
        let opening = client.open(request, Admission::Again(self.permit.take(), self.asked.claimant));
        self.asked.stage = Stage::Opening(Box::pin(opening));
    }

    /// Shows the client what happens between two hops.
    pub(super) fn show(&mut self, events: &[Event<'static>]) {
        for event in events {
            self.observers.shown(event);
            self.asked.pipeline.show(event, &mut self.out);
        }
    }

    /// Sends another request in place of the refused one, in the same slot.
    fn ask_otherwise(&mut self, mut request: UpstreamRequest, refusal: Kind, permit: Option<Permit>) {
        self.asked.left_out = std::mem::take(&mut request.dropped);
        self.asked.pipeline.expect_prefill(request.prefill.clone());
        self.asked.pipeline.expect_key(request.key.clone());
        let context = self.observers.asked_otherwise(&request, refusal);
        let opening =
            self.asked.client.traced(context).open(request, Admission::Again(permit, self.asked.claimant));
        self.asked.stage = Stage::Opening(Box::pin(opening));
    }

    /// Prepares for a failure of the later hop that begins now: another model may answer in it.
    fn begin_later_hop(&mut self) {
        self.is_later_hop = true;
        if let Some(attempts) = &mut self.observers.attempts {
            attempts.next_hop();
            self.asked.pipeline.may_begin_again();
        }
    }

    /// Continues the response with a model that has been asked for the current hop.
    pub(super) fn continue_with(&mut self, asked: AskedModel) {
        let earlier = mem::replace(&mut self.asked, asked);
        let size = self.asked.size.max(earlier.size);
        (self.asked.size, self.asked.left_out) = (size, earlier.left_out);
        self.asked.pipeline.continues(*earlier.pipeline);
        self.asked.pipeline.may_begin_again();
        if large::is_large(size) {
            large::discard(earlier.hops);
        }
    }

    /// Drops the upstream's response to the current hop, which failed without content, and asks another model. Returns
    /// `false` if there is no other model to ask.
    pub(super) fn ask_another(&mut self, failure: &Failure) -> bool {
        let (hops, continues) = (self.asked.hops.as_deref(), self.is_later_hop);
        if continues && hops.is_none() {
            return false;
        }
        let earlier = || Some(Box::new(hops?.earlier_hops()?.continued(continues)));
        let preparing = self.observers.attempts.as_mut().and_then(|attempts| attempts.next(failure, earlier));
        let Some(preparing) = preparing else { return false };
        self.observers.asked_another(failure, &self.asked.pipeline, continues);
        match continues {
            true => self.asked.pipeline.begins_again(),
            false => self.out.truncate(self.comments),
        }
        self.permit = None;
        self.asked.stage = Stage::Preparing(preparing);
        true
    }
}

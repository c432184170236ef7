//! [`TargetRun`]: a target under measurement, turn by turn.

use std::{mem, sync::Arc};

use super::{
    client::Client,
    load::nanoseconds,
    plan::{Contender, Plan},
    process::{ProcessTree, Unseen},
    report::{Process, Target},
    tally::Tally,
};
use crate::follow::sample::Sample;

/// Maximum number of tokens in buffered samples: about 160 MB. Samples are buffered during a turn so that counting does
/// not disturb it.
const MAX_KEPT: usize = 4 << 20;

#[derive(Debug)]
pub(super) struct TargetRun {
    pub(super) contender: Contender,
    pub(super) client: Arc<Client>,
    pub(super) family: Option<ProcessTree>,
    /// The target's memory before the first stream, in KiB.
    idle_kib: f64,
    /// The results of all turns.
    pub(super) all: Tally,
    /// The cost of the target's processes over all turns.
    process: Option<Process>,
    pub(super) shown: Target,
}

impl TargetRun {
    pub(super) fn new(contender: &Contender, plan: &Plan) -> Result<Self, Unseen> {
        let target = &contender.target;
        let family = Some(&contender.pids).filter(|pids| !pids.is_empty());
        let family = family.map(|pids| ProcessTree::new(pids)).transpose()?;
        let shown = Target { name: target.name.clone(), url: target.url.to_string(), ..Target::default() };
        Ok(Self {
            client: Arc::new(Client::new(Arc::clone(target), plan.dialect, &plan.model, plan.timeout)),
            contender: contender.clone(),
            idle_kib: family.as_ref().map_or(0.0, ProcessTree::kib),
            family,
            all: Tally::new(nanoseconds(plan.gap)),
            process: None,
            shown,
        })
    }

    /// Discards the measurements so far, since a ramp reports only its best turn.
    pub(super) fn clear(&mut self, plan: &Plan) {
        self.all = Tally::new(nanoseconds(plan.gap));
        self.process = None;
        self.shown = Target { rounds: Vec::new(), timelines: Vec::new(), ..mem::take(&mut self.shown) };
    }

    /// Returns the cost of the target's processes in one turn.
    pub(super) fn cost(&self, (cpu, peak_kib): (u64, f64), tokens: u64, open_streams: u64) -> Process {
        let mut process = Process {
            cpu_seconds: cpu as f64 / 1e9,
            idle_kib: self.idle_kib,
            peak_kib,
            open_streams,
            ..Process::default()
        };
        process.per_unit(tokens);
        process
    }

    pub(super) fn take(&mut self, tally: &Tally, process: Option<Process>) {
        self.all.absorb(tally);
        self.shown.timelines.extend(tally.timeline.clone());
        self.shown.rounds.push(tally.summary(false, process.clone()));
        if let Some(turn) = process {
            let all =
                self.process.get_or_insert_with(|| Process { idle_kib: turn.idle_kib, ..Process::default() });
            all.cpu_seconds += turn.cpu_seconds;
            all.peak_kib = all.peak_kib.max(turn.peak_kib);
            all.open_streams = all.open_streams.max(turn.open_streams);
            all.per_unit(self.all.token_count());
        }
    }

    pub(super) fn finish(mut self) -> Target {
        self.shown.all = self.all.summary(true, self.process);
        self.shown.complaints = self.all.complaints;
        self.shown
    }
}

impl Process {
    /// Computes the cost per token and per stream from the sums.
    fn per_unit(&mut self, tokens: u64) {
        let per = |sum: f64, count: u64| if count > 0 { sum / count as f64 } else { 0.0 };
        self.cpu_per_token = per(self.cpu_seconds * 1e6, tokens);
        self.kib_per_stream = per((self.peak_kib - self.idle_kib).max(0.0), self.open_streams);
    }
}

/// Buffers samples until the turn has ended.
pub(super) struct SampleBuffer {
    tally: Tally,
    samples: Vec<Sample>,
    tokens: usize,
    pub(super) streams: u64,
}

impl SampleBuffer {
    pub(super) fn new(tally: Tally) -> Self {
        Self { tally, samples: Vec::new(), tokens: 0, streams: 0 }
    }

    pub(super) fn keep(&mut self, sample: Sample) {
        self.streams += 1;
        self.tokens += sample.tokens.len();
        self.samples.push(sample);
        if self.tokens > MAX_KEPT {
            self.settle();
        }
    }

    fn settle(&mut self) {
        // The timeline shows the first stream.
        self.samples.sort_unstable_by_key(|sample| sample.intended);
        self.samples.drain(..).for_each(|sample| self.tally.record(&sample));
        self.tokens = 0;
    }

    pub(super) fn settled(mut self) -> Tally {
        self.settle();
        self.tally
    }
}

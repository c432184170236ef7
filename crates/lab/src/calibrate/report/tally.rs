//! [`report`]: judges the answers of a run and counts them.

use std::collections::BTreeMap;

use super::{Example, Report, VariantReport};
use crate::{
    calibrate::{
        case::Case,
        interval::Share,
        judge::{Judgement, Verdict, judge},
        plan::{Plan, Shown},
        run::{Measured, Outcome, Stopped},
    },
    fixture::Answer,
};
use toolwire_gateway::observe::untrusted_text::clip;

/// Maximum number of examples for each kind of failure.
const EXAMPLES: usize = 3;

/// Maximum size of a text in an example, in bytes.
const CLIPPED: usize = 600;

/// Creates the report of a run. `upstream` and `model` are the names to report, and `entry` returns the configuration of
/// the variant with a given index in the plan.
pub fn report(
    plan: &Plan,
    measured: &Measured,
    upstream: &str,
    model: &str,
    entry: impl Fn(usize) -> String,
) -> Report {
    let mut variants: Vec<_> =
        (0..plan.variants.len()).map(|place| (place, tally(plan, measured, place))).collect();
    variants.sort_by(|(_, one), (_, other)| {
        other.score.total_cmp(&one.score).then(one.tool_tokens.total_cmp(&other.tool_tokens))
    });
    let best = variants.first().filter(|(_, variant)| variant.proper.count > 0);
    let entry = best.map(|(place, _)| entry(*place));
    let stopped = measured.stopped.as_ref().map(|stopped| match stopped {
        Stopped::Signal => "stopped by a signal".to_owned(),
        Stopped::Upstream(message) => message.clone(),
    });
    Report {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        upstream: upstream.to_owned(),
        model: model.to_owned(),
        prompts: plan.cases.len(),
        runs: plan.runs,
        temperature: plan.sampling.temperature,
        max_tokens: plan.sampling.max_tokens,
        seconds: measured.took.as_secs_f64(),
        questions: measured.questions,
        answers: measured.outcomes.len(),
        cached: measured.cached,
        stopped,
        variants: variants.into_iter().map(|(_, variant)| variant).collect(),
        entry,
    }
}

/// Counts towards a [`Share`].
#[derive(Debug, Clone, Copy, Default)]
struct Counter {
    count: u64,
    of: u64,
}

impl Counter {
    fn add(&mut self, counts: bool) {
        self.count += u64::from(counts);
        self.of += 1;
    }

    fn share(self) -> Share {
        Share::new(self.count, self.of)
    }
}

#[derive(Debug, Default)]
struct Tally {
    proper: Counter,
    without_history: Counter,
    with_history: Counter,
    required: Counter,
    false_calls: Counter,
    leaks: Counter,
    imitations: Counter,
    verdicts: BTreeMap<Verdict, u64>,
    groups: BTreeMap<String, Counter>,
    call_ms: Vec<f64>,
    total_ms: Vec<f64>,
    examples: Vec<Example>,
}

fn tally(plan: &Plan, measured: &Measured, place: usize) -> VariantReport {
    let Some(variant) = plan.variants.get(place) else { return VariantReport::default() };
    let shown: Vec<_> = plan.cases.iter().map(|case| plan.shown(variant, case)).collect();
    let mut tally = Tally::default();
    for outcome in measured.outcomes.iter().filter(|outcome| outcome.variant == place) {
        if let (Some(case), Some(shown)) = (plan.cases.get(outcome.case), shown.get(outcome.case)) {
            tally.add(case, shown, outcome);
        }
    }
    let tokens: usize = shown.iter().map(|shown| shown.tool_tokens).sum();
    let given_up = measured.given_up.iter().find(|(given_up, _)| *given_up == place);
    let (proper, false_calls) = (tally.proper.share(), tally.false_calls.share());
    VariantReport {
        name: variant.label(),
        format: variant.format.clone(),
        wording: variant.wording.clone(),
        enforce: variant.enforce.clone(),
        answers: tally.verdicts.values().sum(),
        score: proper.low_minus(&false_calls),
        proper,
        proper_without_history: tally.without_history.share(),
        proper_with_history: tally.with_history.share(),
        proper_required: tally.required.share(),
        false_calls,
        leaks: tally.leaks.share(),
        imitations: tally.imitations.share(),
        groups: tally.groups.into_iter().map(|(group, counter)| (group, counter.share())).collect(),
        verdicts: tally.verdicts,
        tool_tokens: tokens as f64 / shown.len().max(1) as f64,
        call_ms: median(tally.call_ms),
        total_ms: median(tally.total_ms),
        given_up: given_up.map(|(_, message)| message.clone()),
        examples: tally.examples,
    }
}

impl Tally {
    fn add(&mut self, case: &Case, shown: &Shown, outcome: &Outcome) {
        let reply = &outcome.reply;
        let judgement = judge(case, &shown.text, &reply.answer);
        let verdict = judgement.verdict;
        *self.verdicts.entry(verdict).or_default() += 1;
        self.groups.entry(case.group.clone()).or_default().add(verdict.is_right());
        if case.wants_call() {
            let is_proper = verdict == Verdict::Proper;
            self.proper.add(is_proper);
            if case.has_history() { &mut self.with_history } else { &mut self.without_history }
                .add(is_proper);
            if case.requires_call() {
                self.required.add(is_proper);
            }
        } else {
            self.false_calls.add(verdict == Verdict::FalseCall);
        }
        if verdict != Verdict::Failed {
            let millis = |time: std::time::Duration| time.as_secs_f64() * 1e3;
            self.leaks.add(judgement.leaks);
            self.imitations.add(judgement.imitates);
            self.call_ms.extend(reply.to_call.map(millis));
            self.total_ms.push(millis(reply.total));
        }
        self.exemplify(case, judgement, &reply.answer);
    }

    fn exemplify(&mut self, case: &Case, judgement: Judgement, answer: &Answer) {
        let Judgement { verdict, why, .. } = judgement;
        let known = self.examples.iter().filter(|example| example.verdict == verdict).count();
        if verdict.is_right() || known >= EXAMPLES {
            return;
        }
        let clipped = |text: &str| clip(text, CLIPPED).into_owned();
        let calls = answer.calls.iter().take(EXAMPLES);
        self.examples.push(Example {
            verdict,
            prompt: case.name.clone(),
            user: clipped(case.last_user_text()),
            why: clipped(&why),
            text: clipped(&answer.text),
            calls: calls.map(|call| clipped(&format!("{}({})", call.name, call.arguments))).collect(),
        });
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get((values.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_in_the_middle() {
        assert_eq!(median(Vec::new()), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
    }
}

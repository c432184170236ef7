//! [`Usage`]: a client's usage in the current month, and its responses in progress.

use std::{
    collections::BTreeMap,
    mem,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use toolwire_config::calendar::Month;

/// Estimated length in tokens of a client's first response.
const FIRST_OUTPUT: u64 = 512;

/// Approximate number of recent responses whose lengths are averaged.
const MEMORY: u64 = 8;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub requests: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
}

impl Counts {
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    fn add(&mut self, (input, output): (u64, u64)) {
        self.input_tokens = self.input_tokens.saturating_add(input);
        self.output_tokens = self.output_tokens.saturating_add(output);
    }

    fn merge(&mut self, other: Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.add((other.input_tokens, other.output_tokens));
    }
}

pub type CountsByModel = BTreeMap<String, Counts>;

/// All counts of a month, in the form in which they are saved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MonthCounts {
    #[serde(flatten)]
    pub(super) all: Counts,
    /// Counts of the requests that have reached a model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) models: CountsByModel,
}

impl MonthCounts {
    /// Adds other counts of the same month to these.
    fn merge(&mut self, other: &Self) {
        self.all.merge(other.all);
        for (name, counts) in &other.models {
            self.of_model(name).merge(*counts);
        }
    }

    fn of_model(&mut self, name: &str) -> &mut Counts {
        self.models.entry(name.to_owned()).or_default()
    }
}

/// The counts of two months. If the clock is set back to the previous month, both are still available.
#[derive(Debug)]
struct Months {
    current: (Month, MonthCounts),
    other: Option<(Month, MonthCounts)>,
    /// Months that began here. Earlier counts of them may have been saved, if the clock has been wrong.
    begun: Vec<Month>,
    reserved: u64,
}

impl Months {
    /// Makes `month` the current month, and returns its counts.
    fn at(&mut self, month: Month) -> &mut MonthCounts {
        if self.current.0 != month {
            let known = self.other.take().filter(|(other, _)| *other == month);
            let next = known.unwrap_or_else(|| {
                if !self.begun.contains(&month) {
                    self.begun.push(month);
                }
                (month, MonthCounts::default())
            });
            self.other = Some(mem::replace(&mut self.current, next));
        }
        &mut self.current.1
    }
}

/// A client's usage. It survives changes to the client's limits.
#[derive(Debug)]
pub(super) struct Usage {
    streams: AtomicU64,
    mean_output: AtomicU64,
    months: Mutex<Months>,
    is_changed: AtomicBool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BudgetRefusal {
    /// All tokens are used. Contains the start of the next month, as Unix time in seconds.
    Gone(u64),
    /// The remaining tokens are reserved for responses in progress.
    Reserved,
}

impl Usage {
    pub(super) fn new(month: Month, counts: MonthCounts) -> Self {
        Self {
            streams: AtomicU64::new(0),
            mean_output: AtomicU64::new(FIRST_OUTPUT),
            months: Mutex::new(Months {
                current: (month, counts),
                other: None,
                begun: Vec::new(),
                reserved: 0,
            }),
            is_changed: AtomicBool::new(false),
        }
    }

    /// Takes one of `limit` slots for responses in progress. Returns `false` if all are taken.
    pub(super) fn take_place(&self, limit: u64) -> bool {
        let one_more = |taken| Some(taken + 1).filter(|taken| *taken <= limit);
        self.streams.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok()
    }

    pub(super) fn free_place(&self) {
        self.streams.fetch_sub(1, Ordering::AcqRel);
    }

    /// Number of slots that are taken.
    pub(super) fn places(&self) -> u64 {
        self.streams.load(Ordering::Acquire)
    }

    /// Mean length in tokens of recent responses.
    pub(super) fn mean_output(&self) -> u64 {
        self.mean_output.load(Ordering::Relaxed)
    }

    /// Reserves `tokens` of `budget` in the month of `now`, or whatever is left if that is less.
    ///
    /// # Errors
    /// If nothing is left.
    pub(super) fn reserve(&self, tokens: u64, budget: u64, now: u64) -> Result<(), BudgetRefusal> {
        let mut months = self.months.lock();
        let used = months.at(Month::of(now)).all.tokens();
        if used >= budget {
            return Err(BudgetRefusal::Gone(Month::of(now).end()));
        }
        if used.saturating_add(months.reserved) >= budget {
            return Err(BudgetRefusal::Reserved);
        }
        months.reserved = months.reserved.saturating_add(tokens);
        Ok(())
    }

    pub(super) fn asked(&self, now: u64) {
        self.months.lock().at(Month::of(now)).all.requests += 1;
        self.is_changed.store(true, Ordering::Release);
    }

    /// Counts the usage of a response and releases its reservation.
    pub(super) fn spent(&self, (input, output): (u64, u64), reserved: u64, now: u64) {
        if output > 0 {
            // Two responses that end at the same moment may lose one update. That is acceptable in an estimate.
            let mean = self.mean_output();
            self.mean_output.store((mean * (MEMORY - 1) + output).div_ceil(MEMORY), Ordering::Relaxed);
        }
        self.add((input, output), reserved, now);
    }

    /// Counts tokens without changing the mean length of responses.
    pub(super) fn add(&self, (input, output): (u64, u64), reserved: u64, now: u64) {
        let mut months = self.months.lock();
        months.reserved = months.reserved.saturating_sub(reserved);
        months.at(Month::of(now)).all.add((input, output));
        self.is_changed.store(true, Ordering::Release);
    }

    /// Counts `requests` and tokens for a model, in addition to the totals.
    pub(super) fn modelled(&self, model: &str, requests: u64, tokens: (u64, u64), now: u64) {
        let mut months = self.months.lock();
        let counts = months.at(Month::of(now)).of_model(model);
        counts.requests = counts.requests.saturating_add(requests);
        counts.add(tokens);
        self.is_changed.store(true, Ordering::Release);
    }

    /// Returns the counts for the month of `now`, and the tokens reserved for responses in progress.
    pub(super) fn current(&self, now: u64) -> (Counts, u64) {
        let mut months = self.months.lock();
        (months.at(Month::of(now)).all, months.reserved)
    }

    pub(super) fn models(&self, now: u64) -> CountsByModel {
        self.months.lock().at(Month::of(now)).models.clone()
    }

    /// Replaces the counts of a month with those of a server, which does not count by model.
    pub(super) fn learned(&self, month: Month, counts: Counts) {
        self.months.lock().at(month).all = counts;
    }

    /// Adds the saved counts of a month that could be read only now.
    pub(super) fn found(&self, month: Month, counts: &MonthCounts) {
        let mut months = self.months.lock();
        let Months { current, other, .. } = &mut *months;
        if let Some((_, known)) =
            [Some(current), other.as_mut()].into_iter().flatten().find(|(own, _)| *own == month)
        {
            known.merge(counts);
            self.is_changed.store(true, Ordering::Release);
        }
    }

    /// Returns the months that have begun since the last call. Saved counts of them are added with [`Usage::found`].
    pub(super) fn begun(&self) -> Vec<Month> {
        mem::take(&mut self.months.lock().begun)
    }

    /// Returns the counts that have changed since the last call, except those of months that [`Usage::begun`] did not
    /// return yet: they must not replace saved counts.
    pub(super) fn changed(&self) -> Vec<(Month, MonthCounts)> {
        if !self.is_changed.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        let months = self.months.lock();
        if !months.begun.is_empty() {
            self.is_changed.store(true, Ordering::Release);
        }
        let known = [Some(months.current.clone()), months.other.clone()].into_iter().flatten();
        known.filter(|(month, _)| !months.begun.contains(month)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 23 November 2026.
    const NOW: u64 = 1_795_392_000;
    const MONTH: u64 = 31 * 86_400;

    fn usage() -> Usage {
        Usage::new(Month::of(NOW), MonthCounts::default())
    }

    #[test]
    fn budget_begins_again_with_the_month_and_survives_a_clock_that_is_set_back() {
        let usage = usage();
        usage.spent((60, 40), 0, NOW);
        assert_eq!(usage.reserve(1, 100, NOW), Err(BudgetRefusal::Gone(Month::of(NOW).end())));
        assert_eq!(usage.reserve(1, 101, NOW), Ok(()));
        assert_eq!(usage.reserve(1, 101, NOW), Err(BudgetRefusal::Reserved));
        usage.spent((0, 0), 1, NOW);
        let next = Month::of(NOW).end();
        assert_eq!(usage.reserve(1, 100, next - 1), Err(BudgetRefusal::Gone(next)));
        assert_eq!(usage.reserve(1, 100, next), Ok(()));
        usage.spent((7, 0), 1, next);
        // The clock is set back, and then forward again.
        assert_eq!(usage.reserve(1, 100, NOW), Err(BudgetRefusal::Gone(next)));
        assert_eq!(usage.current(next), (Counts { input_tokens: 7, ..Counts::default() }, 0));
        assert_eq!(usage.changed().len(), 1, "the other month may have been saved before");
        assert_eq!(usage.begun(), [Month::of(next)]);
        assert_eq!(usage.changed().len(), 2);
        assert_eq!(usage.changed(), []);
    }

    #[test]
    fn later_month_without_requests_in_between_is_found() {
        let usage = usage();
        usage.asked(NOW);
        usage.asked(NOW + 5 * MONTH);
        assert_eq!(usage.current(NOW + 5 * MONTH).0.requests, 1);
    }

    #[test]
    fn places_are_limited_and_come_back() {
        let usage = usage();
        assert!(usage.take_place(2) && usage.take_place(2) && !usage.take_place(2));
        usage.free_place();
        assert!(usage.take_place(2) && !usage.take_place(2));
    }

    #[test]
    fn length_of_responses_is_learned() {
        let usage = usage();
        (0..100).for_each(|_| usage.spent((0, 40), 0, NOW));
        assert!((40..48).contains(&usage.mean_output()), "{}", usage.mean_output());
        usage.spent((5, 0), 0, NOW);
        assert!(usage.mean_output() >= 40, "a response without output says nothing");
    }
}

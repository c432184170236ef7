//! [`Failures`]: decides after a failed request whether to continue, to give up the variant, or to end the run.

use super::ask::AskError;

/// Number of consecutive failures after which the variant is given up or the run ends.
const PATIENCE: usize = 3;

/// How to continue after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Ask the next question.
    GoOn,
    /// Skip to the next variant, since the upstream rejects the requests of this one.
    GiveUp,
    /// End the run, since no request can succeed.
    Stop,
}

/// What a failure implies for later requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severity {
    /// Every request will fail, because the upstream refuses the key or the model.
    Fatal,
    /// The upstream does not answer.
    Down,
    /// Only this request failed.
    Rejected,
}

impl Severity {
    fn of(error: &AskError) -> Self {
        match error {
            AskError::Refused { status: 401 | 403 | 404, .. } => Self::Fatal,
            AskError::Refused { code: Some(code), .. } => match code.as_str() {
                "upstream_not_found" => Self::Fatal,
                "upstream_unreachable"
                | "upstream_timeout"
                | "timeout"
                | "overloaded"
                | "rate_limit_exceeded" => Self::Down,
                _ => Self::Rejected,
            },
            AskError::Slow(_) => Self::Down,
            AskError::Refused { .. } | AskError::Broken(_) => Self::Rejected,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Failures {
    /// Whether any request of this run has been answered.
    answered: bool,
    /// Indices of the most recent questions, if all of them failed because the upstream did not answer.
    down: Vec<usize>,
    variants: Vec<Record>,
}

#[derive(Debug, Clone, Default)]
struct Record {
    failed: usize,
    answered: bool,
    given_up: bool,
}

impl Failures {
    pub(crate) fn new(variants: usize) -> Self {
        Self { answered: false, down: Vec::new(), variants: vec![Record::default(); variants] }
    }

    /// Records that a request of `variant` was answered.
    pub(crate) fn succeeded(&mut self, variant: usize) {
        self.answered = true;
        self.down.clear();
        if let Some(record) = self.variants.get_mut(variant) {
            *record = Record { failed: 0, answered: true, ..*record };
        }
    }

    /// Records that the question at index `place` failed in `variant`.
    pub(crate) fn failed(&mut self, variant: usize, place: usize, error: &AskError) -> Next {
        match Severity::of(error) {
            Severity::Fatal => {
                self.down.push(place);
                Next::Stop
            }
            Severity::Down => {
                self.down.push(place);
                let patience = if self.answered { PATIENCE } else { 1 };
                if self.down.len() >= patience { Next::Stop } else { Next::GoOn }
            }
            Severity::Rejected => {
                self.down.clear();
                let Some(record) = self.variants.get_mut(variant) else { return Next::GoOn };
                record.failed += 1;
                if record.answered || record.given_up || record.failed < PATIENCE {
                    return Next::GoOn;
                }
                record.given_up = true;
                Next::GiveUp
            }
        }
    }

    pub(crate) fn is_given_up(&self, variant: usize) -> bool {
        self.variants.get(variant).is_some_and(|record| record.given_up)
    }

    /// Returns the indices of the questions whose failures ended the run.
    pub(crate) fn last_places(&self) -> &[usize] {
        &self.down
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn refused(status: u16, code: Option<&str>) -> AskError {
        let code = code.map(str::to_owned);
        AskError::Refused { status, code, message: "m".to_owned(), retry_after: None }
    }

    #[test]
    fn refused_key_or_model_stops_at_once() {
        for error in [
            refused(401, None),
            refused(403, None),
            refused(404, None),
            refused(502, Some("upstream_not_found")),
        ] {
            let mut failures = Failures::new(1);
            failures.succeeded(0);
            assert_eq!(failures.failed(0, 7, &error), Next::Stop);
            assert_eq!(failures.last_places(), [7]);
        }
    }

    #[test]
    fn silent_upstream_stops_the_run() {
        let slow = AskError::Slow(Duration::from_secs(1));
        assert_eq!(Failures::new(1).failed(0, 0, &slow), Next::Stop, "nothing was ever answered");
        let mut failures = Failures::new(2);
        failures.succeeded(0);
        let down = refused(502, Some("upstream_unreachable"));
        assert_eq!(failures.failed(0, 1, &down), Next::GoOn);
        failures.succeeded(0);
        let next: Vec<_> = (2..5).map(|place| failures.failed(1, place, &down)).collect();
        assert_eq!(next, [Next::GoOn, Next::GoOn, Next::Stop]);
        assert_eq!(failures.last_places(), [2, 3, 4]);
    }

    #[test]
    fn variant_whose_requests_are_rejected_is_given_up() {
        let mut failures = Failures::new(2);
        let next: Vec<_> = (0..3).map(|place| failures.failed(0, place, &refused(400, None))).collect();
        assert_eq!(next, [Next::GoOn, Next::GoOn, Next::GiveUp]);
        assert!(failures.is_given_up(0) && !failures.is_given_up(1));
        // A variant that has answers is not given up, since only some of its prompts may be too long.
        failures.succeeded(1);
        assert!((0..9).all(|place| failures.failed(1, place, &refused(400, None)) == Next::GoOn));
    }
}

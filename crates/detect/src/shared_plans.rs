//! [`SharedPlans`]: the plans of named formats that were built last. A plan takes longer to build than most responses take
//! to search, and most requests name the same formats.

use std::sync::{Arc, Mutex, PoisonError};

use super::{
    openers::Reads,
    search::{Chosen, SearchPlan},
};
use crate::format::Format;

/// The number of plans that are kept, of a few kilobytes each. The oldest one makes way for a new one.
const KEPT: usize = 32;

/// Whether a plan is kept for later responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlanUse {
    Kept,
    /// The plan serves one text. Keeping it would take the place of plans that requests need.
    Once,
}

/// What a plan of named formats is built from.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) formats: Vec<&'static Format>,
    pub(super) reads: Reads,
    pub(super) chosen: Chosen,
    /// Whether the calls of formats that are safe in any text are detected, too.
    pub(super) with_auto: bool,
}

impl Origin {
    fn is(&self, other: &Self) -> bool {
        // Formats of two configurations may have the same name.
        let same = |(one, two): (&&'static Format, &&'static Format)| std::ptr::eq(*one, *two);
        (self.reads, self.chosen, self.with_auto) == (other.reads, other.chosen, other.with_auto)
            && self.formats.len() == other.formats.len()
            && self.formats.iter().zip(&other.formats).all(same)
    }
}

/// Plans by their origin, the oldest first.
#[derive(Debug)]
pub(super) struct SharedPlans(Mutex<Vec<(Origin, Arc<SearchPlan>)>>);

impl SharedPlans {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Returns the plan of `origin`, which `build` builds if it is not kept.
    pub(super) fn get(
        &self,
        origin: Origin,
        plan_use: PlanUse,
        build: impl FnOnce(&Origin) -> SearchPlan,
    ) -> Arc<SearchPlan> {
        let plans = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, plan)) = plans().iter().find(|(known, _)| known.is(&origin)) {
            return Arc::clone(plan);
        }
        // Other requests do not wait meanwhile.
        let plan = Arc::new(build(&origin));
        if plan_use == PlanUse::Once {
            return plan;
        }
        let mut plans = plans();
        if plans.len() == KEPT {
            plans.remove(0);
        }
        plans.push((origin, Arc::clone(&plan)));
        plan
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::format::ALL;

    fn origin(formats: &[&'static Format]) -> Origin {
        Origin { formats: formats.to_vec(), reads: Reads::ALL, chosen: Chosen::All, with_auto: false }
    }

    #[test]
    fn a_plan_is_built_once_and_the_oldest_one_is_forgotten() {
        let (shared, built) = (SharedPlans::new(), Cell::new(0));
        let get_for = |plan_use, origin: Origin| {
            shared.get(origin, plan_use, |origin| {
                built.set(built.get() + 1);
                SearchPlan::new(&origin.formats, origin.reads, origin.chosen, None)
            })
        };
        let get = |origin| get_for(PlanUse::Kept, origin);
        let plan = get(origin(&ALL[..1]));
        assert!(Arc::ptr_eq(&plan, &get(origin(&ALL[..1]))));
        assert!(Arc::ptr_eq(&plan, &get_for(PlanUse::Once, origin(&ALL[..1]))));
        assert_eq!(built.get(), 1);
        for other in &ALL[1..=KEPT] {
            get_for(PlanUse::Once, origin(&[other]));
        }
        assert_eq!((built.replace(1), shared.0.lock().unwrap().len()), (KEPT + 1, 1));
        assert!(Arc::ptr_eq(&plan, &get(origin(&ALL[..1]))));
        for other in &ALL[1..=KEPT] {
            get(origin(&[other]));
        }
        assert!(!Arc::ptr_eq(&plan, &get(origin(&ALL[..1]))));
        assert_eq!((built.get(), shared.0.lock().unwrap().len()), (KEPT + 2, KEPT));
    }

    #[test]
    fn a_plan_is_shared_only_if_all_that_it_is_built_from_is_the_same() {
        let (one, two) = (ALL[0], ALL[1]);
        let renamed: &'static Format = Box::leak(Box::new(Format { ..*one }));
        let same = origin(&[one, two]);
        assert!(same.is(&origin(&[one, two])));
        let others = [
            origin(&[two, one]),
            origin(&[one]),
            origin(&[renamed, two]),
            Origin { reads: Reads { calls: true, reasoning: false }, ..origin(&[one, two]) },
            Origin { chosen: Chosen::Unquoted, ..origin(&[one, two]) },
            Origin { with_auto: true, ..origin(&[one, two]) },
        ];
        assert!(others.iter().all(|other| !same.is(other)));
    }
}

//! [`RefusedMeans`]: means of enforcement that an upstream has refused, so that it is asked without them for a while.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{config::Model, conversation::Constraint, enforce::Means};

/// How long a refusal is remembered. The server may be updated or started with other options meanwhile.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// The refused means, by model entry: a bounded number.
#[derive(Debug, Default)]
pub(super) struct RefusedMeans {
    by_model: Mutex<HashMap<String, Vec<(Kind, Instant)>>>,
}

/// A means of enforcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Schema,
    Tags,
    Grammar,
    Prefill,
}

impl Kind {
    pub(super) fn of(constraint: &Constraint) -> Self {
        match constraint {
            Constraint::Schema(_) => Self::Schema,
            Constraint::Tags(_) => Self::Tags,
            Constraint::Grammar(_) => Self::Grammar,
            Constraint::Prefill(_) => Self::Prefill,
        }
    }

    /// `means` without this one.
    pub(super) fn removed_from(self, means: Means) -> Means {
        match self {
            Self::Schema => Means { schema: None, ..means },
            Self::Tags => Means { tags: false, ..means },
            Self::Grammar => Means { grammar: false, ..means },
            Self::Prefill => Means { prefill: false, ..means },
        }
    }
}

impl RefusedMeans {
    /// The means of the model's upstream that it has not refused.
    pub(super) fn left(&self, model: &Model) -> Means {
        let means = model.upstream.options.side().means();
        if means == Means::default() {
            return means;
        }
        let by_model = self.by_model.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = by_model.get(&model.name).map(Vec::as_slice).unwrap_or_default();
        let refused = refused.iter().filter(|(_, at)| at.elapsed() < REMEMBERED);
        refused.fold(means, |means, (kind, _)| kind.removed_from(means))
    }

    /// The model's upstream answers once it is asked without these.
    pub(super) fn remember(&self, model: &str, kinds: &[Kind]) {
        let mut by_model = self.by_model.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = by_model.entry(model.to_owned()).or_default();
        for kind in kinds {
            refused.retain(|(known, _)| known != kind);
            refused.push((*kind, Instant::now()));
        }
    }
}
